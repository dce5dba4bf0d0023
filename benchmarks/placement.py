"""What it costs to place waiting trials on five clusters, compared with one.

    .venv/bin/python benchmarks/placement.py [--trials 1000]

In this process, on a SQLite database of its own: an experiment whose trials wait, and services that keep jobs in
memory.
Measured is the processor time of the rounds of five clusters, from the first one until each trial was handed to a
service: those of clusters without a trial cost what they cost any installation. The least of nine times counts.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
_FOLDER = tempfile.TemporaryDirectory()
os.environ |= {"DJANGO_SETTINGS_MODULE": "nniweb.settings", "NNIWEB_DATA": _FOLDER.name, "NNIWEB_EXTRA_PLATFORMS":
               "docile=trainingservice.testing.misbehaving:DocileTrainingService"}

import django  # noqa: E402

django.setup()

from django.core.management import call_command  # noqa: E402
from django.db import connection  # noqa: E402
from django.utils import timezone  # noqa: E402

from benchmarks.reporting import Report  # noqa: E402
from nniweb.experiments.clusters.lease import Lease  # noqa: E402
from nniweb.experiments.models import (  # noqa: E402
    Attempt,
    Cluster,
    Experiment,
    ExperimentCluster,
    Trial,
    TrialParameters,
    User,
)
from nniweb.tuning.process.tuner_client import TunerClient  # noqa: E402
from nniweb.worker.rounds.runner import ClusterRunner  # noqa: E402

CLUSTERS = 5
#: What five clusters may cost of one.
LIMIT = 1.25


def waiting_experiment(owner: User, clusters: list[Cluster], trials: int) -> Experiment:
    """All of its trials wait for a place."""
    now = timezone.now()
    experiment = Experiment.objects.create(
        name="waiting", owner=owner, cluster=clusters[0], several_clusters=len(clusters) > 1, seed=1,
        search_space={"x": {"_type": "uniform", "_value": [0, 1]}}, tuner={"name": "Random"}, optimize_mode="minimize",
        trial_command="true", trial_concurrency=trials, max_trial_number=trials, next_sequence_id=trials,
        created_at=now, started_at=now, status="NO_MORE_TRIAL")
    if len(clusters) > 1:
        ExperimentCluster.objects.bulk_create([
            ExperimentCluster(experiment=experiment, cluster=cluster, position=position, used_at=now)
            for position, cluster in enumerate(clusters)])
    rows = Trial.objects.bulk_create([Trial(
        experiment=experiment, sequence_id=number, ask_number=number, created_at=now) for number in range(trials)])
    TrialParameters.objects.bulk_create([TrialParameters(trial=row, parameter_id=row.ask_number, value={"x": 0.5})
                                         for row in rows])
    return experiment


def seconds_to_place(runners: list[ClusterRunner], experiment: Experiment) -> float:
    """Processor seconds until each trial was handed over."""
    began = time.process_time()
    handed_over = Attempt.objects.filter(trial__experiment=experiment, stage="submitted")
    while handed_over.count() < experiment.trial_concurrency:
        for runner in runners:
            runner.lease.renew()
            runner.round()
    return time.process_time() - began


def runners_of(clusters: list[Cluster], tuners: TunerClient) -> list[ClusterRunner]:
    """With services that are there."""
    found = []
    for cluster in clusters:
        lease = Lease.acquire(cluster, "benchmark")
        assert lease is not None
        found.append(ClusterRunner(cluster, lease, tuners))
    while any(runner.work.service is None for runner in found):
        for runner in found:
            runner.round()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    report = Report(__file__)
    logging.disable(logging.WARNING)  # a line for each trial
    call_command("migrate", verbosity=0)
    owner = User.objects.create_user("ann")
    tuners = TunerClient()
    found: dict[int, list[float]] = {1: [], CLUSTERS: []}
    try:
        clusters = [Cluster.objects.create(name=f"c{number}", platform="docile") for number in range(CLUSTERS)]
        runners = runners_of(clusters, tuners)
        for _ in range(options.rounds):
            for count, times in found.items():
                experiment = waiting_experiment(owner, clusters[:count], options.trials)
                times.append(seconds_to_place(runners, experiment))
                experiment.delete()
        for runner in runners:
            runner._close()
    finally:
        tuners.shutdown()
    one, several = (min(times) for times in found.values())  # what else the machine does only adds
    report.add(f"{options.trials} waiting trials placed on one cluster", one, "s of processor")
    report.add(f"{options.trials} waiting trials placed on {CLUSTERS} clusters", several, "s of processor",
               limit=LIMIT * one, beside=f"{LIMIT} of one cluster's")
    report.add("Ratio of the two", several / one, "", limit=LIMIT)
    connection.close()
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
