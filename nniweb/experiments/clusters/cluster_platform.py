"""The platform of a cluster, for what is shown of the cluster and of its trials."""

from nniweb.experiments.models import Attempt, Cluster
from trainingservice.base import TrainingService
from trainingservice.errors import TrainingServiceError
from trainingservice.platforms import load_platform


def platform_of(cluster: Cluster) -> type[TrainingService] | None:
    """None where this server does not have the platform, or cannot use what it has."""
    try:
        return load_platform(cluster.platform)
    except TrainingServiceError:
        return None


def runs_without_keeper(cluster: Cluster, attempt: Attempt | None) -> bool:
    """Whether no keeper sends what the attempt prints, writes and uses. ``attempt``: None before the first."""
    platform = platform_of(cluster)
    return platform is not None and not platform.keepers_report and not (attempt is not None and attempt.journal_id)
