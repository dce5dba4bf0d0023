"""``experiment save`` and ``load``: one experiment as a file, in the form of NNI's own packages.

A package is a zip with the folder ``experiment`` (database, output of the trials) and, of NNI, ``code``. What is saved
here is loaded on another server of NNI Web; NNI's packages are loaded too. Loading is the import of NNI's experiments.
"""

from __future__ import annotations

import argparse
import lzma
import shutil
import sqlite3
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from nniweb.client.errors import ClientError
from nniweb.client.experiment import Experiment
from nniweb.client.own_server import server_is_named
from nniweb.client.written_file import drafted
from nniweb.nniapi.profile_database import write_profile
from nniweb.nnictl.session import Session
from nniweb.storage.own_files import COMMAND
from trainingservice.words.byte_size import byte_size

#: Limits of a package that is loaded: files, and their bytes.
MOST_FILES, MOST_BYTES = 200_000, 20 * 1024 ** 3
_STREAMS = ("stdout", "stderr")


def save(session: Session, options: argparse.Namespace) -> None:
    """Write ``nni_experiment_<id>.zip``. Raises ClientError."""
    if options.save_code:
        session.refuse("--saveCodeDir: the server does not give out code. Without it, the package has the config, the "
                       "trials, their results and their output.")
    if options.id is None:
        session.refuse("Give the id of the experiment.")
    experiment = session.experiment(options.id)
    if not experiment.has_ended:
        session.refuse(f"Experiment {experiment.id} is {experiment.status}. Only an experiment that has ended can be "
                       "saved.")
    target = Path(options.path or ".") / f"nni_experiment_{experiment.id}.zip"
    try:
        with tempfile.TemporaryDirectory(prefix="nniweb-save-") as name:
            folder = Path(name) / "experiment"
            (folder / "db").mkdir(parents=True)
            _write(session, experiment, folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            with drafted(target) as draft:
                _pack(folder, draft)
    except (OSError, sqlite3.Error) as error:
        raise ClientError(f"{target} cannot be written: {error}.") from None
    session.say(f"Experiment {experiment.id} was saved in {target}.")


def _write(session: Session, experiment: Experiment, folder: Path) -> None:
    trials = session.nni(experiment, "trial-jobs")
    imported = [{"timestamp": trials[0]["startTime"] if trials else 0, "trialJobId": "", "event": "IMPORT_DATA",
                 "data": data} for data in session.nni(experiment, "experiment/imported-data")]
    events = [*imported, *(event for trial in trials for event in _events(trial))]
    write_profile(folder / "db", session.nni(experiment, "experiment"), events, session.nni(experiment, "metric-data"))
    for trial in trials:
        place = folder / "trials" / trial["trialJobId"]
        place.mkdir(parents=True)
        for stream in _STREAMS:
            (place / stream).write_text(experiment.trial(trial["trialJobId"]).output(stream), encoding="utf-8")


def _events(trial: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What NNI would have noted of a trial that has ended."""
    own = {"trialJobId": trial["trialJobId"], "sequenceId": trial["sequenceId"], "message": trial.get("message")}
    first, *others = trial.get("hyperParameters") or [None]
    began, ended = trial["startTime"], trial.get("endTime") or trial["startTime"]
    yield {**own, "timestamp": began, "event": "WAITING", "data": first}
    yield from ({**own, "timestamp": began, "event": "ADD_HYPERPARAMETER", "data": given} for given in others)
    yield {**own, "timestamp": began, "event": "RUNNING"}
    yield {**own, "timestamp": ended, "event": trial["status"]}


def _pack(folder: Path, target: Path) -> None:
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, strict_timestamps=False) as archive:
        for path in sorted(folder.rglob("*")):
            archive.write(path, path.relative_to(folder.parent).as_posix())


def load(session: Session, options: argparse.Namespace) -> int:
    """Import a package. Raises ClientError."""
    if server_is_named():
        session.refuse("Packages are loaded on the server's own machine, by its user. Unset NNIWEB_SERVER there.")
    code = Path(options.code).expanduser()
    if not code.is_dir():
        session.refuse(f"--codeDir: there is no folder {options.code}.")
    with tempfile.TemporaryDirectory(prefix="nniweb-load-") as name:
        folder = Path(name)
        _unpack(Path(options.path).expanduser(), folder)
        if not (folder / "experiment" / "db" / "nni.sqlite").is_file():
            session.refuse(f"{options.path} is not a package of an experiment, because it contains no "
                           "experiment/db/nni.sqlite.")
        assert session.client.server  # the import needs a database, which the first start makes
        status = session.own_command("import_nni", str(folder / "experiment"))
        if status == 0 and (folder / "code").is_dir():
            _put_code(session, folder / "code", code)
    if status == 0:
        session.say(f"To continue the search, run the code from here: its config names the old folder ({COMMAND} "
                    "experiments show ID --json).")
    return status


def _unpack(package: Path, target: Path) -> None:
    try:
        with zipfile.ZipFile(package) as archive:
            members = archive.infolist()
            if len(members) > MOST_FILES or sum(member.file_size for member in members) > MOST_BYTES:
                raise ClientError(f"{package} has more than {MOST_FILES} files, or more than "
                                  f"{byte_size(MOST_BYTES)}.")
            for member in members:
                name = PurePosixPath(member.filename)
                if name.is_absolute() or ".." in name.parts:
                    raise ClientError(f"{package} has a file that lies outside of it, so it is not loaded.")
                if name.parts and name.parts[0] in ("experiment", "code"):
                    archive.extract(member, target)
    except OSError as error:
        raise ClientError(f"{package} cannot be read: {error.strerror or error}.") from None
    except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, RuntimeError, ValueError) as error:
        raise ClientError(f"{package} cannot be read as a zip: {error}.") from None


def _put_code(session: Session, source: Path, target: Path) -> None:
    """As NNI does it: what is there already is left alone."""
    for path in sorted(source.iterdir()):
        there = target / path.name
        if there.exists():
            session.say(f"{there} is there already and was left alone.")
        elif path.is_dir():
            shutil.copytree(path, there)
        else:
            shutil.copy(path, there)
