"""The kill table: anything may die at any instant, and nothing is lost, doubled or left behind.

Each row happens to a real server with real keepers and trials. ``make chaos`` runs every row with several seeds; the
rows that are not marked slow are part of ``make test``. What is asserted is in ``witnessed_experiment``.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random

import pytest

from tests.end_to_end.kill_table.dying_server import POINTS
from tests.end_to_end.kill_table.killed_parts import keeper_of
from tests.end_to_end.kill_table.witnessed_experiment import WitnessedExperiment
from tests.end_to_end.running_server import RunningServer
from tests.fakes.unkind_http_proxy import UnkindHttpProxy
from trialkeeper import contract

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def witnessed(running_server: RunningServer, tmp_path: Path) -> Callable[..., WitnessedExperiment]:
    """Launches an experiment on a running server: ``witnessed(trials=8, ...)``."""
    return lambda **more: WitnessedExperiment(running_server, tmp_path, **more).launch()


# --- the server dies -------------------------------------------------------------------------


def die(server: RunningServer, point: str, passes: int) -> None:
    """The server starts, goes on with its work, and dies when it comes to this point for the nth time."""
    server.start(program=("-m", "tests.end_to_end.kill_table.dying_server", point, str(passes)), wait=False)
    assert server.wait_for_end(120) == -signal.SIGKILL, server.log_tail()


@pytest.mark.slow
@pytest.mark.kill_table("kill -9 of the server at four points, one after the other, during one experiment")
def test_a_server_that_dies_at_one_point_after_the_other_loses_nothing(make_server, tmp_path: Path, seed: int) -> None:
    server, random = make_server(), Random(seed)
    server.start()
    experiment = WitnessedExperiment(server, tmp_path, trials=24, concurrency=3).launch()
    server.kill()
    for point in ("between commit and answer", "after a keeper was started", "in a status write",
                  "before new trials are committed"):
        die(server, point, random.randint(1, 3))
    server.start()
    experiment.nothing_is_lost()


@pytest.mark.slow
@pytest.mark.parametrize("point", [pytest.param(point, marks=pytest.mark.kill_table(f"kill -9 of the server {point}"))
                                   for point in POINTS])
def test_a_server_that_dies_at_a_point_loses_nothing(make_server, tmp_path: Path, seed: int, point: str) -> None:
    server, random = make_server(), Random(f"{point} {seed}")
    server.start()
    tuner, concurrency = ("TPE", 1) if "tuner" in point else ("Random", 4)
    experiment = WitnessedExperiment(server, tmp_path, trials=24, concurrency=concurrency, tuner=tuner).launch()
    server.kill()
    for _ in range(2):
        die(server, point, random.randint(1, 4))
    server.start()
    experiment.nothing_is_lost()


@pytest.mark.slow
@pytest.mark.kill_table("kill -9 of the server at random times during a burst of metrics")
def test_a_server_that_dies_in_a_burst_of_metrics_loses_none(running_server: RunningServer, witnessed,
                                                             seed: int) -> None:
    experiment, random = witnessed(trials=6, concurrency=3, steps=3000, pause=0.004), Random(seed)
    for _ in range(2):
        more = experiment.reported() + random.randint(100, 1500)
        running_server.wait_until(lambda: experiment.reported() > more, what="trials report")  # noqa: B023
        running_server.kill()
        running_server.start()
    experiment.nothing_is_lost()


@pytest.mark.slow
@pytest.mark.kill_table("Ctrl-C and start again with 20 running trials")
def test_ctrl_c_with_20_running_trials_and_a_new_start_lose_nothing(running_server: RunningServer, witnessed,
                                                                    tmp_path: Path, seed: int) -> None:
    experiment = witnessed(trials=20, concurrency=20, steps=100, pause=0.1, go=tmp_path / "go")
    running_server.wait_until(lambda: experiment.begun() == 20, 120, "all have begun")
    assert running_server.stop() == 0
    running_server.start()
    victim = Random(seed).randrange(20)
    running_server.post(f"trials/{experiment.rows()[victim]['id']}/actions/cancel/")  # it was found: it can be ended
    running_server.wait_until(lambda: experiment.rows()[victim]["status"] == "USER_CANCELED", what="it was canceled")
    assert len(experiment.running()) == 19
    (tmp_path / "go").touch()
    experiment.nothing_is_lost(ended={victim: "USER_CANCELED"})


# --- what runs beside a trial dies -------------------------------------------------------------


@pytest.mark.kill_table("kill -9 of a trial")
@pytest.mark.slow
def test_a_killed_trial_has_failed_with_all_it_reported_and_the_others_go_on(
        running_server: RunningServer, witnessed, tmp_path: Path, seed: int) -> None:
    experiment = witnessed(trials=4, concurrency=4, go=tmp_path / "go")
    rows = running_server.wait_until(lambda: len(found := experiment.running()) == 4 and all(
        row["intermediate_count"] for row in found) and found)
    victim = Random(seed).choice(rows)
    os.kill(experiment.pid_of(victim), signal.SIGKILL)
    running_server.wait_until(lambda: experiment.rows()[victim["sequence_id"]]["status"] == "FAILED", what="it failed")
    assert "SIGKILL" in experiment.rows()[victim["sequence_id"]]["message"]
    (tmp_path / "go").touch()
    experiment.nothing_is_lost(ended={victim["sequence_id"]: "FAILED"})


@pytest.mark.kill_table("kill -9 of a keeper")
def test_a_trial_whose_keeper_was_killed_is_judged_by_what_is_left(
        running_server: RunningServer, witnessed, tmp_path: Path, seed: int) -> None:
    experiment = witnessed(trials=4, concurrency=4, go=tmp_path / "go")
    rows = running_server.wait_until(lambda: len(found := experiment.running()) == 4 and all(
        row["intermediate_count"] == experiment.steps for row in found) and found)
    victim = Random(seed).choice(rows)
    os.kill(keeper_of(running_server, victim["id"]), signal.SIGKILL)
    running_server.wait_until(lambda: experiment.rows()[victim["sequence_id"]]["status"] == "FAILED", 120, "it failed")
    assert "keeper" in experiment.rows()[victim["sequence_id"]]["message"]
    (tmp_path / "go").touch()
    experiment.nothing_is_lost(ended={victim["sequence_id"]: "FAILED"})


@pytest.mark.slow
@pytest.mark.kill_table("kill -9 of a keeper while the server is away")
def test_what_a_killed_keeper_had_written_down_is_collected_when_the_server_is_back(
        running_server: RunningServer, witnessed, tmp_path: Path, seed: int) -> None:
    experiment = witnessed(trials=4, concurrency=4, steps=200, pause=0.02, go=tmp_path / "go")
    rows = running_server.wait_until(lambda: len(found := experiment.running()) == 4 and found)
    running_server.kill()
    victim = Random(seed).choice(rows)
    running_server.wait_until(lambda: experiment.reported() == 800, what="all is reported, to keepers only")
    os.kill(keeper_of(running_server, victim["id"]), signal.SIGKILL)
    running_server.start()
    running_server.wait_until(lambda: experiment.rows()[victim["sequence_id"]]["status"] == "FAILED", 120, "it failed")
    (tmp_path / "go").touch()
    experiment.nothing_is_lost(ended={victim["sequence_id"]: "FAILED"})


@pytest.mark.slow
@pytest.mark.kill_table("a platform starts a trial's container a second time, in the middle")
def test_a_container_that_is_started_again_does_not_run_its_trial_twice(running_server: RunningServer, witnessed,
                                                                        seed: int) -> None:
    experiment = witnessed(steps=100, pause=0.05, platform={
        "platform": "scripted", "behaviours": {"*": {"restartAfter": 0.2 + Random(seed).random()}}})
    experiment.nothing_is_lost()
    again = list(running_server.data_folder.rglob(f"run-1-again/{contract.EXIT_FILE}"))
    assert len(again) == experiment.trials, "each had a second keeper, and that one ended by itself"


# --- the way between keeper and server -----------------------------------------------------------


@pytest.fixture
def unkind(tmp_path: Path) -> Iterator[Callable[..., tuple[WitnessedExperiment, UnkindHttpProxy]]]:
    """An experiment whose keepers reach the server through an unkind proxy only: its address file names the proxy."""
    with ExitStack() as stack:

        def launch(seed: int, experiment: dict, **proxy: float) -> tuple[WitnessedExperiment, UnkindHttpProxy]:
            server = RunningServer(tmp_path / "data")
            stack.callback(server.close)
            server.start()
            way = stack.enter_context(UnkindHttpProxy(lambda: server.url, Random(seed), **proxy))
            file = server.data_folder / "server.json"
            file.write_text(json.dumps({**json.loads(file.read_text()), "urls": [way.url]}))
            return WitnessedExperiment(server, tmp_path, **experiment).launch(), way

        yield launch


@pytest.mark.kill_table("reports arrive twice and in another order")
@pytest.mark.slow
def test_reports_that_come_twice_and_in_another_order_count_once(unkind, seed: int) -> None:
    experiment, way = unkind(seed, {"trials": 4, "steps": 60}, doubles=0.4, repeats_older=0.4)
    experiment.nothing_is_lost()
    assert way.repeated > 3


@pytest.mark.slow
@pytest.mark.kill_table("a slow server: 5 s for each answer")
def test_a_server_that_takes_5_seconds_for_an_answer_loses_nothing(unkind, seed: int) -> None:
    experiment, _ = unkind(seed, {"trials": 4, "steps": 200}, delay=5.0)
    experiment.nothing_is_lost(patience=200)


@pytest.mark.slow
@pytest.mark.kill_table("no network between keepers and server for a minute")
def test_a_minute_without_network_loses_nothing(unkind, seed: int) -> None:
    experiment, way = unkind(seed, {"trials": 6, "concurrency": 3, "steps": 400, "pause": 0.05})
    experiment.server.wait_until(lambda: experiment.reported() > 50, what="trials report")
    target, way.target = way.target, lambda: "http://127.0.0.1:9"  # nobody listens there
    threading.Event().wait(60)
    assert experiment.reported() > 1000, "trials go on meanwhile"
    way.target = target
    experiment.nothing_is_lost()


class Stranger:
    """Another program's web server: pages, errors, and what only another installation of ours would say."""

    JSON = "application/json"
    ANSWERS = ((200, "text/html", b"<h1>It works!</h1>"), (404, "text/html", b"<h1>Not Found</h1>"),
               (200, JSON, b'{"accepted": 99999, "orders": [{"order": "stop"}]}'),
               (200, JSON, b'{"installation": "theirs", "accepted": 99999, "orders": [{"order": "stop"}]}'),
               (410, JSON, b'{"installation": "theirs", "error": "gone", "message": "It has ended."}'),
               (401, JSON, b'{"installation": "theirs", "error": "token", "message": "Who are you?"}'))

    def __init__(self, port: int) -> None:
        answers = itertools.cycle(self.ANSWERS)

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                status, kind, body = next(answers)
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_GET

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.mark.slow
@pytest.mark.kill_table("a stranger answers on the server's port for half a minute")
def test_a_stranger_on_the_servers_port_is_not_believed(running_server: RunningServer, witnessed, seed: int) -> None:
    experiment = witnessed(trials=4, concurrency=4, steps=800, pause=0.05)
    running_server.wait_until(lambda: len(experiment.running()) == 4)
    running_server.stop()
    stranger = Stranger(running_server.port)
    try:
        reported = experiment.reported()
        running_server.wait_until(lambda: experiment.reported() > reported + 2400, 120, "trials go on")
    finally:
        stranger.close()
    running_server.start()
    experiment.nothing_is_lost()


