"""``/metrics``, for Prometheus: administrators, or whoever has NNIWEB_METRICS_TOKEN."""

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_GET
from prometheus_client import CONTENT_TYPE_LATEST
from rest_framework.exceptions import AuthenticationFailed, PermissionDenied
from rest_framework.request import Request

from nniweb.experiments.models import User
from nniweb.http.callers.authentication import TokenAuthentication
from nniweb.observability.figures import all_figures, is_metrics_token

WHO_MAY_READ = ("Only administrators (with a session, or Authorization: Token ...) and clients with "
                "NNIWEB_METRICS_TOKEN (Authorization: Bearer ...) can read the metrics.\n")


@require_GET
@login_not_required  # it is asked for here: a scraper is shown no sign-in page
def metrics(request: HttpRequest) -> HttpResponse:
    if not _may_read(request):
        return HttpResponse(WHO_MAY_READ, status=401, content_type="text/plain",
                            headers={"WWW-Authenticate": "Bearer"})
    return HttpResponse(all_figures(), content_type=CONTENT_TYPE_LATEST)


def _may_read(request: HttpRequest) -> bool:
    authorization = request.headers.get("Authorization", "")
    if authorization.lower().startswith("bearer "):
        return is_metrics_token(authorization)
    try:
        found = TokenAuthentication().authenticate(Request(request))
    except (AuthenticationFailed, PermissionDenied):  # the latter of a token with a leash
        return False
    user = found[0] if found else request.user
    return isinstance(user, User) and user.is_admin
