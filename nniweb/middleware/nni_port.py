"""How a request says that it came through an experiment's own port (``nniapi.ports``), where nobody signs in."""

from collections.abc import Mapping
from typing import Any

#: In the scope of such a request: the experiment's public id.
NNI_PORT = "nniweb.nni_port"


def came_through_a_port(scope: Mapping[str, Any]) -> bool:
    """Whether the request came through an experiment's own port, where nobody signs in."""
    return NNI_PORT in scope
