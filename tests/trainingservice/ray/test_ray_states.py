"""What Ray says of a job: states, kinds of faults, and what the keeper printed of its end."""

import json

import pytest

from trainingservice.keeper.end_in_output import END_MARK
from trainingservice.ray.rehearsal import why_no_node
from trainingservice.ray.states import kind_of_fault, last_lines_of, observed_job
from trainingservice.reasons import code_of
from trainingservice.trial_job_status import TrialJobStatus as Status

TAIL = "Job entrypoint command failed with exit code 3, last available logs (truncated to 20,000 chars):\n"


def failed(message="", **more):
    return observed_job({"status": "FAILED", "message": message, "end_time": 1_700_000_000_500, **more})


@pytest.mark.parametrize(("row", "status", "code"), [
    ({"status": "PENDING", "message": "Job has not started yet."}, Status.WAITING, "platform_queue"),
    ({"status": "RUNNING", "message": "Job is currently running."}, Status.RUNNING, ""),
    ({"status": "SUCCEEDED", "driver_exit_code": 0}, Status.SUCCEEDED, ""),
    ({"status": "STOPPED"}, Status.SYS_CANCELED, "stopped_on_platform"),
    ({"status": "ASLEEP"}, Status.UNKNOWN, "platform_state_unknown"), ({}, Status.UNKNOWN, "platform_state_unknown")])
def test_each_state_is_a_status(row, status, code):
    seen = observed_job(row)
    assert seen.status is status
    assert code_of(seen.message or "") == code or not (code or seen.message)


@pytest.mark.parametrize(("kind", "code"), [
    ("RUNTIME_ENV_SETUP_FAILURE", "launch_failed"), ("JOB_SUPERVISOR_ACTOR_UNSCHEDULABLE", "never_scheduled"),
    ("JOB_SUPERVISOR_ACTOR_DIED", "node_failed"), ("JOB_SUPERVISOR_ACTOR_UNKNOWN_FAILURE", "node_failed"),
    ("JOB_SUPERVISOR_ACTOR_START_FAILURE", "launch_failed"), ("JOB_ENTRYPOINT_COMMAND_START_ERROR", "launch_failed"),
    ("A_LATER_KIND", "platform_failed")])
def test_each_kind_of_fault_has_a_code_and_ray_s_words(kind, code):
    seen = failed("The wheel cannot be built.", error_type=kind)
    assert seen.status is Status.FAILED
    assert code_of(seen.message or "") == code
    assert "The wheel cannot be built." in (seen.message or "")
    assert seen.end_time == 1_700_000_000.5
    assert bool(seen.cause) == (code == "node_failed"), "what no keeper can know"


def test_a_worker_killed_for_want_of_memory_says_so():
    seen = failed("Job supervisor actor died: The worker died: NODE_OUT_OF_MEMORY",
                  error_type="JOB_SUPERVISOR_ACTOR_DIED")
    assert code_of(seen.cause) == code_of(seen.message or "") == "out_of_memory"


@pytest.mark.parametrize("message", [
    "runtime_env setup failed: Failed to set up runtime environment.",
    "Job supervisor actor failed to start within 900.0 seconds.",
    "Job entrypoint command failed with exit code 1. No logs available.",
    "Unexpected error occurred: The actor died."])
def test_why_a_job_failed_is_never_taken_from_a_sentence(message):
    assert kind_of_fault({"status": "FAILED", "message": message, "error_type": None}) == ""
    seen = failed(message, error_type=None)
    assert (seen.status, code_of(seen.message or "")) == (Status.FAILED, "platform_failed")
    assert message in (seen.message or ""), "people read it"


def test_what_the_keeper_printed_is_the_end():
    end = json.dumps({"reason": "exited", "exit_code": 3, "signal": None, "at": 100.0, "duration": 5.0})
    seen = failed(f"{TAIL}something\n{END_MARK}{end}\n", error_type="JOB_ENTRYPOINT_COMMAND_ERROR", driver_exit_code=3)
    assert (seen.status, seen.exit_code, seen.ended_by_itself, seen.start_time) == (Status.FAILED, 3, True, 95.0)
    assert code_of(seen.message or "") == "exit_code"


def test_a_job_whose_shell_was_killed_has_that_signal():
    seen = failed(TAIL, error_type="JOB_ENTRYPOINT_COMMAND_ERROR", driver_exit_code=-9)
    assert code_of(seen.message or "") == "signal"
    assert not seen.ended_by_itself


def test_of_a_traceback_the_last_line_is_shown():
    seen = failed("Failed to start supervisor actor t1: 'x'. Full traceback:\nTraceback (most recent call last):\n"
                  "ValueError: The resource is wrong.\n", error_type="JOB_SUPERVISOR_ACTOR_START_FAILURE")
    assert (seen.message or "").endswith("Message of Ray: ValueError: The resource is wrong.")


def test_the_machine_is_that_of_the_agent():
    for address, machine in (("http://[fe80::1]:1", "fe80::1"), ("http://10.0.0.7:1", "10.0.0.7"), ("http://[", "")):
        assert observed_job({"status": "RUNNING", "driver_agent_http_address": address}).machine == machine


def test_the_last_lines_are_those_that_the_job_wrote():
    log = ("2026-11-27 04:00:00,000\tINFO job_manager.py:568 -- Runtime env is setting up.\n"
           f"Running entrypoint for job t1: exec sh\nNo such\n  host\n{END_MARK}{{}}\n")
    assert last_lines_of(log) == "No such host"
    assert last_lines_of("") == ""
    assert len(last_lines_of("word " * 10_000)) == 500


@pytest.mark.parametrize(("asked", "sentence"), [
    ({"CPU": 4, "special": 1}, ""),
    ({"CPU": 8}, "No node of the cluster has 8 of CPU: the largest has 4."),
    ({"TPU": 1}, "No node of the cluster has 1 of TPU: none has any."),
    ({"memory": 8 * 1024 ** 3}, "No node of the cluster has 8.0 GB of memory: the largest has 4.0 GB."),
    ({"special": 1, "GPU": 2}, "No node of the cluster has all that a job asks for: 1 of special, 2 of GPU.")])
def test_what_no_node_has_is_named(asked, sentence):
    nodes = [{"CPU": 4.0, "special": 2.0, "memory": 4.0 * 1024 ** 3}, {"CPU": 2.0, "GPU": 2.0}]
    assert why_no_node(asked, nodes) == sentence


def test_a_cluster_without_nodes_says_so():
    assert why_no_node({}, []) == "The cluster has no node."
