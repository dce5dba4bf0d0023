"""The pods of a trial: the user's image, in it the keeper, and what the keeper needs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trainingservice.keeper.keeper_variables import place_variables
from trainingservice.kubernetes_base import names
from trainingservice.kubernetes_base.api import Object
from trainingservice.kubernetes_base.config import KubernetesTrialOptions, StorageSettings
from trainingservice.kubernetes_base.kind import Role
from trainingservice.kubernetes_scheduling.objects import pod_fields, pod_metadata
from trainingservice.trial_job import TrialJobDetail
from trialkeeper import contract, pod

#: Where things are in the container.
KEEPER_FOLDER, TRIAL_FOLDER, ATTEMPT_FOLDER, STORAGE_FOLDER = (
    "/nniweb/keeper", "/nniweb/trial", "/nniweb/attempt", "/tmp/mount")
#: Of a pod that stays as a warm place: the folders of its later trials.
PLACE_FOLDER = f"{ATTEMPT_FOLDER}/next"
KEEPER_FILE = "keeper.pyz"
#: Where an image given as keeperImage holds the keeper.
KEEPER_IN_IMAGE = "/keeper.pyz"
TERMINATION_LOG = "/dev/termination-log"
TOKEN_KEY, CA_KEY = "token", "ca.pem"
#: Seconds that a keeper gets beside the trial's own grace period, to deliver the last of its journal.
TIME_TO_DELIVER = 20


@dataclass(frozen=True)
class Delivery:
    """How keeper and storage reach the pods of a cluster."""

    #: ConfigMap that holds the keeper; "" where it comes another way.
    keeper_config_map: str = ""
    #: Path of the keeper below the storage; "" where it comes another way.
    keeper_in_storage: str = ""
    #: Image that an init container copies the keeper from; "" where it comes another way.
    keeper_image: str = ""
    storage: StorageSettings | None = None
    #: The Secret with the key of an Azure account.
    azure_secret: str = ""


def job_key(role: Role) -> str:
    """Under which key the trial's Secret holds what a role runs."""
    return f"job-{role.name.lower()}.json"


def pod_template(job: TrialJobDetail, role: Role, delivery: Delivery, options: KubernetesTrialOptions, *,
                 labels: Mapping[str, str], container: str, numbered: bool, pull_secret: str = "",
                 automount: bool = False, linger: int = 0, linger_stopped: int = 0) -> Object:
    """A pod template (metadata and spec) of one role.

    ``numbered``: the pods' names end in the replica's index. ``automount``: it needs its service account's token.
    ``linger``: seconds that it stays after the trial's end, ``linger_stopped``: after a stop.
    """
    main: Object = {
        "name": container,
        "image": role.settings.docker_image,
        # no text of the user's stands here: the kubelet would expand $(...) in it
        "command": [role.settings.python, _keeper_path(delivery), "pod"],
        "env": _environment(job, role, numbered, linger, linger_stopped, place_until(job, options)),
        "terminationMessagePath": TERMINATION_LOG,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [{"name": "nniweb-trial", "mountPath": TRIAL_FOLDER, "readOnly": True},
                         {"name": "nniweb-attempt", "mountPath": ATTEMPT_FOLDER}],
    }
    volumes: list[Object] = [{"name": "nniweb-trial", "secret": {"secretName": names.trial_secret(job.id)}},
                             {"name": "nniweb-attempt", "emptyDir": {}}]
    spec: Object = {
        "restartPolicy": "Never",
        **({} if automount else {"automountServiceAccountToken": False}),
        "terminationGracePeriodSeconds": math.ceil(job.form.longest_end) + TIME_TO_DELIVER,
        "containers": [main],
        "volumes": volumes,
    }
    if not delivery.keeper_in_storage:
        source: Object = ({"emptyDir": {}} if delivery.keeper_image
                          else {"configMap": {"name": delivery.keeper_config_map}})
        volumes.append({"name": "nniweb-keeper", **source})
        main["volumeMounts"].append({"name": "nniweb-keeper", "mountPath": KEEPER_FOLDER,
                                     **({} if delivery.keeper_image else {"readOnly": True})})
    if delivery.keeper_image:
        spec["initContainers"] = [{
            "name": "nniweb-keeper", "image": delivery.keeper_image,
            "command": ["cp", KEEPER_IN_IMAGE, f"{KEEPER_FOLDER}/{KEEPER_FILE}"],
            "volumeMounts": [{"name": "nniweb-keeper", "mountPath": KEEPER_FOLDER}]}]
    return _completed(main, spec, role, delivery, options, labels, pull_secret)


