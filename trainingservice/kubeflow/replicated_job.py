"""TFJob, PyTorchJob and MPIJob: roles with replicas, and conditions that are appended in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from trainingservice.kubernetes_base.api import Object, Resource
from trainingservice.kubernetes_base.config import KubernetesTrialOptions
from trainingservice.kubernetes_base.kind import (
    Phase,
    Role,
    Seen,
    TrialKind,
    condition_text,
    condition_time,
    conditions_of,
    failed_reason,
    queued,
    suspended,
)
from trainingservice.kubernetes_base.pods import of_kubernetes, seconds

GROUP = "kubeflow.org"


class ReplicatedKind(TrialKind):
    """What the kinds of kubeflow.org have in common."""

    numbers_pods: ClassVar[bool] = True
    operator: ClassVar[str]
    #: Field of spec that holds the roles.
    specs: ClassVar[str]
    #: Our name of a role -> the operator's.
    role_names: ClassVar[Mapping[str, str]]
    required_role: ClassVar[str]
    #: Roles that have one replica and no more.
    single: ClassVar[frozenset[str]] = frozenset()

    def check(self, options: KubernetesTrialOptions) -> str:
        roles = options.roles()
        for name in roles:
            if name not in self.role_names:
                return (f"{self.operator} has no role {name}; its roles are {', '.join(self.role_names)}. Remove it, "
                        "or choose another operator.")
        if self.required_role not in roles:
            return f"{self.operator} needs the role {self.required_role}; add it."
        for name in self.single & roles.keys():
            if roles[name].replicas != 1:
                return f"{self.operator} has exactly one {name}, not {roles[name].replicas}; correct its replicas."
        return ""

    def manifest(self, name: str, labels: Mapping[str, str], pods: Sequence[tuple[Role, Object]],
                 options: KubernetesTrialOptions) -> Object:
        policy = options.run_policy
        run_policy: Object = {"cleanPodPolicy": policy.clean_pod_policy or "Running",
                              "backoffLimit": policy.backoff_limit or 0}
        for key, value in (("ttlSecondsAfterFinished", policy.ttl_seconds_after_finished),
                           ("activeDeadlineSeconds", policy.active_deadline_seconds), ("suspend", policy.suspend)):
            if value is not None:
                run_policy[key] = value
        # the operators ignore restartPolicy in the template, so it stands at the role, too
        replicas = {self.role_names[role.name]: {"replicas": role.settings.replicas, "restartPolicy": "Never",
                                                 "template": template} for role, template in pods}
        return {"apiVersion": self.resource.api_version, "kind": self.resource.kind,
                "metadata": {"name": name, "labels": dict(labels)},
                "spec": {"runPolicy": run_policy, self.specs: replicas, **self.more_of_spec()}}

    def not_understood(self, sent: Object, trial: Object) -> str:
        if sent["spec"]["runPolicy"].get("suspend") and not \
                ((trial.get("spec") or {}).get("runPolicy") or {}).get("suspend"):
            return (f"{self.operator} of the cluster is too old to suspend a {self.resource.kind}, so the trial would "
                    "start at once. Upgrade it, or leave out kueueQueueName and runPolicy.suspend.")
        return ""

    def more_of_spec(self) -> Object:
        """Further fields of spec."""
        return {}

    def see(self, trial: Object, reporting: str) -> Seen:
        status = trial.get("status") or {}
        conditions = conditions_of(trial)
        started = condition_time(conditions.get("Running")) or seconds(status.get("startTime"))
        ended = seconds(status.get("completionTime"))
        if "Succeeded" in conditions:
            return Seen(Phase.SUCCEEDED, "", started, ended or condition_time(conditions["Succeeded"]))
        if "Failed" in conditions:
            failed = conditions["Failed"]
            return Seen(Phase.FAILED, failed_reason(failed), started, ended or condition_time(failed))
        if "Suspended" in conditions or ((trial.get("spec") or {}).get("runPolicy") or {}).get("suspend"):
            return suspended(self.resource.kind, trial)
        if "Restarting" in conditions:
            said = condition_text(conditions["Restarting"])
            return Seen(Phase.RUNNING, of_kubernetes("platform_requeued", said, "Restarting") if said else "", started)
        if "Running" in conditions:
            return Seen(Phase.RUNNING, "", started)
        if not status:
            return queued(f"{self.operator} has not processed the {self.resource.kind} yet. If this continues, check "
                          "that the operator runs.")
        return queued(f"The {self.resource.kind} waits for its pods.")


class TFJobKind(ReplicatedKind):
    operator = "tf-operator"
    container = "tensorflow"
    specs = "tfReplicaSpecs"
    role_names: ClassVar[Mapping[str, str]] = {"chief": "Chief", "worker": "Worker", "ps": "PS"}
    required_role = "worker"
    single: ClassVar[frozenset[str]] = frozenset({"chief"})

    def __init__(self, version: str) -> None:
        self.resource = Resource(GROUP, version, "tfjobs", "TFJob")


class PyTorchJobKind(ReplicatedKind):
    operator = "pytorch-operator"
    container = "pytorch"
    specs = "pytorchReplicaSpecs"
    role_names: ClassVar[Mapping[str, str]] = {"master": "Master", "worker": "Worker"}
    required_role = "master"
    single: ClassVar[frozenset[str]] = frozenset({"master"})

    def __init__(self, version: str) -> None:
        self.resource = Resource(GROUP, version, "pytorchjobs", "PyTorchJob")


class MPIJobKind(ReplicatedKind):
    """The launcher runs the command, and so the keeper; in its workers the operator starts what mpirun needs."""

    operator = "mpi-operator"
    container = "mpi"
    specs = "mpiReplicaSpecs"
    role_names: ClassVar[Mapping[str, str]] = {"launcher": "Launcher", "worker": "Worker"}
    required_role = "launcher"
    single: ClassVar[frozenset[str]] = frozenset({"launcher"})
    numbers_pods = False
    needs_token = True

    def __init__(self, version: str) -> None:
        self.resource = Resource(GROUP, version, "mpijobs", "MPIJob")

    def more_of_spec(self) -> Object:
        # else mpirun, and with it the trial, fails while images of workers are still being pulled; v1 waits by itself
        return {"launcherCreationPolicy": "WaitForWorkersReady"} if self.resource.version == "v2beta1" else {}

    def runs_keeper(self, role: str) -> bool:
        return role == "launcher"
