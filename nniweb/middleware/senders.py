"""How much the sender of a request to pages and REST may send, by who it is and where it goes. Blocking."""

import logging
from importlib import import_module

from django.conf import settings
from django.contrib.auth import get_user
from django.db import DatabaseError, connection
from django.http import Http404, HttpRequest, parse_cookie
from django.urls import resolve
from rest_framework.exceptions import AuthenticationFailed

from nniweb.database.outage_logs import first_line
from nniweb.experiments.models import User
from nniweb.http.asgi import Scope
from nniweb.http.callers.authentication import TokenAuthentication
from nniweb.middleware.allowances import ANYBODYS_BYTES
from nniweb.middleware.nni_port import came_through_a_port

logger = logging.getLogger(__name__)

#: The largest code archive that is taken has room.
CODE_BYTES = 512 * 1024 * 1024
#: All that views other than those with ``takes_code = True`` read.
PERSONS_BYTES: int = settings.DATA_UPLOAD_MAX_MEMORY_SIZE


def may_send(scope: Scope) -> int:
    """Bytes. While the database is away, what anybody may."""
    try:
        if came_through_a_port(scope):
            return PERSONS_BYTES
        person = _person(scope)
        if person is None:
            return ANYBODYS_BYTES
        return CODE_BYTES if person.may_change and _takes_code(scope) else PERSONS_BYTES
    except DatabaseError as error:
        logger.warning("the sender of a large request cannot be identified; the database's error: "
                       "%s", first_line(error))
        return ANYBODYS_BYTES
    finally:
        connection.close()


def _person(scope: Scope) -> User | None:
    """Who is signed in, by the session or token in the headers."""
    headers = {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}
    try:
        token = TokenAuthentication().token_of(headers.get(b"authorization", ""))
    except AuthenticationFailed:
        return None
    if token is not None:
        return token.user
    key = parse_cookie(headers.get(b"cookie", "")).get(settings.SESSION_COOKIE_NAME)
    if not key:
        return None
    request = HttpRequest()
    request.session = import_module(settings.SESSION_ENGINE).SessionStore(key)
    person = get_user(request)
    return person if isinstance(person, User) else None


def _takes_code(scope: Scope) -> bool:
    """Whether the view at this address says that code is uploaded to it."""
    try:
        view = resolve(scope["path"].removeprefix(scope.get("root_path", "").rstrip("/"))).func
    except Http404:
        return False
    view_class = getattr(view, "cls", None) or getattr(view, "view_class", None)
    return bool(getattr(view_class, "takes_code", False))
