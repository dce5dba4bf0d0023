"""Tuners whose proposals come later than they are asked for: in a thread that blocks, or through a callback."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nniweb.tuning.process.tuner_client import TunerClient, TunerFailed
from tests.nniweb.tuning.custom_algorithms.test_own_classes import own, result, spec
from tests.trialkeeper.keeper_run import wait_until

ALGORITHMS = '''
import threading, time
import nni
from nni.runtime.msg_dispatcher_base import MsgDispatcherBase
from nni.runtime.tuner_command_channel import CommandType
from nni.tuner import Tuner

class Blocking(Tuner):
    """As NNI's test case for multiThread: all but the first proposal block until the first has a result."""
    def __init__(self):
        self.told = threading.Event()
    def update_search_space(self, search_space):
        pass
    def generate_parameters(self, parameter_id, **kwargs):
        if parameter_id == 0:
            return {"x": 0}
        self.told.wait()
        return {"x": parameter_id}
    def receive_trial_result(self, parameter_id, parameters, value, **kwargs):
        if parameter_id == 0:
            self.told.set()

class Meeting(Blocking):
    """Its results wait for each other."""
    def __init__(self):
        self.barrier, self.sums = threading.Barrier(2), []
    def generate_parameters(self, parameter_id, **kwargs):
        return {"x": parameter_id, "sums": list(self.sums)}
    def receive_trial_result(self, parameter_id, parameters, value, **kwargs):
        self.barrier.wait()
        self.sums.append(value)

class Failing(Blocking):
    def generate_parameters(self, parameter_id, **kwargs):
        super().generate_parameters(parameter_id)
        if parameter_id:
            raise ValueError("nothing after all")
        return {"x": 0}

class Generations(Tuner):
    """As NNI's OpEvo, G_BFS and N_A2C: the next generation is made when the last of this one has ended, and handed in
    through the callback.
    """
    def __init__(self, size):
        self.size, self.made, self.ready, self.wanted, self.running = size, 0, [], [], {}
        self.asked = []
    def update_search_space(self, search_space):
        self.breed()
    def breed(self):
        self.ready = list(range(self.made, self.made + self.size))
        self.made += self.size
    def generate_multiple_parameters(self, parameter_id_list, **kwargs):
        found = []
        self.send_trial_callback = kwargs["st_callback"]
        for parameter_id in parameter_id_list:
            try:
                found.append(self.generate_parameters(parameter_id, **kwargs))
            except nni.NoMoreTrialError:
                pass
        return found
    def generate_parameters(self, parameter_id, **kwargs):
        self.asked.append(parameter_id)
        if not self.ready:
            self.wanted.append(parameter_id)
            raise nni.NoMoreTrialError("no more parameters now")
        return self.start(parameter_id)
    def start(self, parameter_id):
        self.running[parameter_id] = self.ready.pop(0)
        return {"candidate": self.running[parameter_id], "asked": list(self.asked)}
    def receive_trial_result(self, parameter_id, parameters, value, **kwargs):
        self.ended(parameter_id)
    def trial_end(self, parameter_id, success, **kwargs):
        if not success:
            self.ended(parameter_id)
    def ended(self, parameter_id):
        assert self.running.pop(parameter_id) is not None
        if not self.ready and not self.running:
            self.breed()
        while self.wanted and self.ready:
            parameter_id = self.wanted.pop(0)
            self.send_trial_callback(parameter_id, self.start(parameter_id))

class Batches(Tuner):
    """Makes all that is asked for in one call, at most ``most`` of them, until it is told a result."""
    def __init__(self, most=100):
        self.most, self.lists, self.told = most, [], 0
    def update_search_space(self, search_space):
        pass
    def generate_multiple_parameters(self, parameter_id_list, **kwargs):
        self.lists.append(parameter_id_list)
        return [{"x": parameter_id, "lists": list(self.lists)} for parameter_id in parameter_id_list[:self.most]]
    def receive_trial_result(self, parameter_id, parameters, value, **kwargs):
        self.told += 1

class TooMany(Batches):
    def generate_multiple_parameters(self, parameter_id_list, **kwargs):
        return [{"x": 1}] * 3

class Stops(Batches):
    def generate_multiple_parameters(self, parameter_id_list, **kwargs):
        if len(parameter_id_list) > 1 or self.told:
            raise nni.NoMoreTrialError("no more")
        return [{"x": 1}]

class Musing(Tuner):
    """Hands in its proposals from a thread of its own."""
    def update_search_space(self, search_space):
        pass
    def generate_multiple_parameters(self, parameter_id_list, **kwargs):
        for parameter_id in parameter_id_list:
            threading.Timer(0.1, kwargs["st_callback"], [parameter_id, {"x": parameter_id}]).start()
        return []
    def receive_trial_result(self, parameter_id, parameters, value, **kwargs):
        pass

