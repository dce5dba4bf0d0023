"""How soon ``serve`` answers after its command, and how soon the first trial of an experiment runs after that.

The installation exists already (its tables are made). Beside it, in the same run: Django with one view under Daphne.

    .venv/bin/python benchmarks/startup.py [--rounds 5]
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from datetime import datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import requests  # noqa: E402

from benchmarks.reporting import Report  # noqa: E402
from tests.end_to_end.running_server import RunningServer, free_port  # noqa: E402

#: Seconds until the server answers; until the first trial of the first experiment runs, from its launch.
ANSWERS_LIMIT, FIRST_TRIAL_LIMIT = 2.0, 0.5


def until_it_answers(url: str, begin: float) -> float:
    """Seconds since ``begin`` until the page is served: a server that is still being opened answers 503."""
    with requests.Session() as session:
        session.trust_env = False
        while True:
            try:
                if session.get(url, timeout=10, allow_redirects=False).status_code < 500:
                    return time.monotonic() - begin
            except requests.ConnectionError:
                if time.monotonic() - begin > 60:
                    raise
            time.sleep(0.01)


def bare_django() -> float:
    port = free_port()
    begin = time.monotonic()
    server = subprocess.Popen([sys.executable, str(ROOT / "benchmarks" / "limits" / "bare_django.py"), str(port)],
                              stdout=subprocess.DEVNULL)
    try:
        return until_it_answers(f"http://127.0.0.1:{port}/", begin)
    finally:
        server.terminate()
        server.wait()


def first_trial(server: RunningServer, folder: Path) -> float:
    """Seconds from the request that launches until the trial's process runs, by the clock of this machine."""
    server.token  # noqa: B018  # made before: that is a process of its own
    begin = datetime.now().astimezone()
    experiment = server.launch({
        "trialCommand": "true", "trialCodeDirectory": str(folder), "trialConcurrency": 1, "maxTrialNumber": 1,
        "tuner": {"name": "Random"}, "trainingService": {"platform": "local"},
        "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}}}, folder)
    server.wait_for_experiment(experiment)
    [trial] = server.get(f"experiments/{experiment}/trials/")["results"]
    return (datetime.fromisoformat(trial["started_at"]) - begin).total_seconds()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    report = Report(__file__)
    bare, answers, trials = [], [], []
    with tempfile.TemporaryDirectory() as name, closing(RunningServer(Path(name) / "data")) as server:
        code = Path(name) / "code"
        code.mkdir()
        server.start()
        first_trial(server, code)
        server.stop()
        for _ in range(options.rounds):
            bare.append(bare_django())
            begin = time.monotonic()
            server.start(wait=False)
            answers.append(until_it_answers(f"{server.url}/sign-in/", begin))
            trials.append(first_trial(server, code))
            server.stop()
    report.add("Django with one view under Daphne answers after", statistics.median(bare), "s")
    report.add("serve answers after", statistics.median(answers), "s", limit=ANSWERS_LIMIT)
    report.add("launch until the first trial runs, just after the start", statistics.median(trials), "s",
               limit=FIRST_TRIAL_LIMIT)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
