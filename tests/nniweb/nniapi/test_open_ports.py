"""Ports for NNI's clients, opened and closed while the server runs, and the files that nnictl reads beside them."""

import asyncio
import io
import json
import os
import sqlite3
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from asgiref.testing import ApplicationCommunicator
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone

from nniweb.documents.experiments import document as experiment_document
from nniweb.experiments.models import Experiment, LogLine, User
from nniweb.experiments.pubsub.revisions import next_revision
from nniweb.http.one_thread_handler import OneThreadHandler
from nniweb.nniapi import nnictl_files, ports
from nniweb.nniapi.documents import export, trial_documents
from nniweb.nniapi.open_ports import OpenPorts
from nniweb.storage.own_files import START


class Listening:
    """A listener that listens to nobody."""

    def __init__(self, number: int, opened: dict[int, "Listening"]) -> None:
        self.number, self._opened = number, opened
        opened[number] = self

    def close(self) -> None:
        del self._opened[self.number]


class Listeners:
    """``listen``, and which ports are open; port 1 is another program's until ``others`` has it no more."""

    def __init__(self) -> None:
        self.opened: dict[int, Listening] = {}
        self.others = {1}
        self._free = 50_000

    def listen(self, number: int) -> Listening:
        if number in self.others:
            raise OSError("Address already in use")
        if number == 0:
            self._free += 1
            number = self._free
        return Listening(number, self.opened)


@pytest.fixture
def listeners() -> Listeners:
    return Listeners()


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def open_ports(listeners: Listeners, said: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
               ) -> Iterator[OpenPorts]:
    monkeypatch.setenv("HOME", str(tmp_path))
    made = OpenPorts(listeners.listen, {}, said.append)
    yield made
    made.close()
    assert listeners.opened == {}


def registries(home: Path) -> list[dict[str, Any]]:
    return [json.loads((home / folder / ".experiment").read_text()) for folder in ("nni-experiments", ".local/nnictl")]


def test_a_port_is_opened_and_closed_when_the_experiment_says_so(
    open_ports: OpenPorts, listeners: Listeners, said: list[str], make_experiment: Any, tmp_path: Path
) -> None:
    experiment = make_experiment()
    open_ports.look()
    assert (listeners.opened, said) == ({}, [])
    Experiment.objects.update(nni_port=8081)
    open_ports.look()
    old_port, = set(listeners.opened) - {8081}
    assert f"experiment {experiment.public_id} at port 8081" in said[0]
    new, old = (registry[experiment.public_id] for registry in registries(tmp_path))
    assert (new["port"], new["logDir"]) == (8081, str(tmp_path / "nni-experiments"))
    assert (old["port"], old["fileName"], old["status"]) == (old_port, experiment.public_id, "RUNNING")
    assert ports.port_and_pid(experiment.public_id) == (8081, new["pid"])
    Experiment.objects.update(nni_port=8083)
    open_ports.look()
    assert 8083 in listeners.opened
    assert len(listeners.opened) == 2
    Experiment.objects.update(nni_port=None)
    open_ports.look()
    assert listeners.opened == {}
    assert registries(tmp_path) == [{}, {}]
    with pytest.raises(ProcessLookupError):
        os.kill(new["pid"], 0)


@pytest.mark.django_db(transaction=True)
def test_a_port_leads_to_no_other_experiment_whatever_stands_before_all_paths(
    open_ports: OpenPorts, make_experiment: Any, admin: User
) -> None:
    own, other = make_experiment(owner=admin, nni_port=8081, name="own"), make_experiment(owner=admin, name="other")
    open_ports.look()

    async def answer(root: str, path: str) -> tuple[int, bytes]:
        asked = ApplicationCommunicator(ports.with_nni_ports(OneThreadHandler()), {
            "type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "root_path": root,
            "query_string": b"", "headers": [(b"host", b"127.0.0.1")], "scheme": "http",
            "client": ["127.0.0.1", 1], "server": ["127.0.0.1", 8081]})
        await asked.send_input({"type": "http.request", "body": b""})
        return (await asked.receive_output(60))["status"], (await asked.receive_output(60))["body"]

    status, body = asyncio.run(answer("", "/api/v1/nni/experiment"))
    assert (status, json.loads(body)["id"]) == (200, own.public_id)
    status, body = asyncio.run(answer(f"/nni/{own.public_id}", f"/nni/{other.public_id}/api/v1/nni/experiment"))
    assert status == 404, body


