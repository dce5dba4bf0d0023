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


def for_script(data: Any) -> Any:
    """Data for ``json_script``: times as text, no NaN."""
    return json.loads(ExactJSONRenderer().render(data))
