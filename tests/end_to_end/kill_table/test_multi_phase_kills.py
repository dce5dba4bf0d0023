"""Rows of the kill table: running trials that have a result and have not asked for the next parameter set yet."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random

import pytest

from tests.end_to_end.kill_table.killed_parts import keepers_of, kill_agent, kill_tuner
from tests.end_to_end.running_server import RunningServer
from tests.end_to_end.witnessed_parameter_sets import noted_by, nothing_is_lost, tuner_has_each_once, witnessed
from trainingservice.testing.processes import processes_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

TRIALS, SETS = 3, 12


def close_gates(folder: Path, numbers: Iterable[int]) -> None:
    """The trials wait after the results of the sets with these numbers, until ``open_gate``."""
    (folder / "gates").mkdir()
    for number in numbers:
        (folder / "gates" / str(number)).touch()


def open_gate(folder: Path, number: int) -> None:
    (folder / "gates" / str(number)).unlink()


def all_have_noted(folder: Path, count: int) -> Callable[[], bool]:
    """Whether each trial has noted this many results."""
    return lambda: [len(noted_by(folder, file.name))
                    for file in (folder / "witnesses").iterdir()] == [count] * TRIALS


def all_is_there_once(server: RunningServer, experiment: str, folder: Path, *, of_killed: int = 0) -> None:
    nothing_is_lost(server, experiment, folder, SETS, of_killed=of_killed)
    tuner_has_each_once(server, experiment, TRIALS * SETS)
    server.wait_until(lambda: not processes_of([str(folder / "witnesses")]), what="no process is left")


@pytest.mark.kill_table("kill -9 of server, tuner and agent between a parameter set's result and the next question")
def test_trials_between_a_result_and_the_next_question_lose_neither(running_server: RunningServer, tmp_path: Path,
                                                                    seed: int) -> None:
    server = running_server

    def server_is_back_before_the_question(gate: int) -> None:
        server.kill()
        server.start()
        open_gate(tmp_path, gate)

    def server_is_back_after_the_question(gate: int) -> None:
        server.kill()
        open_gate(tmp_path, gate)
        server.start()

    def tuner_dies(gate: int) -> None:
        kill_tuner(server)
        open_gate(tmp_path, gate)

    def agent_dies(gate: int) -> None:
        kill_agent(server)
        open_gate(tmp_path, gate)

    deaths = [server_is_back_before_the_question, server_is_back_after_the_question, tuner_dies, agent_dies]
    Random(seed).shuffle(deaths)
    gates = dict(zip((1, 4, 7, 10), deaths, strict=True))
    close_gates(tmp_path, gates)
    experiment = witnessed(server, tmp_path, SETS, TRIALS)
    for gate, death in gates.items():
        server.wait_until(all_have_noted(tmp_path, gate + 1), what=f"all have the result of set {gate}")
        death(gate)
    all_is_there_once(server, experiment, tmp_path)


@pytest.mark.kill_table("kill -9 of the keepers between a parameter set's result and the next question, with `retry`")
def test_a_further_attempt_gets_the_sets_of_the_one_whose_keeper_died(running_server: RunningServer, tmp_path: Path,
                                                                      seed: int) -> None:
    gate = Random(seed).randrange(1, SETS - 2)
    close_gates(tmp_path, [gate])
    experiment = witnessed(running_server, tmp_path, SETS, TRIALS, retry={"onPlatformFailure": 1})
    running_server.wait_until(all_have_noted(tmp_path, gate + 1), what=f"all have the result of set {gate}")
    for trial in running_server.get_all(f"experiments/{experiment}/trials/"):
        [keeper] = keepers_of(running_server, trial["id"])
        os.kill(keeper, signal.SIGKILL)
    running_server.wait_until(all_have_noted(tmp_path, 2 * (gate + 1)), 120, "the second attempts have got as far")
    open_gate(tmp_path, gate)
    all_is_there_once(running_server, experiment, tmp_path, of_killed=gate + 1)
