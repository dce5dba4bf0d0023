"""The MCP server switched on in the application of this process, and tokens of people."""

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("mcp", reason="the package mcp is missing: pip install -r requirements/mcp.txt")

from nniweb import asgi
from nniweb.experiments.models import ApiToken, User
from nniweb.experiments.models.account import Scope
from nniweb.mcp_server.http_application import mcp_server
from tests.nniweb.access.conftest import world

__all__ = ["world"]


@pytest.fixture
def switched_on(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with NNIWEB_MCP=1."""
    monkeypatch.setattr(asgi, "mcp_application", mcp_server(asgi.django_application))


@pytest.fixture
def token_of(transactional_db: None) -> Callable[..., str]:
    def token_of(user: User, scope: Scope = Scope.ADMIN, **fields: Any) -> str:
        return ApiToken.make(user, "agent", scope, **fields)

    return token_of
