"""A trial has the main memory and the processors that it asked for: kept by the kernel, else watched by its keeper."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.trialkeeper.keeper_run import KeeperRun, wait_until
from trialkeeper import contract, control_group, trials_group
from trialkeeper.group_limits import Limits, limit_group
from trialkeeper.machine_share import memory_for_trials, usable_cpus, usable_memory
from trialkeeper.memory_watch import MemoryWatch
from trialkeeper.trials_group import made_in, place_for

_GB, _MB = 1024 ** 3, 1024 ** 2
TAKES = "import time; held = bytearray(120 * 1024 ** 2); open('taken', 'w').close(); time.sleep(60)"


def group(path: Path, **files: str) -> Path:
    """A folder with the files that a control group has; in a test they are only written and read."""
    path.mkdir(parents=True, exist_ok=True)
    for name, text in {"cgroup.controllers": "cpu memory pids\n", "cgroup.subtree_control": "", "cgroup.procs": "",
                       "cgroup.events": "populated 1\n", **{name.replace("__", "."): text
                                                             for name, text in files.items()}}.items():
        (path / name).write_text(text)
    return path


def test_a_trial_that_takes_more_than_its_memory_is_ended_and_says_so(keeper: KeeperRun, server) -> None:
    limit = 60 * _MB
    assert keeper.run(keeper.python_command(TAKES), limits={"memory_bytes": limit}) == 137
    end = server.ended
    assert (end["reason"], end["signal"]) == ("exited", signal.SIGKILL)
    told = end["out_of_memory"]
    assert (told["memory"], told["by"], told["limit"], told["line"]) == ("main", "limit", limit, "")
    assert told["taken"] > limit
    assert end["duration"] < 30


def test_all_processes_of_the_trial_count_and_are_ended(keeper: KeeperRun, server) -> None:
    command = " & ".join([keeper.python_command(TAKES.replace("120", "50"))] * 3) + " & wait"
    assert keeper.run(command, limits={"memory_bytes": 120 * _MB}) == 137
    assert server.ended["out_of_memory"]["by"] == "limit"


def test_a_trial_within_its_memory_is_left_alone(keeper: KeeperRun, server) -> None:
    command = keeper.python_command("held = bytearray(20 * 1024 ** 2); import time; time.sleep(1.2)")
    assert keeper.run(command, limits={"memory_bytes": 400 * _MB, "cpu_number": 1.5}) == 0
    assert "out_of_memory" not in server.ended


#: The trial has taken what it wants before it is in its group, whose limit does not count that.
LATE = """
import os
from trialkeeper import control_group, memory_watch
memory_watch.LOOK_EVERY = 1000.0
control_group.limit_group = lambda path, limits: True
step = control_group.Gathering.step
control_group.Gathering.step = lambda self: os.path.exists(%r) and step(self)
"""


def test_what_a_trial_had_taken_before_the_kernel_limits_it_counts(keeper: KeeperRun, server) -> None:
    if reason := control_group.why_not():
        pytest.skip(f"no control groups can be made here: {reason}")
    keeper.before = LATE % str(keeper.folder / contract.CODE_FOLDER / "taken")
    assert keeper.run(keeper.python_command(TAKES), limits={"memory_bytes": 60 * _MB}) == 137
    assert server.ended["out_of_memory"]["by"] == "limit"
    assert server.ended["duration"] < 30


@pytest.mark.parametrize(("limits", "variables", "seen"), [
    ({"cpu_number": 1.5}, {}, "2"), ({"cpu_number": 0.1}, {}, "1"), ({}, {}, "-"),
    ({"cpu_number": 2}, {"OMP_NUM_THREADS": "7"}, "7")])
def test_libraries_are_told_how_many_threads_they_may_start(keeper: KeeperRun, server, limits, variables, seen) -> None:
    assert keeper.run("echo threads=${OMP_NUM_THREADS:--}", limits=limits,
                      variables={"OMP_NUM_THREADS": "", **variables}) == 0
    assert f"threads={seen}\n" in (keeper.folder / contract.STDOUT_FILE).read_text()


class _Tree:
    def __init__(self, *pids: int) -> None:
        self.pids = list(pids)

    def members_for_readings(self) -> list[int]:
        return self.pids


def test_pages_that_processes_share_count_once() -> None:
    held = bytearray(os.urandom(_MB)) * 64
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(writer)
        os.read(reader, 1)
        os._exit(0)
    os.close(reader)
    try:
        both = MemoryWatch(_Tree(os.getpid(), pid), 1, lambda: 0.0)
        assert both.is_over()
        assert both.taken is not None
        # nearly all that the child has it shares with this process
        assert both.taken < 1.5 * resident(os.getpid())
    finally:
        os.close(writer)
        os.waitpid(pid, 0)
    assert held


def resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[21]) * os.sysconf("SC_PAGE_SIZE")


# --- groups ----------------------------------------------------------------------------------


def test_a_group_gets_the_trials_limits_and_is_ended_as_a_whole(tmp_path: Path) -> None:
    path = group(tmp_path / "g", memory__max="", memory__swap__max="", memory__oom__group="", cpu__max="")
    assert limit_group(str(path), Limits(1.5, 6 * _GB))
    assert {name: (path / name).read_text() for name in ("memory.max", "memory.swap.max", "memory.oom.group",
                                                         "cpu.max")} == {
        "memory.max": str(6 * _GB), "memory.swap.max": "0", "memory.oom.group": "1",
        "cpu.max": "150000 100000"}


def test_a_group_without_a_memory_controller_keeps_no_limit(tmp_path: Path) -> None:
    assert not limit_group(str(group(tmp_path / "g")), Limits(2, _GB))


def test_groups_of_trials_are_beside_the_servers_where_systemd_leaves_that_to_it(tmp_path: Path) -> None:
    above = group(tmp_path / "nniweb.service")
    own = group(above / "server", cgroup__procs=f"{os.getpid()}\n")
    try:
        os.setxattr(above, "user.delegate", b"1")
    except OSError as error:
        pytest.skip(f"this file system has no marks of users: {error}")
    assert place_for(str(own)) == str(above)
    (above / "cgroup.procs").write_text("4711\n")  # Delegate= without DelegateSubgroup=: a group with processes
    assert place_for(str(own)) is None


def test_a_group_that_nobody_delegated_is_left_to_its_owner(tmp_path: Path) -> None:
    own = group(group(tmp_path / "system.slice") / "cron.service")
    assert place_for(str(own)) is None


@pytest.mark.parametrize(("name", "is_used"), [("session-3.scope", True), ("nniweb.service", False),
                                               ("docker-4f1c.scope", False)])
def test_root_in_a_session_has_them_at_the_top(tmp_path: Path, monkeypatch, name: str, is_used: bool) -> None:
    top = group(tmp_path / "top")
    (top / "cgroup.events").unlink()  # only the real top has none
    own = group(group(top / "user.slice") / name)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert place_for(str(own)) == (str(top) if is_used else None)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert place_for(str(own)) is None


def test_the_group_of_all_trials_leaves_some_memory_to_the_system(tmp_path: Path) -> None:
    place = group(tmp_path / "place", cgroup__subtree_control="cpu pids")
    trials = group(place / trials_group.NAME, memory__max="", cgroup__subtree_control="cpu memory")
    own = group(place / "server", memory__max=str(10 * _GB))
    assert made_in(str(place), str(own)) == str(trials)
    assert (place / "cgroup.subtree_control").read_text().startswith("+memory")
    assert (trials / "memory.max").read_text() == str(memory_for_trials(usable_memory(str(own)) or 0))


def test_where_memory_cannot_be_limited_there_is_no_such_group(tmp_path: Path) -> None:
    place = group(tmp_path / "place", cgroup__controllers="pids\n")
    assert made_in(str(place), None) is None
    assert not (place / trials_group.NAME).exists()


@pytest.mark.parametrize(("usable", "left"), [(2 * _GB, 0.5 * _GB), (8 * _GB, _GB), (100 * _GB, 5 * _GB)])
def test_trials_may_not_have_the_last_of_a_machines_memory(usable: int, left: float) -> None:
    assert memory_for_trials(usable) == usable - left


def test_what_a_container_lets_this_machine_have_is_what_it_has(tmp_path: Path) -> None:
    outer = group(tmp_path / "outer", memory__max=str(300 * _MB), cpu__max="50000 100000\n")
    inner = group(outer / "inner", memory__max="max", cpu__max="max 100000\n")
    assert usable_memory(str(inner)) == 300 * _MB
    assert usable_cpus(str(inner)) == 0.5
    assert usable_cpus(None) >= 1


def test_the_kernel_ends_a_trial_that_takes_more_than_its_memory(kernel_limits, agents, attempt, server) -> None:
    agent = agents()
    agent.start(attempt, attempt.python_command(TAKES), limits={"memory_bytes": 60 * _MB})
    server.wait_for(lambda: server.ended)
    assert (server.ended["out_of_memory"]["by"], server.ended["out_of_memory"]["limit"]) == ("kernel", 60 * _MB)
    path = (attempt.folder / contract.GROUP_FILE).read_text()
    wait_until(lambda: not os.path.exists(path), what="the end of the group")
