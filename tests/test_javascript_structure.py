"""How the scripts of the pages are laid out."""

from __future__ import annotations

import re

import pytest
from structure import javascript_files, python_files

TEMPLATES = javascript_files.ROOT / "templates"


@pytest.fixture(scope="module")
def imports() -> dict[str, set[str]]:
    return javascript_files.imports_of_scripts()


def test_no_script_needs_itself_by_way_of_others(imports: dict[str, set[str]]) -> None:
    assert "pages/trial.js" in imports
    assert python_files.circles(imports) == []


def test_scripts_import_from_the_folders_below_theirs(imports: dict[str, set[str]]) -> None:
    assert any(imports.values())
    assert javascript_files.arrows_against_layers(imports) == []


def test_a_tab_imports_nothing_from_another_tab(imports: dict[str, set[str]]) -> None:
    def tab(script: str) -> str:
        return script.split("/")[1] if javascript_files.folder_of(script) == "experiment/TAB" else ""

    assert [(script, other) for script, others in imports.items() for other in others
            if tab(script) and tab(other) and tab(script) != tab(other)] == []


def test_a_folder_of_scripts_can_be_taken_in_at_a_glance() -> None:
    folders = javascript_files.files_per_folder()
    assert folders
    assert {folder: count for folder, count in folders.items() if count > python_files.MOST_FILES} == {}


def test_each_script_is_reached_from_a_page(imports: dict[str, set[str]]) -> None:
    named = {name for path in [*TEMPLATES.rglob("*.html"), *(javascript_files.ROOT / "nniweb").rglob("*.py")]
             for name in re.findall(r"js/([a-z_/]+\.js)", path.read_text())}
    reached, left = set(), ["pages/tensorboard_storage.js", *(named & imports.keys())]
    assert {name for name in named if not name.startswith("echarts")} <= imports.keys()
    while left:
        script = left.pop()
        if script not in reached:
            reached.add(script)
            left += imports[script]
    assert imports.keys() - reached == set()


def test_an_import_that_leads_nowhere_is_told(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "page.js").write_text('import { a } from "./gone.js";')
    monkeypatch.setattr(javascript_files, "SCRIPTS", tmp_path)
    with pytest.raises(ValueError, match=r"page\.js imports \./gone\.js"):
        javascript_files.imports_of_scripts()
