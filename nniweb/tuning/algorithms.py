"""The tuners and assessors there are: NNI's names, their class arguments, and which parameter types they take.

The web process validates with this module, so importing it loads no algorithm: each is named by its module, whose
``build`` function is called in the tuner process. A further algorithm is one entry in TUNERS or ASSESSORS, its class
arguments, and its module.
"""

import importlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from pydantic import ValidationError

from nniweb.process.absent_library import as_if_absent
from nniweb.tuning.class_args import (
    AshaArgs,
    AutoArgs,
    BatchArgs,
    BohbArgs,
    ClassArgs,
    CurvefittingArgs,
    DngoArgs,
    EvolutionArgs,
    GpArgs,
    GridSearchArgs,
    HyperbandArgs,
    HyperoptArgs,
    MedianstopArgs,
    MetisArgs,
    Nsga2Args,
    OptimizeMode,
    PbtArgs,
    PercentileArgs,
    RandomArgs,
    SmacArgs,
    SuccessiveHalvingArgs,
    TpeArgs,
    WilcoxonArgs,
)
from nniweb.tuning.packages import not_installed
from nniweb.tuning.search_space.parameter_list import list_problems
from nniweb.tuning.search_space.parser import ALL_TYPES
from nniweb.tuning.search_space.problem import InvalidInput, Problem, did_you_mean
from nniweb.tuning.search_space.space import NestedChoice, Parameter, SearchSpace
from trainingservice.refused_values import sentence

if TYPE_CHECKING:
    from nniweb.tuning.assessors.assessor import Assessor
    from nniweb.tuning.tuner_base.tuner import Tuner


@dataclass(frozen=True)
class Algorithm:
    """``module`` has ``build(...)``; ``types`` are the parameter types it takes, ``nests`` whether nested choices too.

    ``default_optimize_mode`` None: the direction means nothing to it. ``takes_a_list``: the space is a list of
    parameter sets. ``needs``: modules of packages that are not always installed (requirements/tuners.txt has them).
    ``shares_checkpoints``: trials go on from each other's, in the folder of the argument ``all_checkpoint_dir``.
    ``continues_trials``: it proposes trials that go on with earlier ones (``Tuner.continues``).
    ``takes_results``: results that it did not propose itself mean something to it. ``several_objectives``: it can
    search by more than one; its module then has ``build_for_objectives``, unless results mean nothing to it.
    ``takes_replicates``: a proposal may be run several times and the mean of the results told.
    ``multi_phase``: it can give a running trial further parameter sets, as NNI's tuner of this name can.
    """

    name: str
    module: str
    class_args: type[ClassArgs]
    default_optimize_mode: OptimizeMode | None
    aliases: tuple[str, ...] = ()
    types: frozenset[str] = frozenset(ALL_TYPES)
    nests: bool = True
    takes_a_list: bool = False
    needs: tuple[str, ...] = ()
    shares_checkpoints: bool = False
    continues_trials: bool = False
    takes_results: bool = True
    several_objectives: bool = False
    takes_replicates: bool = True
    multi_phase: bool = False


#: The tuner that chooses among the others; in our own form of files the one that is meant where none is named.
AUTO = "Auto"
#: The one that proposes nothing: a program outside of the server does.
EXTERNAL = "External"

_SKLEARN = ("sklearn",)

