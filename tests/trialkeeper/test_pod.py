"""``keeper.pyz pod``: which replica a container is, its log, and what it leaves as termination message."""

from __future__ import annotations

import base64
import json
import os
import sys
import time
from pathlib import Path

import pytest

from trialkeeper import contract, pod


@pytest.mark.parametrize(("environment", "number"), [
    ({}, 0),
    ({pod.ENV_POD_NAME: "job-worker-3"}, 3),
    ({pod.ENV_POD_NAME: "job-worker-3", pod.ENV_FIRST_REPLICA: "2"}, 5),
    ({"FC_TASK_INDEX": "4", pod.ENV_POD_NAME: "job-worker-3"}, 4),
    ({"JOB_COMPLETION_INDEX": "1", pod.ENV_FIRST_REPLICA: "1"}, 2),
    ({pod.ENV_POD_NAME: "no-number"}, 0),
], ids=["nothing said", "by the name", "not the first role", "framework", "indexed job", "no number"])
def test_one_replica_of_all_roles_has_the_number_that_reports(environment: dict[str, str], number: int) -> None:
    assert pod.replica_number(environment) == number


@pytest.fixture
def mounted(tmp_path: Path) -> dict[str, str]:
    """The environment of a container whose job lies in a mounted file."""
    job = {"job_name": "t1", "command": "true", "code": {"sha256": "0" * 64, "archive": "nniweb/code/x.tar.gz"}}
    (tmp_path / "job.json").write_text(json.dumps(job))
    return {contract.ENV_JOB: "t1", contract.ENV_FOLDER: str(tmp_path / "attempt"),
            pod.ENV_JOB_FILE: str(tmp_path / "job.json"), pod.ENV_STORAGE: "/tmp/mount",
            pod.ENV_END_FILE: str(tmp_path / "end"), contract.ENV_URLS: "http://server"}


def test_the_keeper_finds_the_job_with_the_place_of_its_code(mounted: dict[str, str]) -> None:
    seen = {}

    def run(environment):
        seen.update(environment)
        return 0

    assert pod.run_pod({**mounted, pod.ENV_FIRST_REPLICA: "2"}, run) == 0
    job = json.loads((Path(mounted[contract.ENV_FOLDER]) / contract.JOB_FILE).read_text())
    assert job["code"]["archive"] == "/tmp/mount/nniweb/code/x.tar.gz"
    assert seen[contract.ENV_REPLICA] == "2"


def test_a_container_that_is_started_again_keeps_the_job_it_had(mounted: dict[str, str]) -> None:
    folder = Path(mounted[contract.ENV_FOLDER])
    folder.mkdir()
    (folder / contract.JOB_FILE).write_text('{"command": "as before"}')
    pod.run_pod(mounted, lambda environment: 0)
    assert json.loads((folder / contract.JOB_FILE).read_text()) == {"command": "as before"}


def test_how_the_trial_ended_is_the_termination_message_however_long_its_text(mounted: dict[str, str]) -> None:
    end = {"exit_code": 3, "reason": "exited", "message": "x" * 10_000}

    def run(environment):
        (Path(environment[contract.ENV_FOLDER]) / contract.EXIT_FILE).write_text(json.dumps(end))
        return 3

    assert pod.run_pod(mounted, run) == 3
    text = Path(mounted[pod.ENV_END_FILE]).read_text()
    assert len(text) <= pod.MOST_OF_END
    assert {**json.loads(text), "message": ""} == {**end, "message": ""}


def test_the_log_has_the_output_and_where_nobody_is_called_the_journal(mounted: dict[str, str],
                                                                      capfdbinary: pytest.CaptureFixture[bytes],
                                                                      monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [{"n": 1, "type": "started"}, {"n": 2, "type": "metric", "value": "größe", "position": ["m", 7]}]

    def run(environment):
        folder = Path(environment[contract.ENV_FOLDER])
        (folder / contract.STDOUT_FILE).write_bytes("größe ☃\nno end of line".encode())
        (folder / contract.STDERR_FILE).write_bytes(b"\xff is no text\n")
        (folder / contract.JOURNAL_FILE).write_text(
            "".join(json.dumps(line) + "\n" for line in [{"journal_id": "j"}, *entries]) + '{"n": 3, "half')
        return 0

    monkeypatch.setattr(sys, "stdout", open(1, "w", closefd=False))  # noqa: SIM115
    monkeypatch.setattr(sys, "stderr", open(2, "w", closefd=False))  # noqa: SIM115
    pod.run_pod({**mounted, contract.ENV_URLS: ""}, run)
    out, err = capfdbinary.readouterr()
    assert "größe ☃\n".encode() in out
    assert b"no end of line\n" in out
    assert err == b"\xff is no text\n"
    marked = [json.loads(base64.b64decode(line[len(pod.MARK):])) for line in out.decode().splitlines()
              if line.startswith(pod.MARK)]
    assert marked == [{"journal_id": "j"}, entries[0], {"n": 2, "type": "metric", "value": "größe"}]


def test_a_line_without_an_end_is_logged_in_parts_and_not_gathered(mounted: dict[str, str],
                                                                    capfdbinary: pytest.CaptureFixture[bytes],
                                                                    monkeypatch: pytest.MonkeyPatch) -> None:
    def run(environment):
        folder = Path(environment[contract.ENV_FOLDER])
        os.mkfifo(folder / contract.STDERR_FILE)  # what the trial has put there is not waited for
        with (folder / contract.STDOUT_FILE).open("wb") as file:
            file.write(b"x" * 60_000_000 + b"\n" + b"y" * 300_000)
        return 0

    monkeypatch.setattr(sys, "stdout", open(1, "w", closefd=False))  # noqa: SIM115
    began = time.process_time()
    pod.run_pod(mounted, run)
    assert time.process_time() - began < 2
    out, _ = capfdbinary.readouterr()
    assert (out.count(b"x"), out.count(b"y")) == (60_000_000, 300_000)
    assert max(map(len, out.splitlines())) < 1_000_000


def test_where_the_server_is_called_the_journal_stays_out_of_the_log(mounted: dict[str, str],
                                                                    capfd: pytest.CaptureFixture[str]) -> None:
    def run(environment):
        (Path(environment[contract.ENV_FOLDER]) / contract.JOURNAL_FILE).write_text('{"journal_id": "j"}\n')
        return 0

    pod.run_pod(mounted, run)
    assert pod.MARK not in capfd.readouterr().out
