"""All models, one file per subject."""

from .account import ApiToken, SignInLink, SingleSignOnIdentity, User
from .audit import AuditEntry
from .change import ExperimentChange, TrialNote
from .checkpoint import Checkpoint, CheckpointChunk, CheckpointChunkUse
from .cluster import Cluster, ClusterMetadata, Machine
from .disk_usage import DiskUsage, FolderUsage
from .earlier_experiment import EarlierExperiment
from .experiment import CodeArchive, CodeVariant, Experiment, ExperimentEvent, TunerEvent
from .experiment_cluster import ExperimentCluster
from .limits import Budget, BudgetUse, LedgerEntry, Price, Quota
from .log_line import LogLine
from .notification import NotificationDelivery, NotificationRule
from .other_metric import MetricName, MetricNumber
from .program import DatabaseVersion, Worker
from .proposal import Proposal
from .report import Metric, ResourceReading, TrialFile, TrialOutput
from .session import Session, SignInAttempt
from .settled_trials import SettledTrials
from .tensorboard import TensorBoard, TensorBoardTicket
from .trial import Attempt, NodeBooking, Place, ProposalKey, Trial, TrialEvent, TrialParameters

__all__ = [
    "ApiToken", "Attempt", "AuditEntry", "Budget", "BudgetUse", "Checkpoint", "CheckpointChunk",
    "CheckpointChunkUse", "Cluster", "ClusterMetadata", "CodeArchive", "CodeVariant", "DatabaseVersion",
    "DiskUsage",
    "EarlierExperiment", "Experiment", "ExperimentChange", "ExperimentCluster", "ExperimentEvent", "FolderUsage",
    "LedgerEntry", "LogLine", "Machine", "Metric", "MetricName", "MetricNumber", "NodeBooking", "NotificationDelivery",
    "NotificationRule", "Place", "Proposal", "Price", "ProposalKey", "Quota",
    "ResourceReading", "Session", "SettledTrials", "SignInAttempt", "SignInLink", "SingleSignOnIdentity", "TensorBoard",
    "TensorBoardTicket", "Trial", "TrialEvent", "TrialFile", "TrialNote", "TrialOutput", "TrialParameters",
    "TunerEvent", "User", "Worker",
]
