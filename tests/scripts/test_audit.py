"""What ``make audit`` says: good news only where everything was looked up."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "audit.py"
spec = importlib.util.spec_from_file_location("audit_script", SCRIPT)
assert spec is not None
assert spec.loader is not None
audit = importlib.util.module_from_spec(spec)
spec.loader.exec_module(audit)

GOOD = {"name": "lark", "version": "1.3.1", "vulns": []}
BAD = {"name": "django", "version": "5.2.1", "vulns": [{"id": "PYSEC-1", "fix_versions": ["5.2.2"], "aliases": []}]}
UNKNOWN = {"name": "yarl", "skip_reason": "Dependency not found on PyPI and could not be audited: yarl (1.25.1)"}


def verdict(*packages: object) -> tuple[int, str]:
    status, sentences = audit.verdict(json.dumps({"dependencies": packages, "fixes": []}), "")
    return status, "\n".join(sentences)


def test_nothing_known_against_any_of_them_is_good_news() -> None:
    assert verdict(GOOD, GOOD) == (0, "Nothing is known against the 2 packages of requirements/constraints.txt.")


def test_what_is_known_is_named_with_the_version_that_mends_it() -> None:
    status, text = verdict(GOOD, BAD, UNKNOWN)
    assert status == 1
    assert "django 5.2.1: PYSEC-1, mended in 5.2.2" in text
    assert "1 of 3 packages could not be looked up" in text


def test_packages_that_could_not_be_looked_up_are_no_good_news() -> None:
    status, text = verdict(GOOD, UNKNOWN)
    assert status == 2
    assert "1 of 2 packages could not be looked up, so they are not audited" in text


def test_without_a_network_it_says_that_nothing_was_audited() -> None:
    status, sentences = audit.verdict("", "Traceback ...\nrequests.exceptions.ConnectionError: no route to host")
    assert status == 2
    assert sentences[0].startswith("Nothing was audited")
    assert "no route to host" in sentences[1]
