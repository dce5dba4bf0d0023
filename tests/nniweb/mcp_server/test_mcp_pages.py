"""docs/mcp.md and docs/skill.md say what the tools are; resources are pages that can be read in parts."""

import re
from pathlib import Path

import pytest
import yaml

from nniweb.experiments.config import parse_experiment_config
from nniweb.mcp_server import cursors, reference
from nniweb.mcp_server.prompts import PROMPTS
from nniweb.mcp_server.tools import BY_NAME, TOOLS

DOCS = Path(__file__).resolve().parents[3] / "docs"
SKILL = (DOCS / "skill.md").read_text()


def test_the_table_of_tools_has_each_of_them_as_it_is() -> None:
    page = (DOCS / "mcp.md").read_text()
    rows = {cells[0].strip("`"): cells[1:] for line in page.splitlines() if line.startswith("| `")
            for cells in [[cell.strip() for cell in line.strip("|").split("|")]]}
    assert {name: (cells[0], cells[2]) for name, cells in rows.items()} == {
        tool.name: ("yes" if tool.changes else "", tool.asks) for tool in TOOLS}


def test_the_page_names_every_resource_and_prompt() -> None:
    page = (DOCS / "mcp.md").read_text()
    assert [name for name in reference.PAGES if f"`{reference.SCHEME}{name}`" not in page] == []
    assert [name for name in PROMPTS if f"`{name}`" not in page] == []


def test_the_skill_has_a_front_matter_and_names_tools_that_exist() -> None:
    front = yaml.safe_load(SKILL.split("---")[1])
    assert re.fullmatch(r"[a-z-]{1,64}", front["name"])
    assert 20 < len(front["description"]) <= 1024
    named = set(re.findall(r"`([a-z]+_[a-z]+|launch|propose|wait|results|compare|budget)`", SKILL)) - {
        "dry_run", "has_ended", "git_url"}
    assert named == set(BY_NAME)
    assert len(SKILL) < 6000


def test_the_config_in_the_skill_is_one(tmp_path: Path) -> None:
    [block] = re.findall(r"^```yaml\n(.*?)^```", SKILL, re.DOTALL | re.MULTILINE)
    assert parse_experiment_config(block, tmp_path).settings.max_trial_number == 8


@pytest.mark.parametrize("name", reference.PAGES)
def test_every_page_can_be_read_by_its_sections_without_a_gap(name: str) -> None:
    sections = reference.sections(name)
    names = [section.name for section in sections]
    assert len(names) == len(set(names))
    whole = (DOCS / reference.PAGES[name][0]).read_text()
    for section in sections[1:]:
        text = reference.read(f"{reference.SCHEME}{name}/{section.name}")
        assert len(text) <= reference.LONGEST + 100
        assert "cut here" not in text
        assert section.text[:200] in whole
    assert len(reference.read(f"{reference.SCHEME}{name}")) <= reference.LONGEST


def test_a_cursor_is_for_its_own_question_and_has_its_own_form() -> None:
    of = cursors.question(tool="results", experiment="a")
    cursor = cursors.written(of, {"page": 2})
    assert cursors.read(cursor, of, {"page": int}) == {"page": 2}
    for wrong, words in ((cursor[:-2], "not a cursor"), ("", "not a cursor"), ("!" * 9, "not a cursor"),
                         ("A" * 1000, "not a cursor"), (cursors.written("other", {"page": 2}), "another question"),
                         (cursors.written(of, {"page": "2"}), "not a cursor"),
                         (cursors.written(of, {"page": -7}), "not a cursor"),
                         (cursors.written(of, {}), "not a cursor")):
        with pytest.raises(cursors.Refused, match=words):
            cursors.read(wrong, of, {"page": int})