class Waiting(MsgDispatcherBase):
    """An advisor whose handler blocks until another one is called."""
    def handle_initialize(self, data):
        self.made, self.told = 0, threading.Event()
        self.send(CommandType.Initialized, "")
    def handle_request_trial_jobs(self, data):
        for _ in range(data):
            number, self.made = self.made, self.made + 1
            if number:
                self.told.wait()
            self.send(CommandType.NewTrialJob, nni.dump({"parameter_id": number, "parameters": {"x": number}}))
    def handle_report_metric_data(self, data):
        self.told.set()
    def handle_trial_end(self, data):
        pass
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(ALGORITHMS)
    return tmp_path


@pytest.fixture
def client() -> Iterator[TunerClient]:
    made = TunerClient()
    yield made
    made.shutdown()


def threaded(folder: Path, name: str, **class_args: Any) -> dict[str, Any]:
    return spec({**own(folder, name, **class_args), "multi_thread": True})


def asked(client: TunerClient, first: int, count: int) -> list[dict[str, Any]]:
    """What it proposes in the end, as the worker asks in each round."""
    found: list[dict[str, Any]] = []

    def ask() -> bool:
        answer = result(client.ask("e", first + len(found), count - len(found)))
        assert not answer["exhausted"]
        found.extend(answer["parameters"])
        return len(found) == count

    wait_until(ask)
    return found


def told(number: int, parameters: dict[str, Any], value: float = 1.0, status: str = "SUCCEEDED") -> dict[str, Any]:
    return {"number": number, "parameters": parameters, "value": value if status == "SUCCEEDED" else None,
            "status": status, "trial": f"t{number}"}


@pytest.mark.parametrize("name", ["Blocking", "Waiting"])
def test_a_proposal_that_blocks_until_a_result_comes_hinders_nobody(
        client: TunerClient, folder: Path, name: str) -> None:
    result(client.open("e", threaded(folder, f"mine.{name}"), []))
    [first] = asked(client, 0, 1)
    for _ in range(3):
        assert result(client.ask("e", 1, 1)) == {"parameters": [], "exhausted": False}
    result(client.tell("e", **told(0, first)))
    assert sorted(parameters["x"] for parameters in asked(client, 1, 3)) == [1, 2, 3]


def test_results_that_wait_for_each_other_arrive(client: TunerClient, folder: Path) -> None:
    result(client.open("e", threaded(folder, "mine.Meeting"), []))
    for number, parameters in enumerate(asked(client, 0, 2)):
        client.tell("e", **told(number, parameters, float(number)))
    numbers = itertools.count(2)
    wait_until(lambda: sorted(asked(client, next(numbers), 1)[0]["sums"]) == [0.0, 1.0])


def test_what_a_thread_raises_is_an_answer(client: TunerClient, folder: Path) -> None:
    result(client.open("e", threaded(folder, "mine.Failing"), []))
    [first] = asked(client, 0, 1)
    result(client.ask("e", 1, 1))
    client.tell("e", **told(0, first))
    failures: list[Any] = []

    def failed() -> bool:
        failures.append(client.ask("e", 1, 1).exception(60))
        return failures[-1] is not None

    wait_until(failed)
    assert isinstance(failures[-1], TunerFailed)
    assert failures[-1].message == "ValueError: nothing after all"


def test_one_with_threads_is_rebuilt_from_the_record(client: TunerClient, folder: Path) -> None:
    events = []
    for number in range(3):
        events.append({"event": "ask", "number": number, "parameters": {"x": number}})
        events.append({"event": "tell", **told(number, {"x": number})})
    result(client.open("e", threaded(folder, "mine.Blocking"), events))
    assert sorted(parameters["x"] for parameters in asked(client, 3, 2)) == [3, 4]


def test_a_generation_that_is_handed_in_through_the_callback(client: TunerClient, folder: Path) -> None:
    result(client.open("e", spec(own(folder, "mine.Generations", size=3)), []))
    answer = result(client.ask("e", 0, 4))
    assert [parameters["candidate"] for parameters in answer["parameters"]] == [0, 1, 2]
    for _ in range(2):  # in each round; the slot is asked for once all the same
        assert result(client.ask("e", 3, 1)) == {"parameters": [], "exhausted": False}
    for number, status in enumerate(("SUCCEEDED", "FAILED", "SUCCEEDED")):
        result(client.tell("e", **told(number, answer["parameters"][number], status=status)))
        result(client.ask("e", 3, 2 + number) if number < 2 else client.ask("e", 3, 4))
    second = result(client.ask("e", 3, 4))["parameters"]
    assert [parameters["candidate"] for parameters in second] == [3, 4, 5]
    assert second[-1]["asked"] == [0, 1, 2, 3, 4, 5]
    for number, parameters in enumerate(second, 3):
        result(client.tell("e", **told(number, parameters)))
    assert [parameters["candidate"] for parameters in asked(client, 6, 3)] == [6, 7, 8]


