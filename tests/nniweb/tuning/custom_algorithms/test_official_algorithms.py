"""Algorithms that the official ``nni`` package comes with, where it is installed: named as classes."""

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nniweb.tuning.process.tuner_client import TunerClient, TunerFailed
from tests.fakes.official_nni import official_python
from tests.nniweb.tuning.custom_algorithms.test_own_classes import result, spec

#: A package that is laid out as the official one is.
PACKAGE = {
    "nni/__init__.py": "raise RuntimeError('the package itself is not to be loaded')",
    "nni/tuner.py": "raise RuntimeError('the stand-in comes first')",
    "nni/utils.py": """
        from . import parameter_expressions
        from .tuner import Tuner
        class OptimizeMode: pass
        def names_in(space):
            return sorted(space)
        def drawn(low, high, state):
            return parameter_expressions.uniform(low, high, state)
        """,
    "nni/common/__init__.py": "from .serializer import trace",
    "nni/common/serializer.py": "def trace(found): return found",
    "nni/common/graphs.py": "EDGES = 3",
    "nni/runtime/__init__.py": "",
    "nni/runtime/config.py": "from ..utils import OptimizeMode",
    "nni/algorithms/__init__.py": "",
    "nni/algorithms/hpo/__init__.py": "",
    "nni/algorithms/hpo/their_tuner.py": """
        import numpy as np
        import nni
        from nni import ClassArgsValidator
        from nni.tuner import Tuner
        from nni.common import trace
        from nni.common.graphs import EDGES
        from nni.runtime.config import OptimizeMode as SameMode
        from nni.utils import OptimizeMode, drawn, names_in

        @trace
        class TheirTuner(Tuner):
            def __init__(self, optimize_mode="maximize"):
                assert OptimizeMode(optimize_mode) is SameMode.Maximize
            def update_search_space(self, search_space):
                self.space = search_space
            def generate_parameters(self, parameter_id, **kwargs):
                return {"names": names_in(self.space), "edges": EDGES, "one": drawn(1, 1, np.random)}
            def receive_trial_result(self, parameter_id, parameters, value, **kwargs):
                pass
        """,
    "nni/algorithms/hpo/wanting.py": "from nni.utils import not_there",
    "nni/algorithms/hpo/lacking.py": "import not_installed_at_all",
}


@pytest.fixture
def client() -> Iterator[TunerClient]:
    made = TunerClient()
    yield made
    made.shutdown()


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in PACKAGE.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))


def named(name: str, **class_args: Any) -> dict[str, Any]:
    return spec({"class_name": f"nni.algorithms.hpo.{name}", "class_args": class_args})


def test_its_classes_run_on_the_base_classes_of_this_server(client: TunerClient, package: None) -> None:
    result(client.open("e", named("their_tuner.TheirTuner"), []))
    [parameters] = result(client.ask("e", 0, 1))["parameters"]
    assert parameters == {"names": ["n", "x"], "edges": 3, "one": 1}


@pytest.mark.parametrize(("name", "words"), [
    ("wanting.Tuner", "cannot import name 'not_there' from"),
    ("lacking.Tuner", "imports not_installed_at_all, which is not installed on the server"),
    ("nowhere.Tuner", "imports nni.algorithms.hpo.nowhere, of which there is only a part here"),
])
def test_what_is_missing_is_named(client: TunerClient, package: None, name: str, words: str) -> None:
    error = client.open("e", named(name), []).exception(60)
    assert isinstance(error, TunerFailed)
    assert words in error.message


def test_without_the_package_the_answer_says_what_to_install(client: TunerClient) -> None:
    error = client.open("e", named("random_tuner.RandomTuner"), []).exception(60)
    assert isinstance(error, TunerFailed)
    assert "Install the official nni package into the server's Python environment" in error.message


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("version", ["2.10.1", "3.0"])
@pytest.mark.parametrize(("name", "class_args"), [
    ("random_tuner.RandomTuner", {}), ("tpe_tuner.TpeTuner", {}), ("gridsearch_tuner.GridSearchTuner", {}),
    ("evolution_tuner.EvolutionTuner", {"population_size": 4}), ("hyperband_advisor.Hyperband", {"R": 9, "eta": 3})])
def test_the_official_ones_run_unchanged(client: TunerClient, monkeypatch: pytest.MonkeyPatch, version: str, name: str,
                                         class_args: dict[str, Any]) -> None:
    packages = next((official_python(version).parent.parent / "lib").glob("python*/site-packages"))
    monkeypatch.setenv("PYTHONPATH", str(packages))
    result(client.open("e", named(name, **class_args), []))
    running: dict[int, dict[str, Any]] = {}
    number = 0
    while number < 12:
        for parameters in result(client.ask("e", number, 3 - len(running)))["parameters"]:
            running[number] = parameters
            number += 1
        ended = min(running)
        told = running.pop(ended)
        assert 0 <= told["x"] <= 1
        result(client.tell("e", ended, told, told["x"], "SUCCEEDED", trial=f"t{ended}", result=str(told["x"])))
