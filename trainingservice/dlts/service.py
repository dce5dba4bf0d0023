"""The dlts platform: each trial is a job of a DLTS cluster, with a keeper in its container."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, cast

from trainingservice.base import RehearsalFinding, ServiceContext
from trainingservice.cluster_settings import ClusterSettings, TrialOptions
from trainingservice.dlts.api import DltsApi
from trainingservice.dlts.config import DltsClusterSettings, DltsTrialOptions
from trainingservice.dlts.endpoint import JobEndpoint
from trainingservice.dlts.job_body import job_body, job_name
from trainingservice.dlts.rehearsal import rehearse_cluster
from trainingservice.dlts.states import PAUSED, observed_record
from trainingservice.errors import PermanentError, TemporaryError
from trainingservice.keeper.keeper_channel import keeper_urls
from trainingservice.keeper.keeper_variables import place_variables
from trainingservice.polling.one_by_one import Answers, OneByOne
from trainingservice.polling.service import Observation
from trainingservice.reasons import with_more
from trainingservice.shared_folder.folder import SharedFolder
from trainingservice.shared_folder.service import SharedFolderTrainingService
from trainingservice.trial_job import JobApplicationForm, TrialJobDetail
from trainingservice.trial_job_status import TrialJobStatus
from trialkeeper import attempt_folder

logger = logging.getLogger(__name__)

#: In an attempt's folder: the time at which its submission was begun (seconds since 1970).
SUBMISSION_FILE = "submission"
#: Jobs that a question brings: the account's newest ones, so many for each that is asked about, and at least.
LISTED_PER_JOB, LISTED_AT_LEAST, LISTED_AT_MOST = 4, 100, 5000
#: A job that the dashboard answers nothing about for so many seconds is not there any more.
ABSENT_AFTER = 30.0


class DltsTrainingService(SharedFolderTrainingService):
    """Runs trials as jobs of one account on one DLTS cluster; ``platform_state`` is ``{"job_id": ...}``.

    Names are not unique there: before a job is submitted for a second time it is looked for by its name for
    ``search_time`` seconds. Should there be two all the same, the second keeper finds the attempt's folder taken.
    """

    platform: ClassVar[str] = "dlts"
    settings_model: ClassVar[type[ClusterSettings]] = DltsClusterSettings
    options_model: ClassVar[type[TrialOptions]] = DltsTrialOptions
    has_places: ClassVar[bool] = True
    needs_public_url: ClassVar[bool] = False  # the home folder is a way home, too
    poll_interval: ClassVar[tuple[float, float]] = (3.0, 30.0)
    search_time: ClassVar[float] = 10.0

    def __init__(self, settings: ClusterSettings, context: ServiceContext, *,
                 monotonic: Callable[[], float] = time.monotonic) -> None:
        self._settings = cast(DltsClusterSettings, settings)
        super().__init__(settings, context, SharedFolder(
            self._settings.home_here, self._settings.home_there, context.state_folder / "code", private=True),
            monotonic=monotonic)
        self._api = DltsApi(self._settings)
        self._endpoint = JobEndpoint(self._api, context.relay_urls)
        self._gpu_type: str | None = None
        self._one_by_one = OneByOne()
        self._nothing_said_since: dict[str, float] = {}

    def close(self) -> None:
        super().close()
        self._api.close()

    def rehearse(self, quick: bool = False, options: TrialOptions | None = None) -> list[RehearsalFinding]:
        return rehearse_cluster(self._api, self._settings, self.storage, quick=quick)

    # --- the four methods ------------------------------------------------------------------

    def start_job(self, job: TrialJobDetail) -> Observation:
        form = job.form
        canceled = self.canceled_before(job)
        if canceled is not None:
            return canceled
        job_id = self._submitted_before(job)
        if job_id is None:
            body = self._body(form)
            folder = self.folder_of(job)
            self.storage.write(folder / SUBMISSION_FILE, str(self.context.clock()))
            try:
                job_id = self._api.submit(body)
            except PermanentError:
                (folder / SUBMISSION_FILE).unlink(missing_ok=True)  # there is certainly no job
                raise
        return Observation(TrialJobStatus.WAITING, url=self._api.page(job_id), platform_state={"job_id": job_id},
                           working_directory=self.working_directory_of(job))

    def observe_jobs(self, jobs: Sequence[TrialJobDetail]) -> Mapping[str, Observation | None]:
        known = jobs[0].platform_state.get("job_id") if len(jobs) == 1 else None
        rows = [] if known is not None else self._list(len(jobs))
        by_id = {str(row["jobId"]): row for row in rows}
        return self._one_by_one.ask(jobs, lambda job: self._answer(job, rows, by_id))

    def _answer(self, job: TrialJobDetail, rows: Sequence[Mapping[str, Any]],
                by_id: Mapping[str, Mapping[str, Any]]) -> Answers:
        """Of one job. ``rows``: the list of jobs."""
        job_id = job.platform_state.get("job_id")
        row = by_id.get(str(job_id)) if job_id is not None else _named(rows, job_name(job.form))
        if row is None and job_id is not None:
            row = self._api.job(str(job_id))
        if row is not None:
            self._nothing_said_since.pop(job.id, None)
            return {job.id: self._observed(job, row)}
        if job_id is None:
            return {job.id: None}
        # an empty answer may be a passing fault of the cluster behind the dashboard
        since = self._nothing_said_since.setdefault(job.id, self._monotonic())
        return {job.id: None} if self._monotonic() - since >= ABSENT_AFTER else {}

    def stop_job(self, job: TrialJobDetail) -> None:
        try:
            self.storage.cancel(job.form.experiment_id, job.id)
        finally:
            self._kill(job)

    def job_ended(self, job: TrialJobDetail) -> None:
        super().job_ended(job)
        self._nothing_said_since.pop(job.id, None)

    # --- how -------------------------------------------------------------------------------

    def _submitted_before(self, job: TrialJobDetail) -> str | None:
        """The id of the job where an earlier submission of it arrived; None where certainly none did.

        Raises TemporaryError while that is not certain.
        """
        begun = attempt_folder.read_text(
            str(self.folder_of(job) / SUBMISSION_FILE))
        if begun is None:
            return None
        row = _named(self._list(1), job_name(job.form))
        if row is not None:
            return str(row["jobId"])
        left = float(begun or 0) + self.search_time - self.context.clock()
        if 0 < left <= self.search_time:  # else the clock was set back meanwhile
            raise TemporaryError("The answer to the job's submission was lost; the server looks for the job on the "
                                 "cluster before it submits it again.", retry_after=min(left, 1.0))
        return None

    def _body(self, form: JobApplicationForm) -> dict[str, Any]:
        options = cast(DltsTrialOptions, form.options)
        urls = keeper_urls(form, options.channel, others=self._own_addresses(form, options))
        keeper, folder = self.channel.prepare(form, self.platform, urls)
        variables = {**self.channel.variables(form, folder, urls), **(place_variables(form) if urls else {})}
        return job_body(form, self._settings, options, keeper=keeper, variables=variables,
                        gpu_type=self._gpu_type_for(form, options))

    def _own_addresses(self, form: JobApplicationForm, options: DltsTrialOptions) -> tuple[str, ...]:
        if form.keeper.urls or options.channel == "storage":
            return ()
        try:
            return self._endpoint.addresses()
        except PermanentError as error:
            if options.channel == "http":
                raise
            logger.warning("trials of %s report through the home folder: %s", form.experiment_id, error)
            return ()

    def _gpu_type_for(self, form: JobApplicationForm, options: DltsTrialOptions) -> str | None:
        if not form.gpu_number or options.gpu_type is not None:
            return options.gpu_type
        if self._gpu_type is None:
            self._gpu_type = next(iter(self._api.gpu_types()), "")
        return self._gpu_type or None

    def _list(self, count: int) -> list[dict[str, Any]]:
        return self._api.jobs(min(LISTED_AT_MOST, max(LISTED_AT_LEAST, LISTED_PER_JOB * count)))

    def _observed(self, job: TrialJobDetail, row: Mapping[str, Any]) -> Observation:
        job_id = str(row["jobId"])
        seen = replace(observed_record(row), url=self._api.page(job_id), platform_state={"job_id": job_id})
        word = str(row.get("jobStatus"))
        if word in PAUSED:
            self._api.kill(job_id)  # its processes are gone, and a trial cannot be begun again: as NNI does
        if not seen.status.is_end:
            return seen
        told = self.channel.end_of(job, seen)
        if word in ("failed", "error") and told.exit_code is None:
            said = " ".join(self._api.status_message(job_id).split())[:300]
            told = replace(told, message=with_more(told.message or "",
                                                   f"Message of the cluster: {said}" if said else ""))
        return told

    def _kill(self, job: TrialJobDetail) -> None:
        job_id = job.platform_state.get("job_id")
        if job_id is None:
            row = _named(self._list(1), job_name(job.form))
            if row is None:
                return
            job_id = row["jobId"]
        if not self._api.kill(str(job_id)):
            row = self._api.job(str(job_id))
            if row is not None and not observed_record(row).status.is_end and row.get("jobStatus") != "killing":
                raise TemporaryError(f"The cluster refuses to end the job {job_id}. The request is sent again.")


def _named(rows: Sequence[Mapping[str, Any]], name: str) -> Mapping[str, Any] | None:
    """The job of this name; of two the older one, which got the attempt. Rows are newest first."""
    return next((row for row in reversed(rows) if row.get("jobName") == name), None)
