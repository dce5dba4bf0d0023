"""Rows of experiments with running trials whose keepers have reported before; run with Django's settings of a server.

    python -m benchmarks.simulated_fleet.rows KEEPERS EXPERIMENTS TOKEN [CLUSTER]

Prints the job names as JSON. The experiments are paused, so no trial begins where one is stopped.
"""

from __future__ import annotations

import json
import sys

import django
from django.db import transaction
from django.utils import timezone

#: Trials of one transaction.
CHUNK = 2_000


def make(keepers: int, experiments: int, token: str, cluster_name: str = "fleet") -> list[str]:
    """Job names. The journal of each has its job's name, and one entry, which is stored."""
    from nniweb.experiments.models import Attempt, Cluster, Experiment, Trial, TrialParameters, User
    from nniweb.experiments.models.account import hash_of

    now = timezone.now()
    cluster = Cluster.objects.create(name=cluster_name, platform="fleet")
    made: list[str] = []
    owner = User.objects.first()
    for number in range(experiments):
        count = keepers * (number + 1) // experiments - keepers * number // experiments
        experiment = Experiment.objects.create(
            name=f"{cluster_name} {number}", owner=owner, cluster=cluster, seed=1,
            search_space={"lr": {"_type": "uniform", "_value": [0, 1]}}, tuner={"name": "Random"},
            optimize_mode="maximize", trial_command="true", trial_concurrency=count, created_at=now, started_at=now,
            status="PAUSED", target="PAUSE", revision=1, next_sequence_id=count)
        for first in range(0, count, CHUNK):
            with transaction.atomic():
                trials = Trial.objects.bulk_create([
                    Trial(experiment=experiment, sequence_id=place, status="RUNNING", created_at=now, submitted_at=now,
                          started_at=now, revision=1) for place in range(first, min(first + CHUNK, count))])
                TrialParameters.objects.bulk_create([
                    TrialParameters(trial=one, parameter_id=one.sequence_id, value={"lr": 0.5}) for one in trials])
                Attempt.objects.bulk_create([
                    Attempt(trial=one, cluster=cluster, job_name=one.public_id, created_at=now, submitted_at=now,
                            started_at=now, heard_at=now, stage="submitted", machine_name="box", accepted=1,
                            journal_id=one.public_id, token_hashes=[hash_of(token)]) for one in trials])
            made += [one.public_id for one in trials]
    return made


if __name__ == "__main__":
    django.setup()
    print(json.dumps(make(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])))