TUNERS = (
    Algorithm(AUTO, "nniweb.tuning.tuners.auto", AutoArgs, "maximize", several_objectives=True, multi_phase=True),
    Algorithm("TPE", "nniweb.tuning.tuners.tpe", TpeArgs, "minimize", aliases=("TPE_legacy",),
              several_objectives=True, multi_phase=True),
    Algorithm("NSGAII", "nniweb.tuning.tuners.nsga2", Nsga2Args, "minimize", aliases=("NSGA-II", "NSGA2"),
              several_objectives=True),
    Algorithm("Random", "nniweb.tuning.tuners.random_search", RandomArgs, None, several_objectives=True,
              multi_phase=True),
    Algorithm("GridSearch", "nniweb.tuning.tuners.grid_search", GridSearchArgs, None, several_objectives=True,
              multi_phase=True),
    Algorithm("Anneal", "nniweb.tuning.tuners.anneal", HyperoptArgs, "minimize", multi_phase=True),
    Algorithm("Evolution", "nniweb.tuning.tuners.evolution", EvolutionArgs, "maximize", multi_phase=True),
    Algorithm("BatchTuner", "nniweb.tuning.tuners.batch", BatchArgs, None, aliases=("Batch",), takes_a_list=True,
              several_objectives=True, multi_phase=True),
    Algorithm("SMAC", "nniweb.tuning.tuners.smac", SmacArgs, "maximize", needs=_SKLEARN, multi_phase=True),
    Algorithm("GP", "nniweb.tuning.tuners.gaussian_process", GpArgs, "maximize", aliases=("GPTuner",), needs=_SKLEARN),
    Algorithm("Metis", "nniweb.tuning.tuners.metis", MetisArgs, "maximize", aliases=("MetisTuner",), needs=_SKLEARN,
              multi_phase=True),
    Algorithm("DNGO", "nniweb.tuning.tuners.dngo", DngoArgs, "maximize", aliases=("DNGOTuner",), needs=_SKLEARN),
    Algorithm("Hyperband", "nniweb.tuning.tuners.hyperband", HyperbandArgs, "maximize", continues_trials=True,
              takes_results=False, takes_replicates=False, multi_phase=True),
    Algorithm("BOHB", "nniweb.tuning.tuners.bohb", BohbArgs, "maximize", continues_trials=True, takes_replicates=False,
              multi_phase=True),
    Algorithm("ASHA", "nniweb.tuning.tuners.asha", AshaArgs, "maximize", continues_trials=True, takes_results=False,
              takes_replicates=False),
    Algorithm("PBT", "nniweb.tuning.tuners.population_training", PbtArgs, "maximize", aliases=("PBTTuner",),
              shares_checkpoints=True, continues_trials=True, takes_results=False, takes_replicates=False),
    Algorithm(EXTERNAL, "nniweb.tuning.tuners.external", ClassArgs, None, several_objectives=True),
)
ASSESSORS = (
    Algorithm("Medianstop", "nniweb.tuning.assessors.medianstop", MedianstopArgs, "maximize"),
    Algorithm("Curvefitting", "nniweb.tuning.assessors.curvefitting", CurvefittingArgs, "maximize", needs=("scipy",)),
    Algorithm("Percentile", "nniweb.tuning.assessors.optuna_assessors", PercentileArgs, "maximize"),
    Algorithm("SuccessiveHalving", "nniweb.tuning.assessors.optuna_assessors", SuccessiveHalvingArgs, "maximize"),
    Algorithm("Wilcoxon", "nniweb.tuning.assessors.optuna_assessors", WilcoxonArgs, "maximize", needs=("scipy",)),
)

# Names an NNI user may bring, so that the answer is not "unknown".
_ARCHITECTURE_SEARCH = ("it searches network architectures, which is not supported; use TPE or Evolution to search "
                        "parameters")
_NOT_HERE = {
    "PPOTuner": _ARCHITECTURE_SEARCH,
    "PPO": _ARCHITECTURE_SEARCH,
    "RegularizedEvolutionTuner": _ARCHITECTURE_SEARCH,
    "NetworkMorphism": _ARCHITECTURE_SEARCH,
}


def find_tuner(name: str) -> Algorithm:
    """The tuner of this name or alias, in any case. Raises InvalidInput (path ``name``)."""
    return _find("tuner", TUNERS, name)


def find_assessor(name: str) -> Algorithm:
    """The assessor of this name, in any case. Raises InvalidInput (path ``name``)."""
    return _find("assessor", ASSESSORS, name)


def check_class_args(algorithm: Algorithm, class_args: Mapping[str, Any] | None) -> ClassArgs:
    """An instance of ``algorithm.class_args``. Raises InvalidInput (paths ``classArgs.<name>``)."""
    try:
        return algorithm.class_args.model_validate(dict(class_args or {}))
    except ValidationError as error:
        raise InvalidInput(_argument_problems(algorithm, error)) from None


