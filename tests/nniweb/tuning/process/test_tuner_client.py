"""The tuner process and its client, with real processes."""

import os
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from nniweb.tuning.process.tuner_client import ExperimentNotOpen, TunerClient, TunerFailed, TunerProcessDied
from tests.trialkeeper.keeper_run import wait_until

WAIT = 90
SPACE = {"x": {"_type": "uniform", "_value": [0, 1]}}
MISBEHAVING = [sys.executable, str(Path(__file__).with_name("misbehaving_tuner_process.py"))]


def spec(tuner: str = "Random", space: Any = None, assessor: Any = None, **class_args: Any) -> dict[str, Any]:
    return {"search_space": space or SPACE, "tuner": {"name": tuner, "class_args": class_args}, "assessor": assessor,
            "optimize_mode": "minimize", "seed": 5}  # fmt: skip


def misbehaving(how: str) -> dict[str, Any]:
    endless = {"_type": "uniform", "_value": [0, 1]}
    return spec("Misbehaving", {"how": {"_type": "choice", "_value": [how]}, "x": endless})


def result(future: "Future[Any]") -> Any:
    return future.result(WAIT)


def error(future: "Future[Any]") -> Any:
    return future.exception(WAIT)


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):  # the latter where it goes while its file is read
        return False
    return state != "Z"


@pytest.fixture
def client() -> Iterator[TunerClient]:
    made = TunerClient()
    yield made
    made.shutdown()


@pytest.fixture
def bad_client() -> Iterator[TunerClient]:
    made = TunerClient(MISBEHAVING)
    yield made
    made.shutdown()


def test_the_process_can_be_started_before_the_first_experiment_is_opened(client: TunerClient) -> None:
    client.prepare()
    early = client.pid
    assert early is not None
    client.prepare()
    result(client.open("first", spec(), []))
    assert client.pid == early


def test_a_process_that_cannot_be_started_early_fails_nothing_but_the_first_experiment() -> None:
    client = TunerClient(["/nowhere/python"])
    client.prepare()
    assert client.pid is None
    assert "could not be started" in str(error(client.open("first", spec(), [])))


def test_many_experiments_are_served_by_one_process_each_in_order(client: TunerClient) -> None:
    assert client.pid is None
    opened = [client.open(f"e{index}", spec(seed=index), []) for index in range(5)]
    asked = [client.ask(f"e{index}", number, 1) for number in range(10) for index in range(5)]
    for future in opened:
        assert result(future) == {"stop": []}
    points = [result(future)["parameters"][0] for future in asked]
    assert len({point["x"] for point in points}) == 50
    result(client.open("again", spec(seed=3), []))
    assert result(client.ask("again", 0, 10))["parameters"] == points[3::5]


def test_an_exhausted_space_gives_what_is_left_and_says_so(client: TunerClient) -> None:
    client.open("e", spec("GridSearch", {"x": {"_type": "choice", "_value": [1, 2, 3]}}), [])
    assert result(client.ask("e", 0, 2)) == {"parameters": [{"x": 1}, {"x": 2}], "exhausted": False}
    assert result(client.ask("e", 2, 2)) == {"parameters": [{"x": 3}], "exhausted": True}
    result(client.update_search_space("e", {"x": {"_type": "choice", "_value": [3, 4]}}))
    assert result(client.ask("e", 3, 2)) == {"parameters": [{"x": 4}], "exhausted": True}


def test_a_number_asked_for_again_gets_the_same_parameters_so_that_no_answer_is_lost(client: TunerClient) -> None:
    client.open("e", spec("GridSearch", {"x": {"_type": "choice", "_value": [1, 2, 3]}}), [])
    assert result(client.ask("e", 0, 2)) == {"parameters": [{"x": 1}, {"x": 2}], "exhausted": False}
    assert result(client.ask("e", 1, 3)) == {"parameters": [{"x": 2}, {"x": 3}], "exhausted": True}


def test_the_assessor_stops_a_bad_trial_once_and_infinite_values_do_no_harm(client: TunerClient) -> None:
    client.open("e", spec(assessor={"name": "medianstop", "class_args": {}}), [])
    good = [{"trial": "good", "sequence": n, "value": 1.0} for n in range(3)]
    assert result(client.intermediate("e", good)) == {"stop": []}
    client.trial_end("e", "good", True)
    assert result(client.intermediate("e", [{"trial": "bad", "sequence": 0, "value": float("nan")}])) == {"stop": []}
    bad = [{"trial": "bad", "sequence": n, "value": 5.0} for n in range(1, 3)]
    assert result(client.intermediate("e", bad)) == {"stop": ["bad"]}
    assert result(client.intermediate("e", bad)) == {"stop": []}
    result(client.tell("e", 0, {"x": 0.5}, float("inf"), "SUCCEEDED"))


