"""What the kernel does for trials where it can limit control groups. ``test_in_own_kernel.py`` runs this in one."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.scripted_keeper_server import ScriptedKeeperServer
from tests.trialkeeper.keeper_run import KeeperRun, wait_until
from trialkeeper import contract, trials_group

MB = 1024 ** 2
#: Takes so many megabytes once it is in a group of its own.
TAKES = ("import time\n"
         "while 'nniweb-trial-' not in open('/proc/self/cgroup').read(): time.sleep(0.1)\n"
         "held = bytearray(%d * 1024 ** 2); time.sleep(600)")
#: Wants a processor for itself, and writes down what it gets of one.
BUSY = ("import time\n"
        "while 'nniweb-trial-' not in open('/proc/self/cgroup').read(): time.sleep(0.1)\n"
        "began, used = time.monotonic(), time.process_time()\n"
        "while time.monotonic() - began < 6: pass\n"
        "open('part', 'w').write(str((time.process_time() - used) / (time.monotonic() - began)))")


def group_folder(attempt: KeeperRun) -> Path:
    path = attempt.folder / contract.GROUP_FILE
    return Path(wait_until(lambda: path.exists() and path.read_text(), what="the trial's group"))


@pytest.fixture
def neighbour(tmp_path: Path) -> Iterator[KeeperRun]:
    """Another trial, with a server of its own."""
    server = ScriptedKeeperServer()
    run = KeeperRun(tmp_path / "neighbour", server)
    os.rmdir(run.folder)
    yield run
    server.stop()


def test_only_the_trial_that_takes_too_much_is_ended(kernel_limits, neighbour, agents, attempt, server) -> None:
    agent = agents()
    agent.start(neighbour, neighbour.python_command("import time; time.sleep(600)"), limits={"memory_bytes": 60 * MB})
    folder = group_folder(neighbour)
    agent.start(attempt, attempt.python_command(TAKES % 120), limits={"memory_bytes": 60 * MB})
    server.wait_for(lambda: server.ended)
    told = server.ended["out_of_memory"]
    assert (told["by"], told["limit"]) == (contract.BY_KERNEL, 60 * MB)
    assert agent.state(neighbour.folder)["state"] == "running"
    assert "oom_kill 0" in (folder / "memory.events").read_text()
    assert (folder / "memory.max").read_text().strip() == str(60 * MB)
    os.kill(neighbour.read(contract.TRIAL_FILE)["pid"], signal.SIGKILL)
    wait_until(lambda: agent.state(neighbour.folder)["state"] == "ended", what="the end of the neighbour")


def test_a_trial_gets_no_more_than_its_part_of_a_processor(kernel_limits, agents, attempt, server) -> None:
    agent = agents()
    agent.start(attempt, attempt.python_command(BUSY), limits={"cpu_number": 0.3})
    folder = group_folder(attempt)
    wait_until(lambda: "nr_throttled 0" not in (folder / "cpu.stat").read_text(), what="it is held back")
    server.wait_for(lambda: server.ended)
    part = float((attempt.folder / contract.CODE_FOLDER / "part").read_text())
    assert 0.1 < part < 0.36


def test_all_trials_together_leave_memory_to_agent_and_keepers(kernel_limits, agents, attempt, server) -> None:
    agent = agents()
    agent.start(attempt, attempt.python_command(TAKES % 150))
    trials = group_folder(attempt).parent
    assert trials.name == trials_group.NAME
    limit = int((trials / "memory.max").read_text())
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert 0.7 * total < limit < 0.8 * total
    (trials / "memory.max").write_text(str(80 * MB))  # as if the machine were smaller
    server.wait_for(lambda: server.ended)
    told = server.ended["out_of_memory"]
    assert (told["memory"], told["by"], told.get("limit")) == ("main", contract.BY_KERNEL, None)
    assert agent.state(attempt.folder)["state"] == "ended"
