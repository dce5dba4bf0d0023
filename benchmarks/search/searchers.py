"""Who searches: the tuners of this project, Optuna's samplers, and NNI 3.0's tuners in a process of their own."""

from __future__ import annotations

import functools
import importlib.util
import json
import subprocess
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import optuna

from benchmarks.search.objectives import Objective, Parameters
from benchmarks.search.runs import Maker, NotPossible
from nniweb.tuning.process.experiment_tuning import ExperimentTuning

#: Ours, by name.
TUNERS = ("Auto", "TPE", "Anneal", "Evolution", "SMAC", "GP", "Metis", "DNGO", "NSGAII", "GridSearch", "Random")
#: NNI's tuner of the same name, as module and class.
NNI_TUNERS = {
    "TPE": "tpe_tuner.TpeTuner", "Anneal": "hyperopt_tuner.HyperoptTuner",
    "Evolution": "evolution_tuner.EvolutionTuner",
    "GP": "gp_tuner.GPTuner", "Metis": "metis_tuner.MetisTuner", "DNGO": "dngo_tuner.DNGOTuner",
    "GridSearch": "gridsearch_tuner.GridSearchTuner", "Random": "random_tuner.RandomTuner",
}
#: A proposal of theirs takes a twentieth of a second and more: they run for fewer seeds.
SLOW = {"Auto", "GP", "Metis", "DNGO", "SMAC", "NNI Anneal"}
#: A proposal of theirs takes half a second and more: they run only where they are named.
VERY_SLOW = {"Optuna GP", "NNI GP", "NNI Metis", "NNI DNGO"}
_NNI_PROGRAM = Path(__file__).with_name("nni_tuners.py")


class Ours:
    """A tuner as the tuner process hosts it. ``more``: further parts of what that is given."""

    def __init__(self, name: str, class_args: Mapping[str, Any], objective: Objective, seed: int, **more: Any) -> None:
        self._tuning = ExperimentTuning({"search_space": objective.space, "optimize_mode": "minimize", "seed": seed,
                                         "tuner": {"name": name, "class_args": dict(class_args)}, **more})

    def ask(self, number: int) -> Parameters | None:
        proposed = self._tuning.ask(number, 1)
        if proposed["exhausted"]:
            raise NotPossible("the space is exhausted")
        return dict(proposed["parameters"][0]) if proposed["parameters"] else None

    def tell(self, number: int, parameters: Parameters, value: float | None) -> None:
        self._tuning.tell(number=number, parameters=parameters, value=value,
                          status="FAILED" if value is None else "SUCCEEDED")

    def close(self) -> None:
        self._tuning.exit()


def ours(name: str, **class_args: Any) -> Maker:
    return lambda objective, seed, _: Ours(name, class_args, objective, seed)


class Optunas:
    """A study as somebody would write it with Optuna: its own distributions, its own record of running trials."""

    def __init__(self, sampler: optuna.samplers.BaseSampler, objective: Objective) -> None:
        self._study = optuna.create_study(sampler=sampler)
        self._objective = objective
        self._trials: dict[int, optuna.Trial] = {}

    def ask(self, number: int) -> Parameters | None:
        trial = self._trials[number] = self._study.ask()
        return _suggested(trial, self._objective.space, "")

    def tell(self, number: int, parameters: Parameters, value: float | None) -> None:
        if value is None:
            self._study.tell(self._trials.pop(number), state=optuna.trial.TrialState.FAIL)
        else:
            self._study.tell(self._trials.pop(number), value)

    def close(self) -> None:
        pass


