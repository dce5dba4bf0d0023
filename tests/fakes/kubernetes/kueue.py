"""Kueue in the API double: its webhook holds what names one of its queues back, and a test admits it.

As Kueue 0.9 does: an object of a kind that it knows is created suspended; a pod that no such object owns gets a
scheduling gate. What waits in a queue that does not exist is never admitted.
"""

from __future__ import annotations

from typing import Any

from tests.fakes.kubernetes.api import KubernetesApiDouble
from tests.fakes.kubernetes.controllers import NAMESPACE

Object = dict[str, Any]
QUEUE_LABEL, GATE = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/admission"
KUEUE_KINDS = {"localqueues": ("kueue.x-k8s.io", "v1beta1", "LocalQueue")}
#: Kind -> where its spec says that it is suspended.
_SUSPENDED = {"jobs": (), "trainjobs": (), "tfjobs": ("runPolicy",), "pytorchjobs": ("runPolicy",),
              "mpijobs": ("runPolicy",)}


class Kueue:
    """Kueue of one cluster (made with ``KUEUE_KINDS`` among its kinds), with these LocalQueues."""

    def __init__(self, cluster: KubernetesApiDouble, *queues: str) -> None:
        self._store = cluster.store
        for name in queues:
            self._store.create("localqueues", NAMESPACE, {
                "apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "LocalQueue", "metadata": {"name": name},
                "spec": {"clusterQueue": "everything"}})
        cluster.controllers.webhooks.append(self._hold)

    def _hold(self, plural: str, item: Object) -> Object:
        if not _queue_of(item):
            return item
        if plural == "pods":
            gates = [*(item["spec"].get("schedulingGates") or []), {"name": GATE}]
            return {**item, "spec": {**item["spec"], "schedulingGates": gates}}
        return _with_suspend(plural, item, True) if plural in _SUSPENDED else item

    def waiting(self, plural: str) -> list[Object]:
        """What waits to be admitted, of this kind."""
        return [item for item in self._store.all(plural) if _queue_of(item) and (
            item["spec"].get("schedulingGates") if plural == "pods" else _is_suspended(plural, item))]

    def admit(self, plural: str) -> None:
        """Let everything of this kind start whose queue exists."""
        for item in self.waiting(plural):
            if self._store.get("localqueues", NAMESPACE, _queue_of(item)) is None:
                continue

            def start(stored: Object) -> None:
                if plural == "pods":
                    stored["spec"].pop("schedulingGates")
                else:
                    stored["spec"] = _with_suspend(plural, stored, False)["spec"]

            self._store.change(plural, NAMESPACE, item["metadata"]["name"], start)


def _queue_of(item: Object) -> str:
    return str((item["metadata"].get("labels") or {}).get(QUEUE_LABEL) or "")


def _is_suspended(plural: str, item: Object) -> bool:
    group = item["spec"]
    for name in _SUSPENDED[plural]:
        group = group.get(name) or {}
    return bool(group.get("suspend"))


def _with_suspend(plural: str, item: Object, value: bool) -> Object:
    spec = {**item["spec"]}
    if _SUSPENDED[plural]:
        [name] = _SUSPENDED[plural]
        spec[name] = {**(spec.get(name) or {}), "suspend": value}
    else:
        spec["suspend"] = value
    return {**item, "spec": spec}
