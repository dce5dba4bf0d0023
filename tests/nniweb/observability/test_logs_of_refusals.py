"""A request that is refused leaves one line in the log, whoever sent it."""

import io
import logging
from collections.abc import Iterator

import pytest
from django.test import Client

from nniweb.dashboard.new_experiment import NewExperiment
from nniweb.experiments.models import User
from tests.nniweb.configured_logs import configured_logs


@pytest.fixture
def console() -> Iterator[io.StringIO]:
    """What the configured handler of the console writes of Django's logs."""
    config = configured_logs()
    handler = logging.StreamHandler(stream := io.StringIO())
    handler.setFormatter(config.configure_formatter(config.config["formatters"]["text"]))
    for name in config.config["handlers"]["console"]["filters"]:
        handler.addFilter(config.configure_filter(config.config["filters"][name]))
    logger = logging.getLogger("django")
    logger.addHandler(handler)
    yield stream
    logger.removeHandler(handler)


def test_a_page_that_a_person_may_not_open_is_one_line(client: Client, vera: User, console: io.StringIO) -> None:
    client.force_login(vera)
    assert client.get("/clusters/new/").status_code == 403
    assert len(console.getvalue().splitlines()) == 1
    assert "/clusters/new/" in console.getvalue()


def test_a_request_with_a_foreign_host_is_one_line(client: Client, admin: User, console: io.StringIO) -> None:
    assert client.get("/", headers={"host": "evil.example"}).status_code == 400
    [line] = [line for line in console.getvalue().splitlines() if "evil.example" in line]
    assert "Traceback" not in console.getvalue(), line


def test_an_error_of_the_server_keeps_its_traceback(admin: User, console: io.StringIO,
                                                    monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client(raise_request_exception=False)
    client.force_login(admin)

    def fails(*_: object) -> None:
        raise RuntimeError("of a test")

    monkeypatch.setattr(NewExperiment, "get", fails)
    assert client.get("/new/").status_code == 500
    assert "RuntimeError: of a test" in console.getvalue()
