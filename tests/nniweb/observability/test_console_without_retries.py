"""The console says what came of a request to another server, not each try of the HTTP library."""

from __future__ import annotations

import io
import logging
import socket
from collections.abc import Iterator

import pytest
from django.conf import settings

from nniweb.observability.console_level import NoRetries
from trainingservice.errors import TemporaryError
from trainingservice.rest.rest_client import RestClient


@pytest.fixture
def console() -> Iterator[logging.StreamHandler[io.StringIO]]:
    handler = logging.StreamHandler(io.StringIO())
    logging.getLogger().addHandler(handler)
    yield handler
    logging.getLogger().removeHandler(handler)


@pytest.mark.parametrize(("level", "is_shown"), [("INFO", False), ("WARNING", False), ("DEBUG", True)])
def test_an_address_that_does_not_answer_is_said_once_and_its_tries_only_to_who_debugs(
        console: logging.StreamHandler[io.StringIO], level: str, is_shown: bool) -> None:
    console.addFilter(NoRetries(level))
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # and does not listen: refused
        client = RestClient(f"http://127.0.0.1:{held.getsockname()[1]}/", "Ray")
        with pytest.raises(TemporaryError, match="cannot be reached"):
            client.call("GET", "api/version")
        client.close()
    logging.getLogger("urllib3.connectionpool").warning("Connection pool is full")
    said = console.stream.getvalue()
    assert ("Retrying" in said) is is_shown
    assert "Connection pool is full" in said


def test_the_console_has_this_filter() -> None:
    name = next(name for name, given in settings.LOGGING["filters"].items() if given["()"].endswith(".NoRetries"))
    assert name in settings.LOGGING["handlers"]["console"]["filters"]
