"""Asks the Python Package Index what is known against the packages that an installation gets.

    python scripts/audit.py        what is known against requirements/constraints.txt

Ends with 0 where all packages were looked up and nothing is known, 1 where something is, 2 where not all could be
looked up: an audit that did not take place has found nothing, and that is no good news. Nothing is installed or built.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "requirements" / "constraints.txt"
#: Seconds; the index is asked for each package by itself.
PATIENCE = 900


def main() -> int:
    command = [sys.executable, "-m", "pip_audit", "--requirement", str(LIST), "--no-deps", "--disable-pip",
               "--progress-spinner", "off", "--format", "json"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        print(f"Nothing was audited: the index did not answer all questions within {PATIENCE // 60} minutes.")
        return 2
    status, sentences = verdict(done.stdout, done.stderr)
    print("\n".join(sentences))
    return status


def verdict(written: str, complaint: str) -> tuple[int, list[str]]:
    """The exit status and what to say, of what pip-audit wrote to its two outputs."""
    try:
        packages: list[dict[str, Any]] = json.loads(written)["dependencies"]
    except (ValueError, KeyError, TypeError):
        last = (complaint.strip().splitlines() or ["no word of why"])[-1]
        return 2, ["Nothing was audited: the Python Package Index cannot be asked. Is this machine connected? Behind a "
                   "proxy set HTTPS_PROXY.", f"pip-audit says: {last[:300]}"]
    known = [(package, found) for package in packages for found in package.get("vulns", [])]
    skipped = [package for package in packages if "skip_reason" in package]
    sentences = [f"{package['name']} {package['version']}: {found['id']}, mended in "
                 f"{', '.join(found['fix_versions']) or 'no version yet'}" for package, found in known]
    if skipped:
        sentences.append(f"{len(skipped)} of {len(packages)} packages could not be looked up, so they are not audited. "
                         "Is this machine connected to the Python Package Index itself? A mirror knows nothing of "
                         f"advisories. The first reason: {skipped[0]['skip_reason'][:200]}")
    if known:
        return 1, [*sentences, "Raise these versions in requirements, run make constraints and the tests."]
    if skipped or not packages:
        return 2, sentences or ["Nothing was audited: the list of packages is empty."]
    return 0, [f"Nothing is known against the {len(packages)} packages of requirements/constraints.txt."]


if __name__ == "__main__":
    sys.exit(main())
