"""How the source is laid out: what ``make structure`` prints keeps its limits."""

from __future__ import annotations

import pytest
from structure import python_files

#: Folders that may have more files, and why.
LARGER = {
    "trialkeeper": "one program without circles; in folders it would be one knot",
    "nniweb/experiments/migrations": "their order is their name",
}


@pytest.fixture(scope="module")
def imports() -> python_files.Imports:
    return python_files.imports_of_modules()


def test_no_module_needs_itself_by_way_of_others(imports: python_files.Imports) -> None:
    assert "nniweb.urls" in imports
    assert python_files.circles(imports) == []


@pytest.mark.parametrize("house", python_files.HOUSES)
def test_arrows_between_folders_run_one_way(imports: python_files.Imports, house: str) -> None:
    between = python_files.arrows(imports, house)
    assert between
    assert python_files.back_arrows(between) == []


def test_a_folder_can_be_taken_in_at_a_glance() -> None:
    folders = python_files.files_per_folder()
    too_large = {folder for folder, count in folders.items() if count > python_files.MOST_FILES}
    assert too_large == set(LARGER)


def test_a_circle_is_found_wherever_it_is_entered() -> None:
    imports = {"a": {"b"}, "b": {"c", "d"}, "c": {"a"}, "d": {"e"}, "e": {"d"}, "f": {"a"}}
    assert python_files.circles(imports) == [["a", "b", "c"], ["d", "e"]]
    assert python_files.back_arrows([("a", "b"), ("b", "a"), ("b", "c")]) == [("a", "b"), ("b", "a")]
