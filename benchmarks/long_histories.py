"""What a long history costs: 100,000 trials in one experiment, 1,000 experiments in the list.

    .venv/bin/python benchmarks/long_histories.py [--trials 100000] [--metrics 10] [--experiments 1000] [--rounds 3]

Over HTTP, from a real server. Two experiments of the local platform ran some trials and got a history then, one of them
a hundredth of the other's: what is looked at is one page, so the history may cost little. Then both go on, in turns:
the processor time that the server spends on a trial, and the time of a round of the worker, may not depend on it.
"""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
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
from tests.end_to_end.simulated_trials import SimulatedTrials  # noqa: E402

#: Milliseconds: a page of 50 trials over REST; what an experiment's page shows first; the list of experiments.
PAGE_LIMIT, FIRST_DATA_LIMIT, LIST_LIMIT = 50.0, 500.0, 300.0
#: How often each is asked for.
ASKED = 15
#: At most so many times what it is with a hundredth of the history: processor time of a trial, time of a round.
INDEPENDENT = 1.25
#: Trials that are run to measure that, a turn of each experiment; how many run at once.
TRIALS_OF_A_TURN, AT_ONCE = 40, 4
PATIENCE = 300.0

EXPERIMENTS = """
import sys
import django
django.setup()
from django.utils import timezone
from nniweb.experiments.models import Cluster, Experiment, User
cluster, _ = Cluster.objects.get_or_create(name="nowhere", defaults={"platform": "scripted", "enabled": False})
now, owner = timezone.now(), User.objects.first()
Experiment.objects.bulk_create(Experiment(
    name=f"number {number}", owner=owner, cluster=cluster, seed=1, search_space={}, tuner={"name": "Random"},
    optimize_mode="minimize", trial_command="true", trial_concurrency=1, created_at=now, status="STOPPED",
    target="STOP") for number in range(int(sys.argv[1])))
"""


def milliseconds(server: RunningServer, *paths: str) -> float:
    """Median of asking for these, one after the other."""
    found = []
    for _ in range(ASKED):
        begin = time.perf_counter()
        for path in paths:
            answer = server.request("GET", path)
            assert answer.ok, f"{path}: {answer.status_code}"
        found.append(1000 * (time.perf_counter() - begin))
    return statistics.median(found)


def with_history(server: RunningServer, code: Path, finished: int, metrics: int) -> str:
    """An experiment that ran some trials and has so many more behind it."""
    experiment = server.launch({
        "trialCommand": "true", "trialCodeDirectory": str(code), "trialConcurrency": AT_ONCE,
        "maxTrialNumber": AT_ONCE, "tuner": {"name": "Random"}, "trainingService": {"platform": "local"},
        "searchSpace": {"lr": {"_type": "loguniform", "_value": [0.0001, 1]}}}, code)
    server.wait_for_experiment(experiment, patience=PATIENCE)
    begin = time.monotonic()
    SimulatedTrials(server, finished=finished, curve=metrics, into=experiment)
    print(f"  {finished:,} trials of {metrics} metrics written in {time.monotonic() - begin:.0f} s", flush=True)
    return experiment


def rounds_so_far(server: RunningServer) -> tuple[float, float]:
    """Seconds spent in rounds over the local cluster, and how many there were."""
    text = server.request("GET", "/metrics").text
    total, count = (sum(float(value) for value in re.findall(rf"nniweb_round_seconds_{name}{{[^}}]*}} (\S+)", text))
                    for name in ("sum", "count"))
    return total, count


def a_turn(server: RunningServer, experiment: str) -> tuple[float, float]:
    """Milliseconds of processor time that the server spends on a trial, and of a round meanwhile."""
    trials = server.get(f"experiments/{experiment}/")["progress"]["total"]
    spent, (seconds, rounds) = processor_seconds(server.pid), rounds_so_far(server)
    server.patch(f"experiments/{experiment}/", {"max_trial_number": trials + TRIALS_OF_A_TURN})
    deadline = time.monotonic() + PATIENCE
    while (found := server.get("experiments/", page_size=50, status="DONE"))["count"] < 2:
        assert time.monotonic() < deadline, found
        time.sleep(0.5)
    spent = processor_seconds(server.pid) - spent
    seconds_then, rounds_then = rounds_so_far(server)
    return 1000 * spent / TRIALS_OF_A_TURN, 1000 * (seconds_then - seconds) / max(1.0, rounds_then - rounds)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=100_000)
    parser.add_argument("--metrics", type=int, default=10)
    parser.add_argument("--experiments", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    report = Report(__file__)
    with tempfile.TemporaryDirectory() as name, closing(RunningServer(Path(name) / "data")) as server:
        code = Path(name) / "code"
        code.mkdir()
        server.start()
        many = with_history(server, code, options.trials, options.metrics)
        few = with_history(server, code, options.trials // 100, options.metrics)

        def compared(what: str, limit: float, *paths: str) -> None:
            long, short = (milliseconds(server, *(path.format(experiment=experiment) for path in paths))
                           for experiment in (many, few))
            report.add(what, long, "ms", limit=limit, beside=f"{short:.0f} ms with {options.trials // 100:,}")

        compared(f"a page of 50 of {options.trials:,} trials over REST", PAGE_LIMIT,
                 "experiments/{experiment}/trials/?page_size=50")
        compared("the last page of them", PAGE_LIMIT,
                 "experiments/{experiment}/trials/?page_size=50&order=-sequence_id")
        compared("the best 50 of them", PAGE_LIMIT,
                 "experiments/{experiment}/trials/?page_size=50&order=-final_value")
        compared("an experiment page's first data", FIRST_DATA_LIMIT,
                 "experiments/{experiment}/", "experiments/{experiment}/chart/")
        turns: dict[str, list[tuple[float, float]]] = {many: [], few: []}
        for _ in range(options.rounds + 1):
            for experiment, found in turns.items():
                found.append(a_turn(server, experiment))
        (long, long_round), (short, short_round) = (
            [statistics.median(column) for column in zip(*found[1:], strict=True)] for found in turns.values())
        report.add(f"processor time of the server for a trial after {options.trials:,} others", long / short,
                   f"x after {options.trials // 100:,}", limit=INDEPENDENT, beside=f"{long:.0f} ms beside {short:.0f}")
        report.add("a round of the worker meanwhile", long_round / short_round, f"x after {options.trials // 100:,}",
                   limit=INDEPENDENT, beside=f"{long_round:.1f} ms beside {short_round:.1f}")
        subprocess.run([sys.executable, "-c", EXPERIMENTS, str(options.experiments)], cwd=ROOT, check=True,
                       env={**server.environment, "DJANGO_SETTINGS_MODULE": "nniweb.settings"})
        report.add(f"the list of {options.experiments:,} experiments, its first page",
                   milliseconds(server, "experiments/?page_size=50"), "ms", limit=LIST_LIMIT)
        report.add("all of them, in pages of 1,000", milliseconds(server, "experiments/?page_size=1000"), "ms",
                   limit=LIST_LIMIT)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
