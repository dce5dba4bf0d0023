"""Whether a commit is a release: everything that is not as it should be, told at once."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from nniweb import version

#: Names of files and images with a version in them, in what people read and use.
_NAMED = r"nniweb[:-]([0-9]+\.[0-9]+\.[0-9]+)"
#: Where older versions are meant.
_OF_THE_PAST = (":!CHANGELOG.md", ":!docs/decisions", ":!tests")


def problems(checkout: Path) -> list[str]:
    """Sentences, each with what to do; none: it can be released. Raises OSError where git is not installed."""
    return [*_of_the_commit(checkout), *_of_the_changelog(checkout), *_of_the_names(checkout)]


def _of_the_commit(checkout: Path) -> Iterator[str]:
    if changed := git(checkout, "status", "--porcelain"):
        files = changed.splitlines()
        yield (f"{len(files)} files differ from the commit, such as {files[0][3:]}. Commit them, or remove them "
               "(git stash --include-untracked), so that what is published can be built again.")
    if version.of_tag(checkout) is None:
        others = [tag for tag in version.tags(checkout) if version.TAG.fullmatch(tag)]
        said = f"is tagged {', '.join(others)}, and" if others else "has no tag of a release, and"
        yield (f"This commit {said} nniweb/version.py says that the next release is {version.NEXT_RELEASE}. Tag it: "
               f'git tag -a v{version.NEXT_RELEASE} -m "NNI Web {version.NEXT_RELEASE}"')


def _of_the_changelog(checkout: Path) -> Iterator[str]:
    text = (checkout / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = re.search(r"^## (.+)$", text, re.MULTILINE)
    if newest is None or not re.fullmatch(rf"{re.escape(version.NEXT_RELEASE)} \(\d{{4}}-\d\d-\d\d\)", newest[1]):
        yield (f"The newest section of CHANGELOG.md is \"{newest[1] if newest else 'missing'}\". It must be "
               f'"{version.NEXT_RELEASE} (YEAR-MONTH-DAY)", with the date of the release.')
    elif not re.search(r"\S", changes_of(text, version.NEXT_RELEASE)):
        yield f"The section {version.NEXT_RELEASE} of CHANGELOG.md is empty. Say what has changed for users."


def changes_of(changelog: str, release: str) -> str:
    """The section of a release without its heading: what an announcement says. Empty where there is none."""
    found = re.search(rf"^## {re.escape(release)} .*?$(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    return found[1].strip() if found else ""


def _of_the_names(checkout: Path) -> Iterator[str]:
    for line in git(checkout, "grep", "-nIE", _NAMED, "--", ".", *_OF_THE_PAST).splitlines():
        file, number, text = line.split(":", 2)
        for named in re.findall(_NAMED, text):
            if named != version.NEXT_RELEASE:
                yield f"{file}:{number} names version {named}. It must be {version.NEXT_RELEASE}."


def git(checkout: Path, *arguments: str) -> str:
    """What git says; "" where it fails (``grep`` that finds nothing, no repository)."""
    return subprocess.run(["git", *arguments], cwd=checkout, text=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False).stdout
