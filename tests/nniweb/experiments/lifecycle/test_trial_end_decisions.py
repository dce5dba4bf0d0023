"""How a trial ended, in one status and one sentence."""

import pytest

from nniweb.experiments.lifecycle.trial_end import observed_by_platform, told_by_keeper, with_cause
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
