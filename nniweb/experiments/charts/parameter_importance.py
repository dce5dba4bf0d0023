"""How much each hyper-parameter of an experiment matters: asked on request threads, worked out in another process."""

import json
import logging
import subprocess
import sys
import time
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import nniweb
from nniweb.experiments.charts.parameter_columns import Results
from nniweb.experiments.results.best_so_far import evenly

logger = logging.getLogger(__name__)

#: With fewer results nothing is said: chance would speak.
FEWEST_TRIALS = 10
#: Of more results so many, spread evenly, are looked at.
MOST_TRIALS = 2_000
#: More parameters are not looked at.
MOST_COLUMNS = 200
#: Of many parameters fewer results are looked at: the time grows with the number of values.
MOST_VALUES, FEWEST_LOOKED_AT = 50_000, 400
#: An answer serves this long, in seconds, also when newer results have come.
FRESH = 15.0
#: Seconds after which the process is given up. It takes one or two on a machine that is not busy.
PATIENCE = 90.0
MOST_REMEMBERED = 32


class NotWorkedOut(Exception):
    """The process failed or took too long; the message is for people."""


@dataclass(frozen=True)
class Importance:
    #: One for each column: {"importance", "correlation", "count"}; none where there are too few trials.
    parameters: list[dict[str, Any]]
    #: How many trials were looked at, and how many have a result.
    looked_at: int
    results: int
    #: Of the experiment, when the results were read.
    revision: int


@dataclass(frozen=True)
class _Remembered:
    version: tuple[int, int, int]
    at: float
    importance: Importance


#: By experiment, metric and direction.
_remembered: OrderedDict[tuple[int, str | None, bool], _Remembered] = OrderedDict()
#: One process at a time, whoever asks: who waits finds the answer of the one before.
_one_at_a_time = Lock()


def importance_of(experiment_key: int, results: Results) -> Importance:
    """Waits for the process (a second or two) unless it is known already. Raises NotWorkedOut."""
    if len(results.values) < FEWEST_TRIALS or not results.columns:
        return Importance([], 0, len(results.values), results.revision)
    key = (experiment_key, results.metric, results.greater_is_better)
    with _one_at_a_time:
        known = _remembered.get(key)
        if known and (known.version == results.version
                      or (known.version[0] == results.version[0] and time.monotonic() - known.at < FRESH)):
            return known.importance
        found = _worked_out(results)
        _remembered[key] = _Remembered(results.version, time.monotonic(), found)
        _remembered.move_to_end(key)
        while len(_remembered) > MOST_REMEMBERED:
            _remembered.popitem(last=False)
        return found


def most_looked_at(parameters: int) -> int:
    """How many results are looked at, where each has so many parameters."""
    return max(FEWEST_LOOKED_AT, min(MOST_TRIALS, MOST_VALUES // parameters))


def _worked_out(results: Results) -> Importance:
    columns = results.columns[:MOST_COLUMNS]
    places = evenly(range(len(results.values)), most_looked_at(len(columns)))
    asked = json.dumps({
        "maximize": results.greater_is_better, "values": [results.values[place] for place in places],
        "columns": [{
            "low": column.axis.low, "high": column.axis.high, "logarithmic": column.axis.logarithmic,
            "options": len(column.axis.options) if column.axis.kind == "category" else None,
            "ordered": column.axis.is_ordered,
            "numbers": list(column.axis.options) if column.axis.kind == "category" and column.axis.is_ordered else None,
            "values": [column.values[place] for place in places],
        } for column in columns]})
    try:
        done = subprocess.run([sys.executable, "-m", "nniweb.tuning.parameter_importance"], input=asked, text=True,
                              cwd=Path(nniweb.__file__).resolve().parent.parent, capture_output=True, check=True,
                              timeout=PATIENCE)
        parameters = json.loads(done.stdout)
    except subprocess.TimeoutExpired as error:
        raise NotWorkedOut(f"The importance of the parameters was not computed within {PATIENCE:.0f} seconds, because "
                           "the server is busy. Open the page again to retry.") from error
    except (subprocess.CalledProcessError, ValueError, OSError) as error:
        logger.exception("the importance of parameters was not worked out: %s", getattr(error, "stderr", ""))
        raise NotWorkedOut("The importance of the parameters could not be computed. The server's log contains the "
                           "error.") from error
    return Importance(parameters, len(places), len(results.values), results.revision)
