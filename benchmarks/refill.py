"""How soon a free slot is filled: from the end of a trial to the start of the next one.

Runs an experiment of trials that do nothing, one at a time, on the local platform of a real server,
with the tuners Random and TPE, and prints the time from each trial's end to the next one's start
(report, commit, tuner told and asked, rows, submission, keeper forked, command running).

    .venv/bin/python benchmarks/refill.py [--trials 60]
"""

import argparse
import statistics
import sys
import tempfile
from datetime import datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.reporting import Report  # noqa: E402
from tests.end_to_end.running_server import RunningServer  # noqa: E402

#: Milliseconds within which a slot is to be filled again: half of the times, and 95 of 100.
MEDIAN_LIMIT, P95_LIMIT = 40.0, 100.0


def gaps(server: RunningServer, folder: Path, tuner: str, trials: int) -> list[float]:
    """Milliseconds from each trial's end to the next one's start, by the trial machine's clock."""
    experiment = server.launch({
        "trialCommand": "true", "trialCodeDirectory": str(folder), "trialConcurrency": 1, "maxTrialNumber": trials,
        "tuner": {"name": tuner, "classArgs": {"optimize_mode": "minimize"}},
        "searchSpace": {f"x{number}": {"_type": "uniform", "_value": [0, 1]} for number in range(5)},
        "trainingService": {"platform": "local"}}, folder)
    server.wait_for_experiment(experiment, patience=10 + trials)
    rows = server.get_all(f"experiments/{experiment}/trials/")
    times = [(datetime.fromisoformat(row["started_at"]), datetime.fromisoformat(row["ended_at"])) for row in rows]
    return sorted(1000 * (after[0] - before[1]).total_seconds()
                  for before, after in zip(times, times[1:], strict=False))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=60)
    options = parser.parse_args()
    report = Report(__file__)
    with tempfile.TemporaryDirectory() as folder:
        code = Path(folder) / "code"
        code.mkdir()
        server = RunningServer(Path(folder) / "data").start()
        try:
            for tuner in ("Random", "TPE"):
                found = gaps(server, code, tuner, options.trials)
                what = f"{tuner}: a trial's end until the next one's start"
                report.add(f"{what}, median", statistics.median(found), "ms", limit=MEDIAN_LIMIT)
                report.add(f"{what}, 95 %", found[int(len(found) * 0.95)], "ms", limit=P95_LIMIT)
        finally:
            server.close()
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
