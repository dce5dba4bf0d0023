"""From the trial's files into the journal: metrics, output, and whatever else must be reported."""

import os
from typing import Callable, List

from trialkeeper import contract
from trialkeeper.journal import Journal
from trialkeeper.metric_source import metrics_of
from trialkeeper.output_files import OutputFile


class Recorder:
    """Reads the files of one attempt and journals what they have. For the keeper's main thread."""

    def __init__(self, folder: str, journal: Journal, limits: contract.LimitsDocument, *, now: Callable[[], float],
                 clock: Callable[[], float], log: Callable[[str], None],
                 notify: Callable[[List[contract.Entry]], None]) -> None:
        """``now``: the entries' time; ``clock``: monotonic seconds; ``notify`` hears what the journal has more."""
        self._journal, self._now, self._log, self._notify = journal, now, log, notify
        self._pending: List[contract.Entry] = []
        self._metrics = metrics_of(journal.positions,
                                   os.path.join(folder, contract.NNI_FOLDER, contract.METRICS_FILE))
        self._outputs = [OutputFile(os.path.join(folder, name), stream, limits, journal, clock)
                         for name, stream in ((contract.STDOUT_FILE, "stdout"), (contract.STDERR_FILE, "stderr"))]

    def record(self, entries: List[contract.Entry]) -> bool:
        """Journal the entries; False while the disk takes none: they are kept and go with the next ones."""
        now = self._now()
        for entry in entries:
            entry["at"] = now
        had_trouble = bool(self._pending)
        self._pending += entries
        if not self._pending:
            return True
        try:
            self._journal.append(self._pending)
        except OSError as error:
            if not had_trouble:
                self._log("the journal cannot be written, it will be tried again: %s" % error)
            return False
        written, self._pending = self._pending, []
        self._notify(written)
        return True

    def pump(self, final: bool = False) -> None:
        """Journal what the files have new. While the disk takes nothing they are not read either."""
        if self._pending and not self.record([]) and not final:
            return
        entries = self._metrics.read()
        for output in self._outputs:
            entries += output.look(final)
        self.record(entries)

    def drain(self) -> None:
        """Journal all that is left: nothing of the trial runs any more."""
        self.pump()
        while self._metrics.has_more and not self._pending:
            self.pump()
        self.pump(final=True)
