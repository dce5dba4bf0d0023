"""What configuration files may say about any cluster of Kubernetes, and about a role of a trial there.

Fields that NNI has keep NNI's names and meanings. Which API server, namespace and storage is the cluster;
roles, images and limits are what one experiment asks of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AliasChoices, Field, SecretStr, StringConstraints, field_validator, model_validator

from trainingservice.cluster_settings import ClusterSettings, CodePart, SettingsModel
from trainingservice.gpus.one_trial_per_gpu import one_trial_per_gpu
from trainingservice.kubernetes_scheduling.fields import (
    MembersMayUse,
    ObjectName,
    OfAllTrials,
    SchedulingOptions,
    not_permitted,
)
from trainingservice.kubernetes_scheduling.objects import conflicts
from trainingservice.memory_size import Megabytes
from trainingservice.places.options import PlaceOptions
from trainingservice.refused_values import matching

#: Longest name of an object that holds a trial: "nni" and the name of its job (15 characters with a retry's suffix).
LONGEST_OBJECT_NAME = 18
#: Host names, and so pods' names, have at most so many characters.
LONGEST_POD_NAME = 63

Namespace = Annotated[str, matching(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", "1 to 63 small letters, digits and -")]

_OF_AZURE = {"azure_account", "azure_share", "key_vault_name", "key_vault_key", "azure_account_key",
             "azure_secret_name"}
#: Where a field stands in NNI's v1 form.
_IN_V1 = {"server": ": the host that exports the folder (in NNI's v1 form nfs.server)",
          "path": ": the exported folder (in NNI's v1 form nfs.path)",
          "claim_name": ": the name of the PersistentVolumeClaim (or path, in NNI's v1 form pvc.path)",
          "azure_account": ": the storage account (in NNI's v1 form azureStorage.accountName)",
          "azure_share": ": the file share (in NNI's v1 form azureStorage.azureShare)"}


class StorageSettings(SettingsModel):
    """Shared storage that pods mount at /tmp/mount, as in NNI. Not needed: code and keeper come without it."""

    keeps_secrets: ClassVar[frozenset[str]] = frozenset({"path", "local_mount_point"})

    storage_type: Literal["nfs", "pvc", "azureStorage"] = Field(
        default="nfs", validation_alias=AliasChoices("storageType", "storage"),
        description="Kind of storage. (NNI 2.0 to 2.3: storage.)")
    server: str | None = Field(default=None, description="nfs: host that exports the folder.")
    path: str | None = Field(default=None, description="nfs: the exported folder. pvc: as localMountPoint (NNI's v1 "
                                                       "name for it).")
    claim_name: ObjectName | None = Field(
        default=None, description="pvc: name of the PersistentVolumeClaim in the namespace. Without it, the "
                                  "template in configPath must mount the claim at /tmp/mount.")
    azure_account: str | None = Field(default=None, description="azureStorage: name of the account.")
    azure_share: str | None = Field(default=None, description="azureStorage: name of the file share.")
    key_vault_name: str | None = Field(
        default=None, validation_alias=AliasChoices("keyVaultName", "keyVault"),
        description="azureStorage: vault that holds the account's key; it is read with the command az. (NNI 2.0 to "
                    "2.3: keyVault.)")
    key_vault_key: str | None = Field(
        default=None, validation_alias=AliasChoices("keyVaultKey", "keyVaultSecret"),
        description="azureStorage: name of the vault's secret. (NNI 2.0 to 2.3: keyVaultSecret.)")
    azure_account_key: SecretStr | None = Field(
        default=None, description="azureStorage: the account's key itself, instead of a vault.")
    azure_secret_name: ObjectName | None = Field(
        default=None, description="azureStorage: an existing Secret of the namespace with azurestorageaccountname and "
                                  "azurestorageaccountkey, instead of a key.")
    local_mount_point: str | None = Field(
        default=None, description="Folder at which the same storage is mounted on this server. With it, pods get code "
                                  "and keeper through the storage. Without it, the storage is only for the trial's own "
                                  "use, and pods get code and keeper from the server.")

    @model_validator(mode="after")
    def _has_what_its_kind_needs(self) -> StorageSettings:
        needed = {"nfs": ("server", "path"), "pvc": () if self.path else ("claim_name",),
                  "azureStorage": ("azure_account", "azure_share")}
        others = {"nfs": ("claim_name",), "pvc": ("server",), "azureStorage": ("server", "path", "claim_name")}
        if not self.model_fields_set & {"storage_type", "server"} and self.model_fields_set & _OF_AZURE:
            raise ValueError("says nothing of its kind, and has fields of an Azure file share: write storage: "
                             "azureStorage (or storageType: azureStorage, as NNI calls it since 2.4)")
        for name in needed[self.storage_type]:
            if not getattr(self, name):
                raise ValueError(f"{file_name(name)} is required for {self.storage_type}{_IN_V1.get(name, '')}")
        for name in others[self.storage_type]:
            if getattr(self, name):
                raise ValueError(f"{file_name(name)} does not belong to {self.storage_type}")
        if self.storage_type == "azureStorage":
            vault = bool(self.key_vault_name and self.key_vault_key)
            if vault + (self.azure_account_key is not None) + bool(self.azure_secret_name) != 1:
                raise ValueError("give exactly one of keyVaultName with keyVaultKey (in NNI's v1 form "
                                 "keyVault.vaultName and keyVault.name), azureAccountKey or azureSecretName; it "
                                 "provides the key of the account")
        return self

    @property
    def folder_here(self) -> Path | None:
        """Where the storage is mounted on this server; None where it is not."""
        path = self.local_mount_point or (self.path if self.storage_type == "pvc" else None)
        return Path(path) if path else None


class RunPolicy(SettingsModel):
    """How the cluster treats the object of a trial. Kubeflow's runPolicy; plain Jobs have all but cleanPodPolicy."""

    clean_pod_policy: Literal["None", "Running", "All"] | None = Field(
        default=None, description="Which pods are deleted when the trial ends. Default: Running.")
    ttl_seconds_after_finished: int | None = Field(
        default=86400, ge=0, description="An ended trial's object, and with it the pods' logs, is removed after this "
                                         "many seconds. null: it is kept until the experiment is deleted.")
    active_deadline_seconds: int | None = Field(
        default=None, ge=1, description="The cluster ends the trial after this many seconds. Prefer maxTrialDuration: "
                                        "trials that it ends count as early stopped.")
    backoff_limit: int | None = Field(
        default=None, ge=0, description="How often the cluster may start failed pods again. Default: 0. This does not "
                                        "run a trial again: the attempt belongs to the first pod's keeper, and the "
                                        "keeper of a second pod ends at once. Use retry to run trials again.")
    suspend: bool | None = Field(
        default=None, description="Create trials suspended, so that another program (such as Kueue) starts them.")


