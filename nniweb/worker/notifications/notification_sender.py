"""Sends what waits in the queue of messages. Every worker process has one; claims keep them apart."""

from __future__ import annotations

import hashlib
import hmac
import logging
import threading
import time

from django.conf import settings
from django.db import DatabaseError, connection
from django.utils import timezone

from nniweb.database.outage_logs import first_line
from nniweb.experiments.access.visibility import visible_experiments
from nniweb.experiments.clusters.lease import is_dead_here
from nniweb.experiments.models import NotificationDelivery
from nniweb.experiments.models.notification import Channel
from nniweb.experiments.notifications.notification_queue import (
    SEND_SECONDS,
    SWITCHED_OFF,
    Try,
    anything_waits,
    claim,
    claimants,
    forget_ended,
    free_claims_of,
    note_try,
    withdraw,
)
from nniweb.experiments.notifications.webhook_address import NoWebhookAddress, read_webhook_url
from nniweb.experiments.secrets.sealing import CannotOpen, unseal
from nniweb.experiments.sql.idle_connections import drop_connection, give_connection_back
from nniweb.observability import process_figures
from nniweb.worker.cluster_host.call_threads import CallThreads
from nniweb.worker.notifications.notification_mail import send_mail
from nniweb.worker.notifications.webhook_call import CallFailed, post
from nniweb.worker.poll_loop import LOOK_SECONDS, look_until
from trainingservice.lasting_thread import LastingThread
from trainingservice.secrets_in_use import own_secrets

logger = logging.getLogger(__name__)

#: Messages under way at the same time; of one receiver one.
AT_ONCE = 4
#: How often messages that ended long ago are removed, in seconds.
TIDY_SECONDS = 3600.0


class NotificationSender:
    """``start`` begins, ``stop`` claims nothing more; both from any thread. What is under way goes on to its end."""

    def __init__(self, worker_id: str) -> None:
        self._worker_id = worker_id
        self._stopping = threading.Event()
        self._threads = CallThreads("notifications", AT_ONCE)
        self._guard = threading.Lock()
        self._busy_rules: set[int] = set()
        self._next_tidying = 0.0
        self._thread = LastingThread("notifications", self._run, stopping=self._stopping)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()

    def join(self, timeout: float) -> None:
        """Wait for what is under way, at most so many seconds; what is not done by then another worker sends again."""
        deadline = time.monotonic() + timeout
        self._thread.join(timeout)
        self._threads.close()
        self._threads.join(max(0.1, deadline - time.monotonic()))

    def _run(self) -> None:
        look_until(self._stopping, "notifications", self._look, self._thread.part)

    def _look(self) -> float:
        self.look()
        self._tidy()
        return LOOK_SECONDS

    def look(self) -> int:
        """Claim what is due and hand it to the threads that send; how many that were."""
        if not anything_waits():
            return 0
        for other in claimants(self._worker_id):
            if is_dead_here(other):
                free_claims_of(other)
        with self._guard:
            busy = set(self._busy_rules)
        found = claim(self._worker_id, AT_ONCE - len(busy), busy, timezone.now()) if len(busy) < AT_ONCE else []
        for delivery in found:
            with self._guard:
                self._busy_rules.add(delivery.rule_id)
            try:
                self._threads.submit(lambda delivery=delivery: self._carry_out(delivery))  # type: ignore[misc]
            except BaseException:  # the machine has no thread to spare; what is claimed is sent when the claim is over
                with self._guard:
                    self._busy_rules.discard(delivery.rule_id)
                raise
        return len(found)

    def _tidy(self) -> None:
        if time.monotonic() >= self._next_tidying:
            self._next_tidying = time.monotonic() + TIDY_SECONDS
            forget_ended(timezone.now())

    # --- on the threads that send ------------------------------------------------------------

    def _carry_out(self, delivery: NotificationDelivery) -> None:
        try:
            with own_secrets():
                self.send_one(delivery)
        except DatabaseError as error:
            # it stays claimed for a while, then it is sent again
            logger.warning("notification %s: the outcome cannot be stored; the database's error: %s",
                           delivery.public_id, first_line(error))
            drop_connection()
        except Exception:
            logger.exception("notification %s: the outcome cannot be stored", delivery.public_id)
        finally:
            with self._guard:
                self._busy_rules.discard(delivery.rule_id)
            connection.close()

    def send_one(self, delivery: NotificationDelivery) -> None:
        """Send what this sender has claimed, and write down how it went. Blocking."""
        why_not = reason_not_to_send(delivery)
        if why_not:
            withdraw(delivery, self._worker_id, why_not, timezone.now())
            return
        give_connection_back()  # the receiver may take its time
        began = time.monotonic()
        try:
            outcome = send_mail(delivery) if delivery.rule.channel == Channel.EMAIL else send_webhook(delivery)
        except Exception:
            logger.exception("notification %s cannot be sent; it is sent again later", delivery.public_id)
            outcome = Try(False, "The worker failed to send it. The worker's log contains the "
                                 "error.", time.monotonic() - began)
        channel = delivery.rule.channel
        process_figures.notifications.labels(channel, "delivered" if outcome.delivered else "failed").inc()
        process_figures.notification_seconds.labels(channel).observe(outcome.seconds)
        logger.info("notification %s of %s: %s", delivery.public_id, delivery.rule.public_id,
                    "delivered" if outcome.delivered else outcome.answer)
        note_try(delivery, self._worker_id, outcome, timezone.now())


def reason_not_to_send(delivery: NotificationDelivery) -> str:
    """A sentence where things have changed since it was written, else "". Up to one query."""
    owner = delivery.rule.owner
    if not owner.is_active:
        return "The account was closed."
    if not delivery.rule.enabled:
        return SWITCHED_OFF
    experiment = delivery.experiment
    if experiment is not None and experiment.deleted_at is None and not visible_experiments(owner).filter(
            pk=experiment.pk).exists():
        return "You may no longer see the experiment."
    return ""


def send_webhook(delivery: NotificationDelivery) -> Try:
    """Post the body as it stands, with a time and a signature over both. Blocking."""
    began = time.monotonic()
    rule, body = delivery.rule, delivery.body.encode()
    try:
        address = read_webhook_url(unseal(rule.sealed_url or b""))
        headers = signed_headers(delivery, unseal(rule.sealed_secret or b""), body, int(timezone.now().timestamp()))
        answer = post(address, body, headers, also_private=settings.WEBHOOK_PRIVATE_ADDRESSES, seconds=SEND_SECONDS)
    except (NoWebhookAddress, CannotOpen) as error:
        return Try(False, str(error), time.monotonic() - began, hopeless=True)
    except CallFailed as error:
        return Try(False, str(error), time.monotonic() - began)
    text = answer.text.strip() or "(no text)"
    if 300 <= answer.status < 400:
        text = f"The address redirects to another one, which is not followed. Give the other address. {text}"
    return Try(200 <= answer.status < 300, text, time.monotonic() - began, answer.status, answer.retry_after)


def signed_headers(delivery: NotificationDelivery, secret: str, body: bytes, at: int) -> dict[str, str]:
    """``at``: seconds since 1970, which the signature covers so that an old message cannot be sent as a new one."""
    signature = hmac.new(secret.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    return {"Content-Type": "application/json", "User-Agent": "NNI-Web", "X-NNIWeb-Event": delivery.occasion,
            "X-NNIWeb-Delivery": str(delivery.public_id), "X-NNIWeb-Timestamp": str(at),
            "X-NNIWeb-Signature": f"sha256={signature}"}
