"""A server whose certificate is of an authority of its own: looked for where trials run, and asked by the worker."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from tests.fakes.http_double import Answer, HttpDouble, Request
from tests.fakes.tls_certificate import make_certificate
from trainingservice.errors import PermanentError, TemporaryError
from trainingservice.keeper.reach_probe import probe_arguments
from trainingservice.keeper.report_proxy import ask_server
from trainingservice.reasons import code_of
from trainingservice.rest import ca_bundle
from trainingservice.rest.rest_client import RestClient
from trialkeeper.access import Access
from trialkeeper.server_connection import ServerAway, ServerConnection


class Server(HttpDouble):
    def answer(self, request: Request) -> Answer:
        return Answer(404, {"error": "unknown", "installation": "here"})


@pytest.fixture
def behind_tls(tmp_path: Path) -> Iterator[tuple[Server, Path]]:
    context, authority = make_certificate(tmp_path)
    server = Server(context)
    server.start()
    yield server, authority
    server.close()


def test_a_certificate_that_is_not_accepted_is_told_from_a_server_that_is_away(behind_tls: tuple[Server, Path]) -> None:
    server, _ = behind_tls
    client = RestClient(f"{server.address}/", "The double")
    with pytest.raises(TemporaryError) as refused:
        client.call("POST", "jobs")
    client.close()
    assert code_of(refused.value.reason) == "certificate_refused"


def test_the_probe_trusts_the_authority_that_it_is_given(behind_tls: tuple[Server, Path]) -> None:
    server, authority = behind_tls

    def said(ca_file: Path | None) -> str:
        done = subprocess.run([sys.executable, "-I", *probe_arguments([server.address], ca_file)], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, check=False)
        return done.stdout.strip()

    assert said(authority) == f"reached {server.address}"
    assert said(None).startswith(f"unreachable: {server.address}: ")
    assert "certificate" in said(None).lower()
    with pytest.raises(PermanentError, match="gone.pem cannot be read"):
        probe_arguments([server.address], authority.with_name("gone.pem"))


def test_a_keeper_reports_to_it_with_the_authority_that_it_was_given(behind_tls: tuple[Server, Path]) -> None:
    server, authority = behind_tls
    given = Access(urls=[server.address], token="secret", ca_file=str(authority))
    answer = ServerConnection(given).call("GET", "trials/job/job", lambda answer: "")
    assert (answer.status, server.requests[-1].headers.get("Authorization")) == (404, "Bearer secret")
    without = ServerConnection(Access(urls=[server.address], token="secret"))
    with pytest.raises(ServerAway, match="CERTIFICATE_VERIFY_FAILED"):
        without.call("GET", "trials/job/job", lambda answer: "")
    assert len(server.requests) == 1


def test_who_passes_reports_on_trusts_the_authority_that_the_host_names(behind_tls: tuple[Server, Path]) -> None:
    server, authority = behind_tls
    before = ca_bundle.trusted()
    try:
        ca_bundle.trust(None)
        with pytest.raises(requests.exceptions.SSLError):
            ask_server("POST", server.address, {}, b"{}")
        ca_bundle.trust(authority)
        assert ask_server("POST", server.address, {}, b"{}").json()["installation"] == "here"
    finally:
        ca_bundle.trust(before)
