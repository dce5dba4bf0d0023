"""What is answered where a page failed: that the database is away, or that the log has the reason."""

import sys

from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.views.defaults import server_error

from nniweb.outage_logs import is_database_away


def page_failed(request: HttpRequest) -> HttpResponse:
    """Django's handler for any exception of a page; called while the exception is handled."""
    if is_database_away(sys.exc_info()[1]):
        # the request itself is not given to the template: who is signed in cannot be read either
        return HttpResponse(render_to_string("503.html"), status=503, headers={"Retry-After": "5"})
    return server_error(request)
