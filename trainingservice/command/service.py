"""The command platform: each trial is a job of a scheduler that is used by commands a person has given."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, cast

from trainingservice.base import RehearsalFinding, ServiceContext
from trainingservice.cluster_settings import ClusterSettings, TrialOptions
from trainingservice.command.config import CommandClusterSettings, CommandTrialOptions
from trainingservice.command.job_script import OUTPUT_FILE, job_script
from trainingservice.command.rehearsal import rehearse_scheduler
from trainingservice.command.scheduler import Listed, Scheduler
from trainingservice.errors import PermanentError, TemporaryError
from trainingservice.keeper.keeper_channel import keeper_urls
from trainingservice.polling.accepted_at import accepted_at, is_new
from trainingservice.polling.one_by_one import Answers, OneByOne
from trainingservice.polling.service import MustWait, Observation
from trainingservice.reasons import Reason, with_more
from trainingservice.rest.told_json import read_json
from trainingservice.shared_folder.direct_first import DirectFirstJournal
from trainingservice.shared_folder.folder import SharedFolder
from trainingservice.shared_folder.service import SharedFolderTrainingService
from trainingservice.submit_host.disk import LocalDisk
from trainingservice.submit_host.host import Unanswered
from trainingservice.submit_host.opening import open_host
from trainingservice.trial_job import JobApplicationForm, TrialJobDetail
from trainingservice.trial_job_status import TrialJobStatus
from trialkeeper import contract

#: In an attempt's folder: when its submission was begun, and the id that was the answer.
SUBMISSION_FILE = "submission.json"
SCRIPT_FILE = "job.sh"
#: A job may be missing in the scheduler's list for so many seconds after its submission.
NOT_THERE_YET = 30.0
#: A job that the scheduler does not have any more counts as lost when its keeper's last word has not shown up on the
#: shared folder for so many seconds: network file systems show what other machines wrote with a delay.
GONE_AFTER = 30.0
#: Seconds beside its grace period that a keeper has to end its trial before cancelCommand is run.
KEEPER_HAS = 30.0
#: Characters of a job's output that stand in a message.
_MOST_SAID = 300


class CommandTrainingService(SharedFolderTrainingService):
    """Keeper, job, code and reports go through a folder that all machines share; ``platform_state`` has the id.

    What nobody can know is said: a submission whose answer was lost and that cannot be looked for is FAILED, and a
    tombstone in its folder keeps the job from doing anything should it be there after all.
    """

    platform: ClassVar[str] = "command"
    settings_model: ClassVar[type[ClusterSettings]] = CommandClusterSettings
    options_model: ClassVar[type[TrialOptions]] = CommandTrialOptions
    needs_public_url: ClassVar[bool] = False  # the folder is a way home, too
    poll_interval: ClassVar[tuple[float, float]] = (3.0, 30.0)
    search_time: ClassVar[float] = 30.0
    not_there_yet: ClassVar[float] = NOT_THERE_YET
    gone_after: ClassVar[float] = GONE_AFTER

    def __init__(self, settings: ClusterSettings, context: ServiceContext, *,
                 monotonic: Callable[[], float] = time.monotonic) -> None:
        self._settings = cast(CommandClusterSettings, settings)
        host = open_host(self._settings.login_node, context.state_folder / "host_keys")
        here = self._settings.mounted_here
        storage = SharedFolder(here or Path(self._settings.working_folder), self._settings.working_folder,
                               context.state_folder / "code", private=True,
                               disk=LocalDisk() if here is not None else host.disk)
        storage.missing = (f"There is no folder {storage.root} on {'this machine' if here is not None else host.name}. "
                           f"Create it, or correct {'mountedHere' if here is not None else 'workingFolder'}.")
        super().__init__(settings, context, storage, journal=DirectFirstJournal, monotonic=monotonic)
        self._scheduler = Scheduler(self._settings, host)
        self._one_by_one = OneByOne()
        #: Job name -> when the scheduler was first found without it, and when it was first told to stop (monotonic).
        self._missed: dict[str, float] = {}
        self._told_to_stop: dict[str, float] = {}

    def close(self) -> None:
        super().close()
        self._scheduler.host.close()

    def rehearse(self, quick: bool = False, options: TrialOptions | None = None) -> list[RehearsalFinding]:
        return rehearse_scheduler(self._scheduler, self.storage, quick=quick)

    # --- the four methods ------------------------------------------------------------------

    def start_job(self, job: TrialJobDetail) -> Observation:
        form = job.form
        canceled = self.canceled_before(job)
        if canceled is not None:
            return canceled
        begun = self._submission(job)
        if begun is not None:
            job_id = begun.get("id") or self._uncertain(job, begun)
            if job_id:
                return self._taken(job, str(job_id))
        script, variables = self._prepare(form)
        self._note_submission(job)
        try:
            job_id = self._scheduler.submit(name_of(form), script, variables)
        except Unanswered as error:
            if not self._scheduler.can_find:
                raise self._given_up(job, str(error)) from error
            raise
        except Exception:  # there is certainly no job
            self.storage.remove(self.folder_of(job) / SUBMISSION_FILE)
            raise
        return self._taken(job, job_id)

    def observe_jobs(self, jobs: Sequence[TrialJobDetail]) -> Mapping[str, Observation | None]:
        told = {job.id: self.storage.seen_end(job.form.experiment_id, job.id) for job in jobs}
        ids = [job_id for job in jobs if told[job.id] is None and (job_id := _id_of(job))]
        listed = self._listed(ids) if ids else Listed({}, False, "")
        return self._one_by_one.ask(jobs, lambda job: self._answer(job, told[job.id], listed))

    def _answer(self, job: TrialJobDetail, told: Observation | None, listed: Listed) -> Answers:
        """Of one job. ``told``: its keeper's last word; ``listed``: what the scheduler says of those with an id."""
        if told is not None:
            return {job.id: replace(told, working_directory=self.working_directory_of(job))}
        job_id = _id_of(job)
        if not job_id:
            job_id = self._id_of_resumed(job)
            if not job_id:
                return {job.id: None}
            listed = self._listed([job_id])
        answers: dict[str, Observation | None] = {}
        self._take_row(job, job_id, listed, answers)
        return answers

    def _listed(self, ids: Sequence[str]) -> Listed:
        listed = self._scheduler.listed(ids)
        if not listed.is_whole and not listed.seen:
            raise TemporaryError(f"statusCommand reports none of the jobs: {listed.said or 'it printed nothing'}")
        return listed

    def stop_job(self, job: TrialJobDetail) -> None:
        form = job.form
        since = self._told_to_stop.setdefault(job.id, self._monotonic())
        # first what keeps a late submission from starting; a living keeper ends its trial by it, and tells so
        self.storage.cancel(form.experiment_id, job.id)
        job_id = _id_of(job)
        is_due = not self._has_begun(job) or self._monotonic() - since > form.limits.grace_period + KEEPER_HAS
        if job_id and is_due and job_id in self._scheduler.listed([job_id]).seen:
            self._scheduler.cancel(job_id)

    def job_ended(self, job: TrialJobDetail) -> None:
        super().job_ended(job)
        self._missed.pop(job.id, None)
        self._told_to_stop.pop(job.id, None)

    # --- handing over ----------------------------------------------------------------------

    def _prepare(self, form: JobApplicationForm) -> tuple[str, dict[str, str]]:
        """Put what the job needs into the folder; the script's path for jobs, and the variables of submitCommand."""
        options = cast(CommandTrialOptions, form.options)
        urls = keeper_urls(form, options.channel)
        keeper, folder = self.channel.prepare(form, self.platform, urls, collect_too=options.channel == "auto")
        script = self.storage.attempt(form.experiment_id, form.job_name) / SCRIPT_FILE
        self.storage.write(script, job_script(options, keeper, folder, self.channel.variables(form, folder, urls)))
        return self.storage.there(script), {
            "GPUS": str(form.gpu_number or 0), "CPUS": str(options.trial_cpu_number),
            "MEMORY_MB": str(options.trial_memory_size or ""), "ARGUMENTS": options.submit_arguments,
            "JOB_FOLDER": folder}

    def _note_submission(self, job: TrialJobDetail, **more: str) -> None:
        path = self.folder_of(job) / SUBMISSION_FILE
        self.storage.write(path, json.dumps({"at": self.context.clock(), **more}))

    def _submission(self, job: TrialJobDetail) -> dict[str, Any] | None:
        text = self.storage.read(self.folder_of(job) / SUBMISSION_FILE)
        if text is None:
            return None
        try:
            document = read_json(text)
        except ValueError:  # what is cut off was begun, too
            document = None
        return document if isinstance(document, dict) else {}

    def _taken(self, job: TrialJobDetail, job_id: str) -> Observation:
        self._note_submission(job, id=job_id)
        return Observation(TrialJobStatus.WAITING, working_directory=self.working_directory_of(job),
                           platform_state={**accepted_at(self.context.clock()), "job_id": job_id})

    def _uncertain(self, job: TrialJobDetail, begun: Mapping[str, Any]) -> str | None:
        """The id of a job whose submission was begun and not answered; None where it certainly did not arrive."""
        if not self._scheduler.can_find:
            raise self._given_up(job, "The server ended, or lost the answer, while the job was being submitted.")
        found = self._scheduler.find(name_of(job.form))
        if found:
            return found[0]
        left = self.search_time - (self.context.clock() - float(begun.get("at") or 0.0))
        if 0 < left <= self.search_time:
            raise MustWait(Reason("submission_lost", platform="command", said=(
                "It is not known whether the scheduler accepted the job. The server looks for it by its name for "
                f"{left:.0f} s more, and submits it again if it is not found.")), retry_after=min(2.0, left))
        return None

    def _given_up(self, job: TrialJobDetail, why: str) -> PermanentError:
        """For a job that may or may not be there: should it start after all, it does nothing."""
        self.storage.cancel(job.form.experiment_id, job.id)
        return PermanentError(f"It is not known whether the scheduler accepted the job {name_of(job.form)}: {why} "
                              "Without findCommand the server cannot look for it, so the trial counts as failed. If "
                              "the job starts, it does nothing. Rerun the trial, and set findCommand of the cluster.")

    # --- looking ---------------------------------------------------------------------------

    def _id_of_resumed(self, job: TrialJobDetail) -> str:
        """Of a job whose submission an earlier object began: the id that came, or is found by its name."""
        begun = self._submission(job)
        if begun is None or begun.get("id"):
            return str((begun or {}).get("id") or "")
        found = self._scheduler.find(name_of(job.form)) if self._scheduler.can_find else []
        return found[0] if found else ""

    def _take_row(self, job: TrialJobDetail, job_id: str, listed: Listed,
                  answers: dict[str, Observation | None]) -> None:
        seen = listed.seen.get(job_id)
        state = {**job.platform_state, "job_id": job_id}
        if seen is not None and not seen.status.is_end:
            self._missed.pop(job.id, None)
            answers[job.id] = replace(seen, platform_state=state, working_directory=self.working_directory_of(job))
        elif seen is not None or (listed.is_whole and not is_new(job, self.context.clock(), self.not_there_yet)):
            since = self._missed.setdefault(job.id, self._monotonic())
            if job.is_early_stopped is not None and not self._has_begun(job):
                answers[job.id] = None
            elif self._monotonic() - since >= self.gone_after:
                answers[job.id] = self._lost(job, job_id, seen)

    def _lost(self, job: TrialJobDetail, job_id: str, seen: Observation | None) -> Observation | None:
        """The scheduler has it no more, and its keeper has left no word of its end."""
        output = self._output_of(job)
        if seen is None and output is None:  # it never came to run
            return None
        why = (seen.message or "") if seen is not None else Reason(
            "end_unknown", said=f"The scheduler no longer has a job {job_id}.", platform="command")
        said = " ".join((output or "").split())[-_MOST_SAID:]
        cause = with_more(why, "Its keeper has not recorded the trial's end.")
        return Observation(TrialJobStatus.FAILED, cause=cause, working_directory=self.working_directory_of(job),
                           message=with_more(cause, f"It said: {said}") if said else cause)

    def _output_of(self, job: TrialJobDetail) -> str | None:
        """What the job printed; None where it never came to run."""
        try:
            return self.storage.read(self.folder_of(job) / OUTPUT_FILE)
        except TemporaryError:
            if self.storage.problem():
                raise
            return ""  # its trial has put something else there

    def _has_begun(self, job: TrialJobDetail) -> bool:
        own = self.folder_of(job)
        return self.storage.disk.exists(own / contract.JOURNAL_FILE)


def _id_of(job: TrialJobDetail) -> str:
    return str(job.platform_state.get("job_id") or "")


def name_of(form: JobApplicationForm) -> str:
    """The job's name in the scheduler: 15 characters at most, which every scheduler takes."""
    return form.job_name
