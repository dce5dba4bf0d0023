"""The azureml platform: each trial is a command job of an Azure ML workspace, with a keeper in its container."""

from __future__ import annotations

import json
import shlex
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import ClassVar, cast

from trainingservice.azureml.config import AzureMlClusterSettings, AzureMlTrialOptions
from trainingservice.azureml.rehearsal import rehearse_workspace
from trainingservice.azureml.run_log import LogJournal, RunHistory
from trainingservice.azureml.snapshot import (
    CODE,
    COMMAND,
    FOLDER,
    JOB_VARIABLE,
    make_snapshot,
    snapshot_key,
    working_directory_of,
)
from trainingservice.azureml.states import observed_status, of_azure
from trainingservice.azureml.workspace import CodeIsGone, JobRequest, NoSuchJob, SeenJob, Workspace
from trainingservice.base import RehearsalFinding, ServiceContext
from trainingservice.cluster_settings import ClusterSettings, TrialOptions
from trainingservice.code.code_archive import archive_of, require_archive
from trainingservice.errors import PermanentError, TemporaryError
from trainingservice.keeper.collected_journals import CollectedJournals
from trainingservice.keeper.end_in_output import told_end
from trainingservice.keeper.keeper_channel import keeper_urls
from trainingservice.keeper.keeper_exit import observed_exit
from trainingservice.keeper.keeper_variables import authority_text, place_variables
from trainingservice.polling.accepted_at import accepted_at, is_new
from trainingservice.polling.one_by_one import Answers, OneByOne
from trainingservice.polling.service import Observation, PollingTrainingService
from trainingservice.reasons import Reason
from trainingservice.trial_job import JobApplicationForm, TrialJobDetail, job_document
from trainingservice.trial_job_status import TrialJobStatus
from trialkeeper import contract

#: A job may be unknown to the workspace for so many seconds after its submission was accepted.
NOT_THERE_YET = 30.0
#: Up to so many jobs are asked about one by one; more with one question for the whole workspace.
ONE_BY_ONE = 3
#: Tags by which our jobs are told from others.
#: Characters of one environment variable; Linux starts no program with a longer one.
_LONGEST_VARIABLE = 128 * 1024 - 100
INSTALLATION_TAG, EXPERIMENT_TAG, TRIAL_TAG = "nniweb_installation", "nni_experiment", "nni_trial"


