"""Refuses ``dry_run`` where a change cannot be tried, in the address and in a JSON body, and other spellings of it
everywhere: the change would be made although the caller asked for none.
"""

import json
import re
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse

from nniweb.http.dry_run import NAME, means_dry_run

#: A body without this has no name that means ``dry_run``; most bodies are read once.
_MAY_NAME_IT = re.compile(rb"dry|\\u", re.IGNORECASE)
_LOOKS = ("GET", "HEAD", "OPTIONS", "TRACE")
_TEXT = ("This change has no dry run, so nothing was done. The description of the REST interface names the changes "
         "that have one. Leave the parameter out to make the change.")


class DryRunsMiddleware:
    """Views that can be tried have ``has_dry_run``, and use ``nniweb.http.dry_run.unless_dry_run``."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_view(self, request: HttpRequest, view: Any, args: Any, kwargs: Any) -> HttpResponse | None:
        is_nobody = not request.user.is_authenticated and "authorization" not in request.headers
        if request.method in _LOOKS or is_nobody:  # nobody is told to sign in first, and changes nothing
            return None
        if misspelt := [name for name in request.GET if name != NAME and means_dry_run(name)]:
            return _refused(misspelt[0], f"is not known, so nothing was done. Write {NAME}=true to try a change.")
        if getattr(getattr(view, "cls", None), "has_dry_run", False):
            return None  # it looks at the body itself
        if NAME in request.GET:
            return _refused(NAME, _TEXT)
        written = _written_in_body(request)
        return None if written is None else _refused(written, _TEXT)


def _written_in_body(request: HttpRequest) -> str | None:
    """The name by which the body asks for a dry run; None where it does not. What is too large or no JSON is left to
    the view, which refuses it.
    """
    try:
        length = int(request.META.get("CONTENT_LENGTH") or 0)
    except ValueError:
        return None
    if request.content_type != "application/json" or not 0 < length <= settings.DATA_UPLOAD_MAX_MEMORY_SIZE:
        return None
    if not _MAY_NAME_IT.search(request.body):
        return None
    try:
        document = json.loads(request.body)
    except (ValueError, RecursionError):
        return None
    return next(filter(means_dry_run, document), None) if isinstance(document, dict) else None


def _refused(field: str, message: str) -> HttpResponse:
    return JsonResponse({"errors": [{"field": field, "message": message}]}, status=400)
