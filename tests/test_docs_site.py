"""The documentation site: it is built strictly, says what the Markdown says, loads nothing from elsewhere, and has each
page and section to which the server's pages lead.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from docs_site.build import BuildFailed, build, built_site
from docs_site.links import links_of_site
from docs_site.pages import ELSEWHERE, source_of
from markdown_it import MarkdownIt

import nniweb
from nniweb.dashboard.reference.docs_links import NAMED_PAGE
from nniweb.dashboard.reference.platforms import page_of
from nniweb.dashboard.reference.reason_docs import DOCS_OF
from nniweb.dashboard.reference.unbuilt_docs import section_of
from trainingservice.platforms import BUILT_IN
from trainingservice.reasons import CODES

ROOT = Path(__file__).resolve().parents[1]
_commonmark = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
#: Part of a page -> its tags in HTML, and the reader's names for what begins one.
PARTS = {"items": ("li", ("list_item_open",)), "blocks of code": ("pre", ("fence", "code_block")),
         "tables": ("table", ("table_open",)), "rows": ("tr", ("tr_open",)), "headings": ("h[1-6]", ("heading_open",))}


@pytest.fixture(scope="module")
def site() -> Path:
    return built_site()


@cache
def page_text(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def pages_of(site: Path) -> list[Path]:
    found = sorted(site.rglob("*.html"))
    assert len(found) > 100
    return found


def article(page: Path) -> str:
    found = re.search(r"<article[^>]*>(.*?)</article>", page_text(page), re.DOTALL)
    assert found, page
    return found[1]


def markdown_of(page: Path, site: Path) -> str | None:
    """The Markdown in this checkout that a page is made of, without its front matter; None where it has none."""
    name = str(page.relative_to(site).with_suffix(".md"))
    sources = (ROOT / source_of(name), ROOT / source_of(name.replace("index.md", "README.md")))
    source = next((path for path in sources if path.is_file()), None)
    return None if source is None else re.sub(r"\A---\n.*?^---\n", "", source.read_text(), flags=re.DOTALL | re.M)


def test_each_page_has_the_lists_tables_code_and_headings_that_its_markdown_has(site: Path) -> None:
    """MkDocs reads Markdown otherwise than GitHub where lists are not set off or indented enough."""
    wrong, compared = [], 0
    for page in pages_of(site):
        if (text := markdown_of(page, site)) is None:
            continue
        compared += 1
        begun = Counter(token.type for token in _commonmark.parse(text))
        for part, (tag, names) in PARTS.items():
            wanted, found = sum(begun[name] for name in names), len(re.findall(rf"<{tag}\b", article(page)))
            if wanted != found:
                wrong.append(f"{page.relative_to(site)}: {found} {part} instead of {wanted}")
    assert wrong == []
    assert compared > 100


def test_no_page_style_or_script_loads_anything_from_elsewhere(site: Path) -> None:
    loaded = re.compile(r"""<(?:script|link|img|iframe|source|object|embed|video|audio)\b[^>]*?
                            \b(?:src|srcset|href|data)=["']?(?:https?:)?//""", re.VERBOSE)
    wrong = [str(page.relative_to(site)) for page in pages_of(site) if loaded.search(page_text(page))]
    wrong += [str(style.relative_to(site)) for style in site.rglob("*.css")
              if re.search(r"""(?:@import|url\()\s*["']?(?:https?:)?//""", style.read_text())]
    assert wrong == []
    assert list(site.rglob("*.css"))


def test_no_page_has_a_script_a_style_or_a_handler_inside_which_the_servers_policy_would_forbid(site: Path) -> None:
    inside = re.compile(r"<script(?![^>]*\bsrc=)(?![^>]*application/json)|<style|<[^>]+\s(?:style|on[a-z]+)=")
    assert [str(page.relative_to(site)) for page in pages_of(site) if inside.search(page_text(page))] == []


def test_the_search_knows_sections_and_the_pages_say_the_version(site: Path) -> None:
    entries = json.loads((site / "search" / "search_index.json").read_text())["docs"]
    assert {"gpus.html#out-of-memory", "rest.html", "platforms/local.html#the-python-of-the-trials"} <= {
        entry["location"] for entry in entries}
    boosts = {entry["location"]: entry.get("boost", 1) for entry in entries}
    assert boosts["changelog.html"] < boosts["gpus.html"]
    assert f"NNI Web {nniweb.__version__}" in page_text(site / "index.html")


