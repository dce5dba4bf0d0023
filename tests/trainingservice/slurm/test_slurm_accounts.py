"""What only the accounts of a real Slurm know: how jobs ended that its controller has forgotten."""

from __future__ import annotations

import contextlib
import os
import signal

import pytest

from tests.trainingservice.jobs_of_tests import lasting
from trainingservice.slurm import service as service_module
from trainingservice.slurm.commands import SlurmCommands
from trainingservice.slurm.service import name_on_cluster
from trainingservice.submit_host.host import ThisMachine
from trainingservice.testing.cases.returning import as_stored
from trainingservice.testing.processes import processes_of
from trainingservice.trial_job_status import TrialJobStatus

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

SLURM = {"accounts": True, "MinJobAge": "2", "KillWait": "2"}


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(service_module, "GONE_AFTER", 1.0)
    monkeypatch.setattr(service_module, "NOT_THERE_YET", 1.0)


@pytest.fixture
def unseen_end(bench, cluster):
    """The form and the last detail of a job that was killed, keeper and all, and forgotten while nobody looked."""
    service = bench.open_service()
    form, starts, _ = lasting(bench)
    service.submit_trial_job(form)
    bench.wait_for_file(starts)
    detail = bench.wait_for_status(service, form, TrialJobStatus.RUNNING)
    bench.close_service(service)
    while left := processes_of([form.job_name]):  # one after the other, none may see the others go
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for process in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, number)
    bench.wait("Slurm has forgotten it", lambda: not bench.platform.job_of(form), patience=120)
    return form, detail


def test_how_a_forgotten_job_ended_is_read_from_the_accounts(bench, unseen_end):
    form, detail = unseen_end
    seen = bench.wait_for_status(bench.open_service([as_stored(detail)]), form, TrialJobStatus.FAILED)
    assert "how it ended is not known" not in seen.message
    assert seen.end_time is not None
    assert seen.platform_state["slurm_id"] == detail.platform_state["slurm_id"]


def test_while_the_accounts_are_away_nothing_is_said_of_a_forgotten_job(bench, cluster, unseen_end):
    form, detail = unseen_end
    cluster.stop_accounts()
    try:
        service = bench.open_service([as_stored(detail)])
        questions = []
        queue = service._slurm.queue
        service._slurm.queue = lambda *names: questions.append(names) or queue(*names)
        bench.wait("it is asked about", lambda: len(questions) >= 3, patience=120)
        assert service.get_trial_job(form.job_name).status is TrialJobStatus.RUNNING
    finally:
        cluster.start_accounts()
    seen = bench.wait_for_status(service, form, TrialJobStatus.FAILED)
    assert "how it ended is not known" not in seen.message


def test_the_accounts_find_a_job_by_its_name_and_by_its_id(bench, unseen_end):
    form, detail = unseen_end
    commands = SlurmCommands(ThisMachine())
    [by_name] = commands.accounts(names=[name_on_cluster(form.job_name)])
    [by_id] = commands.accounts([str(detail.platform_state["slurm_id"])])
    assert by_name == by_id
    assert (by_id.name, by_id.job_id) == (name_on_cluster(form.job_name), detail.platform_state["slurm_id"])
    assert commands.accounts(names=["nniweb-nobody"]) == []
    assert commands.keeps_accounts


def test_a_rehearsal_says_that_there_are_accounts(bench):
    service = bench.platform.new_service(bench.context())
    findings = {finding.check: finding for finding in service.rehearse()}
    service.clean_up()
    assert "It has an accounting database" in findings["accounts"].message
