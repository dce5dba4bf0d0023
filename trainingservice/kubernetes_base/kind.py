"""One kind of objects that can hold a trial: how it is written, and what its status means."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar

from trainingservice.kubernetes_base.api import Object, Resource
from trainingservice.kubernetes_base.config import KubernetesTrialOptions, RoleSettings
from trainingservice.kubernetes_base.pods import of_kubernetes, seconds
from trainingservice.kubernetes_scheduling.objects import queue_of


class Phase(Enum):
    """How far an object has come."""

    WAITING = "waiting"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    #: Somebody stopped it on the cluster.
    CANCELED = "canceled"

    @property
    def is_end(self) -> bool:
        return self in (Phase.SUCCEEDED, Phase.FAILED, Phase.CANCELED)


@dataclass(frozen=True)
class Seen:
    """What an object's status says. ``end``: the keeper's EXIT_FILE, where the status carries it."""

    phase: Phase
    message: str = ""
    start_time: float | None = None
    end_time: float | None = None
    end: Mapping[str, Any] | None = None
    #: What the object says of the reporting pod, which may be gone already; "" and None where the pods tell.
    node: str = ""
    exit_code: int | None = None
    #: A sentence where the cluster took that pod away.
    disrupted: str = ""
    #: A sentence where the kernel killed something in that pod for its memory.
    out_of_memory: str = ""
    #: Somebody suspended it: the controller ends its pods, and makes new ones when it is resumed.
    suspended: bool = False
    #: Nothing of it runs now, after a run; the next one goes on where that has ended.
    interrupted: bool = False


@dataclass(frozen=True)
class Role:
    """One role of one trial, with all that the options left open filled in."""

    name: str
    settings: RoleSettings
    command: str
    gpu_number: int | None
    #: Number of its first replica among all replicas of the trial; the reporting role has 0.
    first_replica: int
    #: What its pods ask for in place of ``gpu_number`` GPUs, where they need a part of one: name of the resource -> how
    #: many.
    gpu_shares: Mapping[str, int] | None = None

    @property
    def reports(self) -> bool:
        return self.first_replica == 0


class TrialKind(abc.ABC):
    """Stateless. One object of the kind per trial."""

    resource: Resource
    #: Name of the container that runs the keeper.
    container: ClassVar[str]
    #: Whether the names of its pods end in the replica's index.
    numbers_pods: ClassVar[bool] = False
    #: Whether pods go at the moment in which they end.
    removes_pods: ClassVar[bool] = False
    #: Whether its controller writes an event where it may not make pods.
    tells_of_quotas: ClassVar[bool] = True
    #: Whether its pods need their service account's token.
    needs_token: ClassVar[bool] = False
    #: Whether its controller may end all pods and make others, in which the trial goes on.
    runs_again: ClassVar[bool] = False
    #: Whether Kueue does not know the kind and admits each of its pods for itself.
    is_queued_by_pod: ClassVar[bool] = False
    #: Whether a trial has a volume of its own, which goes with its object.
    has_volume: ClassVar[bool] = False

    @abc.abstractmethod
    def manifest(self, name: str, labels: Mapping[str, str], pods: Sequence[tuple[Role, Object]],
                 options: KubernetesTrialOptions) -> Object:
        """The object (without a namespace) for roles with their pod templates, the reporting role first."""

    @abc.abstractmethod
    def see(self, trial: Object, reporting: str) -> Seen:
        """What the status of an object says. ``reporting``: name of the role that reports."""

    def check(self, options: KubernetesTrialOptions) -> str:
        """What of an experiment's options does not fit this kind, a sentence that names the role; "" for nothing."""
        return ""

    def least_grace(self, options: KubernetesTrialOptions) -> float:
        """Seconds that a trial has at least to end after it was told to."""
        return 0.0

    def dependants(self, name: str, labels: Mapping[str, str], options: KubernetesTrialOptions
                   ) -> Sequence[tuple[Resource, Object]]:
        """What else a trial's object (``name``) needs: made after it, owned by it, and gone with it."""
        return ()

    def not_understood(self, sent: Object, trial: Object) -> str:
        """What the cluster has dropped of the object that it was sent, a sentence; "" for nothing that is needed.

        ``trial``: the object as it took it.
        """
        return ""

    def runs_keeper(self, role: str) -> bool:
        """Whether the pods of a role run a keeper, or what the operator starts in them."""
        return True

    def missing(self, api_resources: Sequence[str]) -> str:
        """What the cluster lacks for this kind, a sentence; "" for nothing. ``api_resources``: of its group."""
        if self.resource.plural in api_resources:
            return ""
        return (f"The cluster does not know {self.resource.plural} of {self.resource.api_version}; install the "
                "operator that defines them, or choose another platform.")


def conditions_of(trial: Object) -> dict[str, dict[str, Any]]:
    """Conditions that are True, by type."""
    return {str(condition.get("type")): condition for condition in (trial.get("status") or {}).get("conditions") or []
            if condition.get("status") == "True"}


def condition_text(condition: Mapping[str, Any]) -> str:
    """What a condition says, as a sentence."""
    said = str(condition.get("message") or condition.get("reason") or "").strip()
    return said if not said or said.endswith(".") else said + "."


def failed_reason(condition: Mapping[str, Any]) -> str:
    """Why a controller gave a trial's object up, from its condition; "" where it says nothing."""
    said, cause = condition_text(condition), str(condition.get("reason") or "")
    return of_kubernetes("platform_time_limit" if cause == "DeadlineExceeded" else "platform_failed", said,
                         cause) if said else ""


def suspended(kind: str, trial: Object) -> Seen:
    """Of an object that is suspended, by Kueue or by somebody."""
    if queue := queue_of(trial):
        return Seen(Phase.WAITING, of_kubernetes(
            "platform_queue", f"The {kind} waits in Kueue's queue {queue}. Kueue starts it when the queue has room."),
            suspended=True)
    return Seen(Phase.WAITING, of_kubernetes(
        "platform_held", f"The {kind} is suspended. It starts when somebody resumes it."), suspended=True)


def queued(said: str) -> Seen:
    """Of an object that waits for the cluster to go on with it."""
    return Seen(Phase.WAITING, of_kubernetes("platform_queue", said))


def condition_time(condition: Mapping[str, Any] | None) -> float | None:
    """When it became what it is."""
    return seconds((condition or {}).get("lastTransitionTime"))
