"""A Ray dashboard behind TLS, with a certificate of a private authority: the platform's field ``caFile``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import certifi
import pytest

from tests.fakes.tcp_proxy import TcpProxy
from tests.fakes.tls_certificate import make_certificate
from trainingservice.errors import TemporaryError
from trainingservice.ray.api import RayApi
from trainingservice.ray.config import RayClusterSettings
from trainingservice.reasons import code_of


@pytest.fixture
def authority(tmp_path: Path) -> Path:
    return tmp_path / "tls" / "authority.pem"


@pytest.fixture
def proxy(head, tmp_path: Path) -> Iterator[TcpProxy]:
    """In front of the double of a head; its certificate is for 127.0.0.1."""
    with in_front_of(head.address, tmp_path / "tls") as proxy:
        yield proxy


def in_front_of(address: str, folder: Path) -> TcpProxy:
    parts = urlsplit(address)
    assert parts.hostname is not None
    assert parts.port is not None
    return TcpProxy((parts.hostname, parts.port), make_certificate(folder)[0])


def version_at(address: str, ca_file: Path | None) -> str:
    api = RayApi(RayClusterSettings(address=address, ca_file=ca_file))
    try:
        return str(api.version()["ray_version"])
    finally:
        api.close()


def refusal(address: str, ca_file: Path | None) -> TemporaryError:
    with pytest.raises(TemporaryError) as refused:
        version_at(address, ca_file)
    return refused.value


def test_a_dashboard_of_a_private_authority_is_trusted_with_its_file(proxy, authority) -> None:
    assert version_at(f"https://127.0.0.1:{proxy.port}", authority)
    assert proxy.passed


def test_the_file_counts_where_the_environment_names_another_one(proxy, authority, monkeypatch) -> None:
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.setenv(name, certifi.where())
    assert version_at(f"https://127.0.0.1:{proxy.port}", authority)


def test_without_a_file_the_one_counts_that_the_environment_names(proxy, authority, monkeypatch) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(authority))
    assert version_at(f"https://127.0.0.1:{proxy.port}", None)


def test_a_dashboard_of_an_unknown_authority_is_refused(proxy, tmp_path) -> None:
    _, other = make_certificate(tmp_path / "other")
    for ca_file in (None, other):
        error = refusal(f"https://127.0.0.1:{proxy.port}", ca_file)
        assert code_of(error.reason) == "certificate_refused"
        assert "self-signed certificate" in str(error)
        assert "caFile" in str(error)


def test_a_certificate_of_another_name_is_refused(proxy, authority) -> None:
    error = refusal(f"https://localhost:{proxy.port}", authority)
    assert code_of(error.reason) == "certificate_refused"
    assert "localhost" in str(error)


def test_a_dashboard_without_tls_at_such_an_address_is_said(head) -> None:
    error = refusal(head.address.replace("http:", "https:"), None)
    assert code_of(error.reason) == "certificate_refused"


@pytest.mark.parametrize("kind", ["missing", "a folder", "no certificate", "empty"])
def test_a_file_without_a_certificate_is_said_with_its_name(proxy, tmp_path, kind) -> None:
    file = tmp_path / "given.pem"
    if kind == "a folder":
        file.mkdir()
    elif kind != "missing":
        file.write_text("" if kind == "empty" else "no certificate")
    error = refusal(f"https://127.0.0.1:{proxy.port}", file)
    assert code_of(error.reason) == "certificate_refused"
    assert str(file) in str(error)
    assert "caFile" in str(error)
