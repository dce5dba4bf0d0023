"""Ranks of a trial with several nodes: what each is told, and the launcher that watches all of them."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.trialkeeper.hiding_process import lives
from tests.trialkeeper.keeper_run import KeeperRun, wait_until
from trainingservice.keeper.keeper_bundle import build_keeper
from trialkeeper import contract
from trialkeeper.rank_launcher import FAILED_RANK_FILE, RANKS_FILE
from trialkeeper.ranks import MOST_CHARACTERS, last_lines, rank_variables

#: Starts the program of each rank as srun does, and waits for all of them. Told to end, it kills them as srun does.
LAUNCHER = """#!{python}
import os, signal, subprocess, sys
def force_termination(*_):
    for rank in ranks:
        os.killpg(rank.pid, signal.SIGKILL)
ranks = []
signal.signal(signal.SIGTERM, force_termination)
ranks += [subprocess.Popen(sys.argv[1:], env=dict(os.environ, SLURM_PROCID=str(rank), SLURMD_NODENAME="n%d" % rank,
                                                 SLURM_LAUNCH_NODE_IPADDR="127.0.0.1"),
                           start_new_session=True) for rank in range(3)]
sys.exit(max(rank.wait() for rank in ranks))
"""
WAITS = """
import os, signal, sys, time
rank = os.environ["RANK"]
def save(*_):
    open("%(folder)s/saved" + rank, "w").write("all")
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTERM)
signal.signal(signal.SIGTERM, save)
def hear(*_):
    open("%(folder)s/heard" + rank, "a").write("once ")
signal.signal(signal.SIGUSR1, hear)
open("%(folder)s/works" + rank, "w").write(os.environ["MASTER_ADDR"] + ":" + os.environ["MASTER_PORT"])
while not os.path.exists("%(folder)s/end" + rank):
    time.sleep(0.05)
