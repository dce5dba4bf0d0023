"""Keepers and agents on a machine that gives no thread or no process now: what was to begin waits, and nothing fails.

What the machine gives is said by a file that lists what cannot be had: names of threads, and ``fork``, ``process``.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.trialkeeper.agent_process import AgentProcess
from tests.trialkeeper.keeper_run import ROOT, KeeperRun, wait_until
from trialkeeper import contract, machine
from trialkeeper.starting_threads import LONGEST_PAUSE, SHORTEST_PAUSE, StartingThreads, pause_after

#: Loaded by every Python below: the machine gives nothing of what stands in the file.
MACHINE = """
import errno, os, subprocess, threading

def refused(what):
    try:
        with open(os.environ["SHORT_OF"]) as stream:
            return what in stream.read().split()
    except OSError:
        return False

start, fork, popen = threading.Thread.start, os.fork, subprocess.Popen.__init__

def start_thread(self):
    if refused(self.name):
        raise RuntimeError("can't start new thread")
    start(self)

def fork_process():
    if refused("fork"):
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
    return fork()

def start_process(self, *args, **more):
    if refused("process"):
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
    popen(self, *args, **more)

threading.Thread.start, os.fork, subprocess.Popen.__init__ = start_thread, fork_process, start_process
import trialkeeper.keeper
trialkeeper.keeper.ROOM_PATIENCE = float(os.environ.get("ROOM_PATIENCE", "20"))
"""


class Machine:
    """What it gives to programs that are started with ``variables``."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "short-of"
        (folder / "site").mkdir()
        (folder / "site" / "sitecustomize.py").write_text(MACHINE)
        self.variables = {"PYTHONPATH": f"{folder / 'site'}{os.pathsep}{ROOT}", "SHORT_OF": str(self._file)}

    def is_short_of(self, *what: str) -> None:
        draft = self._file.with_suffix(".new")
        draft.write_text(" ".join(what))
        draft.replace(self._file)


