"""Jobs of a cluster that stay and take one trial after the other, on a real server, through kills."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.end_to_end.platforms.platform_doubles import Platform, azureml, dlts, openpai, openpai_without_storage
from tests.end_to_end.running_server import RunningServer
from tests.fakes.kubernetes.api import KubernetesApiDouble
from tests.fakes.slurm_cluster import SlurmCluster
from tests.trialkeeper.keeper_run import wait_until
from trialkeeper import machine

#: What a trial leaves behind, by its number: a daemon that ignores TERM; files all over its folder, from which it has
#: gone; a full folder; a process that does not end when it is told to; an exit without a word. Each looks first whether
#: it finds anything of another one.
TRIAL = """
import os, signal, subprocess, sys, tempfile, time
import nni
told, number = sys.argv[1], int(os.environ["NNI_TRIAL_SEQ_ID"])
parameters = nni.get_next_parameter()
with open(os.path.join(told, "begun"), "a") as stream:
    stream.write("%d %d %s\\n" % (number, os.getpid(), os.getcwd()))
dirty = os.listdir(".") != ["trial.py"] or bool(os.listdir(tempfile.gettempdir()))
place = os.environ.get("SLURM_JOB_ID") or os.getcwd().split("/volumes/")[0].rpartition("/")[2]
daemon = os.path.join(told, "daemon-" + place)
if os.path.exists(daemon):
    try:
        os.kill(int(open(daemon).read()), 0)
        dirty = True
    except ProcessLookupError:
        pass
