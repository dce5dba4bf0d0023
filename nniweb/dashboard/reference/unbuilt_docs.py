"""``/docs/`` in a checkout whose documentation site is not built: the Markdown of the page, and how to get the site.

``make run`` builds no site, since that needs more packages and more time than a start. Where ``docs-site`` is there,
the files in it are answered before this (nniweb/middleware/static_files.py); what comes here then is not found.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from django.contrib.auth.decorators import login_not_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.safestring import mark_safe
from django.views.decorators.http import require_GET
from markdown_it import MarkdownIt

from nniweb.storage import own_files

_PAGE = re.compile(r"(?:[a-z-]+/){0,2}[A-Za-z0-9-]+")
#: HTML in the Markdown: comments, and pictures for light and dark pages, which no address here has.
_LEFT_OUT = re.compile(r"(?:<!--.*?-->|<picture>.*?</picture>)\n*", re.DOTALL)
_reader = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])


@login_not_required
@require_GET
def first_page(_: HttpRequest) -> HttpResponse:
    return redirect("docs-page", "index.html")


@login_not_required  # as the site's files: nothing in them is about this installation
@require_GET
def unbuilt_docs(request: HttpRequest, page: str) -> HttpResponse:
    """One page, by the name that it has in the site (``gpus.html``) or in the checkout (``gpus.md``)."""
    name, _, kind = page.rpartition(".")
    source = _source_of(name)
    if own_files.DOCS_SITE.is_dir() or kind not in ("html", "md") or source is None:
        raise Http404
    text = _LEFT_OUT.sub("", source.read_text(encoding="utf-8"))
    return render(request, "dashboard/unbuilt_docs.html", {
        "source": source.relative_to(own_files.FOLDER), "html": mark_safe(_html(text, name))})  # noqa: S308 (our own)


def _source_of(name: str) -> Path | None:
    if not _PAGE.fullmatch(name):
        return None
    folder = own_files.FOLDER / "docs"
    source = folder.parent / "README.md" if name == "index" else folder / f"{name}.md"
    return source if source.is_file() else None


def _html(text: str, name: str) -> str:
    """Headings have their sections' names as the site has them; links to what is no page are none."""
    tokens = _reader.parse(text)
    for token, inner in zip(tokens, tokens[1:], strict=False):
        if token.type == "heading_open":
            token.attrSet("id", section_of(re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", inner.content)))
        for child in inner.children or ():
            href = str(child.attrGet("href") or "")
            if child.type == "link_open" and not re.match(r"#|[a-z]+:", href):
                # README.md, the first page, is the only one outside of docs
                child.attrSet("href", href := href.removeprefix("docs/") if name == "index" else href)
                if not _is_page(href, name):
                    del child.attrs["href"]
    return str(_reader.renderer.render(tokens, _reader.options, {}))


def section_of(heading: str) -> str:
    """The name of a heading's section, as GitHub and the site make it."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def _is_page(href: str, name: str) -> bool:
    path = href.partition("#")[0]
    target = posixpath.normpath(posixpath.join(posixpath.dirname(name), path))
    return path.endswith(".md") and _source_of(target.removesuffix(".md")) is not None