class AzureMlTrainingService(PollingTrainingService):
    """Runs trials as command jobs of one workspace. Job names and their tags are all that it needs to come back."""

    platform: ClassVar[str] = "azureml"
    settings_model: ClassVar[type[ClusterSettings]] = AzureMlClusterSettings
    options_model: ClassVar[type[TrialOptions]] = AzureMlTrialOptions
    takes_variants: ClassVar[bool] = True
    has_places: ClassVar[bool] = True
    needs_public_url: ClassVar[bool] = False  # the job's log is a way home, too
    poll_interval: ClassVar[tuple[float, float]] = (5.0, 30.0)
    #: Seconds between two looks at a job's log.
    log_interval: ClassVar[float] = 5.0

    def __init__(self, settings: ClusterSettings, context: ServiceContext, *,
                 monotonic: Callable[[], float] = time.monotonic) -> None:
        super().__init__(settings, context, monotonic=monotonic)
        self._settings = cast(AzureMlClusterSettings, settings)
        self._workspace = Workspace(self._settings)
        self._history = RunHistory(self._workspace, self._settings.arm_path)
        self._journals = CollectedJournals(
            context.state_folder / "collected", context.relay_urls,
            lambda experiment, name: LogJournal(self._history, self._workspace, _job_name(experiment, name)),
            context.clock, self.log_interval)
        #: Jobs of ours that the workspace does not list: somebody archived them, say. They are asked for by name, so
        #: that nobody looks for them through all of its jobs at each question.
        self._unlisted: set[str] = set()
        self._one_by_one = OneByOne()
        self._submitting = threading.Lock()
        #: What the workspace has of snapshots and images: our key -> its id.
        self._uploaded: dict[str, str] = {}
        self._environments: dict[str, str] = {}

    def open(self) -> None:
        self._journals.open()

    def close(self) -> None:
        self._journals.close()
        self._workspace.close()

    def rehearse(self, quick: bool = False, options: TrialOptions | None = None) -> list[RehearsalFinding]:
        return rehearse_workspace(self._workspace, self._settings.compute_target)

    # --- the four methods ------------------------------------------------------------------

    def start_job(self, job: TrialJobDetail) -> Observation:
        form = job.form
        name = _job_name(form.experiment_id, job.id)
        if self._tombstone(form.experiment_id, job.id).exists():
            return Observation(TrialJobStatus.SYS_CANCELED, message=Reason("canceled_before_start"))
        try:
            known = self._workspace.job(name)
        except NoSuchJob:
            try:
                known = self._submit(form, name)
            except PermanentError:
                self._journals.refused(job.id)  # else a job that never was is asked for its log
                raise
        if known.tags.get(TRIAL_TAG) != job.id or known.tags.get(INSTALLATION_TAG) != self.context.installation:
            raise PermanentError(f"{self._workspace.where} has a job named {name} already, which does not belong to "
                                 "this trial. Rerun the trial, so that its job gets another name.")
        return replace(self._observed(job, known), platform_state=accepted_at(self.context.clock()))

    def observe_jobs(self, jobs: Sequence[TrialJobDetail]) -> Mapping[str, Observation | None]:
        found: dict[str, SeenJob] = {}
        names = {_job_name(job.form.experiment_id, job.id): job for job in jobs}
        sought = names.keys() - self._unlisted
        if len(sought) > ONE_BY_ONE:
            for seen in self._workspace.jobs():
                if seen.name in sought:
                    found[seen.name] = seen
                    if len(found) == len(sought):
                        break
            self._unlisted |= {name for name in sought - found.keys()
                               if not is_new(names[name], self.context.clock(), NOT_THERE_YET)}
        return self._one_by_one.ask(jobs, lambda job: self._answer(job, found))

    def _answer(self, job: TrialJobDetail, found: Mapping[str, SeenJob]) -> Answers:
        """Of one job. ``found``: those of the list, by name."""
        name = _job_name(job.form.experiment_id, job.id)
        try:
            return {job.id: self._observed(job, found.get(name) or self._workspace.job(name))}
        except NoSuchJob:
            return {} if is_new(job, self.context.clock(), NOT_THERE_YET) else {job.id: None}

    def stop_job(self, job: TrialJobDetail) -> None:
        try:
            tombstone = self._tombstone(job.form.experiment_id, job.id)
            tombstone.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            tombstone.touch()
        except OSError as error:
            raise TemporaryError(f"The server cannot write to its own state folder: {error.strerror}. Free disk space "
                                 "there.") from error
        finally:
            self._workspace.cancel(_job_name(job.form.experiment_id, job.id))

    def remove_experiment(self, experiment_id: str, jobs: Sequence[TrialJobDetail]) -> None:
        self._journals.forget(experiment_id)
        its = _job_name(experiment_id, "")
        # by what the workspace has: of jobs that ended before the last start, or a while ago, nobody here knows; what
        # the listing does not show yet is remembered, mostly
        found = {seen.name for seen in self._workspace.jobs(most=None) if seen.name.startswith(its)
                 and seen.tags.get(INSTALLATION_TAG) == self.context.installation}
        for name in sorted(found | {_job_name(experiment_id, job.id) for job in jobs}):
            self._workspace.archive(name)
        for tombstone in self._tombstone(experiment_id, "").parent.glob(f"{its}*"):
            tombstone.unlink(missing_ok=True)

    def job_ended(self, job: TrialJobDetail) -> None:
        self._unlisted -= {_job_name(job.form.experiment_id, job.id)}
        self._journals.finish(job.id)

    # --- how -------------------------------------------------------------------------------

    def _submit(self, form: JobApplicationForm, name: str) -> SeenJob:
        options = cast(AzureMlTrialOptions, form.options)
        urls = keeper_urls(form, options.channel, otherwise="log")
        image = form.image or options.docker_image
        variables = {contract.ENV_JOB: form.job_name, "NNI_EXP_ID": form.experiment_id}
        if urls:
            variables |= {contract.ENV_URLS: ",".join(urls), contract.ENV_TOKEN: form.keeper.token,
                          **place_variables(form, folder=f"{FOLDER}{form.job_name}/next")}
        else:
            variables[JOB_VARIABLE] = _without_expressions(self._document(form))
        authority = authority_text(form.keeper) if urls else ""
        key = snapshot_key(None if urls else self._sha256(form), authority)
        with self._submitting:  # one upload for all who need it
            try:
                if not urls:
                    self._journals.expect(form)
                code = self._uploaded.get(key) or str(make_snapshot(
                    self.context.state_folder / "snapshots" / ("keeper" if urls else form.experiment_id), form.code,
                    not urls, authority))
            except OSError as error:
                raise TemporaryError(f"The server cannot prepare the job's code: {error.strerror or error}. Free disk "
                                     "space in its data folder.") from error
            require_archive(form.code)
            try:
                seen = self._workspace.submit(JobRequest(
                    name=name, command=_command(options), compute=self._settings.compute_target, code=code,
                    environment=options.environment or self._environments.get(image, ""), image=image,
                    experiment_name=options.experiment_name or f"nni_exp_{form.experiment_id}",
                    display_name=f"trial {form.sequence_id} ({form.trial_job_id})", variables=variables,
                    tags={INSTALLATION_TAG: self.context.installation, EXPERIMENT_TAG: form.experiment_id,
                          TRIAL_TAG: form.job_name},
                    inputs=options.data_mounts, outputs=dict(_outputs(options).values()), shm_size=options.shm_size,
                    docker_args=options.docker_args))
            except CodeIsGone:  # tried again at once by the queue, with an upload
                self._uploaded.pop(key, None)
                self._environments.pop(image, None)
                raise
            if seen.code:
                self._uploaded[key] = seen.code
            if seen.environment and options.environment is None:
                self._environments[image] = seen.environment
        return seen

    def _sha256(self, form: JobApplicationForm) -> str | None:
        """Of the code as it is now: a folder may have changed since the last trial."""
        if form.code is None:
            return None
        return form.code.sha256 or archive_of(form.code, self.context.state_folder / "code")[1]

    def _document(self, form: JobApplicationForm) -> contract.JobDocument:
        """Of a job whose keeper does not call the server."""
        code: contract.CodeDocument | None = None
        if form.code is not None:
            code = {"sha256": cast(str, self._sha256(form)), "archive": CODE}
        document = job_document(form.without_checkpoints(), platform=self.platform, code=code)
        document["limits"]["claim_timeout"] = 0.0  # nobody will answer
        if form.variant is not None and len(_without_expressions(document)) > _LONGEST_VARIABLE:
            raise PermanentError("The trial's code variant is too large for a job that does not call the server: the "
                                 "whole job has to fit into an environment variable of 128 KB. Change fewer files, or "
                                 "set NNIWEB_PUBLIC_URL or nniManagerIp.")
        return document

    def _observed(self, job: TrialJobDetail, found: SeenJob) -> Observation:
        seen = replace(observed_status(found.status), url=found.page, working_directory=working_directory_of(job.id))
        if not seen.status.is_end:
            return seen
        try:
            details = self._history.details(found.name)
            address = self._history.log_address(details)
            end = told_end(self._history.read_end(address).decode(errors="replace")) if address else None
        except TemporaryError:  # the end itself is certain
            return seen
        if end is not None and not end.get("claimed"):
            return replace(observed_exit(end), url=found.page, working_directory=seen.working_directory)
        said = details.get("error")
        said = said.get("error", said) if isinstance(said, dict) else None
        if seen.status is TrialJobStatus.FAILED and isinstance(said, dict) and said.get("message"):
            return replace(seen, message=of_azure(
                "platform_failed", f"The job failed. Message of the workspace: {str(said['message'])[:300]}",
                str(said.get("code") or "")))
        return replace(seen, ended_by_itself=seen.status is TrialJobStatus.SUCCEEDED)

    def _tombstone(self, experiment_id: str, job_name: str) -> Path:
        return self.context.state_folder / "canceled" / _job_name(experiment_id, job_name)


