"""How much each hyper-parameter matters, by Optuna's PED-ANOVA, and how the result goes with it, by rank correlation.

A program: ``python -m nniweb.tuning.parameter_importance`` reads one JSON object and writes one. It runs in a process
of its own because Optuna takes a second and a hundred megabytes to load, which a web server would keep.

    in    {"maximize": true, "values": [0.5, ...], "columns": [{"low": 0, "high": 1, "logarithmic": false,
           "options": null, "ordered": true, "numbers": null, "values": [0.25, null, ...]}, ...]}
    out   [{"importance": 0.8, "correlation": -0.4, "count": 90}, ...]   one for each column

``values`` of a column are numbers, or indices of ``options``; null where the trial has no such parameter. ``numbers``
are the options as numbers, where all of them are.
"""

import json
import math
import sys
import warnings
from typing import Any

import numpy as np
import numpy.typing as npt

#: PED-ANOVA asks what tells the best tenth from the rest; of few trials that would be too few.
TARGET_QUANTILE = 0.1
FEWEST_BEST = 5
#: Fewer pairs have no rank correlation worth a number.
FEWEST_PAIRS = 3

Floats = npt.NDArray[np.float64]


def analysis(values: list[float], columns: list[dict[str, Any]], *, maximize: bool) -> list[dict[str, Any]]:
    """Importance (a share of 1; None where nothing varies), Spearman's correlation (None where there is no order or no
    variation), and the number of trials that have the parameter, for each column.
    """
    shares = importances(values, columns, maximize=maximize)
    return [{"importance": share, **correlation(column, values)} for share, column in zip(shares, columns, strict=True)]


def importances(values: list[float], columns: list[dict[str, Any]], *, maximize: bool) -> list[float | None]:
    """Shares of 1. A parameter that not every trial has counts by the trials that have it."""
    import optuna
    from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    distributions: dict[str, BaseDistribution] = {}
    for place, column in enumerate(columns):
        if column["options"] is not None:
            distributions[str(place)] = CategoricalDistribution(list(range(max(1, column["options"]))))
        elif column["low"] is not None and column["low"] < column["high"]:
            distributions[str(place)] = FloatDistribution(column["low"], column["high"], log=column["logarithmic"])
    trials = []
    for number, value in enumerate(values):
        point = {name: columns[int(name)]["values"][number] for name in distributions}
        used = {name: found for name, found in point.items() if found is not None}
        trials.append(optuna.trial.create_trial(
            params=used, distributions={name: distributions[name] for name in used}, value=value))
    study = optuna.create_study(direction="maximize" if maximize else "minimize")
    study.add_trials(trials)
    quantile = min(0.5, max(TARGET_QUANTILE, FEWEST_BEST / max(1, len(values))))
    evaluator = optuna.importance.PedAnovaImportanceEvaluator(target_quantile=quantile)
    found = evaluator.evaluate(study)
    total = sum(found.values())
    return [found[str(place)] / total if str(place) in found and total > 0 else None for place in range(len(columns))]


def correlation(column: dict[str, Any], values: list[float]) -> dict[str, Any]:
    """``count`` of the trials that have it, and ``correlation`` from -1 to 1: Spearman's, equal values share a rank."""
    pairs = [(number, value) for number, value in zip(column["values"], values, strict=True) if number is not None]
    none = {"correlation": None, "count": len(pairs)}
    if not column["ordered"] or len(pairs) < FEWEST_PAIRS:
        return none
    numbers = column["numbers"]
    given = np.array([numbers[int(number)] if numbers else number for number, _ in pairs], dtype=np.float64)
    one, other = ranks(given), ranks(np.array([value for _, value in pairs], dtype=np.float64))
    if not one.std() or not other.std():
        return none
    found = float(np.corrcoef(one, other)[0, 1])
    return {"correlation": found if math.isfinite(found) else None, "count": len(pairs)}


def ranks(values: Floats) -> Floats:
    """Ranks from 0; equal values get the mean of theirs."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    means = np.cumsum(counts) - (counts + 1) / 2
    return np.asarray(means[place], dtype=np.float64)


def main() -> None:
    # Optuna would load them for other evaluators and for storages: four times the time
    for unused in ("sklearn", "scipy", "redis"):
        sys.modules[unused] = None  # type: ignore[assignment]
    warnings.simplefilter("ignore")  # about few trials: the page says how many there were
    asked = json.load(sys.stdin)
    json.dump(analysis(asked["values"], asked["columns"], maximize=asked["maximize"]), sys.stdout)


if __name__ == "__main__":
    main()
