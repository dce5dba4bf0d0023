"""The tuner and the assessor of a file, checked against the algorithms there are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from nniweb.experiments.config.document import AlgorithmDocument, ExperimentDocument
from nniweb.experiments.config.findings import Findings
from nniweb.experiments.config.local_paths import LocalPaths
from nniweb.experiments.config.settings import AlgorithmSettings
from nniweb.tuning import algorithms
from nniweb.tuning.problem import InvalidInput
from nniweb.tuning.search_space_parser import parse_search_space


@dataclass(frozen=True)
class Algorithms:
    """What the file says about algorithms, all of it valid together."""

    tuner: AlgorithmSettings
    assessor: AlgorithmSettings | None
    optimize_mode: Literal["minimize", "maximize"]
    seed: int | None


def read_algorithms(document: ExperimentDocument, search_space: dict[str, Any], findings: Findings,
                    paths: LocalPaths) -> Algorithms | None:
    """The algorithms, or None after adding what is wrong."""
    section, written = "tuner", document.tuner
    if document.advisor is not None:
        if document.tuner is not None:
            findings.add("advisor", f"excludes {findings.spelling('tuner')}: give one of them")
            return None
        section, written = "advisor", document.advisor
    if written is None:
        if not findings.has_error("tuner") and not findings.has_error("advisor"):
            findings.add("tuner", "is required: the algorithm that chooses parameters, such as tuner: {name: TPE}")
        return None
    tuner = _read(section, written, algorithms.find_tuner, findings, paths)
    assessor = None
    if document.assessor is not None:
        assessor = _read("assessor", document.assessor, algorithms.find_assessor, findings, paths)
        if assessor is None:
            return None
    if tuner is None or tuner.name is None:
        return None
    _check_types(tuner.name, search_space, document.search_space_file is not None, findings)
    seed = document.seed if document.seed is not None else tuner.class_args.get("seed")
    mode = algorithms.resolve_optimize_mode(tuner.name, tuner.class_args,
                                            assessor.name if assessor is not None else None,
                                            assessor.class_args if assessor is not None else None)
    return Algorithms(tuner, assessor, mode, seed)


def _read(section: str, written: AlgorithmDocument, find: Callable[[str], algorithms.Algorithm], findings: Findings,
          paths: LocalPaths) -> AlgorithmSettings | None:
    kind = "assessor" if section == "assessor" else "tuner"
    if written.class_name is not None or written.code_directory is not None:
        _check_own_class(section, written, findings, paths)
        return None
    if findings.has_error((section, "className")) or findings.has_error((section, "classFileName")):
        return None
    if not written.name:
        findings.add((section, "name"), f"is required: the name of a {kind}")
        return None
    try:
        algorithm = find(written.name)
        algorithms.check_class_args(algorithm, written.class_args)
    except InvalidInput as error:
        for problem in error.problems:
            path = (section, "classArgs") if problem.path.startswith("classArgs") else (section, "name")
            rest = problem.path.removeprefix("classArgs") if path[1] == "classArgs" else ""
            findings.add_text(findings.spelling(path) + rest, problem.message)
        return None
    return AlgorithmSettings(name=algorithm.name, class_args=written.class_args)


def _check_own_class(section: str, written: AlgorithmDocument, findings: Findings, paths: LocalPaths) -> None:
    """Say what is wrong with an algorithm of the user's own; at the least, that it cannot be run yet."""
    if written.name:
        findings.add((section, "name"), f"excludes {findings.spelling((section, 'className'))}: an algorithm is "
                     "either a built-in or a class of your own")
    elif not written.class_name:
        findings.add((section, "className"), "is required with "
                     f"{findings.spelling((section, 'codeDirectory'))}: the class to load, as module.Class")
    else:
        known = algorithms.ASSESSORS if section == "assessor" else algorithms.TUNERS
        findings.add((section, "className"), "algorithms of your own are not available in this version; use a "
                     f"built-in one: {', '.join(entry.name for entry in known)}")
    if written.code_directory is not None and (problem := paths.folder_problem(written.code_directory)):
        findings.add((section, "codeDirectory"), problem)


def _check_types(tuner: str, search_space: dict[str, Any], from_file: bool, findings: Findings) -> None:
    try:
        space = parse_search_space(search_space)
    except InvalidInput:
        return  # said where the search space is read
    for problem in algorithms.check_types(algorithms.find_tuner(tuner), space):
        if from_file:
            findings.add("searchSpaceFile", str(problem))
        else:
            findings.add_text(f"{findings.spelling('searchSpace')}.{problem.path}", problem.message)
