"""The base of all platforms on Kubernetes: one object a trial, watched rather than asked about."""

from __future__ import annotations

import abc
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from trainingservice.base import RehearsalFinding, RemovedJobs, ServiceContext
from trainingservice.cluster_settings import ClusterSettings, TrialOptions
from trainingservice.errors import PermanentError, TemporaryError, TrainingServiceError, UnknownTrialJob
from trainingservice.keeper.collected_journals import CollectedJournals
from trainingservice.keeper.keeper_exit import observed_exit
from trainingservice.kubernetes_base import names, pod_logs, pods
from trainingservice.kubernetes_base.api import (
    PODS,
    SECRETS,
    ApiAccess,
    ApiRefusal,
    KubernetesApi,
    Object,
    error_of,
)
from trainingservice.kubernetes_base.belongings import Belongings, WasCanceled, remove
from trainingservice.kubernetes_base.complaints import Complaints, unexplained
from trainingservice.kubernetes_base.config import KubernetesClusterSettings, KubernetesTrialOptions
from trainingservice.kubernetes_base.kind import Phase, Role, Seen, TrialKind
from trainingservice.kubernetes_base.mirror import Mirror
from trainingservice.kubernetes_base.observing import CAUSE, observation, pods_that_run, reporting_pod
from trainingservice.kubernetes_base.pod_index import PodIndex
from trainingservice.kubernetes_base.pod_template import resources_of
from trainingservice.kubernetes_base.rehearsal import rehearse_cluster
from trainingservice.kubernetes_base.room import Room
from trainingservice.kubernetes_base.storage import SharedStorage
from trainingservice.kubernetes_base.submission import Submission
from trainingservice.kubernetes_scheduling.objects import queue_labels, queue_of, with_those_of_all
from trainingservice.polling.job_record import Observation
from trainingservice.polling.service import PollingTrainingService
from trainingservice.reasons import Reason, with_more
from trainingservice.trial_job import ResumedJob, TrialJobDetail
from trainingservice.trial_job_status import TrialJobStatus
from trialkeeper import contract

logger = logging.getLogger(__name__)

#: Seconds to wait for the first list when a service begins.
FIRST_LIST = 10.0
#: Seconds for a connection, and for the answer to the deletion of all objects of an experiment: with thousands of them
#: that takes the API longer than anything else, up to its own limit of a minute.
DELETE_ALL_TIMEOUT = (5.0, 90.0)
#: Seconds after which the removal of ended jobs pauses, so that no call lasts long.
REMOVE_FOR = 20.0
#: Seconds to wait until pods of a removed experiment are gone.
PODS_GONE = 30.0
#: Seconds to wait for what the reporting pod says of its end, when the trial's object has ended: the two watches are
#: not in step, and the pod knows why.
SETTLE = 5.0
#: Seconds from one look at the trials' Secrets to the next, and until the next where the cluster could not be asked.
SWEEP_EVERY, SWEEP_AGAIN = 3600.0, 10.0


