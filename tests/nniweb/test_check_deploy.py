"""Django's own check of a deployment: quiet where the server is behind TLS, and not where it is not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def check(data_folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("NNIWEB_", "DJANGO_"))}
    return subprocess.run(
        [sys.executable, "manage.py", "check", "--deploy", "--fail-level", "WARNING"], cwd=ROOT, text=True,
        env={**environment, "NNIWEB_DATA": str(data_folder / "data"), **variables}, capture_output=True, timeout=100,
        check=False)


def test_behind_tls_the_check_of_a_deployment_finds_nothing(tmp_path: Path) -> None:
    done = check(tmp_path, NNIWEB_PUBLIC_URL="https://nni.example.org", NNIWEB_TRUSTED_PROXIES="127.0.0.1")
    assert done.returncode == 0, done.stderr
    assert "no issues" in done.stdout


@pytest.mark.slow
def test_without_tls_it_says_what_is_missing(tmp_path: Path) -> None:
    done = check(tmp_path)
    assert done.returncode == 1
    for question in ("W004", "W012", "W016"):  # HSTS, the two cookies
        assert f"security.{question}" in done.stderr
