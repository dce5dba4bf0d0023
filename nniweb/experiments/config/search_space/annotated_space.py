"""The search space of a file with ``useAnnotation: true``: it is made from the annotations in the trials' code."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from nniweb.annotation.annotated_folder import read_annotations
from nniweb.annotation.reading_process import AnnotationsInvalid, FileProblem, RewrittenFiles
from nniweb.experiments.config.document import ExperimentDocument
from nniweb.experiments.config.findings import Findings
from nniweb.experiments.config.local_paths import LocalPaths
from nniweb.tuning import algorithms
from nniweb.tuning.search_space.parser import parse_search_space
from nniweb.tuning.search_space.problem import InvalidInput, Problem
from nniweb.tuning.search_space.uninterpreted_space import read_space
from trainingservice.errors import TrainingServiceError

FIELD = "useAnnotation"
NOTHING = RewrittenFiles({}, {}, {})
#: Parameters that a note names.
MOST_LISTED = 20
#: Parameter -> file and line of its annotation.
Places = Mapping[str, tuple[str, int]]


def read_annotated_space(document: ExperimentDocument, folder: Path | None, parts: Mapping[str, Path],
                         findings: Findings, paths: LocalPaths, is_own: bool) -> RewrittenFiles:
    """The generated search space, with the places of its parameters; an empty one after adding what is wrong, and where
    the code comes later.

    ``parts``: as ``code_tree`` has them. ``is_own``: for a tuner of the user's own.
    """
    for field, value in (("searchSpace", document.search_space), ("searchSpaceFile", document.search_space_file)):
        if value is not None:
            findings.add(field, f"must be left out with {findings.spelling(FIELD)}: true, which makes the search space "
                                "from the annotations in the code")
    if any(map(findings.has_error, ("searchSpace", "searchSpaceFile", "trialCodeDirectory"))):
        return NOTHING
    if folder is None:
        findings.add(FIELD, f"needs the code; name its folder in {findings.spelling('trialCodeDirectory')}, or send "
                            "the code with the config")
        return NOTHING
    if not paths.must_exist:
        findings.note(f"{findings.spelling(FIELD)}: the search space is made when the code has been fetched.")
        return NOTHING
    try:
        found = read_annotations(folder, parts)
        check_space(found, is_own)
    except AnnotationsInvalid as invalid:
        for problem in invalid.problems:
            findings.add(FIELD, str(problem))
        return NOTHING
    except TrainingServiceError as error:
        findings.add("trialCodeDirectory", str(error))
        return NOTHING
    names = list(found.search_space)
    listed = ", ".join(names[:MOST_LISTED]) + (" ..." if len(names) > MOST_LISTED else "")
    findings.note(f"{findings.spelling(FIELD)}: the annotations give {len(names)} parameter"
                  f"{'' if len(names) == 1 else 's'}: {listed}. Each trial gets its own copy of the code.")
    return found


def check_space(found: RewrittenFiles, is_own: bool) -> None:
    """Raises AnnotationsInvalid where the annotations make a search space that cannot be used."""
    try:
        read_space(found.search_space, is_uninterpreted=is_own)
    except InvalidInput as error:
        raise AnnotationsInvalid([at_annotation(problem, found.places) for problem in error.problems]) from None


def check_space_for(found: RewrittenFiles, tuner: str) -> None:
    """Raises AnnotationsInvalid where the built-in tuner of this name does not know a parameter's type."""
    problems = algorithms.check_types(algorithms.find_tuner(tuner), parse_search_space(found.search_space),
                                      by_name=True)
    if problems:
        raise AnnotationsInvalid([at_annotation(problem, found.places) for problem in problems])


def at_annotation(problem: Problem, places: Places) -> FileProblem:
    """What is wrong with a parameter of a generated search space, at the annotation that it is from."""
    key = max((key for key in places if problem.path.startswith(key)), key=len, default="")
    file, line = places.get(key, ("", 0))
    rest = problem.path[len(key):]
    return FileProblem(file, line, f"{key}{rest}: {problem.message}" if problem.path else problem.message)
