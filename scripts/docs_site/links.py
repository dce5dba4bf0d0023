"""Links of the Markdown files, which are written for a checkout, as those of the site.

A link to a page leads to that page. One to another file of the checkout (code, tests) has nowhere to lead: its text
stays. One to nothing at all stays as it is, which MkDocs refuses.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection
from pathlib import Path

from docs_site.pages import ELSEWHERE, ROOT, source_of

#: Code, which is left alone; a link with its text; the address in a tag of HTML.
_FENCE = re.compile(r"^(?P<fence>```+).*?^(?P=fence)`*$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<!\\)\[(?P<text>(?:[^][`]|`[^`\n]*`|\[[^]]*\]\([^)]*\))*)\]\((?P<target>[^)\s]+)\)")
_ATTRIBUTE = re.compile(r'\b(?P<name>src|srcset|href)="(?P<target>[^"]+)"')


def links_of_site(text: str, page: str, known: Collection[str]) -> str:
    """The Markdown of a page with its links changed. ``known``: the files of the site, as ``platforms/local.md``."""
    return _outside_code(text, lambda prose: _ATTRIBUTE.sub(
        lambda found: f'{found["name"]}="{_target(found["target"], page, known) or found["target"]}"',
        _LINK.sub(lambda found: _link(found, page, known), prose)))


def _outside_code(text: str, change: Callable[[str], str]) -> str:
    pieces, end = [], 0
    for fence in _FENCE.finditer(text):
        pieces += [change(text[end:fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*pieces, change(text[end:])])


def _link(found: re.Match[str], page: str, known: Collection[str]) -> str:
    target = _target(found["target"], page, known)
    return found["text"] if target is None else f"[{found['text']}]({target})"


def _target(target: str, page: str, known: Collection[str]) -> str | None:
    """What the link leads to in the site; None where that is no part of it."""
    path, hash_sign, anchor = target.partition("#")
    if not path or "://" in target or target.startswith("mailto:"):
        return target
    file = os.path.normpath(source_of(page).parent / path)
    inner = ELSEWHERE.get(file) or str(Path(file).relative_to("docs")) if _is_a_page(file) else ""
    folder_page = os.path.join(inner, "README.md")
    wanted = folder_page if inner and folder_page in known else inner
    if wanted in known:
        return os.path.relpath(wanted, Path(page).parent) + hash_sign + anchor
    return None if (ROOT / file).exists() else target


def _is_a_page(file: str) -> bool:
    return file in ELSEWHERE or file.startswith("docs/")
