"""The way home by pods' logs: marked lines of the keeper's journal are read there and delivered to the server."""

from __future__ import annotations

import base64
import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

from trainingservice.errors import TrainingServiceError
from trainingservice.kubernetes_base import pods
from trainingservice.kubernetes_base.api import PODS, ApiRefusal, KubernetesApi, Object, error_of
from trainingservice.rest.told_json import read_json
from trialkeeper import contract
from trialkeeper.pod import MARK

logger = logging.getLogger(__name__)

#: Seconds between two looks at the logs of trials that run.
LOOK_EVERY = 3.0
#: Seconds that a pod stays after its trial's end where the cluster removes ended pods, and with them their logs.
LINGER = 10
#: ... and after a stop, which removes the pod everywhere. Less than pod_template.TIME_TO_DELIVER.
LINGER_STOPPED = 8
#: Lines are asked for again that were written so many seconds before the last look.
OVERLAP = 15
#: How much of a log is told of a pod that ended without a word.
LAST_LINES, LAST_CHARACTERS = 20, 500
#: Entries that are put in the place of lost ones at one look: a trial can print a line that names any number.
MOST_LOST = 10_000
#: What a trial's page shows where lines were lost.
LOST = ("\n[Lines of this trial's output and reports are missing here: the node rotated the pod's log before the "
        "server read them. Report less often, or raise containerLogMaxSize of the nodes.]\n")


def last_lines(api: KubernetesApi, namespace: str, pod: str, container: str) -> str:
    """The last words of a container's log, in one line; "" where it cannot be read. Raises nothing."""
    query = {"container": container, "tailLines": str(LAST_LINES), "limitBytes": "65536"}
    try:
        answer = api.call("GET", PODS.path(namespace, pod) + "/log", query=query)
    except (ApiRefusal, TrainingServiceError) as error:
        logger.info("the log of pod %s cannot be read: %s", pod, error)
        return ""
    lines = [line for line in str(answer.get("text") or "").splitlines() if not line.startswith(MARK)]
    return " ".join(" ".join(lines).split())[-LAST_CHARACTERS:]


class PodLogSource:
    """The journal of one trial in its reporting pod's log. For one thread at a time."""

    def __init__(self, api: KubernetesApi, namespace: str, container: str, reporting: Callable[[], Object | None],
                 stop: Callable[[], None], monotonic: Callable[[], float] = time.monotonic) -> None:
        """``reporting``: the pod, None while there is none; ``stop`` ends the trial."""
        self._api, self._namespace, self._container = api, namespace, container
        self._reporting, self._stop, self._monotonic = reporting, stop, monotonic
        self._journal_id = ""
        #: Uid of the pod that was read last.
        self._pod = ""
        self._last = 0
        self._read_at: float | None = None
        self._is_done = False
        #: Where the trial's stderr ends, and how many bytes were put into it here.
        self._end_of_stderr = self._inserted = 0
        #: The last entry that stands in the place of a lost one.
        self._lost_to = -1

    def read(self) -> tuple[str, dict[str, Any], list[contract.Entry]]:
        pod = self._reporting()
        is_read = pod is not None and self._is_done and self._pod == pod["metadata"].get("uid", "")
        if pod is None or is_read or not (pods.is_running(pod) or pods.is_over(pod)):
            return self._journal_id, {}, []
        if self._pod not in ("", pod["metadata"].get("uid", "")):  # a run of its own, with a journal of its own
            self.rewind()
            self._journal_id = ""
        self._pod = pod["metadata"].get("uid", "")
        since, now = self._read_at, self._monotonic()
        try:
            documents = self._marked_lines(pod, since, now)
            if since is not None and self._misses_some(documents):
                documents = self._marked_lines(pod, None, now)  # all that is there, before anything is given up
        except ApiRefusal as refusal:
            if refusal.code in (400, 404):  # it has not begun, or is gone
                return self._journal_id, {}, []
            raise error_of(refusal, "read a pod's log") from refusal
        entries: list[contract.Entry] = []
        for document in documents:
            if "journal_id" in document:
                self._journal_id = self._journal_id or str(document["journal_id"])
            elif document["n"] > self._last:
                if document["n"] > self._last + 1:
                    entries += self._in_place_of(self._last + 1, document)
                    if self._lost_to < document["n"] - 1:
                        break  # the next look reads all this again, and goes on
                self._last = document["n"]
                entries.append(self._shifted(document))
        else:
            self._is_done = pods.is_over(pod)
            self._read_at = now
        return self._journal_id, {"host": pods.node_of(pod)}, entries

    def _marked_lines(self, pod: Object, since: float | None, now: float) -> list[contract.Entry]:
        query = {"container": self._container}
        if since is not None:
            query["sinceSeconds"] = str(int(now - since) + OVERLAP)
        answer = self._api.call("GET", PODS.path(self._namespace, pod["metadata"]["name"]) + "/log", query=query)
        return [document for line in str(answer.get("text") or "").splitlines()
                if (document := _marked(line)) is not None]

    def _misses_some(self, documents: list[contract.Entry]) -> bool:
        following = next((document["n"] for document in documents if document.get("n", 0) > self._last), None)
        return following is not None and following > self._last + 1

    def _in_place_of(self, first: int, following: contract.Entry) -> Iterator[contract.Entry]:
        """Entries with the numbers of those that the log has lost: the first one tells people, in the trial's stderr.

        The others are of a type that servers acknowledge and throw away.
        """
        last, at = min(following["n"] - 1, first + MOST_LOST - 1), following.get("at")
        if first != self._lost_to + 1:
            logger.warning("entries %d to %d of a trial were lost: the log of its pod was rotated", first,
                           following["n"] - 1)
            yield {"n": first, "at": at, "type": contract.OUTPUT, "stream": "stderr", "data": LOST,
                   "offset": self._end_of_stderr + self._inserted}
            self._inserted += len(LOST)
            first += 1
        for number in range(first, last + 1):
            yield {"n": number, "at": at, "type": "lost"}
        self._last = self._lost_to = last

    def _shifted(self, entry: contract.Entry) -> contract.Entry:
        """The entry; a piece of stderr behind what was inserted there."""
        if entry.get("type") != contract.OUTPUT or entry.get("stream") != "stderr":
            return entry
        self._end_of_stderr = entry["offset"] + len(entry["data"])
        return {**entry, "offset": entry["offset"] + self._inserted}

    def rewind(self) -> None:
        self._last, self._read_at, self._is_done = 0, None, False
        self._lost_to = -1
        self._end_of_stderr = self._inserted = 0

    def acknowledge(self, number: int) -> None:
        """Nothing can be told to a keeper that only writes."""

    def obey(self, orders: list[contract.Order]) -> None:
        # no order reaches the keeper: one that is to be frozen is ended, too, and goes on from its beginning
        if any(order.get("order") in (contract.ORDER_STOP, contract.ORDER_FREEZE) for order in orders):
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
        document = read_json(base64.b64decode(line[len(MARK):], validate=True))
    except ValueError:
        return None
    if not isinstance(document, dict) or not ("journal_id" in document or isinstance(document.get("n"), int)):
        return None
    return document
