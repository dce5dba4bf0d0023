"""The service's side of the talk with an agent, against a scripted agent on real pipes."""

import json
import os
import threading

import pytest

from trainingservice.keeper import agent_client
from trainingservice.keeper.agent_client import AgentClient, AgentError, AgentGone, access_document
from trainingservice.machine_load import MachineLoad
from trainingservice.trial_job import KeeperAccess


class ScriptedAgent:
    """The other end of two pipes: a test says what it sends."""

    def __init__(self) -> None:
        to_client, self._out = os.pipe()
        self._in, from_client = os.pipe()
        self.events: list[tuple] = []
        self.gone = threading.Event()
        self._lines = os.fdopen(self._in, "rb")
        self._writer = os.fdopen(self._out, "wb", buffering=0)
        self.client = AgentClient(os.fdopen(to_client, "rb"), os.fdopen(from_client, "wb"), name="of the test",
                                  on_event=lambda folder, state: self.events.append((folder, state["state"])),
                                  on_closed=self.gone.set)

    def send(self, **message) -> None:
        self._writer.write(json.dumps(message).encode() + b"\n")

    def send_raw(self, data: bytes) -> None:
        self._writer.write(data)

    def receive(self) -> dict:
        return json.loads(self._lines.readline())

    def input_ended(self) -> bool:
        return self._lines.readline() == b""

    def die(self) -> None:
        if not self._writer.closed:
            self._writer.close()
            self._lines.close()

    def answer(self, **reply) -> None:
        """Answer the next request, in a thread of its own."""
        def serve():
            self.request = self.receive()
            self.send(id=self.request["id"], **reply)
        threading.Thread(target=serve, daemon=True).start()


@pytest.fixture
def agent():
    agent = ScriptedAgent()
    yield agent
    agent.die()
    assert agent.gone.wait(90)
    agent.client.close()


ACCESS = KeeperAccess(("http://127.0.0.1:8080",), "secret-token")


def test_the_agent_says_hello_unasked(agent):
    agent.send(event="hello", version=1, pid=7, machine_id="m", host="ada")
    assert agent.client.hello(5)["machine_id"] == "m"


LOAD = {"cpu_used": 1.5, "cpu_total": 2, "memory_used": 3, "memory_total": 4}


def test_the_last_load_that_the_agent_told_is_kept_until_it_is_gone(agent):
    agent.send(event="hello", version=1)
    agent.client.hello(5)
    assert agent.client.load is None
    agent.send(event="load", load=LOAD)
    agent.answer(ok=True, gpus=[])
    agent.client.gpus(5)  # what was sent before has been read
    assert agent.client.load == MachineLoad(1.5, 2.0, 3, 4)
    agent.die()
    assert agent.gone.wait(90)
    assert agent.client.load is None


@pytest.mark.parametrize("load", [
    None, [], {}, {**LOAD, "cpu_used": 3}, {**LOAD, "cpu_used": -1}, {**LOAD, "memory_used": 5},
    {**LOAD, "cpu_total": 0}, {**LOAD, "cpu_used": "much"}, {**LOAD, "memory_total": 2**70},
    {**LOAD, "memory_total": float("inf")}, {**LOAD, "cpu_used": float("nan")}, {**LOAD, "cpu_total": float("inf")}])
def test_a_load_that_cannot_be_is_none(load):
    assert MachineLoad.from_document(load) is None


def test_an_agent_of_another_version_is_refused(agent):
    agent.send(event="hello", version=2)
    with pytest.raises(AgentGone, match="speaks version 2"):
        agent.client.hello(5)


def test_an_agent_that_says_nothing_is_given_up(agent):
    with pytest.raises(AgentGone, match=r"did not say hello within 0\.05 s"):
        agent.client.hello(0.05)


def test_start_sends_job_and_access_and_returns_the_folder_s_state(agent):
    agent.answer(ok=True, state={"state": "starting"})
    assert agent.client.start("/f", {"job_name": "a"}, ACCESS)["state"] == "starting"
    assert agent.request["do"] == "start"
    assert agent.request["folder"] == "/f"
    assert agent.request["job"] == {"job_name": "a"}
    assert agent.request["access"] == {"urls": ["http://127.0.0.1:8080"], "token": "secret-token", "url_file": None,
                                       "ca_file": None, "relay_file": None}


def test_every_verb_has_the_documented_fields(agent):
    client = agent.client
    order = {"order": "parameters", "index": 1, "text": "{}"}
    for call, reply, expected in [
            (lambda: client.state(["/f"]), {"states": {"/f": {"state": "ended"}}}, {"do": "state", "folders": ["/f"]}),
            (lambda: client.stop("/f"), {"state": {"state": "canceled"}}, {"do": "stop", "folder": "/f"}),
            (lambda: client.deliver("/f", [order]), {}, {"do": "deliver", "folder": "/f", "orders": [order]}),
            (lambda: client.remove("/f"), {}, {"do": "remove", "folder": "/f", "undelivered": False}),
            (lambda: client.gpus(), {"gpus": [], "error": "none"}, {"do": "gpus"}),
            (lambda: client.machine(["/tmp"]), {"host": "ada"}, {"do": "machine", "paths": ["/tmp"]})]:
        agent.answer(ok=True, **reply)
        call()
        assert {key: value for key, value in agent.request.items() if key != "id"} == expected


