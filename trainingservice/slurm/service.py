"""The slurm platform: each trial is a job of a Slurm cluster, with a keeper as its batch process."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, cast

from trainingservice.base import RehearsalFinding, ServiceContext
from trainingservice.cluster_settings import ClusterSettings, TrialOptions
from trainingservice.errors import TemporaryError
from trainingservice.files.output_folder import OutputFolder
from trainingservice.keeper.keeper_channel import keeper_urls
from trainingservice.keeper.keeper_variables import place_variables
from trainingservice.keeper.trial_of_ranks import RankState, rank_by_file, rows_of, with_failed_rank
from trainingservice.nodes.options import nodes_of
from trainingservice.polling.accepted_at import accepted_at, is_new
from trainingservice.polling.one_by_one import Answers, OneByOne
from trainingservice.polling.service import MustWait, Observation
from trainingservice.reasons import Reason, because_of, code_of, with_more
from trainingservice.rest.told_json import read_json
from trainingservice.shared_folder.direct_first import DirectFirstJournal
from trainingservice.shared_folder.folder import SharedFolder
from trainingservice.shared_folder.service import SharedFolderTrainingService
from trainingservice.slurm.commands import SlurmCommands
from trainingservice.slurm.config import SlurmClusterSettings, SlurmTrialOptions
from trainingservice.slurm.job_script import AGAIN_FILE, OUTPUT_FILE, job_options, job_script
from trainingservice.slurm.queue_rows import JobRow
from trainingservice.slurm.rehearsal import rehearse_cluster
from trainingservice.slurm.states import observed, of_slurm, with_last_word
from trainingservice.submit_host.host import Unanswered
from trainingservice.submit_host.opening import open_host
from trainingservice.trial_job import JobApplicationForm, TrialJobDetail
from trainingservice.trial_job_status import TrialJobStatus
from trialkeeper import contract
from trialkeeper.rank_launcher import FAILED_RANK_FILE, RANKS_FILE

#: A job may be missing in the queue for so many seconds after its submission was accepted.
NOT_THERE_YET = 30.0
#: A job that queue and accounts have forgotten counts as lost when its keeper's last word has not shown up on the
#: shared folder for so many seconds: network file systems show what other machines wrote with a delay.
GONE_AFTER = 60.0
#: Seconds beside its grace period that a keeper has to end its trial, until Slurm is asked to kill the job.
KEEPER_HAS = 45.0
#: Characters of a job's output that stand in a message.
_MOST_SAID = 300
#: In an attempt's folder while nobody knows whether sbatch's last submission was taken: since when.
_UNCERTAIN_FILE = "submitting"
#: Keys of platform_state.
_ID, _RESTARTS, _AGAIN = "slurm_id", "restarts", "again"


def name_on_cluster(job_name: str) -> str:
    """How squeue shows the job of an attempt."""
    return f"nniweb-{job_name}"


class SlurmTrainingService(SharedFolderTrainingService):
    """Runs trials as batch jobs of one user on one Slurm cluster.

    All jobs are asked about in one squeue; sacct is asked for those that the queue has forgotten. Keeper, job and
    code go through a folder that the compute nodes share, and so do reports that keepers cannot bring home themselves.
    """

    platform: ClassVar[str] = "slurm"
    settings_model: ClassVar[type[ClusterSettings]] = SlurmClusterSettings
    options_model: ClassVar[type[TrialOptions]] = SlurmTrialOptions
    needs_public_url: ClassVar[bool] = False  # the folder is a way home, too
    has_places: ClassVar[bool] = True
    suspends_jobs: ClassVar[bool] = True  # a job that is queued again is run from its beginning
    poll_interval: ClassVar[tuple[float, float]] = (3.0, 30.0)
    #: A controller that was busy may take a submission whose answer was lost so many seconds later.
    search_time: ClassVar[float] = 60.0

    def __init__(self, settings: ClusterSettings, context: ServiceContext, *,
                 monotonic: Callable[[], float] = time.monotonic) -> None:
        self._settings = cast(SlurmClusterSettings, settings)
        host = open_host(self._settings.login_node, context.state_folder / "host_keys")
        storage = SharedFolder(Path(self._settings.working_folder), self._settings.working_folder,
                               context.state_folder / "code", private=True, disk=host.disk)
        storage.missing = (f"There is no folder {self._settings.working_folder} on {host.name}. Create it there, or "
                           "correct workingFolder.")
        super().__init__(settings, context, storage, journal=DirectFirstJournal, monotonic=monotonic)
        self._slurm = SlurmCommands(host, self._settings.program_folder)
        self._one_by_one = OneByOne()
        #: Job name -> when it was missed first (monotonic).
        self._missed: dict[str, float] = {}
        #: Job name -> when its keeper was told to end it first (monotonic).
        self._told_to_stop: dict[str, float] = {}

    def close(self) -> None:
        super().close()
        self._slurm.host.close()

    def rehearse(self, quick: bool = False, options: TrialOptions | None = None) -> list[RehearsalFinding]:
        return rehearse_cluster(self._slurm, self._settings, self.storage, cast("SlurmTrialOptions | None", options),
                                self.context.public_urls, self.context.ca_file, quick=quick)

    # --- the four methods ------------------------------------------------------------------

    def start_job(self, job: TrialJobDetail) -> Observation:
        form = job.form
        canceled = self.canceled_before(job)
        if canceled is not None:
            return canceled
        folder = self.folder_of(job)
        uncertain = self.storage.read(folder / _UNCERTAIN_FILE)
        if uncertain is not None:
            found = self._taken_before(job, uncertain)
            if found is not None:
                return found
        arguments, script = self._prepare(form)
        self.storage.write(folder / _UNCERTAIN_FILE, str(self.context.clock()))
        try:
            job_id = self._slurm.submit(arguments, script)
        except Unanswered:
            self.storage.write(folder / _UNCERTAIN_FILE, str(self.context.clock()))
            raise
        except Exception:  # certainly not taken
            self.storage.remove(folder / _UNCERTAIN_FILE)
            raise
        return Observation(TrialJobStatus.WAITING, platform_state={**accepted_at(self.context.clock()), _ID: job_id},
                           working_directory=self.working_directory_of(job))

    def observe_jobs(self, jobs: Sequence[TrialJobDetail]) -> Mapping[str, Observation | None]:
        rows = _by_attempt(self._slurm.queue())
        missing = [job for job in jobs if self._row_of(job, rows) is None]
        unsure: frozenset[str] = frozenset()
        if missing:
            try:
                rows = _by_attempt(self._forgotten(missing)) | rows
            except TemporaryError:  # the accounts are away for now, and nothing is said of these jobs
                unsure = frozenset(job.id for job in missing)
        return self._one_by_one.ask(jobs, lambda job: self._answer(job, rows, unsure))

    def _answer(self, job: TrialJobDetail, rows: Mapping[str, list[JobRow]], unsure: Collection[str]) -> Answers:
        """Of one job. ``rows``: of queue and accounts; ``unsure``: jobs of which the accounts cannot tell now."""
        answers: dict[str, Observation | None] = {}
        row = self._row_of(job, rows)
        if row is not None:
            self._missed.pop(job.id, None)
            self._end_doubles(rows[name_on_cluster(job.id)], row)
            answers[job.id] = self._seen(job, row)
        elif job.id not in unsure:
            self._miss(job, answers)
        return answers

    def stop_job(self, job: TrialJobDetail) -> None:
        since = self._told_to_stop.setdefault(job.id, self._monotonic())
        has_had_time = self._monotonic() - since > job.form.limits.grace_period + KEEPER_HAS
        # first what keeps a submission from starting that Slurm may still take
        try:
            self.storage.cancel(job.form.experiment_id, job.id)
        finally:
            self._slurm.cancel(_id_of(job), name_on_cluster(job.id), gently=not has_had_time)

    def job_ended(self, job: TrialJobDetail) -> None:
        self._missed.pop(job.id, None)
        self._told_to_stop.pop(job.id, None)
        super().job_ended(job)

    def rank_folder(self, job: TrialJobDetail, rank: int) -> OutputFolder:
        return self.storage.of_rank(job.form.experiment_id, job.id, rank)

    # --- handing over ----------------------------------------------------------------------

    def _prepare(self, form: JobApplicationForm) -> tuple[list[str], str]:
        """Put what the job needs into the folder; sbatch's options and the batch script."""
        options = cast(SlurmTrialOptions, form.options)
        urls = keeper_urls(form, options.channel)
        keeper, folder = self.channel.prepare(form, self.platform, urls, collect_too=options.channel == "auto",
                                               path=[options.python_path] if options.python_path else [])
        memory = self.context.gpu_book.demand(form.job_name, form.gpu_demand).memory
        arguments = job_options(form, options, name_on_cluster(form.job_name), folder, self.context.installation,
                                memory)
        variables = {**self.channel.variables(form, folder, urls), **(place_variables(form) if urls else {})}
        return arguments, job_script(options, keeper, folder, variables, self._settings.program_folder)

    def _taken_before(self, job: TrialJobDetail, uncertain: str) -> Observation | None:
        """What is known of a job whose submission went out and was not answered; None: it was certainly not taken."""
        name = name_on_cluster(job.id)
        rows = _by_attempt([*self._slurm.queue(name), *self._slurm.accounts(names=[name])])
        row = self._row_of(job, rows)
        if row is not None:
            return self._seen(job, row)
        told = self.storage.seen_end(job.form.experiment_id, job.id)
        if told is not None:
            return told
        try:
            since = float(uncertain)
        except ValueError:  # the disk was full
            since = 0.0
        left = self.search_time - (self.context.clock() - since)
        if 0 < left <= self.search_time:
            raise MustWait(of_slurm("submission_lost", (
                "It is not known whether Slurm accepted the job, because sbatch's answer was lost. The server looks "
                f"for it in the queue for {left:.0f} s more, and submits it again if it is not found."), ""),
                retry_after=min(5.0, left))
        return None

    # --- looking ---------------------------------------------------------------------------

    def _row_of(self, job: TrialJobDetail, rows: Mapping[str, list[JobRow]]) -> JobRow | None:
        """The job of an attempt; of several (a submission was made twice) the one that Slurm has had longest."""
        found = rows.get(name_on_cluster(job.id), [])
        known = _id_of(job)
        return next((row for row in found if row.job_id == known), found[0] if found else None)

    def _forgotten(self, jobs: Sequence[TrialJobDetail]) -> list[JobRow]:
        old = [job for job in jobs if not is_new(job, self.context.clock(), NOT_THERE_YET)]
        ids = [_id_of(job) for job in old if _id_of(job)]
        rows = self._slurm.accounts(ids, [name_on_cluster(job.id) for job in old if not _id_of(job)])
        # accounts may show for ever as running what the controller has lost
        return [row for row in rows if observed(row).status.is_end]

    def _end_doubles(self, rows: Sequence[JobRow], ours: JobRow) -> None:
        """What was submitted once more ends by itself when it starts; it need not wait in the queue until then."""
        for row in rows:
            if row.job_id != ours.job_id and not observed(row).status.is_end:
                self._slurm.cancel(row.job_id, gently=True)

    def _seen(self, job: TrialJobDetail, row: JobRow) -> Observation:
        seen = observed(row)
        state = {**job.platform_state, _ID: row.job_id}
        if seen.status.is_end:
            told = self.storage.seen_end(job.form.experiment_id, job.id)
            seen = with_last_word(seen, told)
            if nodes_of(job.form.options) > 1:
                seen = self._with_failed_node(job, seen)
                failed = self._told_of_ranks(job, FAILED_RANK_FILE)
                seen = with_failed_rank(seen, failed if isinstance(failed, dict) else None)
            if told is None and seen.status is TrialJobStatus.FAILED:
                seen = replace(seen, message=self._with_output(job, seen.message or ""))
            if job.is_early_stopped is not None and seen.status is TrialJobStatus.SYS_CANCELED:
                seen = replace(seen, message="")
        else:
            seen, state = self._of_this_run(job, row, seen, state)
        if nodes_of(job.form.options) > 1 and (ranks := self._ranks(job)):
            state["ranks"] = rows_of(ranks)
        return replace(seen, platform_state=state,
                       working_directory=self.working_directory_of(job))

    def _with_failed_node(self, job: TrialJobDetail, seen: Observation) -> Observation:
        """Of a job that ended because a node failed: which rank was on it, where Slurm can still say it."""
        rows = {state.machine: state.rank for state in self._ranks(job) if state.machine}
        if code_of(seen.cause) != "node_failed" or not rows:
            return seen
        try:
            down = self._slurm.down(rows)
        except TemporaryError:
            return seen
        if not down:
            return seen
        why = Reason("rank_failed", rank=rows[down[0]], machine=down[0], said=str(seen.cause), **because_of(seen.cause))
        return replace(seen, message=why, cause=why)

    def _ranks(self, job: TrialJobDetail) -> list[RankState]:
        told = self._told_of_ranks(job, RANKS_FILE)
        rows = told[:nodes_of(job.form.options)] if isinstance(told, list) else []
        return [rank_by_file(row) for row in rows if isinstance(row, dict)]

    def _told_of_ranks(self, job: TrialJobDetail, file: str) -> Any:
        """What the batch process has written of a trial's ranks; None for nothing."""
        try:
            return read_json(self.storage.read(self.folder_of(job) / file) or "null")
        except (TemporaryError, ValueError):
            return None

    def _of_this_run(self, job: TrialJobDetail, row: JobRow, seen: Observation,
                     state: dict[str, object]) -> tuple[Observation, dict[str, object]]:
        """Of a job that Slurm queued again: told as suspended until the server knows, and only then let run anew."""
        known, begun = int(job.platform_state.get(_RESTARTS) or 0), int(job.platform_state.get(_AGAIN) or 0)
        if row.restarts <= begun:
            return seen, state
        state = {**state, _RESTARTS: row.restarts}
        if seen.status is TrialJobStatus.RUNNING and known == row.restarts and self._may_begin(job, row.restarts):
            return seen, {**state, _AGAIN: row.restarts}
        why = seen.message if seen.status is TrialJobStatus.WAITING else "Its next run is about to start."
        return Observation(TrialJobStatus.WAITING, message=of_slurm(
            "platform_requeued", f"Slurm ended the job and queued it again. {why}", row.state), suspended=True), state

    def _may_begin(self, job: TrialJobDetail, run: int) -> bool:
        """Let the next run begin, if the one before has put its files aside."""
        folder = self.folder_of(job)
        if self.storage.read(folder / contract.JOURNAL_FILE) is not None:
            return False
        self.channel.run_anew(job.id)
        self.storage.write(folder / AGAIN_FILE.format(run), "")
        return True

    def _miss(self, job: TrialJobDetail, answers: dict[str, Observation | None]) -> None:
        """Neither queue nor accounts know the job: it has ended, or it was never there."""
        told = self.storage.seen_end(job.form.experiment_id, job.id)
        if told is not None:
            answers[job.id] = told
        elif not _id_of(job):
            answers[job.id] = None
        elif not is_new(job, self.context.clock(), NOT_THERE_YET):
            since = self._missed.setdefault(job.id, self._monotonic())
            if self._monotonic() - since >= GONE_AFTER:
                why = of_slurm("end_unknown", f"Slurm no longer has job {_id_of(job)}, and its keeper has not recorded "
                                              "its end, so how it ended is not known. Its node may have failed.", "")
                answers[job.id] = Observation(TrialJobStatus.FAILED, message=self._with_output(job, why), cause=why)

    def _with_output(self, job: TrialJobDetail, message: str) -> str:
        """With the last that batch script or Slurm said, where the keeper did not get to say anything."""
        try:
            path = self.folder_of(job) / OUTPUT_FILE
            said = " ".join((self.storage.read(path) or "").split())[-_MOST_SAID:]
        except TemporaryError:
            said = ""
        return with_more(message, f"It said: {said}") if said else message


def _id_of(job: TrialJobDetail) -> str:
    return str(job.platform_state.get(_ID) or "")


def _by_attempt(rows: Sequence[JobRow]) -> dict[str, list[JobRow]]:
    """Rows by the name of their job, the oldest job first."""
    found: dict[str, list[JobRow]] = {}
    for row in sorted(rows, key=lambda row: int(row.job_id)):
        found.setdefault(row.name, []).append(row)
    return found
