"""Where the processes of tuners look for modules."""

from __future__ import annotations

from pathlib import Path

import pytest

from nniweb.tuning.custom_algorithms.module_search import is_findable, is_installed_otherwise, module_folders


@pytest.fixture
def folder(tmp_path: Path) -> str:
    (tmp_path / "alone.py").write_text("")
    (tmp_path / "package" / "inner").mkdir(parents=True)
    (tmp_path / "package" / "__init__.py").write_text("raise RuntimeError('it is not to be imported')")
    (tmp_path / "spread" / "inner").mkdir(parents=True)
    (tmp_path / "spread" / "inner" / "module.py").write_text("")
    (tmp_path / "folder").mkdir()
    return str(tmp_path)


@pytest.mark.parametrize(("module", "is_there"), [
    ("alone", True), ("package", True), ("package.inner.deeper", True), ("spread.inner.module", True), ("sys", True),
    ("spread.inner.other", False), ("spread.inner", False), ("folder", False), ("nowhere", False),
    ("nowhere.at.all", False)])
def test_a_module_is_looked_for_with_its_packages_and_without_importing_any(
        folder: str, module: str, is_there: bool) -> None:
    assert is_findable(module, [folder]) is is_there
    assert is_findable(module, ["/nonexistent"]) is (module == "sys")


def test_folders_are_those_of_this_process_and_of_the_shell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}::relative")
    folders = module_folders()
    assert folders[1:3] == [str(tmp_path), str(Path("relative").absolute())]
    assert is_findable("nniweb", folders[:1])
    assert is_findable("yaml", folders)
    assert len(folders) == len(set(folders))


def test_what_lies_in_folders_or_nowhere_is_not_installed_otherwise() -> None:
    assert [is_installed_otherwise(name) for name in ("yaml", "json.decoder", "of_nobody", "sys")] == [False] * 3 + [
        True]
