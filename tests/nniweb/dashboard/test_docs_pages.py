"""``/docs/``: the documentation site where it is built, its Markdown where it is not; links to it from other pages."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from django.conf import settings
from django.template import Context, Template
from django.test import Client

from nniweb.storage import own_files

TEXT = "<h1>GPUs</h1>" * 2000


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "docs-site"
    (folder / "platforms").mkdir(parents=True)
    (folder / "index.html").write_text("<h1>NNI Web</h1>")
    (folder / "gpus.html").write_text(TEXT)
    (folder / "gpus.html.gz").write_bytes(gzip.compress(TEXT.encode()))
    (folder / "platforms" / "local.html").write_text("<h1>local</h1>")
    (tmp_path / "secret.html").write_text("not for everybody")
    monkeypatch.setattr(own_files, "DOCS_SITE", folder)
    return folder


@pytest.fixture
def no_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_files, "DOCS_SITE", tmp_path / "docs-site")


def body(answer) -> str:
    return (b"".join(answer.streaming_content) if answer.streaming else answer.content).decode()


def test_the_site_is_there_for_everybody_with_the_policy_of_all_pages(site: Path) -> None:
    assert Client().get("/docs/")["Location"] == "/docs/index.html"
    for address, text in (("/docs/index.html", "<h1>NNI Web</h1>"),
                          ("/docs/platforms/local.html", "<h1>local</h1>")):
        answer = Client().get(address)
        assert (answer.status_code, body(answer)) == (200, text)
        policy = answer["Content-Security-Policy"]
        for name, values in settings.CONTENT_SECURITY_POLICY["DIRECTIVES"].items():
            assert f"{name} {' '.join(values)}" in policy


def test_what_a_browser_has_already_is_not_sent_again_and_long_files_are_sent_compressed(site: Path) -> None:
    first = Client().get("/docs/gpus.html")
    assert body(first) == TEXT
    again = Client().get("/docs/gpus.html", headers={"If-None-Match": first["ETag"]})
    assert (again.status_code, body(again)) == (304, "")
    packed = Client().get("/docs/gpus.html", headers={"Accept-Encoding": "gzip"})
    assert packed["Content-Encoding"] == "gzip"
    assert gzip.decompress(b"".join(packed.streaming_content)).decode() == TEXT


@pytest.mark.parametrize("path", ["nothing.html", "../secret.html", "%2e%2e/secret.html", "platforms/../../secret.html",
                                  "/etc/passwd", "gpus.md", "platforms/", "..%2fsecret.html"])
def test_nothing_outside_the_site_is_found(path: str, site: Path) -> None:
    assert Client().get(f"/docs/{path}").status_code == 404


def test_without_the_site_the_markdown_is_shown_and_how_to_build_it(no_site: None) -> None:
    for address, heading in (("/docs/index.html", "NNI Web"), ("/docs/gpus.html", "GPUs and memory"),
                             ("/docs/gpus.md", "GPUs and memory")):
        html = body(Client().get(address))
        assert f">{heading}</h1>" in html
        assert "<code>make docs</code>" in html
    assert '<h2 id="out-of-memory">' in html
    assert 'href="../gpus.md' in body(Client().get("/docs/platforms/local.html"))
    assert "&lt;!--" not in body(Client().get("/docs/your-script.html"))
    assert 'href="platforms/local.md"' in body(Client().get("/docs/index.html"))
    # code has no page here
    assert not re.search(r'href="[^"]*\.py"', body(Client().get("/docs/architecture.html")))


@pytest.mark.parametrize("path", ["nothing.html", "../README.md", "%2e%2e/LICENSE", "gpus", "gpus.txt", ".html",
                                  "a//b.md"])
def test_without_the_site_only_pages_of_the_documentation_are_shown(path: str, no_site: None) -> None:
    assert Client().get(f"/docs/{path}").status_code == 404


def test_reasons_lead_to_the_documentation(page: Callable[..., str]) -> None:
    html = page("/reasons/")
    assert '<a href="/docs/how-to-debug.html#a-trial-waits">Why does it wait?</a>' in html
    assert re.search(r'<div id="out_of_memory">.*?href="/docs/gpus.html#out-of-memory".*?</div>', html)


@pytest.mark.parametrize("address", ["/new/", "/clusters/new/", "/notifications/", "/account/", "/usage/",
                                     "/platforms/"])
def test_pages_and_forms_lead_to_the_documentation(address: str, page: Callable[..., str]) -> None:
    main = page(address).partition("<main")[2]
    assert re.search(r'href="/docs/[a-z/-]+\.html(#[a-z-]+)?"', main)


def test_texts_that_name_a_page_link_to_it_and_nothing_else_in_them_becomes_markup() -> None:
    shown = Template("{{ text|docs_linked }}").render(Context({"text": "<b> See docs/platforms/local.md, not docs/x."}))
    assert shown == ('&lt;b&gt; See <a href="/docs/platforms/local.html">docs/platforms/local.md</a>, not docs/x.')


@pytest.mark.parametrize("page", ["index", "objectives"])
def test_pages_of_a_checkout_without_the_site_show_no_html_as_text(no_site: None, page: str) -> None:
    html = body(Client().get(f"/docs/{page}.html"))
    assert "<h1" in html
    assert "&lt;picture" not in html
    assert "&lt;source" not in html
