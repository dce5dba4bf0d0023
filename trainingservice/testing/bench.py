"""The bench on which the conformance suite puts a platform: services, forms, waiting, and a clean end."""

from __future__ import annotations

import abc
import os
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from trainingservice.base import ServiceContext, TrainingService
from trainingservice.cluster_settings import TrialOptions
from trainingservice.code.code_archive import pack_code
from trainingservice.errors import TemporaryError, TrainingServiceError
from trainingservice.gpus.gpu_slots import MemoryGpuBook
from trainingservice.keeper.keeper_bundle import build_keeper
from trainingservice.testing.keeper_server import KeeperServer
from trainingservice.testing.processes import RunningProcess, end_processes, processes_of, since_boot
from trainingservice.trial_job import (
    HyperParameters,
    JobApplicationForm,
    ResumedJob,
    TrialCode,
    TrialJobDetail,
    TrialLimits,
    parameter_text,
)
from trainingservice.trial_job_status import ENDS, TrialJobStatus
from trainingservice.variants.code_variant import ChangedFile, CodeVariant, variant_content, write_variant
from trialkeeper import contract

#: Seconds until an expectation counts as disappointed. Generous: a passing suite never waits so long.
PATIENCE = 90.0
#: Seconds until all processes of a test must have ended after it.
END_PATIENCE = 30.0


class PlatformUnderTest(abc.ABC):
    """One cluster of a platform. ``folder`` is empty and all its own; it is removed after the test."""

    #: How trials start Python there.
    python: ClassVar[str] = "python3"
    #: True where trials run on this machine, so that the suite can look at their processes and they can
    #: write to absolute paths of the test. Cases that need it are skipped elsewhere.
    runs_here: ClassVar[bool] = True
    #: On how many nodes one trial can run there. Cases that need two are skipped where it is one.
    most_nodes: ClassVar[int] = 1
    #: A key of ``metadata_keys`` and a right value for it; None where the platform has none of its own.
    metadata_example: tuple[str, str] | None = None
    #: What is set on each service before it runs, in this order.
    metadata: Mapping[str, str] = {}

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @abc.abstractmethod
    def new_service(self, context: ServiceContext) -> TrainingService:
        """A fresh object for the same cluster, as a restarted host would make it."""

    def options(self) -> TrialOptions:
        """What the trials of the suite ask of the platform beside their command."""
        return TrialOptions()

    @abc.abstractmethod
    def left_behind(self, experiment_id: str) -> list[str]:
        """What of an experiment is on the platform now (jobs, folders, objects), in any words; [] for nothing."""


