"""The openpai platform: each trial is a job of an OpenPAI cluster, with a keeper in its container."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, cast

from trainingservice.base import RehearsalFinding, ServiceContext
from trainingservice.cluster_settings import ClusterSettings, TrialOptions
from trainingservice.errors import MustWait, PermanentError, TemporaryError, TrainingServiceError
from trainingservice.files.output_folder import OutputFolder
from trainingservice.keeper.keeper_channel import keeper_urls
from trainingservice.keeper.keeper_variables import authority_text
from trainingservice.openpai.api import MOST_LISTED, NameTaken, NoSuchJob, OpenPaiApi, Refusal
from trainingservice.openpai.config import OpenPaiClusterSettings, OpenPaiTrialOptions
from trainingservice.openpai.job_document import (
    KeeperStart,
    job_document,
    job_name,
    role_command,
    role_folders,
)
from trainingservice.openpai.protocol_schema import document_problems, own_document_problems
from trainingservice.openpai.rehearsal import rehearse_cluster
from trainingservice.openpai.states import observed_detail, observed_row, of_openpai
from trainingservice.openpai.storages import default_storage, wants_default_storages
from trainingservice.openpai.without_storage import ServerChannel, no_output_folder
from trainingservice.polling.accepted_at import accepted_at, is_new
from trainingservice.polling.one_by_one import Answers, OneByOne
from trainingservice.polling.service import Observation
from trainingservice.rest.rest_client import ServerFault
from trainingservice.shared_folder.folder import SharedFolder
from trainingservice.shared_folder.service import SharedFolderTrainingService
from trainingservice.trial_job import JobApplicationForm, TrialJobDetail
from trainingservice.trial_job_status import TrialJobStatus
from trialkeeper import contract

logger = logging.getLogger(__name__)

#: A job may be unknown to the cluster for so many seconds after its submission was accepted.
NOT_THERE_YET = 30.0
#: A running job is asked for its node again after so many seconds, doubled each time up to the second number.
ASK_MACHINE_AFTER, ASK_MACHINE_AT_MOST = 3.0, 300.0
#: A user's document that the server answered with HTTP 500 so often (in about a minute) is what breaks it.
FAULTY_DOCUMENT_AFTER = 8
#: A job that has waited for so many seconds is asked why; so often, and so many jobs at a time.
ASK_WHY_AFTER, ASK_WHY_EVERY, ASK_WHY_OF = 30.0, 120.0, 3


class OpenPaiTrainingService(SharedFolderTrainingService):
    """Runs trials as jobs of one account on one OpenPAI cluster.

    All jobs are asked about in one question; the detail of one is asked for when it begins and when it ends.
    Keeper, job and (where the server has no address for other machines) code and reports go through the storage.
    Without a storage all of them go over the network.
    """

    platform: ClassVar[str] = "openpai"
    settings_model: ClassVar[type[ClusterSettings]] = OpenPaiClusterSettings
    options_model: ClassVar[type[TrialOptions]] = OpenPaiTrialOptions
    has_places: ClassVar[bool] = True
    needs_public_url: ClassVar[bool] = False  # the storage is a way home, too
    poll_interval: ClassVar[tuple[float, float]] = (3.0, 30.0)

    def __init__(self, settings: ClusterSettings, context: ServiceContext, *,
                 monotonic: Callable[[], float] = time.monotonic) -> None:
        self._settings = cast(OpenPaiClusterSettings, settings)
        here, there = self._settings.local_storage_mount_point, self._settings.container_storage_mount_point
        self._has_storage = here is not None and there is not None
        if here is not None and there is not None:
            storage = SharedFolder(here, there, context.state_folder / "code")
        else:  # for tombstones
            storage = SharedFolder(context.state_folder / "jobs", "/", context.state_folder / "code", private=True)
        super().__init__(settings, context, storage, monotonic=monotonic)
        if not self._has_storage:
            self.channel = ServerChannel(storage, context)
        self._default_storage = ""
        self._api = OpenPaiApi(self._settings)
        self._one_by_one = OneByOne()
        self._machines: dict[str, str] = {}
        self._asked_why: dict[str, float] = {}
        self._faults: dict[str, int] = {}
        #: Jobs whose submission had no answer that says what became of it.
        self._unanswered: set[str] = set()
        #: Of running jobs without a node yet: when to ask for it (monotonic), and the pause after that.
        self._machine_due: dict[str, tuple[float, float]] = {}

    def close(self) -> None:
        super().close()
        self._api.close()

    def rehearse(self, quick: bool = False, options: TrialOptions | None = None) -> list[RehearsalFinding]:
        return rehearse_cluster(self._api, self._settings, self.storage if self._has_storage else None,
                                cast("OpenPaiTrialOptions | None", options), self.context.clock, quick=quick)

    # --- the four methods ------------------------------------------------------------------

    def start_job(self, job: TrialJobDetail) -> Observation:
        name = job_name(job.form)
        canceled = self.canceled_before(job)
        if canceled is not None:
            return canceled
        try:
            self._api.wait_for_turn()
            self._submit(job)
        except NameTaken:
            if not self._is_ours(name, job.id):
                raise
        except MustWait:
            # the answer to an earlier try was lost: what runs is not left alone until it is this one's turn
            if job.id not in self._unanswered or not self._was_taken(name, job.id):
                raise
        except TemporaryError:
            self._unanswered.add(job.id)
            raise
        self._unanswered.discard(job.id)
        return Observation(TrialJobStatus.WAITING, url=self._api.page(name),
                           platform_state=accepted_at(self.context.clock()),
                           working_directory=self.working_directory_of(job) if self._has_storage else "")

    def observe_jobs(self, jobs: Sequence[TrialJobDetail]) -> Mapping[str, Observation | None]:
        if len(jobs) == 1:  # an update, or the last one: its own answer is smaller than the list's
            rows, all_listed = dict[str, Mapping[str, Any]](), False
        else:
            listed = self._api.jobs()
            rows, all_listed = {str(row.get("name")): row for row in listed}, len(listed) < MOST_LISTED
        answers = dict(self._one_by_one.ask(
            jobs, lambda job: self._answer(job, rows.get(job_name(job.form)), all_listed)))
        self._ask_why(jobs, answers)
        return answers

    def _answer(self, job: TrialJobDetail, row: Mapping[str, Any] | None, all_listed: bool) -> Answers:
        """Of one job. ``row``: what the list says of it, None where it is not there."""
        if row is None and all_listed and self._is_new(job):
            return {}
        seen = observed_row(row) if row is not None else None
        if seen is None or seen.status.is_end or (seen.status is TrialJobStatus.RUNNING
                                                  and self._asks_for_machine(job)):
            seen = self._ask_for_one(job)
            if seen is None and self._is_new(job):
                return {}
        return {job.id: None if seen is None else self._with_our_knowledge(job, seen)}

    def stop_job(self, job: TrialJobDetail) -> None:
        # first what keeps a late submission from starting: the cluster has nothing for a job it does not know yet
        try:
            if not self._has_storage:
                self._make_own_folder()
            self.storage.cancel(job.form.experiment_id, job.id)
        finally:
            self._api.stop(job_name(job.form))

    def hear(self, job_name: str, entries: Iterable[contract.Entry]) -> None:
        entries = list(entries)
        if isinstance(self.channel, ServerChannel):
            self.channel.heard(job_name, entries)
        super().hear(job_name, entries)

    @property
    def is_multi_phase_job_supported(self) -> bool:
        return self._has_storage

    def output_folder(self, job: TrialJobDetail) -> OutputFolder:
        return super().output_folder(job) if self._has_storage else no_output_folder()

    def job_ended(self, job: TrialJobDetail) -> None:
        super().job_ended(job)
        self._machines.pop(job.id, None)
        self._machine_due.pop(job.id, None)
        self._asked_why.pop(job.id, None)
        self._faults.pop(job.id, None)
        self._unanswered.discard(job.id)

    # --- how -------------------------------------------------------------------------------

    def _submit(self, job: TrialJobDetail) -> None:
        own = cast(OpenPaiTrialOptions, job.form.options).openpai_config
        if own is not None:  # what is put into it must find what the protocol says
            _refuse(own_document_problems(own))
        document = self._document(job.form)
        _refuse(document_problems(document))
        try:
            self._api.submit(document)
        except ServerFault as fault:
            # with a code it is a service behind it that is away
            if own is not None and fault.answer.status == 500 and not Refusal.of(fault.answer).code:
                self._refuse_what_breaks_the_server(job, fault)
            raise

    def _document(self, form: JobApplicationForm) -> dict[str, Any]:
        """Prepare the storage for the job, and make its document."""
        options = self._with_default_storages(cast(OpenPaiTrialOptions, form.options))
        urls = keeper_urls(form, options.channel)
        roles: dict[str, contract.JobDocument] = {}
        if options.openpai_config is not None:
            form = replace(form, command=role_command())
            roles = {folder: {"command": form.command}
                     for folder in role_folders(options.openpai_config).values() if folder}
        keeper, folder = self.channel.prepare(form, self.platform, urls, roles)
        start = KeeperStart(keeper, folder, urls, authority_text(form.keeper))
        return job_document(form, options, start, mounts=self._mounts(), installation=self.context.installation)

    def _mounts(self) -> dict[str, str]:
        """The storage that the server shares, by its name in the cluster, and where jobs have it."""
        there = self._settings.container_storage_mount_point
        if there is None:
            return {}
        name = self._settings.storage_config_name or self._default_storage
        if not name:
            self._default_storage = name = default_storage(self._api.default_storages(), self._settings.username)
        return {name: there}

    def _make_own_folder(self) -> None:
        try:
            self.storage.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise TemporaryError(f"The server cannot write to its own state folder: {error.strerror}; make room "
                                 "there.") from error

    def _with_default_storages(self, options: OpenPaiTrialOptions) -> OpenPaiTrialOptions:
        """The same, where a document asks for the default storages with these: ours would stand in their place."""
        own = options.openpai_config
        if own is None or not wants_default_storages(own):
            return options
        entries = [{"name": name} for name in self._api.default_storages()]
        return options.model_copy(update={"openpai_config": {**own, "extras": {**own["extras"], "storages": entries}}})

    def _refuse_what_breaks_the_server(self, job: TrialJobDetail, fault: ServerFault) -> None:
        """Raise PermanentError where a user's document has been answered with a fault often enough.

        The cluster answers other questions, and one of them says that there is no such job.
        """
        self._faults[job.id] = self._faults.get(job.id, 0) + 1
        if self._faults[job.id] < FAULTY_DOCUMENT_AFTER:
            return
        try:
            self._api.config(job_name(job.form))
        except NoSuchJob:
            raise PermanentError(
                f"{fault} The submission was tried {self._faults[job.id]} times, and the cluster answers other "
                "requests, so this counts as a refusal. Correct openpaiConfig. If it is correct, rerun the "
                "trial.") from fault

    def _was_taken(self, name: str, job_id: str) -> bool:
        """Whether the cluster has this very attempt."""
        try:
            return self._mark_of(name) == self._mark(job_id)
        except NoSuchJob:
            return False

    def _is_ours(self, name: str, job_id: str) -> bool:
        """Whether the job of this name is this very attempt, submitted before."""
        try:
            return self._mark_of(name) == self._mark(job_id)
        except NoSuchJob:
            raise TemporaryError(f"{self._api.where} has just had a job named {name} and has none now; it is tried "
                                 "again.") from None

    def _mark_of(self, name: str) -> object:
        """By what a job is known again; None for a stranger's. Raises NoSuchJob."""
        extras = self._api.config(name).get("extras")
        return extras.get("nniweb") if isinstance(extras, dict) else None

    def _mark(self, job_id: str) -> dict[str, str]:
        """What ``job_document`` puts into a job, so that it is known again."""
        return {"installation": self.context.installation, "job": job_id}

    def _asks_for_machine(self, job: TrialJobDetail) -> bool:
        """Whether to ask for a running job's node now: while it is unknown, with pauses that grow."""
        if job.machine or job.id in self._machines:
            return False
        due, pause = self._machine_due.get(job.id, (0.0, ASK_MACHINE_AFTER))
        if self._monotonic() < due:
            return False
        self._machine_due[job.id] = (self._monotonic() + pause, min(ASK_MACHINE_AT_MOST, pause * 2))
        return True

    def _ask_for_one(self, job: TrialJobDetail) -> Observation | None:
        try:
            seen = observed_detail(self._api.job(job_name(job.form)))
        except NoSuchJob:
            return None
        if seen.machine:
            self._machines[job.id] = seen.machine
        return seen

    def _is_new(self, job: TrialJobDetail) -> bool:
        return is_new(job, self.context.clock(), NOT_THERE_YET)

    def _with_our_knowledge(self, job: TrialJobDetail, seen: Observation) -> Observation:
        name = job_name(job.form)
        seen = replace(seen, url=self._api.page(name), machine=seen.machine or self._machines.get(job.id, ""))
        return self.channel.end_of(job, seen) if seen.status.is_end else seen

    def _ask_why(self, jobs: Sequence[TrialJobDetail], answers: dict[str, Observation | None]) -> None:
        """Have the cluster tell why jobs wait for long: a few of them, now and then."""
        now = self.context.clock()
        left = ASK_WHY_OF
        for job in jobs:
            seen = answers.get(job.id)
            if seen is None or seen.status is not TrialJobStatus.WAITING or now - job.submit_time < ASK_WHY_AFTER:
                continue
            message = job.message
            if left and now - self._asked_why.get(job.id, 0.0) >= ASK_WHY_EVERY:
                left -= 1
                self._asked_why[job.id] = now
                try:
                    warnings = self._api.warnings(job_name(job.form))
                    message = of_openpai("platform_queue", f"Waits in the cluster's queue: {warnings[0][:300]}"
                                         ) if warnings else ""
                except TrainingServiceError as error:  # what is known of the jobs is worth more than why one waits
                    logger.info("the reason why job %s waits cannot be read: %s", job.id, error)
                    left = 0
            answers[job.id] = replace(seen, message=message)


def _refuse(problems: Sequence[str]) -> None:
    if problems:
        raise PermanentError(f"OpenPAI would refuse the job document: {'; '.join(problems[:3])}. Correct "
                             "openpaiConfig, or the fields from which the document is made.")