def test_after_a_kill_waiting_futures_fail_and_the_experiment_opens_again_where_it_was(client: TunerClient) -> None:
    died: list[TunerProcessDied] = []
    told = threading.Event()
    client.on_death = lambda problem: (died.append(problem), told.set())  # type: ignore[func-returns-value]
    tpe = spec("TPE", tpe_args={"n_startup_jobs": 3})
    history: list[dict[str, Any]] = []
    result(client.open("e", tpe, []))
    for number in range(6):
        [parameters] = result(client.ask("e", number, 1))["parameters"]
        history.append({"event": "ask", "number": number, "parameters": parameters})
        if number < 5:
            value = parameters["x"] ** 2
            history.append({"event": "tell", "number": number, "parameters": parameters, "value": value,
                            "status": "SUCCEEDED"})  # fmt: skip
            result(client.tell("e", number, parameters, value, "SUCCEEDED"))
    expected = result(client.ask("e", 6, 2))
    first_pid = client.pid
    assert first_pid is not None
    os.kill(first_pid, signal.SIGSTOP)
    waiting = client.ask("e", 8, 1)
    os.kill(first_pid, signal.SIGKILL)
    failure = error(waiting)
    assert isinstance(failure, TunerProcessDied)
    assert "killed by SIGKILL" in str(failure)
    assert failure.suspect == "e"
    assert told.wait(WAIT)
    assert len(died) == 1
    assert isinstance(error(client.ask("e", 8, 1)), ExperimentNotOpen)
    assert result(client.open("e", tpe, history)) == {"stop": []}
    assert client.pid not in (None, first_pid)
    assert result(client.ask("e", 6, 2)) == expected


def test_a_replayed_assessor_names_the_trials_that_should_be_stopped(client: TunerClient) -> None:
    reports = [{"event": "intermediate", "trial": "good", "sequence": 0, "value": 1.0},
               {"event": "trial_end", "trial": "good", "succeeded": True},
               {"event": "intermediate", "trial": "bad", "sequence": 0, "value": 2.0},
               {"event": "intermediate", "trial": "gone", "sequence": 0, "value": 2.0},
               {"event": "trial_end", "trial": "gone", "succeeded": False}]  # fmt: skip
    medianstop = {"name": "Medianstop", "class_args": {"start_step": 0}}
    assert result(client.open("e", spec(assessor=medianstop), reports)) == {"stop": ["bad"]}


@pytest.mark.parametrize(
    ("how", "words"), [("raise", "RuntimeError: no idea what to try"), ("exit", "SystemExit: 3"),
                       ("no json", "not JSON serializable")]
)  # fmt: skip
def test_a_tuner_that_raises_breaks_only_its_own_experiment(bad_client: TunerClient, how: str, words: str) -> None:
    bad_client.open("good", spec(), [])
    bad_client.open("bad", misbehaving(how), [])
    assert result(bad_client.ask("bad", 0, 2))["exhausted"] is False
    failures = [error(bad_client.ask("bad", 2, 1)), error(bad_client.tell("bad", 0, {}, 1.0, "SUCCEEDED"))]
    for failure in failures:
        assert isinstance(failure, TunerFailed)
        assert failure.experiment_id == "bad"
        assert words in failure.message
        assert "Traceback" in failure.traceback
    assert len(result(bad_client.ask("good", 0, 3))["parameters"]) == 3
    assert result(bad_client.open("bad", spec(), [])) == {"stop": []}
    assert len(result(bad_client.ask("bad", 0, 1))["parameters"]) == 1


def test_a_tuner_that_kills_the_process_is_named_as_the_suspect_with_its_last_words(bad_client: TunerClient) -> None:
    bad_client.open("good", spec(), [])
    bad_client.open("bad", misbehaving("die"), [])
    first, second = bad_client.ask("bad", 2, 1), bad_client.ask("good", 0, 1)
    for future in (first, second):
        failure = error(future)
        assert isinstance(failure, TunerProcessDied)
        assert failure.suspect == "bad"
        assert "about to die" in str(failure)


def test_what_a_tuner_prints_does_not_disturb_the_wire_and_what_it_reads_is_empty(bad_client: TunerClient) -> None:
    bad_client.open("noisy", misbehaving("print"), [])
    assert len(result(bad_client.ask("noisy", 0, 6))["parameters"]) == 6


