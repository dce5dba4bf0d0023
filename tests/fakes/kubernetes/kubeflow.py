"""Kubeflow's operators in the API double, as tf-operator 1.1, pytorch-operator and Kubeflow Trainer 2.2 behave."""

from __future__ import annotations

import json
import secrets
from typing import Any

from tests.fakes.kubernetes.controllers import Controllers, phase_of
from tests.fakes.kubernetes.store import Object, now_text

KUBEFLOW_KINDS = {"tfjobs": ("kubeflow.org", "v1", "TFJob"), "pytorchjobs": ("kubeflow.org", "v1", "PyTorchJob")}
MPI_KINDS = {"mpijobs": ("kubeflow.org", "v1", "MPIJob")}
MPI_V2_KINDS = {"mpijobs": ("kubeflow.org", "v2beta1", "MPIJob")}
TRAINER_KINDS = {"trainjobs": ("trainer.kubeflow.org", "v1alpha1", "TrainJob")}


class ReplicatedController:
    """TFJob, PyTorchJob, MPIJob: pods by role and index; one role decides; any failure is the end."""

    def __init__(self, plural: str, kind: str, specs: str, deciding: tuple[str, ...]) -> None:
        """``deciding``: roles in order; replica 0 of the first that there is decides."""
        self.plural, self._kind, self._specs, self._deciding = plural, kind, specs, deciding

    def reconcile(self, trial: Object, pods: list[Object], cluster: Controllers) -> None:
        name, namespace = trial["metadata"]["name"], trial["metadata"]["namespace"]
        status = json.loads(json.dumps(trial.get("status") or {}))
        conditions: list[Object] = status.setdefault("conditions", [])
        done = {condition["type"] for condition in conditions if condition["status"] == "True"}
        if done & {"Succeeded", "Failed"}:
            self._clean_pods(trial, pods, cluster)
            return
        policy = trial["spec"].get("runPolicy") or {}
        if policy.get("suspend"):
            for pod in pods:
                if not pod["metadata"].get("deletionTimestamp"):
                    cluster.delete_pod(pod)
            self._set(conditions, "Suspended", f"{self._kind} {name} is suspended.")
            for condition in conditions:
                condition["status"] = "False" if condition["type"] == "Running" else "True"
            cluster.set_status(trial, status, self.plural)
            return
        if "Suspended" in done:  # what it said of its run before is gone
            conditions[:] = [condition for condition in conditions if condition["type"] == "Created"]
        if not conditions:
            self._set(conditions, "Created", f"{self._kind} {name} is created.")
            status["startTime"] = now_text()
        roles = trial["spec"][self._specs]
        by_role: dict[str, dict[int, Object]] = {role: {} for role in roles}
        for pod in pods:
            labels = pod["metadata"]["labels"]
            role = next((role for role in roles if role.lower() == self._label(labels, "type")), "")
            if role:
                by_role[role][int(self._label(labels, "index"))] = pod
        total = sum(spec["replicas"] for spec in roles.values())
        deciding = next(role for role in self._deciding if role in roles)
        for role, spec in roles.items():
            for index in range(spec["replicas"]):
                if index not in by_role[role]:
                    template = json.loads(json.dumps(spec["template"]))
                    policy_of_role = spec.get("restartPolicy", "Never" if self._kind == "TFJob" else "OnFailure")
                    template["spec"]["restartPolicy"] = "Never" if policy_of_role == "ExitCode" else policy_of_role
                    cluster.make_pod(trial, f"{name}-{role.lower()}-{index}", template,
                                     labels=self._labels(name, role, index, role == deciding and index == 0),
                                     env=self._environment(trial, role, index, total, namespace),
                                     complaint="FailedCreatePod")
        status["replicaStatuses"] = {role: self._counts(list(of_role.values())) for role, of_role in by_role.items()}
        failed = next((role for role, of_role in by_role.items()
                       if any(phase_of(pod) == "Failed" for pod in of_role.values())), None)
        lead = by_role[deciding].get(0)
        where = f"{namespace}/{name}" if self._kind == "TFJob" else name
        is_or_not = "" if self._kind == "TFJob" else "is "
        if failed is not None:
            count = status["replicaStatuses"][failed]["failed"]
            self._end(conditions, status, "Failed",
                      f"{self._kind} {where} has failed because {count} {failed} replica(s) failed." if is_or_not == ""
                      else f"{self._kind} {where} is failed because {count} {failed} replica(s) failed.")
        elif lead is not None and phase_of(lead) == "Succeeded":
            self._end(conditions, status, "Succeeded", f"{self._kind} {where} {is_or_not}successfully completed.")
        elif lead is not None and phase_of(lead) == "Running":
            self._set(conditions, "Running", f"{self._kind} {where} is running.")
        cluster.set_status(trial, status, self.plural)

    def _label(self, labels: dict[str, str], what: str) -> str:
        prefix = "pytorch-" if self._kind == "PyTorchJob" else ""
        return labels.get(f"{prefix}replica-{what}", "")

    def _labels(self, name: str, role: str, index: int, decides: bool) -> dict[str, str]:
        prefix = "pytorch-" if self._kind == "PyTorchJob" else ""
        labels = {"group-name": "kubeflow.org", "job-name": name, f"{prefix}replica-type": role.lower(),
                  f"{prefix}replica-index": str(index)}
        if prefix:
            labels |= {"controller-name": "pytorch-operator", "pytorch-job-name": name}
        return {**labels, **({"job-role": "master"} if decides else {})}

    def _environment(self, trial: Object, role: str, index: int, total: int, namespace: str) -> dict[str, str]:
        name, roles = trial["metadata"]["name"], trial["spec"][self._specs]
        if self._kind == "PyTorchJob":
            rank = 0 if role == "Master" else index + 1
            address = "localhost" if role == "Master" else f"{name}-master-0"
            return {"MASTER_PORT": "23456", "MASTER_ADDR": address, "WORLD_SIZE": str(total), "RANK": str(rank),
                    "PYTHONUNBUFFERED": "0"}
        if self._kind == "TFJob" and total > 1:
            addresses = {its.lower(): [f"{name}-{its.lower()}-{number}.{namespace}.svc:2222"
                                       for number in range(spec["replicas"])] for its, spec in sorted(roles.items())}
            return {"TF_CONFIG": json.dumps({"cluster": addresses, "task": {"type": role.lower(), "index": index},
                                             "environment": "cloud"}, separators=(",", ":"))}
        return {}

    @staticmethod
    def _counts(pods: list[Object]) -> Object:
        counts = {"active": sum(phase_of(pod) == "Running" for pod in pods),
                  "succeeded": sum(phase_of(pod) == "Succeeded" for pod in pods),
                  "failed": sum(phase_of(pod) == "Failed" for pod in pods)}
        return {word: count for word, count in counts.items() if count}

    def _end(self, conditions: list[Object], status: Object, kind: str, message: str) -> None:
        for condition in conditions:
            if condition["type"] == "Running":
                condition["status"] = "False"
        self._set(conditions, kind, message)
        status["completionTime"] = now_text()

    def _set(self, conditions: list[Object], kind: str, message: str) -> None:
        if any(condition["type"] == kind for condition in conditions):
            return
        conditions.append({"lastTransitionTime": now_text(), "lastUpdateTime": now_text(), "message": message,
                           "reason": f"{self._kind}{kind}", "status": "True", "type": kind})

    def _clean_pods(self, trial: Object, pods: list[Object], cluster: Controllers) -> None:
        policy = (trial["spec"].get("runPolicy") or {}).get("cleanPodPolicy", "None")
        for pod in pods:
            over = phase_of(pod) in ("Succeeded", "Failed")
            if (policy == "All" or policy == "Running" and not over) and not pod["metadata"].get("deletionTimestamp"):
                cluster.delete_pod(pod)


