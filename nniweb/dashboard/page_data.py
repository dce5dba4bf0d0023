"""What every page needs of a request, and how data reaches its script."""

import json
from typing import Any

from django.http import HttpRequest

from nniweb.experiments.models import User
from nniweb.http.renderers import ExactJSONRenderer


def the_visitor(request: HttpRequest) -> User:
    """Who opened the page."""
    assert isinstance(request.user, User)  # the middleware lets nobody else in
    return request.user


def json_texts(values: Any) -> dict[str, str]:
    """Each value of an object as JSON, for scripts that give it back: JavaScript would round some numbers, and take 1.0
    for 1.
    """
    return {name: json.dumps(value, indent=1 if isinstance(value, dict | list) else None, ensure_ascii=False)
            for name, value in values.items()} if isinstance(values, dict) else {}


def for_script(data: Any) -> Any:
    """Data for ``json_script``: times as text, no NaN."""
    return json.loads(ExactJSONRenderer().render(data))