def test_a_port_of_another_program_is_said_once_and_tried_again(
    open_ports: OpenPorts, listeners: Listeners, make_experiment: Any, caplog: pytest.LogCaptureFixture
) -> None:
    make_experiment(nni_port=1)
    other = make_experiment(nni_port=8081)
    for _ in range(3):
        open_ports.look()
    assert [record.getMessage() for record in caplog.records].count(
        f"port 1 for NNI's clients of experiment {Experiment.objects.get(nni_port=1).public_id} cannot be opened: "
        "Address already in use") == 1
    assert ports.port_and_pid(other.public_id)[0] == 8081
    Experiment.objects.filter(nni_port=1).update(nni_port=8082)
    open_ports.look()
    assert {8081, 8082} <= set(listeners.opened)


def test_a_port_of_another_program_is_said_wherever_it_is_shown_until_that_program_ends(
    open_ports: OpenPorts, listeners: Listeners, make_experiment: Any, client: Client, admin: User
) -> None:
    def shown() -> dict[str, Any]:
        found = Experiment.objects.get()
        client.force_login(admin)
        listed = io.StringIO()
        call_command("nni-port", stdout=listed)
        return {"rest": experiment_document(found)["nni_port"], "revision": found.revision, "list": listed.getvalue(),
                "page": unescape(client.get(f"/experiments/{found.public_id}/config/").text),
                "admin": unescape(client.get(f"/admin/experiments/experiment/{found.pk}/change/").text)}

    make_experiment(public_id="abc123abc123", name="mice", nni_port=1)
    open_ports.look()
    said = ("The port is not open: Address already in use. Another program probably uses port 1. The server opens it "
            "as soon as it is free.")
    before = shown()
    assert before["rest"] == {"port": 1, "message": said, "reason": {
        "code": "nni_port_not_open", "port": 1, "error": "Address already in use"}}
    assert before["list"] == f"1  mice (abc123abc123). {said}\n"
    assert f"1. {said}" in before["page"]
    assert f"1. {said}" in before["admin"]
    open_ports.look()
    assert Experiment.objects.get().revision == before["revision"]
    listeners.others.clear()
    open_ports.look()
    after = shown()
    assert after["rest"] == {"port": 1, "message": "", "reason": None}
    assert said not in after["list"] + after["page"] + after["admin"]
    assert after["revision"] > before["revision"]


def test_a_port_that_was_not_free_when_the_last_server_ran_is_open_now(
    open_ports: OpenPorts, make_experiment: Any
) -> None:
    make_experiment(nni_port=8081, nni_port_problem={"code": "nni_port_not_open", "port": 8081, "error": "no"})
    open_ports.look()
    assert Experiment.objects.get().nni_port_problem is None


def test_a_port_that_the_start_gave_is_said_once(
    listeners: Listeners, make_experiment: Any, caplog: pytest.LogCaptureFixture
) -> None:
    experiment = make_experiment(nni_port=8081)
    given = OpenPorts(listeners.listen, {experiment.public_id: 1}, print)
    for _ in range(3):
        given.look()
    assert len([record for record in caplog.records if "cannot be opened" in record.getMessage()]) == 1
    assert Experiment.objects.get().nni_port_problem is None
    given.close()


def test_the_port_of_a_deleted_experiment_is_closed(open_ports: OpenPorts, listeners: Listeners, make_experiment: Any
                                                    ) -> None:
    make_experiment(nni_port=8081)
    open_ports.look()
    Experiment.objects.update(status="STOPPED", deleted_at=timezone.now())
    open_ports.look()
    assert listeners.opened == {}


