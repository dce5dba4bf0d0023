"""The receiver passes the cases of the protocol, and what only a receiver does."""

import http.client
import json
import os
import threading

import pytest

from trainingservice.errors import UnknownTrialJob
from trainingservice.receiver.attempt_records import AttemptRecord
from trainingservice.receiver.keeper_receiver import KeeperReceiver
from trainingservice.testing.keeper_protocol import HandKeeper, KeeperProtocolConformance, ended, metric, started
from trainingservice.trial_job import HyperParameters
from trialkeeper import contract

JOB = "trialaaaaaaa"


class TestReceiverInMemory(KeeperProtocolConformance):
    @pytest.fixture
    def keeper_server(self):
        with KeeperReceiver() as receiver:
            yield receiver


class TestReceiverOnDisk(KeeperProtocolConformance):
    @pytest.fixture
    def keeper_server(self, tmp_path):
        with KeeperReceiver(folder=tmp_path / "receiver") as receiver:
            yield receiver


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "receiver"


@pytest.fixture
def receiver(folder):
    with KeeperReceiver(installation="mine", folder=folder) as receiver:
        yield receiver


@pytest.fixture
def keeper(receiver):
    return HandKeeper(receiver.access_for(JOB), JOB)


class Hearer:
    def __init__(self, fails=False):
        self.heard, self.fails = [], fails

    def hear(self, job_name, entries):
        self.heard += [(job_name, entry["n"]) for entry in entries]
        if self.fails:
            raise ValueError("cannot listen")


def test_a_hearer_is_told_each_entry_once_and_in_order(receiver, keeper):
    broken, hearer = Hearer(fails=True), Hearer()
    for one in (broken, hearer, hearer):
        receiver.attach(one)
    keeper.post(started(), metric(2))
    keeper.post(started(), metric(2), metric(3))
    keeper.post()
    assert hearer.heard == broken.heard == [(JOB, 1), (JOB, 2), (JOB, 3)]
    receiver.detach(hearer)
    keeper.post(metric(4))
    assert len(hearer.heard) == 3


def test_an_order_given_by_a_hearer_goes_out_with_the_very_answer(receiver, keeper):
    class Judge:
        def hear(self, job_name, entries):
            receiver.order_stop(job_name, "seen enough")

    receiver.attach(Judge())
    assert keeper.post(started()).document["orders"] == [{"order": "stop", "reason": "seen enough"}]


def test_what_was_acknowledged_is_known_to_the_next_receiver_on_the_folder(receiver, folder, keeper):
    keeper.post(started(), metric(2), {"n": 3, "at": 1, "type": "gossip"})
    receiver.order_stop(JOB, "enough")
    receiver.order_parameters(JOB, HyperParameters("{}", 1))
    receiver.close()
    with (folder / "attempts" / f"{JOB}.jsonl").open("ab") as stream:
        stream.write(b'{"journal": "half a li')  # as a crash leaves it
    with KeeperReceiver(installation="mine", folder=folder) as successor:
        assert json.loads(successor.url_file.read_text()) == {"urls": [successor.url]}
        again = HandKeeper(successor.access_for(JOB), JOB)
        answer = again.post(metric(4), token=keeper.access.token).document
        assert answer["accepted"] == 4
        assert [order["order"] for order in answer["orders"]] == ["stop", "parameters"]
        assert [entry["n"] for entry in successor.entries(JOB)] == [1, 2, 4]
        assert [wrong["n"] for wrong in successor.rejected(JOB)] == [3]
        other = HandKeeper(again.access, JOB, journal_id="journal-2")
        assert other.post(started()).document["error"] == contract.ERROR_CLAIMED


def test_no_token_is_written_to_disk(folder, keeper):
    assert keeper.post(started()).status == 200
    for path in folder.rglob("*"):
        assert path.is_dir() or keeper.access.token not in path.read_text()


def test_a_full_disk_is_answered_with_come_back_later_and_nothing_is_taken(receiver, folder, keeper):
    keeper.post(started())
    path = folder / "attempts" / f"{JOB}.jsonl"
    path.rename(path.with_suffix(".aside"))
    path.mkdir()  # stands for any error of the file system, which a test run by root cannot provoke otherwise
    answer = keeper.post(metric(2))
    assert (answer.status, answer.document["error"]) == (503, contract.ERROR_BUSY)
    assert int(answer.headers["Retry-After"]) > 0
    path.rmdir()
    path.with_suffix(".aside").rename(path)
    assert keeper.post().document["accepted"] == 1


