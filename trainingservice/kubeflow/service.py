"""The platform kubeflow: each trial is an object of one of Kubeflow's operators."""

from __future__ import annotations

from typing import ClassVar

from trainingservice.cluster_settings import ClusterSettings, TrialOptions
from trainingservice.errors import PermanentError, TemporaryError
from trainingservice.kubeflow.config import KubeflowClusterSettings, KubeflowTrialOptions
from trainingservice.kubeflow.replicated_job import GROUP, MPIJobKind, PyTorchJobKind, ReplicatedKind, TFJobKind
from trainingservice.kubeflow.train_job import TRAIN_JOBS, TrainJobKind
from trainingservice.kubernetes_base.api import ApiRefusal, error_of
from trainingservice.kubernetes_base.kind import TrialKind
from trainingservice.kubernetes_base.rehearsal import api_resources
from trainingservice.kubernetes_base.service import KubernetesService


class KubeflowTrainingService(KubernetesService):
    """Runs trials as TFJobs, PyTorchJobs or MPIJobs; as TrainJobs where a cluster has only those for PyTorch."""

    platform: ClassVar[str] = "kubeflow"
    settings_model: ClassVar[type[ClusterSettings]] = KubeflowClusterSettings
    options_model: ClassVar[type[TrialOptions]] = KubeflowTrialOptions
    settings: KubeflowClusterSettings

    def find_kind(self) -> TrialKind:
        """The operator's kind. Raises PermanentError where the cluster has neither it nor what can stand for it."""
        kinds: dict[str, type[TFJobKind | PyTorchJobKind | MPIJobKind]] = {
            "tf-operator": TFJobKind, "pytorch-operator": PyTorchJobKind, "mpi-operator": MPIJobKind}
        kind: ReplicatedKind = kinds[self.settings.operator](self.settings.api_version)
        try:
            if kind.resource.plural in api_resources(self, GROUP, kind.resource.version):
                return kind
            has_trainer = TRAIN_JOBS.plural in api_resources(self, TRAIN_JOBS.group, TRAIN_JOBS.version)
        except ApiRefusal as refusal:
            raise error_of(refusal, "tell what it knows") from refusal
        if has_trainer and self.settings.operator == "pytorch-operator":
            return TrainJobKind()
        if self.api.is_starting():
            raise TemporaryError(f"The Kubernetes API is starting and does not know {kind.resource.plural} yet.", 5.0)
        other = ""
        if has_trainer:
            other = (" It has Kubeflow Trainer, whose TrainJobs can replace only pytorch-operator: all their nodes are "
                     "equal, and there is no runtime for TensorFlow.")
        raise PermanentError(f"The cluster does not know {kind.resource.plural} of {kind.resource.api_version}.{other} "
                             f"Install {self.settings.operator}, correct operator and apiVersion, or use the platform "
                             "kubernetes.")
