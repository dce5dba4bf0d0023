"""What a trial needs in its namespace beside its own object: the keeper's ConfigMap, the trial's Secret, keys.

The trial's Secret carries token and job, and settles who was first. It is made before the object; a cancel
replaces it by a tombstone. So a submission that comes after a cancel finds the tombstone, and one that runs
beside it finds out when it hands the Secret over to the object, because the Secret has changed.
"""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import threading
import time
from collections.abc import Callable, Mapping

from trainingservice.errors import PermanentError
from trainingservice.files.unlinked_paths import read_file
from trainingservice.keeper.keeper_bundle import keeper_bytes
from trainingservice.keeper.keeper_variables import authority_text
from trainingservice.kubernetes_base import names
from trainingservice.kubernetes_base.api import (
    CONFIG_MAPS,
    MERGE_PATCH,
    SECRETS,
    ApiRefusal,
    KubernetesApi,
    Object,
    Resource,
    error_of,
)
from trainingservice.kubernetes_base.config import RoleSettings, StorageSettings
from trainingservice.kubernetes_base.pod_template import CA_KEY, KEEPER_FILE, TOKEN_KEY
from trainingservice.kubernetes_base.storage import azure_account_key
from trainingservice.rest.told_json import read_json
from trainingservice.trial_job import KeeperAccess, TrialJobDetail
from trialkeeper import contract
from trialkeeper.whole_number import whole_number

logger = logging.getLogger(__name__)

#: Bytes of a docker config.json: what a Secret takes is not much more.
MOST_OF_A_LOGIN = 512 * 1024
AZURE_SECRET_PREFIX = "nniweb-azure-"
#: Seconds after which a tombstone has done its work.
TOMBSTONE_LIFE = 24 * 3600.0
#: Seconds for which something that was there is believed to be there still: somebody may delete it.
BELIEVED = 60.0


class WasCanceled(Exception):
    """There is a tombstone: nothing may be started under this name."""


