"""The platform frameworkcontroller: each trial is a Framework."""

from __future__ import annotations

from typing import ClassVar

from trainingservice.cluster_settings import ClusterSettings, TrialOptions
from trainingservice.errors import PermanentError
from trainingservice.frameworkcontroller.config import (
    FrameworkControllerClusterSettings,
    FrameworkControllerTrialOptions,
)
from trainingservice.frameworkcontroller.framework import FrameworkKind, with_barrier
from trainingservice.kubernetes_base.kind import Role, TrialKind
from trainingservice.kubernetes_base.service import KubernetesService
from trainingservice.trial_job import TrialJobDetail


class FrameworkControllerTrainingService(KubernetesService):
    """Runs trials as Frameworks. See KubernetesService."""

    platform: ClassVar[str] = "frameworkcontroller"
    settings_model: ClassVar[type[ClusterSettings]] = FrameworkControllerClusterSettings
    options_model: ClassVar[type[TrialOptions]] = FrameworkControllerTrialOptions
    has_places: ClassVar[bool] = True

    def find_kind(self) -> TrialKind:
        return FrameworkKind()

    def roles_of(self, job: TrialJobDetail) -> list[Role]:
        options = self.options_of(job.form.options)
        assert isinstance(options, FrameworkControllerTrialOptions)
        try:
            return with_barrier(super().roles_of(job), options)
        except ValueError as error:
            raise PermanentError(f"{error}.") from error
