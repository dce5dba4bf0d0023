"""Secrets do not get into the console's log nor into reports of errors."""

from __future__ import annotations

import io
import json
import logging
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory
from django.views.debug import ExceptionReporter, get_exception_reporter_filter

from nniweb.experiments.access.request_actor import WhoAsksMiddleware
from nniweb.experiments.secrets.masking import struck_out
from nniweb.experiments.secrets.sealing import seal, unseal
from nniweb.worker.cluster_host.call_threads import CallThreads
from tests.nniweb.configured_logs import configured_logs
from trainingservice.secrets_in_use import ServiceThread, learn, own_secrets

logger = logging.getLogger("test of secrets")
logger.propagate = False


@pytest.fixture
def secret() -> str:
    """One that looks like nothing in particular, with what JSON escapes."""
    return f'Tea "at" 5\\{uuid.uuid4().hex}'


@pytest.mark.parametrize("form", ["text", "json"])
def test_what_was_sealed_or_opened_is_struck_out_of_messages_and_tracebacks(form: str, secret: str) -> None:
    with console(form) as written, own_secrets():
        assert unseal(seal(secret)) == secret
        try:
            raise ValueError(f"the platform refused {secret}")
        except ValueError:
            logger.exception("it said: %s, and password=hunter22", secret)
    text = written.getvalue()
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


@contextmanager
def console(form: str = "text") -> Iterator[io.StringIO]:
    """What the server's own formatter writes of the logger "test of secrets"."""
    config = configured_logs()
    handler = logging.StreamHandler(stream := io.StringIO())
    handler.setFormatter(config.configure_formatter(config.config["formatters"][form]))
    logger.addHandler(handler)
    try:
        yield stream
    finally:
        logger.removeHandler(handler)


def in_a_thread(work: Callable[[], None]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join(60)


def test_a_message_is_masked_with_the_secrets_of_its_own_work_and_no_others(secret: str) -> None:
    """Otherwise whoever says many words learns by the masks which of them are passwords of somebody."""
    theirs = f"it is said to be {secret}"
    with own_secrets():
        seal(secret)
        assert struck_out(theirs) == "it is said to be ***"
    with own_secrets(), console() as written:
        assert struck_out(theirs) == theirs
        logger.warning(theirs)
    assert theirs in written.getvalue()


def test_whoever_has_a_common_word_for_a_password_blanks_nobodys_log() -> None:
    with console() as written:
        with own_secrets():
            seal("WARNING")
            seal("test of secrets")
            logger.warning("WARNING of one's own")
        logger.warning("the WARNING of another")
    own, another = written.getvalue().splitlines()
    assert "WARNING test of secrets: *** of one's own" in own, "level and logger stay"
    assert "WARNING test of secrets: the WARNING of another" in another


def test_however_many_secrets_there_are_none_is_forgotten(secret: str) -> None:
    with own_secrets():
        seal(secret)
        for number in range(2000):
            in_a_thread(lambda number=number: learn(f"of others {number}"))
            learn(f"of ours {number}")
        assert struck_out(f"{secret} {secret}") == "*** ***"


def test_the_threads_of_some_work_know_what_it_knows_and_those_of_others_do_not(secret: str) -> None:
    said = {}

    def say(where: str) -> None:
        said[where] = struck_out(secret)

    with own_secrets():
        ours = [ServiceThread(target=say, args=["own"]), ServiceThread(target=say, args=["own again"])]
        hosted = CallThreads("test", 1)
        seal(secret)  # also what is learnt later
        hosted.submit(lambda: say("call"))
    for thread in ours:
        thread.start()
        thread.join(60)
    hosted.submit(lambda: say("call of others"))
    hosted.close()
    hosted.join(60)
    in_a_thread(lambda: say("others"))
    assert said == {"own": "***", "own again": "***", "call": "***", "others": secret, "call of others": secret}


def test_each_request_is_work_of_its_own(secret: str, rf: RequestFactory) -> None:
    answers = []

    def view(request: HttpRequest) -> HttpResponse:
        answers.append(struck_out(secret))
        seal(secret)
        answers.append(struck_out(secret))
        return HttpResponse()

    for _ in range(2):
        WhoAsksMiddleware(view)(rf.get("/"))
    assert answers == [secret, "***", secret, "***"]
