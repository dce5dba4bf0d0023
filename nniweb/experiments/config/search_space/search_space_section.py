"""The search space of a file, written inside it or in a file of its own, and its constraints."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nniweb.experiments.config.document import ExperimentDocument
from nniweb.experiments.config.errors import ConfigInvalid
from nniweb.experiments.config.findings import Findings
from nniweb.experiments.config.local_paths import LocalPaths
from nniweb.experiments.config.search_space.annotated_space import Places, read_annotated_space
from nniweb.experiments.config.settings import AlgorithmSettings
from nniweb.experiments.config.yaml_positions import LONGEST_TEXT, read_mapping, read_text
from nniweb.tuning import algorithms
from nniweb.tuning.constraints.constraint import read_constraints
from nniweb.tuning.constraints.contradictions import contradictions
from nniweb.tuning.registered_algorithms import find_registered
from nniweb.tuning.search_space.constraint_check import check_constraints, check_texts
from nniweb.tuning.search_space.parser import parse_search_space
from nniweb.tuning.search_space.problem import InvalidInput
from nniweb.tuning.search_space.uninterpreted_space import read_space
from trainingservice.files.unlinked_paths import read_file

#: What a file of its own holds, for sentences.
_WHAT = "the search space"
_CONSTRAINTS, _OUTCOMES = "constraints", "outcomeConstraints"


def read_search_space(document: ExperimentDocument, code_folder: Path | None, parts: Mapping[str, Path],
                      findings: Findings, paths: LocalPaths) -> tuple[dict[str, Any], Places]:
    """The search space as written, or as the annotations in the code make it, and then their places; {} after adding
    what is wrong. ``parts``: as ``code_tree`` has them.

    Beside a tuner of the user's own it may be absent, empty, and of types that only that tuner knows.
    """
    tuner = document.advisor or document.tuner
    is_own = tuner is not None and (tuner.class_name is not None or tuner.code_directory is not None
                                    or _is_registered(tuner.name))
    if document.use_annotation:
        found = read_annotated_space(document, code_folder, parts, findings, paths, is_own)
        return found.search_space, found.places
    return _as_written(document, findings, is_own), {}


def _as_written(document: ExperimentDocument, findings: Findings, is_own: bool) -> dict[str, Any]:
    if findings.has_error("searchSpace") or findings.has_error("searchSpaceFile"):
        return {}
    if document.search_space_file is not None:
        if document.search_space is not None:
            findings.note(f"{findings.spelling('searchSpace')}: not used, because "
                          f"{findings.spelling('searchSpaceFile')} is also given and takes precedence.")
        return _from_file(document.search_space_file, findings, is_own)
    if document.search_space is None:
        if is_own:
            return {}
        field = findings.spelling("searchSpaceFile")
        other = "" if field == "searchSpacePath" else " (or searchSpaceFile, the path of a file with it)"
        findings.add("searchSpaceFile" if field == "searchSpacePath" else "searchSpace",
                     f"is required{other}; it describes the parameters to search")
        return {}
    try:
        read_space(document.search_space, is_uninterpreted=is_own)
    except InvalidInput as error:
        for problem in error.problems:
            dot = "." if problem.path else ""
            findings.add_text(f"{findings.spelling('searchSpace')}{dot}{problem.path}", problem.message)
    return document.search_space


def _is_registered(tuner: str | None) -> bool:
    try:
        return tuner is not None and find_registered("tuner", tuner) is not None
    except InvalidInput:  # said where the tuner is read
        return False


def _from_file(path: Path, findings: Findings, is_own: bool) -> dict[str, Any]:
    field = "searchSpaceFile"
    if message := LocalPaths(None).file_problem(path):
        findings.add(field, message)
        return {}
    try:
        text = read_file(path, 4 * LONGEST_TEXT).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        findings.add(field, f"{path} cannot be read: {reason}")
        return {}
    try:
        space = _parse(text)
        read_space(space, is_uninterpreted=is_own)
    except ConfigInvalid as invalid:
        for found in invalid.errors:
            findings.add(field, f"in {path.name}: {found}")
        return {}
    except InvalidInput as error:
        for problem in error.problems:
            findings.add(field, f"in {path.name}: {problem}")
    return space


def _parse(text: str) -> dict[str, Any]:
    """JSON first, as NNI does (tabs, ``1e-3``), then YAML."""
    try:
        return read_mapping(json.loads(text), _WHAT).data
    except (ValueError, RecursionError):
        return read_text(text, _WHAT).data


def check_constraints_of(document: ExperimentDocument, search_space: Mapping[str, Any],
                         tuner: AlgorithmSettings | None, findings: Findings) -> None:
    """Add what is wrong with the file's constraints, and notes about them. ``search_space`` {}: it is not known (yet),
    or has an error of its own.
    """
    for field, texts in ((_CONSTRAINTS, document.constraints), (_OUTCOMES, document.outcome_constraints)):
        for place, problem in check_texts(texts)[1]:
            findings.add((field, place or 0), problem)
    if not findings.has_error(_OUTCOMES):
        for place, problem in contradictions(read_constraints(document.outcome_constraints)):
            findings.add((_OUTCOMES, place), problem)
    if document.outcome_constraints and document.multi_phase:
        findings.add(_OUTCOMES, f"excludes {findings.spelling('multiPhase')}: the result of a parameter set is "
                                "one number")
    if not document.constraints or findings.has_error(_CONSTRAINTS) or tuner is None:
        return
    if tuner.name is None:
        if document.multi_phase:
            findings.add(_CONSTRAINTS, f"excludes {findings.spelling('multiPhase')} with a custom tuner: a further "
                                       "parameter set for a running trial cannot be refused")
        return
    try:
        space = parse_search_space(dict(search_space))
    except InvalidInput:
        return
    is_list = algorithms.find_tuner(tuner.name).takes_a_list
    check = check_constraints(document.constraints, space, is_list=is_list)
    for at, problem in check.problems if search_space else ():
        findings.add(_CONSTRAINTS if at is None else (_CONSTRAINTS, at), problem)
    for note in check.notes:
        findings.note(note.replace(_CONSTRAINTS, findings.spelling(_CONSTRAINTS), 1))
