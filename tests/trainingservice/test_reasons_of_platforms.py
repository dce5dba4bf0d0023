"""The same misfortune has the same code on every platform, with the platform's words."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from trainingservice.azureml.states import observed_status
from trainingservice.dlts.states import observed_record
from trainingservice.errors import TemporaryError, TrainingServiceError
from trainingservice.kubeflow.replicated_job import TFJobKind
from trainingservice.kubernetes.job import JobKind
from trainingservice.kubernetes_base import pods
from trainingservice.kubernetes_base.api import ApiAway, ApiRefusal, error_of
from trainingservice.kubernetes_base.complaints import _sentence
from trainingservice.kubernetes_base.kind import Phase, Seen
from trainingservice.kubernetes_base.observing import observation
from trainingservice.kubernetes_base.quotas import Limit, why_no_pod
from trainingservice.openpai.states import observed_detail, observed_row
from trainingservice.polling.job_record import Observation
from trainingservice.ray.states import observed_job
from trainingservice.reasons import OTHER, arguments_of, code_of
from trainingservice.rest.rest_client import LogInRefused, RestAnswer, RestClient
from trainingservice.slurm.queue_rows import JobRow
from trainingservice.slurm.states import observed, with_last_word
from trainingservice.ssh.problems import MachineProblem, as_problem
from trialkeeper import contract

OOM_WORDS = 'PodPattern matched: {"containers":[{"code":137,"reason":"OOMKilled"}]}'


def slurm(state: str, **fields: Any) -> Observation:
    return observed(JobRow("7", state, "nnit", **fields))


def openpai(code: int, said: str = "") -> Observation:
    return observed_detail({"jobStatus": {"state": "FAILED", "appExitCode": code, "appExitDiagnostics": said}})


def pod(end: str = "", container: str = "Error", exit_code: int = 137, **status: Any) -> Observation:
    """Of a trial whose pod has ended; ``end``: the keeper's last word, "" where it left none."""
    left = json.dumps({"reason": end, "exit_code": exit_code, "signal": 9}) if end else ""
    ended = pods.slim({"metadata": {"name": "p"}, "spec": {"nodeName": "n"}, "status": {
        "phase": "Failed", **status, "containerStatuses": [{"name": "trial", "state": {"terminated": {
            "exitCode": exit_code, "reason": container, "message": left}}}]}})
    return observation(Seen(Phase.FAILED, "It failed."), [ended], ended, "trial", None)


def disrupted(reason: str) -> Observation:
    return pod(contract.STOPPED, conditions=[{"type": "DisruptionTarget", "status": "True", "reason": reason}])


def job(reason: str) -> Seen:
    return JobKind().see({"status": {"conditions": [
        {"type": "Failed", "status": "True", "reason": reason, "message": "It is over."}]}}, "trial")