@pytest.fixture
def short(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.fixture
def run(keeper: KeeperRun, short: Machine) -> KeeperRun:
    keeper.variables = short.variables
    return keeper


def waits_for(run: KeeperRun) -> str:
    path = run.folder / contract.WAITS_FILE
    return path.read_text() if path.exists() else ""


# --- a keeper --------------------------------------------------------------------------------


@pytest.mark.parametrize("thread", ["reporter", "prepared", "room"])
def test_a_trial_waits_for_a_thread_and_then_runs(run: KeeperRun, short: Machine, server, thread: str) -> None:
    short.is_short_of(thread)
    process = run.start("echo done")
    said = wait_until(lambda: waits_for(run))
    assert "no thread or process to spare" in said
    assert server.of_type("started") == [], "nothing has begun"
    short.is_short_of()
    assert process.wait(90) == 0
    assert (server.ended["reason"], server.ended["exit_code"]) == ("exited", 0)
    assert waits_for(run) == ""
    assert len(server.of_type("started")) == 1


def test_a_trial_waits_for_a_process_and_then_runs(run: KeeperRun, short: Machine, server) -> None:
    short.is_short_of("process")
    process = run.start("echo done")
    wait_until(lambda: "it is tried again" in run.log())
    assert not run.exists(contract.EXIT_FILE)
    short.is_short_of()
    assert process.wait(90) == 0
    assert server.ended["reason"] == "exited"


@pytest.mark.parametrize("what", ["reporter", "process"])
def test_a_trial_that_waits_for_room_can_be_ended(run: KeeperRun, short: Machine, server, what: str) -> None:
    short.is_short_of(what)
    process = run.start("echo done")
    wait_until(lambda: waits_for(run) or "it is tried again" in run.log())
    process.send_signal(signal.SIGTERM)
    process.wait(90)
    assert server.ended["reason"] == "stopped", "it was told, also without a thread"
    assert not run.exists(contract.STDOUT_FILE) or not (run.folder / contract.STDOUT_FILE).read_text()


def test_a_trial_that_waits_for_room_and_is_cancelled_never_begins(run: KeeperRun, short: Machine, server) -> None:
    short.is_short_of("room")
    process = run.start("echo done")
    wait_until(lambda: waits_for(run))
    (run.folder / contract.CANCELED_FILE).touch()
    process.wait(90)
    assert server.of_type("started") == []
    assert waits_for(run) == ""


def test_a_keeper_that_gets_no_thread_for_its_reports_delivers_without_one_and_ends(
        run: KeeperRun, short: Machine, server) -> None:
    process = run.start("sleep 60")
    wait_until(lambda: server.of_type("started"))
    process.kill()
    process.wait()
    short.is_short_of("reporter")
    started = time.monotonic()
    assert run.start().wait(90) != 0
    assert time.monotonic() - started < 60
    assert "delivering without one" in run.log()
    assert server.ended["reason"] == "lost"


def test_a_keeper_without_a_thread_for_its_reports_ends_where_it_is_told_to_and_no_server_answers(
        run: KeeperRun, short: Machine, server) -> None:
    process = run.start("sleep 60")
    wait_until(lambda: server.of_type("started"))
    process.kill()
    process.wait()
    server.stop()
    short.is_short_of("reporter")
    process = run.start()
    wait_until(lambda: "delivering without one" in run.log())
    process.send_signal(signal.SIGTERM)
    process.wait(90)
    assert run.exists(contract.EXIT_FILE), "the journal keeps what was not delivered"


# --- an agent --------------------------------------------------------------------------------


@pytest.fixture
def agent(keeper: KeeperRun, short: Machine) -> Iterator[Callable[..., AgentProcess]]:
    """Starts agents on that machine; their keepers are ended after them."""
    os.rmdir(keeper.folder)
    agents: list[AgentProcess] = []

    def new(**variables: str) -> AgentProcess:
        agents.append(AgentProcess(**short.variables, **variables))
        return agents[-1]

    yield new
    for each in agents:
        each.kill()
    if keeper.exists(contract.KEEPER_FILE):
        document = keeper.read(contract.KEEPER_FILE)
        if machine.process_lives(document["pid"], document["start_time"]):
            os.kill(document["pid"], signal.SIGKILL)


def test_the_agent_tells_that_an_attempt_waits_for_room_and_why(agent, keeper: KeeperRun, short: Machine) -> None:
    short.is_short_of("room")
    one = agent()
    answer = one.start(keeper, "echo done")  # says it already where the keeper was faster than the answer
    state = wait_until(lambda: next((told for told in (answer, *(event["state"] for event in one.events))
                                     if told.get("waits_for")), None))
    assert (state["state"], "to spare for it now" in state["waits_for"]) == ("starting", True)
    short.is_short_of()
    wait_until(lambda: "ended" in one.states_told(keeper.folder), 40)


def test_a_keeper_that_waits_too_long_gives_way_and_another_one_is_forked(agent, keeper: KeeperRun, short: Machine,
                                                                           server) -> None:
    short.is_short_of("room")
    one = agent(ROOM_PATIENCE="0.2")
    first = one.start(keeper, "echo done")["keeper_pid"]
    wait_until(lambda: "giving way" in keeper.log())
    wait_until(lambda: machine.process_start_time(first) is None, 30)
    assert one.state(keeper.folder)["state"] == "starting", "nobody may take it for lost"
    short.is_short_of()
    wait_until(lambda: any(event["state"]["delivered"] for event in one.events), 40)
    assert server.ended["exit_code"] == 0
    assert len(server.of_type("started")) == 1


def test_an_attempt_that_had_given_way_is_begun_by_the_next_agent_and_not_where_it_was_cancelled(
        agent, keeper: KeeperRun, short: Machine, server) -> None:
    short.is_short_of("room")
    one = agent(ROOM_PATIENCE="0.2")
    one.start(keeper, "echo done")
    wait_until(lambda: "giving way" in keeper.log())
    short.is_short_of("room", "fork")
    one.kill()
    two = agent()
    assert two.state(keeper.folder)["state"] == "starting"
    assert two.ask("stop", folder=str(keeper.folder))["state"]["state"] == "canceled"
    short.is_short_of()
    time.sleep(1.5)  # two looks of the agent at what it watches
    assert two.state(keeper.folder)["state"] == "canceled"
    assert server.of_type("started") == []


def test_a_start_for_which_no_process_can_be_forked_is_refused_for_now_and_leaks_nothing(
        agent, keeper: KeeperRun, short: Machine) -> None:
    one = agent()
    short.is_short_of("fork")
    access = {"urls": [keeper.server.url], "token": keeper.server.token, "url_file": None, "ca_file": None}

    def start() -> dict:
        return one.ask("start", folder=str(keeper.folder), job=keeper.job("echo done"), access=access)

    answer = start()
    assert (answer["ok"], "no process to spare" in answer["error"]) == (False, True)
    open_before = len(os.listdir(f"/proc/{one.process.pid}/fd"))
    for _ in range(3):
        start()
        assert not one.ask("machine")["ok"]
    assert len(os.listdir(f"/proc/{one.process.pid}/fd")) == open_before
    short.is_short_of()
    assert start()["ok"]
    wait_until(lambda: "ended" in one.states_told(keeper.folder))


def test_the_end_of_a_killed_keeper_is_told_once_a_process_can_be_forked(agent, keeper: KeeperRun, short: Machine,
                                                                         server) -> None:
    one = agent()
    pid = one.start(keeper, "sleep 60")["keeper_pid"]
    wait_until(lambda: "running" in one.states_told(keeper.folder))
    short.is_short_of("fork")
    os.kill(pid, signal.SIGKILL)
    time.sleep(4.5)  # more looks than keepers are forked for one attempt
    assert one.process.poll() is None, "the agent lives"
    short.is_short_of()
    wait_until(lambda: any(event["state"]["delivered"] for event in one.events), 30)
    assert server.ended["reason"] == "lost"


# --- how it is tried again -------------------------------------------------------------------


def test_pauses_between_tries_grow_and_are_not_the_same_for_all() -> None:
    assert pause_after(0, lambda: 1.0) == SHORTEST_PAUSE
    assert pause_after(3, lambda: 1.0) == 8 * SHORTEST_PAUSE
    assert pause_after(50, lambda: 1.0) == LONGEST_PAUSE
    assert pause_after(50, lambda: 0.0) == LONGEST_PAUSE / 2


def test_threads_that_wait_are_started_in_order_and_one_that_is_forgotten_is_not(monkeypatch) -> None:
    now, is_short, begun = [0.0], [True], []

    def start(name: str, target: Callable[[], None]) -> None:
        if is_short:
            raise RuntimeError("can't start new thread")
        begun.append(name)

    monkeypatch.setattr("trialkeeper.starting_threads.start_thread", start)
    threads = StartingThreads(clock=lambda: now[0])
    for name in ("one", "two", "three"):
        threads.start(name, lambda: None)
    assert threads.is_short
    assert 0 < threads.seconds_left() <= SHORTEST_PAUSE
    assert threads.forget("two")
    assert not threads.forget("four")
    is_short.clear()
    threads.retry()
    assert begun == [], "not before it is time"
    now[0] += LONGEST_PAUSE
    threads.retry()
    assert begun == ["one", "three"]
    assert not threads.is_short
    assert threads.seconds_left() == float("inf")


def test_a_defect_in_starting_a_thread_is_not_taken_for_a_lack_of_room(monkeypatch) -> None:
    def start(name: str, target: Callable[[], None]) -> None:
        raise RuntimeError("something else")

    monkeypatch.setattr("trialkeeper.starting_threads.start_thread", start)
    with pytest.raises(RuntimeError, match="something else"):
        StartingThreads().start("one", lambda: None)
