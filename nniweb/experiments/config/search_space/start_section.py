"""What a file says about where the search begins: points that are tried first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nniweb.experiments.config.algorithm_section import replicates_of
from nniweb.experiments.config.document import ExperimentDocument
from nniweb.experiments.config.findings import Findings
from nniweb.experiments.config.settings import AlgorithmSettings
from nniweb.tuning import algorithms
from nniweb.tuning.search_space.given_points import problems_of_points
from nniweb.tuning.search_space.problem import InvalidInput
from nniweb.tuning.search_space.uninterpreted_space import read_space

_POINTS = "startPoints"


def check_start(document: ExperimentDocument, search_space: Mapping[str, Any], tuner: AlgorithmSettings | None,
                findings: Findings) -> None:
    """Add what is wrong with the file's start points, and notes about them. ``search_space`` {}: it has an error of its
    own, or annotations that are still to be fetched make it.
    """
    if not document.start_points or tuner is None or findings.has_error(_POINTS):
        return
    if tuner.name is None:
        findings.add(_POINTS, "cannot be used with a custom tuner: it proposes all points itself. Use a built-in "
                              "tuner, or submit these parameter sets as trials when the experiment runs")
        return
    algorithm = algorithms.find_tuner(tuner.name)
    if why_not := algorithms.start_points_problem(algorithm):
        findings.add(_POINTS, why_not)
        return
    if not search_space and document.use_annotation:
        findings.add(_POINTS, f"excludes {findings.spelling('useAnnotation')} as long as the code is not on this "
                              "server: the points cannot be checked. Give the search space in the file, or upload the "
                              "code")
        return
    if not search_space or findings.has_error("searchSpace") or findings.has_error("constraints"):
        return
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