@pytest.mark.parametrize(("how", "words"), [
    ("large", "characters as JSON, and"), ("large together", "bytes as JSON, and"),
    ("raise at length", "RuntimeError: xxx"),
])
def test_an_answer_that_is_too_long_breaks_only_its_own_experiment(
        bad_client: TunerClient, how: str, words: str) -> None:
    bad_client.open("good", spec(), [])
    bad_client.open("bad", misbehaving(how), [])
    result(bad_client.ask("bad", 0, 2))
    failure = error(bad_client.ask("bad", 2, 10))
    assert isinstance(failure, TunerFailed)
    assert words in str(failure)
    assert len(str(failure)) < 5000
    assert len(failure.traceback) < 50_000
    assert len(result(bad_client.ask("good", 0, 1))["parameters"]) == 1


def test_a_process_that_sends_what_is_too_long_for_a_reply_is_ended_with_a_sentence(bad_client: TunerClient) -> None:
    bad_client.open("bad", misbehaving("write into the wire"), [])
    result(bad_client.ask("bad", 0, 2))
    failure = error(bad_client.ask("bad", 2, 1))
    assert isinstance(failure, TunerProcessDied)
    assert failure.suspect == "bad"
    assert "more than 32 MB in one reply" in str(failure)


def test_a_tuner_that_writes_without_end_takes_neither_memory_nor_processor_nor_the_log(
        bad_client: TunerClient, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    bad_client.open("bad", misbehaving("write without end"), [])
    result(bad_client.ask("bad", 0, 2))
    tracemalloc.start()
    try:
        began, used = time.monotonic(), time.process_time()
        bad_client.ask("bad", 2, 1)
        with pytest.raises(TimeoutError):
            bad_client.ask("bad", 3, 1).result(3)
        share = (time.process_time() - used) / (time.monotonic() - began)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 20_000_000
    assert share < 0.5
    assert sum(len(record.getMessage()) for record in caplog.records) < 1_000_000


def test_an_unusable_spec_fails_the_open_and_an_unusable_new_space_changes_nothing(client: TunerClient) -> None:
    failure = error(client.open("e", spec(space={"x": {"_type": "choice", "_value": []}}), []))
    assert isinstance(failure, TunerFailed)
    assert failure.message.startswith("x._value: the list of options is empty")
    assert error(client.ask("e", 0, 1)).message == failure.message
    result(client.open("e", spec(), []))
    assert isinstance(error(client.update_search_space("e", {"x": 3})), TunerFailed)
    assert len(result(client.ask("e", 0, 1))["parameters"]) == 1


def test_an_experiment_that_is_not_open_is_refused_without_starting_a_process(client: TunerClient) -> None:
    assert isinstance(error(client.ask("nobody", 0, 1)), ExperimentNotOpen)
    client.close_experiment("nobody")
    assert client.pid is None
    result(client.open("e", spec(), []))
    client.close_experiment("e")
    assert isinstance(error(client.ask("e", 0, 1)), ExperimentNotOpen)


def test_a_command_that_cannot_be_started_says_so() -> None:
    client = TunerClient(["/nonexistent/python"])
    assert "could not be started" in str(error(client.open("e", spec(), [])))
    client.shutdown()


def test_shutdown_ends_a_hanging_process_fails_what_waits_and_may_be_repeated() -> None:
    client = TunerClient(MISBEHAVING)
    died: list[TunerProcessDied] = []
    client.on_death = died.append
    result(client.open("e", misbehaving("hang"), []))
    pid = client.pid
    waiting = client.ask("e", 2, 1)
    client.shutdown()
    client.shutdown()
    assert isinstance(error(waiting), TunerProcessDied)
    assert pid is not None
    wait_until(lambda: not is_alive(pid))
    assert died == []
    assert isinstance(error(client.open("e", spec(), [])), TunerProcessDied)


def test_the_process_has_a_session_of_its_own_and_ends_when_its_parent_is_killed() -> None:
    program = (
        "import sys, time; from nniweb.tuning.process.tuner_client import TunerClient; "
        "from tests.nniweb.tuning.process import test_tuner_client as t; c = TunerClient(t.MISBEHAVING); "
        "c.open('e', t.misbehaving('hang'), []).result(30); c.ask('e', 2, 1); print(c.pid, flush=True); "
        "time.sleep(600)"
    )
    root = Path(__file__).resolve().parents[4]
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=root) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert os.getsid(pid) == pid
        parent.kill()
    wait_until(lambda: not is_alive(pid))
