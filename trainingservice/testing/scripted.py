"""A platform for tests: real keepers and trials on this machine, and a cluster that does what it is told to.

    trainingservice.platforms.register("scripted", "trainingservice.testing.scripted:ScriptedTrainingService")

or, without code, ``NNIWEB_EXTRA_PLATFORMS=scripted=trainingservice.testing.scripted:ScriptedTrainingService``
(for the second shape ``scripted_at_once=...:ScriptedAtOnceTrainingService``). How jobs fare is written
in the settings (``trainingservice.testing.behaviour``). Code is shipped as an archive; each trial has
its own copy. What the cluster knows is on disk: another object with the same settings and state
folder finds all jobs again, also after this process was killed.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, cast

from trainingservice.base import RehearsalFinding, ServiceContext
from trainingservice.cluster_settings import ClusterSettings, TrialOptions
from trainingservice.code.code_archive import pack_code
from trainingservice.errors import PermanentError, TemporaryError, Unsupported
from trainingservice.polling.service import Observation, PollingTrainingService
from trainingservice.testing.behaviour import ScriptedClusterSettings
from trainingservice.testing.scripted_cluster import SILENCE, ScriptedCluster
from trainingservice.trial_job import TrialCode, TrialJobDetail, job_document
from trainingservice.trial_job_status import TrialJobStatus
from trialkeeper import contract

#: Seconds until the keepers of a removed experiment must have ended.
REMOVE_DEADLINE = 20.0


class ScriptedTrainingService(PollingTrainingService):
    """Shape one: a submission goes into a queue that ``run`` drains."""

    platform: ClassVar[str] = "scripted"
    settings_model: ClassVar[type[ClusterSettings]] = ScriptedClusterSettings
    takes_variants: ClassVar[bool] = True
    needs_public_url: ClassVar[bool] = False
    pinned_to_host: ClassVar[bool] = True
    metadata_keys: ClassVar[dict[str, str]] = {"note": "any text; it has no effect",
                                               "password": "any text; it has no effect and is a secret"}
    secret_metadata_keys: ClassVar[frozenset[str]] = frozenset({"password"})
    metadata_changeable_while_running: ClassVar[frozenset[str]] = frozenset({"note"})
    poll_interval: ClassVar[tuple[float, float]] = (0.05, 0.5)
    back_off: ClassVar[tuple[float, float]] = (0.1, 2.0)

    def __init__(self, settings: ClusterSettings, context: ServiceContext, *,
                 monotonic: Callable[[], float] = time.monotonic) -> None:
        super().__init__(settings, context, monotonic=monotonic)
        self._script = cast(ScriptedClusterSettings, settings)
        folder = Path(self._script.folder) if self._script.folder else context.state_folder / "scripted"
        self.cluster = ScriptedCluster(folder, context.clock, on_end=self.ask_soon)
        self._metadata: dict[str, str] = {}

    # --- the four methods ------------------------------------------------------------------

    def start_job(self, job: TrialJobDetail) -> Observation:
        form = job.form
        behaviour = self._script.behaviour_of(job.id, form.sequence_id)
        if not self.cluster.knows(job.id):
            if behaviour.refused_for_ever:
                raise PermanentError(behaviour.refused_for_ever)
            if behaviour.refusals:
                before = self.cluster.refuse(job.id, form.experiment_id, behaviour.refusals)
                if before < behaviour.refusals:
                    raise TemporaryError(f"The scripted cluster refuses job {job.id} for the {before + 1}. of "
                                         f"{behaviour.refusals} times.", retry_after=0.05)
            # a keeper whose way to the server is cut off cannot fetch anything
            fetches_job = self._script.fetches_job and not behaviour.end_shown_before_last_report
            document = job_document(form, platform=self.platform, path=[str(Path(sys.executable).parent)],
                                    code=self._code(form.experiment_id, form.code, fetches_job))
            if behaviour.end_shown_before_last_report:
                document["limits"]["claim_timeout"] = 0.1  # nobody will answer: it need not wait
            self.cluster.accept(job.id, form.experiment_id, document, form.keeper, behaviour, fetches_job=fetches_job)
        seen = self.cluster.look(job.id)
        return seen if isinstance(seen, Observation) else Observation(TrialJobStatus.WAITING)

    def observe_jobs(self, jobs: Sequence[TrialJobDetail]) -> Mapping[str, Observation | None]:
        answers: dict[str, Observation | None] = {}
        for job in jobs:
            seen = self.cluster.look(job.id)
            if seen is not SILENCE:
                answers[job.id] = cast("Observation | None", seen)
        return answers

    def stop_job(self, job: TrialJobDetail) -> None:
        self.cluster.stop(job.id, job.form.experiment_id)

    def remove_experiment(self, experiment_id: str, jobs: Sequence[TrialJobDetail]) -> None:
        deadline = self._monotonic() + REMOVE_DEADLINE
        for name in self.cluster.jobs(experiment_id):
            while not self.cluster.remove(name):
                if self._monotonic() > deadline:
                    raise TemporaryError(f"The keeper of job {name} still ends; clean up once more.", retry_after=10)
                time.sleep(0.05)
        shutil.rmtree(self._code_folder(experiment_id), ignore_errors=True)

    # --- what this platform adds -----------------------------------------------------------

    @property
    def is_multi_phase_job_supported(self) -> bool:
        return self._script.multi_phase

    def deliver_order(self, job: TrialJobDetail, order: contract.Order) -> None:
        if order["order"] == contract.ORDER_PARAMETERS and not self._script.multi_phase:
            raise Unsupported("This scripted cluster gives running trials no further parameters.")
        self.cluster.deliver(job.id, order)

    def set_cluster_metadata(self, key: str, value: str) -> None:
        if key not in self.metadata_keys:
            super().set_cluster_metadata(key, value)
            return
        self._metadata[key] = value

    def get_cluster_metadata(self, key: str) -> str:
        return self._metadata[key] if key in self._metadata else super().get_cluster_metadata(key)

    def rehearse(self, quick: bool = False, options: TrialOptions | None = None) -> list[RehearsalFinding]:
        try:
            self.cluster.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            probe = self.cluster.folder / "rehearsal"
            probe.touch()
            probe.unlink()
        except OSError as error:
            return [RehearsalFinding("folder", False, f"The cluster's folder {self.cluster.folder} cannot be written: "
                                                      f"{error}; name another one in trainingService.folder.")]
        return [RehearsalFinding("folder", True, f"The cluster's folder {self.cluster.folder} can be written.")]

    def left_behind(self, experiment_id: str) -> list[str]:
        """What of an experiment is in the cluster now, for tests."""
        code = self._code_folder(experiment_id)
        return [f"job {name}" for name in self.cluster.jobs(experiment_id)] + ([str(code)] if code.exists() else [])

    def _code_folder(self, experiment_id: str) -> Path:
        return self.cluster.folder / "code" / experiment_id

    def _code(self, experiment_id: str, code: TrialCode | None, fetched: bool) -> contract.CodeDocument | None:
        """The experiment's archive: as the form brings it, else made of the folder."""
        if code is None:
            return None
        if code.archive is not None and not code.archive.is_file():
            raise PermanentError(f"The code archive {code.archive} does not exist; launch the experiment again.")
        if code.sha256 is not None and fetched:
            return {"sha256": code.sha256}
        if code.sha256 is not None and code.archive is not None:
            return {"sha256": code.sha256, "archive": str(code.archive)}
        if code.folder is None:
            raise PermanentError("The trial has neither a code folder nor a code archive; set trialCodeDirectory.")
        packed = pack_code(code.folder.resolve(), self._code_folder(experiment_id))
        return {"sha256": packed.sha256, "archive": str(packed.path)}


class ScriptedAtOnceTrainingService(ScriptedTrainingService):
    """Shape two: a job is handed to the cluster before ``submit_trial_job`` returns."""

    platform: ClassVar[str] = "scripted_at_once"
    submits_at_once: ClassVar[bool] = True
