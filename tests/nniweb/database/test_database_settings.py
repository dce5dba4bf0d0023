"""How connections to PostgreSQL are made, from NNIWEB_DATABASE_URL."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import psycopg
import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def parameters_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What libpq is given for a URL; it knows all of the names, or this raises."""

    def read(url: str) -> dict[str, Any]:
        monkeypatch.setenv("NNIWEB_DATA", str(tmp_path))
        monkeypatch.setenv("NNIWEB_DATABASE_URL", url)
        options = runpy.run_path(str(ROOT / "nniweb" / "settings.py"))["DATABASES"]["default"]["OPTIONS"]
        return psycopg.conninfo.conninfo_to_dict(**{name: value for name, value in options.items() if name != "pool"})

    return read


def test_a_server_that_went_without_a_word_is_noticed_soon(parameters_for: Any) -> None:
    found = {name: int(value) for name, value in parameters_for("postgres://u:p@h/n").items() if name != "options"}
    assert 2 <= found["connect_timeout"] <= 10
    assert found["keepalives"] == 1
    assert found["keepalives_idle"] + found["keepalives_interval"] * found["keepalives_count"] <= 20
    assert 5_000 <= found["tcp_user_timeout"] <= 20_000


def test_what_the_url_says_counts_more(parameters_for: Any) -> None:
    found = parameters_for("postgres://u:p@h/n?connect_timeout=30&tcp_user_timeout=60000&keepalives_idle=7")
    assert [str(found[name]) for name in ("connect_timeout", "tcp_user_timeout", "keepalives_idle")] \
        == ["30", "60000", "7"]
