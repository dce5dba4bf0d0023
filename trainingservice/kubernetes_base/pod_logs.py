"""The way home by pods' logs: marked lines of the keeper's journal are read there and delivered to the server."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable
from typing import Any

from trainingservice.errors import TrainingServiceError
from trainingservice.kubernetes_base import pods
from trainingservice.kubernetes_base.api import PODS, ApiRefusal, KubernetesApi, Object, error_of
from trialkeeper import contract
from trialkeeper.pod import MARK

#: Seconds between two looks at the logs of trials that run.
LOOK_EVERY = 3.0
#: Seconds that a pod stays after its trial's end where the cluster removes ended pods, and with them their logs.
LINGER = 10
#: Lines are asked for again that were written so many seconds before the last look.
OVERLAP = 15


class PodLogSource:
    """The journal of one trial in its reporting pod's log. For one thread at a time."""

    def __init__(self, api: KubernetesApi, namespace: str, container: str, reporting: Callable[[], Object | None],
                 stop: Callable[[], None], monotonic: Callable[[], float] = time.monotonic) -> None:
        """``reporting``: the pod, None while there is none; ``stop`` ends the trial."""
        self._api, self._namespace, self._container = api, namespace, container
        self._reporting, self._stop, self._monotonic = reporting, stop, monotonic
        self._journal_id = ""
        self._last = 0
        self._read_at: float | None = None
        self._is_done = False

    def read(self) -> tuple[str, dict[str, Any], list[contract.Entry]]:
        pod = self._reporting()
        if pod is None or self._is_done or not (pods.is_running(pod) or pods.is_over(pod)):
            return self._journal_id, {}, []
        query = {"container": self._container}
        now = self._monotonic()
        if self._read_at is not None:
            query["sinceSeconds"] = str(int(now - self._read_at) + OVERLAP)
        try:
            answer = self._api.call("GET", PODS.path(self._namespace, pod["metadata"]["name"]) + "/log", query=query)
        except ApiRefusal as refusal:
            if refusal.code in (400, 404):  # it has not begun, or is gone
                return self._journal_id, {}, []
            raise error_of(refusal, "read a pod's log") from refusal
        self._is_done = pods.is_over(pod)
        self._read_at = now
        entries = []
        for line in str(answer.get("text") or "").splitlines():
            document = _marked(line)
            if document is None:
                continue
            if "journal_id" in document:
                self._journal_id = self._journal_id or str(document["journal_id"])
            elif document.get("n") == self._last + 1:
                self._last += 1
                entries.append(document)
        return self._journal_id, {"host": pods.node_of(pod)}, entries

    def rewind(self) -> None:
        self._last, self._read_at, self._is_done = 0, None, False

    def acknowledge(self, number: int) -> None:
        """Nothing can be told to a keeper that only writes."""

    def obey(self, orders: list[contract.Order]) -> None:
        if any(order.get("order") == contract.ORDER_STOP for order in orders):
            self._stop()

    def cancel(self) -> None:
        try:
            self._stop()
        except TrainingServiceError:
            return  # the host cancels it, too


def _marked(line: str) -> contract.Entry | None:
    if not line.startswith(MARK):
        return None
    try:
        document = json.loads(base64.b64decode(line[len(MARK):], validate=True))
    except ValueError:
        return None
    return document if isinstance(document, dict) else None
