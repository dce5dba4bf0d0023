"""Why a trial waits where neither its object nor its pods say it: what controllers and nodes wrote into events.

A used-up quota keeps a controller from making pods, a storage that cannot be mounted keeps a pod in its making; only
events tell, or the quotas themselves where a controller writes no events. Watching them all would cost more than all
the rest, so one question is asked for all trials that have waited for a while without a reason.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence

from trainingservice.errors import TrainingServiceError
from trainingservice.kubernetes_base import pods
from trainingservice.kubernetes_base.api import ApiRefusal, KubernetesApi, Object, Resource
from trainingservice.kubernetes_base.quotas import limits_of, why_no_pod

logger = logging.getLogger(__name__)

EVENTS = Resource("", "v1", "events", "Event")
#: Seconds that something may wait without a reason before events are asked for, and from one question to the next.
PATIENCE, ASK_EVERY = 10.0, 30.0
#: Seconds until the next question where our account may not ask.
ASK_AGAIN = 600.0
#: Events for each page, and the most pages of one question.
PAGE, MOST_PAGES = 500, 4
#: Warnings that are no reason to wait, or that the pod itself tells better.
_OTHERS = frozenset({"SettedPodTemplateRestartPolicy", "FailedScheduling", "BackOff", "Failed", "Unhealthy"})


#: What the API server says of a pod for which a quota has no room; the event's reason is that of any refusal.
_QUOTA = "exceeded quota"
#: Reasons of events about volumes that are not there yet.
_OF_VOLUMES = frozenset({"FailedMount", "FailedAttachVolume", "FailedMapVolume"})
#: What the pods of a trial ask for: resource -> quantity, for each role.
Asked = Sequence[Mapping[str, str]]


class Complaints:
    """The last warning about an object, by its uid. From any thread."""

    def __init__(self, api: KubernetesApi, namespace: str, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._api, self._namespace, self._monotonic = api, namespace, monotonic
        self._since: dict[str, float] = {}
        self._next = float("-inf")
        self._lock = threading.Lock()
        self._sentences: dict[str, str] = {}

    def about(self, uids: Collection[str]) -> str:
        """A warning about one of these objects, a sentence; "" for none."""
        with self._lock:
            return next((self._sentences[uid] for uid in uids if uid in self._sentences), "")

    def ask(self, unexplained: Collection[str], pods_asked_for: Mapping[str, Asked] | None = None) -> bool:
        """Ask, if it is time to, for objects (uids) that nothing explains. True where something new was heard.

        ``pods_asked_for``: what the pods ask for of those whose controller writes no events where it may make none.
        """
        now = self._monotonic()
        with self._lock:
            waiting = self._since = {uid: self._since.get(uid, now) for uid in unexplained}
            if now < self._next or not any(now - since >= PATIENCE for since in waiting.values()):
                return False
            self._next = now + ASK_EVERY
        found = self._quotas_of(pods_asked_for) if pods_asked_for else {}
        try:
            found |= self._warnings()
        except ApiRefusal as refusal:
            if refusal.code == 403 and not refusal.is_starting and not pods_asked_for:
                self._next = now + ASK_AGAIN
            logger.info("events cannot be read, so some trials wait without a reason: %s", refusal)
            if not found:
                return False
        except TrainingServiceError:
            return False  # the watches tell what is wrong
        sentences = {uid: text for uid, text in found.items() if uid in waiting}
        with self._lock:
            changed, self._sentences = sentences != self._sentences, sentences
        return changed

    def _quotas_of(self, pods_asked_for: Mapping[str, Asked]) -> dict[str, str]:
        try:
            limits = limits_of(self._api, self._namespace)
        except ApiRefusal as refusal:
            logger.info("quotas cannot be read, so some trials wait without a reason: %s", refusal)
            return {}
        except TrainingServiceError:
            return {}
        return {uid: said for uid, asked in pods_asked_for.items()
                if (said := next(filter(None, (why_no_pod(limits, resources) for resources in asked)), ""))}

    def _warnings(self) -> dict[str, str]:
        latest: dict[str, tuple[str, str]] = {}
        query = {"fieldSelector": "type=Warning", "limit": str(PAGE)}
        for _ in range(MOST_PAGES):
            page = self._api.call("GET", EVENTS.path(self._namespace), query=query)
            for event in page.get("items") or []:
                about = event.get("involvedObject") or {}
                at = str(event.get("lastTimestamp") or event.get("eventTime") or "")
                if event.get("reason") not in _OTHERS and at >= latest.get(str(about.get("uid")), ("", ""))[0]:
                    latest[str(about.get("uid"))] = (at, _sentence(event, about))
            following = (page.get("metadata") or {}).get("continue")
            if not following:
                break
            query = {**query, "continue": following}
        return {uid: text for uid, (_, text) in latest.items()}


def _sentence(event: Object, about: Object) -> str:
    said, cause = " ".join(str(event.get("message") or "").split())[:500].rstrip("."), str(event.get("reason"))
    code = ("platform_quota" if _QUOTA in said else "platform_prepares" if cause in _OF_VOLUMES else "platform_waits")
    return pods.of_kubernetes(code, f"{about.get('kind')} {about.get('name')} cannot continue ({cause}): "
                                    f"{said}.", cause)


def unexplained(trial: Object, of_trial: Sequence[Object]) -> list[str]:
    """Uids of what of a waiting trial might be complained about: its object without pods, or pods in their making."""
    if not of_trial:
        return [str(trial["metadata"].get("uid"))]
    return [str(pod["metadata"].get("uid")) for pod in of_trial if pods.is_pending(pod) and not pods.trouble_of(pod)]
