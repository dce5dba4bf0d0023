"""Trials that exist in the database only: a history as long as wanted, and running ones that report when told.

    trials = SimulatedTrials(server, finished=10_000, curve=100, running=50)
    trials.report(trials.running[0], [0.25, 0.5])         # over HTTP, as its keeper would

Their cluster is disabled, so no worker asks a platform about them. The keepers that are left out cost
memory and time of their own; what the server does with reports and pages is the real thing.
"""

from __future__ import annotations

import json
import time
from typing import Any

import requests

from tests.end_to_end.running_server import RunningServer

TOKEN = "of-simulated-trials"
#: Seconds for as many trials as a benchmark wants.
FILL_PATIENCE = 4 * 3600.0

FILL = """
import json, math, random, sys
from datetime import timedelta
from django.db import connection, transaction
from django.utils import timezone
from nniweb.experiments.models import *
from nniweb.experiments.models.account import hash_of

finished, curve, running, token, into = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5]
wide = int(sys.argv[6])
chance, now = random.Random(5), timezone.now()
begin = now - timedelta(seconds=10.0 * finished)
cluster, _ = Cluster.objects.get_or_create(name="nowhere", defaults={"platform": "scripted", "enabled": False})
space = {"lr": {"_type": "loguniform", "_value": [0.0001, 1]}, "momentum": {"_type": "uniform", "_value": [0, 1]},
         "layers": {"_type": "randint", "_value": [1, 8]}, "act": {"_type": "choice", "_value": ["relu", "tanh"]}}
if wide:
    layer = {"units": {"_type": "choice", "_value": [32, 64, 128]}, "dropout": {"_type": "uniform", "_value": [0, 0.5]},
             "activation_function": {"_type": "choice", "_value": ["relu", "tanh"]},
             "learning_rate": {"_type": "loguniform", "_value": [0.00001, 0.1]}}
    space = {"optimizer": {"_type": "choice", "_value": [
        {"_name": "sgd", "momentum": {"_type": "uniform", "_value": [0, 1]}}, {"_name": "adam"}]}}
    names = list(layer)
    space |= {f"encoder_block/layer{place // 4}/{names[place % 4]}": layer[names[place % 4]]
              for place in range(wide - 2)}  # the nested choice has two
experiment = Experiment.objects.get(public_id=into) if into else Experiment.objects.create(
    name="simulated", owner=User.objects.first(), cluster=cluster, seed=1, search_space=space, tuner={"name": "Random"},
    optimize_mode="maximize", trial_command="true", trial_concurrency=max(1, running), created_at=begin,
    started_at=begin, status="RUNNING" if running else "STOPPED", target="RUN" if running else "STOP", revision=1)
before = experiment.next_sequence_id

def point():
    if not wide:
        return {"lr": 10 ** chance.uniform(-4, 0), "momentum": chance.random(), "layers": chance.randint(1, 7),
                "act": chance.choice(["relu", "tanh"])}
    made = {"optimizer": chance.choice([{"_name": "sgd", "momentum": chance.random()}, {"_name": "adam"}])}
    for name, parameter in space.items():
        kind, value = parameter["_type"], parameter["_value"]
        if name != "optimizer":
            made[name] = chance.choice(value) if kind == "choice" else \
                chance.uniform(*value) if kind == "uniform" else 10 ** chance.uniform(*map(math.log10, value))
    return made

def result(number, given):
    if not wide:
        return 1 - chance.random() / (1 + number / 1000) ** 0.5
    return 1 - abs(math.log10(given["encoder_block/layer4/learning_rate"]) + 3) / 4 - \
        given["encoder_block/layer3/dropout"] / 2 + chance.random() / 50

def trial(number, given):
    if number >= finished:
        return Trial(experiment=experiment, sequence_id=before + number, status="RUNNING", created_at=now,
                     started_at=now, revision=1)
    started = begin + timedelta(seconds=10.0 * number)
    failed = number % 50 == 7
    return Trial(experiment=experiment, sequence_id=before + number, status="FAILED" if failed else "SUCCEEDED",
                 taught=True, message="exit code 1: no such data set" if failed else "", created_at=started,
                 started_at=started,
                 final_number=None if failed else result(number, given),
                 ended_at=started + timedelta(seconds=chance.lognormvariate(3, 0.5)), revision=1,
                 intermediate_count=curve, latest_number=None if failed else chance.random())

made, ended = [], [""]
Experiment.objects.filter(pk=experiment.pk).update(next_sequence_id=before + finished + running)
for first in range(0, finished + running, 2000):
    with transaction.atomic():  # the server writes, too: its turn comes in between
        points = [point() for _ in range(first, min(first + 2000, finished + running))]
        trials = Trial.objects.bulk_create([trial(first + place, given) for place, given in enumerate(points)])
        TrialParameters.objects.bulk_create([TrialParameters(trial=one, parameter_id=one.sequence_id, value=given)
                                             for one, given in zip(trials, points)])
        attempts = Attempt.objects.bulk_create([Attempt(
            trial=one, cluster_id=experiment.cluster_id, job_name=one.public_id, created_at=one.created_at,
            started_at=one.started_at,
            ended_at=one.ended_at, stage="ended" if one.ended_at else "submitted",
            machine_name=f"box{one.sequence_id % 8}",
            exit_code=(1 if one.status == "FAILED" else 0) if one.ended_at else None,
            duration=(one.ended_at - one.started_at).total_seconds() if one.ended_at else None,
            token_hashes=[hash_of(token)]) for one in trials])
        made += [one.public_id for one in trials if not one.ended_at]
        ended = [one.public_id for one in trials if one.ended_at][:1] or ended
        rows = [(attempt.pk, step + 1, "PERIODICAL", "0", step, str(value), value, now, now, 1)
                for attempt in attempts if attempt.ended_at for step in range(curve)
                for value in [1 - 1 / (2 + step) + chance.random() / 20]]
        with connection.cursor() as cursor:
            cursor.executemany(
                f"INSERT INTO {Metric._meta.db_table} (attempt_id, n, kind, parameter_id, sequence, value, number,"
                " recorded_at, received_at, revision) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)", rows)
print(json.dumps([experiment.public_id, made, ended[0]]))
"""

