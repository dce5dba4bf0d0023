"""How a trial ends: what is decided about it, and by whose word.

1. The keeper's ``ended`` entry decides: ``told_by_keeper``. It knows the exit code.
2. The platform's word is an observation, kept in ``Attempt.observed_end``. Where no keeper's entry arrives within the
   drain time it decides: ``observed_by_platform``. What it knows of the cause is told beside the keeper's word:
   ``with_cause``.
3. A keeper that something outside of this server stopped does not know what it was: somebody may have deleted its job,
   or suspended it, or the cluster took the machine. Where the platform may suspend jobs (``platform_decides``) the
   keeper's word is held in ``Attempt.observed_end`` until the platform says what became of the job, or for the drain
   time: ``held``, ``completed``. So is that of a trial with several nodes which did not succeed: its keeper is the one
   of rank 0, and the platform knows whether another rank failed first.
4. Where a person, an assessor or a limit wanted the trial stopped, the trial's target names the status, except of a
   trial that ended by itself before the stop reached it.

5. A trial that was to be frozen waits for its next attempt, whatever became of this one, except where it ended by
   itself: then its end has the status WAITING.

``transitions.end_attempt`` writes the end. There an experiment's ``retry`` may turn it into another attempt.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from nniweb.experiments.lifecycle.platform_times import times_of
from nniweb.experiments.lifecycle.reason_columns import from_document, read
from nniweb.experiments.lifecycle.retries import REFUSED
from nniweb.experiments.models import Attempt
from nniweb.experiments.models.experiment import ExperimentStatus
from nniweb.experiments.models.experiment_cluster import options_on
from nniweb.experiments.models.trial import RESTS, STOPS, TrialTarget
from trainingservice.errors import TrainingServiceError
from trainingservice.keeper.keeper_exit import classify_exit
from trainingservice.platforms import load_platform
from trainingservice.reasons import OTHER, PLATFORM, Reason, arguments_of, as_document, code_of, tells_of, with_end
from trainingservice.trial_job import TrialJobDetail
from trainingservice.trial_job_status import TrialJobStatus
from trialkeeper import contract

#: Key of ``Attempt.observed_end``: the keeper said so, and the platform has not spoken yet.
_HELD = "held"
#: Key of ``Attempt.observed_end``: no keeper has told the end, so its last output may not be here.
UNTOLD = "untold"
#: ``TrialEnd.reason`` of an end that the platform told.
_BY_PLATFORM = "platform"
#: Ends that a stop may have caused.
_STOPPED_OR_FAILED = (TrialJobStatus.FAILED, TrialJobStatus.SYS_CANCELED, TrialJobStatus.USER_CANCELED,
                      TrialJobStatus.EARLY_STOPPED)


@dataclass(frozen=True)
class TrialEnd:
    """``reason``: one of contract.END_REASONS, or what the server has in their place; kept as ``Attempt.end_reason``.
    ``duration`` in seconds, None where nobody measured it; ``by_keeper``: whether the keeper did.
    """

    status: TrialJobStatus
    message: str
    reason: str
    exit_code: int | None = None
    duration: float | None = None
    by_keeper: bool = False


def stop_reason(target: str, wanted_because: str) -> str:
    """Why a trial that was wanted stopped has ended: the reason that was given, else what the target says."""
    return wanted_because or Reason({
        TrialTarget.USER_CANCELED.value: "canceled",
        TrialTarget.EARLY_STOPPED.value: "stopped_early",
        TrialTarget.SYS_CANCELED.value: "canceled_by_platform"}[target])


def frozen(target: str, wanted_because: str, reason: str) -> TrialEnd:
    """The end of an attempt whose trial goes on later; it may be wanted running again already."""
    return TrialEnd(TrialJobStatus.WAITING, rest_reason(target, wanted_because) if target in RESTS
                    else Reason("free_slot"), reason)


def why_it_waits(experiment_status: str) -> Reason:
    """Of a trial without an attempt that is wanted running."""
    if experiment_status == ExperimentStatus.PAUSED:
        return Reason("experiment_held", status=str(experiment_status))
    return Reason("free_slot")


def rest_reason(target: str, wanted_because: str) -> str:
    """Why a trial waits that is to go on later: the reason that was given, else what the target says."""
    return wanted_because or Reason({
        TrialTarget.FROZEN.value: "frozen", TrialTarget.HELD.value: "frozen_with_experiment",
        TrialTarget.PREEMPTED.value: "gave_way"}[target])


def stopped_as_wanted(target: str, wanted_because: str, reason: str) -> TrialEnd:
    """The end of an attempt of which nothing runs and nothing is to come."""
    if target in RESTS:
        return frozen(target, wanted_because, reason)
    return TrialEnd(TrialJobStatus(target), stop_reason(target, wanted_because), reason)


def told_by_keeper(entry: Mapping[str, Any], target: str, wanted_because: str = "", last_words: str = "", *,
                   has_result: bool = False, was_frozen: bool = False) -> TrialEnd:
    """What a keeper's ``ended`` entry means.

    ``target``: what was wanted of the trial, and ``wanted_because`` why. ``last_words``: the last line it wrote to
    stderr. ``has_result``: whether nothing was left to do for it. ``was_frozen``: its job was removed so that it can go
    on later, whatever is wanted of the trial by now. A trial that ended by itself is judged by its exit
    even if a stop was on its way. One that was stopped is judged by who wanted it stopped, whatever exit code it made
    of the signal.
    """
    reason, exit_code = entry["reason"], entry["exit_code"]
    if reason == contract.FROZEN and exit_code == 0 and has_result:
        reason = contract.EXITED  # it was about to end when it was told to
    if target in STOPS and reason in (contract.STOPPED, contract.NOT_STARTED, contract.LOST, contract.FROZEN):
        status, message = TrialJobStatus(target), stop_reason(target, wanted_because)
    elif reason == contract.FROZEN or (target in RESTS or was_frozen) and reason in (contract.STOPPED, contract.LOST):
        return replace(frozen(target, wanted_because, contract.FROZEN), exit_code=exit_code,
                       duration=entry["duration"], by_keeper=True)
    else:
        status, message = classify_exit(reason, exit_code, entry["signal"], entry["message"], last_words,
                                        entry.get("out_of_memory"))
    return TrialEnd(status, message, reason, exit_code, entry["duration"], by_keeper=True)


def observed_by_platform(observed: Mapping[str, Any], target: str, wanted_because: str = "",
                         was_frozen: bool = False) -> TrialEnd:
    """What ``Attempt.observed_end`` means where no keeper's word is to come. The rest as for ``told_by_keeper``."""
    status = TrialJobStatus(observed.get("status", TrialJobStatus.FAILED))
    message = _message(observed)
    if (target in RESTS or was_frozen and target not in STOPS) and status in _STOPPED_OR_FAILED:
        return replace(frozen(target, wanted_because, contract.FROZEN), exit_code=observed.get("exit_code"),
                       duration=observed.get("duration"), by_keeper=observed.get("duration") is not None)
    if target in STOPS and status in _STOPPED_OR_FAILED:
        status, message = TrialJobStatus(target), stop_reason(target, wanted_because)
    return TrialEnd(status, message, observed.get("reason") or _BY_PLATFORM, observed.get("exit_code"),
                    observed.get("duration"), by_keeper=observed.get("duration") is not None)


