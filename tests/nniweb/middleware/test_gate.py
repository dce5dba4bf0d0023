"""Before a server is open it answers the probes, and tells everybody else to come again."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from nniweb.middleware.gate import Gate
from trainingservice.lasting_thread import Part


def asked(gate: Gate, **scope: Any) -> list[dict[str, Any]]:
    """What the gate sends to one request."""
    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request"}

    asyncio.run(gate({"type": "http", "method": "GET", "path": "/", "headers": [], **scope}, receive, send))
    return sent


def test_who_comes_too_early_is_told_to_come_again_whatever_it_asks() -> None:
    gate = Gate()
    for method, path in (("GET", "/"), ("POST", "/api/trialkeeper/v1/trials/a/reports"), ("POST", "/sign-in/")):
        start, body = asked(gate, method=method, path=path)
        assert (start["status"], dict(start["headers"])[b"retry-after"]) == (503, b"5")
        assert b"is being started" in body["body"]
    assert asked(gate, method="HEAD")[1]["body"] == b""
    assert asked(gate, type="websocket") == [{"type": "websocket.close"}]


@pytest.mark.django_db(transaction=True)
def test_the_probes_answer_before_the_gate_is_open_and_say_what_is_waited_for() -> None:
    gate, part = Gate(), Part("start", is_vital=True)
    assert asked(gate, path="/healthz")[0]["status"] == 200
    part.is_in_trouble("The server is being started.")
    start, body = asked(gate, path="/readyz")
    assert start["status"] == 503
    [check] = [check for check in json.loads(body["body"])["checks"] if not check["ok"]]
    assert check == {"name": "start", "ok": False, "message": "The server is being started."}
    part.is_well()
    assert asked(gate, path="/readyz")[0]["status"] == 200


def test_once_it_is_open_the_application_answers() -> None:
    gate, seen = Gate(), []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["path"])
        await send({"type": "http.response.start", "status": 204})

    gate.open(application)
    assert asked(gate, path="/anything") == [{"type": "http.response.start", "status": 204}]
    assert seen == ["/anything"]
