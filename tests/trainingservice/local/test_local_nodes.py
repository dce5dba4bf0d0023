"""Trials with several nodes on the server's machine: one process for each."""

from pathlib import Path

import pytest

from tests.trainingservice.ranks_of_tests import (
    MEETING,
    end_rank,
    final_results,
    on_nodes,
    pids_of_ranks,
    waiting_ranks,
)
from tests.trialkeeper.hiding_process import lives
from trainingservice.keeper.agent_client import AgentClient
from trainingservice.nodes.node_names import job_and_rank
from trainingservice.nodes.options import rank_rows
from trainingservice.trial_job import ResumedJob
from trainingservice.trial_job_status import TrialJobStatus

FAILED, RUNNING, CANCELED = TrialJobStatus.FAILED, TrialJobStatus.RUNNING, TrialJobStatus.USER_CANCELED


def test_three_processes_of_this_machine_run_a_trial_together(bench, service):
    form = on_nodes(bench.form(script=MEETING), 3)
    service.submit_trial_job(form)
    detail = bench.wait_for_end(service, form)
    assert final_results(bench, form) == ["3"]
    assert [row["status"] for row in rank_rows(detail.platform_state)] == ["SUCCEEDED"] * 3


def test_each_rank_gets_gpus_of_its_own(bench, nvidia_smi, service):
    form = on_nodes(bench.form(script=MEETING, gpu_number=1), 2)
    service.submit_trial_job(form)
    detail = bench.wait_for_end(service, form)
    assert [row["gpu_indices"] for row in rank_rows(detail.platform_state)] == [[0], [1]]
    assert '"CUDA_VISIBLE_DEVICES": "0"' in bench.output(form)


def test_a_rank_that_fails_ends_the_others_and_is_named(bench, service):
    form = waiting_ranks(bench, 3)
    service.submit_trial_job(form)
    pids = pids_of_ranks(bench, 3)
    end_rank(bench, 1, exit_code=5)
    detail = bench.wait_for_status(service, form, FAILED)
    assert not any(map(lives, pids))
    assert (detail.message.code, detail.message.arguments["rank"], detail.message.arguments["last_lines"]) == (
        "rank_failed", 1, "rank 1 was told to end")


@pytest.mark.parametrize("rank", [0, 1])
def test_nothing_is_said_of_a_trial_while_the_agent_leaves_out_one_of_its_ranks(bench, service, monkeypatch, rank):
    form, other = waiting_ranks(bench, 2), bench.form("sleep 600")
    for each in (form, other):
        service.submit_trial_job(each)
        bench.wait_for_status(service, each, RUNNING)
    pids_of_ranks(bench, 2)
    ask = AgentClient.state

    def answer(client, folders, **more):
        return {folder: state for folder, state in ask(client, folders, **more).items()
                if job_and_rank(Path(folder).name) != (form.job_name, rank)}

    with monkeypatch.context() as patch:
        patch.setattr(AgentClient, "state", answer)
        seen = service.observe_jobs([service.get_trial_job(each.job_name) for each in (form, other)])
    assert {job_name: observation.status for job_name, observation in seen.items()} == {other.job_name: RUNNING}


def test_a_trial_that_is_stopped_leaves_no_rank(bench, service):
    form = waiting_ranks(bench, 3)
    service.submit_trial_job(form)
    pids = pids_of_ranks(bench, 3)
    service.cancel_trial_job(form.job_name)
    bench.wait_for_status(service, form, CANCELED)
    assert not any(map(lives, pids))


@pytest.mark.parametrize("is_told", [True, False])
def test_the_next_service_finds_all_ranks_again(bench, service, is_told):
    form = waiting_ranks(bench, 3)
    service.submit_trial_job(form)
    pids = pids_of_ranks(bench, 3)
    bench.wait_for_status(service, form, RUNNING)
    known = service.get_trial_job(form.job_name)
    bench.close_service(service)
    detail = known if is_told else type(known)(form.job_name, TrialJobStatus.WAITING, form, known.submit_time)
    service = bench.open_service([ResumedJob(detail, submitted=is_told)])
    end_rank(bench, 2, exit_code=3)
    detail = bench.wait_for_status(service, form, FAILED)
    assert detail.message.arguments["rank"] == 2
    assert not any(map(lives, pids))
