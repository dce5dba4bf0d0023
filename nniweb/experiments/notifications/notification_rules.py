"""What people say about how they are told of things. Every function is one transaction and raises ``Refused``."""

import secrets
from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.contrib.auth.models import Group
from django.db import transaction
from django.utils import timezone

from nniweb.experiments.access import audit
from nniweb.experiments.access.held_row import hold
from nniweb.experiments.access.visibility import visible_experiments
from nniweb.experiments.errors import Refused
from nniweb.experiments.models import Experiment, NotificationDelivery, NotificationRule, User
from nniweb.experiments.models.notification import Channel, DeliveryState, Occasion
from nniweb.experiments.notifications import outbox
from nniweb.experiments.notifications.notification_queue import SWITCHED_OFF
from nniweb.experiments.notifications.webhook_address import NoWebhookAddress, read_webhook_url
from nniweb.experiments.secrets.sealing import seal

#: Rules of one person.
MOST_RULES = 50
#: Characters of a secret that somebody brings along.
SHORTEST_SECRET, LONGEST_SECRET = 16, 200


def create_rule(owner: User, wish: Mapping[str, Any]) -> tuple[NotificationRule, str]:
    """A new rule and its secret, which is never given again; "" for mail. ``wish`` is as REST takes it."""
    fields, secret = _read(owner, dict(wish), None)
    with transaction.atomic():
        hold(owner)  # so that two at one moment are counted one after the other
        if NotificationRule.objects.filter(owner=owner).count() >= MOST_RULES:
            raise Refused(f"You already have {MOST_RULES} notifications, which is the maximum. Remove one first.")
        rule = NotificationRule.objects.create(owner=owner, created_at=timezone.now(), **fields)
        audit.record("notification.create", rule, owner, channel=rule.channel, to=rule.shown_url,
                     experiment=rule.experiment.public_id if rule.experiment else None,
                     group=rule.group.name if rule.group else None)
        return rule, secret


def change_rule(rule: NotificationRule, wish: Mapping[str, Any]) -> None:
    """Change what ``wish`` names. What waits is withdrawn where the rule is switched off."""
    fields, _ = _read(rule.owner, dict(wish), rule)
    with transaction.atomic():
        NotificationRule.objects.filter(pk=rule.pk).update(**fields)
        rule.refresh_from_db()
        audit.record("notification.change", rule, rule.owner, to=rule.shown_url, changed=sorted(wish))
        if not rule.enabled:
            rule.deliveries.filter(state=DeliveryState.WAITING, claimed_until=None).update(
                state=DeliveryState.WITHDRAWN, ended_at=timezone.now(), message=SWITCHED_OFF)


def delete_rule(rule: NotificationRule) -> None:
    """Remove it with the record of its messages; what waits is not sent."""
    with transaction.atomic():
        audit.record("notification.delete", rule, rule.owner)
        rule.delete()


def send_test(rule: NotificationRule) -> NotificationDelivery:
    """A message that shows whether the way works; a worker sends it."""
    if not rule.enabled:
        raise Refused("The notification is switched off; switch it on before you test it.")
    _check_mail(rule.owner, rule.channel)
    with transaction.atomic():
        NotificationRule.objects.select_for_update().get(pk=rule.pk)
        if rule.deliveries.filter(occasion=Occasion.TEST, state=DeliveryState.WAITING, try_count=0).exists():
            raise Refused("A test is already being sent. If it does not arrive, check that a worker is running.")
        # the newest says how things are
        rule.deliveries.filter(occasion=Occasion.TEST, state=DeliveryState.WAITING, claimed_until=None).update(
            state=DeliveryState.WITHDRAWN, ended_at=timezone.now(), message="A newer test replaces this one.")
        audit.record("notification.test", rule, rule.owner, to=rule.shown_url)
        return outbox.tell_test(rule, timezone.now())


def send_again(delivery: NotificationDelivery) -> None:
    """Try a message again that was given up, from the beginning, with the same delivery id."""
    if not delivery.rule.enabled:
        raise Refused("The notification is switched off; switch it on first.")
    with transaction.atomic():
        if not NotificationDelivery.objects.filter(pk=delivery.pk, state=DeliveryState.GIVEN_UP).update(
                state=DeliveryState.WAITING, due_at=timezone.now(), try_count=0, ended_at=None, message=""):
            raise Refused("Only a message that was given up can be sent again.")
        audit.record("notification.send-again", delivery.rule, delivery.rule.owner, delivery=str(delivery.public_id))


def _read(owner: User, wish: dict[str, Any], rule: NotificationRule | None) -> tuple[dict[str, Any], str]:
    """Columns for what is wished, and the new secret, "" where there is none."""
    fields: dict[str, Any] = {name: wish[name] for name in ("name", "on_done", "on_failed", "on_best", "enabled")
                              if name in wish}
    if rule is None:
        fields["channel"] = wish["channel"]
        fields |= _scope(owner, wish.get("experiment"), wish.get("group"))
        _check_mail(owner, wish["channel"])
    is_webhook = (rule.channel if rule is not None else wish["channel"]) == Channel.WEBHOOK
    url, secret = wish.get("url", ""), wish.get("secret", "")
    if not is_webhook:
        if url or secret:
            raise Refused("Mails go to the address of your account. Leave out the address and the secret.",
                          "url" if url else "secret")
    else:
        if rule is None and not url:
            raise Refused("A webhook needs an address to call.", "url")
        if rule is None and not secret:
            secret = secrets.token_urlsafe(32)
        if url:
            fields |= {"sealed_url": seal(url), "shown_url": _origin(url)}
        if secret:
            fields["sealed_secret"] = seal(secret)
    on = {name: fields.get(name, getattr(rule, name, False)) for name in ("on_done", "on_failed", "on_best")}
    if not any(on.values()):
        raise Refused("Choose at least one event. To pause a notification, switch it off.",
                      "on_done")
    return fields, secret


def _scope(owner: User, experiment_id: str | None, group: Group | None) -> dict[str, Any]:
    if experiment_id and group:
        raise Refused("Name an experiment or a group, not both.", "group")
    if group is not None and not (owner.is_admin or owner.groups.filter(pk=group.pk).exists()):
        raise Refused(f"You are not in the group {group.name}.", "group")
    experiment: Experiment | None = None
    if experiment_id:
        experiment = visible_experiments(owner).filter(public_id=experiment_id).first()
        if experiment is None:
            raise Refused(f"There is no experiment {experiment_id[:20]}, or you may not see it.", "experiment")
    return {"experiment": experiment, "group": group}


def _check_mail(owner: User, channel: str) -> None:
    if channel != Channel.EMAIL:
        return
    if not settings.MAIL_URL:
        raise Refused("This installation cannot send mail. An administrator can configure a mail server with "
                      "NNIWEB_MAIL_URL.",
                      "channel")
    if not owner.email:
        raise Refused("Your account has no e-mail address. Add one on your account page.",
                      "channel")


def _origin(url: str) -> str:
    try:
        return read_webhook_url(url).origin
    except NoWebhookAddress as error:
        raise Refused(str(error), "url") from None
