"""How a trial ended, in one status and one sentence."""

import pytest

from nniweb.experiments.lifecycle.trial_end import (
    completed,
    held,
    observed_by_platform,
    platform_decides,
    told_by_keeper,
    with_cause,
    with_platforms_word,
)
from nniweb.experiments.models import Experiment
from trainingservice.reasons import Reason, as_document
from trainingservice.trial_job_status import TrialJobStatus as S


def ended(reason, exit_code=None, signal=None, message="") -> dict:
    return {"reason": reason, "exit_code": exit_code, "signal": signal, "message": message, "duration": 1.0}


@pytest.mark.parametrize(("reason", "exit_code", "signal", "target", "status"), [
    ("exited", 0, None, "RUN", S.SUCCEEDED),
    ("exited", 1, None, "RUN", S.FAILED),
    ("exited", None, 9, "RUN", S.FAILED),
    ("exited", 0, None, "USER_CANCELED", S.SUCCEEDED),  # it was faster than the stop
    ("exited", 1, None, "USER_CANCELED", S.FAILED),
    ("stopped", 0, None, "USER_CANCELED", S.USER_CANCELED),  # it traps TERM and exits with 0
    ("stopped", None, 15, "EARLY_STOPPED", S.EARLY_STOPPED),
    ("stopped", None, 15, "RUN", S.SYS_CANCELED),  # nobody here wanted it
    ("time_limit", None, 15, "RUN", S.EARLY_STOPPED),
    ("not_started", None, None, "RUN", S.FAILED),
    ("not_started", None, None, "USER_CANCELED", S.USER_CANCELED),
    ("lost", None, None, "RUN", S.FAILED),
    ("lost", None, None, "USER_CANCELED", S.USER_CANCELED),
])
def test_intent_and_exit_decide_together(reason, exit_code, signal, target, status) -> None:
    end = told_by_keeper(ended(reason, exit_code, signal), target)
    assert end.status is status
    assert end.message or status is S.SUCCEEDED, "every other end says why"


@pytest.mark.parametrize(("exit_code", "signal", "words"), [
    (3, None, "exit code 3"), (127, None, "not found"), (126, None, "executable"), (137, None, "memory"),
    (None, 9, "SIGKILL"), (139, None, "SIGSEGV"), (None, 250, "signal 250")])
def test_a_failure_says_why(exit_code, signal, words) -> None:
    assert words in told_by_keeper(ended("exited", exit_code, signal), "RUN").message


def test_a_stopped_trial_says_why_it_was_wanted_stopped() -> None:
    because = "It is worse than the others."
    assert told_by_keeper(ended("stopped", 143), "EARLY_STOPPED", because).message == because
    observed = {"status": "SYS_CANCELED", "message": "Somebody deleted the job."}
    assert observed_by_platform(observed, "EARLY_STOPPED", because).message == because


def test_the_last_words_are_told() -> None:
    assert told_by_keeper(ended("exited", 1), "RUN", last_words="KeyError: 'x'").message.endswith("KeyError: 'x'")


@pytest.mark.parametrize(("status", "target", "is_told"), [
    (S.FAILED, "RUN", True), (S.FAILED, "USER_CANCELED", True), (S.SYS_CANCELED, "RUN", True),
    (S.SYS_CANCELED, "SYS_CANCELED", False), (S.USER_CANCELED, "USER_CANCELED", False), (S.SUCCEEDED, "RUN", False),
    (S.EARLY_STOPPED, "RUN", False)])
def test_the_platforms_cause_is_told_of_ends_that_nobody_wanted(status, target, is_told) -> None:
    assert with_cause(status, "It ended.", target, "OOMKilled.") == ("OOMKilled. It ended." if is_told else "It ended.")


def test_the_platforms_cause_is_told_once() -> None:
    assert with_cause(S.FAILED, "OOMKilled. It ended.", "RUN", "OOMKilled.") == "OOMKilled. It ended."


def rank_failed(ended: str) -> dict:
    reason = Reason("rank_failed", rank=2, machine="cyd", said="It ended.", ended=ended)
    return {"status": "FAILED", "message": str(reason), "code": reason.code, "arguments": reason.arguments,
            "exit_code": None, "cause": str(reason), "because": as_document(reason)}


@pytest.mark.parametrize(("of_rank", "kept"), [("exited", "exited"), ("lost", "lost"), ("", "platform")])
def test_an_end_of_several_ranks_is_that_of_the_rank_which_failed_first(of_rank: str, kept: str) -> None:
    """The keeper of rank 0 only knows that it was stopped."""
    told = told_by_keeper(ended("stopped", 143), "RUN")
    whole = completed(held(told), rank_failed(of_rank))
    assert (whole["status"], whole["reason"], whole["exit_code"]) == ("FAILED", kept, 143)
    end = with_platforms_word(told, rank_failed(of_rank), "RUN", told_anew=True)
    assert (end.status, end.reason) == (S.FAILED, kept)
    assert end.message == "Rank 2 on machine cyd failed, which ended all ranks of the trial. It ended."


@pytest.mark.django_db
@pytest.mark.parametrize(("options", "reason", "exit_code", "decides"), [
    ({"nodes": 3}, "stopped", 143, True), ({"nodes": 3}, "exited", 1, True), ({"nodes": 3}, "lost", None, True),
    ({"nodes": 3}, "exited", 0, False), ({"nodes": 3}, "time_limit", 143, False), ({"nodes": 1}, "exited", 1, False),
    ({}, "stopped", 143, False)])
def test_the_platform_is_asked_which_rank_failed(make_attempt, options, reason, exit_code, decides) -> None:
    attempt = make_attempt()
    Experiment.objects.filter(pk=attempt.trial.experiment_id).update(trial_options=options)
    told = told_by_keeper(ended(reason, exit_code), "RUN")
    assert platform_decides(told, "RUN", attempt.trial_id) is decides
    assert platform_decides(told, "USER_CANCELED", attempt.trial_id) is False
