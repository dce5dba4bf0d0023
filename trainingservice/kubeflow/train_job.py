"""TrainJob of Kubeflow Trainer 2.2 and later: equal nodes, described by a runtime that the cluster has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from trainingservice.kubeflow.config import KubeflowTrialOptions
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
from trainingservice.kubernetes_base.pods import of_kubernetes

TRAIN_JOBS = Resource("trainer.kubeflow.org", "v1alpha1", "trainjobs", "TrainJob")
#: Who we are among those that patch a runtime.
MANAGER = "nniweb/trials"
#: What of a pod a runtime can be patched with.
_POD_FIELDS = ("serviceAccountName", "automountServiceAccountToken", "nodeSelector", "tolerations", "imagePullSecrets",
               "volumes", "initContainers", "terminationGracePeriodSeconds")


class TrainJobKind(TrialKind):
    """For files of pytorch-operator: master and workers that are all alike become the nodes of one TrainJob."""

    resource = TRAIN_JOBS
    container: ClassVar[str] = "node"
    #: The events are those of the Jobs that a JobSet makes for it.
    tells_of_quotas: ClassVar[bool] = False

    def check(self, options: KubernetesTrialOptions) -> str:
        roles = options.roles()
        if not roles:
            return "A trial needs at least the role master."
        for name in roles:
            if name not in ("master", "worker"):
                return (f"The cluster has Kubeflow Trainer instead of the operator, and its TrainJobs have no role "
                        f"{name}; use pytorch-operator's master and worker.")
        if options.priority_class_name:
            return ("The cluster has Kubeflow Trainer instead of pytorch-operator, and pods of its TrainJobs have the "
                    "priority class of their runtime; remove priorityClassName, or choose another runtime.")
        first, *others = ({**role.model_dump(), "replicas": 0} for role in roles.values())
        if any(other != first for other in others):
            return ("The cluster has Kubeflow Trainer instead of pytorch-operator, and all nodes of its TrainJobs are "
                    "equal; give the role worker the same command, image and resources as master.")
        return ""

    def manifest(self, name: str, labels: Mapping[str, str], pods: Sequence[tuple[Role, Object]],
                 options: KubernetesTrialOptions) -> Object:
        assert isinstance(options, KubeflowTrialOptions)
        (_, template), *_ = pods
        [main] = template["spec"]["containers"]
        trainer: Object = {"image": main["image"], "command": main["command"], "env": main["env"],
                           "numNodes": sum(role.settings.replicas for role, _ in pods)}
        if "resources" in main:
            trainer["resourcesPerNode"] = main["resources"]
        spec: Object = {key: template["spec"][key] for key in _POD_FIELDS if key in template["spec"]}
        spec["containers"] = [{"name": self.container, "volumeMounts": main["volumeMounts"]}]
        patch = {"template": {"spec": {"replicatedJobs": [{"name": "node", "template": {"spec": {
            "template": {"metadata": template["metadata"], "spec": spec}}}}]}}}
        body: Object = {"runtimeRef": {"name": options.runtime}, "trainer": trainer,
                        "runtimePatches": [{"manager": MANAGER, "trainingRuntimeSpec": patch}]}
        policy = options.run_policy
        if policy.active_deadline_seconds is not None:
            body["activeDeadlineSeconds"] = policy.active_deadline_seconds
        if policy.suspend is not None:
            body["suspend"] = policy.suspend
        return {"apiVersion": TRAIN_JOBS.api_version, "kind": TRAIN_JOBS.kind,
                "metadata": {"name": name, "labels": dict(labels)}, "spec": body}

    def not_understood(self, sent: Object, trial: Object) -> str:
        if (trial.get("spec") or {}).get("runtimePatches"):
            return ""
        return ("The cluster's Kubeflow Trainer is older than 2.2 and does not know runtimePatches, so a trial would "
                "get neither token nor keeper; upgrade it, or use the platform kubernetes.")

    def see(self, trial: Object, reporting: str) -> Seen:
        conditions = conditions_of(trial)
        if "Complete" in conditions:
            return Seen(Phase.SUCCEEDED, "", None, condition_time(conditions["Complete"]))
        if "Failed" in conditions:
            failed = conditions["Failed"]
            if failed.get("reason") == "TrainingRuntimeNotSupported":  # is taken back when the runtime appears
                return Seen(Phase.WAITING, of_kubernetes(
                    "platform_waits", f"{condition_text(failed)} Install the runtime, or correct the field runtime.",
                    "TrainingRuntimeNotSupported"))
            return Seen(Phase.FAILED, failed_reason(failed), None, condition_time(failed))
        if "Suspended" in conditions or (trial.get("spec") or {}).get("suspend"):
            return suspended(TRAIN_JOBS.kind, trial)
        if any(job.get("ready") for job in (trial.get("status") or {}).get("jobsStatus") or []):
            return Seen(Phase.RUNNING)
        return queued("The TrainJob waits for its pods.")
