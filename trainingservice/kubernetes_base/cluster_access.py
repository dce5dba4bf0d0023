"""What submissions and rehearsals need of the service of a Kubernetes cluster."""

from __future__ import annotations

from typing import Protocol

from trainingservice.base import ServiceContext
from trainingservice.cluster_settings import TrialOptions
from trainingservice.keeper.collected_journals import CollectedJournals
from trainingservice.kubernetes_base.api import KubernetesApi
from trainingservice.kubernetes_base.belongings import Belongings
from trainingservice.kubernetes_base.config import KubernetesClusterSettings, KubernetesTrialOptions
from trainingservice.kubernetes_base.kind import Role, TrialKind
from trainingservice.kubernetes_base.storage import SharedStorage
from trainingservice.trial_job import TrialJobDetail


class ClusterAccess(Protocol):
    """``KubernetesService`` is one. Its own module says what the members are."""

    api: KubernetesApi
    namespace: str
    cluster: str
    belongings: Belongings
    storage: SharedStorage | None
    collected: CollectedJournals

    @property
    def settings(self) -> KubernetesClusterSettings: ...

    @property
    def context(self) -> ServiceContext: ...

    @property
    def platform(self) -> str: ...

    @property
    def kind(self) -> TrialKind: ...

    def options_of(self, options: TrialOptions) -> KubernetesTrialOptions: ...

    def roles_of(self, job: TrialJobDetail) -> list[Role]: ...
