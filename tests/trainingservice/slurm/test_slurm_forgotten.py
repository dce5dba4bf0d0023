"""Ends of jobs that nobody looked at until Slurm had forgotten them, on a real Slurm that keeps no accounts."""

from __future__ import annotations

import contextlib
import os
import signal

import pytest

from tests.trainingservice.jobs_of_tests import lasting
from trainingservice.slurm import service as service_module
from trainingservice.testing.cases.returning import as_stored
from trainingservice.testing.processes import processes_of
from trainingservice.trial_job_status import TrialJobStatus

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

SLURM = {"MinJobAge": "2", "KillWait": "2"}


def is_forgotten(bench, form) -> bool:
    return not bench.platform.job_of(form)


def test_an_end_that_slurm_has_forgotten_is_read_from_the_folder(bench):
    service = bench.open_service()
    form, starts, go = lasting(bench)
    service.submit_trial_job(form)
    bench.wait_for_file(starts)
    detail = bench.wait_for_status(service, form, TrialJobStatus.RUNNING)
    bench.close_service(service)
    go.touch()
    bench.wait("Slurm has forgotten it", lambda: is_forgotten(bench, form), patience=120)
    assert bench.wait_for_end(bench.open_service([as_stored(detail)]), form).exit_code == 0


def test_a_job_that_vanished_without_a_word_fails_after_a_while(bench, monkeypatch):
    monkeypatch.setattr(service_module, "GONE_AFTER", 1.0)
    monkeypatch.setattr(service_module, "NOT_THERE_YET", 1.0)
    service = bench.open_service()
    form, starts, _ = lasting(bench)
    service.submit_trial_job(form)
    bench.wait_for_file(starts)
    detail = bench.wait_for_status(service, form, TrialJobStatus.RUNNING)
    bench.close_service(service)
    while left := processes_of([form.job_name]):  # as when a node loses its power: nobody sees the others go
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for process in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, number)
    bench.wait("Slurm has forgotten it", lambda: is_forgotten(bench, form), patience=120)
    detail = bench.wait_for_status(bench.open_service([as_stored(detail)]), form, TrialJobStatus.FAILED)
    assert "how it ended is not known" in detail.message