class KubernetesService(PollingTrainingService):
    """Two watches (the trials' objects, their pods) feed what is known; questions are answered from memory.

    A subclass says which kind of object holds a trial (``find_kind``).
    """

    settings_model: ClassVar[type[ClusterSettings]] = KubernetesClusterSettings
    options_model: ClassVar[type[TrialOptions]] = KubernetesTrialOptions
    poll_interval: ClassVar[tuple[float, float]] = (2.0, 20.0)
    takes_variants: ClassVar[bool] = True
    suspends_jobs: ClassVar[bool] = True
    keeps_ended_jobs: ClassVar[bool] = True
    settings: KubernetesClusterSettings

    def __init__(self, settings: ClusterSettings, context: ServiceContext, *,
                 monotonic: Callable[[], float] = time.monotonic) -> None:
        super().__init__(settings, context, monotonic=monotonic)
        assert isinstance(settings, KubernetesClusterSettings)
        self.settings = settings
        self.api = KubernetesApi(ApiAccess(settings.kubeconfig, settings.context))
        self.namespace = settings.namespace
        self.cluster = names.cluster_label(context.installation, context.cluster_id)
        self.belongings = Belongings(self.api, self.namespace, self.cluster, context.clock, monotonic)
        folder_here = settings.storage.folder_here if settings.storage is not None else None
        self.storage = None if folder_here is None else SharedStorage(folder_here, self.cluster)
        self.submission = Submission(self)
        self._room = Room(settings.max_unfinished_objects, self._has_ended)
        self.collected = CollectedJournals(context.state_folder / "collected", context.relay_urls, self._log_source,
                                           context.clock, pod_logs.LOOK_EVERY)
        self._complaints = Complaints(self.api, self.namespace, monotonic)
        self._opening = threading.Lock()
        self._kind: TrialKind | None = None
        self._trials: Mirror | None = None
        self._pods: Mirror | None = None
        self._pod_index = PodIndex()
        #: Names of trials' Secrets that a server before us may not have come to hand over.
        self._unfinished: set[str] = set()
        self._next_sweep = float("-inf")
        self._reporting: dict[str, str] = {}  # job name -> its role that reports
        self._ends: dict[str, Mapping[str, Any]] = {}  # job name -> what its reporting keeper left
        self._ended_since: dict[str, float] = {}  # job name -> monotonic time when its object was first seen ended

    # --- what a platform says --------------------------------------------------------------

    @abc.abstractmethod
    def find_kind(self) -> TrialKind:
        """The kind of object that holds a trial; may ask the cluster. Raises TemporaryError, PermanentError."""

    @property
    def kind(self) -> TrialKind:
        """As ``find_kind``, once."""
        if self._kind is None:
            self._kind = self.find_kind()
        return self._kind

    # --- life ------------------------------------------------------------------------------

    def open(self) -> None:
        if not self.settings.keepers_call_home():
            self.collected.open()
        self._mirrors()
        self._sweep()

    def _sweep(self) -> None:
        """Remove old tombstones, and find what a server before us has not come to hand over. Raises nothing."""
        now = self._monotonic()
        if now < self._next_sweep:
            return
        self._next_sweep = now + SWEEP_AGAIN
        try:
            self._unfinished = set(self.belongings.sweep_tombstones())
        except ApiRefusal as refusal:
            logger.warning("old tombstones stay: %s", error_of(refusal, "list the Secrets"))
            if refusal.code != 403 or refusal.is_starting:
                return
        except TrainingServiceError as error:
            logger.warning("old tombstones stay: %s", error)
            return
        self._next_sweep = now + SWEEP_EVERY

    def close(self) -> None:
        with self._opening:
            mirrors = [mirror for mirror in (self._trials, self._pods) if mirror is not None]
        for mirror in mirrors:
            mirror.stop()
        self.collected.close()
        self.api.close()

    def _mirrors(self) -> tuple[Mirror, Mirror]:
        with self._opening:
            if self._trials is None or self._pods is None:
                kind = self.kind
                selector = f"{names.CLUSTER}={self.cluster}"
                self._pods = Mirror(self.api, PODS, self.namespace, selector, slim=pods.slim, on_event=self._hear_pod,
                                    on_synced=self.ask_soon, monotonic=self._monotonic)
                self._trials = Mirror(self.api, kind.resource, self.namespace, selector, slim=_slim,
                                      on_event=self._hear_trial, on_synced=self.ask_soon, monotonic=self._monotonic)
                if not self._closed.is_set():
                    self._pods.start()
                    self._trials.start()
            return self._trials, self._pods

    def rehearse(self, quick: bool = False, options: TrialOptions | None = None) -> list[RehearsalFinding]:
        try:
            return rehearse_cluster(self, self.options_of(options) if options is not None else None, quick=quick)
        finally:
            if not self._running.locked():
                self.api.close()

    # --- the four methods ------------------------------------------------------------------

    def resume_trial_jobs(self, jobs: Sequence[ResumedJob]) -> None:
        super().resume_trial_jobs(jobs)
        for job in jobs:
            if job.submitted and not job.ended:
                self._room.take(job.detail.id)

    def start_job(self, job: TrialJobDetail) -> Observation:
        trials, _ = self._mirrors()
        known = trials.get(names.object_name(job.id))
        try:
            if known is not None:
                self.submission.finish(job, known)
            else:
                self._room.check()
                trials.put(self.submission.submit(job))
        except WasCanceled:
            return Observation(TrialJobStatus.SYS_CANCELED, message=Reason("canceled_before_start"))
        self._room.take(job.id)
        seen = self._observe(job)
        return seen if seen is not None else Observation(TrialJobStatus.WAITING)

    def observe_jobs(self, jobs: Sequence[TrialJobDetail]) -> Mapping[str, Observation | None]:
        trials, of_pods = self._mirrors()
        for mirror in (trials, of_pods):
            if not mirror.is_fresh and not (mirror.lists == 0 and mirror.wait_until_fresh(FIRST_LIST)) \
                    and not mirror.wait_until_fresh(0.5):
                raise TemporaryError(mirror.problem)
        self._sweep()
        waiting = {job.id: (job, uids) for job in jobs if job.status is TrialJobStatus.WAITING
                   and (trial := trials.get(names.object_name(job.id))) is not None
                   and (uids := unexplained(trial, self._pod_index.of_job(job.id)))}
        self._complaints.ask([uid for _, uids in waiting.values() for uid in uids], {
            uids[0]: self._asked_for(job) for job, uids in waiting.values() if not self._pod_index.of_job(job.id)}
            if not self.kind.tells_of_quotas else None)
        self._provide_again([job for job, _ in waiting.values() if self._pod_index.of_job(job.id)])
        if self._unfinished:
            self._finish_submissions(jobs, trials)
        answers: dict[str, Observation | None] = {}
        for job in jobs:
            if trials.get(names.object_name(job.id)) is not None:
                self._room.take(job.id)
                seen = self._observe(job)
                if seen is not None:
                    answers[job.id] = self._with_last_lines(job, seen)
            elif not pods_that_run(self._pod_index.of_job(job.id), self.context.clock()):
                end = self._ends.get(job.id)
                ended_before = end is not None and end.get("reason") != contract.STOPPED
                answers[job.id] = observed_exit(end) if end is not None and ended_before else None
        return answers

    def _asked_for(self, job: TrialJobDetail) -> list[dict[str, str]]:
        """What a pod of each role asks for."""
        try:
            return [resources_of(role) for role in self.roles_of(job)]
        except PermanentError:  # said at its submission
            return []

    def _provide_again(self, jobs: Sequence[TrialJobDetail]) -> None:
        """For trials whose pods are long in the making. One of each experiment is enough: the others have the same."""
        for job in {job.form.experiment_id: job for job in jobs}.values():
            try:
                self.submission.provide_again(job)
            except TrainingServiceError as error:  # said at the next submission
                logger.warning("the objects that the pods of trial %s need cannot be created again: %s", job.id, error)

    def _finish_submissions(self, jobs: Sequence[TrialJobDetail], trials: Mirror) -> None:
        for job in jobs:
            trial = trials.get(names.object_name(job.id))
            if names.trial_secret(job.id) not in self._unfinished or trial is None:
                continue
            try:
                with contextlib.suppress(WasCanceled):  # then the object goes, and that is seen
                    self.submission.finish(job, trial)
            except TrainingServiceError as error:  # next time: nothing of the trial depends on it now
                logger.warning("the Secret of trial %s has no owner yet: %s", job.id, error)
                return
            self._unfinished.discard(names.trial_secret(job.id))

    def stop_job(self, job: TrialJobDetail) -> None:
        name = names.object_name(job.id)
        try:
            self.belongings.lay_tombstone(job.form.experiment_id, job.id)
        except ApiRefusal as refusal:
            raise error_of(refusal, "replace the trial's Secret") from refusal
        remove(self.api, self.kind.resource, self.namespace, name)

    def last_lines(self, job_name: str) -> str | None:
        job = self.get_trial_job(job_name)
        reporting = reporting_pod(self._pod_index.of_job(job.id), self._reporting_role(job))
        if reporting is None or pods.is_pending(reporting):
            return None
        return pod_logs.last_lines(self.api, self.namespace, reporting["metadata"]["name"], self.kind.container)

    def remove_ended_jobs(self, job_names: Collection[str], *, keep_unsaved: bool) -> RemovedJobs:
        trials, of_pods = self._mirrors()
        for mirror in (trials, of_pods):
            if not mirror.wait_until_fresh(FIRST_LIST):
                raise TemporaryError(mirror.problem)
        removed = left = runs = 0
        deadline = self._monotonic() + REMOVE_FOR
        for job_name in job_names:
            name = names.object_name(job_name)
            if trials.get(name) is None:
                continue
            of_job = self._pod_index.of_job(job_name)
            if pods_that_run(of_job, self.context.clock()):
                runs += 1
            elif keep_unsaved and (len(of_job) > 1 or self.kind.has_volume):
                left += 1
            elif self._monotonic() > deadline:
                return RemovedJobs(removed, left, is_through=False)
            else:
                remove(self.api, self.kind.resource, self.namespace, name)
                removed += 1
        if runs:
            raise TemporaryError(f"Pods of {runs} ended trial(s) still run on the cluster; they are removed when they "
                                 "have ended.", retry_after=30)
        return RemovedJobs(removed, left)

    def remove_experiment(self, experiment_id: str, jobs: Sequence[TrialJobDetail]) -> None:
        selector = names.experiment_selector(self.cluster, experiment_id)
        for resource in (self.kind.resource, SECRETS):
            try:
                self.api.call("DELETE", resource.path(self.namespace), timeout=DELETE_ALL_TIMEOUT,
                              query={"labelSelector": selector, "propagationPolicy": "Background"})
            except ApiRefusal as refusal:
                if refusal.code == 404:  # whoever removed the kind itself removed its objects with it
                    continue
                raise error_of(refusal, f"delete the {resource.plural} of the experiment") from refusal
        self.belongings.forget()
        storage = self.settings.storage
        if storage is not None and storage.storage_type == "azureStorage" and not any(
                job.form.experiment_id != experiment_id and not job.status.is_end for job in self.list_trial_jobs()):
            try:
                self.belongings.remove_azure_secrets()
            except ApiRefusal as refusal:
                raise error_of(refusal, "delete the Secret with the key of the Azure account") from refusal
        self.collected.forget(experiment_id)
        if self.storage is not None:
            self.storage.clean({job.form.code.sha256 for job in self.list_trial_jobs()
                                if job.form.code is not None and job.form.code.sha256 is not None
                                and job.form.experiment_id != experiment_id})
        deadline = self._monotonic() + PODS_GONE
        while self._pod_index.of_experiment(experiment_id) and self._monotonic() < deadline:
            time.sleep(0.05)

    def _has_ended(self, job_name: str) -> bool:
        try:
            return self.get_trial_job(job_name).status.is_end
        except UnknownTrialJob:  # of an experiment that was removed meanwhile
            return True

    def job_ended(self, job: TrialJobDetail) -> None:
        self._room.give_back(job.id)
        self.collected.finish(job.id)
        self._reporting.pop(job.id, None)
        self._ends.pop(job.id, None)
        self._ended_since.pop(job.id, None)

    def is_done_with(self, job: TrialJobDetail) -> bool:
        return not self.collected.collects(job.id)  # its log is found by what is remembered of it

    # --- handing a trial over --------------------------------------------------------------

    def options_of(self, options: TrialOptions) -> KubernetesTrialOptions:
        if isinstance(options, KubernetesTrialOptions):
            return with_those_of_all(options, self.settings.for_all_trials)
        raise PermanentError(f"The trial has no options of the platform {self.platform}. Launch the experiment again.")

    def roles_of(self, job: TrialJobDetail) -> list[Role]:
        """The roles of a trial, the reporting one first."""
        roles: list[Role] = []
        first = 0
        memory = 0
        # the next trial of a warm place may need more
        if self.settings.gpu_memory_resources and job.form.stays_for is None:
            memory = self.context.gpu_book.demand(job.id, job.form.gpu_demand).memory
        for name, settings in self.options_of(job.form.options).roles().items():
            command = settings.command or job.form.command
            if not command.strip():
                raise PermanentError(f"Role {name} has no command; give it one, or set trialCommand.")
            gpus = settings.gpu_number if settings.gpu_number is not None else job.form.gpu_number
            shares = self.settings.gpu_shares(settings, gpus, memory)
            roles.append(Role(name, settings, command, gpus, first, shares))
            first += settings.replicas
        return roles

    # --- what is seen ----------------------------------------------------------------------

    def _observe(self, job: TrialJobDetail) -> Observation | None:
        """What is known of a job whose object is there; None where that is nothing.

        Some kinds have no schema of their status, so that anything may stand there. That hides no other trial.
        """
        try:
            return self._read(job)
        except TrainingServiceError:
            raise
        except Exception as error:
            message = Reason("server_fault", said=(
                f"What the cluster says of the {self.kind.resource.kind} {names.object_name(job.id)} cannot be read "
                f"({type(error).__name__}: {str(error)[:200]})."))
            if job.message != message:
                logger.exception("what the cluster says of trial %s cannot be read", job.id)
            return Observation(job.status, message=message)

    def _read(self, job: TrialJobDetail) -> Observation | None:
        trials, _ = self._mirrors()
        trial = trials.get(names.object_name(job.id))
        if trial is None:
            return None
        of_trial = self._pod_index.of_job(job.id)
        reporting = reporting_pod(of_trial, self._reporting_role(job))
        end = self._ends.get(job.id)
        of_object = self.kind.see(trial, self._reporting_role(job))
        if self.kind.runs_again and _has_ended_a_run(reporting, self.kind.container) and (
                of_object.phase is Phase.SUCCEEDED or of_object.phase is Phase.FAILED and of_object.message):
            # a pod of an earlier run, whose deletion the watch of pods has not told yet
            of_trial, reporting = [pod for pod in of_trial if pod is not reporting], None
        if of_object.phase.is_end and not self._is_settled(job, of_object, reporting, end):
            phase = Phase.RUNNING if job.status is TrialJobStatus.RUNNING else Phase.WAITING
            of_object = replace(of_object, phase=phase, message="")
        seen = observation(of_object, of_trial, reporting, self.kind.container, end)
        if of_object.suspended and not pods_that_run(of_trial, self.context.clock()):
            self._ends.pop(job.id, None)  # of a run that does not count
            return replace(seen, suspended=True)
        if self.kind.runs_again and not of_object.phase.is_end and _has_ended_a_run(reporting, self.kind.container):
            of_object = replace(of_object, interrupted=True)
            seen = replace(seen, status=TrialJobStatus.WAITING, message=seen.message or of_object.message)
        if of_object.interrupted and seen.status is TrialJobStatus.WAITING:
            seen = replace(seen, interrupted=True)
        if seen.status is TrialJobStatus.WAITING:
            seen = replace(seen, message=self._complaints.about(unexplained(trial, of_trial)) or seen.message)
        url = self.api.address + self.kind.resource.path(self.namespace, trial["metadata"]["name"])
        return replace(seen, url=url)

    def _silent_pods(self, job: TrialJobDetail, seen: Observation) -> list[tuple[str, str]]:
        """Pods (name, container) of a trial that failed of which only their logs can tell why."""
        if seen.status is not TrialJobStatus.FAILED or seen.cause:
            return []
        return [(pod["metadata"]["name"], container) for pod in self._pod_index.of_job(job.id)
                if (container := pods.silent_container(pod, self.kind.container))]

    def _with_last_lines(self, job: TrialJobDetail, seen: Observation) -> Observation:
        for name, container in self._silent_pods(job, seen)[:3]:
            said = pod_logs.last_lines(self.api, self.namespace, name, container)
            if said:
                return replace(seen, message=with_more(seen.message or "", f"The last lines of its log: {said}"))
        return seen

    def _is_settled(self, job: TrialJobDetail, seen: Seen, reporting: Object | None,
                    end: Mapping[str, Any] | None) -> bool:
        """Whether nothing more is to be heard of how a trial ended."""
        if end is not None or seen.end is not None \
                or reporting is not None and pods.termination_of(reporting, self.kind.container) is not None:
            return True
        if reporting is not None and pods_that_run([reporting], self.context.clock()):
            return False  # its keeper will say how it ended
        now = self._monotonic()
        since = self._ended_since.setdefault(job.id, now)
        if since == now:
            timer = threading.Timer(SETTLE, self.ask_soon)
            timer.daemon = True
            timer.start()
        return now - since >= SETTLE

    def _log_source(self, _experiment_id: str, job_name: str) -> pod_logs.PodLogSource:
        def reporting() -> Object | None:
            return reporting_pod(self._pod_index.of_job(job_name), self._reporting_role(self.get_trial_job(job_name)))

        def stop() -> None:
            remove(self.api, self.kind.resource, self.namespace, names.object_name(job_name))

        return pod_logs.PodLogSource(self.api, self.namespace, self.kind.container, reporting, stop, self._monotonic)

    def _reporting_role(self, job: TrialJobDetail) -> str:
        # once: a template may be changed or removed while the trial runs
        role = self._reporting.get(job.id) or next(iter(self.options_of(job.form.options).roles()))
        if not job.status.is_end:
            self._reporting[job.id] = role
        return role

    def _hear_trial(self, name: str, trial: Object | None) -> None:
        if trial is None:
            self.ask_soon()
        else:
            self._tell(names.job_name_of(name))

    def _hear_pod(self, name: str, pod: Object | None) -> None:
        job_name = self._pod_index.take(name, pod)
        if pod is not None and job_name:
            self._note_end(job_name, pod)
        if job_name:
            self._tell(job_name)

    def _note_end(self, job_name: str, pod: Object) -> None:
        ended = pods.termination_of(pod, self.kind.container)
        if ended is None or ended.end is None or self.kind.runs_again and ended.exit_code == contract.TOLD_TO_END:
            return  # it has not ended, or the next run knows nothing of that
        try:
            job = self.get_trial_job(job_name)
        except TrainingServiceError:
            return
        if reporting_pod([pod], self._reporting_role(job)) is not None and not job.status.is_end:
            cause = (pods.why_disrupted(pod) if ended.end.get("reason") == contract.STOPPED
                     else pods.ran_out_of_memory(pod, self.kind.container))
            self._ends[job_name] = {**ended.end, CAUSE: cause}

    def _tell(self, job_name: str) -> None:
        try:
            job = self.get_trial_job(job_name)
            if job.status.is_end:
                return
            seen = self._observe(job)
        except TrainingServiceError:
            return  # of an experiment that was removed, or of a rehearsal
        if seen is None or self._silent_pods(job, seen):  # a log is not read on the watch's thread
            self.ask_soon()
        else:
            self.note(job_name, seen)


def _has_ended_a_run(reporting: Object | None, container: str) -> bool:
    """Whether the reporting pod has been told to end, and has."""
    ended = None if reporting is None else pods.termination_of(reporting, container)
    return ended is not None and ended.exit_code == contract.TOLD_TO_END


def _slim(trial: Object) -> Object:
    """What of a trial's object is kept in memory."""
    metadata = trial["metadata"]
    return {"metadata": {**{key: metadata[key] for key in ("name", "uid", "deletionTimestamp", "creationTimestamp")
                            if key in metadata}, "labels": queue_labels(queue_of(trial))},
            "spec": {key: trial["spec"][key] for key in ("suspend", "runPolicy") if key in (trial.get("spec") or {})},
            "status": trial.get("status") or {}}
