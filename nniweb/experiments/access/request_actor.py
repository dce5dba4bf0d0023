"""Who asks for what is being done now: the person of a request, or who started a command.

Held in a context variable, so that what is done deep below a view can be put down to somebody. Nobody asks where the
worker acts by itself.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest, HttpResponse

from nniweb.annotation.reading_slots import slots
from nniweb.experiments.models import ApiToken, User
from trainingservice.secrets_in_use import own_secrets


@dataclass
class Asking:
    """A request or a command."""

    #: How the person is known: "page", "token laptop", "command token by root".
    via: str
    address: str = ""
    request: HttpRequest | None = None
    #: Where it is not the request's own: the person of a token.
    user: User | None = None
    #: The API token that speaks for the person, where one does.
    token: ApiToken | None = None

    @property
    def person(self) -> User | None:
        user = self.user or getattr(self.request, "user", None)
        return user if isinstance(user, User) and not isinstance(user, AnonymousUser) else None


_asking: ContextVar[Asking | None] = ContextVar("nniweb_asking", default=None)


def asking() -> Asking | None:
    """The request or command that is being answered in this context; None where nobody asks."""
    return _asking.get()


def _person() -> int | None:
    now = asking()
    return now.person.pk if now is not None and now.person is not None else None


#: Annotations know nothing of people: here they learn whose share a reading counts to.
slots.person = _person


def asking_token() -> ApiToken | None:
    """The API token by which the present request was made; None for pages, commands and the worker."""
    now = _asking.get()
    return now.token if now is not None else None


def known_as(user: User, via: str, token: ApiToken | None = None) -> None:
    """Say how the person of the present request became known, where it was not by their session."""
    if (now := _asking.get()) is not None:
        now.user, now.via, now.token = user, via, token


@contextmanager
def asked_by(via: str) -> Iterator[None]:
    """What is done inside was asked for on this machine, by this command or program."""
    reset = _asking.set(Asking(via=via))
    try:
        yield
    finally:
        _asking.reset(reset)


@contextmanager
def asked_at(request: HttpRequest) -> Iterator[None]:
    """What is done inside is put down to the request."""
    via = "admin" if request.path.startswith("/admin/") else "page"
    reset = _asking.set(Asking(via=via, address=address_of(request), request=request))
    try:
        with own_secrets():
            yield
    finally:
        _asking.reset(reset)


class WhoAsksMiddleware:
    """What a request does is put down to its person. Stands after Django's authentication."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        with asked_at(request):
            return self.get_response(request)


def address_of(request: HttpRequest) -> str:
    """The network address that the request came from; behind a proxy that is not trusted, the proxy's."""
    return str(request.META.get("REMOTE_ADDR") or "")[:45]
