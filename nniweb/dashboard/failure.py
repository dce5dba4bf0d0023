"""What is answered where a page failed: that the database is away, or that the log has the reason."""

import sys

from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.views.defaults import server_error

from nniweb.database.outage_logs import is_database_away
from nniweb.http.error_form import STORAGE_AWAY
from nniweb.http.shortage import RETRY_AFTER, SHORT
from nniweb.storage.elsewhere import StorageFailed
from trialkeeper.shortage import is_shortage


def page_failed(request: HttpRequest) -> HttpResponse:
    """Django's handler for any exception of a page; called while the exception is handled."""
    error = sys.exc_info()[1]
    if is_database_away(error):
        # the request itself is not given to the template: who is signed in cannot be read either
        return HttpResponse(render_to_string("503.html"), status=503, headers={"Retry-After": "5"})
    if isinstance(error, StorageFailed):
        return HttpResponse(f"{STORAGE_AWAY}\n", status=503, content_type="text/plain; charset=utf-8",
                            headers={"Retry-After": "30"})
    if is_shortage(error):
        return HttpResponse(f"{SHORT}\n", status=503, content_type="text/plain; charset=utf-8",
                            headers={"Retry-After": str(RETRY_AFTER)})
    return server_error(request)
