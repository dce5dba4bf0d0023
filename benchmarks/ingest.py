"""How many keeper reports the server takes, each answered only when it is durable.

Starts the real server on an empty data folder, makes attempts in its database and posts reports to
them from client processes, over kept-alive connections as keepers use them. Prints posts and metrics
per second and the time of an answer, for reports of one metric and of a hundred, and each figure as a
ratio of the limit stated below (more than 1 is better than the limit; less, and it ends with 1).

    .venv/bin/python benchmarks/ingest.py [--seconds 5] [--connections 16]
"""

import argparse
import http.client
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.end_to_end.running_server import RunningServer  # noqa: E402

#: Metrics per report -> posts per second this benchmark holds the server to, on two cores that the
#: clients share with it.
LIMITS = {1: 400.0, 100: 150.0}

MAKE_ATTEMPTS = """
import json, sys
from django.utils import timezone
from nniweb.experiments.models import *
from nniweb.experiments.models.account import hash_of
count = int(sys.argv[1])
cluster = Cluster.objects.create(name="nowhere", platform="scripted", enabled=False)
experiment = Experiment.objects.create(name="ingest", owner=User.objects.first(), cluster=cluster, seed=1,
    search_space={}, tuner={"name": "Random"}, optimize_mode="minimize", trial_command="true", trial_concurrency=1,
    created_at=timezone.now(), status="PAUSED")
trials = Trial.objects.bulk_create(Trial(experiment=experiment, sequence_id=n, created_at=timezone.now())
                                   for n in range(count))
Attempt.objects.bulk_create(Attempt(trial=trial, job_name=trial.public_id, created_at=timezone.now(),
    stage="submitted", token_hashes=[hash_of("token")]) for trial in trials)
print(json.dumps([trial.public_id for trial in trials]))
"""


def post_for(port: int, job_name: str, metrics: int, seconds: float,
             results: "multiprocessing.Queue[list[float]]") -> None:
    """One keeper: posts reports of so many metrics, each as soon as the last was answered."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    times: list[float] = []
    n = 1
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        entries = [{"n": n + index, "at": time.time(), "type": "metric", "kind": "PERIODICAL", "parameter_id": 0,
                    "sequence": n + index, "value": "0.12345678"} for index in range(metrics)]
        n += metrics
        body = json.dumps({"keeper": {"version": 1, "journal_id": job_name, "host": "box", "pid": 1},
                           "sent_at": time.time(), "entries": entries})
        began = time.monotonic()
        connection.request("POST", f"/api/trialkeeper/v1/trials/{job_name}/reports", body,
                           {"Authorization": "Bearer token", "Content-Type": "application/json"})
        response = connection.getresponse()
        answer = json.loads(response.read())
        times.append(time.monotonic() - began)
        assert response.status == 200, answer
        assert answer["accepted"] == n - 1, answer
    results.put(times)


def measure(server: RunningServer, job_names: list[str], metrics: int, seconds: float) -> float:
    """The posts per second as a ratio of the limit."""
    results: multiprocessing.Queue[list[float]] = multiprocessing.Queue()
    clients = [multiprocessing.Process(target=post_for, args=(server.port, name, metrics, seconds, results))
               for name in job_names]
    for client in clients:
        client.start()
    times = sorted(sum((results.get() for _ in clients), []))
    for client in clients:
        client.join()
    rate = len(times) / seconds
    print(f"{metrics:4} metrics per report, {len(clients)} connections: {rate:7.0f} posts/s, "
          f"{rate * metrics:8.0f} metrics/s, answer {1000 * statistics.median(times):.0f} ms median, "
          f"{1000 * times[int(len(times) * 0.99)]:.0f} ms p99; {rate / LIMITS[metrics]:.1f} x the limit")
    return rate / LIMITS[metrics]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--connections", type=int, default=16)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        server = RunningServer(Path(folder) / "data").start()
        try:
            made = subprocess.run(
                [sys.executable, "-c", "import django; django.setup()\n" + MAKE_ATTEMPTS, str(2 * options.connections)],
                cwd=ROOT, env={**server.environment, "DJANGO_SETTINGS_MODULE": "nniweb.settings",
                               "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True)
            names = json.loads(made.stdout)
            print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
            ratios = [measure(server, names[index::2], metrics, options.seconds)
                      for index, metrics in enumerate(LIMITS)]
        finally:
            server.close()
    return 1 if min(ratios) < 1 else 0


if __name__ == "__main__":
    sys.exit(main())
