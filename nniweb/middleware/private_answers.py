"""Answers stay with who asked: no browser or proxy keeps what pages, REST and the admin say."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponseBase


class PrivateAnswersMiddleware:
    """``Cache-Control: no-store`` on everything that says nothing else. Stands behind what serves static files.

    Browsers then load a page anew where a visitor goes back to it, also after the visitor has signed out.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        response.headers.setdefault("Cache-Control", "no-store")
        return response