def check_types(algorithm: Algorithm, space: SearchSpace, *, by_name: bool = False) -> list[Problem]:
    """The parameters of the space that this tuner cannot search. ``by_name``: trials look their values up by name, as
    annotated code does.
    """
    if algorithm.takes_a_list:
        return list_problems(space, by_name=by_name)
    problems = []
    for path, parameter in _all_parameters(space, ""):
        type_name = parameter.type_name
        if type_name not in algorithm.types:
            known = ", ".join(name for name in ALL_TYPES if name in algorithm.types)
            problems.append(Problem(path, f"{algorithm.name} cannot search the type {type_name}; it takes {known}"))
        elif isinstance(parameter, NestedChoice) and not algorithm.nests:
            problems.append(Problem(path, f"{algorithm.name} cannot search nested choices"))
    return problems


def resolve_optimize_mode(
    tuner_name: str,
    tuner_args: Mapping[str, Any] | None,
    assessor_name: str | None = None,
    assessor_args: Mapping[str, Any] | None = None,
) -> OptimizeMode:
    """The experiment's one direction: what the tuner's arguments say, else the assessor's, else the tuner's default;
    where none says anything, maximize (as NNI's page sorts). An assessor with an ``optimize_mode`` of its own keeps
    that for itself. Raises InvalidInput.
    """
    tuner = find_tuner(tuner_name)
    given = check_class_args(tuner, tuner_args).optimize_mode
    if given is None and assessor_name is not None:
        given = check_class_args(find_assessor(assessor_name), assessor_args).optimize_mode
    return given or tuner.default_optimize_mode or "maximize"


def build_tuner(
    name: str, class_args: Mapping[str, Any] | None, space: SearchSpace, optimize_mode: str, seed: int,
    modes: Sequence[str] = (),
) -> "Tuner":
    """Load and make a tuner (the tuner process does). A seed in its arguments goes before ``seed``. ``modes``: those
    of several objectives, in their order.

    Raises InvalidInput.
    """
    algorithm = find_tuner(name)
    args = check_class_args(algorithm, class_args)
    problems = check_types(algorithm, space)
    if problems:
        raise InvalidInput(problems)
    own_seed = getattr(args, "seed", None)
    with as_if_absent("redis"):  # Optuna loads it for storages that are not used here: two thirds of its own time
        module = importlib.import_module(algorithm.module)
    seed = seed if own_seed is None else own_seed
    if len(modes) > 1 and algorithm.default_optimize_mode is not None:
        return cast("Tuner", module.build_for_objectives(space, seed, modes, args))
    tuner = module.build(space, seed, args.optimize_mode or optimize_mode, args)
    return cast("Tuner", tuner)


def check_objectives(algorithm: Algorithm, count: int) -> list[Problem]:
    """What keeps this tuner from searching by so many objectives."""
    if count < 2 or algorithm.several_objectives:
        return []
    able = [entry.name for entry in TUNERS if entry.several_objectives]
    return [Problem("name", f"{algorithm.name} supports one objective, but there are {count}. {', '.join(able[:-1])} "
                            f"and {able[-1]} support several")]


def check_multi_phase(algorithm: Algorithm) -> list[Problem]:
    """What keeps this tuner from giving running trials further parameter sets."""
    if algorithm.multi_phase:
        return []
    able = [entry.name for entry in TUNERS if entry.multi_phase]
    return [Problem("name", f"{algorithm.name} gives a trial one parameter set, and multiPhase asks for more. For that "
                            f"there are {', '.join(able[:-1])} and {able[-1]}")]


def check_replicates(algorithm: Algorithm) -> list[Problem]:
    """What keeps its proposals from being run several times each."""
    if algorithm.takes_replicates:
        return []
    return [Problem("name", f"{algorithm.name} cannot be used with replicates: it chooses by itself how long each "
                            "trial runs and which ones go on, so several trials of one proposal have no common mean. "
                            "Use TPE, GP or another tuner, or remove replicates")]


