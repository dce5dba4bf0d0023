"""From the trial's files into the journal: metrics, output, and whatever else must be reported."""

import os
from typing import TYPE_CHECKING, Callable, List, Optional

from trialkeeper import contract
from trialkeeper.checkpoints import Checkpoints
from trialkeeper.journal import EarlierRuns, Journal
from trialkeeper.metric_source import CHECKPOINT_MARK, metrics_of
from trialkeeper.output_files import OutputFile

if TYPE_CHECKING:
    from trialkeeper.script_metrics import ScriptMetrics

#: For which the files of a trial are read after its end, and of one that was told to end.
DRAIN_SECONDS, DRAIN_SECONDS_STOPPED = 600.0, 10.0


class Recorder:
    """Reads the files of one attempt and journals what they have. For the keeper's main thread."""

    def __init__(self, folder: str, journal: Journal, limits: contract.LimitsDocument, *, now: Callable[[], float],
                 clock: Callable[[], float], log: Callable[[str], None],
                 notify: Callable[[List[contract.Entry]], None], earlier: Optional[EarlierRuns] = None,
                 script: "Optional[ScriptMetrics]" = None) -> None:
        """``now``: the entries' time; ``clock``: monotonic seconds; ``notify`` hears what the journal has more.

        ``earlier``: what the trial's files say comes behind what it reported in these runs. ``script``: metrics that
        the trial does not report itself.
        """
        self._earlier, self._script = earlier, script
        #: Where the trial has a folder for checkpoints: takes what the trial says of them out of its metrics.
        self.checkpoints: Optional[Checkpoints] = None
        self._journal, self._now, self._clock, self._log, self._notify = journal, now, clock, log, notify
        self._pending: List[contract.Entry] = []
        #: Where the trial's own reports were not read to their ends.
        self._unread: List[str] = []
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

    def pump(self, final: bool = False, may_read: Callable[[], bool] = lambda: True) -> None:
        """Journal what the files have new. While the disk takes nothing they are not read either. ``may_read``: whether
        there is time for more, asked where all are read at last.
        """
        if self._pending and not self.record([]) and not final:
            return
        if self.checkpoints is not None:
            self.checkpoints.look()
        entries = self._metrics.read()
        for output in self._outputs:
            entries += output.look(final, may_read)
        if self._earlier is not None:
            for entry in entries:
                _move_behind(self._earlier, entry)
        entries = without_marks(entries) if self.checkpoints is None else self.checkpoints.take_marks(entries)
        if self._script is not None:
            entries += self._script.read(final, may_read)
        self.record(entries)
        if self.checkpoints is not None and not self._metrics.has_more:
            self.checkpoints.send_complete()

    def drain(self, is_stopped: Callable[[], bool]) -> None:
        """Journal all that is left: nothing of the trial runs any more.

        Its files may be of any size, and something that was left behind may go on writing: they are read for
        DRAIN_SECONDS, and for DRAIN_SECONDS_STOPPED where ``is_stopped``. The problems tell what was left.
        """
        began = self._clock()

        def may_read() -> bool:
            return self._clock() < began + (DRAIN_SECONDS_STOPPED if is_stopped() else DRAIN_SECONDS)

        self.pump()
        while not self._pending and may_read() and (
                self._metrics.has_more or self._script is not None and self._script.has_more):
            self.pump()
        self.pump(final=True, may_read=may_read)
        if self._metrics.has_more:
            self._unread.append(contract.METRICS_FILE)
        self._unread += [output.stream for output in self._outputs if output.has_unread_metrics]

    def conclude_metrics(self, has_ended_well: bool) -> List[contract.MetricProblem]:
        """Journal the final result of a trial that ended well and did not report one itself, after ``drain``, and tell
        what kept the keeper from finding metrics.
        """
        unread: List[contract.MetricProblem] = [
            {"problem": "not_read_in_time", "detail": name} for name in self._unread]
        if self._script is None:
            return unread
        entry = self._script.final_entry() if has_ended_well and not self._journal.has_final else None
        if entry is not None:
            self.record([entry])
        return unread + self._script.problems(has_ended_well and entry is None and not self._journal.has_final)


def without_marks(entries: List[contract.Entry]) -> List[contract.Entry]:
    """The metrics among what was read: not what the trial says of its checkpoints."""
    return [entry for entry in entries if entry.get("kind") != CHECKPOINT_MARK]


def _move_behind(earlier: EarlierRuns, entry: contract.Entry) -> None:
    """A trial that is run once more counts its results and its output from 0 again."""
    if entry["type"] == contract.OUTPUT:
        entry["offset"] += earlier.ends_of_output.get(entry["stream"], 0)
    elif entry.get("kind") == contract.PERIODICAL:
        entry["sequence"] += earlier.next_sequence
