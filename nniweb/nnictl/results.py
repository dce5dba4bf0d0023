"""Verbs that print and write what an experiment has: trials, results, logs, its config."""

from __future__ import annotations

import argparse
import json
from collections import deque
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from nniweb.client.errors import ClientError
from nniweb.client.experiment import Experiment
from nniweb.client.records import number_in, value_of
from nniweb.client.words import imported_line
from nniweb.client.written_file import write_whole
from nniweb.nnictl.session import Session
from trainingservice.limited_json import json_fault
from trainingservice.words.byte_size import byte_size

_MOST_FILE = 300 * 1024 * 1024


def read_json(path: str) -> Any:
    """The content of a JSON file. Raises ClientError."""
    try:
        if Path(path).stat().st_size > _MOST_FILE:
            raise ClientError(f"{path} is larger than {byte_size(_MOST_FILE)}.")
        return json.loads(Path(path).read_bytes())
    except OSError as error:
        raise ClientError(f"{path} cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError) as error:
        why = json_fault(error) if isinstance(error, ValueError) else "it is nested too deeply"
        raise ClientError(f"{path} is not JSON: {why}.") from None


def show(session: Session, options: argparse.Namespace) -> None:
    session.say_json(session.nni(session.experiment(options.id), "experiment"))


def status(session: Session, options: argparse.Namespace) -> None:
    session.say_json(session.nni(session.experiment(options.id), "check-status"))


def show_config(session: Session, options: argparse.Namespace) -> None:
    session.say_json(session.nni(session.experiment(options.id), "experiment")["params"])


def url(session: Session, options: argparse.Namespace) -> None:
    session.say(session.experiment(options.id).url)


def list_trials(session: Session, options: argparse.Namespace) -> None:
    found = session.nni(session.experiment(options.id), "trial-jobs")
    if options.head is not None and options.tail is not None:
        session.refuse("--head and --tail cannot be used together.")
    if options.head is not None or options.tail is not None:
        finished = [trial for trial in found if _result(trial) is not None]
        finished.sort(key=lambda trial: _result(trial) or 0.0, reverse=options.head is not None)
        found = finished[:max(0, options.head if options.head is not None else options.tail)]
    session.say_json(found)


def _result(trial: dict[str, Any]) -> float | None:
    finals = trial.get("finalMetricData") or []
    return number_in(value_of(value_of(finals[0]["data"]))) if finals else None


def kill_trial(session: Session, options: argparse.Namespace) -> None:
    experiment = session.experiment(options.id)
    trial = experiment.trial(options.trial_id)
    trial.stop()
    session.say(f"Trial {trial.number} ({trial.id}) is being ended.")


def import_results(session: Session, options: argparse.Namespace) -> None:
    results = read_json(options.filename)
    experiment = session.experiment(options.id)
    count = experiment.import_results(results)
    session.say(imported_line(count, experiment.name, has_ended=experiment.has_ended))


def export(session: Session, options: argparse.Namespace) -> None:
    """JSON as NNI's, which ``experiment import`` takes; CSV as that of ``nniweb experiments export``."""
    experiment = session.experiment(options.id)
    pieces = experiment.export("csv", intermediate=options.intermediate) if options.type == "csv" \
        else iter([json.dumps(_records(session, experiment, options.intermediate)).encode()])
    write_whole(Path(options.path), pieces)
    session.say(f"Written to {options.path}.")


def _records(session: Session, experiment: Experiment, intermediate: bool) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [{"parameter": record["parameter"], "value": value_of(record["value"]),
                                    "trialJobId": record["trialJobId"]}
                                   for record in session.nni(experiment, "export-data")]
    if intermediate:
        values: dict[str, list[Any]] = {}
        for metric in experiment.metrics():
            if metric["kind"] == "PERIODICAL":
                values.setdefault(metric["trial"], []).append(metric["value"])
        for record in found:
            record["intermediate"] = values.get(record["trialJobId"], [])
    return found


def log(session: Session, options: argparse.Namespace) -> None:
    if options.path:
        session.refuse("--path: the log is in the server's database. Without --path it is printed.")
    level = "WARNING" if options.stream == "stderr" else "DEBUG"
    experiment = session.experiment(options.id)
    lines = _lines(session.client.stream(f"experiments/{experiment.id}/log/text/", level=level))
    if options.tail is not None:
        lines = iter(deque(lines, maxlen=max(0, options.tail)))
    elif options.head is not None:
        lines = islice(lines, max(0, options.head))
    for line in lines:
        session.say(line)


def _lines(pieces: Iterator[bytes]) -> Iterator[str]:
    rest = b""
    for piece in pieces:
        *whole, rest = (rest + piece).split(b"\n")
        yield from (line.decode(errors="replace") for line in whole)
    if rest:
        yield rest.decode(errors="replace")


def trial_folders(session: Session, options: argparse.Namespace) -> None:
    found = session.nni(session.experiment(options.id), "trial-jobs")
    if options.trial_id:
        found = [trial for trial in found if trial["trialJobId"] == options.trial_id]
        if not found:
            session.refuse(f"The experiment has no trial {options.trial_id}.")
    for trial in found:
        session.say(f"id:{trial['trialJobId']} path:{trial.get('logPath', '')}")


def start_tensorboard(session: Session, options: argparse.Namespace) -> None:
    experiment = session.experiment(options.id)
    wanted = options.trial_id.split(",") if options.trial_id else [
        trial["id"] for trial in experiment.newest_trials(1000) if trial["started_at"] is not None]
    if not wanted:
        session.refuse("No trial has begun, so there is nothing for TensorBoard to show.")
    board = session.client.change("POST", f"experiments/{experiment.id}/tensorboards/", {"trials": wanted})
    session.say(f"TensorBoard: {session.client.server}{board['url']}")
    if board["message"]:
        session.say(board["message"])


def stop_tensorboard(session: Session, options: argparse.Namespace) -> None:
    path = f"experiments/{session.experiment(options.id).id}/tensorboards/"
    boards = session.client.get(path)
    for board in boards:
        session.client.change("DELETE", f"{path}{board['id']}/")
    session.say(f"{len(boards)} closed.")
