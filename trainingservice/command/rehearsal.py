"""Tries the commands that can be tried without a job, and the shared folder."""

from __future__ import annotations

from collections.abc import Iterator

from trainingservice.base import RehearsalFinding
from trainingservice.command.scheduler import Scheduler
from trainingservice.errors import TemporaryError
from trainingservice.shared_folder.folder import SharedFolder
from trainingservice.shared_folder.storage_rehearsal import rehearse_storage
from trainingservice.submit_host.host import TIMEOUT

#: Seconds for one command before a launch.
QUICK = 2.0


def rehearse_scheduler(scheduler: Scheduler, storage: SharedFolder, *, quick: bool) -> list[RehearsalFinding]:
    """All findings, good ones too."""
    findings: list[RehearsalFinding] = []
    try:
        findings += _commands(scheduler, QUICK if quick else TIMEOUT)
        findings += rehearse_storage(storage)
    except TemporaryError as error:
        findings.append(RehearsalFinding("connection", False, str(error), temporary=True))
    return findings


def _commands(scheduler: Scheduler, timeout: float) -> Iterator[RehearsalFinding]:
    listed = scheduler.listed([], timeout)
    if listed.is_whole:
        yield RehearsalFinding("connection", True, f"The scheduler answers on {scheduler.host.name}.")
    else:
        yield RehearsalFinding("connection", False, f"statusCommand fails on {scheduler.host.name} for no jobs at all "
                                                    f"(empty $JOB_IDS): {listed.said or 'it said nothing'}. Correct "
                                                    "it, or see that the scheduler runs.")
        return
    if scheduler.can_find:
        found = scheduler.find("nniweb-no-such")
        if found:
            yield RehearsalFinding("find", False, f"findCommand finds {found[0]!r} for a name that no job has; it must "
                                                  "print nothing then.")
        else:
            yield RehearsalFinding("find", True, "Jobs can be found by their names.")
    else:
        yield RehearsalFinding("find", False, "There is no findCommand: a trial fails whose submission is not answered "
                                              "(the server is killed, the connection breaks).", temporary=True)
