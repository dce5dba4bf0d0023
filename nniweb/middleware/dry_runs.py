"""Refuses ``dry_run`` where a change cannot be tried, and other spellings of it everywhere: the change would be made
although the caller asked for none.
"""

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse

from nniweb.http.dry_run import NAME, means_dry_run

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
        if NAME not in request.GET:
            return None
        if getattr(getattr(view, "cls", None), "has_dry_run", False):
            return None
        return _refused(NAME, _TEXT)


def _refused(field: str, message: str) -> HttpResponse:
    return JsonResponse({"errors": [{"field": field, "message": message}]}, status=400)