@pytest.mark.parametrize(("seen", "code", "platform"), [
    (lambda: slurm("OUT_OF_MEMORY"), "out_of_memory", "Slurm"),
    (lambda: openpai(-1200), "out_of_memory", "OpenPAI"),
    (lambda: openpai(137, OOM_WORDS), "out_of_memory", "OpenPAI"),
    (lambda: pod(container="OOMKilled"), "out_of_memory", "Kubernetes"),
    (lambda: pod(contract.EXITED, container="OOMKilled"), "out_of_memory", "Kubernetes"),
    (lambda: openpai(137), "platform_failed", "OpenPAI"),
    (pod, "platform_failed", "Kubernetes"),
    (lambda: openpai(-1000), "evicted", "OpenPAI"),
    (lambda: pod(reason="Evicted", message="Disk pressure."), "evicted", "Kubernetes"),
    (lambda: disrupted("EvictionByEvictionAPI"), "evicted", "Kubernetes"),
    (lambda: slurm("PREEMPTED"), "preempted", "Slurm"),
    (lambda: openpai(-1003), "preempted", "OpenPAI"),
    (lambda: disrupted("PreemptionByScheduler"), "preempted", "Kubernetes"),
    (lambda: slurm("NODE_FAIL"), "node_failed", "Slurm"),
    (lambda: observed_job({"status": "FAILED", "error_type": "JOB_SUPERVISOR_ACTOR_DIED"}), "node_failed", "Ray"),
    (lambda: observed_job({"status": "FAILED", "error_type": "RUNTIME_ENV_SETUP_FAILURE"}), "launch_failed", "Ray"),
    (lambda: observed_job({"status": "STOPPED"}), "stopped_on_platform", "Ray"),
    (lambda: observed_job({"status": "PENDING"}), "platform_queue", "Ray"),
    (lambda: openpai(-1001), "node_failed", "OpenPAI"),
    (lambda: disrupted("DeletionByPodGC"), "node_failed", "Kubernetes"),
    (lambda: slurm("TIMEOUT"), "platform_time_limit", "Slurm"),
    (lambda: slurm("DEADLINE"), "platform_time_limit", "Slurm"),
    (lambda: job("DeadlineExceeded"), "platform_time_limit", "Kubernetes"),
    (lambda: job("BackoffLimitExceeded"), "platform_failed", "Kubernetes"),
    (lambda: openpai(252), "never_scheduled", "OpenPAI"),
    (lambda: slurm("FAILED", reason="BadConstraints", exit_code=1), "never_scheduled", "Slurm"),
    (lambda: openpai(254), "image_missing", "OpenPAI"),
    (lambda: openpai(-1100), "launch_failed", "OpenPAI"),
    (lambda: slurm("LAUNCH_FAILED"), "launch_failed", "Slurm"),
    (lambda: pod(container="StartError"), "launch_failed", "Kubernetes"),
    (lambda: slurm("CANCELLED"), "stopped_on_platform", "Slurm"),
    (lambda: observed_row({"state": "STOPPED"}), "stopped_on_platform", "OpenPAI"),
    (lambda: observed_record({"jobStatus": "killed"}), "stopped_on_platform", "DLTS"),
    (lambda: observed_status("Canceled"), "stopped_on_platform", "Azure ML"),
    (lambda: slurm("REQUEUE_HOLD"), "platform_held", "Slurm"),
    (lambda: slurm("SUSPENDED"), "platform_held", "Slurm"),
    (lambda: observed_record({"jobStatus": "paused"}), "platform_held", "DLTS"),
    (lambda: observed_status("Paused"), "platform_held", "Azure ML"),
    (lambda: JobKind().see({"spec": {"suspend": True}}, "trial"), "platform_held", "Kubernetes"),
    (lambda: TFJobKind("v1").see({"spec": {"runPolicy": {"suspend": True}}}, "trial"), "platform_held", "Kubernetes"),
    (lambda: slurm("CONFIGURING"), "platform_prepares", "Slurm"),
    (lambda: observed_status("Provisioning"), "platform_prepares", "Azure ML"),
    (lambda: observed_status("Queued"), "platform_queue", "Azure ML"),
    (lambda: observed_record({"jobStatus": "queued", "jobStatusDetail": [{"message": "No GPU."}]}), "platform_queue",
     "DLTS"),
    (lambda: TFJobKind("v1").see({}, "trial"), "platform_queue", "Kubernetes"),
    (lambda: observed_record({"jobStatus": "unapproved", "jobStatusDetail": [{"message": "Over quota."}]}),
     "platform_quota", "DLTS"),
    (lambda: slurm("HIBERNATING"), "platform_state_unknown", "Slurm"),
    (lambda: observed_row({"state": "ASLEEP"}), "platform_state_unknown", "OpenPAI"),
    (lambda: observed_record({"jobStatus": "asleep"}), "platform_state_unknown", "DLTS"),
    (lambda: observed_status("Asleep"), "platform_state_unknown", "Azure ML"),
    (lambda: observed_status("NotResponding"), "machine_unreachable", "Azure ML"),
])
def test_what_platforms_say_has_codes_that_all_share(seen: Callable[[], Observation | Seen], code: str,
                                                     platform: str) -> None:
    message = seen().message or ""
    assert (code_of(message), arguments_of(message).get("platform")) == (code, platform)


