"""The documentation and the code say the same: settings, platform pages, config files in the text, links."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from nniweb.experiments.config import parse_experiment_config
from trainingservice.platforms import load_platform, platform_names

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / "examples").rglob("*.md")])
PLATFORMS = platform_names()


def name_of(page: object) -> str:
    return str(page.relative_to(ROOT)) if isinstance(page, Path) else ""


def variables_in_code() -> set[str]:
    """Names of NNIWEB_ variables that the server's code has as a string of their own: those it reads."""
    sources = [path for package in ("nniweb", "trainingservice") for path in (ROOT / package).rglob("*.py")]
    return {name for source in sources for name in re.findall(r'"(NNIWEB_[A-Z0-9_]+)"', source.read_text())}


def variables_in_settings_page() -> set[str]:
    """Names that have a row of their own in one of the page's tables."""
    return set(re.findall(r"^\| `(NNIWEB_[A-Z0-9_]+)` \|", (DOCS / "settings.md").read_text(), re.MULTILINE))


def test_every_variable_the_server_reads_is_explained() -> None:
    assert "NNIWEB_DATA" in variables_in_code()
    assert sorted(variables_in_code() - variables_in_settings_page()) == []


def test_every_variable_that_is_explained_is_read() -> None:
    assert sorted(variables_in_settings_page() - variables_in_code()) == []


@pytest.mark.parametrize("platform", PLATFORMS)
def test_every_platform_has_a_page(platform: str) -> None:
    assert (DOCS / "platforms" / f"{platform}.md").is_file()


@pytest.mark.parametrize("platform", PLATFORMS)
def test_every_field_of_a_platform_has_a_row_in_its_page(platform: str) -> None:
    service = load_platform(platform)
    fields = {field.alias or name for model in (service.settings_model, service.options_model)
              for name, field in model.model_fields.items()}
    page = (DOCS / "platforms" / f"{platform}.md").read_text()
    rows = set(re.findall(r"^\| `([A-Za-z.\[\]]+)` \|", page, re.MULTILINE))
    assert sorted(fields - rows) == []


def config_blocks() -> Iterator[object]:
    for page in [ROOT / "README.md", *sorted((DOCS / "platforms").glob("*.md"))]:
        blocks = re.findall(r"^```yaml\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
        for number, block in enumerate(blocks, 1):
            yield pytest.param(page.stem, block, id=f"{page.stem}-{number}")


@pytest.mark.parametrize(("page", "block"), list(config_blocks()))
def test_every_config_in_the_text_is_valid(page: str, block: str, tmp_path: Path) -> None:
    (tmp_path / "search_space.json").write_text('{"x": {"_type": "uniform", "_value": [0, 1]}}')
    settings = parse_experiment_config(block, tmp_path).settings
    assert settings.training_service is not None
    assert settings.training_service.platform == ("local" if page == "README" else page)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_to_a_file_leads_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text())
    broken = [target for target in targets if "://" not in target and not (page.parent / target).exists()]
    assert broken == []


def anchors(page: Path) -> set[str]:
    """Those of its headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S), re.MULTILINE)
    plain = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).strip().lower() for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_to_a_section_leads_to_one(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s:]*)#([^)\s]+)\)", page.read_text())
    targets = [(page.parent / path if path else page, anchor) for path, anchor in links]
    broken = [f"{target.name}#{anchor}" for target, anchor in targets
              if target.suffix == ".md" and anchor not in anchors(target)]
    assert broken == []


#: In a container there is no environment of a checkout.
CONTAINERS = (DOCS / "deploy" / "containers", DOCS / "deploy" / "kubernetes")


@pytest.mark.parametrize("page", [page for page in PAGES if page.parent not in CONTAINERS], ids=name_of)
def test_a_command_can_be_typed_in_a_checkout_without_activating_anything(page: Path) -> None:
    bare = re.findall(r"(?<!\.venv/bin/)\bpython3? manage\.py .*", page.read_text())
    assert page.name == "CHANGELOG.md" or bare == []


def test_every_decision_is_in_the_list_of_decisions() -> None:
    listed = set(re.findall(r"\((\d{4}-[a-z-]+\.md)\)", (DOCS / "decisions" / "README.md").read_text()))
    assert listed == {path.name for path in (DOCS / "decisions").glob("[0-9]*.md")}


WALKS = (("## A metric, from the trial to the page", 10), ("## A launch, from the form to the process", 10),
         ("## An end, from the process to the status", 6))


@pytest.mark.parametrize(("walk", "least"), WALKS)
def test_the_steps_of_a_walk_through_the_code_are_there(walk: str, least: int) -> None:
    """Each file is linked by its own path, and what is named after it is defined in it."""
    text = (DOCS / "architecture.md").read_text().split(walk)[1].split("\n## ")[0]
    steps = re.findall(r"\[`([\w/.]+)`\]\(\.\./([\w/.]+)\)((?:(?:,|\sor|\sand)\s`\w+`)*)", text)
    assert len(steps) >= least
    for shown, linked, names in steps:
        assert shown == linked
        source = (ROOT / linked).read_text()
        for name in re.findall(r"`(\w+)`", names):
            assert re.search(rf"\b(?:def|class|function) {name}\b", source), f"{linked} has no {name}"
