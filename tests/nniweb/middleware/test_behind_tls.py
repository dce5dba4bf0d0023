"""What a browser is told behind a proxy with TLS: cookies for TLS alone, and never to come in the clear again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
#: Asks the whole application for the page for signing in, as each of these visitors comes.
ASK = """
import asyncio, json, sys
from asgiref.testing import ApplicationCommunicator
from nniweb.asgi import application
from django.conf import settings

async def headers(client, proto):
    said = [(b"host", b"nni.example.org"), (b"x-forwarded-for", b"203.0.113.7"), (b"x-forwarded-proto", proto)]
    asked = ApplicationCommunicator(application, {
        "type": "http", "http_version": "1.1", "method": "GET", "path": "/sign-in/", "raw_path": b"/sign-in/",
        "query_string": b"", "scheme": "http", "headers": said, "client": (client, 4321),
        "server": ("127.0.0.1", 8080)})
    await asked.send_input({"type": "http.request"})
    start = await asked.receive_output(60)
    assert start["status"] == 200, start
    return {name.decode().lower(): value.decode() for name, value in start["headers"]}

async def all_of_them():
    return {name: await headers(client, proto) for name, client, proto in [
        ("through the proxy", "127.0.0.1", b"https"), ("through the proxy, in the clear", "127.0.0.1", b"http"),
        ("past the proxy", "203.0.113.9", b"https")]}

print(json.dumps({"answers": asyncio.run(all_of_them()), "session": settings.SESSION_COOKIE_SECURE,
                  "script": settings.SESSION_COOKIE_HTTPONLY, "sites": settings.SESSION_COOKIE_SAMESITE}))
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Any:
    own = {name: value for name, value in os.environ.items() if not name.startswith(("NNIWEB_", "DJANGO_"))}
    done = subprocess.run([sys.executable, "-c", ASK], cwd=ROOT, text=True, capture_output=True, timeout=200,
                          check=False, env={
                              **own, "NNIWEB_DATA": str(tmp_path_factory.mktemp("tls") / "data"),
                              "NNIWEB_PUBLIC_URL": "https://nni.example.org", "NNIWEB_TRUSTED_PROXIES": "127.0.0.1"})
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_cookies_are_for_tls_alone(told: Any) -> None:
    for answer in told["answers"].values():
        assert "; secure" in answer["set-cookie"].lower()
    assert (told["session"], told["script"], told["sites"]) == (True, True, "Lax")


def test_who_came_through_tls_is_told_to_keep_to_it_and_only_a_trusted_proxy_says_so(told: Any) -> None:
    answers = told["answers"]
    assert answers["through the proxy"]["strict-transport-security"].startswith("max-age=31536000")
    assert "strict-transport-security" not in answers["through the proxy, in the clear"]
    assert "strict-transport-security" not in answers["past the proxy"], "anybody could say that"