@pytest.mark.parametrize("state", ["OUT_OF_MEMORY", "TIMEOUT"])
def test_what_slurm_knows_of_a_trial_that_ended_by_itself_gives_the_code(state: str) -> None:
    told = Observation(slurm(state).status, message="The trial was ended by SIGKILL.", ended_by_itself=True)
    found = with_last_word(slurm(state), told)
    assert code_of(found.message or "") == code_of(slurm(state).message or "")
    assert arguments_of(found.message or "")["said"] == f"{told.message} {slurm(state).message}"


def test_a_quota_of_a_namespace_is_one_whoever_tells_it() -> None:
    limits = [Limit("q", "requests.nvidia.com/gpu", "4", "4")]
    about = {"kind": "Job", "name": "j"}
    event = {"reason": "FailedCreate", "message": 'pods "p" is forbidden: exceeded quota: q, requested: pods=1'}
    assert [code_of(why_no_pod(limits, {"nvidia.com/gpu": "1"})), code_of(_sentence(event, about)),
            code_of(_sentence({"reason": "FailedMount", "message": "No such claim."}, about)),
            code_of(_sentence({"reason": "FailedCreate", "message": "No account."}, about))] == [
        "platform_quota", "platform_quota", "platform_prepares", "platform_waits"]


def test_words_of_a_keeper_that_are_no_cause_are_not_taken_for_one() -> None:
    end = {"reason": contract.STOPPED, "exit_code": 137, "signal": 9, "cause": {"code": "evicted"}}
    found = observation(Seen(Phase.FAILED, "It failed.", end=end), [], None, "trial", None)
    assert (found.cause, code_of(found.message or "")) == ("", "keeper_stopped")


# --- platforms as a whole --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("error", "code"), [
    (LogInRefused("No."), "log_in_refused"),
    (ApiAway("No."), "unreachable"),
    (MachineProblem("No."), "unreachable"),
    (MachineProblem("No.", "login"), "log_in_refused"),
    (MachineProblem("No.", "host_key"), "host_key_refused"),
    (MachineProblem("No.", "interpreter"), "machine_unusable"),
    (as_problem(LogInRefused("No."), "m"), "log_in_refused"),
    (as_problem(ValueError("No."), "m"), "platform_defect"),
    (error_of(ApiRefusal(401, "Unauthorized", "No."), "create the Job"), "log_in_refused"),
    (error_of(ApiRefusal(403, "Forbidden", 'User "u" cannot create jobs'), "create the Job"), "not_permitted"),
    (error_of(ApiRefusal(403, "Forbidden", 'jobs "j" is forbidden: exceeded quota: q'), "create the Job"),
     "platform_quota"),
    (error_of(ApiRefusal(429, "TooManyRequests", "No."), "create the Job"), "too_many_calls"),
    (error_of(ApiRefusal(500, "InternalError", "No."), "create the Job"), "server_fault"),
    (TemporaryError("A plug-in's own words."), OTHER),
])
def test_what_keeps_a_platform_from_working_has_a_code(error: TrainingServiceError, code: str) -> None:
    assert (code_of(error.reason), error.reason) == (code, str(error))


def test_nobody_at_an_address_is_told_from_something_else_there() -> None:
    client = RestClient("http://127.0.0.1:1/", "The platform")
    with pytest.raises(TemporaryError) as away:
        client.call("POST", "jobs")
    with pytest.raises(TemporaryError) as other:
        RestAnswer(200, "<html>", "text/html", "The platform").document()
    assert [code_of(away.value.reason), code_of(other.value.reason)] == ["unreachable", "another_server"]
