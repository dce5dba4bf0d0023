"""Reads a keeper's report: the one place that says which reports and entries are right.

Pure functions without threads, clocks or storage; every server of the keeper protocol calls them
(``trainingservice.receiver.keeper_receiver`` and the web application's keeper endpoints).

Three kinds of wrong are told apart:

* the body cannot be read at all, or is too large: ``RefusedReport`` (400, 413), nothing changes;
* the numbers leave a gap: ``Gap`` (409), nothing changes;
* one entry is wrong: it is ``Rejected`` with the name of the field, its number counts as taken,
  and the entries behind it are not held up.

Texts of accepted entries may hold NUL and lone surrogates where a trial gave them so (``value``
and ``parameter_id`` of a metric); who stores them must be able to. All other texts are made
storable: such characters become U+FFFD there.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, TypeGuard

from trainingservice.keeper.out_of_memory import read_out_of_memory
from trainingservice.limited_json import storable
from trainingservice.words.shown_value import shown
from trialkeeper import contract
from trialkeeper.checkpoint_manifest import is_hash

#: Versions of the wire that are understood: the current one and the one before.
VERSIONS = frozenset({contract.PROTOCOL_VERSION, max(1, contract.PROTOCOL_VERSION - 1)})
#: Longest text of a name (host, machine id, journal id), in characters.
MAX_NAME = 255
#: Longest journal id.
MAX_JOURNAL_ID = 64
#: Longest path.
MAX_PATH = 4096
#: The sentence of an ``ended`` entry is cut to this length: an end must not be lost for a long text.
MAX_MESSAGE = 4000
#: The detail of a checkpoint that failed is cut to this length, for the same reason.
MAX_DETAIL = 500
#: Of one trial's metrics.
MAX_PROBLEMS = 10
#: Most GPUs one trial can name.
MAX_GPUS = 1024

_INT32, _INT64 = 2**31 - 1, 2**63 - 1


class RefusedReport(Exception):
    """The report is not taken and nothing changes. ``str(error)`` says why, for the keeper's log."""

    def __init__(self, status: int, error: str, message: str, retry_after: int | None = None) -> None:
        super().__init__(storable(message))  # it may quote the report, and is sent and stored
        self.status = status  #: HTTP status
        self.error = error    #: one of ``contract.ERROR_*``
        self.retry_after = retry_after  #: seconds to stay away, None: not said

    def document(self, installation: str) -> dict[str, Any]:
        """The body of the answer."""
        return {"installation": installation, "error": self.error, "message": str(self)}


class UnspokenVersion(RefusedReport):
    """The keeper's version of the wire is none of VERSIONS. Not the report's fault: it can be taken by another server.
    """

    def __init__(self, version: object) -> None:
        super().__init__(400, contract.ERROR_UNREADABLE,
                         f"keeper.version {str(version)[:20]} is not supported; supported versions: "
                         f"{', '.join(map(str, sorted(VERSIONS)))}")
        self.version = storable(version) if isinstance(version, str) else version  #: as the keeper gave it


class Gap(RefusedReport):
    """The report begins behind the number that must come next, or skips one."""

    def __init__(self, expected: int, got: int) -> None:
        super().__init__(409, contract.ERROR_GAP, f"entry {got} came where entry {expected} must come next")
        self.expected = expected

    def document(self, installation: str) -> dict[str, Any]:
        return {**super().document(installation), "expected": self.expected}


