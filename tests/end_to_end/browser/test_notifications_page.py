"""The pages of notifications, in a browser, with a real receiver: set up, tested, switched off, removed."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.end_to_end.running_server import RunningServer
from tests.fakes.http_double import Answer
from tests.fakes.webhook_receiver import WebhookReceiver


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    running = RunningServer(tmp_path_factory.mktemp("server") / "data", {"NNIWEB_WEBHOOK_PRIVATE_ADDRESSES": "1"})
    try:
        yield running.start()
    finally:
        running.close()


@pytest.fixture
def receiver() -> Iterator[WebhookReceiver]:
    receiver = WebhookReceiver()
    receiver.start()
    yield receiver
    receiver.close()


@pytest.mark.slow
def test_a_webhook_is_set_up_tested_and_removed(server: RunningServer, open_page: Any, receiver: WebhookReceiver
                                                ) -> None:
    page = open_page(server, "/notifications/")
    page.get_by_label("Address").fill(f"{receiver.address}/hook")
    page.get_by_label("Name").fill("my hook")
    page.get_by_role("button", name="Create notification").click()
    secret = page.locator("#secret")
    expect(secret).to_be_visible()
    key = secret.inner_text()
    expect(page.locator("#rules")).to_contain_text("my hook")
    page.get_by_role("link", name="Its page").click()
    page.get_by_role("button", name="Send a test").click()
    messages = page.locator("#messages")
    expect(messages.locator(".health")).to_contain_text("delivered")
    messages.locator("summary").click()
    expect(messages.locator(".tries")).to_contain_text("thanks")
    [request] = receiver.requests
    signed = request.headers["X-NNIWeb-Timestamp"].encode() + b"." + request.body
    signature = hmac.new(key.encode(), signed, hashlib.sha256).hexdigest()
    assert request.headers["X-NNIWeb-Signature"] == f"sha256={signature}"
    assert key not in page.content()

    receiver.script(Answer(500, "out of order"), times=1000)  # it is tried again while this test goes on
    page.get_by_role("button", name="Send a test").click()
    expect(messages.locator("tbody tr").first).to_contain_text("waiting")
    expect(messages.locator("tbody tr").first).to_contain_text("last answer 500")
    page.get_by_role("button", name="Switch off").click()
    expect(messages.locator("tbody tr").first).to_contain_text("switched off")
    expect(page.get_by_role("button", name="Send a test")).to_be_disabled()
    page.get_by_role("button", name="Remove…").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    page.wait_for_url("**/notifications/")
    expect(page.locator("#rules")).to_contain_text("None yet")


@pytest.mark.slow
def test_what_is_wrong_with_an_address_is_said(server: RunningServer, open_page: Any) -> None:
    page = open_page(server, "/notifications/")
    page.allow("status of 400")
    page.get_by_label("Address").fill("https://user:pass@hook.example/")
    page.get_by_role("button", name="Create notification").click()
    expect(page.locator("#action-error")).to_contain_text("must not contain a user name or a password")
    page.get_by_role("button", name="Create notification").click()
    expect(page.locator("#action-error")).to_be_visible()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_message_that_was_under_way_when_the_server_was_killed_comes_again_with_the_same_id(
        tmp_path: Path, receiver: WebhookReceiver) -> None:
    """The server is killed while the receiver has the message and has not answered."""
    server = RunningServer(tmp_path / "data", {"NNIWEB_WEBHOOK_PRIVATE_ADDRESSES": "1"}).start()
    try:
        rule = server.post("notifications/", {"channel": "webhook", "url": receiver.address})
        code = tmp_path / "code"
        code.mkdir()
        (code / "trial.py").write_text("import nni\nnni.get_next_parameter()\nnni.report_final_result(1)\n")
        receiver.may_answer.clear()
        experiment = server.launch({
            "trialCommand": "python3 trial.py", "trialCodeDirectory": str(code), "trialConcurrency": 1,
            "maxTrialNumber": 1, "tuner": {"name": "Random"}, "trainingService": {"platform": "local"},
            "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}}}, code)
        server.wait_until(lambda: receiver.requests, what="the receiver has the message")
        server.kill()
        receiver.may_answer.set()
        server.start()
        deliveries = f"notifications/{rule['id']}/deliveries/"
        server.wait_until(lambda: server.get(deliveries)["results"][0]["state"] == "delivered", patience=180,
                          what="another worker has sent it")
        first, second = receiver.requests
        assert first.headers["X-NNIWeb-Delivery"] == second.headers["X-NNIWeb-Delivery"]
        assert first.json() == second.json()
        assert first.json()["experiment"]["id"] == experiment
        assert first.json()["experiment"]["trials"]["SUCCEEDED"] == 1
    finally:
        server.close()
