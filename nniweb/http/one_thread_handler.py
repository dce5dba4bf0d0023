"""Django behind ASGI, with a request's middleware and view in one thread, one after the other.

Django's own handler gives each step of a middleware that is not asynchronous to a thread and comes back to the loop
for the next. None of ours is asynchronous, nor are the views: that was some twenty changes of thread for each request.
"""

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIHandler
from django.http import HttpRequest, HttpResponseBase


class OneThreadHandler(ASGIHandler):
    """``django.setup`` must have been called."""

    def load_middleware(self, is_async: bool = False) -> None:
        super().load_middleware(is_async=False)

    async def get_response_async(self, request: HttpRequest) -> HttpResponseBase:
        return await sync_to_async(self.get_response, thread_sensitive=True)(request)