class WrongEntry(ValueError):
    """One field of an entry is wrong."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


@dataclass(frozen=True)
class NewEntries:
    """What a report adds to an attempt."""

    entries: list[contract.Entry]
    #: Highest number taken once these are stored: rejected ones count.
    accepted: int


@dataclass(frozen=True)
class ReadReport:
    """A report whose every field was checked. Entries hold exactly the fields of their type."""

    keeper: contract.KeeperDocument
    #: The sender's clock, None where it gave none.
    sent_at: float | None
    #: Number -> accepted entry, or None where it was rejected; in the order of the report.
    lines: tuple[tuple[int, contract.Entry | None], ...]
    rejected: tuple[contract.Rejected, ...]
    #: The last reading of the machine, None where there is none.
    resources: dict[str, Any] | None
    #: Whether all entries are results as nearly all are, of which none needs a closer look.
    only_results: bool = False

    @property
    def entry_count(self) -> int:
        """How many entries were accepted."""
        return len(self.lines) - len(self.rejected)

    @property
    def entries(self) -> list[contract.Entry]:
        """All accepted entries, also those a server may know already."""
        return [entry for _, entry in self.lines if entry is not None]

    @property
    def tells_of_an_end(self) -> bool:
        return any(entry["type"] == contract.ENDED for entry in self.entries)

    @property
    def replica(self) -> int:
        return self.keeper["replica"]

    @property
    def journal_id(self) -> str:
        return self.keeper["journal_id"]

    def after(self, accepted: int) -> NewEntries:
        """The entries that follow number ``accepted``; known ones are left out. Raises Gap."""
        new = []
        for n, entry in self.lines:
            if n <= accepted:
                continue
            if n != accepted + 1:
                raise Gap(expected=accepted + 1, got=n)
            accepted = n
            if entry is not None:
                new.append(entry)
        return NewEntries(new, accepted)


def refuse_by_length(content_length: str | None, most: int = contract.MAX_REPORT_BYTES) -> None:
    """Raise RefusedReport: 413 for a body of more than ``most`` bytes, which is not read; 400 for what is no number."""
    if content_length is None:
        return
    if not content_length.isascii() or not content_length.isdecimal():
        raise _unreadable("Content-Length is not a number")
    if int(content_length.lstrip("0")[:20] or "0") > most:
        raise _too_large(most)


def read_report(body: bytes | Mapping[str, Any], content_encoding: str = "", *,
                loads: Callable[[bytes], Any] = json.loads) -> ReadReport:
    """Check a report, given as the request's body or already parsed. Raises RefusedReport.

    ``loads`` may be a faster parser that is stricter than JSON's author intended (lone surrogates,
    NaN): what it refuses is tried once more with the standard library's.
    """
    document = body if isinstance(body, Mapping) else parse_body(body, content_encoding, loads)
    if not isinstance(document, Mapping):
        raise _unreadable("the report is not a JSON object")
    keeper = _read_keeper(document.get("keeper"))
    raw_entries = document.get("entries", [])
    if not isinstance(raw_entries, list):
        raise _unreadable("entries is not a list")
    lines: list[tuple[int, contract.Entry | None]] = []
    rejected: list[contract.Rejected] = []
    only_results = True
    for raw in raw_entries:
        if (usual := _usual_result(raw)) is not None:
            lines.append((usual["n"], usual))
            continue
        only_results = False
        n = raw.get("n") if isinstance(raw, Mapping) else None
        if not _is_int(n) or not 1 <= n <= _INT64:
            raise _unreadable("an entry has no number n of 1 or more")
        try:
            lines.append((n, read_entry(raw)))
        except WrongEntry as error:
            lines.append((n, None))
            rejected.append({"n": n, "field": error.field, "message": str(error)})
    return ReadReport(keeper, _finite_or_none(document.get("sent_at")), tuple(lines), tuple(rejected),
                      _read_resources(document.get("resources")), only_results)


def read_entry(raw: Mapping[str, Any]) -> contract.Entry:
    """The entry with exactly the fields of its type, absent optional ones filled in. Raises WrongEntry."""
    kind = raw.get("type")
    reader = _READERS.get(kind) if isinstance(kind, str) else None
    if reader is None:
        raise WrongEntry("type", f"must be one of {', '.join(contract.ENTRY_TYPES)}")
    return {"n": raw["n"], "at": _number(raw, "at"), "type": kind, **reader(raw)}


_METRIC_FIELDS = itemgetter("n", "at", "type", "kind", "parameter_id", "sequence", "value")
_METRIC, _RESULTS, _TOO_LONG = contract.METRIC, {contract.PERIODICAL, contract.FINAL}, contract.MAX_METRIC_BYTES


def _usual_result(raw: Any) -> contract.Entry | None:
    """A result as nearly all are, in a tenth of the time; None for all else, which is then looked at field by field."""
    if type(raw) is not dict or len(raw) != 7:
        return None
    try:
        n, at, kind_of_entry, kind, parameter_id, sequence, value = _METRIC_FIELDS(raw)
    except KeyError:
        return None
    if (type(n) is int and 1 <= n <= _INT64 and type(at) is float and -1e300 <= at <= 1e300
            and kind_of_entry == _METRIC and type(kind) is str and kind in _RESULTS
            and type(parameter_id) is int and -_INT64 <= parameter_id <= _INT64
            and type(sequence) is int and -_INT32 <= sequence <= _INT32
            and type(value) is str and len(value) < _TOO_LONG and value.isascii()):
        return raw
    return None


# --- the entry types -----------------------------------------------------------------------


def _read_started(raw: Mapping[str, Any]) -> dict[str, Any]:
    gpus = raw.get("gpu_indices")
    if gpus is not None and (not isinstance(gpus, list) or len(gpus) > MAX_GPUS
                             or not all(_is_int(index) and 0 <= index <= _INT32 for index in gpus)):
        raise WrongEntry("gpu_indices", "must be a list of GPU numbers, or null")
    return {"pid": _integer(raw, "pid", 0, _INT32, optional=True), "host": _text(raw, "host", MAX_NAME),
            "machine_id": _text(raw, "machine_id", MAX_NAME), "gpu_indices": gpus,
            "working_directory": _text(raw, "working_directory", MAX_PATH)}


def _read_metric(raw: Mapping[str, Any]) -> dict[str, Any]:
    if raw.get("kind") not in contract.METRIC_KINDS:
        raise WrongEntry("kind", f"must be one of {', '.join(contract.METRIC_KINDS)}")
    parameter_id = raw.get("parameter_id")
    if isinstance(parameter_id, str):
        right = len(parameter_id) <= MAX_NAME
    elif isinstance(parameter_id, float):
        right = math.isfinite(parameter_id)
    else:
        right = parameter_id is None or isinstance(parameter_id, bool) or \
            (isinstance(parameter_id, int) and abs(parameter_id) <= _INT64)
    if not right:
        raise WrongEntry("parameter_id", f"must be a number, a text of at most {MAX_NAME} characters, or null")
    value = raw.get("value")
    if not isinstance(value, str):
        omitted = raw.get("omitted")
        if value is None and isinstance(omitted, str):
            raise WrongEntry("value", f"was left out by the keeper: {storable(omitted[:MAX_NAME])}")
        raise WrongEntry("value", "must be a text: the JSON text of the reported value")
    size = len(value) if value.isascii() else len(value.encode("utf-8", "surrogatepass"))
    if size >= contract.MAX_METRIC_BYTES:
        raise WrongEntry("value", f"has {size} bytes; a metric must be shorter than {contract.MAX_METRIC_BYTES}")
    return {"kind": raw["kind"], "parameter_id": parameter_id,
            "sequence": _integer(raw, "sequence", -_INT32, _INT32), "value": value}


def _read_output(raw: Mapping[str, Any]) -> dict[str, Any]:
    if raw.get("stream") not in ("stdout", "stderr"):
        raise WrongEntry("stream", "must be stdout or stderr")
    data = raw.get("data")
    if not isinstance(data, str) or (data and max(data) > "\xff"):
        raise WrongEntry("data", "must be a text of characters up to U+00FF, one for each byte")
    if len(data) > contract.MAX_OUTPUT_PIECE_BYTES:
        raise WrongEntry("data", f"has {len(data)} bytes; a piece holds at most {contract.MAX_OUTPUT_PIECE_BYTES}")
    return {"stream": raw["stream"], "offset": _integer(raw, "offset", 0, _INT64), "data": data,
            "skipped": _integer(raw, "skipped", 0, _INT64, optional=True) or 0}


def _read_ended(raw: Mapping[str, Any]) -> dict[str, Any]:
    if raw.get("reason") not in contract.END_REASONS:
        raise WrongEntry("reason", f"must be one of {', '.join(contract.END_REASONS)}")
    message = raw.get("message", "")
    if not isinstance(message, str):
        raise WrongEntry("message", "must be a text")
    duration = _number(raw, "duration") if raw.get("duration") is not None else 0.0
    if duration < 0:
        raise WrongEntry("duration", "must not be negative")
    return {"exit_code": _integer(raw, "exit_code", -_INT32 - 1, 2 * _INT32 + 1, optional=True),
            "signal": _integer(raw, "signal", 0, _INT32, optional=True), "reason": raw["reason"],
            "message": storable(message[:MAX_MESSAGE]), "duration": duration,
            "warm_start": _read_warm_start(raw.get("warm_start")),
            "metric_problems": _read_metric_problems(raw.get("metric_problems")),
            "out_of_memory": read_out_of_memory(raw.get("out_of_memory")), "gpu_peak": _read_size(raw.get("gpu_peak"))}


def _read_size(raw: Any) -> int | None:
    """Bytes, or a count; None where they are not told, or not in a form that can be read."""
    return raw if _is_int(raw) and 0 <= raw <= _INT64 else None


def _read_warm_start(raw: Any) -> contract.WarmStartDocument | None:
    """None where it is not told, or not in a form that can be read: nothing depends on it."""
    if not isinstance(raw, dict) or not isinstance(raw.get("warm"), bool):
        return None
    if raw["warm"]:
        memory, modules = _read_size(raw.get("memory")), _read_size(raw.get("modules"))
        if memory is None or modules is None:
            return None
        return {"warm": True, "memory": memory, "modules": modules, "learns": bool(raw.get("learns"))}
    if raw.get("cause") not in contract.PLAIN_START_CAUSES or not isinstance(raw.get("detail"), str):
        return None
    return {"warm": False, "cause": raw["cause"], "detail": storable(raw["detail"][:MAX_DETAIL])}


def _read_metric_problems(raw: Any) -> list[contract.MetricProblem]:
    """Those that can be read: nothing depends on them."""
    return [{"problem": one["problem"], "detail": storable(one["detail"][:MAX_DETAIL])}
            for one in (raw if isinstance(raw, list) else [])[:MAX_PROBLEMS]
            if isinstance(one, dict) and one.get("problem") in contract.METRIC_PROBLEMS
            and isinstance(one.get("detail"), str)]


def _read_checkpoint(raw: Mapping[str, Any]) -> dict[str, Any]:
    event = raw.get("event")
    if event not in contract.CHECKPOINT_EVENTS:
        raise WrongEntry("event", f"must be one of {', '.join(contract.CHECKPOINT_EVENTS)}")
    checkpoint_id = raw.get("id")
    if not is_hash(checkpoint_id) and not (checkpoint_id is None and event == contract.FAILED):
        raise WrongEntry("id", "must be a SHA-256 of 64 hexadecimal digits")
    problem, detail = None, ""
    if event == contract.FAILED:
        problem, detail = raw.get("problem"), raw.get("detail", "")
        if problem not in contract.CHECKPOINT_PROBLEMS:
            raise WrongEntry("problem", f"must be one of {', '.join(contract.CHECKPOINT_PROBLEMS)}")
        if not isinstance(detail, str):
            raise WrongEntry("detail", "must be a text")
    return {"event": event, "id": checkpoint_id, "name": _text(raw, "name", MAX_NAME),
            "k": _integer(raw, "k", 1 if event == contract.SAVED else 0, _INT32, optional=event != contract.SAVED) or 0,
            "step": _integer(raw, "step", -_INT64, _INT64, optional=True),
            "size": _integer(raw, "size", 0, _INT64, optional=True) or 0,
            "sequence": _integer(raw, "sequence", 0, _INT32, optional=event != contract.SAVED) or 0,
            "problem": problem, "detail": storable(detail[:MAX_DETAIL])}


_READERS: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    contract.STARTED: _read_started,
    contract.METRIC: _read_metric,
    contract.OUTPUT: _read_output,
    contract.CHECKPOINT: _read_checkpoint,
    contract.ENDED: _read_ended,
}

# --- the report around them ----------------------------------------------------------------


def parse_body(body: bytes, content_encoding: str, loads: Callable[[bytes], Any]) -> Any:
    """What a request's body says in JSON. Raises RefusedReport (400, 413). ``loads``: see ``read_report``."""
    return _parse(_decompress(body, content_encoding), loads)


