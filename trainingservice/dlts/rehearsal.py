"""Tries what a job will need of the cluster, with reading questions only, and says what is wrong in sentences."""

from __future__ import annotations

from collections.abc import Iterator

from trainingservice.base import RehearsalFinding
from trainingservice.dlts.api import DltsApi
from trainingservice.dlts.config import DltsClusterSettings
from trainingservice.errors import PermanentError, TrainingServiceError
from trainingservice.rest.rest_client import QUICK_TIMEOUT, TIMEOUT, LogInRefused
from trainingservice.shared_folder.folder import SharedFolder
from trainingservice.shared_folder.storage_rehearsal import rehearse_storage
from trainingservice.words.shown_value import shown


def rehearse_cluster(api: DltsApi, settings: DltsClusterSettings, storage: SharedFolder, *,
                     quick: bool) -> list[RehearsalFinding]:
    """All findings, good ones too."""
    findings: list[RehearsalFinding] = []
    try:
        findings.extend(_cluster(api, settings, QUICK_TIMEOUT if quick else TIMEOUT))
    except LogInRefused as error:
        findings.append(RehearsalFinding("rights", False, str(error)))
    except PermanentError as error:
        findings.append(RehearsalFinding("queue", False, str(error)))
    except TrainingServiceError as error:
        findings.append(RehearsalFinding("connection", False, str(error), temporary=True))
    return [*findings, *rehearse_storage(storage)]


def _cluster(api: DltsApi, settings: DltsClusterSettings, timeout: tuple[float, float]) -> Iterator[RehearsalFinding]:
    api.check_log_in(timeout)
    yield RehearsalFinding("connection", True, f"{api.where} answers and accepts the account {settings.email}.")
    team = api.team(timeout)
    clusters = [str(entry.get("id")) for entry in (team or {}).get("clusters") or []]
    if team is None:
        yield RehearsalFinding("queue", False, f"{settings.email} is in no team {shown(settings.team)}, or its "
                                               "cluster does "
                                               "not answer; correct team, or try again.")
    elif settings.cluster != ".default" and settings.cluster not in clusters:
        yield RehearsalFinding("queue", False, f"Team {settings.team} has no cluster {shown(settings.cluster)}; it "
                                               "has: "
                                               f"{', '.join(clusters) or 'none'}. Correct cluster.")
    else:
        api.check_database()
        yield RehearsalFinding("queue", True, f"Jobs go to team {settings.team} on cluster {api.cluster}.")
