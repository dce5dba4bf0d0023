"""The trial's folder of checkpoints (contract.ENV_CHECKPOINTS): which checkpoints in it are complete.

Names that begin with a dot or end with one of UNFINISHED are work in progress. A link to a checkpoint beside it, such
as ``last -> epoch-3``, is another name of that one. Any other file or folder is complete

* at once where our ``nni`` module has announced it (``announce``), or where it has got its name by a rename: that
  changes a file's status (ctime) and not its content (mtime), and a file that is being written has both the same;
* else, where a program writes under the last name itself, when nothing in it has changed for SETTLED seconds.

Hard links to what is complete are laid aside until it was sent: a trial may replace or remove it meanwhile.
"""

import contextlib
import json
import os
import re
import shutil
import stat
from typing import Callable, Dict, List, NamedTuple, Optional, Set, Tuple

from trialkeeper import contract
from trialkeeper.checkpoint_entry import is_name, is_text
from trialkeeper.folder_removal import remove_tree
from trialkeeper.whole_number import whole_number

#: Endings of names of what is being written.
UNFINISHED = (".tmp", ".temp", ".part", ".partial", ".incomplete", "~")
#: Seconds without a change after which what was written in place counts as complete.
SETTLED = 5.0
#: Name and step of the latest checkpoint, for our ``nni`` module: {"name", "step"}.
LATEST_WITH_STEP = ".latest.json"
#: Where one is put together that the trial goes on with, in the folder of checkpoints.
RESTORING = ".restoring"
#: Folder beside the trial's for what waits to be sent.
SENDING_FOLDER = "checkpoints_to_send"
#: A number in a name, and the letters before it. No longer than what fits into a column of whole numbers.
_NUMBER = re.compile("([A-Za-z]*)[-_= ]?(?<![0-9])([0-9]{1,15})(?![0-9])")
#: Announcements that are remembered while what they announce does not come.
MOST_ANNOUNCED = 100
#: Most files of a checkpoint that are looked at to see whether it changes.
_MOST_LOOKED_AT = 2000


class Complete(NamedTuple):
    """A checkpoint that is complete. ``changed``: when it changed last, by the file system (seconds), also by getting
    its name. ``written``: when its content did. ``is_named``: the trial has named it as its latest.
    """

    name: str
    step: Optional[int]
    changed: float
    written: float
    is_named: bool


#: Names of what may be checkpoints, and what they are.
Listing = List[Tuple[str, os.stat_result]]


