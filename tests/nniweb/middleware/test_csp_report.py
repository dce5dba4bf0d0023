"""What browsers tell of forbidden content."""

import logging
from typing import Any

import pytest
from django.test import Client

from nniweb.middleware import csp_reports
from nniweb.observability import process_figures
from nniweb.process.token_bucket import TokenBucket

REPORT = b'{"csp-report": {"blocked-uri": "inline", "note": "\x1b[31m\nroot: all is lost"}}'


@pytest.fixture(autouse=True)
def time_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csp_reports, "_loggable", TokenBucket(
        csp_reports.LOGGED_A_MINUTE / 60, csp_reports.LOGGED_A_MINUTE, lambda: 1000.0))


def tell(body: bytes = REPORT) -> int:
    return Client(enforce_csrf_checks=True).generic("POST", "/csp-report/", body, "application/csp-report").status_code


def test_pages_say_where_to_report_and_a_report_is_one_harmless_line_in_the_log(
        db: None, client: Client, caplog: Any) -> None:
    assert "report-uri /csp-report/" in client.get("/sign-in/")["Content-Security-Policy"]
    before = process_figures.csp_reports._value.get()
    assert tell() == 204
    [line] = [record.getMessage() for record in caplog.records if record.name == csp_reports.__name__]
    assert "inline" in line
    assert line.isprintable()
    assert process_figures.csp_reports._value.get() == before + 1


def test_a_flood_of_reports_does_not_fill_the_log(db: None, caplog: Any) -> None:
    caplog.set_level(logging.WARNING)
    assert {tell(b"x" * 100_000) for _ in range(25)} == {204}
    lines = [record.getMessage() for record in caplog.records if record.name == csp_reports.__name__]
    assert len(lines) == csp_reports.LOGGED_A_MINUTE
    assert max(map(len, lines)) < 2 * csp_reports.MOST_SHOWN
