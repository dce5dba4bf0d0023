"""The ray platform: each trial is a job of a Ray cluster, with a keeper under Ray's own process of the job."""

from __future__ import annotations

import logging
import shutil
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, cast

from trainingservice.base import RehearsalFinding, RemovedJobs, ServiceContext
from trainingservice.cluster_settings import ClusterSettings, TrialOptions
from trainingservice.code.code_archive import require_archive
from trainingservice.errors import PermanentError, TemporaryError, TrainingServiceError
from trainingservice.polling.accepted_at import accepted_at, is_new
from trainingservice.polling.one_by_one import Answers, OneByOne
from trainingservice.polling.service import Observation, PollingTrainingService
from trainingservice.ray.api import NameTaken, RayApi
from trainingservice.ray.config import RayClusterSettings, RayTrialOptions
from trainingservice.ray.job_request import (
    EXPERIMENT_KEY,
    INSTALLATION_KEY,
    TRIAL_KEY,
    asked_resources,
    job_request,
)
from trainingservice.ray.rehearsal import rehearse_cluster, why_no_node
from trainingservice.ray.rehearsal_job import try_job
from trainingservice.ray.states import (
    COMMAND_START_ERROR,
    FAILED,
    PENDING,
    START_TIMEOUT,
    STOPPED,
    kind_of_fault,
    last_lines_of,
    observed_job,
    of_ray,
    with_told_end,
)
from trainingservice.reasons import Reason, with_more
from trainingservice.trial_job import TrialJobDetail
from trainingservice.trial_job_status import TrialJobStatus

logger = logging.getLogger(__name__)

#: A job may be unknown to the cluster for so many seconds after its submission was accepted.
NOT_THERE_YET = 30.0
#: A job that a new head does not know counts as lost after so many seconds: the nodes of the old head give up, and end
#: what runs on them, when they have not reached it for a minute.
LOST_AFTER = 75.0
#: Up to so many jobs are asked about one by one; more with one question for all that the cluster has.
ONE_BY_ONE = 20
#: A job that has waited for so many seconds is compared with what the nodes have; so often they are asked.
ASK_NODES_AFTER, ASK_NODES_EVERY = 20.0, 60.0
#: How long one call of ``remove_ended_jobs`` goes on.
REMOVE_FOR = 15.0
#: What the state of a job keeps of the head's session.
_SESSION = "session"


