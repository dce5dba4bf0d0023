"""Trials that run on several machines at the same time: real sshds, keepers and processes."""

import json
import os
import signal
import time

import pytest

from tests.fakes.ssh_machine import SshMachine, needs_root
from tests.trainingservice.ranks_of_tests import (
    MEETING,
    TAKES_ITS_PORT_TWICE,
    end_rank,
    final_results,
    on_nodes,
    pids_of_ranks,
    waiting_ranks,
)
from tests.trialkeeper.hiding_process import lives
from trainingservice.nodes.node_names import node_name
from trainingservice.nodes.options import rank_rows
from trainingservice.remote import service as service_module
from trainingservice.trial_job import ResumedJob
from trainingservice.trial_job_status import TrialJobStatus
from trialkeeper import contract

FAILED, RUNNING, CANCELED, WAITING, SUCCEEDED = (
    TrialJobStatus.FAILED, TrialJobStatus.RUNNING, TrialJobStatus.USER_CANCELED, TrialJobStatus.WAITING,
    TrialJobStatus.SUCCEEDED)


@pytest.fixture
def machines(bench, make_machine) -> list[SshMachine]:
    made = [make_machine(name) for name in ("ada", "bob", "cyd")]
    bench.platform.machine_list = [machine.settings() for machine in made]
    return made


def connected(bench, service):
    bench.wait("all machines are connected", lambda: all(found.healthy for found in service.list_machines()))


def output_of_rank(bench, machine, form, rank, stream="stdout"):
    [path] = machine.home.rglob(f"{form.experiment_id}/{node_name(form.job_name, rank)}/{stream}")
    return path.read_text()


def nothing_runs(bench, pids):
    bench.wait("no rank runs any more", lambda: not any(map(lives, pids)))


def test_three_machines_run_a_trial_together_and_rank_0_reports_the_sum_of_their_ranks(bench, machines):
    service = bench.open_service()
    connected(bench, service)
    form = on_nodes(bench.form(script=MEETING), 3)
    service.submit_trial_job(form)
    detail = bench.wait_for_end(service, form)
    assert final_results(bench, form) == ["3"]
    assert [entry["type"] for entry in bench.entries(form)].count(contract.STARTED) == 1
    rows = rank_rows(detail.platform_state)
    assert [row["rank"] for row in rows] == [0, 1, 2]
    assert len({row["machine"] for row in rows}) == 3
    assert [row["status"] for row in rows] == ["SUCCEEDED"] * 3
    at = {machine.settings().address: machine for machine in machines}
    for rank, place in enumerate(detail.platform_state["places"]):
        told, said = output_of_rank(bench, at[place["machine"]], form, rank).splitlines()
        assert json.loads(told) == {
            "RANK": str(rank), "NODE_RANK": str(rank), "LOCAL_RANK": "0", "WORLD_SIZE": "3", "LOCAL_WORLD_SIZE": "1",
            "PET_NNODES": "3", "PET_NODE_RANK": str(rank), "PET_NPROC_PER_NODE": "1", "CUDA_VISIBLE_DEVICES": None}
        assert said == "the sum is 3"


def test_a_rank_that_fails_ends_all_and_is_named_with_its_machine_and_its_last_lines(bench, machines):
    service = bench.open_service()
    connected(bench, service)
    form = waiting_ranks(bench, 3)
    service.submit_trial_job(form)
    pids = pids_of_ranks(bench, 3)
    machine = rank_rows(service.get_trial_job(form.job_name).platform_state)[2]["machine"]
    end_rank(bench, 2, exit_code=7)
    detail = bench.wait_for_status(service, form, FAILED)
    assert not any(map(lives, pids))
    reason = detail.message
    assert reason.code == "rank_failed"
    assert {name: reason.arguments[name] for name in ("rank", "machine", "ended", "last_lines")} == {
        "rank": 2, "machine": machine, "ended": "exited", "last_lines": "rank 2 was told to end"}
    assert reason.arguments["because"] == {"code": "exit_code", "exit_code": 7, "last_words": ""}
    assert detail.cause == reason


@pytest.mark.slow
def test_a_rank_whose_processes_are_killed_is_named(bench, machines):
    service = bench.open_service()
    connected(bench, service)
    form = waiting_ranks(bench, 3)
    service.submit_trial_job(form)
    pids = pids_of_ranks(bench, 3)
    os.kill(pids[1], signal.SIGKILL)
    detail = bench.wait_for_status(service, form, FAILED)
    nothing_runs(bench, pids)
    assert (detail.message.code, detail.message.arguments["rank"]) == ("rank_failed", 1)