def told_duration(observed: Mapping[str, Any] | None) -> float | None:
    """What a keeper has said of how long it ran, of ``Attempt.observed_end``; None where it has said nothing."""
    return (observed or {}).get("duration")


def with_platforms_word(told: TrialEnd, observed: Mapping[str, Any], target: str, told_anew: bool) -> TrialEnd:
    """A keeper's end with what the platform has said of it before; ``observed`` is empty where it said nothing.

    ``told_anew``: its status and message are the platform's, as ``platform_decides`` says.
    """
    if observed and told_anew:
        told = replace(told, status=TrialJobStatus(observed["status"]), message=_message(observed) or told.message,
                       reason=_reason_of_rank(observed) or told.reason)
    cause = from_document(observed.get("cause") or "", observed.get("because") or {})
    return replace(told, message=with_cause(told.status, told.message, target, cause))


def with_cause(status: TrialJobStatus, message: str, target: str, cause: str) -> str:
    """The message of an end with what the platform knows of why it came ("" for nothing), once.

    Of ends that nobody wanted: what succeeded needs no cause, and a stop has its reason.
    """
    unwanted = status is TrialJobStatus.FAILED or (status is TrialJobStatus.SYS_CANCELED
                                                   and target == TrialTarget.RUN)
    if not cause or not unwanted or tells_of(message, cause):
        return message
    return with_end(cause, message)


