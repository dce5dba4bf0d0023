"""What the steps of a cluster's rounds share."""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from django.utils import timezone

from nniweb.experiments.budgets.starting import RoundBudgets
from nniweb.experiments.clusters.lease import Lease
from nniweb.experiments.models import Attempt
from nniweb.worker.cluster_host.code_fetches import CodeFetches
from nniweb.worker.cluster_host.fair_share import FairShares
from nniweb.worker.cluster_host.metric_inbox import MetricInbox
from nniweb.worker.cluster_host.service_host import ServiceHost
from nniweb.worker.cluster_host.tuner_sessions import TunerSessions
from trainingservice.base import TrainingService
from trainingservice.machine_load import MachineLoad
from trainingservice.trial_job import TrialJobDetail


@dataclass
class Drain:
    """An end that the platform saw and that is not final yet."""

    #: Monotonic time at which the platform's word is final.
    deadline: float
    #: When the keeper had last spoken as this began; another value later says that it still does. Only ever compared
    #: for being another one: the clock it was taken from may jump.
    heard_at: datetime | None
    #: Whether it is final as soon as the trial has a final result.
    until_final: bool = False


@dataclass
class Listed:
    """A look at all jobs of a cluster that is not over, as the platform listed them."""

    #: Monotonic time of the list.
    at: float
    #: Those that are still to be looked at.
    left: deque[TrialJobDetail]
    #: All that were listed.
    names: set[str]

    def __post_init__(self) -> None:
        self.count = len(self.left)


@dataclass
class HandedOver:
    """The service was told of a further parameter set."""

    index: int
    #: Monotonic time at which it is told again, because it could not take it.
    again_at: float = float("inf")


@dataclass
class Precedence:
    """Of one cluster whose experiments differ in priority. Times are monotonic seconds."""

    #: The highest priority of trials that wait on the platform because it has no room; None where none does.
    waits: int | None = None
    #: Experiment (primary key) -> trials of lower priority that are being frozen for it.
    made_room: dict[int, int] = field(default_factory=dict)
    #: Waiting trial (primary key) -> when others may be frozen for it again.
    again_at: dict[int, float] = field(default_factory=dict)
    #: Experiment (primary key) -> when its trials that were frozen for others are tried again, and after how long.
    back_at: dict[int, tuple[float, float]] = field(default_factory=dict)


@dataclass
class ClusterWork:
    """Kept in memory only: a take-over begins with an empty one. Used by the round thread alone."""

    cluster_pk: int
    lease: Lease
    host: ServiceHost
    #: What the service tells its metric listener.
    metrics: MetricInbox
    tuners: TunerSessions
    fetches: CodeFetches
    now: Callable[[], datetime] = timezone.now
    monotonic: Callable[[], float] = time.monotonic
    #: Who may start how much, as this round knows it; None until it is asked.
    shares: FairShares | None = None
    #: What is left of budgets, as this round knows it; None until it is asked.
    budgets: RoundBudgets | None = None
    #: Attempt whose submission is under way -> its experiment (primary keys).
    submitting: dict[int, int] = field(default_factory=dict)
    #: Submissions that the platform has taken and that are to be written down.
    submitted: list[tuple[Attempt, TrialJobDetail, datetime]] = field(default_factory=list)
    #: Attempt -> monotonic time before which it is not submitted again.
    not_before: dict[int, float] = field(default_factory=dict)
    #: Submissions of an attempt that failed for the moment.
    failures: dict[int, int] = field(default_factory=dict)
    #: Deleted experiments whose platform side is being removed (primary keys).
    cleaning: set[int] = field(default_factory=set)
    #: The ended experiment whose jobs are being removed from the platform (primary key), None where there is none.
    removing_jobs: int | None = None
    #: Job names the service was told to stop.
    stops_sent: set[str] = field(default_factory=set)
    #: Attempts (primary keys) whose keepers were told to freeze -> when they are told again (monotonic seconds).
    freezes_due: dict[int, float] = field(default_factory=dict)
    #: Cluster (primary key) -> since when it cannot be used, of those of experiments with several (monotonic seconds).
    unusable_since: dict[int, float] = field(default_factory=dict)
    #: Experiment with several clusters (primary key) -> when it is looked for trials that should leave their cluster.
    next_leaving: dict[int, float] = field(default_factory=dict)
    #: Home cluster (primary key) of experiments with trials here -> since when nobody drives it (monotonic seconds).
    homeless_since: dict[int, float] = field(default_factory=dict)
    #: What is known of who gives way to whom.
    precedence: Precedence = field(default_factory=Precedence)
    #: Attempts about whose jobs the platform is being asked because somebody wanted it (primary keys).
    refreshing: set[int] = field(default_factory=set)
    #: Experiment -> attempt (primary keys) -> the parameter set that was handed to the service and is not held yet.
    handed_over: dict[int, dict[int, HandedOver]] = field(default_factory=dict)
    #: Experiment that is over (primary key) -> why its tuner has to be told of that again, where this worker saw it.
    why_told_again: dict[int, str] = field(default_factory=dict)
    #: Attempt -> how long its keeper's last word is waited for.
    draining: dict[int, Drain] = field(default_factory=dict)
    drains_loaded: bool = False
    #: Jobs that have ended and of which nothing is open, of a service that may list them for ever.
    settled: set[str] = field(default_factory=set)
    #: Running trial with a time limit (primary key) -> monotonic time at which it was first seen running here.
    seen_running: dict[int, float] = field(default_factory=dict)
    #: Experiment (primary key) -> the status that was logged last.
    logged_status: dict[int, str] = field(default_factory=dict)
    #: Attempts whose keepers were never heard and whose last lines are being asked for (primary keys).
    looked_into: set[int] = field(default_factory=set)
    #: Attempts in warm places whose keepers were ordered to stop -> when the job of the place is removed (monotonic).
    place_stops: dict[int, float] = field(default_factory=dict)
    #: Warm place (primary key) -> a state that should not last, and since when it lasts (monotonic seconds).
    places_noted: dict[int, tuple[object, float]] = field(default_factory=dict)
    next_look_at_places: float = 0.0
    next_full_look: float = 0.0
    listed: Listed | None = None
    next_look_for_unheard: float = 0.0
    next_health_look: float = 0.0
    next_look_for_exits: float = 0.0
    next_look_for_homes: float = 0.0
    shown_health: tuple[str, str] | None = None
    shown_machines: object = None
    shown_loads: dict[str, MachineLoad | None] = field(default_factory=dict)
    #: Monotonic times from which loads are written down again: those that changed, and all.
    next_load: float = 0.0
    next_load_of_all: float = 0.0

    @property
    def service(self) -> TrainingService | None:
        return self.host.service

    @property
    def keepers_report(self) -> bool:
        """Whether trials may have keepers whose word is to come."""
        return self.service is None or self.service.keepers_report