open(os.path.join(tempfile.gettempdir(), "left"), "w").close()
kind = number % 5
if kind == 0:
    subprocess.Popen(["sh", "-c", "trap '' TERM HUP; echo $$ >%s; while :; do sleep 0.1; done" % daemon],
                     start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not os.path.exists(daemon) or not open(daemon).read():
        time.sleep(0.01)
elif kind == 1:
    os.makedirs("a/b")
    os.chmod("a", 0)
    os.chdir("/")
elif kind == 2:
    with open("large", "wb") as stream:
        stream.write(bytes(4 * 2**20))
elif kind == 3:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
time.sleep(float(sys.argv[2]))
nni.report_final_result(-1.0 if dirty else parameters["x"])
if kind == 4:
    os._exit(0)
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[KubernetesApiDouble]:
    with KubernetesApiDouble(tmp_path / "cluster") as cluster:
        yield cluster


def launched(server: RunningServer, tmp_path: Path, service: dict[str, Any], trials: int, at_once: int,
             seconds: float, **more: Any) -> str:
    code, told = tmp_path / "code", tmp_path / "told"
    code.mkdir()
    told.mkdir()
    (code / "trial.py").write_text(TRIAL)
    return server.launch({
        "trialCommand": f"python3 trial.py {told} {seconds}", "trialCodeDirectory": str(code), "maxTrialNumber": trials,
        "trialConcurrency": at_once, "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}},
        "tuner": {"name": "Random"}, "trainingService": {"reuseMode": True, **service}, **more}, code)


def on_kubernetes(cluster: KubernetesApiDouble) -> dict[str, Any]:
    return {"platform": "kubernetes", "kubeconfig": str(cluster.kubeconfig),
            "worker": {"dockerImage": "example/trial:1"}}


def running_pods(cluster: KubernetesApiDouble) -> list[str]:
    return [pod["metadata"]["name"] for pod in cluster.store.all("pods")
            if pod["status"].get("phase") in ("Pending", "Running")]


def trial_processes(tmp_path: Path) -> list[int]:
    """Those that name the folder in which trials tell what they see."""
    found = []
    for pid in machine.all_pids():
        with contextlib.suppress(OSError):
            if str(tmp_path / "told").encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
    return found


def trials_of(server: RunningServer, experiment: str) -> list[dict[str, Any]]:
    return server.get_all(f"experiments/{experiment}/trials/")


def assert_nobody_was_touched(trials: list[dict[str, Any]], number: int) -> None:
    """Each trial has succeeded once, and none has found anything of another one."""
    assert sorted(trial["sequence_id"] for trial in trials) == list(range(number))
    assert [(trial["status"], trial["message"]) for trial in trials] == [("SUCCEEDED", "")] * number, trials
    assert all(0 <= trial["final_number"] <= 1 for trial in trials), "a trial has found something of another one"


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_trials_on_kubernetes_share_pods_and_leave_nothing_for_the_next_one(
        make_server: Callable[..., RunningServer], tmp_path: Path, cluster: KubernetesApiDouble) -> None:
    server = make_server()
    server.start(env={"NNIWEB_PUBLIC_URL": server.url})
    experiment = launched(server, tmp_path, on_kubernetes(cluster), trials=10, at_once=2, seconds=0.05)
    server.wait_for_experiment(experiment)
    trials = trials_of(server, experiment)
    assert_nobody_was_touched(trials, 10)
    begun = [line.split() for line in (tmp_path / "told" / "begun").read_text().splitlines()]
    assert len({folder for _, _, folder in begun}) == 10
    assert len(cluster.store.all("jobs")) == 2
    assert cluster.verbs["create", "secrets"] + cluster.verbs["create", "jobs"] + cluster.verbs["patch", "secrets"] == 6
    server.wait_until(lambda: not running_pods(cluster), 60, "the pods end when the experiment has")


@pytest.mark.slow
@pytest.mark.kill_table("warm places: a pod, a keeper and the server are killed while trials share pods")
@pytest.mark.timeout(600)
def test_pods_keepers_and_the_server_are_killed_while_trials_share_pods(
        make_server: Callable[..., RunningServer], tmp_path: Path, cluster: KubernetesApiDouble, seed: int) -> None:
    random = Random(seed)
    server = make_server()
    server.start(env={"NNIWEB_PUBLIC_URL": server.url})
    experiment = launched(server, tmp_path, on_kubernetes(cluster), trials=20, at_once=3, seconds=1.5,
                          retry={"onPlatformFailure": 5})
    begun = tmp_path / "told" / "begun"

    def lines() -> list[list[str]]:
        return [line.split() for line in begun.read_text().splitlines()] if begun.exists() else []

    def kill_pod() -> None:
        if pods := running_pods(cluster):
            cluster.node.kill(random.choice(pods), "Error")

    def kill_keeper() -> None:
        stat = machine.process_stat(int(lines()[-1][1]))  # the shell, whose parent is the keeper
        if stat is not None and (shell := machine.process_stat(int(stat[1][1]))) is not None:
            os.kill(int(shell[1][1]), signal.SIGKILL)

    def kill_server() -> None:
        server.kill()
        wait_until(lambda: not trial_processes(tmp_path), what="the end of all trials, whose places then ask nobody")
        server.start(env={"NNIWEB_PUBLIC_URL": server.url})

    kills, count = [kill_pod, kill_keeper, kill_server, kill_pod], 0
    random.shuffle(kills)
    for kill in kills:
        count = max(count, len(lines())) + random.randint(2, 3)
        # at the latest with the last trial but two: then there is something to kill
        server.wait_until(lambda: len(lines()) >= min(count, 18), 120, "further trials have begun")  # noqa: B023
        kill()
    server.wait_for_experiment(experiment, patience=300)
    trials = trials_of(server, experiment)
    assert_nobody_was_touched(trials, 20)
    server.wait_until(lambda: not running_pods(cluster), 90, "no pod is left")
    assert trial_processes(tmp_path) == []


@pytest.mark.slow
@pytest.mark.kill_table("warm places: a job of a real Slurm is cancelled while trials share jobs")
@pytest.mark.timeout(400)
def test_trials_on_a_real_slurm_share_jobs_also_when_one_of_them_is_cancelled(
        make_server: Callable[..., RunningServer], tmp_path: Path, seed: int) -> None:
    random, shared = Random(seed), tmp_path / "shared"
    shared.mkdir()
    with SlurmCluster() as slurm:
        server = make_server({"SLURM_CONF": str(slurm.config)})
        server.start(env={"NNIWEB_PUBLIC_URL": server.url})
        experiment = launched(server, tmp_path, {"platform": "slurm", "workingFolder": str(shared)}, trials=12,
                              at_once=2, seconds=0.5, retry={"onPlatformFailure": 3})
        begun = tmp_path / "told" / "begun"

        def folders() -> list[Path]:
            return [Path(line.split()[2]) for line in begun.read_text().splitlines()] if begun.exists() else []

        some = random.randint(4, 8)
        server.wait_until(lambda: len(folders()) >= some, 120, "some trials have begun")
        jobs = slurm.command("squeue", "-h", "-o", "%i").split()
        assert len(jobs) == 2, jobs
        slurm.command("scancel", "--signal=KILL", "--full", random.choice(jobs))
        server.wait_for_experiment(experiment, patience=200)
        assert_nobody_was_touched(trials_of(server, experiment), 12)
        server.wait_until(lambda: not slurm.command("squeue", "-h", "-o", "%i").split(), 90, "no job is left")
        assert trial_processes(tmp_path) == []
        assert len({folder.parent.name for folder in folders()}) >= 12
        assert all((folder.parent / "stdout").exists() for folder in folders()), "folders of trials stay on Slurm"


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("platform", [openpai, openpai_without_storage, dlts, azureml], ids=lambda make: make.__name__)
def test_trials_on_other_platforms_share_a_job(make_server: Callable[..., RunningServer], tmp_path: Path,
                                               platform: Callable[[Path, ExitStack], Platform]) -> None:
    with ExitStack() as ends:
        section, env = platform(tmp_path / "platform", ends)
        server = make_server(env)
        server.start(env={"NNIWEB_PUBLIC_URL": server.url})
        experiment = launched(server, tmp_path, section, trials=5, at_once=1, seconds=0.05)
        server.wait_for_experiment(experiment, patience=200)
        trials = trials_of(server, experiment)
        assert_nobody_was_touched(trials, 5)
        places = [server.get(f"trials/{trial['id']}/")["place"] for trial in trials]
        assert {place["trials_count"] for place in places} == {5}, places
        server.wait_until(lambda: not trial_processes(tmp_path), 60, "nothing of a trial is left")
