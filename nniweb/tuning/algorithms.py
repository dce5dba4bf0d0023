"""The tuners and assessors there are: NNI's names, their class arguments, and which parameter types they take.

The web process validates with this module, so importing it loads no algorithm: each is named by its module, whose
``build`` function is called in the tuner process. A further algorithm is one entry in TUNERS or ASSESSORS, its class
arguments, and its module.
"""

import importlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from pydantic import ValidationError

from nniweb.tuning.class_args import ClassArgs, GridSearchArgs, MedianstopArgs, OptimizeMode, RandomArgs, TpeArgs
from nniweb.tuning.problem import InvalidInput, Problem, did_you_mean
from nniweb.tuning.search_space import NestedChoice, Parameter, SearchSpace
from nniweb.tuning.search_space_parser import ALL_TYPES

if TYPE_CHECKING:
    from nniweb.tuning.assessor import Assessor
    from nniweb.tuning.tuner import Tuner


@dataclass(frozen=True)
class Algorithm:
    """``module`` has ``build(...)``; ``types`` are the parameter types it takes, ``nests`` whether nested choices too.

    ``default_optimize_mode`` None: the direction means nothing to it.
    """

    name: str
    module: str
    class_args: type[ClassArgs]
    default_optimize_mode: OptimizeMode | None
    aliases: tuple[str, ...] = ()
    types: frozenset[str] = frozenset(ALL_TYPES)
    nests: bool = True


TUNERS = (
    Algorithm("TPE", "nniweb.tuning.tpe", TpeArgs, "minimize", aliases=("TPE_legacy",)),
    Algorithm("Random", "nniweb.tuning.random_search", RandomArgs, None),
    Algorithm("GridSearch", "nniweb.tuning.grid_search", GridSearchArgs, None),
)
ASSESSORS = (Algorithm("Medianstop", "nniweb.tuning.medianstop", MedianstopArgs, "maximize"),)

# Names an NNI user may bring, so that the answer is not "unknown".
_NOT_HERE = (
    "Anneal", "Evolution", "RegularizedEvolutionTuner", "BatchTuner", "Batch", "NetworkMorphism", "MetisTuner", "Metis",
    "GPTuner", "GP", "PBTTuner", "PBT", "SMAC", "PPOTuner", "PPO", "DNGO", "DNGOTuner", "Hyperband", "BOHB",
    "Curvefitting",
)  # fmt: skip


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


def check_types(algorithm: Algorithm, space: SearchSpace) -> list[Problem]:
    """The parameters of the space that this tuner cannot search."""
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
    name: str, class_args: Mapping[str, Any] | None, space: SearchSpace, optimize_mode: str, seed: int
) -> "Tuner":
    """Load and make a tuner (the tuner process does). A seed in its arguments goes before ``seed``.

    Raises InvalidInput.
    """
    algorithm = find_tuner(name)
    args = check_class_args(algorithm, class_args)
    problems = check_types(algorithm, space)
    if problems:
        raise InvalidInput(problems)
    own_seed = getattr(args, "seed", None)
    module = importlib.import_module(algorithm.module)
    tuner = module.build(space, seed if own_seed is None else own_seed, args.optimize_mode or optimize_mode, args)
    return cast("Tuner", tuner)


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
        return found
    available = ", ".join(entry.name for entry in algorithms)
    if str(name).lower() in {known.lower() for known in _NOT_HERE}:
        message = f'NNI\'s "{name}" is not available as a {kind} in this version.'
    else:
        message = f'there is no {kind} named "{name}".{did_you_mean(str(name), [entry.name for entry in algorithms])}'
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
            message = f"{detail['msg'].removeprefix('Input ')}, not {detail['input']!r}"
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
