"""Reads what NNI has kept of an experiment: ``<nni-experiments>/<id>`` with its SQLite database and its logs.

All releases since 1.0 have the same tables; NNI 1 and the first 2.x kept the config in v1 spelling. Nothing is written.
"""

from __future__ import annotations

import glob
import json
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nniweb.experiments.config.errors import ConfigError, ConfigInvalid
from nniweb.experiments.nni_import.archived_trial import ArchivedMetric, ArchivedTrial
from nniweb.experiments.nni_import.nni_archive_config import kept_config
from nniweb.experiments.nni_import.sets_that_ran import give_sets_that_ran
from trainingservice.trial_job_status import TrialJobStatus

DATABASE = Path("db") / "nni.sqlite"
#: Names of a trial's logs over the years, in the order in which they are put together.
STDOUT_FILES = ("trial.stdout", "stdout", "stdout_log_collection.log", "trialkeeper_stdout", "trial.log")
STDERR_FILES = ("trial.stderr", "stderr", "trialkeeper_stderr")
_STATUSES = {status.value for status in TrialJobStatus} | {"USER_TO_CANCEL"}
#: Last status of a trial that had not ended when NNI stopped -> what is said of it.
_INTERRUPTED = {
    "WAITING": "The trial was still waiting when NNI stopped the experiment.",
    "RUNNING": "The trial was still running when NNI stopped the experiment.",
    "UNKNOWN": "When NNI stopped the experiment, it did not know the state of this trial."}
#: The column with an experiment's config.
_PARAMS = "ExperimentProfile.params"


class UnreadableArchive(Exception):
    """The folder holds no experiment of NNI's that can be read. The text says why."""


@dataclass(frozen=True)
class ArchivedImport:
    """What ``nnictl experiment import`` brought in one go: (parameters, JSON text of the value)."""

    at: datetime
    results: list[tuple[dict[str, Any], str]]


@dataclass
class Archive:
    """One experiment. ``config`` is the v2 form, whatever the release."""

    id: str
    config: dict[str, Any]
    #: What of an old form could not be brought into the v2 form.
    problems: list[ConfigError]
    started: datetime
    ended: datetime | None
    #: Seconds.
    duration: float
    trials: list[ArchivedTrial]
    #: Results that were given to the tuner without a trial.
    imports: list[ArchivedImport]


def read_archive(folder: Path) -> Archive:
    """Raises UnreadableArchive."""
    file = folder / DATABASE
    if not file.is_file():
        raise UnreadableArchive(f"{folder} is not the folder of an NNI experiment, because it contains no {DATABASE}. "
                                "Give the folder below nni-experiments that has the experiment's id as its name.")
    try:
        connection = sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)
        try:
            connection.row_factory = sqlite3.Row
            return _read(connection, folder)
        finally:
            connection.close()
    except (sqlite3.Error, ConfigInvalid) as error:
        raise UnreadableArchive(f"{file} cannot be read as a database of NNI: {error}") from error
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError, RecursionError) as error:
        raise UnreadableArchive(f"{file} cannot be read as a database of NNI: its tables have values that NNI does not "
                                "write. Make a copy of the folder again where the experiment ran.") from error


def _read(connection: sqlite3.Connection, folder: Path) -> Archive:
    profile = connection.execute("SELECT * FROM ExperimentProfile ORDER BY revision DESC LIMIT 1").fetchone()
    if profile is None:
        raise UnreadableArchive(f"{folder / DATABASE} contains no experiment. NNI ended before the experiment began.")
    trials: dict[str, ArchivedTrial] = {}
    imports: list[ArchivedImport] = []
    for row in connection.execute("SELECT * FROM TrialJobEvent ORDER BY timestamp, rowid"):
        if row["event"] == "IMPORT_DATA":
            imports.append(ArchivedImport(_time(row), list(_imported(row["data"]))))
        elif row["trialJobId"] and row["event"] in _STATUSES:
            trial = trials.setdefault(row["trialJobId"], ArchivedTrial(row["trialJobId"], created=_time(row)))
            _take_event(trial, row, Path(profile["logDir"] or ""), folder)
        elif row["trialJobId"] in trials and row["event"] == "ADD_HYPERPARAMETER":
            _take_parameters(trials[row["trialJobId"]], row["data"])
    for row in connection.execute("SELECT * FROM MetricData ORDER BY timestamp, rowid"):
        if row["trialJobId"] in trials and row["type"] in ("PERIODICAL", "FINAL"):
            trials[row["trialJobId"]].metrics.append(ArchivedMetric(
                _time(row), row["type"], int(row["sequence"] or 0), str(_read_json(row["data"], "MetricData.data")),
                _parameter_id(row["parameterId"])))
    for trial in trials.values():
        trial.folder = trial.folder or _collected_logs(trial.id, folder)
    give_sets_that_ran(list(trials.values()))
    config, problems = kept_config(_an_object(_read_json(profile["params"], _PARAMS), _PARAMS))
    ended = profile["endTime"]
    return Archive(str(profile["id"]), config, problems, _at(profile["startTime"]),
                   _at(ended) if ended else None, float(profile["execDuration"] or 0),
                   _numbered(list(trials.values())), imports)


