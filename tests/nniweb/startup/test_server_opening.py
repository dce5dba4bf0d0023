"""A server comes up step by step; what passes is waited for, what does not ends it with a sentence."""

from __future__ import annotations

import asyncio
import errno
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError, connection

from nniweb.experiments.models import Worker
from nniweb.middleware.gate import Gate
from nniweb.startup import first_start, server_opening
from nniweb.startup.server_opening import Opening
from nniweb.storage.data_folder import ServerLock
from nniweb.upgrades.bringing_up_to_date import CannotUpgrade
from nniweb.worker.supervisor import Supervisor
from trainingservice.lasting_thread import parts_in_trouble

pytestmark = pytest.mark.django_db(transaction=True)


class Opened:
    """An opening in a data folder of the test, what it said, and whether it gave up."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.said, self.gave_up, self.gate = folder, list[str](), threading.Event(), Gate()
        self.opening = Opening(ServerLock(folder), self.gate, "http://127.0.0.1:1", {}, self._listen, self.said.append,
                               self.gave_up.set)

    def _listen(self, port: int) -> Any:
        raise AssertionError(f"no experiment has a port, and {port} is opened")

    @property
    def is_open(self) -> bool:
        """Whether others than probes are let in."""
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        async def receive() -> Any:
            return {"type": "http.request"}

        asyncio.run(self.gate({"type": "http", "method": "PUT", "path": "/api/trialkeeper/v1/", "headers": []},
                              receive, send))
        return bool(sent[0]["status"] == 404)

    def has_come_up(self) -> bool:
        connection.close()
        return (self.folder / "server.json").exists() and Worker.objects.exists() and not parts_in_trouble()


def until(condition: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + 60
    while not (found := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return found


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings) -> Iterator[Opened]:
    settings.DEMO = False
    monkeypatch.setattr(server_opening, "is_of_this_version", lambda: True)
    made = Opened(tmp_path)
    made.opening._thread._pauses = (0.05,)
    yield made
    made.opening.close()
    until(lambda: not made.opening._thread.is_alive and not made.opening._worker.is_alive)


def trouble() -> str:
    return {part.name: part.trouble for part in parts_in_trouble()}.get("start", "")


def away() -> OperationalError:
    error = OperationalError("connection to server at db.example, user nniweb failed")
    error.__cause__ = type("OperationalError", (Exception,), {"__module__": "psycopg"})()
    return error


@pytest.mark.parametrize(("public", "expected"), [("https://nni.example.org", "https://nni.example.org/sign-in/"),
                                                  ("", "http://127.0.0.1:1/sign-in/")])
def test_the_link_to_sign_in_leads_to_the_address_at_which_people_reach_the_server(
        opened: Opened, settings, public: str, expected: str) -> None:
    settings.PUBLIC_URL = public
    opened.opening.start()
    until(opened.has_come_up)
    assert [line.strip() for text in opened.said for line in text.splitlines() if "/sign-in/" in line][0].startswith(
        expected)


@pytest.mark.parametrize("fault", [away(), OSError(errno.ENOSPC, "No space left on device", "/srv/data/server.json"),
                                   RuntimeError("can't start new thread"), MemoryError()],
                         ids=lambda fault: type(fault).__name__)
@pytest.mark.parametrize("where", ["is_of_this_version", "write_address", "sign_in_address"])
def test_a_step_that_meets_a_fault_that_passes_is_tried_again(opened: Opened, monkeypatch, where: str,
                                                              fault: Exception) -> None:
    place: Any = {"is_of_this_version": server_opening, "write_address": ServerLock,
                  "sign_in_address": first_start}[where]
    step, is_broken = getattr(place, where), threading.Event()
    is_broken.set()

    def brittle(*args: Any) -> Any:
        if is_broken.is_set():
            raise fault
        return step(*args)

    monkeypatch.setattr(place, where, brittle)
    opened.opening.start()
    said = until(lambda: "failed" in trouble() and trouble())
    assert "db.example" not in said
    assert "/srv" not in said
    assert opened.said == []
    if where != "is_of_this_version":
        until(Worker.objects.exists)  # the worker does not wait for what only tells people of it
        assert opened.is_open
    is_broken.clear()
    until(opened.has_come_up)
    until(lambda: opened.said)
    assert "NNI Web is running at http://127.0.0.1:1" in opened.said[0]
    assert opened.is_open
    assert not opened.gave_up.is_set()


@pytest.mark.parametrize(("fault", "sentence"), [
    (CannotUpgrade("It was written by NNI Web 99."), "It was written by NNI Web 99."),
    (ZeroDivisionError("a defect"), "ZeroDivisionError: a defect. This is a defect. Please report it"),
    (SystemExit("It is too new."), "It is too new.")])
def test_what_does_not_pass_ends_the_start_with_a_sentence(opened: Opened, monkeypatch, fault: BaseException,
                                                           sentence: str) -> None:
    def fails(*_: object, **__: object) -> None:
        raise fault

    monkeypatch.setattr(server_opening, "is_of_this_version", lambda: False)
    monkeypatch.setattr("nniweb.upgrades.bringing_up_to_date.bring_up_to_date", fails)
    opened.opening.start()
    assert opened.gave_up.wait(90)
    assert sentence in opened.opening.failure
    assert not opened.is_open


def test_an_experiment_that_is_not_there_has_no_port_of_its_own(opened: Opened) -> None:
    opened.opening._wanted = {"nosuchid": 4321}
    opened.opening.start()
    assert opened.gave_up.wait(90)
    assert "there is no experiment nosuchid" in opened.opening.failure


def test_a_worker_whose_thread_fails_is_made_anew(opened: Opened, monkeypatch) -> None:
    begun, run = [], Supervisor.run

    def brittle(supervisor: Supervisor) -> None:
        begun.append(supervisor)
        if len(begun) < 3:
            supervisor.has_run = True
            raise SystemExit
        run(supervisor)

    monkeypatch.setattr(Supervisor, "run", brittle)
    opened.opening._worker._pauses = (0.05,)
    opened.opening.start()
    until(lambda: len(begun) == 3 and Worker.objects.exists())
    assert len({supervisor.worker_id for supervisor in begun}) == 3
