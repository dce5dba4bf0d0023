"""How a trial ended, in one status and one reason."""

from nniweb.experiments.models.trial import TrialTarget
from trainingservice.reasons import Reason, tells_of, with_end
from trainingservice.trial_job_status import TrialJobStatus
from trialkeeper import contract


def stop_reason(target: str, wanted_because: str) -> str:
    """Why a trial that was wanted stopped has ended: the reason that was given, else what the target says."""
    return wanted_because or Reason({
        TrialTarget.USER_CANCELED.value: "canceled",
        TrialTarget.EARLY_STOPPED.value: "stopped_early",
        TrialTarget.SYS_CANCELED.value: "canceled_by_platform"}[target])


def classify_end(reason: str, exit_code: int | None, signal: int | None, message: str, target: str,
            wanted_because: str = "", last_words: str = "") -> tuple[TrialJobStatus, str]:
    """Judge a keeper's ``ended`` entry.

    ``reason`` is one of contract.END_REASONS, ``target`` what was wanted of the trial and
    ``wanted_because`` why, ``last_words`` the last line it wrote to stderr. A trial that ended by
    itself is judged by its exit even if a stop was on its way; one that was stopped is judged by
    who wanted it stopped, whatever exit code it made of the signal.
    """
    wanted_end = target != TrialTarget.RUN
    if reason == contract.TIME_LIMIT:
        return TrialJobStatus.EARLY_STOPPED, message or Reason("time_limit")
    if reason == contract.STOPPED or (wanted_end and reason in (contract.NOT_STARTED, contract.LOST)):
        if wanted_end:
            return TrialJobStatus(target), stop_reason(target, wanted_because)
        return TrialJobStatus.SYS_CANCELED, message or Reason("keeper_stopped")
    if reason == contract.EXITED and exit_code == 0:
        return TrialJobStatus.SUCCEEDED, ""
    if reason in (contract.NOT_STARTED, contract.LOST):
        return TrialJobStatus.FAILED, Reason("not_started", said=message, last_words=last_words)
    return TrialJobStatus.FAILED, _why(exit_code, signal, last_words)


def with_cause(status: TrialJobStatus, message: str, target: str, cause: str) -> str:
    """The message of an end with what the platform knows of why it came ("" for nothing), once.

    Of ends that nobody wanted: what succeeded needs no cause, and a stop has its reason.
    """
    unwanted = status is TrialJobStatus.FAILED or (status is TrialJobStatus.SYS_CANCELED
                                                   and target == TrialTarget.RUN)
    if not cause or not unwanted or tells_of(message, cause):
        return message
    return with_end(cause, message)


def _why(exit_code: int | None, signal: int | None, last_words: str) -> Reason:
    if signal is None and exit_code is not None and exit_code > 128:
        signal = exit_code - 128  # a shell reports a signalled command this way
    if signal is not None:
        return Reason("signal", signal=signal, last_words=last_words)
    if exit_code in (126, 127):
        return Reason("not_executable" if exit_code == 126 else "command_not_found", last_words=last_words)
    return Reason("exit_code", exit_code=exit_code, last_words=last_words)
