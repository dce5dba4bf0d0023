"""What a configuration file may say about an Azure ML workspace, and about one experiment's jobs there.

Fields that NNI has keep its names and meanings. Workspace, compute and who we are there is the cluster; image and
data are what one experiment asks of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, SecretStr, StringConstraints, model_validator

from trainingservice.cluster_settings import ClusterSettings
from trainingservice.container_path import ContainerPath, is_below
from trainingservice.gpus.one_trial_per_gpu import one_trial_per_gpu
from trainingservice.places.options import REUSE_MODE_MEANING, PlaceOptions
from trainingservice.refused_values import matching

Name = Annotated[str, StringConstraints(min_length=1), matching(r"[^\s/?#]+", "a name without blanks, /, ? and #")]
HttpsAddress = Annotated[str, matching(r"https://[^\s/?#]+/?", "an address such as https://login.azure.example")]
Datastore = Annotated[str, matching(r"azureml://\S+", "an address such as azureml://datastores/store/paths/folder/")]
InputName = Annotated[str, matching(r"[A-Za-z_][A-Za-z0-9_]*", "a name of letters, digits and _, not beginning with a "
                                    "digit")]


class AzureMlClusterSettings(ClusterSettings):
    """One compute of one workspace, and how to log in."""

    platform_name: ClassVar[str] = "azureml"
    fields_of_checks: ClassVar[Mapping[str, str]] = {
        "connection": "workspaceName", "rights": "clientSecret", "compute": "computeTarget"}
    reuse_mode_meaning: ClassVar[str] = REUSE_MODE_MEANING
    v1_fields: ClassVar[Mapping[str, str]] = {
        "amlConfig.subscriptionId": "subscriptionId",
        "amlConfig.resourceGroup": "resourceGroup",
        "amlConfig.workspaceName": "workspaceName",
        "amlConfig.computeTarget": "computeTarget",
        "trial.computeTarget": "computeTarget",  # NNI 1.7; later versions have it in amlConfig
    }

    #: The secret is sent to the authority of the tenant; what it brings, to the resource manager.
    keeps_secrets: ClassVar[frozenset[str]] = frozenset({
        "subscription_id", "resource_group", "workspace_name", "compute_target"})

    subscription_id: Name = Field(description="Id of the Azure subscription.")
    resource_group: Name = Field(description="Resource group of the workspace.")
    workspace_name: Name = Field(description="Name of the workspace.")
    compute_target: Name = Field(description="Name of the compute cluster that runs the jobs.")
    tenant_id: Name | None = Field(default=None, description="Service principal: its tenant.")
    client_id: Name | None = Field(
        default=None, description="Service principal: its application id. With managedIdentity: the id of a "
                                  "user-assigned identity.")
    client_secret: SecretStr | None = Field(default=None, description="Service principal: its secret.")
    managed_identity: bool = Field(
        default=False, description="Log in with the managed identity of the machine the server runs on.")
    authority_host: HttpsAddress | None = Field(
        default=None, description="Address of the log-in service, for sovereign clouds such as Azure Government. "
                                  "Default: Azure's public cloud.")
    resource_manager: HttpsAddress | None = Field(
        default=None, description="Address of the resource manager, for sovereign clouds such as Azure Government. "
                                  "Default: Azure's public cloud.")

    @model_validator(mode="after")
    def _one_log_in(self) -> AzureMlClusterSettings:
        if self.client_secret is not None and (self.tenant_id is None or self.client_id is None):
            raise ValueError("clientSecret is the secret of a service principal; give its tenantId and clientId, too")
        if self.client_secret is not None and self.managed_identity:
            raise ValueError("clientSecret and managedIdentity cannot be given together; leave one of them out")
        return self

    def borrowed_from_the_server(self) -> str:
        return "" if self.client_secret is not None else "its log-in at Azure"

    @property
    def arm_path(self) -> str:
        """The workspace in Azure's own addresses."""
        return (f"/subscriptions/{self.subscription_id}/resourceGroups/{self.resource_group}/providers/"
                f"Microsoft.MachineLearningServices/workspaces/{self.workspace_name}")


class AzureMlTrialOptions(PlaceOptions):
    """What one experiment asks of the workspace for each of its jobs."""

    v1_fields: ClassVar[Mapping[str, str]] = {
        "trial.image": "dockerImage",
        "amlConfig.maxTrialNumPerGpu": "maxTrialNumberPerGpu",
    }
    v1_dropped: ClassVar[Mapping[str, str]] = {
        "amlConfig.useActiveGpu": "has no effect; each trial is a job with a node of its own"}
    v1_dropped_types: ClassVar[Mapping[str, Any]] = {"amlConfig.useActiveGpu": bool}

    docker_image: str = Field(default="msranni/nni:latest", min_length=1,
                              description="Image of each job. It needs Python 3.8 or newer; NNI is not needed.")
    environment: Annotated[str, matching(r"azureml:[^:\s]+(:[^:\s]+|@latest)",
                                         "azureml:name:version or azureml:name@latest")] | None = Field(
        default=None, description="A registered environment instead of an image: azureml:name:version. (Not in NNI.)")
    max_trial_number_per_gpu: Annotated[int, one_trial_per_gpu("each trial is a job with a node of its own")] | None = \
        Field(default=None, description="Must be 1: each trial is a job with a node of its own.")
    data_mounts: dict[InputName, str] = Field(
        default={}, description="Data that each job mounts, read-only: a name and an address such as "
                                "azureml://datastores/store/paths/folder/. The trial finds the folder in the "
                                "environment variable NNI_DATA_ followed by the name. (Not in NNI.)")
    writable_mounts: dict[ContainerPath, Datastore] = Field(
        default={}, description="Folders of datastores that each job can write to: the path in the job, and an address "
                                "such as azureml://datastores/store/paths/folder/. Use this instead of sharedStorage. "
                                "(Not in NNI.)")
    shm_size: Annotated[str, matching(r"[0-9]+[kmgKMG]?b?", 'a size such as "2g" or "512m"')] | None = Field(
        default=None, description='Shared memory of each job, such as "2g". (Not in NNI.)')
    docker_args: str | None = Field(default=None, description="Further arguments of docker run. (Not in NNI.)")
    experiment_name: Name | None = Field(
        default=None, description="Experiment of Azure ML that shows the jobs. Default: nni_exp_ and the experiment's "
                                  "id. (Not in NNI.)")
    channel: Literal["auto", "http", "log"] = Field(
        default="auto", description="How trials get their code and report: by calling this server (http), or through "
                                    "the job's uploaded code and its log. auto: http if the server has an address for "
                                    "other machines, else log. (Not in NNI.)")

    def lacks_share(self, path: str, settings: ClusterSettings) -> str:
        if is_below(path, self.writable_mounts):
            return ""
        return (f"jobs on Azure ML find no share at {path}, because their containers cannot mount file systems. "
                "Register this share as a datastore of the workspace, and give the datastore in the field "
                f"writableMounts, such as writableMounts: {{{path}: azureml://datastores/lab/paths/nni/}}")