def _decompress(body: bytes, content_encoding: str) -> bytes:
    limit = contract.MAX_REPORT_BYTES
    encoding = content_encoding.strip().lower()
    if encoding in ("", "identity"):
        text = body
    elif encoding == "gzip":
        reader = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
        try:
            text = reader.decompress(body, limit + 1)  # never more: a small body can hide gigabytes
        except zlib.error as error:
            raise _unreadable("the body is not gzip") from error
        if len(text) <= limit and not reader.eof:
            raise _unreadable("the gzip body is cut off")
    else:
        raise _unreadable(f"Content-Encoding {shown(content_encoding[:40])} is not known; gzip is")
    if len(text) > limit:
        raise _too_large()
    return text


def _parse(text: bytes, loads: Callable[[bytes], Any]) -> Any:
    try:
        return loads(text)
    except (ValueError, RecursionError) as error:
        if loads is json.loads:
            raise _unreadable("the body is not JSON") from error
        return _parse(text, json.loads)


def _read_keeper(raw: Any) -> contract.KeeperDocument:
    if not isinstance(raw, Mapping):
        raise _unreadable("keeper is missing or not an object")
    version = raw.get("version")
    if not _is_int(version) or version not in VERSIONS:
        raise UnspokenVersion(version)
    try:
        replica = _integer(raw, "replica", 0, _INT32, optional=True) or 0
        journal_id = _text(raw, "journal_id", MAX_JOURNAL_ID)
        if not journal_id and not replica:
            raise WrongEntry("journal_id", "is missing")
        return {"version": version, "journal_id": journal_id, "replica": replica,
                "host": _text(raw, "host", MAX_NAME), "pid": _integer(raw, "pid", 0, _INT32, optional=True) or 0,
                "parameter_index": _integer(raw, "parameter_index", -1, _INT32, optional=True) or 0}
    except WrongEntry as error:
        raise _unreadable(f"keeper.{error.field} {error}") from error


