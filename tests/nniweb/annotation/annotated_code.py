"""Code with annotations, carried out and run in this process with a stand-in for the trial's ``nni``."""

from __future__ import annotations

import sys
import types
from collections.abc import Mapping
from typing import Any
from unittest import mock

from nniweb.annotation.rewriting import Rewriting, rewrite


class StandInNni(types.ModuleType):
    """What every version of the package has, and nothing else."""

    def __init__(self, parameters: Mapping[str, Any]) -> None:
        super().__init__("nni")
        self._given, self._current = dict(parameters), None
        self.asked = 0
        self.reports: list[tuple[str, Any]] = []

    def get_next_parameter(self) -> Any:
        self.asked += 1
        self._current = self._given
        return self._current

    def get_current_parameter(self, tag: str | None = None) -> Any:
        return self._current if self._current is None or tag is None else self._current[tag]

    def report_intermediate_result(self, metric: Any) -> None:
        assert self._current is not None, "nni.get_next_parameter() needs to be called before"
        self.reports.append(("intermediate", metric))

    def report_final_result(self, metric: Any) -> None:
        assert self._current is not None, "nni.get_next_parameter() needs to be called before"
        self.reports.append(("final", metric))


def carried_out(code: str | bytes, module: str = "trial") -> Rewriting:
    """The rewriting of code in which nothing is wrong."""
    found = rewrite(code if isinstance(code, bytes) else code.encode(), module)
    assert found.problems == []
    return found


def run(code: str | bytes, parameters: Mapping[str, Any], module: str = "trial", **names: Any
        ) -> tuple[dict[str, Any], StandInNni]:
    """The names that the rewritten code leaves, and the module that it called. ``names`` are there before."""
    source = carried_out(code, module).source
    assert source is not None
    nni = StandInNni(parameters)
    names["__name__"] = "__main__"
    with mock.patch.dict(sys.modules, {"nni": nni}):
        exec(compile(source, "<trial>", "exec", dont_inherit=True), names)
    return names, nni


def problems(code: str | bytes) -> list[tuple[int, str]]:
    """What is wrong: lines and sentences."""
    return [(problem.line, problem.message)
            for problem in rewrite(code if isinstance(code, bytes) else code.encode(), "trial").problems]
