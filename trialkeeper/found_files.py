"""Files with metrics that a trial makes while it runs: looked for again and again in its output folder."""

from typing import BinaryIO, Callable, Dict, Generic, List, Optional, TypeVar

from trialkeeper import contract
from trialkeeper.kept_files import matching_files

#: Files of one kind that are read; seconds between two looks, and how many times as long as a look takes.
MOST_FILES, LOOK_EVERY, LOOK_RATIO = 100, 1.0, 20.0

Reader = TypeVar("Reader")


class FoundFiles(Generic[Reader]):
    """``make(name, opened)`` gives the reader of a file; ``name`` is its path in the folder. What has become a link, or
    no plain file, cannot be opened.
    """

    def __init__(self, folder: str, patterns: List[str], make: "Callable[[str, Callable[[], BinaryIO]], Reader]",
                 clock: Callable[[], float], log: Callable[[str], None]) -> None:
        self._folder, self._patterns, self._make = folder, patterns, make
        self._clock, self._log = clock, log
        self._known: Dict[str, Reader] = {}
        self._next_look = 0.0
        #: That not all are read.
        self.problem: Optional[contract.MetricProblem] = None

    def new(self, final: bool = False) -> List[Reader]:
        """Readers of the files that are new, by name. ``final``: look, whenever the last look was."""
        began = self._clock()
        if began < self._next_look and not final:
            return []
        files = {file.name: file for pattern in self._patterns
                 for file in matching_files(self._folder, pattern, "", _quiet)}
        made = []
        for name in sorted(files.keys() - self._known.keys()):
            if len(self._known) >= MOST_FILES:
                if self.problem is None:
                    self._log("of %s only %d files are read" % (", ".join(self._patterns), MOST_FILES))
                    self.problem = {"problem": "too_many_files", "detail": ", ".join(self._patterns)}
                break
            self._known[name] = self._make(name, files[name].open)
            made.append(self._known[name])
        now = self._clock()
        self._next_look = now + max(LOOK_EVERY, LOOK_RATIO * (now - began))
        return made


def _quiet(text: str) -> None:
    """What is not taken would be told once in a second."""
