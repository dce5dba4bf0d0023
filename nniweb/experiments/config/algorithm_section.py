"""The tuner and the assessor of a file, checked against the algorithms there are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from nniweb.experiments.config.document import AlgorithmDocument, ExperimentDocument, TunerDocument
from nniweb.experiments.config.findings import Findings
from nniweb.experiments.config.local_paths import LocalPaths
from nniweb.experiments.config.search_space.annotated_space import FIELD, Places, at_annotation
from nniweb.experiments.config.settings import AlgorithmSettings
from nniweb.tuning import algorithms
from nniweb.tuning.custom_algorithms.parameter_requests import gives_one_set_only, one_set_only
from nniweb.tuning.registered_algorithms import RegisteredAlgorithm, find_registered
from nniweb.tuning.search_space.parser import parse_search_space
from nniweb.tuning.search_space.problem import InvalidInput
from trainingservice.words.shown_value import shown


@dataclass(frozen=True)
class Algorithms:
    """What the file says about algorithms, all of it valid together."""

    tuner: AlgorithmSettings
    assessor: AlgorithmSettings | None
    optimize_mode: Literal["minimize", "maximize"]
    seed: int | None


def read_algorithms(document: ExperimentDocument, search_space: dict[str, Any], annotations: Places,
                    findings: Findings, paths: LocalPaths, *, needs_tuner: bool) -> Algorithms | None:
    """The algorithms, or None after adding what is wrong. ``annotations``: where the search space is from, if there.
    ``needs_tuner``: a file that names none is refused, as by NNI, and does not get Auto.
    """
    section, written = "tuner", document.tuner
    if document.advisor is not None:
        if document.tuner is not None:
            findings.add("advisor", f"cannot be given together with {findings.spelling('tuner')}; leave one of them "
                                    "out")
            return None
        section, written = "advisor", document.advisor
    is_default = written is None
    if written is None:
        if findings.has_error("tuner") or findings.has_error("advisor"):
            return None
        if needs_tuner:
            findings.add("tuner", "is required: the algorithm that chooses parameters, such as tuner: {name: TPE}")
            return None
        written = TunerDocument(name=algorithms.AUTO)
    tuner = _read(section, written, algorithms.find_tuner, findings, paths)
    assessor = None
    if document.assessor is not None:
        assessor = _read("assessor", document.assessor, algorithms.find_assessor, findings, paths)
        if assessor is None:
            return None
    if tuner is None:
        return None
    if tuner.name is not None:
        _check_types(tuner.name, search_space, annotations, document, findings)
        for problem in algorithms.check_objectives(algorithms.find_tuner(tuner.name), len(document.objectives)):
            findings.add((section, problem.path), problem.message)
    _check_objectives(document, section, tuner, findings)
    if document.multi_phase:
        _check_multi_phase(document, section, tuner, findings, paths)
    _check_replicates(document, section, tuner, findings)
    seed = document.seed if document.seed is not None else tuner.class_args.get("seed")
    mode = document.objectives[0].optimize_mode if document.objectives else _optimize_mode(tuner, assessor)
    if is_default:
        findings.note(f"{findings.spelling('tuner')}: not given, so {algorithms.AUTO} chooses the parameters, and the "
                      f"result is to be {mode}d.")
    if tuner.name == algorithms.AUTO and assessor is not None:
        assessor = _with_own_default(assessor, findings)
    return Algorithms(tuner, assessor, mode, _storable(seed) if isinstance(seed, int) else None)


def _with_own_default(assessor: AlgorithmSettings, findings: Findings) -> AlgorithmSettings:
    """The assessor of a file that NNI cannot have written: its Medianstop judges no trial from the first result on."""
    if assessor.name != "Medianstop" or "start_step" in assessor.class_args:
        return assessor
    findings.note(f"{findings.spelling(('assessor', 'classArgs'))}: start_step is not given, so it is auto: trials "
                  "are judged after half as many results as the longest successful trial has.")
    return assessor.model_copy(update={"class_args": {**assessor.class_args, "start_step": "auto"}})


def replicates_of(document: ExperimentDocument) -> dict[str, Any]:
    """What the file says about replicates, with their number; {} where it has none."""
    written = document.replicates
    if written is None or isinstance(written, int):
        return {} if written is None else {"n": written}
    count = written.n if written.n is not None else len(written.seeds or ())
    return {"n": count, **written.model_dump(exclude_defaults=True, exclude={"n"})}


def _storable(seed: int) -> int:
    """The seed, or where it is an own class's and too large for a column of the database, one that follows from it."""
    return seed if -2**63 <= seed < 2**63 else seed % 2**63


