"""Which version this is. A release is the commit with its tag, ``v0.3.0``: the tag is the only place that makes it one.

A wheel and a source archive hold the answer, written when they were built. A checkout asks git; where there is no tag
at its commit, no git or no repository, it is what the next release will be, with ``.dev0``. Standard library only:
setup.py loads this file by itself.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

#: The release that the next tag makes. Raised in the commit after each release, and nowhere else.
NEXT_RELEASE = "0.3.0"
#: Holds the version in an installed package.
WRITTEN = "bundled/version.txt"
#: The tag of a release, or of one that may become it.
TAG = re.compile(r"v(\d+\.\d+\.\d+)((?:a|b|rc)\d+)?")
#: Seconds for git's answer.
PATIENCE = 10.0


def version(package: Path | None = None) -> str:
    """As ``0.3.0``, ``0.3.0rc1`` or ``0.3.0.dev0``. ``package``: the folder of this package, or of another copy."""
    package = Path(__file__).resolve().parent if package is None else package
    for file, line in ((package / WRITTEN, r"(\S+)"), (package.parent / "PKG-INFO", r"^Version: (\S+)$")):
        if file.is_file() and (found := re.search(line, file.read_text(encoding="utf-8"), re.MULTILINE)):
            return found[1]
    return of_tag(package.parent) or f"{NEXT_RELEASE}.dev0"


def of_tag(checkout: Path) -> str | None:
    """What the tags at a checkout's commit say: the version of the newest one for ``NEXT_RELEASE``. None: there is
    none, or nobody can be asked.
    """
    said = [f"{found[1]}{found[2] or ''}" for tag in tags(checkout)
            if (found := TAG.fullmatch(tag)) and found[1] == NEXT_RELEASE]
    return min(said, key=len) if said else None  # the release itself before its candidates


def tags(checkout: Path) -> list[str]:
    """The tags at a checkout's commit, the newest first. Empty where nobody can be asked."""
    if not (checkout / ".git").exists():  # git would look for one further up, which is somebody else's
        return []
    import subprocess

    # a hook of git names another repository in these
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        # root may have cloned it for a service; its programs are run anyway
        answer = subprocess.run(
            ["git", "-c", f"safe.directory={checkout}", "tag", "--points-at", "HEAD", "--sort=-creatordate"],
            cwd=checkout, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            text=True, timeout=PATIENCE, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return answer.stdout.split()
