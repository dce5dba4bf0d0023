"""The job document of one trial: a pure function of what is asked. Nothing here talks to the cluster."""

from __future__ import annotations

import copy
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trainingservice.keeper.fetched_keeper import FETCH, keeper_path
from trainingservice.keeper.keeper_variables import place_variables
from trainingservice.openpai.config import OpenPaiTrialOptions
from trainingservice.openpai.storages import own_storages
from trainingservice.openpai.templates import all_commands
from trainingservice.trial_job import JobApplicationForm
from trialkeeper import contract

ROLE, IMAGE = "taskrole", "docker_image_0"
#: Name under which the keeper's token stands in ``secrets``; the cluster shows it to nobody, commands see its value.
TOKEN_SECRET = "nniweb_keeper_token"
#: Of a role's replicas: replica number = number of the role * this + index of the task.
_REPLICAS_PER_ROLE = 10_000
#: In a container: which task of its role it is.
_TASK_INDEX = "${PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX:-${FC_TASK_INDEX:-0}}"

_NO_PYTHON = "The image has no python3, which the trial's keeper needs (3.8 or newer); choose an image that has it."


@dataclass(frozen=True)
class KeeperStart:
    """How the keeper is started in a container. Paths are those in the container; none of them where there is no
    storage: the keeper is then fetched from the server.
    """

    keeper: str
    folder: str
    urls: tuple[str, ...]
    #: PEM text of the private authority behind the server's certificate, "" where containers know it. It is no secret.
    authority: str = ""


def job_name(form: JobApplicationForm) -> str:
    """The job's name on the cluster, as NNI builds it."""
    return f"nni_exp_{form.experiment_id}_trial_{form.job_name}"


def job_document(form: JobApplicationForm, options: OpenPaiTrialOptions, start: KeeperStart, *,
                 mounts: Mapping[str, str], installation: str) -> dict[str, Any]:
    """The document that is submitted (protocol version 2). ``mounts``: storages that the server shares, and where."""
    document = (copy.deepcopy(options.openpai_config) if options.openpai_config is not None
                else _simple(form, options))
    document["name"] = job_name(form)
    own = all_commands(document) if options.openpai_config is not None else {}
    for number, (name, role) in enumerate(document["taskRoles"].items()):
        role["commands"] = _commands(form, start, number, name, own.get(name, []))
    # the commands of the default deployment are among the role's own, under the keeper
    (document.get("defaults") or {}).pop("deployment", None)
    extras = document.get("extras") if isinstance(document.get("extras"), dict) else {}
    ours = {**options.storages, **mounts}
    storages = [entry for entry in own_storages(document) if entry["name"] not in ours]
    storages += [{"name": name, "mountPath": path} for name, path in ours.items()]
    document["extras"] = {**(extras or {}), "storages": storages,
                          "submitFrom": "submit-job-v2",
                          "nniweb": {"installation": installation, "job": form.job_name}}
    if start.urls:
        document["secrets"] = {**(document.get("secrets") or {}), TOKEN_SECRET: form.keeper.token}
    if options.virtual_cluster is not None:
        document["defaults"] = {**(document.get("defaults") or {}), "virtualCluster": options.virtual_cluster}
    return document


def _simple(form: JobApplicationForm, options: OpenPaiTrialOptions) -> dict[str, Any]:
    shared_memory = {} if options.shm_size is None else {"extraContainerOptions": {"shmMB": options.shm_size}}
    return {
        "protocolVersion": 2,
        "type": "job",
        "jobRetryCount": 0,
        "prerequisites": [{"type": "dockerimage", "name": IMAGE, "uri": form.image or options.docker_image}],
        "taskRoles": {ROLE: {
            "instances": 1,
            "completion": {"minFailedInstances": 1, "minSucceededInstances": -1},
            "taskRetryCount": 0,
            "dockerImage": IMAGE,
            "resourcePerInstance": {"gpu": form.gpu_number or 0, "cpu": options.trial_cpu_number,
                                    "memoryMB": options.trial_memory_size},
            "commands": [],
            **shared_memory,
        }},
    }


def role_folders(document: Mapping[str, Any] | None) -> dict[str, str]:
    """Of a user's document: role -> folder of its job below the attempt's ("" for the first one, which reports)."""
    roles = list((document or {}).get("taskRoles") or {ROLE: None})
    return {name: f"role-{name}" if number else "" for number, name in enumerate(roles)}


def _commands(form: JobApplicationForm, start: KeeperStart, number: int, name: str, own: list[str]) -> list[str]:
    """The lines of the container's script. The cluster runs it with errexit, nounset and pipefail."""
    folder = f"{start.folder}/role-{name}" if number else start.folder
    lines = ["command -v python3 >/dev/null || { echo " + shlex.quote(_NO_PYTHON) + " >&2; exit 127; }"]
    variables = {contract.ENV_JOB: form.job_name}
    if start.urls:
        variables[contract.ENV_URLS] = ",".join(start.urls)
        variables |= place_variables(form)
    else:
        variables[contract.ENV_READABLE] = "1"
    lines += [f"export {key}={shlex.quote(value)}" for key, value in variables.items()]
    if start.urls:
        lines.append(f"export {contract.ENV_TOKEN}='<% $secrets.{TOKEN_SECRET} %>'")
    if start.urls and start.authority:
        lines.append(f"export {contract.ENV_CA}=$(mktemp)")
        lines.append(f"cat > \"${contract.ENV_CA}\" <<'END_OF_THE_AUTHORITY'\n{start.authority}END_OF_THE_AUTHORITY")
    if not own:
        lines += [f"export {contract.ENV_FOLDER}={shlex.quote(folder)}"] if folder else []
    else:
        lines += [
            f"nniweb_replica=$(({number} * {_REPLICAS_PER_ROLE} + {_TASK_INDEX}))",
            f"export {contract.ENV_REPLICA}=$nniweb_replica",
            f"nniweb_folder={shlex.quote(folder)}",
            # each task but the one that reports keeps its files apart
            f"if [ {_TASK_INDEX} != 0 ]; then mkdir -p \"$nniweb_folder/task-$nniweb_replica\"; cp "
            f"\"$nniweb_folder/{contract.JOB_FILE}\" \"$nniweb_folder/task-$nniweb_replica/\"; "
            "nniweb_folder=$nniweb_folder/task-$nniweb_replica; fi",
            f"export {contract.ENV_FOLDER}=$nniweb_folder NNI_ROLE_COMMANDS=/tmp/nniweb-{form.job_name}-{name}.sh",
            # as they are, so that the cluster fills in templates such as <% $parameters.x %>
            'cat > "$NNI_ROLE_COMMANDS" <<\'END_OF_THE_COMMANDS\'',
            *own,
            "END_OF_THE_COMMANDS",
        ]
    if start.keeper:
        return [*lines, f"exec python3 {shlex.quote(start.keeper)} run"]
    # in one entry of the list: the cluster takes the blanks off the ends of each
    return [*lines, "nniweb_keeper=$(mktemp)",
            f"python3 - \"$nniweb_keeper\" {keeper_path(form.job_name)} <<'END_OF_THE_FETCHER'\n{FETCH}"
            "END_OF_THE_FETCHER",
            'exec python3 "$nniweb_keeper" run']


def role_command() -> str:
    """What the keeper of a role of a user's document runs: the role's own commands, as the cluster would run them."""
    return 'set -euo pipefail; . "$NNI_ROLE_COMMANDS"'