class RayTrainingService(PollingTrainingService):
    """Runs trials as jobs of one Ray cluster. The submission id of a job is the attempt's name.

    Keeper, job and code come from the server, and reports go there: nothing of them is brought to the cluster.
    """

    platform: ClassVar[str] = "ray"
    settings_model: ClassVar[type[ClusterSettings]] = RayClusterSettings
    options_model: ClassVar[type[TrialOptions]] = RayTrialOptions
    takes_variants: ClassVar[bool] = True
    keeps_ended_jobs: ClassVar[bool] = True
    poll_interval: ClassVar[tuple[float, float]] = (2.0, 15.0)
    lost_after: ClassVar[float] = LOST_AFTER
    not_there_yet: ClassVar[float] = NOT_THERE_YET

    def __init__(self, settings: ClusterSettings, context: ServiceContext, *,
                 monotonic: Callable[[], float] = time.monotonic) -> None:
        super().__init__(settings, context, monotonic=monotonic)
        self._api = RayApi(cast(RayClusterSettings, settings))
        self._one_by_one = OneByOne()
        self._guard = threading.Lock()
        #: Jobs that the cluster was told to stop.
        self._stopped: set[str] = set()
        #: Jobs that a head without the memory of the last one does not know: since when (monotonic).
        self._missed_since: dict[str, float] = {}
        #: What the nodes had when they were asked last, and when that was (monotonic).
        self._nodes: tuple[float, list[dict[str, float]]] | None = None

    def close(self) -> None:
        self._api.close()

    def rehearse(self, quick: bool = False, options: TrialOptions | None = None) -> list[RehearsalFinding]:
        asked = cast("RayTrialOptions | None", options)
        findings = rehearse_cluster(self._api, asked, quick=quick)
        if quick or not all(finding.ok for finding in findings):
            return findings
        return [*findings, *try_job(self._api, asked, self.context)]

    # --- the four methods ------------------------------------------------------------------

    def start_job(self, job: TrialJobDetail) -> Observation:
        form = job.form
        if self._tombstone(form.experiment_id, job.id).exists():
            return Observation(TrialJobStatus.SYS_CANCELED, message=Reason("canceled_before_start"))
        require_archive(form.code)
        if not form.keeper.urls:
            raise PermanentError("This job has no way to its code: the server has no address that the cluster can "
                                 "call. Set NNIWEB_PUBLIC_URL or nniManagerIp.")
        session = self._api.session()  # first: a head that is started after this has another one
        state = {**accepted_at(self.context.clock()), _SESSION: session}
        try:
            self._api.submit(job_request(form, self.context.installation))
        except NameTaken:
            row = self._own_job(job)
            if kind_of_fault(row) == START_TIMEOUT and row.get("status") == FAILED:  # nothing of it ever ran
                self._api.delete(job.id)
                raise TemporaryError("The job had no room on Ray for as long as Ray lets one wait. It is submitted "
                                     "again.", retry_after=0.0) from None
            return replace(self._observed(job, row), platform_state=state)
        return Observation(TrialJobStatus.WAITING, url=self._api.page(job.id), platform_state=state)

    def observe_jobs(self, jobs: Sequence[TrialJobDetail]) -> Mapping[str, Observation | None]:
        rows = {str(row["submission_id"]): row for row in self._api.jobs()} if len(jobs) > ONE_BY_ONE else None
        return self._one_by_one.ask(jobs, lambda job: self._answer(job, rows))

    def _answer(self, job: TrialJobDetail, rows: Mapping[str, Mapping[str, Any]] | None) -> Answers:
        """Of one job. ``rows``: all that the cluster has, None where it is asked for this one."""
        row = self._api.job(job.id) if rows is None else rows.get(job.id)
        if row is None:
            return self._of_unknown(job)
        self._missed_since.pop(job.id, None)
        if not self._is_ours(row, job.id):
            return {job.id: None}  # somebody else's, under this name
        if row.get("status") == FAILED and kind_of_fault(row) == START_TIMEOUT and job.is_early_stopped is None:
            # it waits in our queue again; its record on the cluster is removed by the next submission
            self.give_back(job.id, TemporaryError(of_ray(
                "platform_queue", "The job had no room on Ray for as long as Ray lets one wait. It is submitted again.",
                START_TIMEOUT), retry_after=0.0))
            return {}
        return {job.id: self._observed(job, row)}

    def stop_job(self, job: TrialJobDetail) -> None:
        try:
            tombstone = self._tombstone(job.form.experiment_id, job.id)
            tombstone.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            tombstone.touch()
        except OSError as error:
            raise TemporaryError(f"The server cannot write to its own state folder: {error.strerror}. Free disk space "
                                 "there.") from error
        finally:
            if self._api.stop(job.id):
                with self._guard:
                    self._stopped.add(job.id)

    def remove_experiment(self, experiment_id: str, jobs: Sequence[TrialJobDetail]) -> None:
        for row in self._api.jobs():
            told = row.get("metadata") or {}
            if told.get(INSTALLATION_KEY) == self.context.installation and told.get(EXPERIMENT_KEY) == experiment_id:
                self._api.delete(str(row["submission_id"]))
        shutil.rmtree(self._tombstone(experiment_id, "none").parent, ignore_errors=True)

    # --- what else -------------------------------------------------------------------------

    def remove_ended_jobs(self, job_names: Collection[str], *, keep_unsaved: bool) -> RemovedJobs:
        removed = 0
        faults: list[TemporaryError] = []
        deadline = self._monotonic() + REMOVE_FOR
        for name in job_names:
            if self._monotonic() > deadline:
                return RemovedJobs(removed, is_through=False)
            row = self._api.job(name)
            if row is None or not self._is_ours(row, name):
                continue
            try:
                removed += self._api.delete(name)
            except TemporaryError as fault:
                faults.append(fault)
        if faults:
            raise TemporaryError(f"{len(faults)} of the jobs were not removed from Ray: {faults[0]}", retry_after=30)
        return RemovedJobs(removed)

    def last_lines(self, job_name: str) -> str | None:
        return last_lines_of(self._api.log(job_name))

    def job_ended(self, job: TrialJobDetail) -> None:
        self._missed_since.pop(job.id, None)
        with self._guard:
            self._stopped.discard(job.id)

    # --- how -------------------------------------------------------------------------------

    def _own_job(self, job: TrialJobDetail) -> dict[str, Any]:
        """The job of this name, submitted before."""
        row = self._api.job(job.id)
        if row is None:
            raise TemporaryError(f"{self._api.where} has just had a job {job.id} and has none now; it is submitted "
                                 "again.")
        if not self._is_ours(row, job.id):
            raise PermanentError(f"{self._api.where} has a job {job.id} already, which does not belong to this trial. "
                                 "Rerun the trial, so that its job gets another name.")
        return row

    def _is_ours(self, row: Mapping[str, Any], name: str) -> bool:
        told = row.get("metadata") or {}
        return (told.get(INSTALLATION_KEY), told.get(TRIAL_KEY)) == (self.context.installation, name)

    def _observed(self, job: TrialJobDetail, row: Mapping[str, Any]) -> Observation:
        seen = replace(observed_job(row), url=self._api.page(job.id))
        if row.get("status") == PENDING:
            with self._guard:
                is_stopped = job.id in self._stopped
            if job.is_early_stopped is not None and is_stopped:
                # Ray stops it when it would begin, however long that takes; and the server has no keeper for it
                return replace(seen, status=TrialJobStatus.SYS_CANCELED, message="")
            return replace(seen, message=with_more(seen.message or "", self._why_no_room(job)))
        if row.get("status") == STOPPED or kind_of_fault(row) == COMMAND_START_ERROR:
            try:
                return replace(with_told_end(seen, self._api.log(job.id)), url=seen.url)
            except TrainingServiceError as error:  # its node is gone, say; the end itself is certain
                logger.info("the log of job %s cannot be read: %s", job.id, error)
        return seen

    def _of_unknown(self, job: TrialJobDetail) -> Answers:
        """Of a job that the cluster has no record of: it was deleted, or the head has forgotten all."""
        if is_new(job, self.context.clock(), self.not_there_yet):
            return {}
        session = job.platform_state.get(_SESSION)
        if not session or job.is_early_stopped is not None or self._api.session() == session:
            return {job.id: None}
        since = self._missed_since.setdefault(job.id, self._monotonic())
        if self._monotonic() - since < self.lost_after:
            return {}  # unknown is not dead: its node may not have noticed yet, and its keeper may report
        lost = of_ray("node_failed", "Ray's head was started anew and has forgotten its jobs. The job was lost with "
                                     "it.")
        return {job.id: Observation(TrialJobStatus.FAILED, message=lost, cause=lost)}

    def _why_no_room(self, job: TrialJobDetail) -> str:
        """Of a job that has waited for a while: what no node has, a sentence; "" where there is nothing to say."""
        if is_new(job, self.context.clock(), ASK_NODES_AFTER):
            return ""
        now = self._monotonic()
        if self._nodes is None or now - self._nodes[0] >= ASK_NODES_EVERY:
            try:
                self._nodes = (now, self._api.nodes())
            except TrainingServiceError as error:
                logger.info("the nodes of the cluster cannot be asked about: %s", error)
                return ""
        return why_no_node(asked_resources(job.form.gpu_number, cast(RayTrialOptions, job.form.options)),
                           self._nodes[1])

    def _tombstone(self, experiment_id: str, job_name: str) -> Path:
        return self.context.state_folder / "canceled" / experiment_id / job_name
