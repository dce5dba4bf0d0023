"""Where the MCP server is. Apart from it, so that a web process without it loads nothing of the SDK."""

from nniweb.http.asgi import Scope
from nniweb.middleware.nni_port import came_through_a_port

PATHS = ("/mcp/", "/mcp")


def is_for_mcp(scope: Scope) -> bool:
    """Whether a request is for the MCP server: not one through an experiment's port, where nobody signs in."""
    return scope["path"] in PATHS and not came_through_a_port(scope)