print("rank " + rank + " ends", file=sys.stderr)
sys.exit(int(open("%(folder)s/end" + rank).read() or 0))
"""


def test_a_rank_is_told_where_the_others_are() -> None:
    told = rank_variables({"rank": 1, "count": 3, "processes": 2, "address": "fd00::1", "port": 4711}, "job")
    assert told == {
        "RANK": "1", "NODE_RANK": "1", "LOCAL_RANK": "0", "WORLD_SIZE": "3", "LOCAL_WORLD_SIZE": "1",
        "MASTER_ADDR": "fd00::1", "MASTER_PORT": "4711", "PET_NNODES": "3", "PET_NODE_RANK": "1",
        "PET_NPROC_PER_NODE": "2", "PET_MASTER_ADDR": "fd00::1", "PET_MASTER_PORT": "4711",
        "PET_RDZV_ENDPOINT": "[fd00::1]:4711", "PET_RDZV_ID": "job"}
    assert "MASTER_ADDR" not in rank_variables({"rank": 0, "count": 3}, "job")


def test_the_last_lines_are_those_of_stderr_and_not_endless(tmp_path: Path) -> None:
    assert last_lines(str(tmp_path)) == ""
    (tmp_path / "stdout").write_text("\n".join(map(str, range(10_000))) + "\n")
    assert last_lines(str(tmp_path)) == "9995\n9996\n9997\n9998\n9999"
    (tmp_path / "stderr").write_text("x" * 100_000 + "\n\n")
    assert last_lines(str(tmp_path)) == "x" * MOST_CHARACTERS
    (tmp_path / "stderr").write_text("one\n\n two\n")
    assert last_lines(str(tmp_path)) == "one\n two"


@pytest.mark.parametrize("rank", [0, 1])
def test_the_keeper_of_rank_0_chooses_the_port_and_only_that_rank_reports(keeper: KeeperRun, rank: int) -> None:
    node: dict[str, Any] = {"rank": rank, "count": 2, "address": "127.0.0.1", **({"port": 4711} if rank else {})}
    assert keeper.start(command='echo "$RANK $MASTER_PORT"', node=node).wait(90) == 0
    said = (keeper.folder / "stdout").read_text().split()
    if rank:
        assert said == ["1", "4711"]
        assert keeper.server.ended is None
    else:
        assert said == ["0", str(json.loads((keeper.folder / contract.NODE_FILE).read_text())["port"])]
        assert keeper.server.ended is not None


class _Launched:
    def __init__(self, folder: Path, launcher: str = LAUNCHER) -> None:
        self.folder, self.attempt = folder, folder / "attempt"
        self.attempt.mkdir(mode=0o700)
        (self.attempt / contract.JOB_FILE).write_text(json.dumps({
            "job_name": "job", "command": f"{sys.executable} {folder}/trial.py", "node": {"rank": 0, "count": 3},
            "limits": {"grace_period": 1.0}}))
        (folder / "trial.py").write_text(WAITS % {"folder": folder})
        program = folder / "launcher"
        program.write_text(launcher.replace("{python}", sys.executable))
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        own = {name: value for name, value in os.environ.items() if not name.startswith(("NNI_", "SLURM"))}
        keeper = build_keeper(folder / "keepers").path
        with (folder / "output").open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-I", str(keeper), "ranks", str(program)], cwd=folder, stdout=output, stderr=output,
                stdin=subprocess.DEVNULL, env={**own, contract.ENV_JOB: "job", contract.ENV_FOLDER: str(self.attempt)})

    def wait_for_all(self) -> list[str]:
        wait_until(lambda: all((self.folder / f"works{rank}").exists() and (self.folder / f"works{rank}").read_text()
                               for rank in range(3)), what="all ranks work")
        return [(self.folder / f"works{rank}").read_text() for rank in range(3)]

    def end(self, rank: int, code: int = 0) -> None:
        (self.folder / "new").write_text(str(code))
        (self.folder / "new").rename(self.folder / f"end{rank}")

    def end_of(self, rank: int) -> dict[str, Any]:
        folder = self.attempt if rank == 0 else self.attempt / f"node{rank}"
        return dict(json.loads((folder / contract.EXIT_FILE).read_text()))

    def failed(self) -> dict[str, Any]:
        return dict(json.loads((self.attempt / FAILED_RANK_FILE).read_text()))


@pytest.fixture
def launched(tmp_path: Path):
    launched = _Launched(tmp_path)
    yield launched
    (launched.attempt / contract.CANCELED_FILE).touch()
    launched.process.wait(90)


def test_all_ranks_of_a_launcher_find_the_same_place_and_the_status_is_that_of_rank_0(launched: _Launched) -> None:
    places = launched.wait_for_all()
    assert len(set(places)) == 1
    assert places[0].startswith("127.0.0.1:")
    for rank in (2, 1, 0):
        launched.end(rank)
    assert launched.process.wait(90) == 0
    assert not (launched.attempt / FAILED_RANK_FILE).exists()
    rows = json.loads((launched.attempt / RANKS_FILE).read_text())
    assert [(row["rank"], row["machine"], row["exit"]["exit_code"]) for row in rows] == [
        (0, "n0", 0), (1, "n1", 0), (2, "n2", 0)]


def test_a_rank_that_fails_under_a_launcher_ends_the_others_by_order(launched: _Launched) -> None:
    launched.wait_for_all()
    launched.end(1, 9)
    assert launched.process.wait(90) == 1
    failed = launched.failed()
    assert (failed["rank"], failed["machine"], failed["exit"]["exit_code"]) == (1, "n1", 9)
    assert failed["exit"]["last_lines"] == "rank 1 ends"
    assert [launched.end_of(rank)["reason"] for rank in (0, 2)] == ["stopped", "stopped"]
    assert launched.end_of(0)["message"] == "Rank 1 failed."


def test_a_keeper_under_a_launcher_that_is_killed_is_followed_by_one_that_ends_its_trial(launched: _Launched) -> None:
    launched.wait_for_all()
    trial = json.loads((launched.attempt / "node2" / contract.TRIAL_FILE).read_text())["pid"]
    os.kill(json.loads((launched.attempt / "node2" / contract.KEEPER_FILE).read_text())["pid"], signal.SIGKILL)
    assert launched.process.wait(90) == 1
    assert (launched.failed()["rank"], launched.failed()["exit"]["reason"]) == (2, "lost")
    wait_until(lambda: not lives(trial), what="the end of what the killed keeper left")


def test_a_tombstone_ends_all_ranks_of_a_launcher_and_blames_none(launched: _Launched) -> None:
    launched.wait_for_all()
    (launched.attempt / contract.CANCELED_FILE).touch()
    assert launched.process.wait(90) != 0
    assert [launched.end_of(rank)["reason"] for rank in range(3)] == ["stopped"] * 3
    assert not (launched.attempt / FAILED_RANK_FILE).exists()


@pytest.mark.parametrize("is_canceled", [True, False], ids=["canceled", "told by the scheduler"])
def test_ranks_whose_launcher_is_told_to_end_have_time_to_save(launched: _Launched, is_canceled: bool) -> None:
    launched.wait_for_all()
    if is_canceled:
        (launched.attempt / contract.CANCELED_FILE).touch()
    launched.process.terminate()
    launched.process.wait(90)
    assert [(launched.folder / f"saved{rank}").read_text() for rank in range(3)] == ["all"] * 3
    assert [launched.end_of(rank)["reason"] for rank in range(3)] == ["stopped"] * 3
    assert not (launched.attempt / FAILED_RANK_FILE).exists()


def test_a_signal_for_the_trial_reaches_each_rank(launched: _Launched) -> None:
    launched.wait_for_all()
    launched.process.send_signal(signal.SIGUSR1)
    heard = [launched.folder / f"heard{rank}" for rank in range(3)]
    wait_until(lambda: all(path.exists() for path in heard), what="all ranks hear it")
    for rank in (2, 1, 0):
        launched.end(rank)
    assert launched.process.wait(90) == 0
    assert [path.read_text() for path in heard] == ["once "] * 3


def test_a_launcher_that_is_told_to_end_before_a_rank_began_ends(tmp_path: Path) -> None:
    launched = _Launched(tmp_path, launcher=f"#!{sys.executable}\nopen('waits', 'w').close()\nimport time\n"
                                            "time.sleep(600)\n")
    wait_until(lambda: (tmp_path / "waits").exists(), what="the launcher waits for nodes")
    launched.process.terminate()
    assert launched.process.wait(90) != 0
