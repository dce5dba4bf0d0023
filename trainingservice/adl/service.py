"""The platform adl: each trial is an AdaptDLJob."""

from __future__ import annotations

from typing import ClassVar

from trainingservice.adl.config import AdlClusterSettings, AdlTrialOptions
from trainingservice.adl.job import AdaptDlKind
from trainingservice.cluster_settings import ClusterSettings, TrialOptions
from trainingservice.kubernetes_base.kind import TrialKind
from trainingservice.kubernetes_base.service import KubernetesService


class AdlTrainingService(KubernetesService):
    """Runs trials as AdaptDLJobs. See KubernetesService."""

    platform: ClassVar[str] = "adl"
    settings_model: ClassVar[type[ClusterSettings]] = AdlClusterSettings
    options_model: ClassVar[type[TrialOptions]] = AdlTrialOptions
    continues_jobs: ClassVar[bool] = True

    def find_kind(self) -> TrialKind:
        return AdaptDlKind()
