"""Secrets do not get into the console's log nor into reports of errors."""

from __future__ import annotations

import io
import json
import logging
import sys
import uuid

import pytest
from django.test import RequestFactory
from django.views.debug import ExceptionReporter, get_exception_reporter_filter

from nniweb.experiments.sealing import seal, unseal
from tests.nniweb.configured_logs import configured_logs


@pytest.fixture
def secret() -> str:
    """One that looks like nothing in particular, with what JSON escapes."""
    return f'Tea "at" 5\\{uuid.uuid4().hex}'


@pytest.mark.parametrize("form", ["text", "json"])
def test_what_was_sealed_or_opened_is_struck_out_of_messages_and_tracebacks(form: str, secret: str) -> None:
    config = configured_logs()
    handler = logging.StreamHandler(stream := io.StringIO())
    handler.setFormatter(config.configure_formatter(config.config["formatters"][form]))
    logger = logging.getLogger("test of secrets")
    logger.propagate = False
    logger.addHandler(handler)
    try:
        assert unseal(seal(secret)) == secret
        try:
            raise ValueError(f"the platform refused {secret}")
        except ValueError:
            logger.exception("it said: %s, and password=hunter22", secret)
    finally:
        logger.removeHandler(handler)
    text = stream.getvalue()
    assert "it said: ***, and password=***" in text
    assert "ValueError: the platform refused ***" in text
    assert secret not in text
    assert json.dumps(secret)[1:-1] not in text


@pytest.mark.parametrize("debug", [True, False])
def test_a_report_of_an_error_shows_no_variable_and_no_field_that_was_sent(debug: bool, secret: str, settings) -> None:
    settings.DEBUG = debug
    request = RequestFactory().post("/clusters/", {"anything": secret})
    try:
        innocent_name = {"anything": secret}
        raise RuntimeError(f"with {len(innocent_name)} variable")
    except RuntimeError:
        reporter = ExceptionReporter(request, *sys.exc_info())
        reporter.filter = get_exception_reporter_filter(request)
        reports = reporter.get_traceback_html() + reporter.get_traceback_text()
    assert "with 1 variable" in reports
    assert uuid_of(secret) not in reports


def uuid_of(secret: str) -> str:
    """The part of the secret that no form of escaping changes."""
    return secret[-32:]
