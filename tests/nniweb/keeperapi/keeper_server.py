"""nniweb as the server that keepers report to: real rows, and its real endpoints behind a real web server."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import socket
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import uvicorn
from django.db import connection, transaction
from django.utils import timezone

from nniweb.experiments.launch.code_archives import keep_archive
from nniweb.experiments.lifecycle.transitions import set_targets
from nniweb.experiments.models import Attempt, Cluster, Experiment, Trial, TrialParameters
from nniweb.experiments.models.account import hash_of
from nniweb.experiments.models.trial import TrialTarget
from nniweb.experiments.pubsub.revisions import next_revision
from nniweb.experiments.variants.stored_variants import keep_variant
from nniweb.keeperapi.application import KeeperApplication
from trainingservice.base import TrainingService
from trainingservice.errors import UnknownTrialJob
from trainingservice.receiver.report_reading import read_report
from trainingservice.trial_job import HyperParameters, JobApplicationForm, KeeperAccess, TrialCode
from trainingservice.variants.code_variant import read_stored
from trialkeeper import contract

logger = logging.getLogger(__name__)

#: Seconds for the web server to begin and to end.
PATIENCE = 60.0


class NniwebKeeperServer:
    """Fills ``trainingservice.testing.keeper_server.KeeperServer``. Needs the fixture ``transactional_db``.

    *Entries*: nniweb keeps no journal, it keeps what it shows. Which entries it took is known from
    the reports it acknowledged; whatever the rows hold of an entry is read from the rows. An entry
    that was acknowledged and has no row fails the test, and so does one that is stored and was not
    acknowledged. (``n`` of output, pid and GPUs of ``started`` and the signal of ``ended`` are in no
    row of nniweb and are as the keeper gave them.)

    *Experiments*: in nniweb all trials of an experiment have one command and one code; the suite's
    forms differ although they name the same experiment. So each form gets an experiment of its own
    here, and the first one that names an id gets that id.
    """

    def __init__(self, platform: str = "local") -> None:
        """``platform``: the registered name of the one that the trials run on."""
        self.platform = platform
        self._lock = threading.RLock()
        self._web: _WebServer | None = None
        self._port = 0
        self._taken: dict[str, dict[int, contract.Entry]] = defaultdict(dict)
        self._services: list[TrainingService] = []
        #: Highest entry that a keeper was told is durable.
        self._acknowledged: dict[str, int] = defaultdict(int)
        self._noted = threading.Condition(self._lock)
        self._broken: list[Exception] = []

    # --- life ------------------------------------------------------------------------------

    def start(self) -> NniwebKeeperServer:
        if self._web is None:
            self._web = _WebServer(self._port, self._note)
            self._port = self._web.port
        return self

    def close(self) -> None:
        web, self._web = self._web, None
        if web is not None:
            web.close()

    def __enter__(self) -> NniwebKeeperServer:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- attempts --------------------------------------------------------------------------

    def access_for(self, job_name: str) -> KeeperAccess:
        token = secrets.token_urlsafe(32)
        with self._lock:
            attempt = Attempt.objects.filter(job_name=job_name).first() or self._new_attempt(job_name)
            Attempt.objects.filter(pk=attempt.pk).update(token_hashes=[*attempt.token_hashes, hash_of(token)])
        return KeeperAccess(urls=(f"http://127.0.0.1:{self._port}",), token=token)

    def _new_attempt(self, job_name: str) -> Attempt:
        now = timezone.now()
        cluster, _ = Cluster.objects.get_or_create(name=self.platform, platform=self.platform)
        experiment = Experiment.objects.create(
            name="conformance", cluster=cluster, status="RUNNING", seed=1, search_space={}, tuner={"name": "Random"},
            optimize_mode="minimize", trial_command="true", trial_concurrency=1, created_at=now)
        trial = Trial.objects.create(experiment=experiment, public_id=job_name[:12], sequence_id=0, created_at=now)
        return Attempt.objects.create(trial=trial, job_name=job_name, created_at=now, stage=Attempt.Stage.SUBMITTED)

    def expect(self, form: JobApplicationForm, *, platform: str, code: TrialCode | None = None) -> None:
        code = code or form.code
        parameters = json.loads(form.hyper_parameters.value)
        with self._lock:
            self._join(form)
            trial = self._attempt(form.job_name).trial
            experiment = trial.experiment
            if not Experiment.objects.filter(public_id=form.experiment_id).exists():
                experiment.public_id = form.experiment_id
            experiment.trial_command = form.command
            experiment.trial_options = form.options.canonical()
            experiment.trial_gpu_number = form.gpu_number
            experiment.multi_phase = form.multi_phase
            experiment.config = {"environment": form.environment,
                                 **({} if form.metrics is None else {"metrics": dict(form.metrics)})}
            experiment.max_trial_duration = form.limits.max_trial_duration
            experiment.keep_files = list(form.keep_files)
            if code is not None:
                experiment.code_folder = str(code.folder or "")
                if code.archive is not None and code.sha256 is not None and code.archive.is_file():
                    experiment.code = keep_archive(code.archive, code.sha256, 0, timezone.now())
            experiment.save()
            Trial.objects.filter(pk=trial.pk).update(public_id=form.trial_job_id, sequence_id=form.sequence_id,
                                                     ask_number=parameters["parameter_id"])
            if form.variant is not None:
                Trial.objects.filter(pk=trial.pk).update(
                    variant=keep_variant(read_stored(form.variant.path.read_bytes()), timezone.now()))
            self._set_parameters(trial, form.hyper_parameters)

    def _join(self, form: JobApplicationForm) -> None:
        """A further attempt of a trial that is here belongs to it; and the trial runs again."""
        attempt = self._attempt(form.job_name)
        trial = Trial.objects.filter(public_id=form.trial_job_id).exclude(pk=attempt.trial_id).first()
        if trial is None:
            return
        own = attempt.trial.experiment
        Attempt.objects.filter(pk=attempt.pk).update(trial=trial, number=trial.attempts.count() + 1)
        own.delete()
        Trial.objects.filter(pk=trial.pk).update(target=TrialTarget.RUN)

    @staticmethod
    def _set_parameters(trial: Trial, parameters: HyperParameters) -> None:
        document = json.loads(parameters.value)
        TrialParameters.objects.update_or_create(
            trial=trial, index=parameters.index,
            defaults={"parameter_id": document["parameter_id"], "value": document["parameters"]})

    def order_stop(self, job_name: str, reason: str) -> None:
        trial = self._attempt(job_name).trial
        with transaction.atomic():
            set_targets([trial], TrialTarget.SYS_CANCELED, timezone.now(), reason=reason,
                           revision=next_revision(trial.experiment_id))

    def order_freeze(self, job_name: str, reason: str) -> None:
        trial = self._attempt(job_name).trial
        with transaction.atomic():
            set_targets([trial], TrialTarget.FROZEN, timezone.now(), reason=reason,
                           revision=next_revision(trial.experiment_id))

    def order_parameters(self, job_name: str, parameters: HyperParameters) -> None:
        self._set_parameters(self._attempt(job_name).trial, parameters)

    @staticmethod
    def _attempt(job_name: str) -> Attempt:
        attempt = Attempt.objects.select_related("trial__experiment").filter(job_name=job_name).first()
        if attempt is None:
            raise UnknownTrialJob(job_name)
        return attempt

    # --- what was taken --------------------------------------------------------------------

    def entries(self, job_name: str) -> list[contract.Entry]:
        accepted = self._attempt(job_name).accepted
        with self._noted:
            # committed is before noted, by a moment; what is stored and never acknowledged is a defect
            assert self._noted.wait_for(lambda: self._acknowledged[job_name] >= accepted or self._broken, PATIENCE), \
                f"nniweb stored entries of {job_name} up to {accepted} and acknowledged {self._acknowledged[job_name]}"
            if self._broken:
                raise self._broken[0]
            taken = [entry for _, entry in sorted(self._taken[job_name].items())]
        return _as_stored(self._attempt(job_name), taken)

    def attach(self, service: TrainingService) -> None:
        """Tell the service's listeners what nniweb has stored.

        nniweb itself never does: it stores what keepers report and acts on its rows, and with it a
        service emits only what it reads itself. The cases about listeners ask whether each metric
        is had once, in order and as reported, so here the listeners hear each metric as it stands
        in nniweb's row, once, after the commit and before the keeper is answered.
        """
        with self._lock:
            self._services.append(service)

    def _note(self, job_name: str, body: bytes, encoding: str, reply: dict[str, Any]) -> None:
        """An acknowledged report. Called on a thread that may use the database, before the keeper is answered."""
        try:
            report = read_report(body, encoding)
            rejected = {one["n"] for one in reply["rejected"]}
            with self._lock:
                known = self._taken[job_name]
                new = [entry for entry in report.entries
                       if entry["n"] <= reply["accepted"] and entry["n"] not in rejected | known.keys()]
                known.update({entry["n"]: entry for entry in new})
                self._acknowledged[job_name] = max(self._acknowledged[job_name], reply["accepted"])
                if new and self._services:
                    stored = _as_stored(self._attempt(job_name), new)
                    for service in self._services:
                        service.hear(job_name, stored)
        except Exception as error:  # the keeper is not to blame; the test hears of it when it asks
            logger.exception("an acknowledged report of job %s could not be followed", job_name)
            self._broken.append(error)
        finally:
            with self._noted:
                self._noted.notify_all()
            connection.close()


def _as_stored(attempt: Attempt, entries: Iterable[contract.Entry]) -> list[contract.Entry]:
    """The entries with everything that nniweb's rows hold of them. AssertionError where a row is missing."""
    entries = list(entries)
    types = {entry["type"] for entry in entries}
    metrics = {row.n: row for row in attempt.metrics.all()} if contract.METRIC in types else {}
    output = {(row.stream, row.offset): row for row in attempt.output.all()} if contract.OUTPUT in types else {}
    stored = []
    for entry in entries:
        held: dict[str, Any] | None = None
        if entry["type"] == contract.METRIC and (metric := metrics.get(entry["n"])):
            held = {"kind": metric.kind, "parameter_id": json.loads(metric.parameter_id), "sequence": metric.sequence,
                    "value": metric.value}
        elif entry["type"] == contract.OUTPUT and (piece := output.get((entry["stream"], entry["offset"]))):
            held = {"data": bytes(piece.data).decode("latin-1"), "skipped": piece.skipped}
        elif entry["type"] == contract.STARTED and attempt.started_at is not None:
            held = {"host": attempt.machine_name, "working_directory": attempt.working_directory}
        elif entry["type"] == contract.CHECKPOINT and (
                found := attempt.checkpoints.filter(manifest=entry["id"]).first()):
            held = {"k": found.k, "step": found.step, "sequence": found.sequence, "name": found.name}
        elif entry["type"] == contract.CHECKPOINT and attempt.resumed_from is not None \
                and attempt.resumed_from.manifest == entry["id"]:
            held = {"event": contract.RESTORED, "name": attempt.resumed_from.name}
        elif entry["type"] == contract.ENDED and attempt.stage == Attempt.Stage.ENDED:
            held = {"exit_code": attempt.exit_code, "reason": attempt.end_reason, "duration": attempt.duration}
        assert held is not None, f"nniweb acknowledged this entry of {attempt.job_name} and has no row of it: {entry}"
        stored.append({**entry, **held})
    return stored