def test_nnictls_files_have_the_config_and_the_log_as_they_are_now(
    open_ports: OpenPorts, make_experiment: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def line(number: int, message: str, level: int = 20) -> None:
        LogLine.objects.create(experiment=experiment, number=number, at=timezone.now(), level=level, source="worker",
                               message=message)
        next_revision(experiment.pk)

    def kept() -> dict[str, Any]:
        with sqlite3.connect(folder / "db" / "nni.sqlite") as database:
            [(params,)] = database.execute("SELECT params FROM ExperimentProfile WHERE id = ?", [experiment.public_id])
        database.close()
        return json.loads(params)

    def logs() -> list[list[str]]:
        assert all((old / name).read_text() == (folder / "log" / f"nnictl_{name}.log").read_text()
                   for name in ("stdout", "stderr"))
        return [[text.rpartition(": ")[2] for text in (old / name).read_text().splitlines()]
                for name in ("stdout", "stderr")]

    experiment = make_experiment(nni_port=8081, trial_concurrency=2)
    folder = tmp_path / "nni-experiments" / experiment.public_id
    old = tmp_path / ".local" / "nnictl" / experiment.public_id
    (folder / "db").mkdir(parents=True)
    (folder / "db" / "left").write_text("by a server that was killed")
    line(1, "first")
    open_ports.look()
    assert kept()["trialConcurrency"] == 2
    assert logs() == [["first"], []]
    assert not (folder / "db" / "left").exists()
    assert (folder.stat().st_mode & 0o77, old.stat().st_mode & 0o77) == (0, 0)
    line(2, "second", level=30)
    Experiment.objects.update(trial_concurrency=3)
    open_ports.look()
    assert kept()["trialConcurrency"] == 3
    config = json.loads((old / ".config").read_text())
    assert (config["experimentConfig"]["trialConcurrency"], config["experimentId"]) == (3, experiment.public_id)
    assert config["restServerPid"] == ports.port_and_pid(experiment.public_id)[1]
    assert logs() == [["first", "second"], ["second"]]
    monkeypatch.setattr(nnictl_files, "LARGEST_LOG", 10)
    LogLine.objects.filter(number=1).delete()  # as the oldest lines of a long log are
    line(3, "third")
    open_ports.look()
    assert logs() == [["second", "third"], ["second"]]
    open_ports.close()
    assert not folder.exists()
    assert not old.exists()


def test_a_trials_id_has_the_name_that_nni_1_gave_it(make_attempt: Any) -> None:
    trial = make_attempt(status="SUCCEEDED", final_value="0.5").trial
    [document] = trial_documents(trial.experiment.trials.all(), "id")
    assert (document["id"], "trialJobId" in document) == (trial.public_id, False)
    assert export(trial.experiment, "id")[0]["id"] == trial.public_id


@pytest.mark.parametrize(("arguments", "words"), [
    (["abc"], "Give the port to open, or --close."),
    (["abc", "8081", "--close"], "Give the port to open, or --close."),
    (["abc", "0"], '"0" is not a valid port'),
    (["abc", "70000"], '"70000" is not a valid port'),
    (["abc", "abc"], '"abc" is not a valid port'),
    (["abc", "8099"], "Port 8099 belongs to"),
    (["abc", "--close"], "has no port that could be closed here"),
    (["nowhere", "8081"], 'There is no experiment whose id begins with "nowhere"'),
])
def test_the_command_refuses_with_a_sentence(make_experiment: Any, arguments: list[str], words: str) -> None:
    make_experiment(public_id="abc123abc123")
    make_experiment(nni_port=8099)
    with pytest.raises(CommandError, match=words):
        call_command("nni-port", *arguments)
    assert Experiment.objects.get(public_id="abc123abc123").nni_port is None


def test_the_command_lists_open_ports(make_experiment: Any) -> None:
    out = io.StringIO()
    call_command("nni-port", stdout=out)
    assert "No experiment has a port for NNI's clients" in out.getvalue()
    make_experiment(public_id="abc123abc123", name="mice", nni_port=8081)
    call_command("nni-port", stdout=out)
    assert out.getvalue().endswith("8081  mice (abc123abc123). The port is not open. It is opened when the server runs "
                                   f"({START}).\n")
