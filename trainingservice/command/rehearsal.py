"""Tries the commands that can be tried without a job, and the shared folder."""

from __future__ import annotations

from collections.abc import Iterator

from trainingservice.base import RehearsalFinding
from trainingservice.command.scheduler import Scheduler
from trainingservice.errors import TemporaryError
from trainingservice.shared_folder.folder import SharedFolder
from trainingservice.shared_folder.storage_rehearsal import rehearse_storage
from trainingservice.submit_host.host import TIMEOUT
from trainingservice.words.shown_value import shown

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
                                                    f"(empty $JOB_IDS): {listed.said or 'it printed nothing'}. Correct "
                                                    "it, or check that the scheduler runs.")
        return
    if scheduler.can_find:
        found = scheduler.find("nniweb-no-such")
        if found:
            yield RehearsalFinding("find", False, f"findCommand finds {shown(found[0])} for a name that no job has. "
                                                  "It must "
                                                  "print nothing in this case.")
        else:
            yield RehearsalFinding("find", True, "Jobs can be found by their names.")
    else:
        yield RehearsalFinding("find", False, "There is no findCommand, so a trial fails if its submission is not "
                                              "answered (because the server is killed or the connection "
                                              "breaks).", temporary=True)