class _PromptServer(uvicorn.Server):
    """uvicorn that notices within 10 ms instead of 100 ms that it shall end; the suite ends one per case."""

    async def main_loop(self) -> None:
        ticks = 0
        while not await self.on_tick(ticks):
            ticks = (ticks + 1) % 864000
            await asyncio.sleep(0.01)


class _WebServer:
    """uvicorn on a port of loopback, in a thread, with the keepers' application; ``note`` learns of each good report.

    ``port`` 0 takes a free one.
    """

    def __init__(self, port: int, note: Callable[[str, bytes, str, dict[str, Any]], None]) -> None:
        self._note = note
        self._application = KeeperApplication()
        listening = socket.create_server(("127.0.0.1", port), backlog=128)
        self.port = int(listening.getsockname()[1])
        self._server = _PromptServer(uvicorn.Config(
            self._serve, interface="asgi3", lifespan="off", ws="none", log_config=None,
            access_log=False, timeout_graceful_shutdown=10))
        self._thread = threading.Thread(target=self._server.run, args=[[listening]], name="nniweb-for-keepers",
                                        daemon=True)
        self._thread.start()
        deadline = time.monotonic() + PATIENCE
        while not self._server.started:
            assert self._thread.is_alive(), "the web server did not start; its log says why"
            assert time.monotonic() < deadline, f"the web server did not start within {PATIENCE:.0f} s"
            time.sleep(0.005)

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join(PATIENCE)
        self._application.group_commit.close()
        assert not self._thread.is_alive(), f"the web server did not end within {PATIENCE:.0f} s"

    async def _serve(self, scope: Any, receive: Any, send: Any) -> None:
        if not scope["path"].endswith("/reports"):
            await self._application(scope, receive, send)
            return
        heard: list[bytes] = []
        answer: list[Any] = []

        async def listen() -> Any:
            message = await receive()
            heard.append(message.get("body", b""))
            return message

        async def hold(message: Any) -> None:
            answer.append(message)

        await self._application(scope, listen, hold)
        if answer and answer[0]["status"] == 200:
            encoding = dict(scope["headers"]).get(b"content-encoding", b"").decode()
            reply = json.loads(answer[1]["body"])
            await asyncio.to_thread(self._note, scope["path"].split("/")[-2], b"".join(heard), encoding, reply)
        for message in answer:
            await send(message)
