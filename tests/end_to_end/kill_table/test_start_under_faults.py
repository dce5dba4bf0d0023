"""Rows of the kill table: a server is started while something is wrong, and comes up by itself once that is over."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.end_to_end.installation.test_full_disk import fill
from tests.end_to_end.kill_table.witnessed_experiment import WitnessedExperiment
from tests.end_to_end.running_server import RunningServer
from trainingservice.testing.processes import processes_of

pytestmark = pytest.mark.timeout(300)
#: A server that waits for locks for half a second, so that many tries fit into a test.
IMPATIENT = ("-m", "tests.end_to_end.kill_table.impatient_server", "0.5")


@contextmanager
def locked(server: RunningServer) -> Iterator[None]:
    """While this block runs another process, this one, is writing into the server's database."""
    with closing(sqlite3.connect(server.data_folder / "nniweb.sqlite3", isolation_level=None)) as database:
        database.execute("BEGIN IMMEDIATE")
        yield
        database.execute("ROLLBACK")


def readiness(server: RunningServer) -> tuple[int, dict[str, Any]]:
    """The status and the document of ``/readyz``; (0, {}) where nobody answers."""
    try:
        answer = requests.get(f"{server.url}/readyz", timeout=90)
        return answer.status_code, answer.json()
    except requests.RequestException:
        return 0, {}


def why_not_ready(server: RunningServer) -> str:
    """The sentences of the checks that are not well; "" while nobody answers, and where all is well."""
    _, document = readiness(server)
    return " ".join(check["message"] for check in document.get("checks", []) if not check["ok"])


def comes_up_and_works(server: RunningServer, folder: Path) -> None:
    """The process that was started under a fault, and no other, is ready and finishes an experiment."""
    pid = server.pid
    server.wait_until(lambda: readiness(server)[0] == 200 and server.answers(), 90, "it is ready")
    WitnessedExperiment(server, folder, trials=3, concurrency=3).launch().nothing_is_lost()
    assert server.is_alive
    assert server.pid == pid


@pytest.mark.slow
@pytest.mark.kill_table("a start while another program has locked the database")
def test_a_server_started_while_its_database_is_locked_comes_up_with_a_worker(
        make_server: Callable[..., RunningServer], tmp_path: Path, seed: int) -> None:
    server = make_server()
    server.start()
    server.stop()
    with locked(server):
        server.start(program=IMPATIENT, wait=False)
        server.wait_until(lambda: "database is locked" in why_not_ready(server), 60, "it says why it is not ready")
        assert requests.get(f"{server.url}/healthz", timeout=90).json() == {"alive": True}
    comes_up_and_works(server, tmp_path / "experiment")


@pytest.mark.slow
@pytest.mark.kill_table("a start while another program has locked the database for longer than is waited for a lock")
def test_a_server_started_while_its_database_is_locked_for_long_comes_up(
        make_server: Callable[..., RunningServer], tmp_path: Path, seed: int) -> None:
    server = make_server()
    server.start()
    server.stop()
    with locked(server):
        server.start(wait=False)
        server.wait_until(lambda: "database is locked" in why_not_ready(server), 90, "it says why it is not ready")
    comes_up_and_works(server, tmp_path / "experiment")


@pytest.mark.slow
@pytest.mark.kill_table("the first start of an installation while its database is locked")
def test_a_first_start_with_a_locked_database_comes_up(
        make_server: Callable[..., RunningServer], tmp_path: Path, seed: int) -> None:
    server = make_server()
    server.data_folder.mkdir(mode=0o700)
    with locked(server):
        server.start(program=IMPATIENT, wait=False)
        server.wait_until(lambda: "database is locked" in why_not_ready(server), 60, "it says why it is not ready")
    comes_up_and_works(server, tmp_path / "experiment")


#: How a full disk is told: by SQLite, or by the system.
FULL_DISK = ("full", "No space left", "disk I/O error")


@pytest.mark.slow
@pytest.mark.kill_table("a start while the disk of the data folder is full")
def test_a_server_started_on_a_full_disk_comes_up_once_there_is_room(
        small_disk: Path, server_on_small_disk: RunningServer, tmp_path: Path, seed: int) -> None:
    server = server_on_small_disk.start()
    server.stop()
    full = fill(small_disk)
    server.start(wait=False)
    server.wait_until(lambda: any(words in why_not_ready(server) for words in FULL_DISK), 60,
                      "it says why it is not ready")
    full.unlink()
    comes_up_and_works(server, tmp_path / "experiment")


