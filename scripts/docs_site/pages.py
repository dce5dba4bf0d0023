"""Pages of the site whose text lies outside docs/: file of the checkout -> page of the site."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: Whose Markdown is a page as it is.
ELSEWHERE = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "examples/digits/README.md": "examples/digits.md",
    "examples/quadratic/README.md": "examples/quadratic.md",
}


def source_of(page: str) -> Path:
    """The file, relative to the checkout, that a page of the site is made of (``index.md`` -> ``README.md``)."""
    return next((Path(source) for source, name in ELSEWHERE.items() if name == page), Path("docs") / page)
