"""All models, one file per subject."""

from .account import ApiToken, SignInLink, User
from .cluster import Cluster, ClusterMetadata, Machine
from .experiment import CodeArchive, Experiment, ExperimentEvent, TunerEvent
from .log_line import LogLine
from .report import Metric, ResourceReading, TrialFile, TrialOutput
from .trial import Attempt, Trial, TrialEvent, TrialParameters
from .worker import Worker

__all__ = [
    "ApiToken", "Attempt", "Cluster", "ClusterMetadata", "CodeArchive", "Experiment", "ExperimentEvent", "LogLine",
    "Machine", "Metric", "ResourceReading", "SignInLink", "Trial", "TrialEvent", "TrialFile", "TrialOutput",
    "TrialParameters", "TunerEvent", "User", "Worker",
]