def _check_replicates(document: ExperimentDocument, section: str, tuner: AlgorithmSettings, findings: Findings
                      ) -> None:
    """Several trials of one proposal: not with everything that a trial may be."""
    replicates = replicates_of(document)
    if not replicates:
        return
    seeds = replicates.get("seeds")
    if not replicates["n"]:
        findings.add(("replicates", "n"), "is required where there are no seeds: the number of trials of each proposal")
    elif seeds is not None and len(seeds) != replicates["n"]:
        findings.add(("replicates", "seeds"), f"must have one seed for each of the {replicates['n']} replicates, not "
                                              f"{len(seeds)}")
    if seeds is not None and len(set(seeds)) < len(seeds):
        findings.add(("replicates", "seeds"), "has the same seed twice: two equal trials do not show any spread")
    if replicates["n"] < 2:
        return
    if document.max_trial_number is not None and document.max_trial_number < replicates["n"]:
        limit = findings.spelling("maxTrialNumber")
        findings.add("replicates", f"{limit} is {document.max_trial_number}, so not even one proposal gets its "
                                   f"{replicates['n']} trials. Set {limit} to {replicates['n']} or more, or use fewer "
                                   "replicates")
    if document.multi_phase:
        findings.add("replicates", "excludes multiPhase: a trial with several parameter sets has no single result to "
                                   "repeat")
    if document.outcome_constraints:
        findings.add("replicates", f"excludes {findings.spelling('outcomeConstraints')}: a constraint on outcomes "
                                   "judges the result of one trial, and proposals are compared by their mean; leave "
                                   "one of them out")
    if len(document.objectives) > 1:
        findings.add("replicates", f"excludes several {findings.spelling('objectives')}: proposals are compared by the "
                                   "mean of one result; name one metric")
    if tuner.name is not None:
        for problem in algorithms.check_replicates(algorithms.find_tuner(tuner.name)):
            findings.add((section, problem.path), problem.message)


def _check_multi_phase(document: ExperimentDocument, section: str, tuner: AlgorithmSettings, findings: Findings,
                       paths: LocalPaths) -> None:
    """Further parameter sets for a running trial: not every tuner gives them."""
    if tuner.name is not None:
        for problem in algorithms.check_multi_phase(algorithms.find_tuner(tuner.name)):
            findings.add((section, problem.path), problem.message)
    elif tuner.class_name is not None and tuner.code_directory is not None and paths.must_exist \
            and gives_one_set_only(tuner.code_directory, tuner.class_name):
        findings.add((section, "className"), one_set_only(tuner.class_name))
    if len(document.objectives) > 1:
        findings.add("multiPhase", f"excludes several {findings.spelling('objectives')}: the result of a parameter set "
                     "is one number")


def _check_objectives(document: ExperimentDocument, section: str, tuner: AlgorithmSettings, findings: Findings) -> None:
    objectives = document.objectives
    for place, one in enumerate(objectives):
        if one.metric in [other.metric for other in objectives[:place]]:
            findings.add("objectives", f"names the metric {one.metric} twice")
            return
    given = tuner.class_args.get("optimize_mode") if tuner.name is not None else None
    if objectives and isinstance(given, str) and given != objectives[0].optimize_mode:
        findings.add((section, "classArgs"), f"says optimize_mode: {given}, and {findings.spelling('objectives')} says "
                                             f"{objectives[0].optimize_mode} for the main metric "
                                             f"{objectives[0].metric}; leave one of them out")
    failed = document.failed_trials
    if len(objectives) > 1 and failed is not None and isinstance(failed.tell_tuner, float):
        findings.add("failedTrials", f"has one number for tellTuner, and there are {len(objectives)} objectives; give "
                                     "worst (the worst result so far of each objective) or leave tellTuner out")


def _optimize_mode(tuner: AlgorithmSettings, assessor: AlgorithmSettings | None) -> Literal["minimize", "maximize"]:
    """An own class says it with an argument optimize_mode, if at all."""
    if tuner.name is None:
        given = tuner.class_args.get("optimize_mode")
        return "minimize" if given == "minimize" else "maximize"
    own = assessor is None or assessor.name is None
    return algorithms.resolve_optimize_mode(tuner.name, tuner.class_args,
                                            None if own or assessor is None else assessor.name,
                                            None if own or assessor is None else assessor.class_args)


