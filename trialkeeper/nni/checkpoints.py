"""Checkpoints of a trial: a folder of its own, from which each next attempt of the trial goes on.

NNI's own package has none of this; a trial that uses it, or is no Python program, writes to the folder
NNI_CHECKPOINT_DIR under a name that begins with a dot, and renames what is complete.
"""

import _thread  # threading would be loaded for the first time in most scripts
import contextlib
import os

TYPE_CHECKING = False  # typing itself would cost more than all the rest
if TYPE_CHECKING:
    from typing import Iterator

#: So many of the checkpoints that this process has saved stay in the folder.
KEPT = 2

_one_at_a_time = _thread.allocate_lock()  # for the threads that have written one
_saved = []  # type: list[str]  # names that got theirs from save_checkpoint, the oldest first
_number = 0  # of the next checkpoint without a step
_standalone = ""  # the folder of a process without an experiment


class Checkpoint(str):
    """The path of a checkpoint: a file or a folder, as it was saved. ``step``: the one it was saved with, or None."""

    step = None  # type: int | None


def load_checkpoint() -> "Checkpoint | None":
    """The latest checkpoint of this trial, also of an earlier attempt on another machine; None where there is none."""
    import json
    folder = os.environ.get("NNI_CHECKPOINT_DIR") or _standalone
    try:
        with open(os.path.join(folder, ".latest.json"), encoding="utf-8") as stream:
            latest = json.load(stream)
        checkpoint = Checkpoint(os.path.join(folder, latest["name"]))
        checkpoint.step = latest["step"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return checkpoint if folder and os.path.exists(checkpoint) else None


@contextlib.contextmanager
def save_checkpoint(path: "str | None" = None, step: "int | None" = None) -> "Iterator[str]":
    """Save a checkpoint: what the block writes to the path it is given, a file or a folder.

        with nni.save_checkpoint(step=epoch) as path:
            torch.save(state, path)

    It counts when the block has ended without an error. ``path``: its name (default: ``step-<step>``); a checkpoint
    of that name is replaced. ``step``: how far the trial is, such as the epoch, counted from 0. The last two that this
    process has saved stay in the folder; what the server keeps, the experiment's ``checkpoints`` says.
    """
    global _number
    step = _whole(step)
    folder = _folder()
    name = path
    if name is None:
        name = "checkpoint-%d" % _number if step is None else "step-%d" % step
        _number += 1
    if name in ("", ".", "..", "latest") or "/" in name or name.startswith("."):
        raise ValueError("\"%s\" is no name of a checkpoint: it must be one part of a path, and not begin with a dot"
                         % name)
    draft = os.path.join(folder, ".saving-%s-%s" % (_me(), name))
    _remove(draft)
    try:
        yield draft
        if not os.path.lexists(draft):
            raise FileNotFoundError("nothing was written to the path that save_checkpoint gave: %s" % draft)
        with _one_at_a_time:
            _announce(name, step)
            _put_in_place(draft, folder, name)
            _name_latest(folder, name, step)
            _drop_older(folder, name)
    finally:
        _remove(draft)


def _whole(step: "int | None") -> "int | None":
    """The step as a plain number: numpy's whole numbers are welcome."""
    if step is None:
        return None
    try:
        number = step.__index__()
    except AttributeError:
        number = 2 ** 63
    if abs(number) >= 2 ** 63:
        raise ValueError("step must be a whole number from -2**63 + 1 to 2**63 - 1, not %r" % (step,))
    return number


def _put_in_place(draft: str, folder: str, name: str) -> None:
    place = os.path.join(folder, name)
    if os.path.isdir(place) or os.path.isdir(draft):  # a folder does not take another's place
        old = os.path.join(folder, ".saving-%s-old" % _me())
        _remove(old)
        if os.path.lexists(place):
            os.rename(place, old)
        os.rename(draft, place)
        _remove(old)
    else:
        os.rename(draft, place)


def _name_latest(folder: str, name: str, step: "int | None") -> None:
    import json
    for file, text in ((".latest.json", json.dumps({"name": name, "step": step})), ("latest", name)):
        draft = os.path.join(folder, ".%s-%s" % (file.lstrip("."), _me()))
        with open(draft, "w", encoding="utf-8") as stream:
            stream.write(text)
        os.rename(draft, os.path.join(folder, file))


def _me() -> str:
    """A part of names that no other thread or process has."""
    return "%d-%d" % (os.getpid(), _thread.get_ident())


def _announce(name: str, step: "int | None") -> None:
    """Have the keeper look for it at once, and know after which results it was saved."""
    try:
        from .trial import tell_keeper
    except ImportError:  # the official package is the rest of nni: the keeper sees what is renamed
        return
    tell_keeper({"type": "CHECKPOINT", "name": name, "step": step})


def _drop_older(folder: str, name: str) -> None:
    if name in _saved:
        _saved.remove(name)
    _saved.append(name)
    while len(_saved) > KEPT:
        _drop(folder, _saved.pop(0))


def _drop(folder: str, name: str) -> None:
    """Remove a checkpoint. Under its own name it stays whole until it is gone."""
    aside = os.path.join(folder, ".dropped-%s-%s" % (_me(), name))
    with contextlib.suppress(OSError):  # the trial has removed it itself
        os.rename(os.path.join(folder, name), aside)
        _remove(aside)


def _folder() -> str:
    global _standalone
    folder = os.environ.get("NNI_CHECKPOINT_DIR")
    if folder:
        return folder
    if not _standalone:  # the script runs without an experiment: it works, and nothing stays
        import atexit
        import shutil
        import tempfile
        _standalone = tempfile.mkdtemp(prefix="nni-checkpoints-")
        atexit.register(shutil.rmtree, _standalone, ignore_errors=True)
    return _standalone


def _remove(path: str) -> None:
    import shutil
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, ignore_errors=True)
        if os.path.lexists(path):
            _open_folders(path)
            shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            os.remove(path)


def _open_folders(path: str) -> None:
    """Let the trial change what it has closed to itself. Root may change it all the same, other users may not."""
    with contextlib.suppress(OSError):
        os.chmod(path, 0o700)
    for parent, folders, _ in os.walk(path):  # it lists a folder after its parent was yielded
        for folder in (os.path.join(parent, name) for name in folders):
            if not os.path.islink(folder):
                with contextlib.suppress(OSError):
                    os.chmod(folder, 0o700)