def start_points_problem(algorithm: Algorithm) -> str:
    """What keeps points that a person gives from being its first proposals, "" where nothing does."""
    if algorithm.name == EXTERNAL:
        return f"cannot be used with {EXTERNAL}: the program outside of the server proposes all points"
    if algorithm.takes_replicates:
        return ""
    return (f"cannot be used with {algorithm.name}: it chooses by itself how long each trial runs and which ones go "
            "on, so a point alone is no proposal of it. Use TPE, GP or another tuner, or remove the points")


def start_from_problem(algorithm: Algorithm) -> str:
    """What keeps results of earlier experiments from leading it, "" where nothing does."""
    if why_not := start_points_problem(algorithm):
        return why_not.replace("remove the points", "remove them").replace("a point alone", "a result alone")
    if algorithm.default_optimize_mode is None or not algorithm.takes_results:
        return f"cannot be used with {algorithm.name}, which does not learn from results. Use TPE, GP or another tuner"
    return ""


def build_assessor(name: str, class_args: Mapping[str, Any] | None, optimize_mode: str) -> "Assessor":
    """Load and make an assessor; its own ``optimize_mode``, where given, goes before the experiment's.

    Raises InvalidInput.
    """
    algorithm = find_assessor(name)
    args = check_class_args(algorithm, class_args)
    module = importlib.import_module(algorithm.module)
    return cast("Assessor", module.build(args.optimize_mode or optimize_mode, args))


def _find(kind: str, algorithms: Iterable[Algorithm], name: str) -> Algorithm:
    by_name = {spelling.lower(): entry for entry in algorithms for spelling in (entry.name, *entry.aliases)}
    found = by_name.get(str(name).lower())
    if found is not None:
        missing = not_installed(found.needs)
        if missing:
            raise InvalidInput([Problem("name", f"{found.name} needs packages that are not installed on this server "
                                        f"({', '.join(missing)}). Install them with: python -m pip install "
                                        "'nniweb[tuners]' (in a checkout: -r requirements/tuners.txt), and start the "
                                        "server again")])  # fmt: skip
        return found
    available = ", ".join(entry.name for entry in algorithms)
    reason = {known.lower(): why for known, why in _NOT_HERE.items()}.get(str(name).lower())
    if reason is not None:
        message = f'NNI\'s "{name}" is not available: {reason}.'
    else:
        message = f'there is no {kind} named "{name}".{did_you_mean(str(name), [entry.name for entry in algorithms])}'
        article = "An" if kind == "assessor" else "A"
        available += (f". {article} {kind} of your own must be registered on the server (algo register, see "
                      "docs/tuners.md)")
    raise InvalidInput([Problem("name", f"{message} Available: {available}")])


def _argument_problems(algorithm: Algorithm, error: ValidationError) -> list[Problem]:
    problems = []
    for detail in error.errors(include_url=False):
        path = ".".join(["classArgs", *(str(part) for part in detail["loc"])])
        if detail["type"] == "extra_forbidden":
            known = _argument_names(algorithm, detail["loc"][:-1])
            hint = did_you_mean(str(detail["loc"][-1]), known)
            message = f"{algorithm.name} has no such argument.{hint} It takes {', '.join(known)}"
        else:
            message = sentence(detail)
        problems.append(Problem(path, message))
    return problems


def _argument_names(algorithm: Algorithm, parents: tuple[int | str, ...]) -> list[str]:
    """The names that are known where an unknown one stood; ``parents`` leads to a nested model or is empty."""
    fields = algorithm.class_args.model_fields
    for parent in parents:
        for inner in getattr(fields[str(parent)].annotation, "__args__", ()):
            if hasattr(inner, "model_fields"):
                fields = inner.model_fields
    return list(fields)


def _all_parameters(space: SearchSpace, prefix: str) -> Iterator[tuple[str, Parameter]]:
    for name, parameter in space.parameters.items():
        yield f"{prefix}{name}", parameter
        if isinstance(parameter, NestedChoice):
            for index, option in enumerate(parameter.options):
                yield from _all_parameters(option.space, f"{prefix}{name}._value[{index}].")