class RoleSettings(SettingsModel):
    """The pods of one role of a trial."""

    replicas: int = Field(default=1, ge=1, le=10_000, description="Number of pods.")
    command: str | None = Field(
        default=None, description="The shell command of these pods. Default: trialCommand.")
    docker_image: str = Field(
        default="msranni/nni:latest", min_length=1, description="Image; it needs Python 3.8 or later.")
    gpu_number: int | None = Field(
        default=None, ge=0, le=99_999, description="GPUs for each pod. Default: trialGpuNumber.")
    gpu_resource: str = Field(
        default="nvidia.com/gpu", min_length=1, description=(
            "The cluster's resource name of its GPUs, or of shares of them such as nvidia.com/gpu.shared. (Not in "
            "NNI.)"))
    cpu_number: float | None = Field(
        default=None, ge=0, le=99_999, description="CPUs for each pod, as request and limit. Default, and 0: no "
                                                   "request and no limit.")
    memory_size: Megabytes | None = Field(
        default=None, ge=1, description='Memory for each pod in megabytes, or with a unit such as "4gb". '
                                        "Default: no request and no limit.")
    private_registry_auth_path: Path | None = Field(
        default=None, description="A docker config.json on the server, for the image's registry. A Secret is made of "
                                  "it, and is removed with the experiment.")
    code_directory: str | None = Field(
        default=None, description="Folder of this role's code, in which its command runs. Default: "
                                  "trialCodeDirectory, or the folder that all other roles name. (NNI requires it, and "
                                  "uses trialCodeDirectory for all roles.)")
    python: Annotated[str, StringConstraints(min_length=1), matching(r"\S+", "a command without blanks")] = Field(
        default="python3", description="Name of the Python program in the image. (Not in NNI.)")

    @field_validator("command")
    @classmethod
    def _empty_is_none(cls, value: str | None) -> str | None:
        return value if value and value.strip() else None