class Belongings:
    """Makes and removes them in one namespace. May be called from several threads."""

    def __init__(self, api: KubernetesApi, namespace: str, cluster: str, clock: Callable[[], float] = time.time,
                 monotonic: Callable[[], float] = time.monotonic) -> None:
        self._api, self._namespace, self._cluster, self._clock = api, namespace, cluster, clock
        self._monotonic = monotonic
        self._lock = threading.Lock()
        #: What we have made or found -> when (monotonic).
        self._there: dict[str, float] = {}
        self._key_lock = threading.Lock()
        self._azure_key = ""

    def forget(self) -> None:
        """Somebody may have removed things: look again what is there."""
        with self._lock:
            self._there.clear()
        with self._key_lock:
            self._azure_key = ""

    # --- shared by trials ------------------------------------------------------------------

    def keeper(self) -> str:
        """Have the keeper in the namespace; the ConfigMap's name."""
        content = keeper_bytes()
        name = names.keeper_config_map(hashlib.sha256(content).hexdigest())
        self._have(CONFIG_MAPS, name, lambda: {
            "metadata": {"name": name, "labels": {names.CLUSTER: "all"}}, "immutable": True,
            "binaryData": {KEEPER_FILE: base64.b64encode(content).decode()}})
        return name

    def azure_secret(self, storage: StorageSettings) -> str:
        """Have the key of the Azure account in the namespace; the Secret's name."""
        with self._key_lock:  # a program may have to be asked for it, so only once
            key = self._azure_key = self._azure_key or azure_account_key(storage)
        # the key counts in the name, so that a new key is a new Secret
        name = AZURE_SECRET_PREFIX + hashlib.sha256(f"{storage.azure_account} {key}".encode()).hexdigest()[:12]
        self._have(SECRETS, name, lambda: {
            "metadata": {"name": name, "labels": {names.CLUSTER: self._cluster}}, "type": "Opaque",
            "stringData": {"azurestorageaccountname": storage.azure_account,
                           "azurestorageaccountkey": key}})
        return name

    def remove_azure_secrets(self) -> None:
        """Those of this cluster; the next trial that needs one makes it again. Raises ApiRefusal."""
        selector = f"{names.CLUSTER}={self._cluster},!{names.EXPERIMENT}"
        for secret in self._api.call("GET", SECRETS.path(self._namespace),
                                     query={"labelSelector": selector}).get("items") or []:
            if secret["metadata"]["name"].startswith(AZURE_SECRET_PREFIX):
                remove(self._api, SECRETS, self._namespace, secret["metadata"]["name"])

    def pull_secret(self, experiment_id: str, role: str, settings: RoleSettings) -> str:
        """Have the registry's login in the namespace; the Secret's name, "" where the role needs none."""
        if settings.private_registry_auth_path is None:
            return ""
        name = names.pull_secret(experiment_id, role.lower())

        self._have(SECRETS, name, lambda: {
            "metadata": {"name": name, "labels": {names.CLUSTER: self._cluster, names.EXPERIMENT: experiment_id}},
            **login_of(role, settings)})
        return name

    def _have(self, resource: Resource, name: str, document: Callable[[], Object]) -> None:
        with self._lock:
            if self._monotonic() - self._there.get(name, float("-inf")) < BELIEVED:
                return
        body = {"apiVersion": resource.api_version, "kind": resource.kind, **document()}
        try:
            self._api.call("POST", resource.path(self._namespace), body=body)
        except ApiRefusal as refusal:
            if refusal.reason != "AlreadyExists":
                raise error_of(refusal, f"create the {resource.kind} {name}") from refusal
        with self._lock:
            self._there[name] = self._monotonic()

    # --- of one trial ----------------------------------------------------------------------

    def make_trial_secret(self, job: TrialJobDetail, jobs: Mapping[str, contract.JobDocument]) -> Object:
        """The Secret with token and jobs (by key). One that is there gets the fresh token. Raises WasCanceled."""
        access = job.form.keeper
        name = names.trial_secret(job.id)
        content = _content(access, jobs)
        body: Object = {"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "stringData": content,
                        "metadata": {"name": name, "labels": names.trial_labels(self._cluster, job.form.experiment_id,
                                                                                job.id)}}
        try:
            return self._api.call("POST", SECRETS.path(self._namespace), body=body)
        except ApiRefusal as refusal:
            if refusal.reason != "AlreadyExists":
                raise error_of(refusal, f"create the Secret {name}") from refusal
        found = self._api.call("GET", SECRETS.path(self._namespace, name))
        require_ours(found, SECRETS, self._cluster)
        if names.CANCELED in (found["metadata"].get("annotations") or {}):
            raise WasCanceled
        patch = {"metadata": {"resourceVersion": found["metadata"]["resourceVersion"]}, "stringData": content}
        return self._patch(name, patch)

    def hand_over(self, secret: Object, trial: Object) -> None:
        """Make the trial's object the owner of its Secret. Raises WasCanceled where that is a tombstone by now."""
        metadata = trial["metadata"]
        owner = {"apiVersion": trial["apiVersion"], "kind": trial["kind"], "name": metadata["name"],
                 "uid": metadata["uid"]}
        name = secret["metadata"]["name"]
        try:
            self._patch(name, {"metadata": {"resourceVersion": secret["metadata"]["resourceVersion"],
                                            "ownerReferences": [owner]}})
        except ApiRefusal as refusal:
            if refusal.code not in (404, 409):
                raise
            found = self.find_secret(name)
            if found is None or names.CANCELED in (found["metadata"].get("annotations") or {}):
                raise WasCanceled from refusal
            self._patch(name, {"metadata": {"ownerReferences": [owner]}})

    def _patch(self, name: str, patch: Object) -> Object:
        return self._api.call("PATCH", SECRETS.path(self._namespace, name), body=patch, content_type=MERGE_PATCH)

    def find_secret(self, name: str) -> Object | None:
        """A Secret, None where there is none. Raises ApiRefusal."""
        try:
            return self._api.call("GET", SECRETS.path(self._namespace, name))
        except ApiRefusal as refusal:
            if refusal.code == 404:
                return None
            raise

    def token_of(self, job_name: str) -> str:
        """The token in the trial's Secret; "" where there is none."""
        found = self.find_secret(names.trial_secret(job_name))
        data = (found or {}).get("data") or {}
        return base64.b64decode(data.get(TOKEN_KEY) or "").decode()

    def lay_tombstone(self, experiment_id: str, job_name: str) -> None:
        """From now on nothing is started under this name."""
        name = names.trial_secret(job_name)
        body: Object = {"apiVersion": "v1", "kind": "Secret", "type": "Opaque",
                        "metadata": {"name": name, "labels": names.trial_labels(self._cluster, experiment_id, job_name),
                                     "annotations": {names.CANCELED: f"{self._clock():.0f}"}}}
        for _ in range(3):
            try:
                self._api.call("PUT", SECRETS.path(self._namespace, name), body=body)
                return
            except ApiRefusal as refusal:
                if refusal.code != 404:
                    raise
            try:
                self._api.call("POST", SECRETS.path(self._namespace), body=body)
                return
            except ApiRefusal as refusal:
                if refusal.reason != "AlreadyExists":
                    raise

    def sweep_tombstones(self) -> frozenset[str]:
        """Remove the tombstones that have done their work. Names of the trials' Secrets that nothing owns."""
        ownerless = set()
        found = self._api.call("GET", SECRETS.path(self._namespace),
                               query={"labelSelector": f"{names.CLUSTER}={self._cluster},{names.TRIAL}"})
        for secret in found.get("items") or []:
            laid = whole_number((secret["metadata"].get("annotations") or {}).get(names.CANCELED, ""))
            if laid is not None and self._clock() - laid > TOMBSTONE_LIFE:
                remove(self._api, SECRETS, self._namespace, secret["metadata"]["name"])
            elif not secret["metadata"].get("ownerReferences"):
                ownerless.add(str(secret["metadata"]["name"]))
        return frozenset(ownerless)


