"""The body with which a job is submitted: a pure function of what is asked."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from trainingservice.dlts.config import DltsClusterSettings, DltsTrialOptions
from trainingservice.trial_job import JobApplicationForm
from trialkeeper import contract

_NO_PYTHON = "The image has no python3, which the trial's keeper needs (3.8 or newer); choose an image that has it."
_NO_TOKEN = "The keeper's token cannot be read in the home folder; the server must run as the user that jobs run as."


def job_name(form: JobApplicationForm) -> str:
    """The job's name on the cluster, as NNI builds it. Names are not unique there."""
    return f"nni_exp_{form.experiment_id}_trial_{form.job_name}"


def job_body(form: JobApplicationForm, settings: DltsClusterSettings, options: DltsTrialOptions, *,
             gpu_type: str | None, keeper: str, variables: Mapping[str, str]) -> dict[str, Any]:
    """What is posted. ``variables``: those of the keeper. Paths are those in the container."""
    command = _command(keeper, variables.get(contract.ENV_TOKEN_FILE, ""))
    body: dict[str, Any] = {
        "jobName": job_name(form), "userName": settings.email, "vcName": settings.team, "team": settings.team,
        "jobType": "training", "jobtrainingtype": "RegularJob", "resourcegpu": form.gpu_number or 0,
        "image": form.image or options.docker_image, "cmd": command,
        "interactivePorts": [], "ssh": False, "ipython": False, "tensorboard": False, "hostNetwork": False,
        "useGPUTopology": False, "isPrivileged": False, "hostIPC": False, "workPath": "", "dataPath": "", "jobPath": "",
        "enableworkpath": True, "enablejobpath": True, "enabledatapath": False, "mountpoints": [],
        "preemptionAllowed": False,  # a real boolean: texts other than true and false break the server
        # the cluster reads envs; NNI's env is ignored
        "envs": [{"name": name, "value": value} for name, value in variables.items()],
    }
    if gpu_type is not None and form.gpu_number:
        body["gpuType"] = gpu_type
    return body


def _command(keeper: str, token_file: str) -> str:
    """One line: the service passes it through several shells and files."""
    checks = [f"command -v python3 >/dev/null || {{ echo {shlex.quote(_NO_PYTHON)} >&2; exit 127; }}"]
    if token_file:
        checks.append(f"[ -r {shlex.quote(token_file)} ] || {{ echo {shlex.quote(_NO_TOKEN)} >&2; exit 126; }}")
    return "; ".join([*checks, f"exec python3 {shlex.quote(keeper)} run"])
