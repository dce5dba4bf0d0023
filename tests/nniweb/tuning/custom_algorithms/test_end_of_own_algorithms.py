"""What tuners and assessors of the user's own still get when their experiment is over, with real processes."""

import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nniweb.tuning.process.tuner_client import TunerClient, TunerProcessDied
from tests.nniweb.tuning.custom_algorithms.test_own_classes import own, result, spec
from tests.nniweb.tuning.process.test_tuner_client import is_alive
from tests.trialkeeper.keeper_run import wait_until

ALGORITHMS = '''
import pathlib, time
from nni.assessor import Assessor, AssessResult
from nni.runtime.msg_dispatcher_base import MsgDispatcherBase
from nni.tuner import Tuner

HERE = pathlib.Path(__file__).parent

class Slow(Tuner):
    """Needs ``seconds`` for each result, and writes down what it gets. ``fails_at``: the result that it raises at."""
    def __init__(self, seconds=0.0, fails_at=None, file="tuner"):
        self.seconds, self.fails_at = seconds, fails_at
        self.notes = open(HERE / (file + ".txt"), "a")  # never closed, as in many a script
    def note(self, text):
        self.notes.write(text + "\\n")
    def update_search_space(self, search_space):
        pass
    def generate_parameters(self, parameter_id, **kwargs):
        return {"x": parameter_id}
    def receive_trial_result(self, parameter_id, parameters, value, **kwargs):
        time.sleep(self.seconds)
        if parameter_id == self.fails_at:
            raise ValueError("not this one")
        self.note("result %d" % parameter_id)
    def _on_exit(self):
        self.note("exit")
    def _on_error(self):
        self.note("error")

class Endless(Slow):
    def _on_exit(self):
        self.note("exit")
        self.notes.flush()
        time.sleep(3600)

class Careless(Slow):
    def _on_exit(self):
        raise OSError("the disk is full")

class Judge(Assessor):
    def assess_trial(self, trial_job_id, trial_history):
        return AssessResult.Good
    def _on_exit(self):
        (HERE / "assessor.txt").write_text("exit")
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(ALGORITHMS)
    return tmp_path


@pytest.fixture
def make_client() -> Iterator[Callable[..., TunerClient]]:
    made: list[TunerClient] = []

    def make(**arguments: Any) -> TunerClient:
        made.append(TunerClient(**arguments))
        return made[-1]

    yield make
    for client in made:
        client.shutdown()


def notes(folder: Path, name: str = "tuner") -> list[str]:
    path = folder / f"{name}.txt"
    return path.read_text().splitlines() if path.exists() else []


def begun(client: TunerClient, folder: Path, count: int, **class_args: Any) -> int:
    """An experiment with so many results on their way to the tuner; the id of its process."""
    result(client.open("e", spec(own(folder, class_args.pop("name", "mine.Slow"), **class_args)), []))
    for number, parameters in enumerate(result(client.ask("e", 0, count))["parameters"]):
        client.tell("e", number, parameters, 1.0, "SUCCEEDED")
    pid = client.pid_of("e")
    assert pid is not None
    return pid


def test_a_slow_tuner_gets_all_results_and_on_exit_when_its_experiment_is_over(
        make_client: Callable[..., TunerClient], folder: Path) -> None:
    client = make_client()
    pid = begun(client, folder, 6, seconds=0.1)
    client.finish_experiment("e")
    assert client.pid_of("e") is None
    wait_until(lambda: not is_alive(pid))
    assert notes(folder) == [*(f"result {number}" for number in range(6)), "exit"]


def test_the_experiment_can_be_opened_again_meanwhile(make_client: Callable[..., TunerClient], folder: Path) -> None:
    client = make_client()
    pid = begun(client, folder, 6, seconds=0.1)
    client.finish_experiment("e")
    result(client.open("e", spec(own(folder, "mine.Slow", file="again")), []))
    assert result(client.ask("e", 0, 1))["parameters"] == [{"x": 0}]
    wait_until(lambda: not is_alive(pid))
    assert len(notes(folder)) == 7
    assert client.pid_of("e") not in (None, pid)


def test_its_time_is_limited_and_what_is_lost_is_told(
        make_client: Callable[..., TunerClient], folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    client = make_client(exit_seconds=0.5)
    pid = begun(client, folder, 3, seconds=3600)
    client.finish_experiment("e")
    wait_until(lambda: not is_alive(pid))
    wait_until(lambda: "NNIWEB_TUNER_EXIT_SECONDS" in caplog.text)
    assert "ended 0.5 s after its experiment" in caplog.text
    assert "3 results had not arrived, and _on_exit was not called" in caplog.text
    assert {getattr(record, "experiment", None) for record in caplog.records} == {"e"}
    assert notes(folder) == []


def test_an_on_exit_that_does_not_return_is_ended_too(
        make_client: Callable[..., TunerClient], folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    client = make_client()
    pid = begun(client, folder, 1, name="mine.Endless")
    client.finish_experiment("e")
    wait_until(lambda: notes(folder) == ["result 0", "exit"])
    [exiting] = client._exiting
    threading.Thread(target=exiting.end_within, args=(0.1,)).start()
    wait_until(lambda: not is_alive(pid))
    wait_until(lambda: "_on_exit had not returned" in caplog.text)


@pytest.mark.parametrize(("class_args", "words", "noted"), [
    ({"fails_at": 1}, "ValueError: not this one", ["result 0", "error"]),
    ({"name": "mine.Careless"}, "OSError: the disk is full", ["result 0", "result 1", "error"])])
def test_what_it_raises_at_the_end_is_told(
        make_client: Callable[..., TunerClient], folder: Path, caplog: pytest.LogCaptureFixture,
        class_args: dict[str, Any], words: str, noted: list[str]) -> None:
    client = make_client()
    pid = begun(client, folder, 2, **class_args)
    client.finish_experiment("e")
    wait_until(lambda: not is_alive(pid))
    wait_until(lambda: words in caplog.text)
    assert notes(folder) == noted


def test_when_the_worker_ends_results_arrive_and_on_exit_is_called(
        make_client: Callable[..., TunerClient], folder: Path) -> None:
    client = make_client()
    pid = begun(client, folder, 3, seconds=0.1)
    client.shutdown()
    assert not is_alive(pid)
    assert notes(folder) == ["result 0", "result 1", "result 2", "exit"]


def test_a_tuner_that_is_made_again_is_ended_at_once(make_client: Callable[..., TunerClient], folder: Path) -> None:
    client = make_client()
    pid = begun(client, folder, 3, seconds=3600)
    waiting = client.tell("e", 9, {}, 1.0, "SUCCEEDED")
    client.close_experiment("e")
    assert isinstance(waiting.exception(60), TunerProcessDied)
    wait_until(lambda: not is_alive(pid))
    assert notes(folder) == []


def test_an_assessor_beside_a_built_in_tuner_is_told_of_the_end(
        make_client: Callable[..., TunerClient], folder: Path) -> None:
    client = make_client()
    result(client.open("e", spec({"name": "Random"}, own(folder, "mine.Judge")), []))
    client.finish_experiment("e")
    wait_until(lambda: notes(folder, "assessor") == ["exit"])
