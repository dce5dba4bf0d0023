"""Every address that is answered, found where it is made known: Django's resolver and the other route tables.

Names of addresses are written as in the table: ``/api/v1/experiments/<experiment_id>/``.
"""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from django.urls import URLPattern, URLResolver, get_resolver

from nniweb.keeperapi.application import ROUTES as KEEPER_ROUTES
from nniweb.live.routing import websocket_urlpatterns
from nniweb.observability.probes import PATHS as PROBES
from trialkeeper import contract

#: Tried where a view does not say which methods it has.
METHODS = ("GET", "POST")


class Call(NamedTuple):
    """One thing that can be asked for."""

    method: str
    address: str


def of_django() -> Iterator[Call]:
    """Pages, REST, its schema, the admin, NNI's interface, figures."""
    for address, pattern in walk(get_resolver(), "/"):
        for method in _methods(pattern):
            yield Call(method, address)


def of_keepers() -> Iterator[Call]:
    for method, pattern, _ in KEEPER_ROUTES:
        names = iter(("<job>" if "trials" in pattern.pattern else "<experiment_id>",
                      "<sha256>" if "{64}" in pattern.pattern else "<name>"))
        yield Call(method, contract.URL_PREFIX + re.sub(r"\([^)]*\)", lambda _, names=names: next(names),
                                                        pattern.pattern))


def of_probes() -> Iterator[Call]:
    for path in PROBES:
        yield Call("GET", path)


def of_websockets() -> Iterator[Call]:
    for pattern in websocket_urlpatterns:
        yield Call("WEBSOCKET", f"/{_written(pattern)}")


def every_call() -> list[Call]:
    return [*of_django(), *of_keepers(), *of_probes(), *of_websockets()]


def walk(resolver: URLResolver, prefix: str) -> Iterator[tuple[str, URLPattern]]:
    """Every address below the resolver, and what answers it."""
    for pattern in resolver.url_patterns:
        if isinstance(pattern, URLResolver):
            yield from walk(pattern, prefix + _written(pattern))
        else:
            yield prefix + _written(pattern), pattern


def _written(pattern: Any) -> str:
    """The pattern with its variables as ``<name>``."""
    text = re.sub(r"\(\?P<(\w+)>[^)]*\)", r"<\1>", str(pattern.pattern))
    return re.sub(r"<\w+:(\w+)>", r"<\1>", text).lstrip("^").rstrip("$")


def _methods(pattern: URLPattern) -> list[str]:
    view = getattr(pattern.callback, "cls", None) or getattr(pattern.callback, "view_class", None)
    if view is None or view.__module__.startswith("django.views.generic.base"):
        return list(METHODS)
    return [name.upper() for name in view.http_method_names
            if hasattr(view, name) and name not in ("options", "head")]
