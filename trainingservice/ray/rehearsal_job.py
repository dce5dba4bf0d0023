"""A job that tries what trials will have: the runtime environment, its Python, the way home."""

from __future__ import annotations

import shlex
import time
import uuid
from collections.abc import Callable, Iterator

from trainingservice.base import RehearsalFinding, ServiceContext
from trainingservice.errors import PermanentError, TemporaryError, TrainingServiceError
from trainingservice.keeper.reach_probe import UNREACHABLE, probe_arguments
from trainingservice.ray.api import RayApi
from trainingservice.ray.config import RayTrialOptions
from trainingservice.ray.job_request import INSTALLATION_KEY, TRIAL_KEY, asked_resources
from trainingservice.ray.states import (
    COMMAND_ERROR,
    FAILED,
    PENDING,
    RUNNING,
    STOPPED,
    SUCCEEDED,
    kind_of_fault,
    last_lines_of,
    observed_job,
)

#: How long the job may wait and run, its runtime environment included, in seconds.
JOB_DEADLINE = 120.0
#: Seconds between two questions about it.
ASK_EVERY = 0.5
#: What the metadata of such a job have for the trial.
REHEARSAL = "rehearsal"


def try_job(api: RayApi, options: RayTrialOptions | None, context: ServiceContext, *,
            deadline: float = JOB_DEADLINE, pause: Callable[[float], None] = time.sleep) -> list[RehearsalFinding]:
    """Run the probe as a job like those of trials, and remove it. Never raises. Without a GPU, which might be busy for
    long.
    """
    try:
        return list(_findings(api, options or RayTrialOptions(), context, deadline, pause))
    except TrainingServiceError as error:
        return [RehearsalFinding("trial", False, str(error), temporary=isinstance(error, TemporaryError))]


def _findings(api: RayApi, options: RayTrialOptions, context: ServiceContext, deadline: float,
              pause: Callable[[float], None]) -> Iterator[RehearsalFinding]:
    _remove_left_over(api, context.installation)
    urls = context.public_urls()
    name = f"nniweb-rehearsal-{uuid.uuid4().hex[:8]}"
    asked = asked_resources(None, options.model_copy(update={"gpus": None}))
    api.submit({
        "entrypoint": shlex.join([options.python, *probe_arguments(urls, context.ca_file)]), "submission_id": name,
        "runtime_env": options.runtime_env, "metadata": {INSTALLATION_KEY: context.installation, TRIAL_KEY: REHEARSAL},
        "entrypoint_num_cpus": asked.get("CPU", 0.0), "entrypoint_memory": int(asked.get("memory", 0)),
        "entrypoint_resources": dict(options.resources)})
    try:
        give_up = time.monotonic() + deadline
        while (row := api.job(name) or {}).get("status") in (PENDING, RUNNING) and time.monotonic() < give_up:
            pause(ASK_EVERY)
        state = row.get("status")
        if state == SUCCEEDED:
            home = f", and reaches this server at {', '.join(urls)}" if urls else ""
            yield RehearsalFinding("trial", True, f"A job with the resources of a trial ran{home}.")
        elif state in (PENDING, RUNNING):
            yield RehearsalFinding("trial", False, f"A test job did not run within {deadline:.0f} s: "
                                                   f"{observed_job(row).message or 'it runs and does not end.'}",
                                   temporary=True)
        elif state == FAILED and kind_of_fault(row) == COMMAND_ERROR:
            yield _of_probe(row, api.log(name), options.python)
        else:
            yield RehearsalFinding("trial", False, f"A test job failed: {observed_job(row).message or 'it is gone.'}",
                                   temporary=state in (STOPPED, None))
    finally:
        _remove(api, name)


def _of_probe(row: dict[str, object], log: str, python: str) -> RehearsalFinding:
    """What it means that the probe itself failed."""
    said = last_lines_of(log)
    code = row.get("driver_exit_code")
    if code == UNREACHABLE:
        return RehearsalFinding("way_home", False, f"A test job cannot reach this server ({said}). Trials fetch their "
                                                   "code from it: set NNIWEB_PUBLIC_URL to an address that the nodes "
                                                   "of the cluster can reach.")
    if code == 127:
        return RehearsalFinding("interpreter", False, f"The nodes have no {python}, which the keeper of a trial needs "
                                                      f"(3.8 or newer): {said}. Correct python.")
    return RehearsalFinding("interpreter", False, f"{python} of the nodes cannot run the keeper of a trial: {said}")


def _remove(api: RayApi, name: str) -> None:
    """What of it still waits is left to the next check: Ray removes no job that has not ended."""
    try:
        api.stop(name)
        api.delete(name)
    except (TemporaryError, PermanentError):
        pass


def _remove_left_over(api: RayApi, installation: str) -> None:
    for row in api.jobs():
        told = row.get("metadata") or {}
        if (told.get(INSTALLATION_KEY), told.get(TRIAL_KEY)) == (installation, REHEARSAL) \
                and row.get("status") not in (PENDING, RUNNING):
            api.delete(str(row["submission_id"]))
