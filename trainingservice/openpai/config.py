"""What a configuration file may say about an OpenPAI cluster, and about one experiment's jobs there.

Fields that NNI has keep its names and meanings. Where the cluster is, who we are there and the storage that
server and jobs share is the cluster; resources, image and queue are what one experiment asks of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, SecretStr, StringConstraints, ValidationInfo, field_validator, model_validator

from trainingservice.cluster_settings import ClusterSettings
from trainingservice.container_path import ContainerPath, is_below
from trainingservice.gpus.one_trial_per_gpu import one_trial_per_gpu
from trainingservice.limited_yaml import YamlRefused, read_yaml_file
from trainingservice.memory_size import Megabytes
from trainingservice.openpai.protocol_schema import own_document_problems
from trainingservice.openpai.storages import own_storages
from trainingservice.places.options import REUSE_MODE_MEANING, PlaceOptions
from trainingservice.refused_values import matching
from trainingservice.rest.web_address import token_of_one_word, web_address

Name = Annotated[str, StringConstraints(min_length=1), matching(r"\S+", "a name without blanks")]


def _with_http(host: Any) -> Any:
    """In NNI's v1 form a bare host means plain HTTP."""
    return f"http://{host}" if isinstance(host, str) and "://" not in host else host


class OpenPaiClusterSettings(ClusterSettings):
    """One account on one OpenPAI cluster, and the storage that its jobs share with this server."""

    platform_name: ClassVar[str] = "openpai"
    fields_of_checks: ClassVar[Mapping[str, str]] = {
        "connection": "host", "rights": "username", "token": "token", "folder": "localStorageMountPoint",
        "disk": "localStorageMountPoint", "storage": "storageConfigName"}
    reuse_mode_meaning: ClassVar[str] = REUSE_MODE_MEANING
    v1_fields: ClassVar[Mapping[str, str]] = {
        "paiConfig.host": "host",
        "paiConfig.userName": "username",
        "paiConfig.token": "token",
        "paiConfig.passWord": "password",
        "paiYarnConfig.host": "host",
        "paiYarnConfig.userName": "username",
        "paiYarnConfig.token": "token",
        "paiYarnConfig.passWord": "password",
        "trial.paiStorageConfigName": "storageConfigName",
        "trial.nniManagerNFSMountPath": "localStorageMountPoint",
        "trial.containerNFSMountPath": "containerStorageMountPoint",
    }
    v1_values: ClassVar[Mapping[str, Callable[[Any], Any]]] = {
        "paiConfig.host": _with_http, "paiYarnConfig.host": _with_http}
    v1_dropped: ClassVar[Mapping[str, str]] = {
        "trial.paiStoragePlugin": "not needed; the cluster mounts the storage that paiStorageConfigName names, or the "
                                  "account's default storage",
        "trial.dataDir": "has no effect, as in NNI; trials read data by addresses of their own",
        "trial.outputDir": "has no effect, as in NNI; the output of trials is collected here",
    }
    v1_dropped_types: ClassVar[Mapping[str, Any]] = {
        "trial.paiStoragePlugin": str, "trial.dataDir": str, "trial.outputDir": str}
    v1_refused: ClassVar[Mapping[str, str]] = {
        "trial.authFile": "belongs to OpenPAI's clusters on YARN. Give the log-in of the image's registry in a job "
                          "document (paiConfigPath), in its field prerequisites",
        "trial.portList": "belongs to OpenPAI's clusters on YARN. Give the ports in a job document (paiConfigPath), in "
                          "the field resourcePerInstance of its task role",
    }

    keeps_secrets: ClassVar[frozenset[str]] = frozenset({
        "storage_config_name", "local_storage_mount_point", "container_storage_mount_point"})

    host: Name = Field(description="Address of the cluster's web portal. Without http:// or https:// it means "
                                   "https:// (in NNI's v1 form http://).")
    username: Name = Field(description="The account that submits the jobs.")
    token: SecretStr | None = Field(
        default=None, description="A token of this account, from the profile page of the web portal. Application "
                                  "tokens do not expire. Give this or password.")
    password: SecretStr | None = Field(
        default=None, min_length=6, description="The account's password, if the cluster accepts passwords. The server "
                                                "uses it to get a token when it needs one. (Not in NNI 2.)")
    ca_file: Path | None = Field(
        default=None, description="PEM file of the authority that signed the cluster's certificate, if it is a private "
                                  "one. (Not in NNI.)")
    storage_config_name: Name | None = Field(
        default=None, description="Name of a storage of the cluster that the account may use and that is mounted on "
                                  "this server. Default: the account's default storage, if the mount points are "
                                  "given. Without a storage, jobs get their code from this server and must reach it.")
    local_storage_mount_point: Path | None = Field(
        default=None, description="Folder at which that storage is mounted on this server. If the storage is not "
                                  "shared among users, the account's folder in it.")
    container_storage_mount_point: ContainerPath | None = Field(
        default=None, description="Path of the storage inside jobs.")

    def borrowed_from_the_server(self) -> str:
        return "a folder of its file system" if self.local_storage_mount_point is not None else ""

    def must_call_home(self) -> bool:
        return self.local_storage_mount_point is None

    @field_validator("host")
    @classmethod
    def _is_address(cls, value: str) -> str:
        return web_address(value, "https", what="a host name or an address", example="https://pai.lab.example")

    @field_validator("token")
    @classmethod
    def _is_one_word(cls, value: SecretStr | None) -> SecretStr | None:
        return token_of_one_word(value)

    @field_validator("local_storage_mount_point")
    @classmethod
    def _is_folder(cls, value: Path | None, info: ValidationInfo) -> Path | None:
        if value is not None and (info.context or {}).get("must_exist") and not value.is_dir():
            raise ValueError(f"there is no folder {value}; mount the storage there or correct the path")
        return value

    @model_validator(mode="after")
    def _whole_storage(self) -> OpenPaiClusterSettings:
        both = (self.local_storage_mount_point, self.container_storage_mount_point)
        if any(both) and not all(both) or self.storage_config_name is not None and not all(both):
            raise ValueError("a storage needs localStorageMountPoint (its folder on this server) and "
                             "containerStorageMountPoint (its path inside jobs; in NNI's v1 form "
                             "nniManagerNFSMountPath and containerNFSMountPath); give both, or omit both and "
                             "storageConfigName. For a storage that only jobs mount, use storages")
        return self

    @model_validator(mode="after")
    def _one_credential(self) -> OpenPaiClusterSettings:
        if self.token is not None and self.password is not None:
            raise ValueError("token and password cannot be given together; leave one of them out")
        if self.token is None and self.password is None:
            raise ValueError("token is required; copy a token from your profile page in the cluster's web portal, or "
                             "give password if the cluster accepts passwords")
        return self


