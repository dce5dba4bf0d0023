"""No platform folder without the conformance suite among its tests."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SUITE = "TrainingServiceConformance"
SERVICE = "TrainingService"


def classes(tree: ast.Module) -> Iterator[tuple[str, list[str]]]:
    """Names of the classes of a file, each with those that it inherits; none that are within others."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield node.name, [base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "")
                              for base in node.bases]


def heirs(trees: list[ast.Module], ancestor: str) -> set[str]:
    """Names of all classes that inherit ``ancestor``, over however many others."""
    found, bases = {ancestor}, [pair for tree in trees for pair in classes(tree)]
    while more := {name for name, above in bases if name not in found and found & set(above)}:
        found |= more
    return found - {ancestor}


def platform_folders(package: Path) -> set[str]:
    """Folders with a class in ``service.py`` that is a platform of its own: it has a name in experiment files."""
    trees = {path.parent.name: ast.parse(path.read_text()) for path in package.glob("*/service.py")}
    services = heirs([ast.parse(path.read_text()) for path in package.rglob("*.py")], SERVICE)

    def is_platform(tree: ast.Module) -> bool:
        return any(isinstance(node, ast.ClassDef) and node.name in services and any(
            isinstance(line, ast.AnnAssign | ast.Assign) and line.value is not None
            and "platform" in [getattr(target, "id", "")
                               for target in (line.targets if isinstance(line, ast.Assign) else [line.target])]
            for line in node.body) for node in tree.body)

    return {folder for folder, tree in trees.items() if is_platform(tree)}


def proven_platforms(tests: Path, folders: set[str]) -> set[str]:
    """Those with a test class that inherits the suite: in the folder of their name, or test_conformance_NAME....py."""
    texts = {path: path.read_text() for path in tests.parent.rglob("*.py")}
    trees = {path: ast.parse(text) for path, text in texts.items() if re.search("^class ", text, re.MULTILINE)}
    suites = heirs([*trees.values()], SUITE)
    proofs = [path for path, tree in trees.items() if path.name.startswith("test_") and path.is_relative_to(tests)
              and any(name in suites and name.startswith("Test") for name, _ in classes(tree))]
    return {folder for folder in folders for path in proofs if path.parent == tests / folder
            or re.fullmatch(f"test_conformance_{folder}(_.*)?", path.stem)}


def test_the_tests_of_every_platform_folder_inherit_the_conformance_class() -> None:
    folders = platform_folders(ROOT / "trainingservice")
    assert {"local", "remote", "kubernetes", "kubeflow", "openpai"} <= folders
    assert not {"testing", "kubernetes_base", "submit_host"} & folders
    unproven = folders - proven_platforms(ROOT / "tests" / "trainingservice", folders)
    assert not unproven, (f"trainingservice/{sorted(unproven)[0]} is a platform, but no test class of "
                          f"tests/trainingservice inherits {SUITE} for it: see docs/write-a-platform.md, chapter 9")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    package = tmp_path / "trainingservice"
    (package / "new").mkdir(parents=True)
    (package / "polling.py").write_text("class PollingTrainingService(TrainingService): ...\n")
    (package / "new" / "service.py").write_text(
        'class NewService(PollingTrainingService):\n    platform: ClassVar[str] = "new"\n')
    (tmp_path / "tests" / "trainingservice" / "new").mkdir(parents=True)
    return tmp_path


@pytest.mark.parametrize(("file", "text", "is_proof"), [
    ("new/test_new.py", "", False),
    ("new/test_new.py", "class TestNew:\n    ...\n", False),
    ("other/test_other.py", f"class TestOther({SUITE}):\n    ...\n", False),
    ("test_conformance_newer.py", f"class TestNewer({SUITE}):\n    ...\n", False),
    ("new/cases.py", f"class TestNew({SUITE}):\n    ...\n", False),
    ("new/test_new.py", f"class Cases({SUITE}):\n    ...\n", False),
    ("new/test_new.py", f"class TestNew({SUITE}):\n    ...\n", True),
    ("test_conformance_new.py", f"class TestNew({SUITE}):\n    ...\n", True),
    ("test_conformance_new_by_log.py", f"class Cases({SUITE}):\n    ...\nclass TestNew(Cases):\n    ...", True),
], ids=["no tests", "tests of its own", "the suite for another", "for a longer name", "a file that is not run",
        "a class that is not run", "the suite", "beside the folder", "by another class"])
def test_a_platform_folder_without_the_suite_is_found(tree: Path, file: str, text: str, is_proof: bool) -> None:
    path = tree / "tests" / "trainingservice" / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    folders = platform_folders(tree / "trainingservice")
    assert folders == {"new"}
    assert proven_platforms(tree / "tests" / "trainingservice", folders) == ({"new"} if is_proof else set())
