"""1,000 and 20,000 trials at once on Kubernetes: what they cost the API server and this process.

    .venv/bin/python benchmarks/kubernetes_scale.py [--trials 1000 20000]

The API is the double of the tests, in a process of its own; pods are simulated there, because a real keeper costs
18 MB. Printed: how long submitting and ending take, requests by verb, and memory per trial of the service's process.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.reporting import Report  # noqa: E402
from trainingservice.base import ServiceContext  # noqa: E402
from trainingservice.errors import TemporaryError  # noqa: E402
from trainingservice.kubernetes.config import JobClusterSettings, JobTrialOptions  # noqa: E402
from trainingservice.kubernetes.service import KubernetesTrainingService  # noqa: E402
from trainingservice.kubernetes_base.config import RoleSettings  # noqa: E402
from trainingservice.trial_job import HyperParameters, JobApplicationForm, KeeperAccess, TrialCode  # noqa: E402
from trainingservice.trial_job_status import TrialJobStatus  # noqa: E402

#: Seconds that are waited for each trial, over a minute for all.
PATIENCE_FOR_EACH = 0.2
#: At most so many times the requests for a trial where there are fewest trials.
CONSTANT = 1.05
#: More requests for each trial make the benchmark fail: Secret, Job, who owns the Secret, and a few asked twice.
MOST_REQUESTS = 3.1
#: Kilobytes of memory for a running trial, and requests in five seconds in which nothing happens.
MOST_MEMORY, MOST_WHILE_RUNNING = 200.0, 5
#: Requests that come once, however many trials there are: lists, watches, the keeper, the end.
BESIDE = 10


def serve(folder: Path) -> None:
    """The API server: pods run at once, and all end when the file "end" appears."""
    from tests.fakes.kubernetes.api import KubernetesApiDouble
    from tests.fakes.kubernetes.store import now_text

    with KubernetesApiDouble(folder / "cluster") as cluster:
        def set_status(pod: dict, **status: object) -> None:
            cluster.store.change("pods", "default", pod["metadata"]["name"], lambda item: item["status"].update(status))

        def start(pod: dict) -> None:
            cluster.store.change("pods", "default", pod["metadata"]["name"],
                                 lambda item: item["spec"].__setitem__("nodeName", "node1"))
            set_status(pod, phase="Running", containerStatuses=[
                {"name": "trial", "image": "example/trial:1", "state": {"running": {"startedAt": now_text()}}}])

        cluster.node.instead = start
        print(cluster.kubeconfig, flush=True)
        while not (folder / "end").exists():
            time.sleep(0.1)
        end = json.dumps({"exit_code": 0, "signal": None, "reason": "exited", "message": "", "duration": 1.0,
                          "at": time.time()})
        for pod in cluster.store.all("pods"):
            set_status(pod, phase="Succeeded", containerStatuses=[
                {"name": "trial", "image": "example/trial:1", "state": {"terminated": {
                    "exitCode": 0, "reason": "Completed", "message": end, "startedAt": now_text(),
                    "finishedAt": now_text()}}}])
        while not (folder / "stop").exists():
            time.sleep(0.1)
        counts = Counter(f"{verb} {plural}" for (verb, plural), count in cluster.verbs.items() for _ in range(count))
        (folder / "requests.json").write_text(json.dumps(counts))


def resident() -> int:
    """Bytes of memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def wait(what: str, condition: Callable[[], bool], patience: float) -> float:
    """Seconds until it is true."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > patience:
            raise SystemExit(f"not within {patience:.0f} s: {what}")
        time.sleep(0.2)  # looking at all of them costs time, too
    return time.monotonic() - began


def wait_for_end(service: KubernetesTrainingService, status: TrialJobStatus, count: int, what: str) -> float:
    """Seconds until so many jobs have the status."""
    return wait(what, lambda: sum(job.status is status for job in service.list_trial_jobs()) == count,
                60 + count * PATIENCE_FOR_EACH)


def removed(service: KubernetesTrainingService) -> bool:
    """Remove all of it, as the worker does: again where the API takes too long for one answer."""
    try:
        service.clean_up_experiment("ebenchmark00")
    except TemporaryError as error:
        print(f"  {error}", flush=True)
        return False
    return True


@contextmanager
def api_server(folder: Path) -> Iterator[Path]:
    """A process with the API; the kubeconfig that leads to it."""
    server = subprocess.Popen([sys.executable, __file__, "--serve", str(folder)], stdout=subprocess.PIPE, text=True,
                              start_new_session=True)  # Ctrl-C is for this program, which ends it
    try:
        assert server.stdout is not None
        yield Path(server.stdout.readline().strip())
        (folder / "stop").touch()
        server.wait(60)
    finally:
        if server.poll() is None:
            server.kill()
            server.wait()


def measure(count: int, report: Report) -> float:
    """Requests for a trial."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with api_server(folder) as kubeconfig:
            archive = folder / "code.tar.gz"
            archive.write_bytes(b"")
            code = TrialCode(archive=archive, sha256="0" * 64)
            service = KubernetesTrainingService(
                JobClusterSettings(kubeconfig=kubeconfig, max_unfinished_objects=count),
                ServiceContext("benchmark", folder / "state"))
            service.resume_trial_jobs([])
            threading.Thread(target=service.run, daemon=True).start()
            options = JobTrialOptions(worker=RoleSettings(docker_image="example/trial:1"))
            forms = [JobApplicationForm(
                job_name=f"t{number:011d}", trial_job_id=f"t{number:011d}", experiment_id="ebenchmark00",
                sequence_id=number, hyper_parameters=HyperParameters('{"parameters": {"x": 0.5}}'), command="true",
                keeper=KeeperAccess(("http://127.0.0.1:9",), "t" * 43), code=code, options=options)
                for number in range(count)]
            before = resident()
            for form in forms:
                service.submit_trial_job(form)
            started = wait_for_end(service, TrialJobStatus.RUNNING, count, "all run")
            memory = (resident() - before) / count
            report.add(f"{count:,} trials submitted and seen running", started, "s",
                       beside=f"{count / started:.0f} a second")
            report.add(f"memory of the service's process for a running trial of {count:,}", memory / 1024, "kB",
                       limit=MOST_MEMORY)
            asked = service.api.requests
            time.sleep(5)
            report.add(f"requests in 5 s while {count:,} only run", service.api.requests - asked, "requests",
                       limit=MOST_WHILE_RUNNING)
            (folder / "end").touch()
            ended = wait_for_end(service, TrialJobStatus.SUCCEEDED, count, "all have ended")
            report.add(f"{count:,} ended at once; until all ends were seen", ended, "s")
            wait("everything is removed", lambda: removed(service), 60 + count * PATIENCE_FOR_EACH)
            service.clean_up()
        requests = json.loads((folder / "requests.json").read_text())
    print("  " + ", ".join(f"{verb}: {times}" for verb, times in sorted(requests.items(), key=lambda pair: -pair[1])))
    for_each = (sum(requests.values()) - BESIDE) / count
    report.add(f"requests for a trial of {count:,}", for_each, "requests", limit=MOST_REQUESTS)
    return for_each


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, nargs="+", default=[1_000, 20_000])
    sizes = parser.parse_args().trials
    report = Report(__file__)
    for_each = [measure(count, report) for count in sizes]
    if len(sizes) > 1:
        report.add(f"requests for a trial of {sizes[-1]:,} beside {sizes[0]:,}", for_each[-1] / for_each[0], "x",
                   limit=CONSTANT)
    return report.finish()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(Path(sys.argv[2]))
    else:
        sys.exit(main())
