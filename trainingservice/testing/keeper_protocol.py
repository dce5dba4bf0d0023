"""The cases every server of the keeper protocol passes. Fill the fixture ``keeper_server`` and inherit:

    class TestMyServer(KeeperProtocolConformance):
        @pytest.fixture
        def keeper_server(self): ...
"""

from __future__ import annotations

import gzip
import hashlib
import http.client
import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from trainingservice.keeper.keeper_bundle import keeper_bytes
from trainingservice.testing.keeper_server import KeeperServer
from trainingservice.trial_job import HyperParameters, JobApplicationForm, KeeperAccess, TrialCode, parameter_text
from trialkeeper import contract

HARD_VALUES = ["NaN", "Infinity", "1e308", '{"default": 0.5, "loss": NaN}', json.dumps([0.123456789] * 8000),
               '"not a number"', "not even JSON", '"nul \x00 inside"', '"lone \ud800 surrogate"', ""]


class Answered:
    """An answer: status, headers, and the body as bytes and as JSON."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers = response.headers
        self.body = response.read()

    @property
    def document(self) -> dict[str, Any]:
        parsed: dict[str, Any] = json.loads(self.body)
        return parsed


class HandKeeper:
    """A keeper whose every word the test chooses."""

    def __init__(self, access: KeeperAccess, job_name: str, journal_id: str = "journal-1") -> None:
        self.access, self.job_name, self.journal_id = access, job_name, journal_id

    def call(self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] = {},
             token: str | None = None) -> Answered:
        address = urlsplit(self.access.urls[0])
        connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=90)
        try:
            connection.request(method, contract.URL_PREFIX + path, body,
                               {"Authorization": f"Bearer {token or self.access.token}", **headers})
            return Answered(connection.getresponse())
        finally:
            connection.close()

    def report(self, *entries: contract.Entry, keeper: Mapping[str, Any] = {}, **more: Any) -> dict[str, Any]:
        document = {"version": contract.PROTOCOL_VERSION, "host": "here", "pid": 4711, "journal_id": self.journal_id,
                    "replica": 0, "parameter_index": 0}
        return {"keeper": {**document, **keeper}, "sent_at": 1000.0, "entries": list(entries), **more}

    def post(self, *entries: contract.Entry, token: str | None = None, compressed: bool = False,
             keeper: Mapping[str, Any] = {}, **more: Any) -> Answered:
        body = json.dumps(self.report(*entries, keeper=keeper, **more)).encode()
        headers = {"Content-Type": "application/json"}
        if compressed:
            body, headers["Content-Encoding"] = gzip.compress(body), "gzip"
        return self.call("POST", f"trials/{self.job_name}/reports", body, headers, token)


def started(n: int = 1) -> contract.Entry:
    return {"n": n, "at": 1000.0 + n, "type": contract.STARTED, "pid": 4711, "host": "here", "machine_id": "m",
            "gpu_indices": None, "working_directory": "/w"}


def metric(n: int, value: str = "0.5", kind: str = contract.PERIODICAL) -> contract.Entry:
    return {"n": n, "at": 1000.0 + n, "type": contract.METRIC, "kind": kind, "parameter_id": 0, "sequence": n,
            "value": value}


def output(n: int, text: str, offset: int = 0) -> contract.Entry:
    return {"n": n, "at": 1000.0 + n, "type": contract.OUTPUT, "stream": "stdout", "offset": offset, "data": text}


def ended(n: int) -> contract.Entry:
    return {"n": n, "at": 1000.0 + n, "type": contract.ENDED, "exit_code": 0, "signal": None,
            "reason": contract.EXITED, "message": "", "duration": 1.5}


def saved(n: int, checkpoint_id: str, k: int = 1, **fields: Any) -> contract.Entry:
    return {"n": n, "at": 1000.0 + n, "type": contract.CHECKPOINT, "event": contract.SAVED, "id": checkpoint_id, "k": k,
            "name": "step-3", "step": 3, "size": 5, "sequence": 2, **fields}


def checkpoint(*contents: bytes, name: str = "step-3") -> tuple[str, bytes, dict[str, bytes]]:
    """Id and manifest of a checkpoint of a file for each content, and its chunks by hash."""
    chunks = {hashlib.sha256(content).hexdigest(): content for content in contents}
    manifest = json.dumps({"version": 1, "name": name, "folders": ["model"], "files": [
        {"path": f"model/{index}.bin", "size": len(content), "mode": 0o600,
         "chunks": [hashlib.sha256(content).hexdigest()]} for index, content in enumerate(contents)]},
        sort_keys=True, separators=(",", ":")).encode()
    return hashlib.sha256(manifest).hexdigest(), manifest, chunks


class KeeperProtocolConformance:
    """One case per rule of docs/keeper-protocol.md. ``job_name``, ``other_job`` and ``keeper`` may be overridden."""

    @pytest.fixture
    def keeper_server(self) -> KeeperServer:
        raise RuntimeError("override the fixture keeper_server: a fresh, started server")

    @pytest.fixture
    def job_name(self) -> str:
        return "trialaaaaaaa"

    @pytest.fixture
    def other_job(self) -> str:
        return "trialbbbbbbb"

    @pytest.fixture
    def form(self, keeper_server: KeeperServer, job_name: str) -> JobApplicationForm:
        return JobApplicationForm(
            job_name=job_name, trial_job_id=job_name, experiment_id="expaaaaaaaaa", sequence_id=0, multi_phase=True,
            hyper_parameters=HyperParameters(parameter_text({"x": 1}, 0)), command="true",
            keeper=keeper_server.access_for(job_name))

    @pytest.fixture
    def keeper(self, keeper_server: KeeperServer, form: JobApplicationForm) -> HandKeeper:
        keeper_server.expect(form, platform="hand")
        return HandKeeper(form.keeper, form.job_name)

    def numbers(self, server: KeeperServer, keeper: HandKeeper) -> list[int]:
        return [entry["n"] for entry in server.entries(keeper.job_name)]

    # --- exactly once ----------------------------------------------------------------------

    def test_a_report_is_taken_and_acknowledged(self, keeper_server: KeeperServer, keeper: HandKeeper) -> None:
        sent = [started(), output(2, "h\xff\x00i"), metric(3), ended(4)]
        answer = keeper.post(*sent)
        assert answer.status == 200, answer.body
        assert answer.document["accepted"] == 4
        assert answer.document["rejected"] == []
        assert answer.document["orders"] == []
        assert 0 < answer.document["next_report_within"] <= 60
        for given, taken in zip(sent, keeper_server.entries(keeper.job_name), strict=True):
            assert {name: taken.get(name) for name in given} == given

    def test_a_repeated_report_changes_nothing(self, keeper_server: KeeperServer, keeper: HandKeeper) -> None:
        for _ in range(3):
            assert keeper.post(started(), metric(2)).document["accepted"] == 2
        assert keeper.post(metric(2, "0.9"), metric(3)).document["accepted"] == 3
        taken = keeper_server.entries(keeper.job_name)
        assert [(entry["n"], entry.get("value")) for entry in taken] == [(1, None), (2, "0.5"), (3, "0.5")]

    def test_the_same_report_sent_at_once_by_several_connections_is_taken_once(
            self, keeper_server: KeeperServer, keeper: HandKeeper) -> None:
        keeper.post(started())
        answers: list[Answered] = []
        threads = [threading.Thread(target=lambda: answers.append(keeper.post(*(metric(n) for n in range(2, 50)))))
                   for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert [answer.status for answer in answers] == [200] * 6
        assert self.numbers(keeper_server, keeper) == list(range(1, 50))

    def test_a_gap_names_the_number_expected_and_changes_nothing(self, keeper_server: KeeperServer,
                                                                 keeper: HandKeeper) -> None:
        keeper.post(started())
        for entries in ((metric(3),), (metric(2), metric(4))):
            answer = keeper.post(*entries)
            assert (answer.status, answer.document["error"]) == (409, contract.ERROR_GAP)
        assert keeper.post(metric(3)).document["expected"] == 2
        assert self.numbers(keeper_server, keeper) == [1]

    def test_a_heartbeat_says_how_far_the_journal_was_taken(self, keeper_server: KeeperServer,
                                                            keeper: HandKeeper) -> None:
        assert keeper.post().document["accepted"] == 0
        keeper.post(started(), metric(2))
        answer = keeper.post(resources={"cpu_percent": 12.5, "memory_bytes": 1000,
                                        "gpus": [{"index": 0, "utilization": 3, "memory_bytes": 9}]})
        assert (answer.status, answer.document["accepted"]) == (200, 2)
        assert self.numbers(keeper_server, keeper) == [1, 2]

    def test_heartbeats_of_several_keepers_are_answered_in_one_request_or_the_server_does_not_know_it(
            self, keeper_server: KeeperServer, keeper: HandKeeper) -> None:
        keeper.post(started(), metric(2))
        own = {name: value for name, value in keeper.report().items() if name != "entries"}
        body = json.dumps({"reports": [{**own, "job_name": keeper.job_name, "token": token}
                                       for token in (keeper.access.token, "wrong")]}).encode()
        answer = keeper.call("POST", f"trials/{keeper.job_name}/reports/several", body,
                             {"Content-Type": "application/json"})
        if answer.status not in (404, 405):
            first, second = answer.document["answers"]
            assert (answer.status, first["status"], first["accepted"]) == (200, 200, 2)
            assert (second["status"], second["error"]) == (401, contract.ERROR_TOKEN)
        assert self.numbers(keeper_server, keeper) == [1, 2]

    # --- who owns the attempt --------------------------------------------------------------

    def test_the_first_journal_owns_the_attempt(self, keeper_server: KeeperServer, keeper: HandKeeper) -> None:
        keeper.post(started())
        second = HandKeeper(keeper.access, keeper.job_name, journal_id="journal-2")
        for answer in (second.post(started()), second.post()):
            assert (answer.status, answer.document["error"]) == (409, contract.ERROR_CLAIMED)
        assert keeper.post(metric(2)).status == 200
        assert self.numbers(keeper_server, keeper) == [1, 2]

    def test_other_replicas_hear_orders_and_touch_nothing(self, keeper_server: KeeperServer,
                                                          keeper: HandKeeper) -> None:
        keeper.post(started())
        assert keeper.post(keeper={"replica": 1, "journal_id": ""}).document["orders"] == []
        keeper_server.order_stop(keeper.job_name, "enough")
        answer = keeper.post(keeper={"replica": 1, "journal_id": ""})
        assert [order["order"] for order in answer.document["orders"]] == [contract.ORDER_STOP]
        assert self.numbers(keeper_server, keeper) == [1]

    # --- tokens ----------------------------------------------------------------------------

    def test_a_wrong_token_opens_nothing(self, keeper_server: KeeperServer, keeper: HandKeeper) -> None:
        answer = keeper.post(started(), token="wrong")
        assert (answer.status, answer.document["error"]) == (401, contract.ERROR_TOKEN)
        assert keeper.call("GET", f"trials/{keeper.job_name}/job", token="wrong").status == 401
        assert keeper.call("POST", f"trials/{keeper.job_name}/reports", b"{}",
                           {"Authorization": "Basic bm86bm8="}).status == 401
        assert keeper_server.entries(keeper.job_name) == []

    def test_the_token_of_another_attempt_opens_nothing(self, keeper_server: KeeperServer, keeper: HandKeeper,
                                                        other_job: str) -> None:
        stranger = keeper_server.access_for(other_job).token
        assert keeper.post(started(), token=stranger).status in (401, 403)
        assert keeper.call("GET", f"trials/{keeper.job_name}/job", token=stranger).status in (401, 403)
        assert keeper_server.entries(keeper.job_name) == []

    def test_the_token_of_an_earlier_submission_stays_good(self, keeper_server: KeeperServer,
                                                           keeper: HandKeeper) -> None:
        later = keeper_server.access_for(keeper.job_name).token
        assert later != keeper.access.token
        assert keeper.post(started()).status == 200
        assert keeper.post(metric(2), token=later).status == 200

    def test_each_answer_carries_the_id_of_the_installation(self, keeper: HandKeeper) -> None:
        answers = [keeper.post(), keeper.post(metric(7)), keeper.post(token="wrong"),
                   keeper.call("POST", f"trials/{keeper.job_name}/reports", b"garbage")]
        assert [answer.status for answer in answers] == [200, 409, 401, 400]
        names = {answer.document["installation"] for answer in answers}
        assert len(names) == 1
        assert names.pop()

    # --- bodies ----------------------------------------------------------------------------

    def test_a_compressed_report_is_read(self, keeper_server: KeeperServer, keeper: HandKeeper) -> None:
        assert keeper.post(started(), metric(2), compressed=True).document["accepted"] == 2
        assert self.numbers(keeper_server, keeper) == [1, 2]

    @pytest.mark.parametrize("body", [b"", b"garbage", b"[]", b"{}", b'{"keeper": {}, "entries": []}', b"\x00\xff",
                                      b'{"keeper": {"version": 1, "journal_id": "j"}, "entries": [{"n": "x"}]}'])
    def test_a_body_that_cannot_be_read_changes_nothing(self, keeper_server: KeeperServer, keeper: HandKeeper,
                                                        body: bytes) -> None:
        keeper.post(started())
        for headers in ({}, {"Content-Encoding": "gzip"}):
            answer = keeper.call("POST", f"trials/{keeper.job_name}/reports", body, headers)
            assert (answer.status, answer.document["error"]) == (400, contract.ERROR_UNREADABLE)
        assert self.numbers(keeper_server, keeper) == [1]

    def test_a_body_that_is_too_large_is_refused(self, keeper_server: KeeperServer,
                                                               keeper: HandKeeper) -> None:
        answer = keeper.call("POST", f"trials/{keeper.job_name}/reports", b" " * (contract.MAX_REPORT_BYTES + 1))
        assert (answer.status, answer.document["error"]) == (413, contract.ERROR_TOO_LARGE)
        assert keeper_server.entries(keeper.job_name) == []

    def test_a_body_that_grows_too_large_when_decompressed_is_refused(self, keeper_server: KeeperServer,
                                                                      keeper: HandKeeper) -> None:
        answer = keeper.post(started(), padding="x" * contract.MAX_REPORT_BYTES, compressed=True)
        assert (answer.status, answer.document["error"]) == (413, contract.ERROR_TOO_LARGE)
        assert keeper_server.entries(keeper.job_name) == []

    def test_a_wrong_entry_is_acknowledged_and_named_and_holds_nothing_up(self, keeper_server: KeeperServer,
                                                                          keeper: HandKeeper) -> None:
        wrong = {**metric(2), "kind": "LAST"}
        answer = keeper.post(started(), wrong, {"n": 3, "at": 1, "type": "gossip"}, metric(4))
        assert (answer.status, answer.document["accepted"]) == (200, 4)
        assert [(one["n"], one["field"]) for one in answer.document["rejected"]] == [(2, "kind"), (3, "type")]
        assert all(one["message"] for one in answer.document["rejected"])
        assert self.numbers(keeper_server, keeper) == [1, 4]
        assert keeper.post(metric(5)).status == 200

    @pytest.mark.parametrize("value", HARD_VALUES, ids=lambda value: repr(value[:16]))
    def test_any_value_is_stored_as_given(self, keeper_server: KeeperServer, keeper: HandKeeper, value: str) -> None:
        answer = keeper.post(started(), metric(2, value), metric(3, value, contract.FINAL))
        assert (answer.status, answer.document["rejected"]) == (200, [])
        assert [entry["value"] for entry in keeper_server.entries(keeper.job_name)[1:]] == [value, value]

    def test_a_metric_over_the_limit_is_rejected_alone(self, keeper_server: KeeperServer, keeper: HandKeeper) -> None:
        legal = json.dumps("x" * (contract.MAX_METRIC_BYTES - 3))
        answer = keeper.post(started(), metric(2, legal), metric(3, legal + " "))
        assert [(one["n"], one["field"]) for one in answer.document["rejected"]] == [(3, "value")]
        assert self.numbers(keeper_server, keeper) == [1, 2]

    # --- orders ----------------------------------------------------------------------------

    def test_the_order_to_stop_is_in_each_answer(self, keeper_server: KeeperServer, keeper: HandKeeper) -> None:
        keeper.post(started())
        keeper_server.order_stop(keeper.job_name, "enough of it")
        for answer in (keeper.post(), keeper.post(metric(2))):
            orders = [order for order in answer.document["orders"] if order["order"] == contract.ORDER_STOP]
            assert [order["reason"] for order in orders] == ["enough of it"]

    def test_parameters_are_sent_until_the_keeper_holds_them(self, keeper_server: KeeperServer,
                                                             keeper: HandKeeper) -> None:
        keeper.post(started(), metric(2, "1", contract.REQUEST_PARAMETER))
        text = parameter_text({"x": 2}, 1, index=1)
        keeper_server.order_parameters(keeper.job_name, HyperParameters(text, 1))
        wanted = [{"order": contract.ORDER_PARAMETERS, "index": 1, "text": text}]
        assert keeper.post().document["orders"] == wanted
        assert keeper.post().document["orders"] == wanted
        assert keeper.post(keeper={"parameter_index": 1}).document["orders"] == []

    def test_a_keeper_whose_trial_waits_for_parameters_is_asked_back_soon(self, keeper_server: KeeperServer,
                                                                          keeper: HandKeeper) -> None:
        assert keeper.post(started()).document["next_report_within"] > 0.5
        for entries in ((metric(2, "1", contract.REQUEST_PARAMETER),), ()):
            assert keeper.post(*entries).document["next_report_within"] <= 0.5
        keeper_server.order_parameters(keeper.job_name, HyperParameters(parameter_text({"x": 2}, 1, index=1), 1))
        assert keeper.post().document["next_report_within"] > 0.5

    # --- what a keeper fetches -------------------------------------------------------------

    def test_a_keeper_fetches_its_job(self, keeper: HandKeeper, form: JobApplicationForm) -> None:
        answer = keeper.call("GET", f"trials/{keeper.job_name}/job")
        assert answer.status == 200
        job = answer.document
        assert (job["job_name"], job["command"], job["experiment_id"]) == (form.job_name, "true", form.experiment_id)
        assert job["parameters"] == [{"index": 0, "text": form.hyper_parameters.value}]
        assert keeper.access.token not in answer.body.decode()

    def test_the_keeper_itself_can_be_fetched_where_no_platform_brings_it(self, keeper_server: KeeperServer,
                                                                          keeper: HandKeeper, other_job: str) -> None:
        path = f"trials/{keeper.job_name}/keeper"
        answer = keeper.call("GET", path)
        assert (answer.status, answer.body) == (200, keeper_bytes())
        assert keeper.call("GET", path, token="wrong").status == 401
        assert keeper.call("GET", path, token=keeper_server.access_for(other_job).token).status in (401, 403)

    def test_a_keeper_fetches_the_code_of_its_experiment_only(self, keeper_server: KeeperServer, keeper: HandKeeper,
                                                              form: JobApplicationForm, tmp_path: Path) -> None:
        archive = tmp_path / "code.tar.gz"
        archive.write_bytes(gzip.compress(b"any bytes at all" * 10_000))
        sha256 = hashlib.sha256(archive.read_bytes()).hexdigest()
        keeper_server.expect(form, platform="hand", code=TrialCode(archive=archive, sha256=sha256))
        answer = keeper.call("GET", f"experiments/{form.experiment_id}/code")
        assert (answer.status, answer.body) == (200, archive.read_bytes())
        assert answer.headers["ETag"].strip('"') == sha256
        assert keeper.call("GET", f"trials/{keeper.job_name}/job").document["code"]["sha256"] == sha256
        assert keeper.call("GET", "experiments/expbbbbbbbbb/code").status in (401, 403, 404)
        assert keeper.call("GET", f"experiments/{form.experiment_id}/code", token="wrong").status == 401

    # --- checkpoints -----------------------------------------------------------------------

    def send(self, keeper: HandKeeper, checkpoint_id: str, manifest: bytes, chunks: Mapping[str, bytes]) -> None:
        asked = json.dumps({"hashes": list(chunks)}).encode()
        missing = keeper.call("POST", f"trials/{keeper.job_name}/chunks/missing", asked).document["missing"]
        for sha256 in missing:
            assert keeper.call("PUT", f"trials/{keeper.job_name}/chunks/{sha256}", chunks[sha256]).status == 200
        assert keeper.call("PUT", f"trials/{keeper.job_name}/checkpoints/{checkpoint_id}", manifest).status == 200

    def test_a_checkpoint_comes_back_byte_for_byte(self, keeper_server: KeeperServer, keeper: HandKeeper) -> None:
        checkpoint_id, manifest, chunks = checkpoint(b"hello", b"\0" * contract.CHUNK_BYTES)
        self.send(keeper, checkpoint_id, manifest, chunks)
        self.send(keeper, checkpoint_id, manifest, chunks)  # harmless
        address = f"trials/{keeper.job_name}/checkpoints/{checkpoint_id}"
        assert keeper.call("GET", address).status == 404, "it counts when its entry is committed"
        answer = keeper.post(started(), saved(2, checkpoint_id)).document
        assert (answer["accepted"], answer["rejected"]) == (2, [])
        assert keeper.call("GET", address).body == manifest
        for sha256, content in chunks.items():
            assert keeper.call("GET", f"trials/{keeper.job_name}/chunks/{sha256}").body == content

    def test_only_chunks_that_are_not_there_are_asked_for(self, keeper_server: KeeperServer, keeper: HandKeeper
                                                         ) -> None:
        _, _, chunks = checkpoint(b"one", b"two")
        first, second = chunks
        address = f"trials/{keeper.job_name}/chunks"
        assert keeper.call("PUT", f"{address}/{first}", chunks[first]).status == 200
        answer = keeper.call("POST", f"{address}/missing", json.dumps({"hashes": [first, second]}).encode())
        assert (answer.status, answer.document["missing"]) == (200, [second])
        assert answer.document["installation"]

    def test_a_chunk_with_another_hash_is_not_kept(self, keeper_server: KeeperServer, keeper: HandKeeper) -> None:
        sha256 = hashlib.sha256(b"right").hexdigest()
        assert keeper.call("PUT", f"trials/{keeper.job_name}/chunks/{sha256}", b"wrong").status == 400
        assert keeper.call("GET", f"trials/{keeper.job_name}/chunks/{sha256}").status == 404
        large = b"x" * (contract.CHUNK_BYTES + 1)
        sha256 = hashlib.sha256(large).hexdigest()
        assert keeper.call("PUT", f"trials/{keeper.job_name}/chunks/{sha256}", large).status == 413

    def test_a_manifest_names_chunks_that_are_there(self, keeper_server: KeeperServer, keeper: HandKeeper) -> None:
        checkpoint_id, manifest, chunks = checkpoint(b"hello")
        address = f"trials/{keeper.job_name}/checkpoints/{checkpoint_id}"
        answer = keeper.call("PUT", address, manifest)
        assert (answer.status, answer.document["error"], answer.document["missing"]) == (
            409, contract.ERROR_CHUNKS, list(chunks))
        assert keeper.call("PUT", address, manifest + b" ").status == 400

    def test_a_checkpoint_whose_content_was_not_sent_is_rejected(self, keeper_server: KeeperServer,
                                                                 keeper: HandKeeper) -> None:
        checkpoint_id, _, _ = checkpoint(b"hello")
        answer = keeper.post(started(), saved(2, checkpoint_id), metric(3)).document
        assert (answer["accepted"], [one["n"] for one in answer["rejected"]]) == (3, [2])

    def test_the_token_of_another_attempt_opens_no_checkpoint(self, keeper_server: KeeperServer, keeper: HandKeeper,
                                                              other_job: str) -> None:
        stranger = keeper_server.access_for(other_job).token
        sha256 = hashlib.sha256(b"hello").hexdigest()
        for method, path in (("PUT", f"chunks/{sha256}"), ("GET", f"chunks/{sha256}"), ("POST", "chunks/missing"),
                             ("PUT", f"checkpoints/{sha256}"), ("GET", f"checkpoints/{sha256}")):
            assert keeper.call(method, f"trials/{keeper.job_name}/{path}", b"{}" if method != "GET" else None,
                               token=stranger).status == 401