def test_one_with_a_callback_is_rebuilt_from_the_record(client: TunerClient, folder: Path) -> None:
    document, events, running, number = spec(own(folder, "mine.Generations", size=3)), [], {}, 0
    result(client.open("e", document, []))
    while number < 10:
        for parameters in result(client.ask("e", number, 2 - len(running)))["parameters"]:
            events.append({"event": "ask", "number": number, "parameters": parameters})
            running[number] = parameters
            number += 1
        ended = min(running)
        end = told(ended, running.pop(ended), status="FAILED" if ended % 4 == 1 else "SUCCEEDED")
        result(client.tell("e", **end))
        events.append({"event": "tell", **end})
    result(client.open("again", document, events))
    [next_one] = asked(client, number, 1)
    assert next_one["candidate"] == number
    assert result(client.ask("again", number, 1))["parameters"][0]["candidate"] == number


def test_all_free_slots_are_asked_for_in_one_call(client: TunerClient, folder: Path) -> None:
    result(client.open("e", spec(own(folder, "mine.Batches")), []))
    answer = result(client.ask("e", 0, 3))
    assert [(one["x"], one["lists"]) for one in answer["parameters"]] == [(n, [[0, 1, 2]]) for n in range(3)]
    assert result(client.ask("e", 3, 2))["parameters"][-1] == {"x": 4, "lists": [[0, 1, 2], [3, 4]]}


def test_what_a_call_leaves_open_is_asked_for_again(client: TunerClient, folder: Path) -> None:
    result(client.open("e", spec(own(folder, "mine.Batches", most=2)), []))
    answer = result(client.ask("e", 0, 3))
    assert ([one["x"] for one in answer["parameters"]], answer["exhausted"]) == ([0, 1], False)
    assert [one["x"] for one in result(client.ask("e", 2, 1))["parameters"]] == [2]


def test_a_call_without_parameters_is_no_end_while_trials_run(client: TunerClient, folder: Path) -> None:
    result(client.open("e", spec(own(folder, "mine.Stops")), []))
    [first] = result(client.ask("e", 0, 1))["parameters"]
    assert result(client.ask("e", 1, 2)) == {"parameters": [], "exhausted": False}
    result(client.tell("e", **told(0, first)))
    assert result(client.ask("e", 1, 2)) == {"parameters": [], "exhausted": True}


def test_more_sets_than_ids_are_an_error_with_a_sentence(client: TunerClient, folder: Path) -> None:
    result(client.open("e", spec(own(folder, "mine.TooMany")), []))
    error = client.ask("e", 0, 2).exception(60)
    assert isinstance(error, TunerFailed)
    assert error.message == "ValueError: generate_multiple_parameters returned 3 parameter sets for 2 ids"


@pytest.mark.parametrize("most", [100, 2])
def test_the_calls_are_the_same_when_it_is_rebuilt_from_the_record(
        client: TunerClient, folder: Path, most: int) -> None:
    document, events, number = spec(own(folder, "mine.Batches", most=most)), [], 0
    result(client.open("e", document, []))
    for count in (3, 1, 2):
        for index, parameters in enumerate(result(client.ask("e", number, count))["parameters"]):
            events.append({"event": "ask", "number": number, "parameters": parameters,
                           **({"asked": count} if index == 0 else {})})
            number += 1
        end = told(number - 1, parameters)
        result(client.tell("e", **end))
        events.append({"event": "tell", **end})
    result(client.open("again", document, events))
    assert result(client.ask("again", number, 4)) == result(client.ask("e", number, 4))


def test_proposals_may_come_from_a_thread_of_the_tuner(client: TunerClient, folder: Path) -> None:
    result(client.open("e", spec(own(folder, "mine.Musing")), []))
    assert sorted(parameters["x"] for parameters in asked(client, 0, 3)) == [0, 1, 2]


def test_a_tuner_with_a_callback_that_is_not_used_is_at_its_end_when_it_has_no_more(
        client: TunerClient, folder: Path, make_tuner: Callable[[str], None]) -> None:
    make_tuner("""
        def generate_multiple_parameters(self, parameter_id_list, **kwargs):
            return [{"x": 1}] if 0 in parameter_id_list else []
    """)
    result(client.open("e", spec(own(folder, "other.Other")), []))
    assert result(client.ask("e", 0, 2)) == {"parameters": [{"x": 1}], "exhausted": False}
    result(client.tell("e", **told(0, {"x": 1})))
    assert result(client.ask("e", 1, 2)) == {"parameters": [], "exhausted": True}


@pytest.fixture
def make_tuner(folder: Path) -> Callable[[str], None]:
    def make(methods: str) -> None:
        (folder / "other.py").write_text("from mine import Blocking\nclass Other(Blocking):" + methods)

    return make