class Bench:
    """One platform and one keeper server, with everything a case needs. ``close`` leaves nothing running."""

    def __init__(self, platform: PlatformUnderTest, server: KeeperServer, folder: Path) -> None:
        self.platform, self.server, self.folder = platform, server, folder
        self.experiment = new_id("e")
        #: Where trials leave marks of what they did, outside their code.
        self.witness = folder / "witness"
        self.witness.mkdir()
        self._began = since_boot()
        self._services: list[tuple[TrainingService, threading.Thread]] = []
        self._forms: list[JobApplicationForm] = []
        self._changed = threading.Condition()
        self._gpu_book = MemoryGpuBook()
        #: Where the server is, as its own machine knows it.
        self.server_urls: tuple[str, ...] = ()
        self.changes: list[str] = []  #: job names as ``on_change`` told them

    # --- services --------------------------------------------------------------------------

    def context(self) -> ServiceContext:
        """The same for each object on this cluster, as the host keeps it."""
        return ServiceContext(cluster_id="conformance", state_folder=self.folder / "state", installation="conformance",
                              gpu_book=self._gpu_book, on_change=self._note_change,
                              relay_urls=lambda: self.server_urls, public_urls=lambda: self.server_urls)

    def _note_change(self, job_name: str) -> None:
        with self._changed:
            self.changes.append(job_name)
            self._changed.notify_all()

    def open_service(self, resumed: Sequence[ResumedJob] = (),
                     prepare: Callable[[TrainingService], None] = lambda service: None) -> TrainingService:
        """A running service, opened in the order that the host holds. ``prepare`` is called after its metadata is set.
        """
        service = self.platform.new_service(self.context())
        for key, value in self.platform.metadata.items():
            service.set_cluster_metadata(key, value)
        prepare(service)
        self.server.attach(service)
        service.resume_trial_jobs(list(resumed))
        thread = threading.Thread(target=service.run, name=f"run of {service.platform}", daemon=True)
        thread.start()
        self._services.append((service, thread))
        return service

    def close_service(self, service: TrainingService) -> None:
        """``clean_up``, and ``run`` must have returned."""
        service.clean_up()
        for known, thread in self._services:
            if known is service:
                thread.join(PATIENCE)
                assert not thread.is_alive(), "run did not return after clean_up"
        self._services = [(known, thread) for known, thread in self._services if known is not service]

    # --- jobs ------------------------------------------------------------------------------

    def code(self, files: Mapping[str, str | bytes]) -> TrialCode:
        """A code folder with these files, and its archive."""
        folder = self.folder / "code" / new_id("c")
        folder.mkdir(parents=True)
        for name, content in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        return self.packed(folder)

    def packed(self, folder: Path) -> TrialCode:
        """This folder as code, with its archive as the host would make it."""
        archive = pack_code(folder.resolve(), self.folder / "archives")
        return TrialCode(folder=folder, archive=archive.path, sha256=archive.sha256)

    def variant(self, code: TrialCode, *files: ChangedFile) -> CodeVariant:
        """Changes to this code, as the host would keep them."""
        assert code.sha256 is not None
        return write_variant(variant_content(code.sha256, files), self.folder / "variants")

    def form(self, command: str | None = None, *, script: str | None = None, parameters: Any = None,
             experiment: str | None = None, trial: str | None = None, limits: Mapping[str, Any] = {},
             **more: Any) -> JobApplicationForm:
        """A job that runs ``command``, or ``script`` as a Python program. ``trial``: it is a further attempt of this
        one.
        """
        name = new_id("t")
        if script is not None:
            more.setdefault("code", self.code({"trial.py": script}))
            command = command or f"{self.platform.python} trial.py"
        more.setdefault("code", self.code({"readme": "nothing to run here"}))
        quick = {"report_interval": 0.2, "grace_period": 1.0, "give_up_after": 60.0}
        access = self.server.access_for(name)
        self.server_urls = access.urls
        options = self.platform.options()
        form = JobApplicationForm(
            job_name=name, trial_job_id=trial or name, experiment_id=experiment or self.experiment,
            sequence_id=len(self._forms), command=command or "true",
            hyper_parameters=HyperParameters(parameter_text(parameters or {"x": 0.5}, len(self._forms))),
            keeper=access, options=options, stays_for=options.stays_for(),
            limits=TrialLimits(**{**quick, **limits}), **more)
        self._forms.append(form)
        self.server.expect(form, platform="conformance", code=form.code)
        return form

    def entries(self, form: JobApplicationForm, kind: str | None = None) -> list[contract.Entry]:
        """What the server has taken from the job's keeper, all or of one type."""
        return [entry for entry in self.server.entries(form.job_name) if kind in (None, entry["type"])]

    def output(self, form: JobApplicationForm, stream: str = "stdout") -> str:
        """What the server has of one stream."""
        pieces = sorted((entry["offset"], entry["data"]) for entry in self.entries(form, contract.OUTPUT)
                        if entry["stream"] == stream)
        return "".join(data for _, data in pieces).encode("latin-1").decode()

    def another_keeper(self, form: JobApplicationForm) -> subprocess.Popen[bytes]:
        """A second keeper for the same attempt, as a restarted container starts one. The caller waits for its end."""
        folder = self.folder / new_id("k")
        folder.mkdir(mode=0o700)
        keeper = build_keeper(self.folder / "keepers")
        environment = {name: value for name, value in os.environ.items() if not name.startswith("NNI_")}
        environment |= {contract.ENV_URLS: ",".join(form.keeper.urls), contract.ENV_TOKEN: form.keeper.token,
                        contract.ENV_JOB: form.job_name, contract.ENV_FOLDER: str(folder)}
        return subprocess.Popen([sys.executable, "-S", str(keeper.path), "run"], env=environment, cwd=folder,
                                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    # --- waiting ---------------------------------------------------------------------------

    def wait(self, what: str, condition: Callable[[], Any], patience: float = PATIENCE) -> Any:
        """Wait until ``condition`` is true and return its value; looked at on each change and every 20 ms."""
        deadline = time.monotonic() + patience
        while not (value := condition()):
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {patience:.0f} s: {what}\n{self._picture()}")
            with self._changed:
                self._changed.wait(0.02)
        return value

    def wait_if_it_comes(self, condition: Callable[[], Any], patience: float) -> bool:
        """Wait for what may rightly not happen; returns whether it did."""
        try:
            return bool(self.wait("", condition, patience))
        except AssertionError:
            return False

    def wait_for_status(self, service: TrainingService, form: JobApplicationForm,
                        *statuses: TrialJobStatus) -> TrialJobDetail:
        """Wait until the service shows one of these statuses (or fail at once on another end)."""
        wanted = set(statuses)
        self.wait(f"{form.job_name} is {' or '.join(sorted(wanted))}",
                  lambda: service.get_trial_job(form.job_name).status in wanted | ENDS)
        detail = service.get_trial_job(form.job_name)
        assert detail.status in wanted, f"{form.job_name} is {detail.status}: {detail.message}\n{self._picture()}"
        return detail

    def wait_for_end(self, service: TrainingService, form: JobApplicationForm,
                     status: TrialJobStatus = TrialJobStatus.SUCCEEDED) -> TrialJobDetail:
        """Wait for this end, and until the server knows all the keeper had to say."""
        self.wait_for_status(service, form, status)
        self.wait(f"{form.job_name} has reported its end", lambda: self.entries(form, contract.ENDED))
        return service.get_trial_job(form.job_name)

    def wait_for_file(self, path: Path) -> str:
        """Wait until a trial has written this file, and return it."""
        self.wait(f"{path.name} is written", lambda: path.is_file() and path.stat().st_size)
        return path.read_text()

    def _picture(self) -> str:
        lines = [f"{job.id}: {job.status} {job.message!r} exit {job.exit_code} at {job.working_directory}"
                 for service, _ in self._services for job in service.list_trial_jobs()]
        for form in self._forms:
            try:
                entries = self.server.entries(form.job_name)
            except TrainingServiceError:
                entries = []
            lines.append(f"{form.job_name} {form.command[:60]!r}: {[entry['type'] for entry in entries]} "
                         f"{[entry.get('message') for entry in entries if entry['type'] == contract.ENDED]} "
                         f"stderr {self.output(form, 'stderr')[-500:]!r}" if entries else form.job_name)
        return "\n".join(lines)

    def _wait_for_all(self, service: TrainingService) -> None:
        self.wait("the jobs that a case left have ended",
                  lambda: all(job.status.is_end for job in service.list_trial_jobs()))

    # --- the end ---------------------------------------------------------------------------

    def _remove(self, service: TrainingService, experiment: str) -> None:
        """Remove what an experiment left."""
        def is_removed() -> bool:
            try:
                service.clean_up_experiment(experiment)
            except TemporaryError:  # a host tries again, too
                return False
            return True

        self.wait(f"what experiment {experiment} left is removed", is_removed)

    def processes(self) -> list[str]:
        """What of this bench still runs on this machine."""
        return [f"{process.pid} {process.command[:200]}" for process in processes_of(self._marks(), self._began)]

    def trial_processes(self, form: JobApplicationForm) -> list[str]:
        """The processes that run on behalf of one trial on this machine (its keeper may not be among them)."""
        return [f"{process.pid} {process.command[:200]}" for process in processes_of([form.job_name], self._began)]

    def _marks(self) -> list[str]:
        return [str(self.folder), str(self.platform.folder), *(form.job_name for form in self._forms)]

    def close(self, *, clean_up: bool = False) -> None:
        """End all jobs and services. Raises AssertionError if a process is left; it is ended then.

        ``clean_up``: remove what the experiments left on the platform, too: a cluster may outlive the suite.
        """
        left: list[RunningProcess] = []

        def none_is_left() -> bool:
            left[:] = processes_of(self._marks(), self._began) if self.platform.runs_here else []
            return not left

        try:
            if clean_up and self._forms and not self._services:
                self.open_service()
            for service, _ in list(self._services):
                for job in service.list_trial_jobs():
                    if not job.status.is_end:
                        service.cancel_trial_job(job.id)
            for service, _ in list(self._services):
                self._wait_for_all(service)
                if clean_up:
                    for experiment in dict.fromkeys(form.experiment_id for form in self._forms):
                        self._remove(service, experiment)
                self.close_service(service)
            # the look that ends the wait decides: what another one finds may only just have begun
            self.wait_if_it_comes(none_is_left, END_PATIENCE)
        except BaseException:
            none_is_left()
            raise
        finally:
            end_processes(left)
        assert not left, f"these processes were left behind: {left}"


def new_id(letter: str) -> str:
    """A fresh id in the form of public ids: 12 characters, the first a letter."""
    return letter + uuid.uuid4().hex[:11]
