"""A job that stays as a warm place: real processes against a server that has further attempts for it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.trialkeeper.hiding_process import lives
from tests.trialkeeper.keeper_run import KeeperRun, wait_until
from tests.trialkeeper.place_server import PlaceServer
from trainingservice.code.code_archive import pack_code
from trainingservice.variants.code_variant import ChangedFile, variant_content, variant_document, write_variant
from trialkeeper import contract


@pytest.fixture
def server() -> Iterator[PlaceServer]:
    server = PlaceServer()
    yield server
    server.end()


class PlaceRun(KeeperRun):
    """A place in a test's folder."""

    def stay(self, command: str, idle: float = 30.0, **variables: str) -> Any:
        return self.start(command, {contract.ENV_PLACE: str(idle), **variables})


@pytest.fixture
def place(tmp_path: Path, server: PlaceServer) -> Iterator[PlaceRun]:
    run = PlaceRun(tmp_path / "attempts" / server.job_name, server)
    yield run
    run.clean_up()


def written(path: Path) -> list[str]:
    return path.read_text().split() if path.exists() else []


def test_a_place_runs_attempts_one_after_the_other_each_in_a_folder_of_its_own(
        place: PlaceRun, server: PlaceServer, tmp_path: Path) -> None:
    told = tmp_path / "told"
    text = f'touch left; ls | tr "\\n" " " >>{told}; pwd >>{told}; echo $TMPDIR >>{told}; touch $TMPDIR/full'
    process = place.stay(text, idle=0.4)
    for name in ("trialbbbbbbb", "trialccccccc"):
        server.give(name, parameters=[{"index": 0, "text": "{}"}])
    assert process.wait(60) == 0
    assert [attempt.ended["exit_code"] for attempt in (server, *server.attempts.values())] == [0, 0, 0]
    words = written(told)
    assert words[0::3] == ["left"] * 3, "each began in an empty folder"
    assert [Path(path).parent.name for path in words[1::3]] == [server.job_name, *server.attempts]
    assert len(set(words[2::3])) == 3
    assert not any(os.path.exists(path) for path in words[2::3])
    assert server.left == contract.LEAVES_IDLE
    journals = {attempt.journal_id for attempt in (server, *server.attempts.values())}
    assert len(journals) == 3
    assert None not in journals


def test_a_trial_is_told_its_own_name_and_parameters(place: PlaceRun, server: PlaceServer) -> None:
    process = place.stay('echo $NNI_TRIAL_JOB_ID $NNI_TRIAL_SEQ_ID $A; cat "$NNI_SYS_DIR/parameter.cfg"', idle=0.2)
    given = server.give("trialbbbbbbb", sequence_id=7, environment={"A": "b"},
                        parameters=[{"index": 0, "text": '{"x": 5}'}])
    assert process.wait(60) == 0
    assert given.output().split("\n")[:2] == ["trialbbbbbbb 7 b", '{"x": 5}']


def test_each_trial_of_a_place_runs_its_own_changes_to_the_code(place: PlaceRun, server: PlaceServer, tmp_path: Path
                                                               ) -> None:
    code = tmp_path / "code"
    code.mkdir()
    (code / "words").write_text("as it is")
    archive = pack_code(code.resolve(), tmp_path / "archives")

    def changed(words: str) -> contract.VariantDocument:
        return variant_document(write_variant(variant_content(
            archive.sha256, [ChangedFile("words", words, "as it is")]), tmp_path / "variants"))

    process = place.start("cat words", {contract.ENV_PLACE: "0.3"}, code={
        "sha256": archive.sha256, "archive": str(archive.path)}, variant=changed("first"))
    second, third = server.give("trialbbbbbbb", variant=changed("second")), server.give("trialccccccc", variant=None)
    assert process.wait(60) == 0
    assert [attempt.output() for attempt in (server, second, third)] == ["first", "second", "as it is"]


