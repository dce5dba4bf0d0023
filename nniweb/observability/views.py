"""``/metrics``, for Prometheus: administrators, or whoever has NNIWEB_METRICS_TOKEN."""

import logging

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse
from django.utils.crypto import constant_time_compare
from django.views.decorators.http import require_GET
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Gauge, generate_latest
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from nniweb.api.authentication import TokenAuthentication
from nniweb.experiments.models import User
from nniweb.observability.database_figures import DatabaseFigures
from nniweb.observability.process_figures import registry

logger = logging.getLogger(__name__)

WHO_MAY_READ = ("The figures are for administrators (a session, or Authorization: Token ...) and for whoever has "
                "NNIWEB_METRICS_TOKEN (Authorization: Bearer ...).\n")


@require_GET
@login_not_required  # it is asked for here: a scraper is shown no sign-in page
def metrics(request: HttpRequest) -> HttpResponse:
    if not _may_read(request):
        return HttpResponse(WHO_MAY_READ, status=401, content_type="text/plain",
                            headers={"WWW-Authenticate": "Bearer"})
    return HttpResponse(generate_latest(registry) + _of_the_database(), content_type=CONTENT_TYPE_LATEST)


def _of_the_database() -> bytes:
    """Figures of the rows, and whether they could be asked for: an outage is when figures are wanted most."""
    found = CollectorRegistry()
    answers = Gauge("nniweb_database_answers", "1 where the database could be asked for this answer's figures, else 0.",
                    registry=found)
    figures = CollectorRegistry()
    figures.register(DatabaseFigures())
    try:
        of_rows = generate_latest(figures)
    except DatabaseError as error:
        logger.warning("figures of the database are left out, it says: %s", error)
        answers.set(0)
        return generate_latest(found)
    answers.set(1)
    return generate_latest(found) + of_rows


def _may_read(request: HttpRequest) -> bool:
    scheme, _, secret = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return bool(settings.METRICS_TOKEN) and constant_time_compare(secret.strip(), settings.METRICS_TOKEN)
    try:
        found = TokenAuthentication().authenticate(Request(request))
    except AuthenticationFailed:
        return False
    user = found[0] if found else request.user
    return isinstance(user, User) and user.is_admin
