"""Runs the four commands a person has given, and understands what they print."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trainingservice.command.config import CommandClusterSettings
from trainingservice.errors import PermanentError, TemporaryError
from trainingservice.given_expression import GivenExpression
from trainingservice.polling.job_record import Observation
from trainingservice.reasons import Reason
from trainingservice.submit_host.host import NOT_FOUND, TIMEOUT, Finished, SubmitHost, Unanswered
from trainingservice.trial_job_status import TrialJobStatus
from trainingservice.words.shown_value import shown

#: So many refusals of one submission, while the scheduler answers questions, are taken for its last word.
REFUSALS = 3
#: A shell adds the number of the signal that ended a program.
_SIGNALED = 128


@dataclass(frozen=True)
class Listed:
    """What the scheduler said of the jobs that were asked about."""

    seen: dict[str, Observation]
    #: It vouches for those that it did not name: it does not have them.
    is_whole: bool
    #: What it complained about, where it does not.
    said: str


class Scheduler:
    """Any method may be called from any thread."""

    def __init__(self, settings: CommandClusterSettings, host: SubmitHost) -> None:
        self._settings, self.host = settings, host
        self._id_expression = GivenExpression(settings.id_pattern)
        self._refusals: dict[str, int] = {}

    @property
    def can_find(self) -> bool:
        return self._settings.find_command is not None

    def submit(self, name: str, script: str, variables: Mapping[str, str]) -> str:
        """The id of the new job. Raises NotRun and other TemporaryErrors (there is certainly no job), PermanentError
        (neither, and there will be none), Unanswered (there may be one)."""
        done = self._run(self._settings.submit_command, {"JOB_NAME": name, "JOB_SCRIPT": script, **variables})
        if done.status < 0 or done.status > _SIGNALED:
            raise Unanswered(f"submitCommand was killed (status {done.status}).")
        if done.status:
            self._refuse(name, done)
        self._refusals.pop(name, None)
        found = self._id_expression.first_in(done.output)
        if found is None:
            raise Unanswered(f"submitCommand succeeded, but its output contains no job id: {shown(done.said, 300)}.")
        return found

    def _refuse(self, name: str, done: Finished) -> None:
        sentence = f"submitCommand refused the job with status {done.status}: {done.said or 'it said nothing'}"
        if done.status == NOT_FOUND:
            raise PermanentError(f"{sentence}. Correct submitCommand, or the PATH on {self.host.name}.")
        self._refusals[name] = self._refusals.get(name, 0) + 1
        if self._refusals[name] >= REFUSALS and self.listed([]).is_whole:
            self._refusals.pop(name)
            raise PermanentError(f"{sentence}. It was tried {REFUSALS} times, and the scheduler answers other "
                                 "requests, so the job itself is refused. Correct the options of the experiment.")
        raise TemporaryError(f"{sentence}. It is tried again.")

    def listed(self, ids: Sequence[str], timeout: float = TIMEOUT) -> Listed:
        """Ask about jobs. Raises NotRun, Unanswered."""
        done = self._run(self._settings.status_command, {"JOB_IDS": " ".join(ids)}, timeout)
        seen: dict[str, Observation] = {}
        for line in done.output.splitlines():
            words = line.split()
            if len(words) > 1:
                seen[words[0]] = self._observed(words[1], " ".join(words[2:]))
        return Listed({job_id: seen[job_id] for job_id in ids if job_id in seen}, done.status == 0, done.said)

    def _observed(self, state: str, reason: str) -> Observation:
        if state in self._settings.running_states:
            return Observation(TrialJobStatus.RUNNING)
        if state in self._settings.ended_states:
            said = f"The scheduler reports that the job has ended ({state}). {reason}".rstrip()
            return Observation(TrialJobStatus.FAILED, message=_of_scheduler("end_unknown", said, state))
        if state in self._settings.waiting_states:
            return Observation(TrialJobStatus.WAITING, message=(
                _of_scheduler("platform_queue", reason[:300], state) if reason else ""))
        return Observation(TrialJobStatus.UNKNOWN, message=_of_scheduler(
            "platform_state_unknown", f"The scheduler reports the state {shown(state)}, which is in none of "
                                      "waitingStates, "
                                      f"runningStates and endedStates. {reason[:300]}".rstrip(), state))

    def cancel(self, job_id: str) -> None:
        """Raises TemporaryError where it refuses."""
        done = self._run(self._settings.cancel_command, {"JOB_ID": job_id})
        if done.status:
            raise TemporaryError(f"cancelCommand ended with status {done.status}: {done.said or 'it said nothing'}.")

    def find(self, name: str) -> list[str]:
        """The ids of jobs of this name. Raises TemporaryError where that cannot be told."""
        assert self._settings.find_command is not None
        done = self._run(self._settings.find_command, {"JOB_NAME": name})
        if done.status:
            raise TemporaryError(f"findCommand ended with status {done.status}: {done.said or 'it said nothing'}.")
        return done.output.split()

    def _run(self, command: str, variables: Mapping[str, str], timeout: float = TIMEOUT) -> Finished:
        exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in sorted(variables.items()))
        return self.host.run(f"{exports}{command}\n", timeout=timeout)


def _of_scheduler(code: str, said: str, state: str) -> Reason:
    return Reason(code, said=said, platform="command", cause=state)