@pytest.mark.slow
@pytest.mark.kill_table("the worker of a running server fails by a defect, again and again")
def test_the_worker_of_a_server_that_fails_comes_back_by_itself(
        make_server: Callable[..., RunningServer], tmp_path: Path, seed: int) -> None:
    server, broken = make_server(), tmp_path / "broken"
    broken.touch()
    server.start(program=("-m", "tests.end_to_end.kill_table.brittle_server", str(broken)), wait=False)
    server.wait_until(lambda: "worker\" of the server failed (RecursionError)" in why_not_ready(server), 60,
                      "it says which part has failed, and how")
    doctor = server.manage("doctor", check=False)
    assert (doctor.returncode, "worker\" of the server failed" in doctor.stdout) == (1, True), doctor.stdout
    broken.unlink()
    comes_up_and_works(server, tmp_path / "experiment")


class ProcessLimit:
    """A group of processes that may have so many processes and threads together (the kernel's ``pids`` controller)."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir()

    def add(self, pid: int) -> None:
        """This process, and all that it starts from now on."""
        (self._folder / "cgroup.procs").write_text(str(pid))

    @property
    def count(self) -> int:
        return int((self._folder / "pids.current").read_text())

    def set(self, most: int | None) -> None:
        (self._folder / "pids.max").write_text("max" if most is None else str(most))

    def remove(self) -> None:
        deadline = time.monotonic() + 20
        while self.count:
            assert time.monotonic() < deadline, "processes are left"
            time.sleep(0.05)
        self._folder.rmdir()


@pytest.fixture
def process_limit(tmp_path: Path) -> Iterator[ProcessLimit]:
    """To be asked for before servers are, so that it goes when these have ended. Root only."""
    pids = Path("/sys/fs/cgroup/pids")
    if os.geteuid() != 0 or not os.access(pids / "cgroup.procs", os.W_OK):
        pytest.skip("needs root: machines of their own, other users, small disks")
    made = ProcessLimit(pids / f"nniweb-{os.getpid()}-{tmp_path.name[-20:]}")
    yield made
    made.set(None)
    made.remove()


@pytest.mark.slow
@pytest.mark.kill_table("trials are started while there is hardly a process or thread for them")
def test_trials_for_which_there_is_no_process_or_thread_wait_and_none_fails(
        process_limit: ProcessLimit, make_server: Callable[..., RunningServer], tmp_path: Path, seed: int) -> None:
    server, go = make_server().start(), tmp_path / "go"
    WitnessedExperiment(server, tmp_path / "first", trials=1, concurrency=1).launch().nothing_is_lost()
    [agent] = [process for process in server.processes() if process.command.endswith(" agent")]  # came with it
    process_limit.add(agent.pid)
    process_limit.set(14)  # a trial that runs takes three: its keeper, the thread of its reports, its process
    experiment = WitnessedExperiment(server, tmp_path / "experiment", trials=9, concurrency=9, go=go).launch()

    def waiting() -> list[str]:
        return [row["message"] for row in experiment.rows() if row["status"] == "WAITING"]

    server.wait_until(lambda: experiment.begun() >= 2 and any("to spare for it now" in said for said in waiting()), 90,
                      "some run, and others wait and say for what")
    assert {row["status"] for row in experiment.rows()} <= {"WAITING", "RUNNING"}
    assert experiment.begun() < 9
    process_limit.set(None)
    go.touch()
    experiment.nothing_is_lost()


@pytest.mark.slow
@pytest.mark.kill_table("the server has no thread to spare while trials report")
def test_a_server_without_a_thread_to_spare_says_503_and_loses_nothing(
        process_limit: ProcessLimit, make_server: Callable[..., RunningServer], tmp_path: Path, seed: int) -> None:
    server, go = make_server().start(), tmp_path / "go"
    experiment = WitnessedExperiment(server, tmp_path / "experiment", trials=6, concurrency=3, steps=60, go=go).launch()
    server.wait_until(lambda: experiment.begun() == 3)
    process_limit.add(server.pid)
    process_limit.set(1)
    statuses = set[int]()

    def refused() -> bool:
        answer = server.request("GET", f"experiments/{experiment.id}/trials/")
        statuses.add(answer.status_code)
        return answer.status_code == 503 and answer.headers["Retry-After"] == "5"

    server.wait_until(refused, what="requests are refused")
    assert readiness(server)[0] == 503
    server.wait_until(lambda: not refused() or experiment.reported() == 180, what="trials report meanwhile")
    go.touch()  # they end, and others are to begin
    server.wait_until(lambda: not processes_of([str(experiment.witnesses)]), what="the first trials end")
    assert statuses <= {200, 503}
    process_limit.set(None)
    experiment.nothing_is_lost()