# --- Attempt.observed_end ------------------------------------------------------------------------------------


def observation(detail: TrialJobDetail) -> dict[str, Any]:
    """The platform's word, as it is kept."""
    return {**_kept_message(detail.message, PLATFORM), "status": detail.status.value, "exit_code": detail.exit_code,
            "cause": detail.cause, "because": as_document(detail.cause, PLATFORM), **times_of(detail),
            **({"reason": REFUSED} if detail.refused else {})}


def held(told: TrialEnd) -> dict[str, Any]:
    """The keeper's word as it is kept until the platform has spoken."""
    return {**_kept_message(told.message), _HELD: True, "status": told.status.value, "exit_code": told.exit_code,
            "reason": told.reason, "duration": told.duration, "cause": ""}


def is_held(attempt: Attempt) -> bool:
    return bool((attempt.observed_end or {}).get(_HELD))


def release(attempt_pk: int) -> None:
    """A held end was none: the trial runs again."""
    Attempt.objects.filter(pk=attempt_pk, **{f"observed_end__{_HELD}": True}).exclude(
        stage=Attempt.Stage.ENDED).update(observed_end=None, observed_end_at=None)


def completed(held: Mapping[str, Any], observed: Mapping[str, Any]) -> dict[str, Any]:
    """A held end with the platform's word: its status and message, and what the keeper alone knows."""
    why = observed if observed["message"] else held
    return {**observed, "message": why["message"], "code": why.get("code", ""), "arguments": why.get("arguments", {}),
            "exit_code": held["exit_code"], "reason": _reason_of_rank(why) or held["reason"],
            "duration": held["duration"]}


def _reason_of_rank(observed: Mapping[str, Any]) -> str:
    """``TrialEnd.reason`` where the platform names the rank that failed first; "" where it does not."""
    if observed.get("code") != "rank_failed":
        return ""
    return observed.get("arguments", {}).get("ended") or _BY_PLATFORM


def platform_decides(told: TrialEnd, target: str, trial_pk: int) -> bool:
    """Whether the platform alone can say what stopped the keeper; until it has, the keeper's end is held."""
    if target != TrialTarget.RUN or told.status not in (TrialJobStatus.FAILED, TrialJobStatus.SYS_CANCELED):
        return False
    attempt = Attempt.objects.filter(trial=trial_pk).select_related("cluster", "trial__experiment__cluster").only(
        "cluster__platform", "trial__experiment__cluster__platform", "trial__experiment__several_clusters",
        "trial__experiment__trial_options").latest("number")
    options = options_on(attempt.trial.experiment, attempt.cluster_id)
    if int(options.get("nodes") or 1) > 1:
        return True
    if told.reason != contract.STOPPED:
        return False
    try:
        return load_platform(attempt.runs_on.platform).suspends_jobs
    except TrainingServiceError:  # a library is missing here
        return False


def _kept_message(message: str, whose: str = OTHER) -> dict[str, Any]:
    return {"message": message, "code": code_of(message, whose), "arguments": arguments_of(message)}


def _message(observed: Mapping[str, Any]) -> str:
    return read(observed.get("message") or "", observed.get("code", ""), observed.get("arguments", {}))
