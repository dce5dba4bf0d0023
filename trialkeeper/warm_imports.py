"""What a parent of warm trials imports, and whether it can be forked afterwards.

Runs in the trial's Python beside ``warm_parent.py``, from CPython 3.6 on.
"""

import os
import sys

TYPE_CHECKING = False  # typing itself would be loaded in each trial
if TYPE_CHECKING:
    from typing import Any, FrozenSet, List, Set, Tuple

#: Characters of what is told of a refusal.
MOST_DETAIL = 500
#: Descriptors of its own that a program has at its start.
STANDARD = (0, 1, 2)


class Refused(Exception):
    """Trials cannot be forked from this process. ``reason``: {"cause", "detail"}."""

    def __init__(self, cause: str, detail: str = "") -> None:
        super().__init__(cause)
        self.reason = {"cause": cause, "detail": detail[:MOST_DETAIL]}


def import_modules(names: "List[str]", trial_variables: "Set[str]", skip_missing: bool) -> "List[str]":
    """Those that were imported. Raises Refused where one fails, or reads a variable that each trial has its own of.

    ``skip_missing``: leave out what cannot be imported; nobody has named it.
    """
    import importlib
    for name in trial_variables:
        os.environ.pop(name, None)
    read: "List[str]" = []
    data = os.environ._data  # type: ignore[attr-defined]

    class Watched(dict):  # type: ignore[type-arg]
        def __missing__(self, key: bytes) -> "Any":
            name = os.fsdecode(key)
            if name in trial_variables:
                read.append(name)
            raise KeyError(key)

    os.environ._data = Watched(data)  # type: ignore[attr-defined]
    done = []
    try:
        for name in names:
            if name in sys.modules:
                done.append(name)
                continue
            try:
                importlib.import_module(name)
                done.append(name)
            except BaseException as error:
                if read:
                    raise Refused("reads", "%s, %s" % (name, read[0])) from error
                if skip_missing and isinstance(error, ImportError):
                    continue
                raise Refused("import", "%s (%s: %s)" % (name, type(error).__name__, error)) from error
            if read:
                raise Refused("reads", "%s, %s" % (name, read[0]))
    finally:
        os.environ._data = dict(os.environ._data)  # type: ignore[attr-defined]
    return done


def watched_files(loaded_at_start: "FrozenSet[str]") -> "Set[str]":
    """What a change of makes another parent: files of loaded modules, folders of installed packages, Python."""
    files = {sys.executable, os.path.join(sys.prefix, "pyvenv.cfg")}
    # no other folders of the path: trials may write their results into these
    files.update(path for path in sys.path if os.path.basename(path) in ("site-packages", "dist-packages"))
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__dict__", {}).get("__file__")  # a lazy module would be loaded by getattr
        if isinstance(path, str) and name not in loaded_at_start and os.path.isabs(path):
            files.add(path)
    return files


def stamp_of(path: str) -> "Tuple[int, int]":
    """Changes when the file does."""
    try:
        status = os.stat(path)
    except OSError:
        return (0, 0)
    return (status.st_mtime_ns, status.st_ino)


def open_files() -> "Set[str]":
    """What this process has open, less what it was given at its start."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            if int(name) not in STANDARD:
                found.add(os.readlink("/proc/self/fd/" + name))
        except OSError:
            pass  # the one that listed them
    return {path for path in found if not path.startswith("/proc/")}


def refuse_what_does_not_fork(files_before: "Set[str]") -> None:
    """Raises Refused where the imports have made this process one that cannot be forked.

    ``files_before``: what was open before them.
    """
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    if cuda is not None and getattr(cuda, "is_initialized", bool)():
        raise Refused("cuda")
    opened = sorted(open_files() - files_before)
    if any(path.startswith("/dev/nvidia") for path in opened):
        raise Refused("cuda")
    if opened:
        raise Refused("files", ", ".join(opened))
    # libraries that can be forked (OpenBLAS) end their threads themselves before a fork
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    threads = len(os.listdir("/proc/self/task"))
    if threads > 1:
        raise Refused("threads", str(threads - 1))


def resident_bytes() -> int:
    """Memory of this process."""
    with open("/proc/self/statm") as stream:
        return int(stream.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
