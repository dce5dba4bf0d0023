"""Which modules a script imports at its top, read from its text."""

from pathlib import Path

import pytest

from trainingservice.code import script_imports as module
from trainingservice.code.script_imports import script_imports


@pytest.fixture
def code(tmp_path):
    """Writes files into a code folder, and gives the folder."""
    folder = tmp_path / "code"

    def write(files: dict[str, str]) -> Path:
        for name, text in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return folder
    return write


def names(code: Path, folder: str = "", **more: str) -> list[str]:
    return [each.name for each in script_imports(code, folder, **more)]


def test_only_imports_at_the_top_count(code):
    folder = code({"train.py": "import os, torch.nn as nn\nfrom sklearn.datasets import load_digits\n"
                               "try:\n    import wandb\nexcept ImportError:\n    wandb = None\n"
                               "if True:\n    import maybe\n"
                               "def main():\n    import later\n"})
    found = script_imports(folder, "", script="train.py")
    assert [(each.name, each.file, each.line) for each in found] == [
        ("os", "train.py", 1), ("torch", "train.py", 1), ("sklearn", "train.py", 2)]


def test_modules_beside_the_script_are_its_own_and_what_they_import_is_the_script_s(code):
    folder = code({"src/train.py": "import model\nfrom layers import conv\nfrom layers.deep import x\nimport fast\n",
                   "src/model.py": "import torch\n", "src/layers/__init__.py": "", "src/layers/conv.py":
                   "from . import deep\nfrom .. import outside\nimport scipy\n", "src/layers/deep.py": "import jax\n",
                   "src/fast.cpython-311-x86_64-linux-gnu.so": "", "src/unused.py": "import pandas\n"})
    assert sorted(names(folder, script="src/train.py")) == ["jax", "scipy", "torch"]
    assert sorted(names(folder, "src", script="train.py")) == ["jax", "scipy", "torch"]


def test_a_module_is_looked_for_where_it_is_called(code):
    folder = code({"my/__init__.py": "", "my/train.py": "import helper\nimport torch\n", "helper.py": "",
                   "my/run/__main__.py": "import flax\n", "my/run/__init__.py": ""})
    assert names(folder, module="my.train") == ["torch"]
    assert names(folder, module="absent") == []


def test_nothing_is_claimed_of_what_cannot_be_read_or_changes_where_modules_are_found(code, tmp_path):
    (tmp_path / "elsewhere.py").write_text("import torch\n")
    folder = code({"path.py": "import sys\nsys.path.append('lib')\nimport torch\n", "broken.py": "import (\n",
                   "binary.py": "\x00"})
    (folder / "link.py").symlink_to(tmp_path / "elsewhere.py")
    assert [names(folder, script=script) for script in ("path.py", "broken.py", "binary.py", "absent.py", "link.py",
                                                        "../elsewhere.py")] == [[], [], [], [], [], []]


def test_what_is_read_is_bounded(code, monkeypatch):
    monkeypatch.setattr(module, "MOST_NAMES", 3)
    monkeypatch.setattr(module, "MOST_FILES", 5)
    folder = code({f"m{number}.py": f"import m{number + 1}\nimport far{number}\n" for number in range(20)})
    assert names(folder, script="m0.py") == ["far0", "far1", "far2"]
    monkeypatch.setattr(module, "MOST_NAMES", 100)
    assert len(names(folder, script="m0.py")) < 8
    monkeypatch.setattr(module, "MOST_BYTES", 80)
    assert names(folder, script="m0.py") == ["far0", "far1", "far2"]
    monkeypatch.setattr(module, "LONGEST_FILE", 10)
    assert names(folder, script="m0.py") == []
