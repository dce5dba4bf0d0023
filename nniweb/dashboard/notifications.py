"""The pages about who is told of what: a person's own rules, and what became of each one's messages."""

from typing import Any

from django.conf import settings
from django.core.paginator import Paginator
from django.db.models import OuterRef, Subquery
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.utils import timezone
from django.views.decorators.http import require_GET

from nniweb.api.people.notifications import deliveries_of, rules_of
from nniweb.dashboard.page_data import the_visitor
from nniweb.experiments.access.visibility import visible_experiments
from nniweb.experiments.clusters.worker_presence import worker_is_alive
from nniweb.experiments.models import NotificationDelivery, NotificationRule, User
from nniweb.experiments.models.notification import Channel, DeliveryState
from nniweb.experiments.notifications.notification_queue import PAUSES
from nniweb.experiments.notifications.outbox import BEST_PAUSE

DELIVERIES_PER_PAGE = 50


@require_GET
def notifications(request: HttpRequest) -> HttpResponse:
    """``?experiment=ID`` fills in the form for this experiment."""
    user = the_visitor(request)
    last = NotificationDelivery.objects.filter(rule=OuterRef("pk")).order_by("-pk")
    rules = list(rules_of(user).annotate(last_state=Subquery(last.values("state")[:1]),
                                         last_at=Subquery(last.values("created_at")[:1])))
    wanted = request.GET.get("experiment", "")
    experiment = visible_experiments(user).filter(public_id=wanted).first() if wanted else None
    return render(request, "dashboard/notifications.html", {
        "rules": [_shown(rule) for rule in rules], "experiment": experiment, "groups": _groups(user),
        "why_no_mail": why_no_mail(user), "pause": BEST_PAUSE.seconds // 60})


@require_GET
def one_notification(request: HttpRequest, public_id: str) -> HttpResponse:
    """A rule and the messages that it has caused."""
    user = the_visitor(request)
    rule = get_object_or_404(rules_of(user), public_id=public_id)
    page = Paginator(deliveries_of(rule), DELIVERIES_PER_PAGE).get_page(request.GET.get("page"))
    waits = rule.deliveries.filter(state=DeliveryState.WAITING).exists()
    return render(request, "dashboard/notification.html", {
        "rule": rule, "shown": _shown(rule), "page": page, "now": timezone.now(), "waits": waits,
        "no_worker": waits and not worker_is_alive(), "may_change": user.may_change,
        "most_tries": len(PAUSES) + 1, "pause": BEST_PAUSE.seconds // 60})


def why_no_mail(user: User) -> str:
    """A sentence where mails cannot reach this person, else ""."""
    if not settings.MAIL_URL:
        return "This installation cannot send mail. An administrator can configure a mail server with NNIWEB_MAIL_URL."
    if not user.email:
        return "Your account has no e-mail address. Add one on your account page."
    return ""


def _groups(user: User) -> list[str]:
    return list(user.groups.order_by("name").values_list("name", flat=True))


def _shown(rule: NotificationRule) -> dict[str, Any]:
    """What the templates say of a rule, in words."""
    occasions = [words for on, words in ((rule.on_done, "done"), (rule.on_failed, "failed"),
                                         (rule.on_best, "new best")) if on]
    return {"rule": rule, "title": str(rule), "when": ", ".join(occasions),
            "to": rule.owner.email if rule.channel == Channel.EMAIL else rule.shown_url}