def _suggested(trial: optuna.Trial, space: Mapping[str, Any], prefix: str) -> Parameters:
    point: Parameters = {}
    for name, entry in space.items():
        kind, values, full = entry["_type"], entry["_value"], f"{prefix}{name}"
        if kind == "choice" and isinstance(values[0], dict):
            chosen = trial.suggest_categorical(full, [option["_name"] for option in values])
            option = next(option for option in values if option["_name"] == chosen)
            inner = {key: value for key, value in option.items() if key != "_name"}
            point[name] = {"_name": chosen, **_suggested(trial, inner, f"{full}.{chosen}.")}
        elif kind == "choice":
            point[name] = trial.suggest_categorical(full, values)
        elif kind == "randint":
            point[name] = trial.suggest_int(full, values[0], values[1] - 1)
        elif kind in ("uniform", "loguniform"):
            point[name] = trial.suggest_float(full, *values, log=kind == "loguniform")
        elif kind == "quniform":
            point[name] = trial.suggest_float(full, values[0], values[1], step=values[2])
        elif kind == "qloguniform":
            point[name] = float(trial.suggest_int(full, int(values[0]), int(values[1]), log=True))
        else:  # Optuna has no normal distributions: what lies within three deviations
            low, high = values[0] - 3 * values[1], values[0] + 3 * values[1]
            raw = trial.suggest_float(full, low, high)
            value = 2.718281828459045 ** raw if "log" in kind else raw
            point[name] = round(value / values[2]) * values[2] if kind.startswith("q") else value
    return point


def _optunas() -> dict[str, Callable[[int], optuna.samplers.BaseSampler]]:
    found: dict[str, Callable[[int], optuna.samplers.BaseSampler]] = {
        "Optuna TPE": lambda seed: optuna.samplers.TPESampler(seed=seed),
        "Optuna Random": lambda seed: optuna.samplers.RandomSampler(seed=seed),
    }
    if importlib.util.find_spec("cmaes"):
        found["Optuna CMA-ES"] = lambda seed: optuna.samplers.CmaEsSampler(seed=seed, warn_independent_sampling=False)
    if importlib.util.find_spec("torch"):
        found["Optuna GP"] = lambda seed: optuna.samplers.GPSampler(seed=seed)
    return found


def _optunas_maker(sampler: Callable[[int], optuna.samplers.BaseSampler]) -> Maker:
    def make(objective: Objective, seed: int, _: int) -> Optunas:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what is called experimental there
            return Optunas(sampler(seed), objective)

    return make


class NniProcess:
    """Where NNI's tuners live, one at a time: NNI's packages are of other versions than ours."""

    def __init__(self, python: Path) -> None:
        process = subprocess.Popen([str(python), str(_NNI_PROGRAM)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL, text=True)
        assert process.stdin is not None
        assert process.stdout is not None
        self._requests, self._answers = process.stdin, process.stdout

    def request(self, **request: Any) -> Any:
        """Its answer. Raises NotPossible."""
        self._requests.write(json.dumps(request) + "\n")
        self._requests.flush()
        line = self._answers.readline()
        if not line:
            raise RuntimeError(f"the process of {_NNI_PROGRAM.name} has ended")
        answer = json.loads(line)
        if "error" in answer:
            raise NotPossible(answer["error"])
        return answer["ok"]


@functools.cache
def _nni_process(python: Path) -> NniProcess:
    """One for each process of ours; it ends with its standard input, that is, with ours."""
    return NniProcess(python)


class Nnis:
    """One of NNI's tuners."""

    def __init__(self, process: NniProcess, name: str, objective: Objective, seed: int) -> None:
        self._process = process
        process.request(open=NNI_TUNERS[name], space=objective.space, seed=seed)

    def ask(self, number: int) -> Parameters | None:
        answer: Parameters | None = self._process.request(ask=number)
        return answer

    def tell(self, number: int, parameters: Parameters, value: float | None) -> None:
        self._process.request(tell=number, parameters=parameters, value=value)

    def close(self) -> None:
        pass


def _nnis_maker(python: Path, name: str) -> Maker:
    return lambda objective, seed, _: Nnis(_nni_process(python), name, objective, seed)


@functools.cache
def searchers(nni_python: Path | None) -> dict[str, Maker]:
    """All that can run here, by name. ``nni_python``: the interpreter of a virtual environment with NNI in it."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    found: dict[str, Maker] = {name: ours(name) for name in TUNERS}
    found |= {name: _optunas_maker(sampler) for name, sampler in _optunas().items()}
    if nni_python is not None:
        found |= {f"NNI {name}": _nnis_maker(nni_python, name) for name in NNI_TUNERS}
    return found
