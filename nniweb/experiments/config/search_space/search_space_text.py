"""A search space as a person typed it, with what is wrong beside its line."""

from __future__ import annotations

from typing import Any

from nniweb.experiments.config.findings import Findings
from nniweb.experiments.config.yaml_positions import read_text
from nniweb.tuning.search_space.problem import InvalidInput
from nniweb.tuning.search_space.uninterpreted_space import read_space


def read_search_space_text(text: str, *, is_uninterpreted: bool) -> dict[str, Any]:
    """The search space in JSON (or YAML) text; ``is_uninterpreted``: for a tuner of the user's own.

    Raises ConfigInvalid, whose fields are paths in the space.
    """
    source = read_text(text)
    findings = Findings(source.places)
    try:
        read_space(source.data, is_uninterpreted=is_uninterpreted)
    except InvalidInput as invalid:
        for problem in invalid.problems:
            findings.add_text(problem.path, problem.message)
    findings.raise_if_any()
    return source.data
