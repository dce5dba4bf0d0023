"""A small REST server for keepers, on the standard library: for people who use a platform without nniweb.

    receiver = KeeperReceiver()
    receiver.start()
    receiver.attach(service)                       # its metric listeners now hear what keepers report
    access = receiver.access_for(job_name)         # goes into the form
    receiver.expect(form, platform="local")        # where the keeper fetches its job and code
    ...
    receiver.close()

It speaks the whole of ``docs/keeper-protocol.md`` and takes each entry exactly once. Given a
folder it also survives its own end: what it acknowledged is on disk, and a receiver on the same
folder goes on where the last one stopped. Tokens stay valid as long as the attempt is not
withdrawn.

Threads: one per connection; all methods may be called from any thread. ``service.hear`` is called
after the entries were stored and before the keeper is answered, in the order of the journal and
for one report of an attempt at a time; so an order given by a listener goes out with the answer.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import shutil
import tempfile
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, cast

from trainingservice.errors import UnknownTrialJob
from trainingservice.keeper.keeper_bundle import keeper_bytes
from trainingservice.receiver.attempt_records import AttemptRecord, token_hash
from trainingservice.receiver.checkpoint_folder import CheckpointFolder
from trainingservice.receiver.checkpoint_manifests import MAX_QUESTION_BYTES, read_question
from trainingservice.receiver.receiver_http import Answer, ReceiverServer, Request
from trainingservice.receiver.report_reading import ReadReport, RefusedReport, read_report
from trainingservice.receiver.several_reports import read_several
from trainingservice.trial_job import HyperParameters, JobApplicationForm, KeeperAccess, TrialCode, job_document
from trainingservice.words.shown_value import shown
from trialkeeper import contract
from trialkeeper.checkpoint_manifest import is_hash
from trialkeeper.durable_files import put_in_place

logger = logging.getLogger(__name__)

#: Seconds until a keeper is asked to report again while its trial waits for parameters.
NEXT_REPORT_WHILE_PARAMETERS_ARE_DUE = 0.2
#: Largest file a keeper may send after the end of its trial.
MAX_FILE_BYTES = 100 * 1024 * 1024


class Hearer(Protocol):
    """Who wants each newly stored entry; a TrainingService is one. Should neither raise nor block."""

    def hear(self, job_name: str, entries: list[contract.Entry]) -> None: ...


class KeeperReceiver:
    """The server. ``port`` 0 takes a free one, which is kept over ``close`` and ``start``."""

    def __init__(self, *, installation: str = "standalone", host: str = "127.0.0.1", port: int = 0,
                 folder: Path | None = None) -> None:
        self.installation = installation
        self._host, self._port = host, port
        self._folder = folder
        self._server: ReceiverServer | None = None
        self._lock = threading.Lock()
        self._attempts: dict[str, AttemptRecord] = {}
        self._delivery: dict[str, threading.Lock] = {}
        self._hearers: list[Hearer] = []
        #: Checkpoints where there is no folder; None until there is one.
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        if folder is not None:
            (folder / "attempts").mkdir(parents=True, exist_ok=True, mode=0o700)
            for path in sorted((folder / "attempts").glob("*.jsonl")):
                self._attempts[path.stem] = AttemptRecord(path.stem, path)

    # --- life ------------------------------------------------------------------------------

    def start(self) -> KeeperReceiver:
        """Begin to answer. Raises OSError where the port is taken. Harmless when already started."""
        if self._server is None:
            self._server = ReceiverServer((self._host, self._port), self._answer)
            self._port = self._server.server_port
            self._server.start()
            if self.url_file is not None:
                fresh = self.url_file.with_suffix(".new")
                fresh.write_text(json.dumps({"urls": [self.url]}))
                os.replace(fresh, self.url_file)
        return self

    def close(self) -> None:
        """Stop answering and close all connections. What was received stays known. May be called twice."""
        server, self._server = self._server, None
        if server is not None:
            server.stop()

    def __enter__(self) -> KeeperReceiver:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def url(self) -> str:
        """The base address for keepers. Known from the first ``start`` on."""
        return f"http://{self._host}:{self._port}"

    @property
    def url_file(self) -> Path | None:
        """The file with the current address that keepers on this machine read again before each attempt."""
        return None if self._folder is None else self._folder / "server.json"

    # --- attempts --------------------------------------------------------------------------

    def access_for(self, job_name: str) -> KeeperAccess:
        """A new token for an attempt; those made before stay valid, because a running keeper may hold one."""
        token = secrets.token_urlsafe(32)
        self._attempt(job_name, make=True).add_token(token)
        return KeeperAccess(urls=(self.url,), token=token, url_file=self.url_file)

    def expect(self, form: JobApplicationForm, *, platform: str, code: TrialCode | None = None) -> None:
        """Have the job and its code ready for a keeper that asks. ``code``: where it is not the form's own."""
        code = code or form.code
        document: contract.CodeDocument | None = None
        if code is not None and code.sha256 is not None:
            document = {"sha256": code.sha256}
        elif code is not None and code.folder is not None:
            document = {"folder": str(code.folder)}
        self._attempt(form.job_name, make=True).expect(job_document(form, platform=platform, code=document),
                                                       code.archive if code is not None else None)

    def attach(self, hearer: Hearer) -> None:
        """Tell ``hearer`` of each entry stored from now on."""
        with self._lock:
            if hearer not in self._hearers:
                self._hearers = [*self._hearers, hearer]

    def detach(self, hearer: Hearer) -> None:
        """Tell ``hearer`` nothing more. Harmless where it was not attached."""
        with self._lock:
            self._hearers = [known for known in self._hearers if known is not hearer]

    def order_stop(self, job_name: str, reason: str) -> None:
        """Have the keeper end its trial when it reports next. Raises UnknownTrialJob."""
        self._attempt(job_name).order_stop(reason)

    def order_freeze(self, job_name: str, reason: str) -> None:
        """Have the keeper freeze its trial when it reports next. Raises UnknownTrialJob."""
        self._attempt(job_name).order_freeze(reason)

    def order_parameters(self, job_name: str, parameters: HyperParameters) -> None:
        """Give the running trial its next parameters (multi-phase). Raises UnknownTrialJob."""
        self._attempt(job_name).order_parameters(parameters.index, parameters.value)

    def withdraw(self, job_name: str) -> None:
        """The attempt is no longer wanted: its keeper hears 410 and ends the trial. Raises UnknownTrialJob."""
        self._attempt(job_name).withdraw()

    def entries(self, job_name: str) -> list[contract.Entry]:
        """All entries taken of an attempt, in order. Raises UnknownTrialJob."""
        return list(self._attempt(job_name).entries)

    def rejected(self, job_name: str) -> list[contract.Rejected]:
        """The entries that were wrong. Raises UnknownTrialJob."""
        return list(self._attempt(job_name).rejected)

    def resources(self, job_name: str) -> dict[str, Any] | None:
        """The last reading of the attempt's machine. Raises UnknownTrialJob."""
        return self._attempt(job_name).resources

    def files_folder(self, job_name: str) -> Path | None:
        """Where files that the keeper sent are kept; None where this receiver was given no folder."""
        return None if self._folder is None else self._folder / "files" / job_name

    # --- the wire --------------------------------------------------------------------------

    def _answer(self, request: Request) -> Answer:
        try:
            parts = request.parts
            known = self._who(request)
            if request.method == "GET" and len(parts) == 3 and parts[::2] == ["trials", "job"]:
                return self._get_job(self._own(known, parts[1]))
            if request.method == "GET" and len(parts) == 3 and parts[::2] == ["trials", "keeper"]:
                return self._get_keeper(self._own(known, parts[1]))
            if request.method == "GET" and len(parts) == 3 and parts[::2] == ["experiments", "code"]:
                return self._get_code(known, parts[1])
            if request.method == "POST" and len(parts) == 3 and parts[::2] == ["trials", "reports"]:
                return self._post_report(self._own(known, parts[1]), request)
            if request.method == "POST" and len(parts) == 4 and parts[::2] == ["trials", "reports"] \
                    and parts[3] == "several":
                return self._post_several(self._own(known, parts[1]), request)
            if request.method == "PUT" and len(parts) >= 4 and parts[0] == "trials" and parts[2] == "files":
                return self._put_file(self._own(known, parts[1]), "/".join(parts[3:]), request)
            if len(parts) == 4 and parts[0] == "trials" and parts[2] in ("chunks", "checkpoints"):
                return self._checkpoint_call(self._own(known, parts[1]), parts[2], parts[3], request)
            return Answer(404, {"installation": self.installation, "error": "unknown", "message": "no such address"})
        except RefusedReport as refusal:
            return Answer(refusal.status, refusal.document(self.installation))
        except OSError as error:
            logger.error("a report could not be stored: %s", error)
            return Answer(503, {"installation": self.installation, "error": contract.ERROR_BUSY,
                                "message": f"nothing can be stored now: {error}"}, {"Retry-After": "10"})

    def _who(self, request: Request) -> AttemptRecord:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        return self._opened_by(token if scheme.lower() == "bearer" else "")

    def _opened_by(self, token: str) -> AttemptRecord:
        if token:
            wanted = token_hash(token.strip())
            with self._lock:
                attempts = list(self._attempts.values())
            for attempt in attempts:
                if wanted in attempt.token_hashes:
                    return attempt
        raise RefusedReport(401, contract.ERROR_TOKEN, "the token is missing or not known here")

    def _own(self, known: AttemptRecord, job_name: str) -> AttemptRecord:
        if known.job_name != job_name:
            raise RefusedReport(401, contract.ERROR_TOKEN, f"the token does not open {job_name}")
        return known

    def _get_job(self, attempt: AttemptRecord) -> Answer:
        if attempt.gone:
            raise RefusedReport(410, contract.ERROR_GONE, f"attempt {attempt.job_name} is no longer wanted")
        if attempt.document is None:
            return Answer(404, {"installation": self.installation, "error": "unknown",
                                "message": f"what {attempt.job_name} has to run is not known here"})
        return Answer(200, attempt.document)

    def _get_keeper(self, attempt: AttemptRecord) -> Answer:
        if attempt.gone:
            raise RefusedReport(410, contract.ERROR_GONE, f"attempt {attempt.job_name} is no longer wanted")
        return Answer(200, keeper_bytes(), {"Content-Type": "application/zip"})

    def _get_code(self, attempt: AttemptRecord, experiment_id: str) -> Answer:
        document = attempt.document
        if document is None or document["experiment_id"] != experiment_id:
            raise RefusedReport(401, contract.ERROR_TOKEN, f"the token does not open experiment {experiment_id}")
        code = document["code"]
        if code is None or attempt.code_archive is None or not attempt.code_archive.is_file():
            return Answer(404, {"installation": self.installation, "error": "unknown",
                                "message": f"experiment {experiment_id} has no code archive here"})
        return Answer(200, attempt.code_archive, {"ETag": f'"{code["sha256"]}"', "Content-Type": "application/gzip"})

    def _post_report(self, attempt: AttemptRecord, request: Request) -> Answer:
        body = request.read(contract.MAX_REPORT_BYTES)
        return self._take(attempt, read_report(body, request.headers.get("Content-Encoding", "")))

    def _post_several(self, sender: AttemptRecord, request: Request) -> Answer:
        """Signs of life of several keepers; ``sender`` is one of them."""
        body = request.read(contract.MAX_REPORT_BYTES)
        answers = []
        for sign in read_several(body, request.headers.get("Content-Encoding", "")):
            try:
                attempt = self._own(self._opened_by(sign.token), sign.job_name)
                answer = self._take(attempt, read_report(sign.report))
                answers.append({"status": answer.status, **cast("dict[str, Any]", answer.body)})
            except RefusedReport as refusal:
                answers.append({"status": refusal.status, **refusal.document(self.installation)})
        return Answer(200, {"installation": self.installation, "answers": answers})

    def _take(self, attempt: AttemptRecord, read: ReadReport) -> Answer:
        report = self._without_unknown(attempt, read)
        with self._lock:
            delivery = self._delivery.setdefault(attempt.job_name, threading.Lock())
            hearers = self._hearers
        with delivery:
            new = attempt.take(report)
            if new:
                for hearer in hearers:
                    try:
                        hearer.hear(attempt.job_name, new)
                    except Exception:  # the entries are stored; the keeper is not to blame
                        logger.exception("entries of job %s were stored, but a hearer failed on them", attempt.job_name)
        limits = (attempt.document or {}).get("limits", {})
        due = attempt.parameters_are_due(report)
        reply: contract.ReportReply = {
            "installation": self.installation,
            "accepted": attempt.accepted,
            "rejected": list(report.rejected),
            "orders": attempt.orders(report),
            "next_report_within":
                NEXT_REPORT_WHILE_PARAMETERS_ARE_DUE if due else limits.get("report_interval", 10.0),
        }
        return Answer(200, reply)

    def _put_file(self, attempt: AttemptRecord, name: str, request: Request) -> Answer:
        folder = self.files_folder(attempt.job_name)
        if folder is None:
            return Answer(404, {"installation": self.installation, "error": "unknown",
                                "message": "this receiver keeps no files: it was given no folder"})
        path = folder.joinpath(name)
        if ".." in name.split("/") or "\0" in name or not path.resolve().is_relative_to(folder.resolve()):
            raise RefusedReport(400, contract.ERROR_UNREADABLE, f"{shown(name)} leaves the folder for kept files")
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        part = path.parent / f".{secrets.token_hex(8)}.part"
        try:
            with part.open("wb") as stream:
                request.copy_to(stream, MAX_FILE_BYTES)
            put_in_place(str(part), str(path))
        finally:
            part.unlink(missing_ok=True)
        return Answer(200, {"installation": self.installation})

    # --- checkpoints -----------------------------------------------------------------------

    def _checkpoint_call(self, attempt: AttemptRecord, kind: str, name: str, request: Request) -> Answer:
        if attempt.gone:
            raise RefusedReport(410, contract.ERROR_GONE, f"attempt {attempt.job_name} is no longer wanted")
        folder = self._checkpoint_folder(attempt)
        if folder is None:
            return self._unknown("this receiver keeps no checkpoints of this attempt")
        done: dict[str, Any] = {"installation": self.installation}
        if (request.method, kind, name) == ("POST", "chunks", "missing"):
            return Answer(200, {**done, "missing": folder.missing(read_question(request.read(MAX_QUESTION_BYTES)))})
        if not is_hash(name):
            return self._unknown("no such address")
        if (request.method, kind) == ("PUT", "chunks"):
            folder.put_chunk(name, request.read(contract.CHUNK_BYTES))
            return Answer(200, done)
        if (request.method, kind) == ("PUT", "checkpoints"):
            folder.put_manifest(name, request.read(contract.MAX_MANIFEST_BYTES))
            return Answer(200, done)
        content = None
        if (request.method, kind) == ("GET", "chunks"):
            content = folder.chunk_content(name)
        elif (request.method, kind) == ("GET", "checkpoints") and name in self._saved_of_trial(attempt):
            content = folder.manifest_content(name)
        if content is None:
            return self._unknown("it is not here, or it is damaged")
        return Answer(200, content, {"Content-Type": "application/octet-stream"})

    def checkpoints(self, job_name: str) -> list[contract.KnownCheckpoint]:
        """The checkpoints that attempts of the same trial have saved, the newest first. Raises UnknownTrialJob.

        For ``resume`` in the form of the trial's next attempt.
        """
        return list(self._saved_of_trial(self._attempt(job_name)).values())[::-1]

    def _saved_of_trial(self, attempt: AttemptRecord) -> dict[str, contract.KnownCheckpoint]:
        """By id, in the order in which they were saved."""
        trial = (attempt.document or {}).get("trial_job_id")
        with self._lock:
            same = [other for other in self._attempts.values()
                    if trial is not None and (other.document or {}).get("trial_job_id") == trial]
        saved: dict[str, contract.KnownCheckpoint] = {}
        for entry in sorted((entry for other in same for entry in list(other.entries)
                             if entry["type"] == contract.CHECKPOINT and entry["event"] == contract.SAVED),
                            key=lambda entry: entry["at"]):
            saved.pop(entry["id"], None)
            saved[entry["id"]] = {name: entry[name] for name in ("id", "name", "step", "size")}  # type: ignore[assignment]
        return saved

    def _without_unknown(self, attempt: AttemptRecord, report: ReadReport) -> ReadReport:
        """The report, with saved checkpoints whose content was not sent among what is rejected."""
        folder = self._checkpoint_folder(attempt)
        wrong = {n for n, entry in report.lines if entry is not None and entry["type"] == contract.CHECKPOINT
                 and entry["event"] == contract.SAVED and (folder is None or not folder.has(entry["id"]))}
        if not wrong:
            return report
        rejected: list[contract.Rejected] = [
            {"n": n, "field": "id", "message": "the content of this checkpoint was not sent before"} for n in wrong]
        return replace(report, lines=tuple((n, None if n in wrong else entry) for n, entry in report.lines),
                       rejected=(*report.rejected, *rejected))

    def _checkpoint_folder(self, attempt: AttemptRecord) -> CheckpointFolder | None:
        if attempt.document is None:
            return None
        with self._lock:
            if self._folder is None and self._scratch is None:
                # gone with this object, as everything that a receiver without a folder knows
                self._scratch = tempfile.TemporaryDirectory(prefix="checkpoints-")
            folder = self._folder or Path(self._scratch.name if self._scratch is not None else "")
        return CheckpointFolder(folder / "checkpoints" / attempt.document["experiment_id"])

    def _unknown(self, message: str) -> Answer:
        return Answer(404, {"installation": self.installation, "error": "unknown", "message": message})

    def _attempt(self, job_name: str, make: bool = False) -> AttemptRecord:
        with self._lock:
            if job_name not in self._attempts:
                if not make:
                    raise UnknownTrialJob(job_name)
                path = None if self._folder is None else self._folder / "attempts" / f"{job_name}.jsonl"
                self._attempts[job_name] = AttemptRecord(job_name, path)
            return self._attempts[job_name]

    def forget(self, job_name: str) -> None:
        """Drop all that is known of an attempt, its tokens and kept files too. Harmless where nothing is."""
        with self._lock:
            self._attempts.pop(job_name, None)
            self._delivery.pop(job_name, None)
        if self._folder is not None:
            (self._folder / "attempts" / f"{job_name}.jsonl").unlink(missing_ok=True)
            shutil.rmtree(self._folder / "files" / job_name, ignore_errors=True)
