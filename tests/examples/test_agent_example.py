"""The agent of examples/agent: which points it proposes."""

import importlib.util
from types import ModuleType

import pytest

from tests.end_to_end.running_server import ROOT

if importlib.util.find_spec("mcp") is None:
    pytest.skip("the package mcp is missing: pip install -r requirements/mcp.txt", allow_module_level=True)

SPACE = {"layers": {"_type": "choice", "_value": [1, 2, 3]}, "units": {"_type": "choice", "_value": [8, 16]}}


@pytest.fixture(scope="module")
def agent() -> ModuleType:
    spec = importlib.util.spec_from_file_location("agent_example", ROOT / "examples" / "agent" / "agent.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_tries_no_parameters_twice_with_the_same_patch_and_ends_when_nothing_is_left(agent: ModuleType) -> None:
    results: list[tuple[dict[str, int], str | None, float]] = []
    while (new := agent.next_point(len(results), results, SPACE, True, 1, ["a", "b"])) is not None:
        assert new not in [result[:2] for result in results]
        results.append((*new, float(new[0]["layers"])))
    assert len(results) > 10  # of the 18 that there are
    assert {variant for _, variant, _ in results} == {None, "a", "b"}
    assert agent.next_point(len(results), results, SPACE, True, 1, ["a", "b"]) is None