@pytest.mark.slow
def test_where_one_machine_has_no_room_no_rank_is_started_and_no_gpu_is_booked(bench, make_gpu_machine):
    needs_root()
    machines = [make_gpu_machine(name, gpus=2, own_identity=True) for name in ("ada", "bob", "cyd")]
    bench.platform.machine_list = [machine.settings() for machine in machines]
    service = bench.open_service()
    connected(bench, service)
    holding = waiting_ranks(bench, 1, gpu_number=2)
    service.submit_trial_job(holding)
    bench.wait_for_status(service, holding, RUNNING)
    form = on_nodes(bench.form(script=MEETING, gpu_number=2), 3)
    service.submit_trial_job(form)
    bench.wait("it says why it waits", lambda: getattr(
        service.get_trial_job(form.job_name).message, "arguments", {}).get("free") == 2)
    reason = service.get_trial_job(form.job_name).message
    assert (reason.code, reason.arguments["nodes"]) == ("nodes_busy", 3)
    booked = [bench.context().gpu_book.booked(machine.identity) for machine in service.list_machines()]
    assert not any(form.job_name in of_machine for of_machine in booked)
    end_rank(bench, 0)
    detail = bench.wait_for_end(service, form)
    assert [row["gpu_indices"] for row in rank_rows(detail.platform_state)] == [[0, 1]] * 3
    bench.wait("all GPUs are free", lambda: not any(
        bench.context().gpu_book.booked(machine.identity) for machine in service.list_machines()))


def test_more_nodes_than_machines_are_refused_with_what_to_do(bench, machines):
    service = bench.open_service()
    connected(bench, service)
    form = on_nodes(bench.form("true"), 4)
    service.submit_trial_job(form)
    detail = bench.wait_for_status(service, form, FAILED)
    assert detail.message.code == "too_few_machines"
    assert "Lower nodes, or add machines to machineList" in detail.message


def absent() -> dict:
    return {"state": "absent", "exit": None, "keeper_pid": None, "pid": None, "working_directory": "",
            "delivered": False, "way_home": ""}


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 1])
def test_an_answer_that_is_older_than_the_start_of_a_rank_does_not_make_it_disappear(bench, machines, rank):
    service = bench.open_service()
    connected(bench, service)
    form = waiting_ranks(bench, 2)
    asked_at = time.monotonic()
    service.submit_trial_job(form)
    pids = pids_of_ranks(bench, 2)
    places = service.get_trial_job(form.job_name).platform_state["places"]
    service.machine_saw(places[rank]["machine"], node_name(form.job_name, rank), absent(), asked_at)
    assert service.update_trial_job(form.job_name, form).status is RUNNING
    end_rank(bench, 0)
    end_rank(bench, 1)
    bench.wait_for_status(service, form, SUCCEEDED)
    nothing_runs(bench, pids)


def test_a_rank_whose_folder_is_said_to_be_gone_is_ended_with_the_others(bench, machines):
    service = bench.open_service()
    connected(bench, service)
    form = waiting_ranks(bench, 2)
    service.submit_trial_job(form)
    pids = pids_of_ranks(bench, 2)
    bench.wait_for_status(service, form, RUNNING)
    place = service.get_trial_job(form.job_name).platform_state["places"][0]["machine"]
    bench.wait("it is said to be gone, later than anything else", lambda: service.machine_saw(
        place, node_name(form.job_name, 0), absent(), time.monotonic() + 60)
        or rank_rows(service.get_trial_job(form.job_name).platform_state)[0]["status"] == "FAILED")
    nothing_runs(bench, pids)
    assert "is gone" in bench.wait_for_status(service, form, FAILED).message


@pytest.mark.slow
def test_a_trial_that_is_stopped_leaves_no_rank_on_any_machine(bench, machines):
    service = bench.open_service()
    connected(bench, service)
    form = waiting_ranks(bench, 3)
    service.submit_trial_job(form)
    pids = pids_of_ranks(bench, 3)
    bench.wait_for_status(service, form, RUNNING)
    service.cancel_trial_job(form.job_name)
    bench.wait_for_status(service, form, CANCELED)
    nothing_runs(bench, pids)


