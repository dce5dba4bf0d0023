"""The platform kubernetes: each trial is a Job."""

from __future__ import annotations

from typing import ClassVar

from trainingservice.cluster_settings import ClusterSettings, TrialOptions
from trainingservice.kubernetes.config import JobClusterSettings, JobTrialOptions
from trainingservice.kubernetes.job import JobKind
from trainingservice.kubernetes_base.kind import TrialKind
from trainingservice.kubernetes_base.service import KubernetesService


class KubernetesTrainingService(KubernetesService):
    """Runs trials as Jobs. See KubernetesService."""

    platform: ClassVar[str] = "kubernetes"
    settings_model: ClassVar[type[ClusterSettings]] = JobClusterSettings
    options_model: ClassVar[type[TrialOptions]] = JobTrialOptions
    has_places: ClassVar[bool] = True

    def find_kind(self) -> TrialKind:
        return JobKind()