def test_the_rest_reference_has_each_request_and_links_to_its_objects(site: Path) -> None:
    requests = article(site / "rest.html")
    headings = re.findall(r"<h3 [^>]*>([A-Z]+ [^<]+)<", requests)
    assert len(headings) > 100
    assert {"GET /api/v1/experiments/", "POST /api/v1/experiments/", "GET /api/v1/trials/{trial_id}/"} <= set(headings)
    assert 'href="rest-objects.html#experiment"' in requests
    assert '<h2 id="experiment">' in article(site / "rest-objects.html")


def places_named_in_templates() -> dict[str, str]:
    """Page and section -> a template that links to it."""
    return {place: template.name for template in (ROOT / "templates").rglob("*.html")
            for place in re.findall(r"""{% docs ['"]([^'"]+)['"] %}""", template.read_text())}


def has_place(site: Path, place: str) -> bool:
    name, _, section = place.partition("#")
    page = site / f"{name}.html"
    return page.is_file() and (not section or f'id="{section}"' in page_text(page))


def test_each_link_of_the_servers_pages_leads_to_a_page_and_a_section(site: Path) -> None:
    from nniweb.dashboard.reference import reasons

    named = {**places_named_in_templates(), **{place: code for code, place in DOCS_OF.items()},
             **{place: words for places in reasons._DOCS.values() for words, place in places},
             **{page_of(name): name for name in BUILT_IN}}
    assert len(named) > 50
    assert {place: where for place, where in named.items() if not has_place(site, place)} == {}
    assert sorted(DOCS_OF.keys() - CODES.keys()) == []


def test_each_page_that_a_message_or_a_description_names_is_there(site: Path) -> None:
    sources = [source for package in ("nniweb", "trainingservice", "trialkeeper")
               for source in (ROOT / package).rglob("*.py")]
    named = {name for source in sources for name in NAMED_PAGE.findall(source.read_text())}
    assert {"gpus", "upgrade", "platforms/local"} <= named
    assert sorted(name for name in named if not has_place(site, name)) == []


def test_sections_have_the_same_names_in_a_checkout_without_the_site(site: Path) -> None:
    headings = re.findall(r'<h[1-6] id="([^"]+)">', article(site / "experiment-config.html"))
    written = re.findall(r"^#+ (.*)$", (ROOT / "docs" / "experiment-config.md").read_text(), re.MULTILINE)
    assert [section_of(heading) for heading in written] == headings


@pytest.mark.parametrize(("page", "written", "meant"), [
    ("gpus.md", "See [local](platforms/local.md#gpus).", "See [local](platforms/local.md#gpus)."),
    ("index.md", "[GPUs](docs/gpus.md), [`x`](docs/gpus.md#a)", "[GPUs](gpus.md), [`x`](gpus.md#a)"),
    ("platforms/local.md", "[digits](../../examples/digits/README.md)", "[digits](../examples/digits.md)"),
    ("architecture.md", "[`nniweb/urls.py`](../nniweb/urls.py) and more", "`nniweb/urls.py` and more"),
    ("index.md", "[one machine](docs/deploy/one-machine/README.md)", "[one machine](deploy/one-machine/README.md)"),
    ("gpus.md", "[nothing](no-such-page.md)", "[nothing](no-such-page.md)"),
    ("gpus.md", "[a](https://example.org/x) [b](#c)", "[a](https://example.org/x) [b](#c)"),
    ("gpus.md", "```\n[a](../nniweb/urls.py)\n```\n", "```\n[a](../nniweb/urls.py)\n```\n"),
    ("index.md", '<img src="docs/screenshots/a.png">', '<img src="screenshots/a.png">'),
])
def test_links_lead_to_pages_and_what_is_no_page_is_text(page: str, written: str, meant: str) -> None:
    known = {"index.md", "gpus.md", "platforms/local.md", "architecture.md", "deploy/one-machine/README.md",
             "screenshots/a.png", *ELSEWHERE.values()}
    assert links_of_site(written, page, known) == meant


def test_what_leads_nowhere_ends_the_build_and_is_named(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("# Page\n\n[a](gone.md), [b](#no-such-section), ![c](gone.png)\n")
    (tmp_path / "docs" / "left-out.md").write_text("# A page that the navigation lacks\n")
    config = tmp_path / "mkdocs.yml"
    config.write_text(f"INHERIT: {ROOT}/mkdocs.yml\ndocs_dir: docs\nnav: [index.md]\nhooks: []\nplugins: []\n"
                      f"theme: {{custom_dir: {ROOT}/scripts/docs_site/theme, logo: null}}\n")
    with pytest.raises(BuildFailed) as failed:
        build(tmp_path / "site", config)
    for said in ("gone.md", "no-such-section", "gone.png", "left-out.md"):
        assert said in str(failed.value)
    assert "4 warnings in strict mode" in str(failed.value)