def _read(section: str, written: AlgorithmDocument, find: Callable[[str], algorithms.Algorithm], findings: Findings,
          paths: LocalPaths) -> AlgorithmSettings | None:
    kind = "assessor" if section == "assessor" else "tuner"
    if written.class_name is not None or written.code_directory is not None:
        return _own_class(section, written, findings, paths)
    if findings.has_error((section, "className")) or findings.has_error((section, "classFileName")):
        return None
    if not written.name:
        findings.add((section, "name"), f"is required: the name of {'an' if kind == 'assessor' else 'a'} {kind}")
        return None
    try:
        if (registered := find_registered("assessor" if section == "assessor" else "tuner", written.name)) is not None:
            return _registered(registered, written)
        algorithm = find(written.name)
        algorithms.check_class_args(algorithm, written.class_args)
    except InvalidInput as error:
        for problem in error.problems:
            path = (section, "classArgs") if problem.path.startswith("classArgs") else (section, "name")
            rest = problem.path.removeprefix("classArgs") if path[1] == "classArgs" else ""
            findings.add_text(findings.spelling(path) + rest, problem.message)
        return None
    if _multi_thread(written):
        findings.note(f"{findings.spelling((section, 'multiThread'))}: has no effect on a built-in tuner.")
    return AlgorithmSettings(name=algorithm.name, class_args=written.class_args,
                             include_intermediate_results=_includes_intermediates(written))


def _includes_intermediates(written: AlgorithmDocument) -> Literal[True] | None:
    return True if isinstance(written, TunerDocument) and written.include_intermediate_results else None


def _registered(registered: RegisteredAlgorithm, written: AlgorithmDocument) -> AlgorithmSettings:
    return AlgorithmSettings(
        class_name=registered.class_name, registered_as=registered.name, validator=registered.validator,
        class_args={**registered.class_args, **written.class_args}, multi_thread=_multi_thread(written),
        include_intermediate_results=_includes_intermediates(written))


def _multi_thread(written: AlgorithmDocument) -> bool | None:
    return getattr(written, "multi_thread", False) or None


def _own_class(section: str, written: AlgorithmDocument, findings: Findings, paths: LocalPaths
               ) -> AlgorithmSettings | None:
    """An algorithm that the user wrote. Its module is not imported here: that is for its own process."""
    if written.name:
        other = "codeDirectory" if written.class_name is None else "className"
        findings.add((section, "name"), f"cannot be given together with {findings.spelling((section, other))}: "
                                        "an algorithm is either built in or a custom class")
    elif not written.class_name:
        findings.add((section, "className"), f"is required with {findings.spelling((section, 'codeDirectory'))}; give "
                                             "the class to load as module.Class")
    elif not all(part.isidentifier() for part in written.class_name.split(".")) or "." not in written.class_name:
        findings.add((section, "className"), "must be a module and a class in it, such as my_tuner.MyTuner, not "
                     f"{shown(written.class_name)}")
    elif written.code_directory is not None and (problem := _folder_problem(written, written.code_directory, paths)):
        findings.add((section, "codeDirectory"), problem)
    else:
        return AlgorithmSettings(class_name=written.class_name, code_directory=written.code_directory,
                                 class_args=written.class_args,
                                 multi_thread=_multi_thread(written),
                                 include_intermediate_results=_includes_intermediates(written))
    return None


def _folder_problem(written: AlgorithmDocument, folder: Path, paths: LocalPaths) -> str:
    """Why the module cannot be in the folder, "" where it is."""
    assert written.class_name is not None
    if problem := paths.folder_problem(folder):
        return problem
    module = folder.joinpath(*written.class_name.split(".")[:-1])
    is_there = module.with_suffix(".py").is_file() or module.is_dir()
    return "" if is_there or not paths.must_exist else f"there is no module {module.name}.py in {module.parent}"


def _check_types(tuner: str, search_space: dict[str, Any], annotations: Places, document: ExperimentDocument,
                 findings: Findings) -> None:
    try:
        space = parse_search_space(search_space)
    except InvalidInput:
        return  # said where the search space is read
    for problem in algorithms.check_types(algorithms.find_tuner(tuner), space, by_name=document.use_annotation):
        if document.use_annotation:
            findings.add(FIELD, str(at_annotation(problem, annotations)))
        elif document.search_space_file is not None:
            findings.add("searchSpaceFile", str(problem))
        else:
            findings.add_text(f"{findings.spelling('searchSpace')}.{problem.path}", problem.message)