OLDER = """
import sys
from datetime import timedelta
from django.db import transaction
from django.db.models import F
from nniweb.experiments.models import Attempt, Experiment, ResourceReading, Trial, TrialOutput
experiment = Experiment.objects.get(public_id=sys.argv[1])
keys = list(Attempt.objects.filter(trial__experiment=experiment).values_list("pk", "ended_at"))
for start in range(0, len(keys), 1000):
    with transaction.atomic():
        TrialOutput.objects.bulk_create(
            TrialOutput(attempt_id=key, stream="stdout", offset=0, data=b"a line of output " * 240)
            for key, _ in keys[start: start + 1000])
        ResourceReading.objects.bulk_create(ResourceReading(attempt_id=key, at=at, data={"cpu_percent": 99.0})
                                            for key, at in keys[start: start + 1000] for _ in range(3))
Trial.objects.filter(experiment=experiment).update(ended_at=F("ended_at") - timedelta(days=40))
"""


def with_output_of_long_ago(server: RunningServer, experiment: str) -> None:
    """Give each ended trial of the experiment 4 kB of output and three readings, and let it have ended 40 days ago."""
    _run(server, OLDER, experiment)


def _run(server: RunningServer, script: str, *arguments: str) -> str:
    given = f"import sys\nsys.argv[1:] = {list(arguments)!r}\n"
    return server.manage("shell", "--no-imports", "-v0", "-c", given + script, patience=FILL_PATIENCE).stdout


class SimulatedTrials:
    """One experiment. ``running``: the job names of trials that wait for reports."""

    def __init__(self, server: RunningServer, *, finished: int = 0, curve: int = 0, running: int = 0,
                 into: str = "", wide: int = 0) -> None:
        """``finished`` trials with ``curve`` intermediate results each come before ``running`` ones.

        ``wide``: so many parameters, 22 at least, a nested choice and names such as ``encoder_block/layer3/dropout``;
        the result depends on that one and on ``encoder_block/layer4/learning_rate``. Four others unless it is given.
        ``into``: an experiment that gets them after the trials that it has; a new one unless it is given.
        """
        self._url = f"{server.url}/api/trialkeeper/v1/trials/"
        made = _run(server, FILL, str(finished), str(curve), str(running), TOKEN, into, str(wide))
        self.experiment: str
        self.running: list[str]
        #: Id of a trial that has ended; "" where none has.
        self.one_finished: str
        self.experiment, self.running, self.one_finished = json.loads(made)
        self._entries: dict[str, int] = {}

    def report(self, job_name: str, values: list[float], session: requests.Session | None = None) -> None:
        """Intermediate results of a running trial. One thread at a time for each trial."""
        first = self._entries.get(job_name, 0)
        self._entries[job_name] = first + len(values)
        entries: list[dict[str, Any]] = [
            {"n": first + place + 1, "at": time.time(), "type": "metric", "kind": "PERIODICAL", "parameter_id": 0,
             "sequence": first + place, "value": repr(value)} for place, value in enumerate(values)]
        answer = (session or requests).post(
            f"{self._url}{job_name}/reports", headers={"Authorization": f"Bearer {TOKEN}"}, timeout=60, json={
                "keeper": {"version": 1, "journal_id": job_name, "host": "box", "pid": 1}, "sent_at": time.time(),
                "entries": entries})
        assert answer.status_code == 200, answer.text
        assert answer.json()["accepted"] == first + len(values), answer.text