class TrainJobController:
    """TrainJob: equal nodes made of the trainer's fields and what the runtime is patched with."""

    plural = "trainjobs"

    def __init__(self, runtimes: tuple[str, ...] = ("torch-distributed",)) -> None:
        self._runtimes = runtimes

    def reconcile(self, trial: Object, pods: list[Object], cluster: Controllers) -> None:
        name, spec = trial["metadata"]["name"], trial["spec"]
        status: dict[str, Any] = json.loads(json.dumps(trial.get("status") or {}))
        done = {condition["type"] for condition in status.get("conditions") or [] if condition["status"] == "True"}
        if done & {"Complete", "Failed"}:
            return
        if spec["runtimeRef"]["name"] not in self._runtimes:
            status["conditions"] = [self._condition("Failed", "TrainingRuntimeNotSupported", "the runtime does not "
                                                    "exist")]
            cluster.set_status(trial, status, self.plural)
            return
        if spec.get("suspend"):
            for pod in pods:
                if not pod["metadata"].get("deletionTimestamp"):
                    cluster.delete_pod(pod)
            status["conditions"] = [self._condition("Suspended", "Suspended", "TrainJob is suspended")]
            cluster.set_status(trial, status, self.plural)
            return
        status.pop("conditions", None)
        wanted = spec["trainer"].get("numNodes", 1)
        living = {pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] for pod in pods}
        for index in range(wanted):
            if str(index) not in living:
                cluster.make_pod(
                    trial, f"{name}-node-0-{index}-{secrets.token_hex(3)[:5]}", self._template(spec),
                    labels={"jobset.sigs.k8s.io/jobset-name": name},
                    complaint="",  # there is one about the Job in between, which is not the trial's object
                    annotations={"batch.kubernetes.io/job-completion-index": str(index)},
                    env={"JOB_COMPLETION_INDEX": str(index), "PET_NNODES": str(wanted), "PET_NODE_RANK": str(index),
                         "PET_MASTER_ADDR": f"{name}-node-0-0.{name}", "PET_MASTER_PORT": "29400"})
        failed = sum(phase_of(pod) == "Failed" for pod in pods)
        succeeded = sum(phase_of(pod) == "Succeeded" for pod in pods)
        ready = sum(phase_of(pod) == "Running" for pod in pods)
        status["jobsStatus"] = [{"name": "node", "ready": int(ready == wanted), "succeeded": int(succeeded == wanted),
                                 "failed": int(failed > 0), "active": int(succeeded < wanted), "suspended": 0}]
        if failed:
            status["conditions"] = [self._condition("Failed", "JobSetFailed", "jobset failed due to one or more job "
                                                    "failures")]
            for pod in pods:
                if phase_of(pod) not in ("Succeeded", "Failed"):
                    cluster.delete_pod(pod)
        elif succeeded == wanted:
            status["conditions"] = [self._condition("Complete", "AllJobsCompleted", "jobset completed successfully")]
        cluster.set_status(trial, status, self.plural)

    @staticmethod
    def _condition(kind: str, reason: str, message: str) -> Object:
        return {"type": kind, "status": "True", "reason": reason, "message": message,
                "lastTransitionTime": now_text()}

    @staticmethod
    def _template(spec: Object) -> Object:
        trainer = spec["trainer"]
        fields = ("image", "command", "args", "env")
        container = {"name": "node", **{key: trainer[key] for key in fields if key in trainer}}
        if "resourcesPerNode" in trainer:
            container["resources"] = trainer["resourcesPerNode"]
        pod: Object = {"restartPolicy": "Never"}
        metadata: Object = {}
        for patch in spec.get("runtimePatches") or []:
            for job in patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]:
                patched = job["template"]["spec"]["template"]
                metadata |= patched.get("metadata") or {}
                for key, value in (patched.get("spec") or {}).items():
                    if key == "containers":
                        container |= {its: item for its, item in value[0].items() if its != "name"}
                    else:
                        pod[key] = value
        return {"metadata": metadata, "spec": {**pod, "containers": [container]}}


def kubeflow_controllers() -> list[Any]:
    return [ReplicatedController("tfjobs", "TFJob", "tfReplicaSpecs", ("Chief", "Master", "Worker")),
            ReplicatedController("pytorchjobs", "PyTorchJob", "pytorchReplicaSpecs", ("Master",))]


def mpi_controllers() -> list[Any]:
    return [ReplicatedController("mpijobs", "MPIJob", "mpiReplicaSpecs", ("Launcher",))]
