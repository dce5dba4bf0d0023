"""Somebody who is signed in."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from nniweb.experiments.models import User


@pytest.fixture
def page(admin: User) -> Callable[..., str]:
    """``page("/trials/x/")``: the page's text, which must be there."""
    client = Client()
    client.force_login(admin)

    def page(address: str, **query: Any) -> str:
        answer = client.get(address, query)
        assert answer.status_code == 200, answer.status_code
        return str(answer.content.decode())

    return page


@pytest.fixture
def queries(page: Callable[..., str]) -> Callable[..., int]:
    """How many queries a page takes, sessions and all."""

    def queries(address: str, **query: Any) -> int:
        with CaptureQueriesContext(connection) as found:
            page(address, **query)
        return len(found)

    return queries
