"""What an experiment names that has to be in the cluster before pods can be made or start."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from trainingservice.kubernetes_scheduling.fields import SchedulingOptions


@dataclass(frozen=True)
class Named:
    """A thing of the cluster. Sentences say what it means where it, or the API ``group`` that has it, is missing."""

    check: str
    field: str
    group: str
    plural: str
    name: str
    is_in_namespace: bool
    missing: str
    no_group: str = ""

    def path(self, namespace: str, version: str) -> str:
        """Of the API; ``version``: of its group."""
        begin = f"/apis/{self.group}/{version}" if self.group else "/api/v1"
        return f"{begin}/{f'namespaces/{namespace}/' if self.is_in_namespace else ''}{self.plural}/{self.name}"


def named_in(options: SchedulingOptions) -> list[Named]:
    """All of them, in the order of their fields."""
    found = []

    def add(field: str, name: str | None, **more: Any) -> None:
        if name:
            found.append(Named(field=field, name=name, **more))

    add("serviceAccountName", options.service_account_name, check="service_account", group="", plural="serviceaccounts",
        is_in_namespace=True, missing="no pod could be made")
    add("priorityClassName", options.priority_class_name, check="priority_class", group="scheduling.k8s.io",
        plural="priorityclasses", is_in_namespace=False, missing="no pod could be made")
    for secret in options.image_pull_secrets:
        add("imagePullSecrets", secret.name, check="registry", group="", plural="secrets", is_in_namespace=True,
            missing="images that need it cannot be pulled")
    add("kueueQueueName", options.kueue_queue_name, check="queue", group="kueue.x-k8s.io", plural="localqueues",
        is_in_namespace=True, missing="trials would never start",
        no_group="The cluster has no Kueue, so nothing would start trials that wait in a queue. Install Kueue, or "
                 "leave out kueueQueueName.")
    return found
