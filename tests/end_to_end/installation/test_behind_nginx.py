"""A real nginx with the configuration of docs/deploy, in front of a real server."""

import asyncio
import json
import re
import shutil
import ssl
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import requests
import websockets

from tests.end_to_end.running_server import ROOT, RunningServer, free_port, sign_in_by_link
from tests.fakes.tls_certificate import make_certificate

DEPLOY = ROOT / "docs" / "deploy"


def site_for_test(folder: Path, upstream: int, secure: int, plain: int) -> Path:
    """The site as it is written, with ports, name and certificate of the test."""
    text = (DEPLOY / "one-machine" / "nniweb.nginx.conf").read_text()
    for old, new in ((r"127\.0\.0\.1:8080", f"127.0.0.1:{upstream}"), (r"listen \[::\].*;", ""),
                     (r"listen 80;", f"listen 127.0.0.1:{plain};"),
                     (r"listen 443 ssl http2;", f"listen 127.0.0.1:{secure} ssl http2;"),
                     (r"nni\.example\.org;", "127.0.0.1;"), (r"(ssl_certificate_key) .*;", rf"\1 {folder}/key.pem;"),
                     (r"(ssl_certificate) .*;", rf"\1 {folder}/authority.pem;")):
        text, count = re.subn(old, new, text)
        assert count, old
    shutil.copy(DEPLOY / "nginx" / "nniweb-proxy.conf", folder)
    temporary = "\n".join(f"{kind}_temp_path {folder}/{kind};" for kind in
                          ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    path = folder / "nginx.conf"
    path.write_text(f"daemon off;\nmaster_process off;\npid {folder}/pid;\nerror_log stderr;\nevents {{}}\n"
                    f"http {{\naccess_log off;\n{temporary}\n{text}\n}}\n")
    return path


@pytest.mark.slow
def test_pages_reports_and_websockets_come_through_the_proxy_with_tls(
        make_server: Callable[..., RunningServer], tmp_path: Path) -> None:
    nginx = shutil.which("nginx", path="/usr/sbin:/usr/local/sbin:/usr/bin")
    if nginx is None:
        pytest.skip("no nginx was found: apt-get install nginx-light")
    secure, plain = free_port(), free_port()
    public = f"https://127.0.0.1:{secure}"
    server = make_server({"NNIWEB_PUBLIC_URL": public}).start()
    folder = tmp_path / "nginx"
    _, authority = make_certificate(folder)
    config = site_for_test(folder, server.port, secure, plain)
    proxy = subprocess.Popen([nginx, "-p", str(folder), "-c", str(config)], stderr=(folder / "log").open("wb"))
    browser = requests.Session()
    browser.verify = str(authority)
    browser.trust_env = False

    def answers() -> bool:
        assert proxy.poll() is None, (folder / "log").read_text()
        try:
            return browser.get(f"{public}/healthz", timeout=90).ok
        except requests.ConnectionError:
            return False

    try:
        server.wait_until(answers, what="the proxy answers")
        moved = browser.get(f"http://127.0.0.1:{plain}/experiments/x/", allow_redirects=False, timeout=90)
        assert (moved.status_code, moved.headers["location"]) == (301, "https://127.0.0.1/experiments/x/")
        link = server.wait_until(lambda: re.search(r"/sign-in/\S+", server.log_tail()))
        page = sign_in_by_link(browser, public + link.group(0))
        assert (page.status_code, "Experiments" in page.text) == (200, True)
        assert page.headers["strict-transport-security"]
        assert {cookie.name: cookie.secure for cookie in browser.cookies} == {"sessionid": True, "csrftoken": True}
        signed_out = browser.post(f"{public}/sign-out/", timeout=90, headers={"Origin": public, "Referer": public},
                                  data={"csrfmiddlewaretoken": re.search(r'csrfmiddlewaretoken" value="(\w+)"',
                                                                         page.text).group(1)})
        report = browser.post(f"{public}/api/trialkeeper/v1/trials/nobody/reports", json={}, timeout=90)
        assert (report.status_code, report.json()["error"]) == (401, "token"), "it came to where keepers report"
        assert browser.get(f"{public}/metrics", timeout=90).status_code == 404
        assert signed_out.ok
        assert asyncio.run(greeting(server, public, authority))["hello"]
    finally:
        proxy.terminate()
        proxy.wait(90)


async def greeting(server: RunningServer, public: str, authority: Path) -> Any:
    """The first thing that a page's websocket hears, signed in."""
    made = server.manage("shell", "-c", SESSION).stdout.split()[-1]
    trust = ssl.create_default_context(cafile=str(authority))
    async with websockets.connect(public.replace("https", "wss") + "/live/", ssl=trust, origin=public,  # type: ignore[arg-type]
                                  additional_headers={"Cookie": f"sessionid={made}"}) as socket:
        return json.loads(await asyncio.wait_for(socket.recv(), 30))


SESSION = """
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from nniweb.experiments.access.sessions import SessionStore
from nniweb.experiments.models import User
user = User.objects.get(username="admin")
session = SessionStore()
session[SESSION_KEY], session[HASH_SESSION_KEY] = str(user.pk), user.get_session_auth_hash()
session[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
session.save()
print(session.session_key)
"""