def _read_resources(raw: Any) -> dict[str, Any] | None:
    """A reading is worth no refusal: what is not a finite number is left out."""
    if not isinstance(raw, Mapping):
        return None
    reading: dict[str, Any] = {name: value for name in ("cpu_percent", "memory_bytes")
                               if (value := _finite_or_none(raw.get(name))) is not None}
    gpus = raw.get("gpus")
    if isinstance(gpus, list):
        reading["gpus"] = [{name: value for name in ("index", "utilization", "memory_bytes", "own_bytes")
                            if (value := _finite_or_none(gpu.get(name))) is not None}
                           for gpu in gpus[:MAX_GPUS] if isinstance(gpu, Mapping)]
    return reading


def _unreadable(message: str) -> RefusedReport:
    return RefusedReport(400, contract.ERROR_UNREADABLE, message)


def _too_large(most: int = contract.MAX_REPORT_BYTES) -> RefusedReport:
    return RefusedReport(413, contract.ERROR_TOO_LARGE, f"this must not have more than {most} bytes"
                         + (" after decompression" if most == contract.MAX_REPORT_BYTES else ""))


# --- single fields -------------------------------------------------------------------------


def _is_int(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _integer(raw: Mapping[str, Any], field: str, low: int, high: int, optional: bool = False) -> int | None:
    value = raw.get(field)
    if value is None and optional:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise WrongEntry(field, f"must be a whole number from {low} to {high}")
    return value


def _number(raw: Mapping[str, Any], field: str) -> float:
    value = _finite_or_none(raw.get(field))
    if value is None:
        raise WrongEntry(field, "must be a finite number")
    return float(value)


def _finite_or_none(value: Any) -> float | int | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or abs(value) > 1e300:
        return None
    return value if math.isfinite(value) else None


def _text(raw: Mapping[str, Any], field: str, longest: int) -> str:
    value = raw.get(field)
    if value is None:
        return ""
    if not isinstance(value, str) or len(value) > longest:
        raise WrongEntry(field, f"must be a text of at most {longest} characters")
    return storable(value)
