"""A trial of a script that searches with Optuna: ``python3 -m nni.optuna 0 search.py``. The script stays as it is.

It is run up to its call of ``Study.optimize``. There its objective is called once, with the parameters that the
program has chosen which leads the search (``python -m nniweb.client.optuna``), and the process ends. What the program
does not know yet, because no trial has asked for it, is chosen at random here; the final result says what was used.
docs/optuna-and-hydra.md says more.
"""

import json
import os
import runpy
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: In the final result: what Optuna's study has to know of the trial.
ABOUT = "optuna"
#: A parameter of each trial: its number in the study.
NUMBER = "optuna.number"


def values_of(returned: "Any") -> "list[float]":
    """The numbers that an objective returned; [] where it is something else, with a line on stderr, as Optuna does."""
    given = list(returned) if isinstance(returned, (list, tuple)) else [returned]
    try:
        values = [float(value) for value in given]
    except (TypeError, ValueError):
        values = []
    if values and all(value == value for value in values):
        return values
    sys.stderr.write("nni: the objective has returned %r, so this trial has no result\n" % (returned,))
    return []


def named(values: "list[float]") -> "dict[str, Any]":
    """The first value is the result, further ones have names of their own."""
    return dict([("default", values[0])] + [("value_%d" % place, value) for place, value in enumerate(values) if place])


def chosen(parameters: "dict[str, Any]", name: str, distribution: "Any") -> "Any":
    """The value that was proposed. Raises KeyError where there is none, or none that the distribution has."""
    value = parameters[name]
    choices = getattr(distribution, "choices", None)
    if choices is not None:
        for choice in choices:
            if (type(choice), choice) == (type(value), value) or _as_text(choice) == value:
                return choice
        raise KeyError(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise KeyError(name)
    value = distribution.to_external_repr(float(value))
    if not distribution._contains(distribution.to_internal_repr(value)):
        raise KeyError(name)
    return value


def _as_text(choice: "Any") -> "Any":
    try:
        return json.dumps(choice)
    except (TypeError, ValueError):
        return None


def run_trial(study: "Any", objective: "Any", parameters: "dict[str, Any]") -> None:
    """Call the objective, and report what it says. Raises what it raises, but TrialPruned."""
    import optuna

    from . import report_final_result, report_intermediate_result

    class Proposed(optuna.samplers.RandomSampler):
        def sample_independent(self, study: "Any", trial: "Any", name: str, distribution: "Any") -> "Any":
            try:
                return chosen(parameters, name, distribution)
            except KeyError:
                return super().sample_independent(study, trial, name, distribution)

    class Trial(optuna.trial.Trial):
        number = property(lambda self: int(parameters.get(NUMBER) or 0))

        def report(self, value: float, step: int) -> None:
            is_new = step not in inner._storage.get_trial(self._trial_id).intermediate_values
            super().report(value, step)
            if is_new:  # Optuna keeps the first value of a step
                report_intermediate_result(float(value))

    inner = optuna.create_study(directions=study.directions, sampler=Proposed(), pruner=optuna.pruners.NopPruner())
    trial = Trial(inner, inner.ask()._trial_id)
    is_pruned = False
    try:
        values = values_of(objective(trial))
    except optuna.TrialPruned:
        is_pruned, reported = True, inner._storage.get_trial(trial._trial_id).intermediate_values
        values = [reported[max(reported)]] if reported else []
    frozen = inner._storage.get_trial(trial._trial_id)
    about = {"params": {name: [distribution.to_internal_repr(frozen.params[name]),
                               optuna.distributions.distribution_to_json(distribution)]
                        for name, distribution in frozen.distributions.items()},
             "user_attrs": {name: value for name, value in frozen.user_attrs.items() if _as_text(value) is not None},
             "is_pruned": is_pruned}
    if values:
        result = named(values)
        result[ABOUT] = about
        report_final_result(result)


def main(call: int, program: "list[str]") -> None:
    """Run the program up to the ``call``-th call of ``Study.optimize``, from 0, of which this is a trial."""
    import optuna

    from . import get_next_parameter
    parameters = get_next_parameter() or {}
    calls = [0]

    def optimize(study: "Any", func: "Any", *args: "Any", **kwargs: "Any") -> None:  # noqa: ARG001
        calls[0] += 1
        if calls[0] <= call:
            return  # it was another search, that has ended
        run_trial(study, func, parameters)
        sys.exit(0)

    create_study = optuna.create_study

    def create(storage: "Any" = None, load_if_exists: bool = False, **others: "Any") -> "Any":  # noqa: ARG001
        """In memory: the study is the leading program's alone."""
        return create_study(**others)

    def load(**_: "Any") -> "Any":
        return create_study()

    setattr(optuna.study.Study, "optimize", optimize)  # noqa: B010
    optuna.create_study = optuna.study.create_study = create
    optuna.load_study = optuna.study.load_study = load
    sys.argv = program
    sys.path[0] = os.path.dirname(os.path.abspath(program[0]))
    runpy.run_path(program[0], run_name="__main__")
    raise SystemExit("%s did not call Study.optimize %d times, so there is nothing to try" % (program[0], call + 1))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
