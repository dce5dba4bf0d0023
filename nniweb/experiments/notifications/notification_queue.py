"""The queue of messages: workers claim what is due, send it, and write down how it went.

A claim is an UPDATE that only one can make. It ends by itself, so what a worker had in hand when it died is sent by
another one; whatever was sent without being written down is sent twice, with the same delivery id.
"""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Min, Q

from nniweb.database.database_clock import DatabaseNow
from nniweb.experiments.models import NotificationDelivery, NotificationRule
from nniweb.experiments.models.notification import DeliveryState
from nniweb.experiments.sql.exact_text import printable
from nniweb.experiments.sql.selected_rows import is_any

#: Messages of one person that a worker sends at the same time, so that their silent receivers keep nobody waiting.
MOST_OF_ONE = 2
#: How long a webhook may take to answer, in seconds.
SEND_SECONDS = 20.0
#: How long the others leave a claimed message alone, in seconds: longer than the slowest mail server takes, each of
#: whose answers may come late (``mail_settings.PATIENCE``). Claims of a worker that is known to be dead end at once.
CLAIM_SECONDS = 180.0
#: Pauses after the first, second ... try that failed, in seconds; after the last of them a message is given up.
PAUSES = (10, 60, 300, 900, 3600, 3 * 3600, 6 * 3600, 12 * 3600)
#: A receiver may ask for a longer pause (Retry-After), up to this, in seconds.
LONGEST_ASKED_PAUSE = 3600
#: Tries whose answers are kept, and characters of each answer.
KEPT_TRIES, LONGEST_ANSWER = 10, 500
#: How long ended messages are kept for looking at.
KEEP_ENDED = timedelta(days=30)
#: Why a message of a rule that is off is withdrawn.
SWITCHED_OFF = "The notification was switched off."


@dataclass(frozen=True)
class Try:
    """How one try went."""

    delivered: bool
    #: For people: what the receiver answered, or why nothing could be sent.
    answer: str
    seconds: float
    #: Of HTTP.
    status: int | None = None
    #: Seconds the receiver asked to be left alone.
    retry_after: int = 0
    #: Whether it makes no sense to try again.
    hopeless: bool = False


def anything_waits() -> bool:
    """Whether any message is to be sent, now or later."""
    return is_any(NotificationDelivery, "state = %s", [DeliveryState.WAITING.value])


def claim(worker_id: str, most: int, busy_rules: Collection[int], now: datetime) -> list[NotificationDelivery]:
    """Up to ``most`` messages that are due, for this worker alone, one of each rule; none of ``busy_rules``, of which
    it sends messages now. Who has fewer under way goes first, then who waits longest.

    ``now``, by the clock of the process, says what is due. Claims are judged by the database's clock, like leases.
    """
    free = Q(claimed_until=None) | Q(claimed_until__lt=DatabaseNow())
    due = NotificationDelivery.objects.filter(free, state=DeliveryState.WAITING, due_at__lte=now)
    under_way = Counter(NotificationRule.objects.filter(pk__in=busy_rules).values_list("owner", flat=True))
    waiting = list(due.exclude(rule__in=busy_rules).order_by().values_list("rule", "rule__owner").annotate(
        first=Min("due_at")).order_by("first"))
    claimed: list[int] = []
    while waiting and len(claimed) < most:
        rule, owner, _ = next_one = min(waiting, key=lambda one: under_way[one[1]])
        if under_way[owner] >= MOST_OF_ONE:
            break
        waiting.remove(next_one)
        pk = due.filter(rule=rule).order_by("due_at", "pk").values_list("pk", flat=True).first()
        if pk is not None and due.filter(pk=pk).update(
                claimed_by=worker_id, claimed_until=DatabaseNow() + timedelta(seconds=CLAIM_SECONDS)):
            claimed.append(pk)
            under_way[owner] += 1
    return list(NotificationDelivery.objects.filter(pk__in=claimed).select_related("rule__owner", "experiment"))


def claimants(worker_id: str) -> list[str]:
    """The other workers that have claimed something and not said how it went."""
    claimed = NotificationDelivery.objects.filter(state=DeliveryState.WAITING, claimed_until__isnull=False)
    return list(claimed.exclude(claimed_by=worker_id).order_by().values_list("claimed_by", flat=True).distinct())


def free_claims_of(worker_id: str) -> None:
    """What this worker had in hand, which is dead, may be claimed at once."""
    NotificationDelivery.objects.filter(state=DeliveryState.WAITING, claimed_by=worker_id).update(
        claimed_by="", claimed_until=None)


def note_try(delivery: NotificationDelivery, worker_id: str, outcome: Try, at: datetime) -> None:
    """Write down how it went and what is next. Nothing is changed where the claim is another's by now."""
    tries = [*delivery.tries, {"at": at.isoformat(), "seconds": round(outcome.seconds, 3), "status": outcome.status,
                               "answer": printable(outcome.answer, LONGEST_ANSWER)}][-KEPT_TRIES:]
    fields: dict[str, Any] = {"tries": tries, "try_count": delivery.try_count + 1, "claimed_by": "",
                              "claimed_until": None}
    if outcome.delivered:
        fields |= {"state": DeliveryState.DELIVERED, "ended_at": at, "message": ""}
    elif not NotificationRule.objects.filter(pk=delivery.rule_id, enabled=True).exists():
        fields |= {"state": DeliveryState.WITHDRAWN, "ended_at": at, "message": SWITCHED_OFF}
    elif outcome.hopeless or delivery.try_count >= len(PAUSES):
        why = "" if outcome.hopeless else f"Sending was tried {delivery.try_count + 1} times. "
        fields |= {"state": DeliveryState.GIVEN_UP, "ended_at": at, "message": printable(why + outcome.answer)}
    else:
        pause = max(PAUSES[delivery.try_count], min(outcome.retry_after, LONGEST_ASKED_PAUSE))
        fields["due_at"] = at + timedelta(seconds=pause)
    _claimed(delivery, worker_id).update(**fields)


def withdraw(delivery: NotificationDelivery, worker_id: str, why: str, at: datetime) -> None:
    """It is not to be sent any more."""
    _claimed(delivery, worker_id).update(state=DeliveryState.WITHDRAWN, ended_at=at, message=why, claimed_by="",
                                         claimed_until=None)


def _claimed(delivery: NotificationDelivery, worker_id: str) -> Any:
    return NotificationDelivery.objects.filter(pk=delivery.pk, claimed_by=worker_id, state=DeliveryState.WAITING)


def forget_ended(now: datetime) -> int:
    """Remove messages that ended long ago; how many."""
    return NotificationDelivery.objects.filter(ended_at__lt=now - KEEP_ENDED).delete()[0]
