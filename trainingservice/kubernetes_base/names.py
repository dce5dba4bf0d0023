"""Names and labels of what we make in a namespace."""

from __future__ import annotations

import re

from trainingservice.errors import PermanentError
from trainingservice.words.shown_value import shown

EXPERIMENT, TRIAL, CLUSTER, ROLE = "nniweb/experiment", "nniweb/trial", "nniweb/cluster", "nniweb/role"
#: On what the check of a cluster makes; the value is the cluster's.
REHEARSAL = "nniweb/rehearsal"
#: On a trial's Secret that only keeps a late submission from starting; the value is when it was laid.
CANCELED = "nniweb/canceled-at"

_ID = re.compile(r"[a-z0-9]{1,63}")


def object_name(job_name: str) -> str:
    """Name of the object that holds a trial: good for every kind, also where hyphens are refused."""
    return "nni" + job_name


def job_name_of(name: str) -> str:
    """The job whose object has this name."""
    return name.removeprefix("nni")


def trial_secret(job_name: str) -> str:
    return f"nniweb-{job_name}"


def pull_secret(experiment_id: str, role: str) -> str:
    return f"nniweb-pull-{experiment_id}-{role}"


def keeper_config_map(sha256: str) -> str:
    return f"nniweb-keeper-{sha256[:16]}"


def cluster_label(installation: str, cluster_id: str) -> str:
    """Tells our objects from those of other installations and clusters in the same namespace."""
    text = re.sub(r"[^A-Za-z0-9]", "", installation)[:40]
    return f"{text}-{cluster_id}" if text else cluster_id


def trial_labels(cluster: str, experiment_id: str, job_name: str) -> dict[str, str]:
    return {CLUSTER: cluster, EXPERIMENT: experiment_id, TRIAL: job_name}


def experiment_selector(cluster: str, experiment_id: str) -> str:
    """Selects what belongs to one experiment and nothing else. Raises PermanentError for ids that could select more."""
    if not _ID.fullmatch(experiment_id):
        raise PermanentError(f"{shown(experiment_id)} is not the id of an experiment. Nothing was removed.")
    return f"{CLUSTER}={cluster},{EXPERIMENT}={experiment_id}"