def _take_event(trial: ArchivedTrial, row: sqlite3.Row, log_folder: Path, folder: Path) -> None:
    columns = row.keys()
    at, event = _time(row), row["event"]
    if trial.sequence_id is None and row["sequenceId"] is not None:
        trial.sequence_id = int(row["sequenceId"])
    if not trial.parameters:
        _take_parameters(trial, row["data"])
    if row["logPath"]:
        trial.folder = _where_now(str(row["logPath"]), log_folder, folder)
    if event in _INTERRUPTED:  # also after an end: NNI 3.0 takes trials up again under their old ids
        trial.status, trial.message, trial.ended = TrialJobStatus.USER_CANCELED, _INTERRUPTED[event], None
        if event == TrialJobStatus.RUNNING.value:
            trial.started = trial.started or at
    else:
        trial.status = TrialJobStatus.USER_CANCELED if event == "USER_TO_CANCEL" else TrialJobStatus(event)
        trial.message = (row["message"] or "") if "message" in columns else ""
        trial.ended = at


def _take_parameters(trial: ArchivedTrial, data: str | None) -> None:
    given = _read_json(data, "TrialJobEvent.data") if data else None
    if isinstance(given, dict) and "parameters" in given:
        trial.parameters.append((given.get("parameter_id"), given["parameters"]))
        trial.is_customized = given.get("parameter_source") == "customized"


def _where_now(path: str, log_folder: Path, folder: Path) -> Path | None:
    """The log folder of a trial, also where the experiment's folder was moved; None where it was on another machine.

    Nothing outside of the experiment's folder is looked into: somebody else may have written the database.
    """
    written = Path(path.removeprefix("file://localhost:").removeprefix("file:"))
    if written.is_relative_to(log_folder) and str(log_folder) not in ("", "."):
        written = folder / written.relative_to(log_folder)
    return written if written.is_dir() and is_inside(written, folder) else None


def is_inside(path: Path, folder: Path) -> bool:
    """Whether it lies in the folder when all links are followed."""
    return path.resolve().is_relative_to(folder.resolve())


def _collected_logs(trial: str, folder: Path) -> Path | None:
    """Where NNI has collected the output of a trial that ran on another machine."""
    places = [folder / "trials" / trial, *sorted(folder.glob(f"environments/*/trials/{glob.escape(trial)}"))]
    return next((place for place in places if place.is_dir() and is_inside(place, folder)), None)


def _imported(data: str | None) -> Iterator[tuple[dict[str, Any], str]]:
    where = "TrialJobEvent.data of an import"
    found = _read_json(data, where) if data else []
    for entry in found if isinstance(found, list) else []:
        value = _an_object(entry, where).get("value")
        yield _an_object(entry.get("parameter"), where), value if isinstance(value, str) else json.dumps(value)


def _numbered(trials: list[ArchivedTrial]) -> list[ArchivedTrial]:
    """In the order of their numbers. NNI 3.0 may give a number twice after a resume: the later one gets a new one."""
    taken: set[int] = set()
    for trial in trials:
        if trial.sequence_id is not None and trial.sequence_id >= 0 and trial.sequence_id not in taken:
            taken.add(trial.sequence_id)
        else:
            trial.sequence_id = None
    following = max(taken, default=-1) + 1
    for trial in trials:
        if trial.sequence_id is None:
            trial.sequence_id = following
            following += 1
    return sorted(trials, key=lambda trial: trial.sequence_id or 0)


def _parameter_id(written: str | None) -> str:
    try:
        json.loads(written or "null")
    except (ValueError, RecursionError):
        return json.dumps(written)
    return written or "null"


def _read_json(text: object, where: str) -> Any:
    """Raises UnreadableArchive, which names the column ``where``."""
    try:
        found = json.loads(text if isinstance(text, str | bytes) else "")
    except (ValueError, RecursionError) as error:
        what = "is nested too deeply" if isinstance(error, RecursionError) else "is not JSON"
        raise UnreadableArchive(f"The database cannot be read as one of NNI: {where} {what} ({text!s:.60}). Make a "
                                "copy of the folder again where the experiment ran.") from error
    try:
        json.dumps(found, allow_nan=False)
    except ValueError as error:  # NaN, or 1e999; no database takes them, and NNI does not write them
        raise UnreadableArchive(f"The database cannot be read as one of NNI: {where} has a number that JSON does not "
                                f"have ({text!s:.60}).") from error
    return found


def _an_object(found: object, where: str) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise UnreadableArchive(f"The database cannot be read as one of NNI: {where} must be a JSON object with names, "
                                f"and is {json.dumps(found):.60}.")
    return found


def _time(row: sqlite3.Row) -> datetime:
    return _at(row["timestamp"])


def _at(milliseconds: Any) -> datetime:
    return datetime.fromtimestamp(float(milliseconds) / 1000, UTC)