def test_a_daemon_that_ignores_term_is_gone_before_the_next_trial(
        place: PlaceRun, server: PlaceServer, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    hides = (f"(setsid sh -c 'trap \"\" TERM HUP; echo $$ >{pid_file}; while :; do sleep 0.2; done' "
             ">/dev/null 2>&1 &) ; until [ -s {0} ]; do sleep 0.02; done; exit 3").replace("{0}", str(pid_file))
    process = place.stay(f"if [ -s {pid_file} ]; then kill -0 $(cat {pid_file}) && exit 9; exit 0; fi; {hides}",
                         idle=0.2)
    given = server.give("trialbbbbbbb")
    assert process.wait(60) == 0
    assert server.ended is not None
    assert server.ended["exit_code"] == 3
    assert given.ended is not None
    assert given.ended["exit_code"] == 0, "the daemon of the trial before lived on"


def test_a_keeper_that_is_killed_is_followed_by_one_that_tells_the_end_and_the_place_goes_on(
        place: PlaceRun, server: PlaceServer, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    process = place.stay(f"if [ -s {pid_file} ]; then exit 0; fi; echo $$ >{pid_file}; sleep 60", idle=0.2)
    [trial] = wait_until(lambda: written(pid_file))
    os.kill(place.read(contract.KEEPER_FILE)["pid"], signal.SIGKILL)
    given = server.give("trialbbbbbbb")
    assert process.wait(60) == 0
    assert server.ended is not None
    assert server.ended["reason"] == contract.LOST
    assert not lives(int(trial))
    assert given.ended is not None
    assert given.ended["exit_code"] == 0


def test_after_two_failures_in_a_row_the_place_is_given_back(place: PlaceRun, server: PlaceServer) -> None:
    process = place.stay('[ "$NNI_TRIAL_JOB_ID" = trialbbbbbbb ]')
    given = [server.give(name) for name in ("trialbbbbbbb", "trialccccccc", "trialddddddd", "trialeeeeeee")]
    assert process.wait(60) == 0
    assert [attempt.ended and attempt.ended["exit_code"] for attempt in (server, *given)] == [1, 0, 1, 1, None]
    assert server.left == contract.LEAVES_AFTER_FAILURES


def test_a_place_near_the_time_limit_of_its_job_takes_nothing_more(place: PlaceRun, server: PlaceServer) -> None:
    given = server.give("trialbbbbbbb")
    process = place.stay("true", **{contract.ENV_PLACE_UNTIL: str(int(time.time()) + 30)})
    assert process.wait(60) == 0
    assert (server.left, given.ended) == (contract.LEAVES_AT_LIMIT, None)


def test_a_place_that_is_told_to_end_ends_its_trial_and_asks_no_more(place: PlaceRun, server: PlaceServer) -> None:
    process = place.stay("sleep 60")
    server.wait_for(lambda: server.of_type("started"))
    server.give("trialbbbbbbb")
    process.send_signal(signal.SIGTERM)
    process.wait(60)
    assert server.ended is not None
    assert server.ended["reason"] == contract.STOPPED
    assert not any(not question["running"] for question in server.questions)


def test_a_signal_for_the_trial_of_a_place_reaches_it_and_an_idle_place_goes_on(
        place: PlaceRun, server: PlaceServer, tmp_path: Path) -> None:
    heard = tmp_path / "heard"
    process = place.stay(f"trap 'echo $NNI_TRIAL_JOB_ID >>{heard}; exit 0' USR1; touch works; "
                         "while true; do sleep 0.02; done", idle=5.0)
    server.wait_for(lambda: (place.folder / contract.CODE_FOLDER / "works").exists())
    process.send_signal(signal.SIGUSR1)
    server.wait_for(lambda: any(not question["running"] for question in server.questions))
    process.send_signal(signal.SIGUSR1)
    server.give("trialbbbbbbb")
    wait_until(lambda: (place.folder.parent / "trialbbbbbbb" / contract.CODE_FOLDER / "works").exists())
    process.send_signal(signal.SIGUSR1)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    assert written(heard)[0] == server.job_name


def test_an_idle_place_that_is_told_to_end_ends_at_once(place: PlaceRun, server: PlaceServer) -> None:
    process = place.stay("true")
    server.wait_for(lambda: any(not question["running"] for question in server.questions))
    process.send_signal(signal.SIGTERM)
    began = time.monotonic()
    assert process.wait(60) == 0
    assert time.monotonic() - began < 10


def test_a_place_waits_for_a_server_that_is_away(place: PlaceRun, server: PlaceServer) -> None:
    process = place.stay("true")
    server.wait_for(lambda: any(not question["running"] for question in server.questions))
    server.stop()
    given = server.give("trialbbbbbbb")
    server.start()
    server.wait_for(lambda: given.ended)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0


@pytest.mark.parametrize(("status", "error"), [(404, "unknown"), (410, "gone"), (409, "claimed")])
def test_a_server_that_wants_no_place_gets_the_exit_status_of_the_trial(
        place: PlaceRun, server: PlaceServer, status: int, error: str) -> None:
    server.refuses = status, error
    assert place.stay("sleep 0.3; exit 4").wait(60) == 4
    assert server.ended is not None
    assert server.ended["exit_code"] == 4
    assert server.left is None


def test_the_folder_of_each_trial_is_removed_where_nobody_could_read_it(
        place: PlaceRun, server: PlaceServer) -> None:
    later = place.folder / "next"
    process = place.stay("mkdir -p a/b; chmod 0 a; touch ../outside; pwd", idle=0.2,
                         **{contract.ENV_PLACE_FOLDER: str(later)})
    given = server.give("trialbbbbbbb")
    assert process.wait(60) == 0
    assert given.output().split() == [str(later / "trialbbbbbbb" / contract.CODE_FOLDER)]
    assert (os.listdir(place.folder), os.listdir(later)) == (["next"], [])


def test_folders_that_nobody_has_named_are_outside_of_the_trials_temporary_folder_and_go(
        place: PlaceRun, server: PlaceServer, tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    told = tmp_path / "told"
    server.job = place.job(f"pwd >>{told}; ls -A $TMPDIR >>{told}")
    process = place.start(None, {contract.ENV_PLACE: "0.2", contract.ENV_FOLDER: "", "TMPDIR": str(temporary)})
    given = server.give("trialbbbbbbb")
    assert process.wait(60) == 0
    assert given.ended is not None
    below = temporary / f"nniweb-{os.getuid()}"
    assert written(told) == [str(below / name / contract.CODE_FOLDER) for name in (server.job_name, given.job_name)]
    assert [path for path in temporary.rglob("*") if path.is_file()] == []
