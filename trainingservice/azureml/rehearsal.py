"""Tries what a job will need of the workspace, with reading questions only, and says what is wrong in sentences."""

from __future__ import annotations

from collections.abc import Iterator

from trainingservice.azureml.workspace import Workspace
from trainingservice.base import RehearsalFinding
from trainingservice.errors import PermanentError, TrainingServiceError
from trainingservice.rest.rest_client import LogInRefused


def rehearse_workspace(workspace: Workspace, compute: str) -> list[RehearsalFinding]:
    """All findings, good ones too."""
    findings: list[RehearsalFinding] = []
    try:
        for finding in _workspace(workspace, compute):
            findings.append(finding)  # noqa: PERF402  those before an error count
    except LogInRefused as error:
        findings.append(RehearsalFinding("rights", False, str(error)))
    except PermanentError as error:
        findings.append(RehearsalFinding("connection", False, str(error)))
    except TrainingServiceError as error:
        findings.append(RehearsalFinding("connection", False, str(error), temporary=True))
    return findings


def _workspace(workspace: Workspace, compute: str) -> Iterator[RehearsalFinding]:
    facts = workspace.facts()
    yield RehearsalFinding("connection", True, f"{workspace.where} answers"
                                               f"{' from ' + facts['location'] if facts['location'] else ''}.")
    problem = workspace.compute_problem(compute)
    yield RehearsalFinding("compute", not problem, problem or f"Jobs run on the compute {compute}.")
