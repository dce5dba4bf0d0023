"""The environment of a trial: what the official ``nni`` package of any release needs, and our own module.

Facts (reference: NNI's trial SDK): platform ``local`` is the only name every release takes; REUSE_MODE=false keeps
prints on the real stdout while metrics go to the file; a sequence id must always be set.
"""

import math
import os
from typing import Dict, List, Mapping, Optional

from trialkeeper import contract
from trialkeeper.process_tree import MARK_VARIABLE
from trialkeeper.ranks import rank_variables
from trialkeeper.trial_parameters import is_of_parameters

#: Would send the SDK elsewhere or make it take itself for a tuner.
_NEVER = ("NNI_TRIAL_COMMAND_CHANNEL", "NNI_TUNER_COMMAND_CHANNEL", "SDK_PROCESS")
#: Where MLflow's clients find their server.
MLFLOW_URI = "MLFLOW_TRACKING_URI"
_DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"


def trial_environment(job: contract.JobDocument, inherited: Mapping[str, str], *, nni_folder: str,
                      working_directory: str, wake: Optional[str], for_trials: Optional[str],
                      mark: str, checkpoints: Optional[str] = None,
                      further: Optional[Mapping[str, str]] = None, gpus: Optional[List[str]] = None) -> Dict[str, str]:
    """All variables of the trial. ``inherited``: those of the keeper, of which the job may allow only some.

    ``checkpoints``: its folder for checkpoints, None where it has none. ``further``: what else the keeper gives it.
    ``gpus``: how CUDA is given its GPUs; None: the job does not say which it has.
    """
    allowed = job.get("inherit_environment")
    environment = {name: value for name, value in inherited.items()
                   if not (name.startswith("NNI_KEEPER_") or is_of_parameters(name))
                   and (allowed is None or name in allowed)}
    # what a trial prints shall be seen while it runs, not when its buffer is full
    environment.setdefault("PYTHONUNBUFFERED", "1")
    environment.update(job.get("environment") or {})
    cpus = (job.get("limits") or {}).get("cpu_number")
    if cpus is not None and not environment.get("OMP_NUM_THREADS"):
        # libraries start a thread for each processor that they see, which are more than the trial may use
        environment["OMP_NUM_THREADS"] = str(max(1, math.ceil(cpus)))
    if "node" in job:
        environment.update(rank_variables(job["node"], job.get("job_name", "")))
    for name in _NEVER:
        environment.pop(name, None)
    environment.update({
        "NNI_PLATFORM": "local",
        "REUSE_MODE": "false",
        "NNI_EXP_ID": job.get("experiment_id", ""),
        "NNI_TRIAL_JOB_ID": job.get("trial_job_id", ""),
        "NNI_TRIAL_SEQ_ID": str(job.get("sequence_id", 0)),
        "NNI_SYS_DIR": nni_folder,
        "NNI_OUTPUT_DIR": nni_folder,
        "NNI_CODE_DIR": working_directory,
        "MULTI_PHASE": "true" if job.get("multi_phase") else "false",
        MARK_VARIABLE: mark,
        **(further or {}),
    })
    environment["PATH"] = os.pathsep.join([*(job.get("path") or []), environment.get("PATH") or _DEFAULT_PATH])
    if for_trials is not None:
        before = environment.get("PYTHONPATH")
        environment["PYTHONPATH"] = before + os.pathsep + for_trials if before else for_trials
    environment.pop(contract.ENV_CHECKPOINTS, None)  # of a trial that the keeper itself is part of
    if checkpoints is not None:
        environment[contract.ENV_CHECKPOINTS] = checkpoints
    if MLFLOW_URI in (further or {}):
        _leave_out_of_proxies(environment, "127.0.0.1")
    if wake is not None:
        environment[contract.ENV_WAKE] = wake
    if gpus is not None:
        # AMD's libraries read the second one, some of them also the first; where both are set they must be the same
        environment["CUDA_VISIBLE_DEVICES"] = environment["HIP_VISIBLE_DEVICES"] = \
            ",".join(gpus) if gpus else "-1"
    return environment


def _leave_out_of_proxies(environment: Dict[str, str], address: str) -> None:
    """Where the machine has a proxy for HTTP, this address is reached without it."""
    if not any(environment.get(name) for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy")):
        return
    for name in ("NO_PROXY", "no_proxy"):
        environment[name] = ",".join(filter(None, [environment.get(name), address]))
