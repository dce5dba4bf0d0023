"""What warm places (``reuseMode``) save: trials on Kubernetes and on a real Slurm, with and without them.

On Kubernetes, a double of the API whose pods are real processes and take 10 s to start runs trials of one second, four
at a time. The ideal is the start of one pod and the trials one after the other. Slurm runs trials that do nothing, one
at a time.

    .venv/bin/python benchmarks/warm_places.py [--trials 100] [--plain 100] [--start 10] [--slurm-trials 20]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.reporting import Report  # noqa: E402
from tests.end_to_end.running_server import RunningServer  # noqa: E402
from tests.fakes.kubernetes.api import KubernetesApiDouble  # noqa: E402
from tests.fakes.slurm_cluster import SlurmCluster  # noqa: E402

AT_ONCE, SECONDS = 4, 1.0
#: At most so many times the ideal, requests to the API server for a trial, and milliseconds between two trials.
MOST_OF_IDEAL, MOST_REQUESTS, MOST_BETWEEN = 1.2, 0.5, 100.0
PATIENCE = 1200.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=100, help="on Kubernetes, with warm places")
    parser.add_argument("--plain", type=int, default=100, help="the same without")
    parser.add_argument("--start", type=float, default=10.0, help="seconds that a pod takes to start")
    parser.add_argument("--slurm-trials", type=int, default=20)
    options = parser.parse_args()
    report = Report(__file__)
    on_kubernetes(report, options)
    on_slurm(report, options.slurm_trials)
    return report.finish()


def run(server: RunningServer, folder: Path, command: str, trials: int, at_once: int, service: dict[str, Any]
        ) -> list[tuple[float, float]]:
    """When each trial began and ended, in seconds since 1970, in the order of their beginning."""
    folder.mkdir(exist_ok=True)
    experiment = server.launch({
        "trialCommand": command, "trialCodeDirectory": str(folder), "trialConcurrency": at_once,
        "maxTrialNumber": trials, "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}},
        "tuner": {"name": "Random"}, "trainingService": service}, folder)
    server.wait_for_experiment(experiment, patience=PATIENCE)
    done = server.get_all(f"experiments/{experiment}/trials/")
    assert [trial["status"] for trial in done] == ["SUCCEEDED"] * trials, done
    return sorted((seconds(trial["started_at"]), seconds(trial["ended_at"])) for trial in done)


def seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def on_kubernetes(report: Report, options: argparse.Namespace) -> None:
    for reuse, trials in ((True, options.trials), (False, options.plain)):
        words = "in warm places" if reuse else "in pods of their own"
        with tempfile.TemporaryDirectory() as name, KubernetesApiDouble(Path(name) / "cluster") as cluster, \
                closing(RunningServer(Path(name) / "data")) as server:
            cluster.node.start_seconds = options.start
            server.start(env={"NNIWEB_PUBLIC_URL": server.url})
            times = run(server, Path(name) / "code", f"sleep {SECONDS}", trials, AT_ONCE, {
                "platform": "kubernetes", "kubeconfig": str(cluster.kubeconfig), "reuseMode": reuse,
                "worker": {"dockerImage": "example/trial:1"}})
            requests = sum(cluster.verbs.values()) / trials
        # from the submission of the first pods, which started together
        took = options.start + max(end for _, end in times) - times[0][0]
        ideal = options.start + trials * SECONDS / AT_ONCE
        report.add(f"{trials} trials of {SECONDS:g} s on Kubernetes {words}, wall time", took / ideal, "x the ideal",
                   limit=MOST_OF_IDEAL if reuse else None,
                   beside=f"{took:.1f} s, ideal {ideal:.1f} s; {AT_ONCE} at a time, pods start in {options.start:g} s")
        report.add(f"requests to the API server for a trial {words}", requests, "requests",
                   limit=MOST_REQUESTS if reuse else None)


def on_slurm(report: Report, trials: int) -> None:
    between: dict[bool, float] = {}
    try:
        with tempfile.TemporaryDirectory() as name, SlurmCluster() as slurm, \
                closing(RunningServer(Path(name) / "data", {"SLURM_CONF": str(slurm.config)})) as server:
            shared = Path(name) / "shared"
            shared.mkdir()
            server.start(env={"NNIWEB_PUBLIC_URL": server.url})
            for reuse in (True, False):
                times = run(server, Path(name) / "code", "true", trials, 1, {
                    "platform": "slurm", "workingFolder": str(shared), "channel": "http", "reuseMode": reuse})
                between[reuse] = statistics.median(begun - ended for (_, ended), (begun, _) in
                                                   zip(times, times[1:], strict=False))
    except pytest.skip.Exception as why:
        print(f"Nothing is measured on Slurm: {why}", flush=True)
        return
    report.add("between two trials on Slurm in a warm place, median", 1000 * between[True], "ms", limit=MOST_BETWEEN)
    report.add("between two trials on Slurm in jobs of their own, median", 1000 * between[False], "ms")
    report.add("jobs of their own by warm places", between[False] / between[True], "x")


if __name__ == "__main__":
    sys.exit(main())
