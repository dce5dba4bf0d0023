"""Resources: pages of the documentation by their sections, each short enough to be read at once.

Read from the files of the package, so they are those of the version that runs.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path

from nniweb.storage.own_files import FOLDER

SCHEME = "nniweb://"
#: Name of a resource -> the page in ``docs`` and what it is for.
PAGES = {
    "config-reference": ("experiment-config.md", "Every field of an experiment's config file."),
    "search-space": ("search-space.md", "How a search space and its constraints are written."),
    "tuners": ("tuners.md", "Which tuners and assessors there are, and their arguments."),
    "trial-filter": ("trial-filter.md", "The language of `filter` in the tools results and cancel_trials."),
    "external-tuner": ("external-tuner.md", "How an agent proposes parameters by itself."),
    "your-script": ("your-script.md", "How a script gets its parameters and reports its results."),
    "skill": ("skill.md", "How an agent runs a search here, step by step."),
}
#: Characters of one answer.
LONGEST = 30_000
MIME_TYPE = "text/markdown"


@dataclass(frozen=True)
class Section:
    """``name``: its part of the address, from its heading."""

    name: str
    heading: str
    text: str


class NoSuchResource(Exception):
    """The text says what there is."""


def page_text(name: str) -> str:
    """The whole page. Raises NoSuchResource."""
    if name not in PAGES:
        raise NoSuchResource(f"There is no resource {name[:100]}. Resources: "
                             f"{', '.join(SCHEME + known for known in PAGES)}.")
    try:
        return _text_of(FOLDER / "docs" / PAGES[name][0])
    except OSError as error:
        raise NoSuchResource(f"The page {PAGES[name][0]} is not installed here: {error.strerror}.") from None


@functools.cache
def _text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def sections(name: str) -> list[Section]:
    """The parts of a page below its headings of the second level; the first one is what stands before them."""
    pieces = re.split(r"(?m)^## +(.+)$", page_text(name))
    found = [Section("", "", pieces[0].strip())]
    for heading, text in zip(pieces[1::2], pieces[2::2], strict=True):
        found.append(Section(_slug(heading), heading.strip(), text.strip()))
    return found


def read(uri: str) -> str:
    """A page that is short, or the beginning of a long one with the addresses of its sections, or a section. Raises
    NoSuchResource.
    """
    if not uri.startswith(SCHEME):
        raise NoSuchResource(f"{uri[:100]} is no address of a resource here; they begin with {SCHEME}")
    name, _, wanted = uri.removeprefix(SCHEME).strip("/").partition("/")
    if wanted:
        for section in sections(name):
            if section.name == wanted:
                return _bounded(f"## {section.heading}\n\n{section.text}\n")
        known = ", ".join(section.name for section in sections(name)[1:])
        raise NoSuchResource(f"{SCHEME}{name} has no section {wanted[:100]}. Sections: {known}.")
    if len(text := page_text(name)) <= LONGEST // 2:
        return text
    first, *others = sections(name)
    contents = "\n".join(f"* {section.heading}: {SCHEME}{name}/{section.name}" for section in others)
    return _bounded(f"{first.text}\n\nSections of this page:\n\n{contents}\n")


def _slug(heading: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", re.sub(r"\(.*?\)", "", heading.lower())).strip("-")


def _bounded(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}\n\n[cut here: the page is longer]\n"
