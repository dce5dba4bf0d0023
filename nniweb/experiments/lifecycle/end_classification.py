"""How a trial ended, in one status and one sentence."""

import signal as signals

from nniweb.experiments.models.trial import TrialTarget
from trainingservice.trial_job_status import TrialJobStatus
from trialkeeper import contract


def stop_sentence(target: str, wanted_because: str) -> str:
    """Why a trial that was wanted stopped has ended: the reason that was given, else what the target says."""
    return wanted_because or {
        TrialTarget.USER_CANCELED.value: "Canceled by a person.",
        TrialTarget.EARLY_STOPPED.value: "Stopped early.",
        TrialTarget.SYS_CANCELED.value: "Canceled by the platform."}[target]


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
        return TrialJobStatus.EARLY_STOPPED, message or "It ran longer than maxTrialDuration allows."
    if reason == contract.STOPPED or (wanted_end and reason in (contract.NOT_STARTED, contract.LOST)):
        if wanted_end:
            return TrialJobStatus(target), stop_sentence(target, wanted_because)
        return TrialJobStatus.SYS_CANCELED, message or "Something outside of this server stopped its keeper (SIGTERM)."
    if reason == contract.EXITED and exit_code == 0:
        return TrialJobStatus.SUCCEEDED, ""
    said = f" Its last words: {last_words}" if last_words else ""
    if reason in (contract.NOT_STARTED, contract.LOST):
        return TrialJobStatus.FAILED, (message or "It could not be started.") + said
    return TrialJobStatus.FAILED, _why(exit_code, signal) + said


def with_cause(status: TrialJobStatus, message: str, target: str, cause: str) -> str:
    """The message of an end with what the platform knows of why it came ("" for nothing), once.

    Of ends that nobody wanted: what succeeded needs no cause, and a stop has its reason.
    """
    unwanted = status is TrialJobStatus.FAILED or (status is TrialJobStatus.SYS_CANCELED
                                                   and target == TrialTarget.RUN)
    if not cause or cause in message or not unwanted:
        return message
    return f"{cause} {message}".rstrip()


def _why(exit_code: int | None, signal: int | None) -> str:
    if signal is None and exit_code is not None and exit_code > 128:
        signal = exit_code - 128  # a shell reports a signalled command this way
    if signal is not None:
        try:
            name = signals.Signals(signal).name
        except ValueError:
            name = f"signal {signal}"
        hint = " Often this means that the machine ran out of memory." if name == "SIGKILL" else ""
        return f"The command was ended by {name}.{hint}"
    if exit_code == 127:
        return "The command was not found (exit code 127): is it installed on the trial machine and on its PATH?"
    if exit_code == 126:
        return "The command could not be executed (exit code 126): is the file marked as executable?"
    return f"The command ended with exit code {exit_code}."
