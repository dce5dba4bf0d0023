"""What one proposal costs a tuner that knows 10,000 results, and whether that grows with the experiment.

    .venv/bin/python benchmarks/tuner_suggestions.py [--trials 10000]

The tuner as the tuner process hosts it, in this process: told of so many trials, then asked, told, asked.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.reporting import Report  # noqa: E402
from nniweb.tuning.process.experiment_tuning import ExperimentTuning  # noqa: E402

#: Milliseconds of a proposal at 10,000 results.
LIMITS = {"TPE": 20.0, "Random": 2.0}
#: Proposals that are measured.
ASKED = 30
SPACE = {"lr": {"_type": "loguniform", "_value": [0.0001, 1]}, "momentum": {"_type": "uniform", "_value": [0, 1]},
         "layers": {"_type": "randint", "_value": [1, 8]}, "act": {"_type": "choice", "_value": ["relu", "tanh"]},
         "dropout": {"_type": "uniform", "_value": [0, 0.9]}}


def milliseconds(tuner: str, trials: int) -> float:
    """Median of a proposal after so many results."""
    chance = random.Random(7)
    tuning = ExperimentTuning({"search_space": SPACE, "tuner": {"name": tuner, "class_args": {}},
                               "optimize_mode": "minimize", "seed": 7})
    tuning.restore(
        event for number in range(trials)
        for parameters in [{"lr": 10 ** chance.uniform(-4, 0), "momentum": chance.random(),
                            "layers": chance.randint(1, 7), "act": chance.choice(["relu", "tanh"]),
                            "dropout": chance.uniform(0, 0.9)}]
        for event in ({"event": "ask", "number": number, "parameters": parameters},
                      {"event": "tell", "number": number, "parameters": parameters, "value": chance.random(),
                       "status": "SUCCEEDED"}))
    found = []
    for number in range(trials, trials + ASKED):
        begin = time.perf_counter()
        [parameters] = tuning.ask(number, 1)["parameters"]
        found.append(1000 * (time.perf_counter() - begin))
        tuning.tell(number=number, parameters=parameters, value=chance.random(), status="SUCCEEDED")
    return statistics.median(found)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=10_000)
    trials = parser.parse_args().trials
    report = Report(__file__)
    for tuner, limit in LIMITS.items():
        milliseconds(tuner, 50)  # its libraries are imported, its code is warm
        few, many = milliseconds(tuner, trials // 10), milliseconds(tuner, trials)
        report.add(f"{tuner}: a proposal at {trials:,} results", many, "ms", limit=limit,
                   beside=f"{few:.2g} ms at {trials // 10:,}, slope {math.log(many / few) / math.log(10):.2f}")
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
