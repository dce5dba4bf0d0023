"""``/csp-report/``: where browsers tell that a page wanted something its Content-Security-Policy forbids.

One line in the log for each, and a figure. Either the policy is wrong, or somebody's text got into a page as markup.
"""

import logging
from threading import Lock

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from nniweb.observability import process_figures
from nniweb.process.token_bucket import TokenBucket

logger = logging.getLogger(__name__)

#: Bytes of a report that are read, and characters of it that are logged.
MOST_BYTES, MOST_SHOWN = 16 * 1024, 1000
#: Reports of all browsers together that are logged at once, and in a minute when they go on coming; the others are only
#: counted.
LOGGED_A_MINUTE = 20


_lock = Lock()
_loggable = TokenBucket(LOGGED_A_MINUTE / 60, LOGGED_A_MINUTE)


@csrf_exempt  # the browser itself sends it, without a token; nothing but the log changes
@login_not_required  # the page for signing in has a policy too
@require_POST
def csp_report(request: HttpRequest) -> HttpResponse:
    """Note a report; 204 whatever it holds."""
    process_figures.csp_reports.inc()
    body = request.read(MOST_BYTES)
    with _lock:
        is_logged = _loggable.take()
    if is_logged:
        # ascii: what a stranger sends must not end the line or colour the terminal
        logger.warning("a browser reports a violation of the Content-Security-Policy: %s",
                       ascii(body.decode("utf-8", "replace"))[:MOST_SHOWN])
    return HttpResponse(status=204)