class OpenPaiTrialOptions(PlaceOptions):
    """What one experiment asks of the cluster for each of its jobs."""

    v1_fields: ClassVar[Mapping[str, str]] = {
        "trial.cpuNum": "trialCpuNumber",
        "trial.memoryMB": "trialMemorySize",
        "trial.shmMB": "shmSize",
        "trial.image": "dockerImage",
        "trial.virtualCluster": "virtualCluster",
        "trial.paiConfigPath": "openpaiConfigFile",
        "paiConfig.reuse": "reuseMode",
        # numbers of paiConfig win over those of trial: they come later
        "paiConfig.gpuNum": "/trialGpuNumber",
        "paiConfig.cpuNum": "trialCpuNumber",
        "paiConfig.memoryMB": "trialMemorySize",
    }
    v1_dropped: ClassVar[Mapping[str, str]] = {
        "paiConfig.maxTrialNumPerGpu": "1 is what holds; each trial is a job with GPUs of its own",
        "paiConfig.useActiveGpu": "has no effect; the cluster gives each job GPUs of its own",
    }
    v1_dropped_types: ClassVar[Mapping[str, Any]] = {
        "paiConfig.maxTrialNumPerGpu": Annotated[int, one_trial_per_gpu("each trial is a job with GPUs of its own")],
        "paiConfig.useActiveGpu": bool}

    trial_cpu_number: int = Field(default=1, ge=1, le=99_999, description="CPU cores of each job.")
    trial_memory_size: Megabytes = Field(
        default=8192, ge=100, description='Memory of each job: megabytes, or a size with its unit such as "8gb".')
    shm_size: Megabytes | None = Field(
        default=None, ge=1, description='Shared memory of each job: megabytes, or a size with its unit such as "2gb". '
                                        "Default: the cluster's default, usually 512 MB. (Not in NNI 2.)")
    docker_image: str = Field(default="msranni/nni:latest", min_length=1,
                              description="Image of each job. It needs Python 3.8 or newer; NNI is not needed.")
    virtual_cluster: Annotated[str, matching(r"[A-Za-z0-9_]+", "letters, digits and _")] | None = Field(
        default=None, description="The cluster's queue. Default: the queue default.")
    storages: dict[Name, ContainerPath] = Field(
        default={}, description="Further storages of the cluster that each job mounts: the storage's name, and the "
                                "path in the job. Use this instead of sharedStorage. (Not in NNI.)")
    openpai_config: dict[str, Any] | None = Field(
        default=None, description="A whole job document (protocol version 2) that is used instead of the fields above. "
                                  "The server adds name and storage. The first task role reports the metrics.")
    openpai_config_file: Path | None = Field(
        default=None, description="The same in a YAML file, which is read when the experiment is launched.")
    channel: Literal["auto", "http", "storage"] = Field(
        default="auto", description="How trials get their code and report: by calling this server (http), or through "
                                    "the storage. auto: http if the server has an address for other machines, else the "
                                    "storage. (Not in NNI.)")

    def why_no_place(self) -> str:
        return "the job is that of openpaiConfig" if self.openpai_config is not None else ""

    def cpus_of_a_trial(self) -> float:
        return float(self.trial_cpu_number)

    def lacks_share(self, path: str, settings: ClusterSettings) -> str:
        assert isinstance(settings, OpenPaiClusterSettings)
        in_document = [str(entry.get("mountPath") or f"/mnt/{entry['name']}")
                       for entry in own_storages(self.openpai_config)]
        ours = settings.container_storage_mount_point
        if is_below(path, [*([ours] if ours is not None else []), *self.storages.values(), *in_document]):
            return ""
        return (f"jobs on OpenPAI find no share at {path}, because their containers cannot mount file systems. Give "
                "this storage in the field storages, by its name in the cluster, such as storages: {lab-nfs: "
                f"{path}}}; your profile page in the web portal names those you may use")

    @model_validator(mode="before")
    @classmethod
    def _read_config_file(cls, data: Any, info: ValidationInfo) -> Any:
        if not isinstance(data, dict):
            return data
        keys = [key for key in ("openpaiConfigFile", "openpai_config_file") if data.get(key) is not None]
        if not keys:
            return data
        if any(data.get(key) is not None for key in ("openpaiConfig", "openpai_config")):
            raise ValueError("openpaiConfig and openpaiConfigFile cannot be given together; leave one of them out")
        if not isinstance(data[keys[0]], str | Path):
            return data  # the field's own type says what is wrong
        path = Path(data[keys[0]])
        context = info.context or {}
        if not context.get("reads_files", True) or not path.is_file() and not context.get("must_exist", True):
            return data
        try:
            document = read_yaml_file(path)
        except OSError as error:
            raise ValueError(f"openpaiConfigFile: {path} cannot be read ({error.strerror})") from error
        except YamlRefused as error:
            raise ValueError(f"openpaiConfigFile: {path} cannot be read as YAML: {error}") from error
        rest = {key: value for key, value in data.items() if key != keys[0]}
        return {**rest, "openpaiConfig": document}

    @field_validator("openpai_config")
    @classmethod
    def _has_roles(cls, value: dict[str, Any] | None, info: ValidationInfo) -> dict[str, Any] | None:
        if value is not None and not isinstance(value.get("taskRoles"), dict):
            raise ValueError("must be a job document of OpenPAI's protocol 2, with taskRoles")
        is_launched = (info.context or {}).get("must_exist", False)  # else it was, and must stay readable
        problems = own_document_problems(value) if value is not None and is_launched else []
        if problems:
            raise ValueError(f"OpenPAI would refuse this job document: {'; '.join(problems[:3])}")
        return value
