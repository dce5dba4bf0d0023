"""Metrics that a trial does not report itself: read from what it prints and writes, and made into its results."""

import json
import os
import re
from typing import Any, BinaryIO, Callable, Dict, Iterator, List, Optional, Protocol

from trialkeeper import contract
from trialkeeper.document_metrics import JsonFile
from trialkeeper.event_files import EventFile
from trialkeeper.found_files import FoundFiles
from trialkeeper.journal import Journal, read_entries
from trialkeeper.line_metrics import LineMetrics
from trialkeeper.mlflow_calls import MlflowMetrics
from trialkeeper.step_groups import Measured, StepGroups
from trialkeeper.table_metrics import TableFile

#: A source is read so often at one look while it has more.
READS_PER_LOOK = 8
#: Problems that are told of, and names in one.
MOST_TOLD = 10
#: What TensorBoard takes for its files.
EVENT_FILES = ["**/*tfevents*"]
#: Metrics beside the result that are reported, and characters of their names: a server keeps no more.
MOST_OTHERS, LONGEST_NAME = 50, 100


class Source(Protocol):
    """Something that metrics are read from."""

    #: Its name in the journal's positions.
    source: str

    @property
    def has_more(self) -> bool:
        """Whether the last ``read`` left something for the next."""

    @property
    def problem(self) -> Optional[contract.MetricProblem]:
        """Why it is not read any more."""

    def read(self, final: bool = False) -> List[Measured]:
        """What came since the last call. ``final``: nothing will come any more."""


class ScriptMetrics:
    """Call ``read`` again and again, and ``final_entry`` when the trial has ended well. For the main thread."""

    def __init__(self, document: contract.MetricsDocument, journal: Journal, journal_path: str, parameter_id: Any,
                 sources: List[Source], found: "List[FoundFiles[Source]]",
                 unusable: List[contract.MetricProblem], clock: Callable[[], float]) -> None:
        """Goes on where the journal ends. ``found``: further sources. ``unusable``: problems of those that there
        are not. ``clock``: monotonic seconds.
        """
        self._result, self._main = document["result"], document.get("main", "default")
        self._final = document.get("final", contract.LAST)
        self._greater_is_better = document.get("greater_is_better", True)
        self._journal, self._parameter_id, self._clock = journal, parameter_id, clock
        self._sources = [(source, StepGroups()) for source in sources]
        self._found, self._unusable = found, unusable
        #: Sources that were not read to their ends.
        self._unread: List[str] = []
        self._next_sequence = 0
        #: The last value of each metric beside the result.
        self._others: Dict[str, float] = {}
        #: The result that is the final one so far, with the others of its time.
        self._chosen: Optional[Dict[str, float]] = None
        if journal.last_n:
            self._take_up(journal_path)

    @property
    def has_more(self) -> bool:
        """Whether the last ``read`` left something for the next."""
        return any(source.has_more for source, _ in self._sources)

    def read(self, final: bool = False, may_go_on: Callable[[], bool] = lambda: True) -> List[contract.Entry]:
        """The intermediate results that came since the last call. ``final``: nothing will come any more, and all that
        is left is read as long as ``may_go_on`` says so.
        """
        entries: List[contract.Entry] = []
        now = self._clock()
        self._sources += [(source, StepGroups()) for found in self._found for source in found.new(final)]
        for source, groups in self._sources:
            complete: List[Measured] = []
            for measured in _all_of(source, may_go_on) if final else _next_of(source):
                complete += groups.add(measured, now)
            if final and source.has_more:
                self._unread.append(source.source)
            complete += groups.close(None if final else now)
            for group in complete:
                entries += self._results(group, source.source)
        return entries

    def problems(self, has_no_result: bool) -> List[contract.MetricProblem]:
        """What kept the keeper from finding metrics, once each. ``has_no_result``: of a trial that ended well."""
        found = [source.problem for source, _ in self._sources if source.problem is not None]
        found += [files.problem for files in self._found if files.problem is not None]
        found += self._unusable
        found += [{"problem": "not_read_in_time", "detail": name} for name in self._unread]
        if has_no_result:
            found.append({"problem": "no_result", "detail": ", ".join(list(self._others)[:MOST_TOLD])})
        return found[:MOST_TOLD]

    def final_entry(self) -> Optional[contract.Entry]:
        """The final result, None where there was no value."""
        return None if self._chosen is None else self._entry(contract.FINAL, 0, self._chosen)

    def _results(self, group: Measured, source: str) -> List[contract.Entry]:
        values = group.values
        for name, value in values.items():
            if name in self._others or name != self._result and len(self._others) < MOST_OTHERS \
                    and len(name) <= LONGEST_NAME and name != self._main:
                self._others[name] = value
        if self._result not in values:
            return []
        result = {self._main: values[self._result], **self._others}
        self._note(result)
        if self._final == contract.AT_EXIT:
            return []
        entry = self._entry(contract.PERIODICAL, max(self._journal.next_sequence, self._next_sequence), result)
        self._next_sequence = entry["sequence"] + 1
        entry["position"] = [source, group.position]
        return [entry]

    def _note(self, result: Dict[str, float]) -> None:
        if self._final == contract.BEST and self._chosen is not None:
            value, best = result[self._main], self._chosen[self._main]
            # a value that is none (NaN) is not better than any
            if best == best and not (value > best if self._greater_is_better else value < best):
                return
        self._chosen = result

    def _entry(self, kind: str, sequence: int, result: Dict[str, float]) -> contract.Entry:
        value = json.dumps(result if len(result) > 1 else result[self._main])
        return {"type": contract.METRIC, "kind": kind, "parameter_id": self._parameter_id, "sequence": sequence,
                "value": value}

    def _take_up(self, journal_path: str) -> None:
        """What the results that are in the journal say of the final one."""
        for entry in read_entries(journal_path)[1]:
            if entry["type"] != contract.METRIC or entry["kind"] != contract.PERIODICAL or not entry["value"]:
                continue
            try:
                value = json.loads(entry["value"])
            except ValueError:
                continue
            result = value if isinstance(value, dict) else {self._main: value}
            if isinstance(result.get(self._main), (int, float)):
                self._others.update((name, item) for name, item in result.items() if name != self._main)
                self._note(result)


