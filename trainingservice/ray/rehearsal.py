"""Tries what a job will need of the cluster, with reading questions only, and says what is wrong in sentences."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from trainingservice.base import RehearsalFinding
from trainingservice.errors import PermanentError, TrainingServiceError
from trainingservice.ray.api import LEAST_RAY, LEAST_VERSION, RayApi
from trainingservice.ray.config import RayTrialOptions
from trainingservice.ray.job_request import asked_resources
from trainingservice.rest.rest_client import QUICK_TIMEOUT, TIMEOUT, LogInRefused
from trainingservice.words.byte_size import byte_size
from trainingservice.words.shown_value import shown
from trialkeeper.whole_number import whole_number

#: An id that no job has: asking for it needs a log-in and gives nothing away.
_NO_JOB = "nniweb-rehearsal"


def rehearse_cluster(api: RayApi, options: RayTrialOptions | None, *, quick: bool) -> list[RehearsalFinding]:
    """All findings, good ones too. ``options``: of the experiment that is to be launched."""
    findings: list[RehearsalFinding] = []
    try:
        for finding in _cluster(api, options, QUICK_TIMEOUT if quick else TIMEOUT):
            findings.append(finding)  # noqa: PERF402  those before an error count
    except LogInRefused as error:
        findings.append(RehearsalFinding("rights", False, str(error)))
    except PermanentError as error:
        findings.append(RehearsalFinding("connection", False, str(error)))
    except TrainingServiceError as error:
        findings.append(RehearsalFinding("connection", False, str(error), temporary=True))
    return findings


def _cluster(api: RayApi, options: RayTrialOptions | None, timeout: tuple[float, float]) -> Iterator[RehearsalFinding]:
    told = api.version(timeout)
    yield RehearsalFinding("connection", True, f"{api.where} answers (Ray {told.get('ray_version') or 'unknown'}).")
    version, needed = whole_number(str(told.get("version") or "")), ".".join(map(str, LEAST_RAY))
    if version is None or version < LEAST_VERSION:
        yield RehearsalFinding("version", False, f"{api.where} has version {shown(told.get('version'))} of the Jobs "
                                                 f"API, and {LEAST_VERSION} is needed. Upgrade Ray to {needed} or "
                                                 "later.")
        return
    if _is_too_old(told.get("ray_version")):
        yield RehearsalFinding("version", False, f"{api.where} has Ray {shown(told.get('ray_version'))}, which does "
                                                 f"not tell why a job failed. Upgrade Ray to {needed} or later.")
        return
    api.job(_NO_JOB, timeout)
    yield RehearsalFinding("rights", True, "The cluster lets this server submit jobs and ask about them.")
    asked = asked_resources(None, options) if options is not None else {}
    nodes = api.nodes(timeout)
    missing = why_no_node(asked, nodes)
    if missing:
        yield RehearsalFinding("resources", False, f"{missing} Trials wait until such a node joins the cluster.",
                               temporary=True)
    else:
        yield RehearsalFinding("resources", True, f"The cluster has {len(nodes)} "
                                                  f"{'node' if len(nodes) == 1 else 'nodes'}, and room for what a "
                                                  "trial asks for.")


def _is_too_old(ray_version: object) -> bool:
    """Whether it is certainly below what is needed: builds of one's own may be named otherwise."""
    found = re.match(r"(\d{1,4})\.(\d{1,4})(?!\d)", str(ray_version or ""))
    return found is not None and (int(found[1]), int(found[2])) < LEAST_RAY


def why_no_node(asked: Mapping[str, float], nodes: Sequence[Mapping[str, float]]) -> str:
    """A sentence where no node has, free or not, all that a job asks for; "" where one has."""
    if any(all(node.get(name, 0.0) >= amount for name, amount in asked.items()) for node in nodes):
        return ""
    for name, amount in asked.items():
        most = max((node.get(name, 0.0) for node in nodes), default=0.0)
        if most < amount:
            there = f"the largest has {_amount(name, most)}" if most else "none has any"
            return f"No node of the cluster has {_amount(name, amount)} of {name}: {there}."
    if not nodes:
        return "The cluster has no node."
    together = ", ".join(f"{_amount(name, amount)} of {name}" for name, amount in asked.items())
    return f"No node of the cluster has all that a job asks for: {together}."


def _amount(name: str, amount: float) -> str:
    return byte_size(int(amount)) if name == "memory" else f"{amount:g}"
