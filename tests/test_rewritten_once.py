"""In a fresh checkout the files of tests are rewritten once, not by each worker (tests/rewritten_once.py)."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from _pytest.assertion import rewrite

from tests import rewritten_once
from tests.rewritten_once import kept, rewrite_once


@pytest.fixture
def config(tmp_path: Path, pytestconfig: pytest.Config) -> Any:
    """Of a run of all tests in this folder."""
    return SimpleNamespace(args=[str(tmp_path)], invocation_params=SimpleNamespace(dir=tmp_path),
                           stash=pytestconfig.stash, getini=pytestconfig.getini, get_verbosity=None)


def test_what_pytest_would_rewrite_it_finds_rewritten(tmp_path: Path, config: Any, monkeypatch: pytest.MonkeyPatch
                                                      ) -> None:
    monkeypatch.setattr(rewritten_once, "MANY", 1)
    text = "def test_some():\n    one = [1]\n    assert one == [2]\n"
    for name in ("test_a.py", "test_b.py", "deeper/conftest.py", "helpers.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "test_wrong.py").write_text("def (")
    assert rewrite_once(config) == 4
    found = {path.relative_to(tmp_path).as_posix(): rewrite._read_pyc(path, kept(path))
             for path in tmp_path.rglob("*.py")}
    assert {name for name, code in found.items() if code} == {"test_a.py", "test_b.py", "deeper/conftest.py"}
    names: dict[str, Any] = {}
    exec(found["test_a.py"], names)
    with pytest.raises(AssertionError, match="At index 0 diff: 1 != 2"):
        names["test_some"]()
    assert rewrite_once(config) == 1, "the one that cannot be read"


def test_few_files_are_left_to_the_workers(tmp_path: Path, config: Any) -> None:
    (tmp_path / "test_a.py").write_text("")
    assert rewrite_once(config) == 0
    assert not kept(tmp_path / "test_a.py").exists()