class GpuMemoryResource(SettingsModel):
    """What the cluster offers for a part of a GPU, and how much memory one of it has."""

    resource: Annotated[str, StringConstraints(min_length=1, max_length=300)] = Field(
        description="Name of the resource: nvidia.com/mig-1g.10gb, nvidia.com/gpumem.")
    memory_size: Megabytes = Field(
        ge=1, description='GPU memory of one of it: megabytes, or a size with its unit such as "10gb".')
    several: bool = Field(
        default=False, description="true: a pod asks for as many as it needs, as of a resource that counts megabytes. "
                                   "Default: for one.")
    beside_gpu: bool = Field(
        default=False, description="true: a pod also asks for one gpuResource, as HAMi wants it for nvidia.com/gpumem.")


class KubernetesClusterSettings(ClusterSettings):
    """Which cluster, as whom, in which namespace."""

    fields_of_checks: ClassVar[Mapping[str, str]] = {
        "connection": "kubeconfig", "namespace": "namespace", "quota": "namespace", "storage": "storage",
        "way_home": "wayHome"}
    reuse_mode_meaning: ClassVar[str] = (
        "it has no effect on Kubernetes: each trial has pods of its own, so that the cluster schedules, limits and "
        "cleans up each trial separately")

    keeps_secrets: ClassVar[frozenset[str]] = frozenset({"way_home", "max_unfinished_objects", "for_all_trials",
                                                         "gpu_memory_resources", "members_may_use"})

    kubeconfig: Path | None = Field(
        default=None, description="kubeconfig file on the server. Default: in the cluster itself the pod's service "
                                  "account, else KUBECONFIG or ~/.kube/config. (Not in NNI.)")
    context: str | None = Field(
        default=None, description="Context in the kubeconfig. Default: its current one. (Not in NNI.)")
    namespace: Namespace = Field(default="default", description="Where trials run; it must exist.")
    storage: StorageSettings | None = Field(default=None, description="Shared storage that pods mount.")
    way_home: Literal["network", "log"] = Field(
        default="network", description="How trials report. network: they call this server. log: they cannot call it, "
                                       "and the server reads their reports from the pods' logs. (Not in NNI.)")
    max_unfinished_objects: int = Field(
        default=200, ge=1, description="Maximum number of trials on the cluster at the same time. (Not in NNI.)")
    for_all_trials: OfAllTrials | None = Field(
        default=None, description="Labels, annotations, node selector and tolerations of all trials. (Not in NNI.)")
    members_may_use: MembersMayUse | None = Field(
        default=None, description="What experiments of people who are no administrators may name. Default: only what "
                                  "the cluster's metadata trial_config gives them. (Not in NNI.)")

    gpu_memory_resources: tuple[GpuMemoryResource, ...] | None = Field(
        default=None, max_length=50, description=(
            "What pods with one GPU ask for in place of gpuResource where an experiment has gpuMemory: the smallest "
            "that has enough. Default: gpuResource. (Not in NNI.)"))

    def gpu_shares(self, role: RoleSettings, gpu_number: int | None, memory: int) -> dict[str, int] | None:
        """What a pod asks for in place of GPUs: resource -> how many; None: GPUs. ``memory``: bytes that it needs of
        its GPU, 0: all.
        """
        if gpu_number != 1 or not memory:
            return None
        found: list[tuple[int, dict[str, int]]] = []
        for one in self.gpu_memory_resources or ():
            each = one.memory_size * 1024 ** 2
            count = -(-memory // each) if one.several else 1
            if count * each >= memory:
                whole = {role.gpu_resource: 1} if one.beside_gpu else {}
                found.append((count * each, {**whole, one.resource: count}))
        return min(found, key=lambda pair: pair[0])[1] if found else None

    @model_validator(mode="before")
    @classmethod
    def _storage_may_be_empty(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("storage") == {}:
            return {key: value for key, value in data.items() if key != "storage"}
        return data

    def borrowed_from_the_server(self) -> str:
        # also with a kubeconfig of one's own: such a file may name programs that are run on the server
        return "its access to Kubernetes"

    def lacks_way_for_code(self) -> str:
        if self.keepers_call_home() or self.storage is not None and self.storage.folder_here is not None:
            return ""
        return ("Pods that cannot call the server (wayHome: log) get their code through the storage. Set storage with "
                "localMountPoint.")

    def keepers_call_home(self) -> bool:
        return self.way_home == "network"


#: Place of its codeDirectory in files, name, settings.
PlacedRole = tuple[tuple[str | int, ...], str, RoleSettings]

OneTrialPerGpu = Annotated[int, one_trial_per_gpu(
    "Kubernetes gives a GPU to one pod. To let trials share GPUs, have the cluster's device plugin offer shares of "
    "them (time-slicing or MPS), and give their name, such as nvidia.com/gpu.shared, in gpuResource")]


class KubernetesTrialOptions(SchedulingOptions):
    """What one experiment asks of its trials' pods, whatever their kind."""

    run_policy: RunPolicy = Field(default=RunPolicy(), description="How the cluster treats a trial's object.")
    keeper_image: str | None = Field(
        default=None, min_length=1, description="An image that contains the keeper as /keeper.pyz. An init container "
                                                "copies it from there. Default: the keeper comes from a ConfigMap or "
                                                "the storage. (Not in NNI.)")
    reuse_mode: bool | None = Field(
        default=None, description="Accepted because NNI's files have it. It has no effect here: each trial has pods of "
                                  "its own.")
    max_trial_number_per_gpu: OneTrialPerGpu | None = Field(
        default=None, description="Must be 1: Kubernetes gives a GPU to one pod. To use shares of GPUs that the "
                                  "cluster offers (time-slicing, MPS), give their name in gpuResource.")

    def roles(self) -> dict[str, RoleSettings]:
        """The roles by name, the reporting one first."""
        raise NotImplementedError

    def refused_on(self, settings: ClusterSettings, given: Self, *, by_administrator: bool
                   ) -> list[tuple[str, str]]:
        assert isinstance(settings, KubernetesClusterSettings)
        found = conflicts(self, settings.for_all_trials)
        if by_administrator:
            return found
        asked, of_cluster = self.asked(), given.asked()
        beyond = {field: [name for name in names if name not in of_cluster[field]] for field, names in asked.items()}
        return [*found, *not_permitted(beyond, settings.members_may_use or MembersMayUse())]

    def own_command(self) -> str:
        reporting = next(iter(self.roles().values()), None)
        return (reporting.command or "") if reporting is not None else ""

    def gpus_of_a_trial(self, gpu_number: int | None) -> int:
        of_a_pod = [(role.replicas, role.gpu_number) for role in self.roles().values()]
        return sum(pods * (gpu_number or 0 if gpus is None else gpus) for pods, gpus in of_a_pod)

    def cpus_of_a_trial(self) -> float:
        return sum(role.replicas * (role.cpu_number or 1.0) for role in self.roles().values())

    def with_gpus(self, gpu_number: int | None) -> Self:
        return self._with_roles(lambda role: role if role.gpu_number is not None
                                else role.model_copy(update={"gpu_number": gpu_number}))

    def code_directories(self) -> dict[tuple[str | int, ...], str | None]:
        return {place: role.code_directory or None for place, _, role in self._roles_with_code()}

    def with_code_directories(self, folder_for: Callable[[str | None], str | None]) -> Self:
        names = {name for _, name, _ in self._roles_with_code()}
        changed = {id(role): role.model_copy(update={
            "code_directory": folder_for(role.code_directory or None) if name in names else None})
            for _, name, role in self._placed_roles()}
        return self._with_roles(lambda role: changed[id(role)])

    def code_parts(self) -> tuple[CodePart, ...]:
        parts: dict[str, CodePart] = {}
        for place, name, role in self._roles_with_code():
            folder = role.code_directory
            if not folder:
                return ()
            first = parts.get(folder) or CodePart(name.lower(), folder, place, ())
            parts[folder] = replace(first, commands=(*first.commands, role.command or ""))
        return tuple(parts.values()) if len(parts) > 1 else ()

    def code_part_of(self, role: str) -> str:
        """Name of the part of the code archive in which a role works; "" where all of it is the role's."""
        folder = next((settings.code_directory for _, name, settings in self._roles_with_code() if name == role), None)
        return next((part.name for part in self.code_parts() if part.folder == folder), "")

    def gets_code(self, role: str) -> bool:
        """Whether the command of a role's pods runs in the trial's code."""
        return True

    def _roles_with_code(self) -> list[PlacedRole]:
        """The roles of the file that get code, the reporting one first."""
        placed = [(place, name, role) for place, name, role in self._placed_roles() if self.gets_code(name)]
        if len(placed) < 2:
            return placed
        order = list(self.roles())  # of a template there are none: its roles name no folders
        return sorted(placed, key=lambda one: order.index(one[1]))

    def _placed_roles(self) -> list[PlacedRole]:
        found: list[PlacedRole] = []
        for field in type(self).model_fields:
            value = getattr(self, field)
            if isinstance(value, RoleSettings):
                found.append(((file_name(field), "codeDirectory"), field, value))
            elif isinstance(value, tuple):
                found += [((file_name(field), index, "codeDirectory"), getattr(role, "name", field), role)
                          for index, role in enumerate(value) if isinstance(role, RoleSettings)]
        return found

    def _with_roles(self, change: Callable[[RoleSettings], RoleSettings]) -> Self:
        return self.model_copy(update={name: _changed(getattr(self, name), change)
                                       for name in type(self).model_fields})


def _changed(value: Any, change: Callable[[RoleSettings], RoleSettings]) -> Any:
    """A role, or roles, changed; anything else as it is."""
    if isinstance(value, tuple):
        return tuple(_changed(item, change) for item in value)
    return change(value) if isinstance(value, RoleSettings) else value


def longest_role_name(replicas: int) -> int:
    """How long a role's name may be so that its pods' names fit."""
    return LONGEST_POD_NAME - LONGEST_OBJECT_NAME - len("--") - len(str(replicas - 1))


def file_name(name: str) -> str:
    """A field's name in files."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


class KubernetesPlaceOptions(PlaceOptions, KubernetesTrialOptions):
    """Before ``KubernetesTrialOptions`` among the bases of the options of kinds whose pods may stay as warm places."""

    def why_no_place(self) -> str:
        roles = self.roles()
        if len(roles) != 1 or any(role.replicas != 1 for role in roles.values()):
            return "a trial has several pods"
        return "the code is in the image, where a trial can change it for the next one" if self.code_in_image() else ""