def test_a_withdrawn_attempt_answers_gone(receiver, keeper):
    keeper.post(started())
    receiver.withdraw(JOB)
    answer = keeper.post(metric(2))
    assert (answer.status, answer.document["error"], answer.document["installation"]) == (410, "gone", "mine")


def test_a_forgotten_attempt_leaves_nothing(receiver, folder, keeper):
    keeper.post(started())
    keeper.call("PUT", f"trials/{JOB}/files/kept", b"content")
    receiver.forget(JOB)
    receiver.forget(JOB)
    assert keeper.post(metric(2)).status == 401
    assert [path for path in folder.rglob("*") if JOB in str(path)] == []
    with pytest.raises(UnknownTrialJob):
        receiver.entries(JOB)


def test_a_body_that_is_too_large_is_refused_before_it_is_sent(keeper):
    answer = keeper.call("POST", f"trials/{JOB}/reports", None, {"Content-Length": str(contract.MAX_REPORT_BYTES + 1)})
    assert (answer.status, answer.document["error"]) == (413, contract.ERROR_TOO_LARGE)


def test_files_are_kept_inside_their_folder(receiver, folder, keeper):
    assert keeper.call("PUT", f"trials/{JOB}/files/out/model%20%C3%A4.bin", b"\x00\xff" * 100_000).status == 200
    assert (receiver.files_folder(JOB) / "out" / "model ä.bin").read_bytes() == b"\x00\xff" * 100_000
    for name in ("..%2Fescape", "../escape", "a/%2E%2E/%2E%2E/escape", "%2Fetc%2Fescape", "a%00b"):
        assert keeper.call("PUT", f"trials/{JOB}/files/{name}", b"x").status in (400, 404)
    for length in ("9" * 12, "0" * 20 + "9" * 12):
        assert keeper.call("PUT", f"trials/{JOB}/files/huge", None, {"Content-Length": length}).status == 413
    assert [path.name for path in folder.rglob("*") if path.is_file() and "files" in path.parts] == ["model ä.bin"]


def test_a_receiver_in_memory_says_that_it_keeps_no_files():
    with KeeperReceiver() as receiver:
        answer = HandKeeper(receiver.access_for(JOB), JOB).call("PUT", f"trials/{JOB}/files/kept", b"x")
        assert answer.status == 404
        assert "no folder" in answer.document["message"]


def test_resources_are_kept_as_last_read(receiver, keeper):
    keeper.post(started(), resources={"cpu_percent": 5})
    keeper.post(resources={"cpu_percent": 7})
    keeper.post()
    assert receiver.resources(JOB) == {"cpu_percent": 7}


def test_it_comes_back_on_its_port_and_leaves_no_thread_behind(receiver, keeper):
    keeper.post(started())
    url, before = receiver.url, set(threading.enumerate())
    receiver.close()
    receiver.close()
    with pytest.raises(OSError):
        keeper.post(metric(2))
    assert not [thread for thread in threading.enumerate() if thread in before and "receiver" in thread.name]
    receiver.start()
    assert receiver.url == url
    assert keeper.post(metric(2), ended(3)).document["accepted"] == 3


def test_a_silent_connection_does_not_hold_up_the_end(receiver):
    host, port = receiver.url.removeprefix("http://").split(":")
    connection = http.client.HTTPConnection(host, int(port))
    connection.request("GET", contract.URL_PREFIX + "nothing")
    response = connection.getresponse()
    response.read()
    assert response.status == 401
    receiver.close()  # with the connection still open
    assert connection.sock.recv(1) == b""
    connection.close()


def test_the_file_of_a_new_attempt_and_its_name_are_flushed(tmp_path, monkeypatch):
    fsync, flushed = os.fsync, []

    def watched(descriptor):
        fsync(descriptor)
        flushed.append(os.fstat(descriptor).st_ino)

    monkeypatch.setattr(os, "fsync", watched)
    attempt = AttemptRecord(JOB, tmp_path / "attempt.jsonl")
    attempt.add_token("one")
    attempt.add_token("two")
    file, folder = (path.stat().st_ino for path in (tmp_path / "attempt.jsonl", tmp_path))
    assert flushed == [file, folder, file]
