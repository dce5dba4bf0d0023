"""What a file says about where the search begins: points that are tried first, and earlier experiments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from nniweb.experiments.config.algorithm_section import replicates_of
from nniweb.experiments.config.document import ExperimentDocument
from nniweb.experiments.config.findings import Findings
from nniweb.experiments.config.settings import AlgorithmSettings
from nniweb.tuning import algorithms
from nniweb.tuning.search_space.given_points import problems_of_points
from nniweb.tuning.search_space.problem import InvalidInput
from nniweb.tuning.search_space.uninterpreted_space import read_space

_POINTS, _FROM = "startPoints", "startFrom"


def check_start(document: ExperimentDocument, search_space: Mapping[str, Any], tuner: AlgorithmSettings | None,
                findings: Findings) -> None:
    """Add what is wrong with the file's start points and with its earlier experiments as far as the file says it, and
    notes about them. ``search_space`` {}: it has an error of its own, or annotations that are still to be fetched make
    it.
    """
    able = [field for field, given, problem_of in (
        (_POINTS, document.start_points, algorithms.start_points_problem),
        (_FROM, document.start_from, algorithms.start_from_problem))
        if given and tuner is not None and not findings.has_error(field)
        and _is_able(field, tuner, problem_of, findings) and _is_known(field, document, search_space, findings)]
    if _POINTS in able and tuner is not None:
        _check_points(document, search_space, algorithms.find_tuner(str(tuner.name)), findings)


def _is_able(field: str, tuner: AlgorithmSettings, problem_of: Callable[[algorithms.Algorithm], str],
             findings: Findings) -> bool:
    """Whether the tuner takes them, after adding why not."""
    why_not = ("cannot be used with a custom tuner: it proposes all points itself. Use a built-in tuner, or submit "
               "these parameter sets as trials when the experiment runs" if field == _POINTS else
               "cannot be used with a custom tuner. Import the results when the experiment runs (import-data)") \
        if tuner.name is None else problem_of(algorithms.find_tuner(tuner.name))
    if why_not:
        findings.add(field, why_not)
    return not why_not


def _is_known(field: str, document: ExperimentDocument, search_space: Mapping[str, Any], findings: Findings) -> bool:
    """Whether there is a search space to compare with, after adding why not."""
    if not search_space and document.use_annotation:
        findings.add(field, f"excludes {findings.spelling('useAnnotation')} as long as the code is not on this server: "
                            "the search space is not known yet. Give it in the file, or upload the code")
    return bool(search_space) and not findings.has_error("searchSpace") and not findings.has_error("constraints")


def _check_points(document: ExperimentDocument, search_space: Mapping[str, Any], algorithm: algorithms.Algorithm,
                  findings: Findings) -> None:
    try:
        space = read_space(search_space, is_uninterpreted=False, constraints=document.constraints)
    except InvalidInput:
        return
    for place, problem in problems_of_points(document.start_points, space, is_list=algorithm.takes_a_list):
        dot = "." if problem.path else ""
        findings.add_text(f"{findings.spelling(_POINTS)}[{place}]{dot}{problem.path}", problem.message)
    _note_limit(document, findings)


def _note_limit(document: ExperimentDocument, findings: Findings) -> None:
    if document.max_trial_number is None:
        return
    each = max(replicates_of(document).get("n", 1), 1)
    room = document.max_trial_number // each
    if room < len(document.start_points):
        limit = findings.spelling("maxTrialNumber")
        findings.note(f"{findings.spelling(_POINTS)}: has {len(document.start_points)} points, and {limit} "
                      f"leaves room for {room}; the others are not tried.")