def plain_template(role: Role, delivery: Delivery, options: KubernetesTrialOptions, *, labels: Mapping[str, str],
                   container: str, pull_secret: str = "") -> Object:
    """A pod template of a role whose pods run what the operator starts in them."""
    main: Object = {"name": container, "image": role.settings.docker_image}
    spec: Object = {"restartPolicy": "Never", "containers": [main]}
    return _completed(main, spec, role, delivery, options, labels, pull_secret)


def _completed(main: Object, spec: Object, role: Role, delivery: Delivery, options: KubernetesTrialOptions,
               labels: Mapping[str, str], pull_secret: str) -> Object:
    """The template with what all roles have: resources, storage, account, place."""
    resources = resources_of(role)
    if resources:
        main["resources"] = {"requests": resources, "limits": resources}
    if delivery.storage is not None and (delivery.storage.storage_type != "pvc" or delivery.storage.claim_name):
        spec.setdefault("volumes", []).append({"name": "nni-vol", **_volume(delivery.storage, delivery.azure_secret)})
        main.setdefault("volumeMounts", []).append({"name": "nni-vol", "mountPath": STORAGE_FOLDER})
    spec |= pod_fields(options, pull_secret)
    return {"metadata": pod_metadata(options, {**labels, names.ROLE: role.name.lower()}), "spec": spec}


def _keeper_path(delivery: Delivery) -> str:
    if delivery.keeper_in_storage:
        return f"{STORAGE_FOLDER}/{delivery.keeper_in_storage}"
    return f"{KEEPER_FOLDER}/{KEEPER_FILE}"


def _environment(job: TrialJobDetail, role: Role, numbered: bool, linger: int, linger_stopped: int,
                 until: float | None) -> list[Object]:
    access = job.form.keeper
    values: dict[str, str] = {
        contract.ENV_JOB: job.id,
        contract.ENV_URLS: ",".join(access.urls),
        contract.ENV_TOKEN_FILE: f"{TRIAL_FOLDER}/{TOKEN_KEY}",
        contract.ENV_FOLDER: ATTEMPT_FOLDER,
        pod.ENV_JOB_FILE: f"{TRIAL_FOLDER}/{job_key(role)}",
        pod.ENV_STORAGE: STORAGE_FOLDER,
        pod.ENV_FIRST_REPLICA: str(role.first_replica),
        pod.ENV_END_FILE: TERMINATION_LOG,
    }
    if access.urls:
        values |= place_variables(job.form, folder=PLACE_FOLDER, until=until)
    if linger:
        values[pod.ENV_LINGER] = str(linger)
    elif linger_stopped:
        values[pod.ENV_LINGER_STOPPED] = str(linger_stopped)
    if access.ca_file is not None:
        values[contract.ENV_CA] = f"{TRIAL_FOLDER}/{CA_KEY}"
    variables: list[Object] = [{"name": name, "value": value} for name, value in values.items()]
    if numbered:
        variables.append({"name": pod.ENV_POD_NAME, "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}})
    return variables


def place_until(job: TrialJobDetail, options: KubernetesTrialOptions) -> float | None:
    """When the cluster ends an object that is made now, in seconds since 1970; None: it does not."""
    seconds = options.run_policy.active_deadline_seconds
    return None if seconds is None else job.submit_time + seconds


def resources_of(role: Role) -> dict[str, str]:
    """What a container of the role asks for: requests equal limits, as NNI has them and as GPUs must."""
    settings = role.settings
    resources: dict[str, str] = {}
    if settings.memory_size is not None:
        resources["memory"] = f"{settings.memory_size}Mi"
    if settings.cpu_number:  # 0 would be a limit of nothing
        resources["cpu"] = f"{settings.cpu_number:g}"
    if role.gpu_number and role.gpu_shares:
        resources |= {name: str(count) for name, count in role.gpu_shares.items()}
    elif role.gpu_number:
        resources[settings.gpu_resource] = str(role.gpu_number)
    return resources


def _volume(storage: StorageSettings, azure_secret: str) -> dict[str, Any]:
    if storage.storage_type == "nfs":
        return {"nfs": {"server": storage.server, "path": storage.path}}
    if storage.storage_type == "pvc":
        return {"persistentVolumeClaim": {"claimName": storage.claim_name}}
    return {"azureFile": {"secretName": storage.azure_secret_name or azure_secret, "shareName": storage.azure_share,
                          "readOnly": False}}
