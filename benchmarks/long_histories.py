"""What looking costs where there is a long history: 100,000 trials in one experiment, 1,000 experiments in the list.

    .venv/bin/python benchmarks/long_histories.py [--trials 100000] [--metrics 10] [--experiments 1000]

Over HTTP, from a real server whose database was filled beforehand. Each figure stands beside the same request with a
hundredth of the history: what is looked at is one page, so the history may cost little.
"""

from __future__ import annotations

import argparse
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
from tests.end_to_end.running_server import RunningServer  # noqa: E402
from tests.end_to_end.simulated_trials import SimulatedTrials  # noqa: E402

#: Milliseconds: a page of 50 trials over REST; what an experiment's page shows first; the list of experiments.
PAGE_LIMIT, FIRST_DATA_LIMIT, LIST_LIMIT = 50.0, 500.0, 300.0
ASKED = 15

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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=100_000)
    parser.add_argument("--metrics", type=int, default=10)
    parser.add_argument("--experiments", type=int, default=1_000)
    options = parser.parse_args()
    report = Report(__file__)
    with tempfile.TemporaryDirectory() as name, closing(RunningServer(Path(name) / "data")) as server:
        server.start()
        many = SimulatedTrials(server, finished=options.trials, curve=options.metrics).experiment
        few = SimulatedTrials(server, finished=options.trials // 100, curve=options.metrics).experiment

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
        subprocess.run([sys.executable, "-c", EXPERIMENTS, str(options.experiments)], cwd=ROOT, check=True,
                       env={**server.environment, "DJANGO_SETTINGS_MODULE": "nniweb.settings"})
        report.add(f"the list of {options.experiments:,} experiments, its first page",
                   milliseconds(server, "experiments/?page_size=50"), "ms", limit=LIST_LIMIT)
        report.add("all of them, in pages of 1,000", milliseconds(server, "experiments/?page_size=1000"), "ms",
                   limit=LIST_LIMIT)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