class CheckpointFolder:
    """For the keeper's main thread."""

    def __init__(self, attempt_folder: str, now: Callable[[], float]) -> None:
        """``now``: seconds since 1970."""
        self.path = os.path.join(attempt_folder, contract.CHECKPOINTS_FOLDER)
        self._sending = os.path.join(attempt_folder, SENDING_FOLDER)
        self._now = now
        #: An earlier keeper has laid checkpoints aside: links that come and go change a file's status (ctime).
        self._was_linked = os.path.isdir(self._sending)
        #: Name -> what it was when it was taken.
        self._taken: Dict[str, Tuple[int, int, int]] = {}
        #: Name of a folder -> its number, and how much was in it when it was taken.
        self._contents: Dict[str, Tuple[int, int]] = {}
        self._announced: Dict[str, Optional[int]] = {}
        self._seen_at: Optional[int] = None
        #: Names of those written in place that have not rested for long enough.
        self._waiting: List[str] = []
        #: Printable names of what no checkpoint can be: those seen last, and those that were told.
        self._wrong: List[str] = []
        self._told_wrong: Set[str] = set()

    def make(self) -> None:
        """Raises OSError."""
        os.makedirs(self.path, mode=0o700, exist_ok=True)

    @property
    def is_left_over(self) -> bool:
        """Whether an earlier run of this job has left something in it. Ask before this run's trial is started."""
        try:
            return bool(os.listdir(self.path))
        except OSError:  # none, or one that the trial has closed
            return os.path.lexists(self.path)

    def remove_left_over(self) -> None:
        """Remove what an earlier run has left: it may never have come to the server. Then the folder is there.

        Raises OSError.
        """
        if os.path.lexists(self.path) and self._leads_elsewhere():
            os.unlink(self.path)
        elif self.is_left_over:
            remove_tree(self.path)
        self.make()

    def announce(self, name: str, step: Optional[int]) -> None:
        """The trial renames one to this name now."""
        self._announced[name] = step
        while len(self._announced) > MOST_ANNOUNCED:
            del self._announced[next(iter(self._announced))]

    def has_news(self) -> bool:
        """Whether a look may find something; of a trial without checkpoints this costs one ``stat``."""
        if self._announced or self._taken or self._waiting:  # a file that is written anew does not change its folder
            return True
        try:
            return os.stat(self.path).st_mtime_ns != self._seen_at
        except OSError:
            return False

    @property
    def is_awaited(self) -> bool:
        """Whether one that the trial has announced was not seen yet."""
        return bool(self._announced)

    def unfinished(self) -> List[str]:
        """Names of what was being written, by name or when it was seen last; at most a hundred."""
        try:
            names = os.listdir(self.path)
        except OSError:
            return []
        return sorted({name for name in names if name.startswith(".saving-") or name.endswith(UNFINISHED)}
                      | set(self._waiting))[:100]

    def take_wrong_names(self) -> List[str]:
        """Printable names of what no checkpoint can be, of the last listing: what is no text, or neither a file nor a
        folder, and the folder where it leads elsewhere. Each is told once, a hundred at most.
        """
        found = sorted(set(self._wrong) - self._told_wrong)[:MOST_ANNOUNCED - len(self._told_wrong)]
        self._told_wrong.update(found)
        return found

    def forget(self, name: str) -> None:
        """It changed while it was read: it is to be found anew."""
        self._taken.pop(name, None)

    def listing(self) -> Listing:
        """What is there now. What a trial announces is in its metrics file before it is here."""
        self._wrong = []
        try:
            self._seen_at = os.stat(self.path).st_mtime_ns
            if self._leads_elsewhere():
                self._wrong.append(contract.CHECKPOINTS_FOLDER)
                return []
            names = os.listdir(self.path)
        except OSError:
            return []
        found: Listing = []
        for name in names:
            if not is_text(name) and not name.startswith("."):
                self._wrong.append(name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace"))
            if is_name(name) and not name.endswith(UNFINISHED):
                try:
                    seen = os.stat(os.path.join(self.path, name), follow_symlinks=False)
                except OSError:
                    continue
                if stat.S_ISREG(seen.st_mode) or stat.S_ISDIR(seen.st_mode):
                    found.append((name, seen))
                elif name in self._announced or not self._is_other_name(name):
                    self._announced.pop(name, None)
                    self._wrong.append(name)
        return found

    def take_complete(self, listing: Listing, has_ended: bool = False) -> List[Complete]:
        """What is complete of it and was not taken before, the oldest first.

        Call it when everything was announced that the trial wrote before the listing. ``has_ended``: nothing is written
        any more.
        """
        found: List[Complete] = []
        waiting: List[Tuple[str, os.stat_result, float]] = []
        there = {name for name, _ in listing}
        self._taken = {name: state for name, state in self._taken.items() if name in there}
        self._contents = {name: content for name, content in self._contents.items() if name in there}
        for name, seen in listing:
            state = _state(seen)
            if self._taken.get(name) == state:
                continue
            said = name in self._announced
            if not said and self._is_being_removed(name, seen):
                self._taken[name] = state
                continue
            changed = seen.st_mtime if self._was_linked else max(seen.st_mtime, seen.st_ctime)
            if not said and not has_ended and seen.st_ctime_ns <= seen.st_mtime_ns:
                changed = self._last_change(name, seen)
                if self._now() - changed < SETTLED:
                    waiting.append((name, seen, changed))
                    continue
            self._note_taken(name, seen)
            found.append(Complete(name, self._announced.pop(name) if said else step_of(name), changed,
                                  seen.st_mtime, said))
        found.sort(key=lambda one: one.changed)
        for name, seen, changed in waiting:
            if found and changed < found[-1].changed:
                self._note_taken(name, seen)  # later it would take the place of one that is newer
        self._waiting = [name for name, seen, _ in waiting if self._taken.get(name) != _state(seen)]
        return found

    def take_as_found(self, name: str) -> None:
        """What was put back there is not found anew."""
        try:
            seen = os.stat(os.path.join(self.path, name), follow_symlinks=False)
        except OSError:
            return
        self._note_taken(name, seen)

    def name_latest(self, name: str, step: Optional[int]) -> None:
        """Have the trial, should it ask, go on with this one. Raises OSError."""
        for file, text in ((LATEST_WITH_STEP, json.dumps({"name": name, "step": step})), (contract.LATEST_FILE, name)):
            draft = os.path.join(self.path, ".keeper-names-latest")
            with contextlib.suppress(FileNotFoundError):
                os.unlink(draft)
            with open(draft, "x", encoding="utf-8") as stream:  # a link that the trial has put there is not followed
                stream.write(text)
            os.replace(draft, os.path.join(self.path, file))

    def set_aside(self, name: str, k: int) -> str:
        """The folder in which the checkpoint stays as it is now: with hard links where the file system can."""
        aside = os.path.join(self._sending, str(k))
        try:
            os.makedirs(aside, mode=0o700, exist_ok=True)
            _link_tree(os.path.join(self.path, name), os.path.join(aside, name))
        except OSError:  # another file system, none with links, a full disk, a checkpoint that is being removed
            shutil.rmtree(aside, ignore_errors=True)
            return self.path
        return aside

    def let_go(self, folder: str) -> None:
        """What ``set_aside`` gave is not needed any more."""
        if folder != self.path:
            shutil.rmtree(folder, ignore_errors=True)

    def clean_up(self) -> None:
        """Remove what an earlier keeper had set aside, or had not finished putting back."""
        shutil.rmtree(self._sending, ignore_errors=True)
        shutil.rmtree(os.path.join(self.path, RESTORING), ignore_errors=True)

    def _leads_elsewhere(self) -> bool:
        """Whether the trial has put a link in the folder's place: what is there is not its own. Raises OSError."""
        return not stat.S_ISDIR(os.lstat(self.path).st_mode)

    def _is_other_name(self, name: str) -> bool:
        """Whether it is a link to a checkpoint beside it, as ``last -> epoch-3``. The checkpoint may be gone by now."""
        folder = os.path.realpath(self.path)
        leads_to = os.path.realpath(os.path.join(folder, name))
        if os.path.dirname(leads_to) != folder:
            return False
        beside = os.path.basename(leads_to)
        return beside != name and is_name(beside) and not beside.endswith(UNFINISHED) and not os.path.islink(leads_to)

    def _note_taken(self, name: str, seen: os.stat_result) -> None:
        self._taken[name] = _state(seen)
        if stat.S_ISDIR(seen.st_mode):
            self._contents[name] = seen.st_ino, self._number_of_entries(name)

    def _is_being_removed(self, name: str, seen: os.stat_result) -> bool:
        """Whether less is in the folder than when it was taken: libraries remove old checkpoints file by file."""
        number, most = self._contents.get(name, (0, 0))
        return stat.S_ISDIR(seen.st_mode) and seen.st_ino == number and self._number_of_entries(name) < most

    def _number_of_entries(self, name: str) -> int:
        number = 0
        for _, folders, files in os.walk(os.path.join(self.path, name)):
            number += len(folders) + len(files)
            if number > _MOST_LOOKED_AT:
                break
        return number

    def _last_change(self, name: str, seen: os.stat_result) -> float:
        """When anything in it changed last. Of a file it is its own time."""
        latest = seen.st_mtime
        if not stat.S_ISDIR(seen.st_mode):
            return latest
        looked_at = 0
        for parent, folders, files in os.walk(os.path.join(self.path, name)):
            for inner in folders + files:
                looked_at += 1
                if looked_at > _MOST_LOOKED_AT:
                    return latest
                try:
                    latest = max(latest, os.stat(os.path.join(parent, inner), follow_symlinks=False).st_mtime)
                except OSError:
                    continue
        return latest


def _state(seen: os.stat_result) -> Tuple[int, int, int]:
    return seen.st_ino, seen.st_mtime_ns, seen.st_size


def step_of(name: str) -> Optional[int]:
    """The step that a name tells: the number after its last "step" or "epoch", else its last number; None without one.

    ``checkpoint-500``, ``step-12``, ``epoch=3-step=40.ckpt``, ``model.012.h5``: 500, 12, 40, 12. An ending such as
    ``.h5`` is none.
    """
    stem, dot, ending = name.rpartition(".")
    numbers = _NUMBER.findall(stem if dot and stem and whole_number(ending) is None else name)
    if not numbers:
        return None
    named = {word.lower(): digits for word, digits in numbers}
    return whole_number(named.get("step") or named.get("epoch") or numbers[-1][1])


def _link_tree(source: str, target: str) -> None:
    if not os.path.isdir(source) or os.path.islink(source):
        os.link(source, target, follow_symlinks=False)
        return
    os.mkdir(target, 0o700)
    seen: Set[str] = set()
    for name in os.listdir(source):
        if len(seen) > contract.MAX_CHECKPOINT_FILES:
            return
        seen.add(name)
        _link_tree(os.path.join(source, name), os.path.join(target, name))
