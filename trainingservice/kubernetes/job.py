"""Jobs: how a trial is written as one, and what a Job's status means."""

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
    condition_time,
    conditions_of,
    failed_reason,
    queued,
    suspended,
)
from trainingservice.kubernetes_base.pods import seconds

JOBS = Resource("batch", "v1", "jobs", "Job")

#: Fields of a Job's spec that clusters before Kubernetes 1.22 drop -> what a trial needs them for, and the way without.
_NEEDS = {"completionMode": ("Several replicas need Indexed Jobs", "set replicas: 1"),
          "suspend": ("kueueQueueName and the field suspend of runPolicy need Jobs that can be suspended",
                      "leave them out")}


class JobKind(TrialKind):
    resource = JOBS
    container: ClassVar[str] = "trial"

    def manifest(self, name: str, labels: Mapping[str, str], pods: Sequence[tuple[Role, Object]],
                 options: KubernetesTrialOptions) -> Object:
        [(role, template)] = pods
        policy = options.run_policy
        spec: Object = {"backoffLimit": policy.backoff_limit or 0, "template": template}
        if role.settings.replicas > 1:  # each pod knows its number, and all of them must succeed
            spec |= {"completionMode": "Indexed", "completions": role.settings.replicas,
                     "parallelism": role.settings.replicas}
        if policy.ttl_seconds_after_finished is not None:
            spec["ttlSecondsAfterFinished"] = policy.ttl_seconds_after_finished
        if policy.active_deadline_seconds is not None:
            spec["activeDeadlineSeconds"] = policy.active_deadline_seconds
        if policy.suspend is not None:
            spec["suspend"] = policy.suspend
        return {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "metadata": {"name": name, "labels": dict(labels)},
                "spec": spec}

    def not_understood(self, sent: Object, trial: Object) -> str:
        for field, (need, instead) in _NEEDS.items():
            wanted = sent["spec"].get(field)
            if wanted and (trial.get("spec") or {}).get(field) != wanted:
                return (f"{need}, but the cluster dropped {field} from the Job, because it is older than Kubernetes "
                        f"1.22 or has the feature disabled. Upgrade the cluster, or {instead}.")
        return ""

    def see(self, trial: Object, reporting: str) -> Seen:
        status = trial.get("status") or {}
        conditions = conditions_of(trial)
        started = seconds(status.get("startTime"))
        if "Complete" in conditions:
            ended = seconds(status.get("completionTime")) or condition_time(conditions["Complete"])
            return Seen(Phase.SUCCEEDED, "", started, ended)
        if "Failed" in conditions:
            failed = conditions["Failed"]
            return Seen(Phase.FAILED, failed_reason(failed), started, condition_time(failed))
        if "Suspended" in conditions or (trial.get("spec") or {}).get("suspend"):
            return suspended(JOBS.kind, trial)
        if not status:
            return queued("The cluster has not processed the Job yet.")
        return queued("The Job waits for its pod.")
