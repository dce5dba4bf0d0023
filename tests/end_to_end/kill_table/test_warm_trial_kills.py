"""Rows of the kill table: what is killed while trials are started warm."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from tests.end_to_end.kill_table.killed_parts import keeper_of, kill_agent
from tests.end_to_end.kill_table.witnessed_experiment import WitnessedExperiment
from tests.end_to_end.running_server import RunningServer
from trialkeeper import machine

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def witnessed(running_server: RunningServer, tmp_path: Path) -> Callable[..., WitnessedExperiment]:
    """Launches an experiment whose trials are started warm."""
    return lambda **more: WitnessedExperiment(running_server, tmp_path, warmStart=True, **more).launch()


def parents(server: RunningServer) -> list[int]:
    """Process ids of parents, and of what they have forked: all have the same command line."""
    return [process.pid for process in server.processes() if "warm_parent.py" in process.command]


def is_warm(server: RunningServer, experiment: WitnessedExperiment) -> bool:
    return any(event["kind"] == "warm start" for event in server.get_all(f"experiments/{experiment.id}/events/"))


@pytest.mark.slow
@pytest.mark.kill_table("kill -9 of the parents of warm trials at random times")
def test_killed_parents_of_warm_trials_lose_nothing(running_server: RunningServer, witnessed, seed: int) -> None:
    experiment, random = witnessed(trials=24, concurrency=4, steps=10, pause=0.03), Random(seed)
    forked, killed = set[int](), 0
    for _ in range(4):
        begun = experiment.begun() + random.randint(1, 4)
        running_server.wait_until(lambda: experiment.begun() >= min(begun, 22), what="trials begin")  # noqa: B023
        family = {pid: int(stat[1][1]) for pid in parents(running_server)
                  if (stat := machine.process_stat(pid)) is not None}
        # what a parent has forked stands beside a trial, also beside one that has noted nothing yet
        forked |= {pid for pid, parent in family.items() if parent in family}
        trials = {experiment.pid_of(row) for row in experiment.rows() if experiment.witness(row["id"])}
        # the parents alone: not the trials, and not what stands beside them
        for pid in family.keys() - forked:
            if pid not in trials and Path(f"/proc/{pid}/stat").exists() and not _has_children_among(pid, trials):
                os.kill(pid, signal.SIGKILL)
                killed += 1
    experiment.nothing_is_lost()
    assert killed
    assert is_warm(running_server, experiment)


def _has_children_among(pid: int, trials: set[int]) -> bool:
    try:
        children = {int(text) for text in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}
    except OSError:
        return True  # it has ended
    return bool(children & trials)


@pytest.mark.slow
@pytest.mark.kill_table("kill -9 of the server and of its agent while trials are started warm")
def test_a_killed_server_and_agent_lose_no_warm_trials(running_server: RunningServer, witnessed, seed: int) -> None:
    experiment, random = witnessed(trials=20, concurrency=4, steps=20, pause=0.03), Random(seed)
    for kill in (kill_agent, RunningServer.kill):
        begun = experiment.begun() + random.randint(1, 4)
        running_server.wait_until(lambda: experiment.begun() >= begun, what="trials begin")  # noqa: B023
        kill(running_server)
        if kill is RunningServer.kill:
            running_server.start()
    experiment.nothing_is_lost()


@pytest.mark.slow
@pytest.mark.kill_table("kill -9 of the keeper of a warm trial")
def test_a_warm_trial_whose_keeper_was_killed_is_judged_by_what_is_left(
        running_server: RunningServer, witnessed, tmp_path: Path, seed: int) -> None:
    experiment = witnessed(trials=4, concurrency=4, go=tmp_path / "go")
    rows = running_server.wait_until(lambda: len(found := experiment.running()) == 4 and all(
        row["intermediate_count"] == experiment.steps for row in found) and found)
    victim = Random(seed).choice(rows)
    os.kill(keeper_of(running_server, victim["id"]), signal.SIGKILL)
    running_server.wait_until(lambda: experiment.rows()[victim["sequence_id"]]["status"] == "FAILED", 120, "it failed")
    (tmp_path / "go").touch()
    experiment.nothing_is_lost(ended={victim["sequence_id"]: "FAILED"})
