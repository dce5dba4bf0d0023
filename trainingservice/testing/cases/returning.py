"""Cases: service objects come and go; what an experiment leaves is removed."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from trainingservice.base import RemovedJobs, TrainingService
from trainingservice.errors import TemporaryError, UnknownTrialJob
from trainingservice.testing.bench import Bench, new_id
from trainingservice.testing.cases.fixtures import ConformanceFixtures, needs_this_machine
from trainingservice.trial_job import JobApplicationForm, ResumedJob, TrialJobDetail
from trainingservice.trial_job_status import TrialJobStatus


def as_stored(detail: TrialJobDetail, *, submitted: bool = True) -> ResumedJob:
    """What a host gives back of a job: the platform's state went through its database."""
    return ResumedJob(replace(detail, platform_state=json.loads(json.dumps(detail.platform_state))), submitted)


class ReturningCases(ConformanceFixtures):
    def waiting_job(self, bench: Bench, **more: Any) -> tuple[JobApplicationForm, Path, Path]:
        """A job that notes its start and works until it is let go."""
        starts, go = bench.witness / new_id("s"), bench.witness / new_id("g")
        form = bench.form(f'echo start >> "{starts}"; until [ -e "{go}" ]; do sleep 0.05; done; echo worked', **more)
        return form, starts, go

    # --- the next object -------------------------------------------------------------------

    def test_trials_go_on_when_the_service_is_closed_and_are_found_again(self, bench: Bench,
                                                                        service: TrainingService) -> None:
        needs_this_machine(bench)
        form, starts, go = self.waiting_job(bench)
        service.submit_trial_job(form)
        bench.wait_for_file(starts)
        detail = bench.wait_for_status(service, form, TrialJobStatus.RUNNING)
        bench.close_service(service)
        service.clean_up()
        assert bench.trial_processes(form)
        successor = bench.open_service([as_stored(detail)])
        found = bench.wait_for_status(successor, form, TrialJobStatus.RUNNING)
        assert (found.submit_time, found.start_time) == (detail.submit_time, detail.start_time)
        assert successor.submit_trial_job(form).id == form.job_name
        go.touch()
        ended = bench.wait_for_end(successor, form)
        assert (ended.exit_code, starts.read_text(), bench.output(form)) == (0, "start\n", "worked\n")

    def test_an_end_while_nobody_looked_is_found(self, bench: Bench, service: TrainingService) -> None:
        needs_this_machine(bench)
        form, starts, go = self.waiting_job(bench)
        service.submit_trial_job(form)
        bench.wait_for_file(starts)
        detail = bench.wait_for_status(service, form, TrialJobStatus.RUNNING)
        bench.close_service(service)
        go.touch()
        bench.wait("the trial has reported its end", lambda: bench.entries(form, "ended"))
        ended = bench.wait_for_end(bench.open_service([as_stored(detail)]), form)
        assert ended.exit_code == 0

    def test_a_job_whose_submission_was_not_noted_is_not_started_twice(self, bench: Bench,
                                                                       service: TrainingService) -> None:
        needs_this_machine(bench)
        form, starts, go = self.waiting_job(bench)
        as_before_the_call = TrialJobDetail(form.job_name, TrialJobStatus.WAITING, form, submit_time=1000.0)
        service.submit_trial_job(form)
        bench.wait_for_file(starts)
        bench.close_service(service)
        successor = bench.open_service([as_stored(as_before_the_call, submitted=False)])
        successor.submit_trial_job(form)
        bench.wait_for_status(successor, form, TrialJobStatus.RUNNING)
        go.touch()
        bench.wait_for_end(successor, form)
        assert starts.read_text() == "start\n"
        assert len(successor.list_trial_jobs()) == 1

    def test_a_job_that_never_reached_the_platform_waits_to_be_submitted_again(self, bench: Bench) -> None:
        form = bench.form("echo once")
        begun = TrialJobDetail(form.job_name, TrialJobStatus.WAITING, form, submit_time=1000.0)
        service = bench.open_service([as_stored(begun, submitted=False)])
        bench.wait_for_status(service, form, TrialJobStatus.WAITING)
        service.submit_trial_job(form)
        bench.wait_for_end(service, form)
        assert bench.output(form) == "once\n"

    def test_an_ended_job_stays_listed_as_it_was(self, bench: Bench, service: TrainingService) -> None:
        form = bench.form("exit 3")
        service.submit_trial_job(form)
        detail = bench.wait_for_end(service, form, TrialJobStatus.FAILED)
        bench.close_service(service)
        successor = bench.open_service([as_stored(detail)])
        assert successor.list_trial_jobs() == [detail]
        successor.cancel_trial_job(form.job_name)
        assert successor.get_trial_job(form.job_name) == detail

    def test_a_job_found_again_can_be_canceled(self, bench: Bench, service: TrainingService) -> None:
        needs_this_machine(bench)
        form, starts, _ = self.waiting_job(bench)
        service.submit_trial_job(form)
        bench.wait_for_file(starts)
        detail = bench.wait_for_status(service, form, TrialJobStatus.RUNNING)
        bench.close_service(service)
        successor = bench.open_service([as_stored(detail)])
        successor.cancel_trial_job(form.job_name, is_early_stopped=True)
        bench.wait_for_end(successor, form, TrialJobStatus.EARLY_STOPPED)

    def test_a_cancel_that_was_asked_for_before_is_carried_out(self, bench: Bench, service: TrainingService) -> None:
        needs_this_machine(bench)
        form, starts, _ = self.waiting_job(bench)
        service.submit_trial_job(form)
        bench.wait_for_file(starts)
        detail = bench.wait_for_status(service, form, TrialJobStatus.RUNNING)
        bench.close_service(service)
        successor = bench.open_service([as_stored(replace(detail, is_early_stopped=False))])
        bench.wait_for_end(successor, form, TrialJobStatus.USER_CANCELED)

    def test_a_canceled_name_starts_nothing_under_another_object(self, bench: Bench, service: TrainingService) -> None:
        needs_this_machine(bench)
        form, starts, _ = self.waiting_job(bench)
        service.submit_trial_job(form)
        bench.wait_for_file(starts)
        service.cancel_trial_job(form.job_name)
        bench.wait_for_end(service, form, TrialJobStatus.USER_CANCELED)
        bench.close_service(service)
        sleeper = bench.open_service()  # knows nothing of the job, and submits late what it had in hand
        sleeper.submit_trial_job(form)
        bench.wait("the late submission has ended", lambda: sleeper.get_trial_job(form.job_name).status.is_end)
        assert sleeper.get_trial_job(form.job_name).status is not TrialJobStatus.SUCCEEDED
        assert starts.read_text() == "start\n"

    def test_a_job_canceled_before_it_was_started_is_not_started_by_a_late_submission(self, bench: Bench) -> None:
        needs_this_machine(bench)
        form, starts, _ = self.waiting_job(bench)
        begun = TrialJobDetail(form.job_name, TrialJobStatus.WAITING, form, submit_time=1000.0)
        service = bench.open_service([as_stored(begun, submitted=False)])
        service.cancel_trial_job(form.job_name)
        bench.wait_for_status(service, form, TrialJobStatus.USER_CANCELED)
        # the cancel is on its way; where it leaves something that can be seen, wait for that
        bench.wait_if_it_comes(lambda: bench.platform.left_behind(form.experiment_id), patience=3)
        bench.close_service(service)
        sleeper = bench.open_service()
        sleeper.submit_trial_job(form)
        bench.wait("the late submission has ended", lambda: sleeper.get_trial_job(form.job_name).status.is_end)
        assert sleeper.get_trial_job(form.job_name).status is not TrialJobStatus.SUCCEEDED
        assert not starts.exists()

    # --- the end of a service and of an experiment -----------------------------------------

    @staticmethod
    def forget(bench: Bench, service: TrainingService, ended: JobApplicationForm) -> None:
        """As a host does it whose rows have the end: said until the job is not listed any more."""
        def is_forgotten() -> bool:
            service.forget_trial_jobs([ended.job_name])
            return ended.job_name not in [job.id for job in service.list_trial_jobs()]

        bench.wait("the ended job is forgotten", is_forgotten)
        with pytest.raises(UnknownTrialJob):
            service.get_trial_job(ended.job_name)

    def test_a_service_can_be_closed_twice_and_before_it_ran(self, bench: Bench, service: TrainingService) -> None:
        bench.close_service(service)
        service.clean_up()
        never_ran = bench.platform.new_service(bench.context())
        never_ran.clean_up()
        never_ran.clean_up()

    def test_ended_jobs_can_be_removed_and_nothing_that_runs_is_touched(self, bench: Bench, service: TrainingService
                                                                       ) -> None:
        needs_this_machine(bench)
        ended = bench.form("true")
        running, starts, go = self.waiting_job(bench)
        for form in (ended, running):
            service.submit_trial_job(form)
        bench.wait_for_file(starts)
        bench.wait_for_end(service, ended)
        self.forget(bench, service, ended)

        def is_there() -> bool:
            return any(ended.job_name in what for what in bench.platform.left_behind(bench.experiment))

        found: list[RemovedJobs] = []

        def is_removed(keep_unsaved: bool = True) -> bool:
            """A keeper that has told of its end ends itself a moment later."""
            try:
                found.append(service.remove_ended_jobs([ended.job_name, "t00000000000"], keep_unsaved=keep_unsaved))
            except TemporaryError:
                return False
            return found[-1].is_through

        was_there = is_there()
        bench.wait("the ended job is removed", is_removed)
        if found[-1].left:  # files of the trial, in a volume of its own, would go with it
            assert is_there(), "what is not saved stays"
            bench.wait("the ended job is removed with its files", lambda: is_removed(keep_unsaved=False))
        if service.keeps_ended_jobs:
            bench.wait("nothing of it is left", lambda: not is_there())
        else:
            assert is_there() == was_there, "folders stay"
        with pytest.raises(TemporaryError) if service.keeps_ended_jobs else contextlib.nullcontext():
            service.remove_ended_jobs([running.job_name], keep_unsaved=False)
        assert bench.trial_processes(running)
        go.touch()
        bench.wait_for_end(service, running)

    def test_cleaning_up_an_experiment_removes_all_of_it_and_nothing_else(self, bench: Bench,
                                                                         service: TrainingService) -> None:
        needs_this_machine(bench)
        other = new_id("e")
        code = bench.code({"readme": "mine"})
        ended = bench.form("true", code=code)
        running, starts, _ = self.waiting_job(bench)
        neighbour, neighbour_starts, go = self.waiting_job(bench, experiment=other)
        for form in (ended, running, neighbour):
            service.submit_trial_job(form)
        bench.wait_for_file(starts)
        bench.wait_for_file(neighbour_starts)
        bench.wait_for_end(service, ended)
        self.forget(bench, service, ended)
        assert bench.platform.left_behind(bench.experiment)
        for _ in range(2):
            service.clean_up_experiment(bench.experiment)
        # a keeper that has told of its end ends itself a moment later
        bench.wait("nothing of it is left", lambda: not bench.platform.left_behind(bench.experiment)
                   and not bench.trial_processes(running))
        assert [job.id for job in service.list_trial_jobs()] == [neighbour.job_name]
        with pytest.raises(UnknownTrialJob):
            service.get_trial_job(running.job_name)
        assert code.folder is not None
        assert (code.folder / "readme").read_text() == "mine"
        go.touch()
        bench.wait_for_end(service, neighbour)
        service.clean_up_experiment(other)
        bench.wait("nothing of the other is left", lambda: not bench.platform.left_behind(other))
        assert service.list_trial_jobs() == []
