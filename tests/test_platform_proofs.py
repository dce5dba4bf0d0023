"""README's table of how each platform was proved, and the tests that it names, say the same."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from trainingservice.platforms import platform_names

ROOT = Path(__file__).resolve().parent.parent
PLATFORMS = platform_names()
SUITE = "TrainingServiceConformance"
#: Of each platform, what starts its other side for the tests: the service itself, or what imitates it.
REAL = {"ray": {"tests.fakes.ray_head"}, "remote": {"tests.fakes.ssh_machine"}, "slurm": {"tests.fakes.slurm_cluster"},
        "command": {"tests.fakes.schedulers.grid_engine", "tests.fakes.schedulers.oar"}}
DOUBLES = {"kubernetes": {"tests.fakes.kubernetes.under_test"}, "kubeflow": {"tests.fakes.kubernetes.under_test"},
           "frameworkcontroller": {"tests.fakes.kubernetes.under_test"}, "adl": {"tests.fakes.kubernetes.under_test"},
           "openpai": {"tests.fakes.openpai.cluster"}, "dlts": {"tests.fakes.dlts_dashboard"},
           "azureml": {"tests.fakes.azureml_workspace"}, "command": {"tests.fakes.tiny_scheduler"},
           "ray": {"tests.fakes.ray_dashboard"}}
#: The service is the machine of the test: nothing has to be started.
NEEDS_NOTHING = {"local"}


def rows_of_proof() -> dict[str, list[str]]:
    """Platform -> the cells of its row after the first."""
    text = (ROOT / "README.md").read_text().partition("### How each platform was proved")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:2] == "| "]
    assert rows[0] == ["platform", "real service", "real binaries", "recorded", "double"]
    return {row[0]: row[1:] for row in rows[1:]}


def named_in(cell: str) -> list[tuple[Path, str]]:
    """File and class of each suite that a cell names."""
    return [(ROOT / path, name) for name, path in re.findall(r"\[(Test\w+)\]\((\S+\.py)\)", cell)]


class Module:
    """A file of tests: what its definitions use, of its own and from elsewhere."""

    def __init__(self, path: Path) -> None:
        tree = ast.parse(path.read_text())
        self.defined = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
        self.imported = {alias.asname or alias.name: (node.module or "", alias.name) for node in tree.body
                         if isinstance(node, ast.ImportFrom) for alias in node.names}

    def uses(self, name: str) -> set[str]:
        """Words in the definition of that name: names, attributes and parameters (which are fixtures)."""
        return {word for node in ast.walk(self.defined[name]) for kind in ("id", "attr", "arg")
                if (word := getattr(node, kind, None))}


@cache
def module(path: Path) -> Module:
    return Module(path)


def reached(path: Path, name: str, seen: set[tuple[Path, str]] | None = None) -> set[str]:
    """Modules, and classes as ``module.Class``, that a definition of a file of tests needs, by way of others too."""
    seen = set() if seen is None else seen
    if (path, name) in seen:
        return set()
    seen.add((path, name))
    found: set[str] = set()
    here = module(path)
    for word in here.uses(name):
        if word in here.defined:
            found |= reached(path, word, seen)
        elif word in here.imported:
            source, original = here.imported[word]
            found |= {source, f"{source}.{original}"}
            elsewhere = ROOT / f"{source.replace('.', '/')}.py"
            if elsewhere.is_file() and source.startswith("tests.") and original in module(elsewhere).defined:
                found |= reached(elsewhere, original, seen)
    return found


def why_no_proof(path: Path, name: str, needs: set[str], excludes: set[str]) -> str:
    """What keeps a class from being the proof that it is named as; "" for nothing."""
    if not path.is_file():
        return f"there is no file {path}"
    if not isinstance(module(path).defined.get(name), ast.ClassDef):
        return f"{path.name} has no class {name}"
    found = reached(path, name)
    if not any(each.endswith(f".{SUITE}") for each in found):
        return f"{name} does not inherit {SUITE}"
    if needs and not needs & found:
        return f"{name} starts none of {sorted(needs)}"
    return f"{name} starts {sorted(excludes & found)[0]}, which is of another kind" if excludes & found else ""


def test_every_platform_says_how_it_was_proved() -> None:
    assert sorted(rows_of_proof()) == sorted(PLATFORMS)


@pytest.mark.parametrize("platform", PLATFORMS)
def test_how_a_platform_was_proved_is_what_the_named_suites_start(platform: str) -> None:
    service, _, _, double = rows_of_proof()[platform]
    assert bool(service) == (platform in REAL or platform in NEEDS_NOTHING)
    assert bool(double) == (platform in DOUBLES)
    real, doubles = REAL.get(platform, set()), DOUBLES.get(platform, set())
    for cell, needs, excludes in ((service, real, doubles), (double, doubles, real)):
        assert bool(named_in(cell)) == bool(cell), f"no class is named in: {cell}"
        assert [why for each in named_in(cell) if (why := why_no_proof(*each, needs, excludes))] == []


@pytest.mark.parametrize("platform", PLATFORMS)
def test_every_real_service_that_tests_start_is_named(platform: str) -> None:
    started = {each for path, name in named_in(rows_of_proof()[platform][0]) for each in reached(path, name)}
    assert REAL.get(platform, set()) <= started


@pytest.mark.parametrize("platform", PLATFORMS)
def test_what_was_recorded_is_compared_by_a_test(platform: str) -> None:
    recorded = rows_of_proof()[platform][2]
    folder = re.search(r"\((tests/recordings/\w+)/README.md\)", recorded)
    assert bool(recorded) == bool(folder)
    if folder is not None:
        users = [path for path in (ROOT / "tests").rglob("*.py") if folder[1].rpartition("/")[2] in path.read_text()
                 and "recordings" in path.read_text()]
        assert users, f"no test compares with {folder[1]}"


CONFORMANCE = ROOT / "tests" / "trainingservice" / "conformance"


@pytest.mark.parametrize(("file", "name", "why"), [
    ("test_conformance_ray.py", "TestRayHead", ""),
    ("test_conformance_gone.py", "TestRayHead", "there is no file"),
    ("test_conformance_ray.py", "TestRayCluster", "has no class"),
    ("test_conformance_ray.py", "OnRealHead", "does not inherit"),
    ("test_conformance_ray.py", "TestRay", "starts none of"),
    ("test_conformance_slurm.py", "TestSlurm", "starts none of"),
])
def test_a_name_that_is_no_such_proof_is_found(file: str, name: str, why: str) -> None:
    found = why_no_proof(CONFORMANCE / file, name, REAL["ray"], set())
    assert why in found
    assert bool(found) == bool(why)


def test_a_double_that_is_called_the_real_service_is_found() -> None:
    found = why_no_proof(CONFORMANCE / "test_conformance_command.py", "TestCommand", set(), DOUBLES["command"])
    assert found == "TestCommand starts tests.fakes.tiny_scheduler, which is of another kind"
