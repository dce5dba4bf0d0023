"""The controllers of the API double: what makes pods of trials' objects, writes their status, and collects garbage.

One thread looks at everything whenever something has changed. Each controller is a function of the objects that are
there, so it does not matter which changes it saw one by one.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from datetime import datetime
from typing import Protocol

from tests.fakes.kubernetes.node import Node
from tests.fakes.kubernetes.pod_admission import Admission, pod_causes
from tests.fakes.kubernetes.store import Object, Store, now_text
from tests.fakes.kubernetes.validation import labels_and_annotations

logger = logging.getLogger(__name__)

NAMESPACE = "default"
#: Seconds after which things that depend on time alone are looked at.
TICK = 0.5
#: From so many trials on most rounds look only at what has changed.
MANY = 500


class Controller(Protocol):
    """Brings one kind of objects forward."""

    plural: str

    def reconcile(self, trial: Object, pods: list[Object], cluster: Controllers) -> None: ...


class Controllers:
    """All controllers of one cluster. ``paused`` names kinds whose controller does not run, and objects left alone."""

    def __init__(self, store: Store, node: Node, controllers: list[Controller]) -> None:
        self.store, self.node = store, node
        self._controllers = {controller.plural: controller for controller in controllers}
        self.paused: set[str] = set()
        #: Why no pods may be made, as the API would say it to a controller; "" while they may.
        self.no_pods_because = ""
        #: The names that pods may have of things that must exist.
        self.admission = Admission()
        #: What changes objects before they are stored: plural and object -> the object.
        self.webhooks: list[Callable[[str, Object], Object]] = []
        self._seen = 0
        #: Monotonic time from which everything is looked at again, where there is so much that not all is looked at.
        self._next_full_round = 0.0
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="controllers", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        with self.store.changed:
            self._closed = True
            self.store.changed.notify_all()
        self._thread.join(60)

    # --- for controllers -------------------------------------------------------------------

    def make_pod(self, trial: Object, name: str, template: Object, *, labels: dict[str, str],
                 annotations: dict[str, str] | None = None, env: dict[str, str] | None = None,
                 owner: Object | None = None, complaint: str = "FailedCreate") -> None:
        """Create a pod from a template, owned by the trial's object.

        ``complaint``: the reason of the event that this controller writes where it may not; "" where it writes none.
        """
        import copy

        if because := self.no_pods_because or self._why_no_pod(name, trial["metadata"]["namespace"], template):
            if complaint:
                self.complain(trial, complaint, f"Error creating: {because}")
            return
        template = copy.deepcopy(template)
        owner = owner or trial
        metadata = template.get("metadata") or {}
        spec = template["spec"]
        for container in spec["containers"]:
            container["env"] = [*({"name": key, "value": value} for key, value in (env or {}).items()),
                                *(container.get("env") or [])]
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {
            "name": name, "labels": {**(metadata.get("labels") or {}), **labels},
            "annotations": {**(metadata.get("annotations") or {}), **(annotations or {})},
            "ownerReferences": [{"apiVersion": owner["apiVersion"], "kind": owner["kind"],
                                 "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"],
                                 "controller": True, "blockOwnerDeletion": True}]},
            "spec": spec, "status": {"phase": "Pending"}}
        made = self.store.create("pods", trial["metadata"]["namespace"], self.on_create("pods", pod))
        if made is not None:
            self.node.take(made)

    def _why_no_pod(self, name: str, namespace: str, template: Object) -> str:
        """Why the API server refuses a pod made of this template, in its words; "" where it does not."""
        causes = labels_and_annotations(template.get("metadata") or {}, "metadata") + pod_causes(template["spec"])
        if causes:
            return f'Pod "{name}" is invalid: ' + ", ".join(f"{field}: {message}" for field, _, message in causes)
        return self.admission.refusal(name, namespace, template["spec"])

    def on_create(self, plural: str, item: Object) -> Object:
        """The object as the webhooks leave it."""
        for change in self.webhooks:
            item = change(plural, item)
        return item

    def complain(self, item: Object, reason: str, message: str) -> None:
        """A warning about an object, as an event; said once."""
        metadata = item["metadata"]
        self.store.create("events", metadata["namespace"], {
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": f"{metadata['name']}.{reason.lower()}"},
            "involvedObject": {"kind": item["kind"], "namespace": metadata["namespace"], "name": metadata["name"],
                               "uid": metadata["uid"], "apiVersion": item["apiVersion"]},
            "reason": reason, "message": message, "type": "Warning", "count": 1, "lastTimestamp": now_text()})

    def delete_pod(self, pod: Object) -> None:
        """Begin to delete a pod, as the API does: it goes when its processes have."""
        metadata = pod["metadata"]
        grace = float((pod["spec"] or {}).get("terminationGracePeriodSeconds", 30))
        self.store.change("pods", metadata["namespace"], metadata["name"], lambda item: item["metadata"].setdefault(
            "deletionTimestamp", now_text(time.time() + grace)))
        self.node.end(pod, grace)

    def set_status(self, trial: Object, status: Object, plural: str) -> None:
        if trial.get("status") == status:
            return
        metadata = trial["metadata"]
        self.store.change(plural, metadata["namespace"], metadata["name"],
                          lambda item: item.__setitem__("status", status))

    # --- deleting --------------------------------------------------------------------------

    def delete(self, plural: str, namespace: str, name: str, propagation: str) -> Object | None:
        """Delete any object. The object where it stays for a while, None where it is gone."""
        item = self.store.get(plural, namespace, name)
        if item is None:
            return None
        if plural == "pods":
            self.delete_pod(item)
            return self.store.get(plural, namespace, name)
        dependants = self._dependants(item)
        if propagation == "Foreground" and dependants:
            def mark(found: Object) -> None:
                found["metadata"].setdefault("deletionTimestamp", now_text())
                found["metadata"]["finalizers"] = ["foregroundDeletion"]

            self.store.change(plural, namespace, name, mark)
            marked = self.store.get(plural, namespace, name)  # what is answered; it may be gone before the last pod is
            for its_plural, dependant in dependants:
                self.delete(its_plural, namespace, dependant["metadata"]["name"], "Background")
            return marked
        self.store.remove(plural, namespace, name)
        for its_plural, dependant in dependants:
            if propagation == "Orphan":
                self.store.change(its_plural, namespace, dependant["metadata"]["name"],
                                  lambda found: found["metadata"].pop("ownerReferences", None))
        return None

    def _dependants(self, owner: Object) -> list[tuple[str, Object]]:
        return [(plural, item) for plural, item in self.store.owned_by(owner["metadata"]["uid"])
                if plural in ("pods", "secrets", "configmaps", "persistentvolumeclaims")]

    # --- the thread ------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            with self.store.changed:
                if self._seen == self.store.version:
                    self.store.changed.wait(TICK)
                if self._closed:
                    return
                touched = self.store.touched_after(self._seen, self._controllers)
                self._seen = self.store.version
            try:
                self._round(touched)
            except Exception:
                logger.exception("a controller of the double failed")

    def _round(self, touched: list[tuple[str, Object]]) -> None:
        """Look at everything; where there is much, mostly at the ``touched`` objects alone."""
        begin = time.monotonic()
        is_full = begin >= self._next_full_round or sum(map(self.store.number_of, self._controllers)) < MANY
        if is_full:
            touched = [(plural, trial) for plural in self._controllers for trial in self.store.all(plural)]
        for plural, trial in touched:
            pods = sorted((pod for kind, pod in self.store.owned_by(trial["metadata"]["uid"]) if kind == "pods"),
                          key=lambda pod: str(pod["metadata"]["name"]))
            if trial["metadata"].get("deletionTimestamp"):
                if not pods:
                    self.store.remove(plural, trial["metadata"]["namespace"], trial["metadata"]["name"])
            elif not {plural, trial["metadata"]["name"]} & self.paused:
                self._controllers[plural].reconcile(trial, pods, self)
                self._remove_when_due(plural, trial)
        if is_full:
            self._collect_garbage()
            self._next_full_round = time.monotonic() + 20 * (time.monotonic() - begin)

    def _remove_when_due(self, plural: str, trial: Object) -> None:
        spec = trial.get("spec") or {}
        after = spec.get("ttlSecondsAfterFinished", (spec.get("runPolicy") or {}).get("ttlSecondsAfterFinished"))
        ended = (trial.get("status") or {}).get("completionTime")
        if after is not None and ended and time.time() >= _seconds(ended) + after:
            self.delete(plural, trial["metadata"]["namespace"], trial["metadata"]["name"], "Background")

    def _collect_garbage(self) -> None:
        # dependants first: an owner is there before anything names it
        dependants = [(plural, item) for plural in ("configmaps", "persistentvolumeclaims", "secrets", "pods")
                      for item in self.store.all(plural)
                      if item["metadata"].get("ownerReferences")]
        living = {item["metadata"]["uid"] for plural in (*self._controllers, "configmaps")
                  for item in self.store.all(plural)}
        for plural, item in dependants:
            metadata = item["metadata"]
            if any(reference["uid"] in living for reference in metadata["ownerReferences"]):
                continue
            if plural != "pods":
                self.store.remove(plural, metadata["namespace"], metadata["name"])
            elif not metadata.get("deletionTimestamp"):
                self.delete_pod(item)


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def phase_of(pod: Object) -> str:
    return str((pod.get("status") or {}).get("phase") or "Pending")


class JobController:
    """Jobs: one pod, or as many as completions with a number each."""

    plural = "jobs"

    def reconcile(self, trial: Object, pods: list[Object], cluster: Controllers) -> None:
        import secrets

        spec, status = trial["spec"], dict(trial.get("status") or {})
        conditions = list(status.get("conditions") or [])
        if any(condition["type"] in ("Complete", "Failed") and condition["status"] == "True"
               for condition in conditions):
            return
        name = trial["metadata"]["name"]
        if spec.get("suspend"):
            for pod in pods:
                if not pod["metadata"].get("deletionTimestamp"):
                    cluster.delete_pod(pod)
            status["conditions"] = [_job_condition("Suspended", "JobSuspended", "Job suspended")]
            cluster.set_status(trial, status, self.plural)
            return
        if conditions and conditions[0]["type"] == "Suspended":
            status["conditions"] = [{**_job_condition("Suspended", "JobResumed", "Job resumed"), "status": "False"}]
            status.pop("startTime", None)
        wanted = spec.get("completions", 1)
        indexed = spec.get("completionMode") == "Indexed"
        failed = [pod for pod in pods if phase_of(pod) == "Failed"]
        succeeded = [pod for pod in pods if phase_of(pod) == "Succeeded"]
        # one that terminates counts no more: its replacement is made while its processes still run
        active = [pod for pod in pods if phase_of(pod) in ("Pending", "Running")
                  and not pod["metadata"].get("deletionTimestamp")]
        status |= {"startTime": status.get("startTime") or now_text(), "active": len(active),
                   "ready": sum(phase_of(pod) == "Running" for pod in active), "succeeded": len(succeeded),
                   "failed": len(failed)}
        if len(failed) > spec.get("backoffLimit", 6):
            for pod in active:
                cluster.delete_pod(pod)
            status["conditions"] = [_job_condition("Failed", "BackoffLimitExceeded",
                                                   "Job has reached the specified backoff limit")]
        elif len(succeeded) >= wanted:
            status |= {"completionTime": now_text(),
                       "conditions": [_job_condition("Complete", "CompletionsReached", "Reached expected number of "
                                                     "succeeded pods")]}
        else:
            living = {pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] if indexed else "0"
                      for pod in active + succeeded}
            for index in range(wanted):
                if str(index) in living:
                    continue
                number = f"-{index}" if indexed else ""
                cluster.make_pod(
                    trial, f"{name}{number}-{secrets.token_hex(3)[:5]}", spec["template"],
                    labels={"job-name": name, "controller-uid": trial["metadata"]["uid"]},
                    annotations={"batch.kubernetes.io/job-completion-index": str(index)} if indexed else None,
                    env={"JOB_COMPLETION_INDEX": str(index)} if indexed else None)
        cluster.set_status(trial, status, self.plural)


def _job_condition(kind: str, reason: str, message: str) -> Object:
    return {"type": kind, "status": "True", "lastProbeTime": now_text(), "lastTransitionTime": now_text(),
            "reason": reason, "message": message}
