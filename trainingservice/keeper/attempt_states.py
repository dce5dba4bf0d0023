"""What the state of an attempt's folder, as an agent tells it, means for the job; and how such folders are removed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace

from trainingservice.errors import TemporaryError
from trainingservice.keeper.agent_client import AgentClient, AgentError, FolderState
from trainingservice.keeper.keeper_exit import observed_exit, read_text
from trainingservice.polling.job_record import Observation
from trainingservice.reasons import Reason
from trainingservice.trial_job import TrialJobDetail
from trainingservice.trial_job_status import TrialJobStatus

#: A keeper that still reports is given this long to end before its folder is removed, in seconds.
REMOVE_DEADLINE = 20.0


def observed_state(job: TrialJobDetail, state: FolderState, machine: str) -> Observation | None:
    """The observation, None where there is no attempt."""
    kind = state["state"]
    exit_document = state.get("exit")
    seen: Observation | None
    if kind == "absent":
        return None
    if kind == "ended" and isinstance(exit_document, dict):
        seen = observed_exit(exit_document)
    elif kind == "canceled":
        seen = Observation(TrialJobStatus.SYS_CANCELED, message=Reason("canceled_before_start"))
    elif kind == "running" or job.status is TrialJobStatus.RUNNING:  # an answer may be older than an event
        seen = Observation(TrialJobStatus.RUNNING)
    else:
        waits_for = read_text(state.get("waits_for"))
        seen = Observation(TrialJobStatus.WAITING, message=(
            Reason("machine_short", machine=machine, said=waits_for) if waits_for else None))
    return replace(seen, working_directory=read_text(state.get("working_directory")), machine=machine)


def remove_folders(client: AgentClient, folders: Iterable[str], *,
                   monotonic: Callable[[], float] = time.monotonic) -> None:
    """Remove attempts' folders; keepers are ended first, all at the same time. Raises TemporaryError."""
    remaining = list(folders)
    deadline = monotonic() + REMOVE_DEADLINE
    told_to_stop: set[str] = set()
    refusal = ""
    while remaining:
        folders, remaining = remaining, []
        for folder in folders:
            try:
                client.remove(folder, undelivered=True)
            except AgentError as error:
                refusal = str(error)
                remaining.append(folder)
                if folder not in told_to_stop:
                    told_to_stop.add(folder)
                    client.stop(folder)  # in case its trial still runs, unknown to us
        if remaining and monotonic() > deadline:
            raise TemporaryError(f"{len(remaining)} folder(s) cannot be removed yet: {refusal}", retry_after=30)
        if remaining:
            time.sleep(0.1)