@pytest.mark.slow
def test_ranks_that_go_on_when_rank_0_has_succeeded_are_ended(bench, machines, monkeypatch):
    monkeypatch.setattr("trainingservice.keeper.trial_of_ranks.OTHERS_HAVE", 0.2)
    service = bench.open_service()
    connected(bench, service)
    form = waiting_ranks(bench, 3)
    service.submit_trial_job(form)
    pids = pids_of_ranks(bench, 3)
    end_rank(bench, 0)
    bench.wait_for_status(service, form, TrialJobStatus.SUCCEEDED)
    nothing_runs(bench, pids)


def test_a_machine_that_is_lost_ends_the_other_ranks_and_is_named(bench, machines, monkeypatch):
    monkeypatch.setattr(service_module, "ANSWER_PATIENCE", 0.2)
    bench.platform.more = {"lost_after": 2.0}
    service = bench.open_service()
    connected(bench, service)
    form = waiting_ranks(bench, 3)
    service.submit_trial_job(form)
    pids = pids_of_ranks(bench, 3)
    row = rank_rows(service.get_trial_job(form.job_name).platform_state)[1]
    place = service.get_trial_job(form.job_name).platform_state["places"][1]["machine"]
    lost = next(machine for machine in machines if machine.settings().address == place)
    lost.crash()
    detail = bench.wait_for_status(service, form, FAILED)
    nothing_runs(bench, pids)
    assert (detail.message.code, detail.message.arguments["rank"], detail.message.arguments["machine"]) == (
        "rank_failed", 1, row["machine"])
    assert detail.message.arguments["because"]["code"] == "node_failed"


@pytest.mark.slow
@pytest.mark.parametrize("is_told", [True, False])
def test_the_next_service_finds_all_ranks_again(bench, machines, is_told):
    """Also where the one before was killed before it could say where they are."""
    service = bench.open_service()
    connected(bench, service)
    form = waiting_ranks(bench, 3)
    service.submit_trial_job(form)
    pids = pids_of_ranks(bench, 3)
    bench.wait_for_status(service, form, RUNNING)
    known = service.get_trial_job(form.job_name)
    bench.close_service(service)
    detail = known if is_told else type(known)(form.job_name, WAITING, form, known.submit_time)
    service = bench.open_service([ResumedJob(detail, submitted=is_told)])
    bench.wait("all ranks are found", lambda: [
        row["status"] for row in rank_rows(service.get_trial_job(form.job_name).platform_state)] == ["RUNNING"] * 3)
    assert all(map(lives, pids))
    end_rank(bench, 1, exit_code=3)
    bench.wait_for_status(service, form, FAILED)
    nothing_runs(bench, pids)


@pytest.mark.slow
def test_ranks_that_were_not_started_when_the_service_ended_are_started_by_the_next_one(bench, machines, monkeypatch):
    from trainingservice.remote.node_jobs import NodeJobs

    service = bench.open_service()
    connected(bench, service)
    with monkeypatch.context() as killed:
        killed.setattr(NodeJobs, "_start_others", lambda *arguments: None)
        form = on_nodes(bench.form(script=MEETING), 3)
        service.submit_trial_job(form)
        bench.wait_for_status(service, form, RUNNING)
        known = service.get_trial_job(form.job_name)
        bench.close_service(service)
    service = bench.open_service([ResumedJob(
        type(known)(form.job_name, WAITING, form, known.submit_time), submitted=False)])
    bench.wait_for_end(service, form)
    assert final_results(bench, form) == ["3"]


@pytest.mark.slow
def test_agents_that_are_killed_are_started_again_and_have_all_ranks(bench, machines):
    service = bench.open_service()
    connected(bench, service)
    form = waiting_ranks(bench, 3)
    service.submit_trial_job(form)
    pids = pids_of_ranks(bench, 3)
    for machine in machines:
        for pid in machine.agent_pids():
            os.kill(pid, signal.SIGKILL)
    for rank in range(3):
        end_rank(bench, rank)
    bench.wait_for_end(service, form)
    nothing_runs(bench, pids)


@pytest.mark.slow
def test_a_port_that_another_program_takes_first_is_told_with_rank_machine_and_last_lines(bench, machines):
    service = bench.open_service()
    connected(bench, service)
    form = on_nodes(bench.form(script=TAKES_ITS_PORT_TWICE), 3)
    service.submit_trial_job(form)
    detail = bench.wait_for_status(service, form, FAILED)
    assert (detail.message.code, detail.message.arguments["rank"]) == ("rank_failed", 0)
    assert detail.message.arguments["machine"] == rank_rows(detail.platform_state)[0]["machine"]
    assert "Address already in use" in detail.message.arguments["last_lines"]