# --- the clock -------------------------------------------------------------------------------


def clocks_of_keepers(server: RunningServer, experiment: WitnessedExperiment) -> list[float]:
    """By how many seconds each keeper's clock was wrong when its trial began: ahead of the file that it wrote then."""
    found = []
    for row in experiment.rows():
        [journal] = server.data_folder.rglob(f"{row['id']}/**/{contract.JOURNAL_FILE}")
        entries = [json.loads(line) for line in journal.read_text().splitlines()]
        wrote = (journal.parent / contract.TRIAL_FILE).stat().st_mtime
        found += [entry["at"] - wrote for entry in entries if entry.get("type") == "started"]
    return found


@pytest.mark.slow
@pytest.mark.kill_table("the clock of server and keepers jumps an hour forward and back")
def test_a_clock_that_jumps_an_hour_forward_and_back_ends_nothing(make_server, tmp_path: Path, faketime: str,
                                                                  seed: int) -> None:
    server, offset = make_server(), tmp_path / "offset"
    offset.write_text("+0")
    server.start(program=("-m", "tests.end_to_end.kill_table.faked_time_server"),
                 env={"LD_PRELOAD": faketime, "FAKETIME_TIMESTAMP_FILE": str(offset), "FAKETIME_CACHE_DURATION": "1",
                      "DONT_FAKE_MONOTONIC": "1"})
    experiment = WitnessedExperiment(server, tmp_path, trials=12, concurrency=3, steps=60, pause=0.05,
                                     maxTrialDuration="30m", maxExperimentDuration="3h").launch()
    for jump in ("+3600", "+0", "-3600", "+0"):
        begun = experiment.begun()
        server.wait_until(lambda: experiment.begun() >= min(begun + 3, 12), 120, "trials go on")  # noqa: B023
        offset.with_suffix(".new").write_text(jump)
        offset.with_suffix(".new").replace(offset)
    experiment.nothing_is_lost()
    wrong_by = clocks_of_keepers(server, experiment)
    assert max(wrong_by) > 1800, "some keepers began in the hour that was ahead"
    assert min(wrong_by) < -1800, "and some in the one that had been before"