def test_gpus_come_with_the_reason_why_there_are_none(agent):
    agent.answer(ok=True, gpus=[], error="there is no nvidia-smi")
    assert agent.client.gpus() == ([], "there is no nvidia-smi")
    agent.answer(ok=True, gpus=[{"index": 0}])
    assert agent.client.gpus() == ([{"index": 0}], "")


@pytest.mark.parametrize(("told", "read"), [
    (7, []), (["GPU"], []), ([{"name": "no number"}, {"index": "1"}, {"index": -1}, {"index": True}], []),
    ([{"index": 0}] * 3, [{"index": 0}]),
    ([{"index": 1, "name": ["A100"], "memory_total": "80 GB", "memory_used": float("inf"), "processes": [],
       "memory_errors": "many", "fault": {}, "exclusive": "yes", "parent": "0", "more": "x" * 1000}], [{"index": 1}]),
    ([{"index": 1, "name": "A\0" + "1" * 1000, "utilization": None, "fault": "lost", "processes": 2}],
     [{"index": 1, "name": "A\ufffd" + "1" * 198, "utilization": None, "fault": "lost", "processes": 2}])])
def test_gpus_that_cannot_be_are_left_out(agent, told, read):
    agent.answer(ok=True, gpus=told, error=["no text"])
    assert agent.client.gpus() == (read, "")


def test_a_refusal_carries_the_agent_s_sentence(agent):
    agent.answer(ok=False, error="its keeper lives")
    with pytest.raises(AgentError, match="its keeper lives"):
        agent.client.remove("/f")


def test_replies_find_their_requests_in_any_order(agent):
    results = {}
    threads = [threading.Thread(target=lambda name=name: results.update({name: agent.client.stop(name)["state"]}))
               for name in ("/a", "/b")]
    for thread in threads:
        thread.start()
    requests = [agent.receive(), agent.receive()]
    for request in reversed(requests):
        agent.send(id=request["id"], ok=True, state={"state": request["folder"]})
    for thread in threads:
        thread.join(60)
    assert results == {"/a": "/a", "/b": "/b"}


def test_events_are_passed_on_and_what_is_no_json_is_skipped(agent):
    agent.send_raw(b"Welcome to ada, last login yesterday\n[1, 2]\n")
    agent.send(event="state", folder="/f", state={"state": "running"})
    agent.send(event="something new")
    agent.send(event="state", folder="/f", state={"state": "ended"})
    agent.answer(ok=True)
    agent.client.remove("/f")  # everything before its reply was read
    assert agent.events == [("/f", "running"), ("/f", "ended")]


def test_an_agent_that_sends_a_line_without_an_end_is_given_up_and_does_not_fill_the_memory(agent, monkeypatch):
    monkeypatch.setattr(agent_client, "MOST_OF_LINE", 100_000)
    agent.send_raw(b"\n")  # the line that is being read has the other limit
    threading.Thread(target=lambda: [agent.send_raw(b"x" * 50_000) for _ in range(3)], daemon=True).start()
    with pytest.raises(AgentGone, match="it sent a line of more than"):
        agent.client.hello()
    assert agent.gone.wait(90)


def test_the_end_of_the_agent_ends_requests_under_way_and_later_ones(agent):
    def receive_and_die():
        agent.receive()
        agent.die()
    threading.Thread(target=receive_and_die, daemon=True).start()
    with pytest.raises(AgentGone, match="the agent of the test has ended"):
        agent.client.gpus()
    assert agent.gone.wait(90)
    assert agent.client.closed
    with pytest.raises(AgentGone):
        agent.client.gpus()
    with pytest.raises(AgentGone):
        agent.client.hello()


def test_a_request_that_is_not_answered_is_given_up_and_its_late_reply_is_harmless(agent):
    with pytest.raises(AgentGone, match=r"did not answer 'gpus' within 0\.05 s"):
        agent.client.gpus(timeout=0.05)
    agent.send(id=agent.receive()["id"], ok=True, gpus=[])
    agent.answer(ok=True)
    agent.client.remove("/f")


def test_close_ends_requests_under_way_even_if_the_agent_hangs(agent):
    def receive_and_close():
        agent.receive()
        agent.client.close()
    threading.Thread(target=receive_and_close, daemon=True).start()
    with pytest.raises(AgentGone, match="closed on this side"):
        agent.client.gpus()


def test_close_ends_the_agent_s_input(agent):
    agent.client.close()
    agent.client.close()
    assert agent.input_ended()


def test_the_token_shows_in_no_repr():
    assert "secret-token" not in repr(ACCESS)
    assert access_document(ACCESS)["token"] == "secret-token"
