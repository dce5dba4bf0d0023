"""Trials that run on several nodes, on a real Slurm with three of them."""

import importlib.util
import json
import os
import signal
import sys

import pytest

from tests.trainingservice.ranks_of_tests import (
    GLOO,
    MEETING,
    TAKES_ITS_PORT_TWICE,
    end_rank,
    final_results,
    on_nodes,
    pids_of_ranks,
    waiting_ranks,
)
from tests.trialkeeper.hiding_process import lives
from trainingservice.nodes.options import rank_rows
from trainingservice.slurm.config import SlurmTrialOptions
from trainingservice.slurm.job_script import sbatch_options
from trainingservice.trial_job import ResumedJob
from trainingservice.trial_job_status import TrialJobStatus
from trialkeeper import contract

SLURM = {"nodes": 3, "ReturnToService": "1"}
FAILED, RUNNING, CANCELED = TrialJobStatus.FAILED, TrialJobStatus.RUNNING, TrialJobStatus.USER_CANCELED


def nothing_runs(bench, pids):
    bench.wait("no rank runs any more", lambda: not any(map(lives, pids)))


def test_a_job_asks_for_all_nodes_with_one_task_on_each():
    assert sbatch_options(SlurmTrialOptions(nodes=3, gpus_per_node=2), 2) == [
        "--nodes=3", "--ntasks=3", "--ntasks-per-node=1", "--cpus-per-task=1", "--gres=gpu:2"]


def test_three_nodes_run_a_trial_together_and_rank_0_reports_the_sum_of_their_ranks(bench):
    service = bench.open_service()
    form = on_nodes(bench.form(script=MEETING), 3)
    service.submit_trial_job(form)
    detail = bench.wait_for_end(service, form)
    assert final_results(bench, form) == ["3"]
    assert [(row["machine"], row["status"]) for row in rank_rows(detail.platform_state)] == [
        ("node1", "SUCCEEDED"), ("node2", "SUCCEEDED"), ("node3", "SUCCEEDED")]
    assert "the sum is 3" in bench.output(form)


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_torchrun_and_gloo_find_all_ranks(bench):
    service = bench.open_service()
    form = on_nodes(bench.form(f"{sys.executable} -m torch.distributed.run trial.py", script=GLOO), 3)
    service.submit_trial_job(form)
    bench.wait_for_end(service, form)
    assert final_results(bench, form) == ["3"]


def test_a_rank_that_fails_ends_all_and_is_named_with_its_node_and_its_last_lines(bench):
    service = bench.open_service()
    form = waiting_ranks(bench, 3)
    service.submit_trial_job(form)
    pids = pids_of_ranks(bench, 3)
    end_rank(bench, 2, exit_code=7)
    detail = bench.wait_for_status(service, form, FAILED)
    nothing_runs(bench, pids)
    assert {name: detail.message.arguments[name] for name in ("rank", "machine", "ended", "last_lines")} == {
        "rank": 2, "machine": "node3", "ended": "exited", "last_lines": "rank 2 was told to end"}


def test_a_rank_whose_keeper_is_killed_is_named_and_all_others_end(bench):
    service = bench.open_service()
    form = waiting_ranks(bench, 3)
    service.submit_trial_job(form)
    pids = pids_of_ranks(bench, 3)
    [document] = bench.platform.shared.rglob(f"{form.job_name}/node1/{contract.KEEPER_FILE}")
    os.kill(json.loads(document.read_text())["pid"], signal.SIGKILL)
    detail = bench.wait_for_status(service, form, FAILED)
    nothing_runs(bench, pids)
    assert (detail.message.arguments["rank"], detail.message.arguments["machine"]) == (1, "node2")
    assert detail.message.arguments["ended"] == "lost"


@pytest.mark.slow
def test_a_port_that_another_program_takes_first_is_told_with_rank_and_node(bench):
    service = bench.open_service()
    form = on_nodes(bench.form(script=TAKES_ITS_PORT_TWICE), 3)
    service.submit_trial_job(form)
    detail = bench.wait_for_status(service, form, FAILED)
    assert (detail.message.arguments["rank"], detail.message.arguments["machine"]) == (0, "node1")
    assert "Address already in use" in detail.message.arguments["last_lines"]


def test_a_trial_that_is_stopped_can_save_and_leaves_no_rank_on_any_node(bench, cluster):
    service = bench.open_service()
    form = waiting_ranks(bench, 3)
    service.submit_trial_job(form)
    pids = pids_of_ranks(bench, 3)
    bench.wait_for_status(service, form, RUNNING)
    service.cancel_trial_job(form.job_name)
    bench.wait_for_status(service, form, CANCELED)
    nothing_runs(bench, pids)
    assert sorted(path.name for path in bench.witness.glob("saved*")) == ["saved0", "saved1", "saved2"]


def test_the_next_service_finds_a_trial_with_several_nodes_again(bench):
    service = bench.open_service()
    form = waiting_ranks(bench, 3)
    service.submit_trial_job(form)
    pids = pids_of_ranks(bench, 3)
    bench.wait_for_status(service, form, RUNNING)
    known = service.get_trial_job(form.job_name)
    bench.close_service(service)
    service = bench.open_service([ResumedJob(known)])
    for rank in range(3):
        end_rank(bench, rank)
    bench.wait_for_end(service, form)
    nothing_runs(bench, pids)


@pytest.mark.slow
def test_a_trial_that_slurm_queues_again_runs_on_all_nodes_anew(bench, cluster):
    bench.platform.more_options = {"requeue": True}
    service = bench.open_service()
    form = waiting_ranks(bench, 3)
    service.submit_trial_job(form)
    pids = pids_of_ranks(bench, 3)
    bench.wait_for_status(service, form, RUNNING)
    job = bench.platform.job_of(form)
    for rank in range(3):
        (bench.witness / f"pid{rank}").unlink()
    cluster.command("scontrol", "requeue", job)
    bench.wait("it is told as queued again", lambda: service.get_trial_job(form.job_name).suspended)
    nothing_runs(bench, pids)
    # the server closes the books of the first run; then the second may report
    bench.server.forget(form.job_name)
    bench.server.expect(form, platform="slurm")
    folder = bench.platform.shared / "nniweb" / form.experiment_id / form.job_name
    (folder / "token").write_text(bench.server.access_for(form.job_name).token)
    cluster.let_begin(job)
    pids = pids_of_ranks(bench, 3)
    for rank in range(3):
        end_rank(bench, rank)
    bench.wait_for_end(service, form)
    nothing_runs(bench, pids)
    assert (folder / "before-1" / "node2" / contract.EXIT_FILE).is_file()


def test_a_node_that_fails_is_named_with_its_rank(bench, cluster):
    service = bench.open_service()
    form = waiting_ranks(bench, 3)
    service.submit_trial_job(form)
    pids = pids_of_ranks(bench, 3)
    bench.wait_for_status(service, form, RUNNING)
    cluster.command("scontrol", "update", "nodename=node2", "state=down", "reason=test")
    try:
        detail = bench.wait_for_status(service, form, FAILED)
        assert (detail.message.code, detail.message.arguments["rank"], detail.message.arguments["machine"]) == (
            "rank_failed", 1, "node2")
        assert detail.message.arguments["because"]["code"] == "node_failed"
        nothing_runs(bench, pids)
    finally:
        cluster.command("scontrol", "update", "nodename=node2", "state=resume", check=False)
        bench.wait("the node is back", lambda: "node2" in cluster.command(
            "sinfo", "-h", "-N", "-t", "idle", "-o", "%N"), patience=120)