def _next_of(source: Source) -> Iterator[Measured]:
    """What came since the last call; of very much a part, so that the keeper does other things as well."""
    yield from source.read()
    for _ in range(READS_PER_LOOK - 1):
        if not source.has_more:
            return
        yield from source.read()


def _all_of(source: Source, may_go_on: Callable[[], bool]) -> Iterator[Measured]:
    """What is left of it, as nothing will come any more."""
    yield from source.read()
    while source.has_more and may_go_on():
        yield from source.read()
    if not source.has_more:
        yield from source.read(final=True)


def script_metrics(job: contract.JobDocument, folder: str, journal: Journal, clock: Callable[[], float],
                   log: Callable[[str], None]) -> Optional[ScriptMetrics]:
    """As the job asks for it. None where the trial reports its metrics itself. ``folder``: the attempt's."""
    document = job.get("metrics")
    if not document:
        return None
    sources: List[Source] = []
    unusable: List[contract.MetricProblem] = []
    for stream, name in (("stdout", contract.STDOUT_FILE), ("stderr", contract.STDERR_FILE)):
        pattern = document.get(stream)
        source = "lines of " + stream
        if isinstance(pattern, str):
            try:
                sources.append(LineMetrics(os.path.join(folder, name), source, pattern,
                                           journal.positions.get(source, 0), log))
            except re.error as error:  # another version of Python than the server's
                log("the pattern for %s cannot be used with this Python: %s" % (stream, error))
                unusable.append({"problem": "unknown_pattern", "detail": stream})

    def table(name: str, opened: Callable[[], BinaryIO]) -> Source:
        source = "file " + name
        reached = journal.positions.get(source)
        if not name.lower().endswith(".json"):
            return TableFile(opened, name, source, reached)
        return JsonFile(opened, source, reached, lambda: TableFile(opened, name, source, reached))

    def events(name: str, opened: Callable[[], BinaryIO]) -> Source:
        source = "events " + name
        return EventFile(opened, source, name, document["tensorboard"], journal.positions.get(source, 0))

    output = os.path.join(folder, contract.NNI_FOLDER)
    if document.get("mlflow"):
        sources.append(MlflowMetrics(output, "mlflow", journal.positions.get("mlflow", 0)))
    found = [FoundFiles(output, patterns, make, clock, log) for patterns, make in (
        (document.get("files"), table), (EVENT_FILES if document.get("tensorboard") else None, events)) if patterns]
    return ScriptMetrics(document, journal, os.path.join(folder, contract.JOURNAL_FILE), _parameter_id(job), sources,
                         found, unusable, clock)


def _parameter_id(job: contract.JobDocument) -> Any:
    parameters = job.get("parameters")
    try:
        return json.loads(parameters[0]["text"])["parameter_id"] if parameters else None
    except (ValueError, KeyError, TypeError):
        return None
