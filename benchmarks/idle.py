"""What a server costs while nothing happens: processor time with no experiment, and with trials that only run.

    .venv/bin/python benchmarks/idle.py [--seconds 20]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.reporting import Report  # noqa: E402
from benchmarks.trial_start import processor_seconds  # noqa: E402
from tests.end_to_end.running_server import RunningServer  # noqa: E402

#: Milliseconds of the processor in a second: of the server without trials; with eight that run and say nothing.
IDLE, RUNNING = 10.0, 20.0
TRIALS = 8


def milliseconds_a_second(server: RunningServer, seconds: float) -> float:
    begin, spent = time.monotonic(), processor_seconds(server.pid)
    time.sleep(seconds)
    return 1000 * (processor_seconds(server.pid) - spent) / (time.monotonic() - begin)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20.0)
    options = parser.parse_args()
    report = Report(__file__)
    with tempfile.TemporaryDirectory() as name, closing(RunningServer(Path(name) / "data")) as server:
        code = Path(name) / "code"
        code.mkdir()
        server.start()
        time.sleep(5)  # what is done once after a start
        idle = milliseconds_a_second(server, options.seconds)
        experiment = server.launch({
            "trialCommand": "sleep 3600", "trialCodeDirectory": str(code), "trialConcurrency": TRIALS,
            "maxTrialNumber": TRIALS, "tuner": {"name": "Random"}, "trainingService": {"platform": "local"},
            "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}}}, code)
        server.wait_until(lambda: [row["status"] for row in server.get_all(f"experiments/{experiment}/trials/")]
                          == ["RUNNING"] * TRIALS, what="all trials run")
        time.sleep(5)
        running = milliseconds_a_second(server, options.seconds)
        server.post(f"experiments/{experiment}/actions/stop/")
        server.wait_for_experiment(experiment, "STOPPED")
    report.add("processor time of a server without experiments", idle, "ms/s", limit=IDLE)
    report.add(f"... with {TRIALS} trials that run and report nothing", running, "ms/s", limit=RUNNING)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