def remove(api: KubernetesApi, resource: Resource, namespace: str, name: str) -> bool:
    """Delete one object, its dependants in the background. False where there was none."""
    try:
        api.call("DELETE", resource.path(namespace, name),
                 body={"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"})
    except ApiRefusal as refusal:
        if refusal.code == 404:
            return False
        raise error_of(refusal, f"delete the {resource.kind} {name}") from refusal
    return True


def require_ours(found: Object, resource: Resource, cluster: str) -> None:
    """Of an object that stood there when ours was to be made. Raises PermanentError where it is somebody else's."""
    metadata = found["metadata"]
    if (metadata.get("labels") or {}).get(names.CLUSTER) != cluster:
        raise PermanentError(f"The namespace has a {resource.kind} {metadata['name']} that is not of this cluster of "
                             "this server. It was left alone. Run the trial again, which gives it another name.")


def login_of(role: str, settings: RoleSettings) -> Object:
    """Type and data of a Secret with the registry's login of a role that has one. Raises PermanentError."""
    path = settings.private_registry_auth_path
    assert path is not None
    try:
        text = read_file(path, MOST_OF_A_LOGIN)
        read_json(text)
    except (OSError, ValueError) as error:
        raise PermanentError(f"privateRegistryAuthPath of role {role}: {path} cannot be read as a docker "
                             f"config.json: {error}.") from error
    return {"type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": base64.b64encode(text).decode()}}


def _content(access: KeeperAccess, jobs: Mapping[str, contract.JobDocument]) -> dict[str, str]:
    content = {key: json.dumps(document) for key, document in jobs.items()}
    if access.token:
        content[TOKEN_KEY] = access.token
    if access.ca_file is not None:
        content[CA_KEY] = authority_text(access)
    return content