def _job_name(experiment_id: str, job_name: str) -> str:
    """In lower case, as both ids are: the service compares names without case."""
    return f"nni_exp_{experiment_id}_trial_{job_name}"


def _without_expressions(document: contract.JobDocument) -> str:
    """The job as JSON in which no ``${{ }}`` stands: the service may evaluate such an expression wherever it finds it,
    and refuses or changes a trial's command that has one. A dollar in JSON stands in strings only."""
    return json.dumps(document).replace("$", "\\u0024")


def _command(options: AzureMlTrialOptions) -> str:
    exports = [f'export NNI_DATA_{name}="${{{{inputs.{name}}}}}"' for name in options.data_mounts]
    links = [f'mkdir -p {shlex.quote(str(PurePosixPath(path).parent))} && '
             f'ln -sfn "${{{{outputs.{name}}}}}" {shlex.quote(path.rstrip("/"))}'
             for path, (name, _) in _outputs(options).items()]
    return " && ".join([*exports, *links, COMMAND])


def _outputs(options: AzureMlTrialOptions) -> dict[str, tuple[str, str]]:
    """Path in the job -> name of the output and address. The service chooses where it mounts them: they are linked."""
    return {path: (f"mount_{number}", address)
            for number, (path, address) in enumerate(options.writable_mounts.items())}
