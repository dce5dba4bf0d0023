"""A trial that the platform ends and runs again in another container: its journal goes on, and what it reports is one.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.fakes.scripted_keeper_server import ScriptedKeeperServer
from tests.trialkeeper.keeper_run import ROOT, KeeperRun, wait_until
from trialkeeper import contract, pod
from trialkeeper.keeper import RUN_BEGINS

#: Prints and reports, and goes on where the run before has left off; run 0 waits to be ended.
TRIAL = """
import os, signal, sys, time
import nni
nni.get_next_parameter()
def saved(*_):
    open({checkpoint!r}, "w").write(str(epoch))
    {when_told}
signal.signal(signal.SIGTERM, saved)
epoch = int(open({checkpoint!r}).read()) if os.path.exists({checkpoint!r}) else 0
print("begins with epoch", epoch, flush=True)
for epoch in range(epoch + 1, epoch + 4):
    nni.report_intermediate_result(epoch / 10)
open({reported!r}, "a").write("x")
while not os.path.exists({go!r}):
    time.sleep(0.02)
nni.report_final_result(epoch)
"""


class Container(KeeperRun):
    """One container after the other; what they share is the folder that outlives them."""

    def __init__(self, folder: Path, lasting: Path, server: ScriptedKeeperServer | None) -> None:
        super().__init__(folder, server)
        self.lasting = lasting

    def start_pod(self, command: str, rank: int = 0, **limits: float) -> subprocess.Popen:
        given = self.folder / "given.json"
        given.write_text(json.dumps(self.job(command, limits=limits)))
        environment = {name: value for name, value in os.environ.items() if not name.startswith("NNI_")}
        environment |= {"PYTHONPATH": str(ROOT), contract.ENV_FOLDER: str(self.folder),
                        contract.ENV_JOB: "trialaaaaaaa", pod.ENV_JOB_FILE: str(given),
                        pod.ENV_END_FILE: str(self.folder / "end"), contract.ENV_LASTING: str(self.lasting),
                        "ADAPTDL_REPLICA_RANK": str(rank)}
        if self.server is not None:
            environment |= {contract.ENV_URLS: self.server.url, contract.ENV_TOKEN: self.server.token}
        process = subprocess.Popen([sys.executable, "-m", "trialkeeper", "pod"], env=environment, cwd=self.folder,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.processes.append(process)
        return process


@pytest.fixture
def containers(tmp_path: Path, server: ScriptedKeeperServer) -> Iterator[Callable[..., Container]]:
    made: list[Container] = []

    def make(with_server: bool = True) -> Container:
        made.append(Container(tmp_path / f"pod{len(made)}", tmp_path / "lasting", server if with_server else None))
        return made[-1]

    yield make
    for container in made:
        container.clean_up()


@pytest.fixture
def command(tmp_path: Path) -> Callable[..., str]:
    def command(when_told: str = "sys.exit(143)") -> str:
        names = {name: str(tmp_path / name) for name in ("checkpoint", "reported", "go")}
        (tmp_path / "trial.py").write_text(TRIAL.format(when_told=when_told, **names))
        return f"{sys.executable} {tmp_path / 'trial.py'}"
    return command


def run_and_end(container: Container, command: str, reported: Path, runs: int = 1, *, kill: bool = False) -> int:
    """Run until it has reported, and end it as a platform does; its exit status. ``kill``: and wait for nothing."""
    process = container.start_pod(command)
    wait_until(lambda: reported.exists() and len(reported.read_text()) == runs, what="the results of the run")
    process.send_signal(signal.SIGTERM)
    if kill:
        wait_until(lambda: container.exists(contract.EXIT_FILE), what="the end of the run")
        process.kill()
    return process.wait(90)


def results(server: ScriptedKeeperServer) -> list[tuple[str, int, str]]:
    return [(entry["kind"], entry["sequence"], entry["value"]) for entry in server.of_type(contract.METRIC)]


def test_the_results_of_all_runs_are_numbered_as_those_of_one(containers, command, server, tmp_path):
    text, reported = command(), tmp_path / "reported"
    assert run_and_end(containers(), text, reported) == 143
    assert server.of_type(contract.ENDED)[-1]["reason"] == contract.STOPPED
    assert run_and_end(containers(), text, reported, 2) == 143
    (tmp_path / "go").touch()
    assert containers().start_pod(text).wait(90) == 0
    assert results(server) == [("PERIODICAL", number - 1, str(number / 10)) for number in range(1, 10)] \
        + [("FINAL", 0, "9")]
    last = server.of_type(contract.ENDED)[-1]
    assert (last["reason"], last["exit_code"]) == (contract.EXITED, 0)
    assert {report["keeper"]["journal_id"] for report in server.reports} == {server.reports[0]["keeper"]["journal_id"]}


def test_the_output_of_a_run_follows_that_of_the_one_before(containers, command, server, tmp_path):
    text, reported = command(), tmp_path / "reported"
    run_and_end(containers(), text, reported)
    (tmp_path / "go").touch()
    containers().start_pod(text).wait(90)
    assert server.output() == "begins with epoch 0\nbegins with epoch 3\n"
    assert server.output("stderr") == RUN_BEGINS


def test_the_time_of_all_runs_is_the_trials(containers, command, server, tmp_path):
    text, reported = command(), tmp_path / "reported"
    run_and_end(containers(), text, reported)
    first = server.ended["duration"]
    process = containers().start_pod(text, max_trial_duration=first + 1.0)
    assert process.wait(90) != 0
    end = server.of_type(contract.ENDED)[-1]
    assert end["reason"] == contract.TIME_LIMIT
    assert first + 0.9 < end["duration"] < first + 5.0


def test_what_no_server_took_is_delivered_by_the_next_run(containers, command, server, tmp_path):
    text, reported = command(), tmp_path / "reported"
    server.stop()
    run_and_end(containers(), text, reported, kill=True)
    server.start()
    (tmp_path / "go").touch()
    containers().start_pod(text).wait(90)
    assert [value for _, _, value in results(server)] == ["0.1", "0.2", "0.3", "0.4", "0.5", "0.6", "6"]


def test_a_run_that_was_killed_with_its_keeper_is_followed_too(containers, command, server, tmp_path):
    text, container = command(), containers()
    process = container.start_pod(text)
    wait_until(lambda: len(results(server)) == 3)
    process.kill()
    process.wait()
    container.clean_up()
    (tmp_path / "go").touch()
    containers().start_pod(text).wait(90)
    assert [number for kind, number, _ in results(server) if kind == "PERIODICAL"] == list(range(6))
    assert server.ended["exit_code"] == 0


def test_a_trial_that_ends_as_told_before_its_keeper_hears_of_it_was_stopped(containers, command, server, tmp_path):
    """All replicas agree to end when one of them is told to: the reporting one may be the first that has ended."""
    container = containers()
    assert container.start_pod("exit 143").wait(90) == 143
    assert server.ended["reason"] == contract.STOPPED
    assert json.loads((container.folder / "end").read_text())["exit_code"] == 143


@pytest.mark.parametrize("code", [0, 1, 137])
def test_a_trial_that_ends_by_itself_has_ended(containers, server, code):
    assert containers().start_pod(f"exit {code}").wait(90) == code
    assert server.ended["exit_code"] == code


def test_an_attempt_that_has_ended_is_not_run_again(containers, server, tmp_path):
    """Where another replica failed, a platform may run all of them again."""
    assert containers().start_pod("exit 0").wait(90) == 0
    again = containers()
    assert again.start_pod(f"touch {tmp_path / 'ran'}").wait(90) == 0
    assert not (tmp_path / "ran").exists()
    assert json.loads((again.folder / "end").read_text())["reason"] == contract.EXITED
    assert len(server.of_type(contract.STARTED)) == 1


def test_other_replicas_leave_the_journal_alone(containers, server, tmp_path):
    assert containers().start_pod("exit 0", rank=1).wait(90) == 0
    assert not (tmp_path / "lasting").exists()
    assert server.of_type(contract.STARTED) == []


def test_a_folder_that_cannot_be_written_is_named(containers, tmp_path):
    (tmp_path / "lasting").write_text("a file")
    container = containers()
    process = container.start_pod("exit 0")
    assert process.wait(90) == 2
    assert f"{tmp_path / 'lasting'} cannot be used" in process.stderr.read().decode()


def test_a_run_that_was_told_to_end_tells_the_platform_so_whatever_its_command_makes_of_it(containers, command, server,
                                                                                           tmp_path):
    assert run_and_end(containers(), command("sys.exit(0)"), tmp_path / "reported") == contract.TOLD_TO_END


@pytest.mark.parametrize("by_the_server", [True, False])
def test_a_trial_that_shall_not_run_again_does_not_look_as_if_it_should(containers, server, by_the_server):
    process = containers().start_pod("sleep 600", max_trial_duration=60.0 if by_the_server else 0.3)
    if by_the_server:
        wait_until(lambda: server.of_type(contract.STARTED))
        server.orders = [{"order": contract.ORDER_STOP, "reason": "nobody wants it"}]
    assert process.wait(90) == 1
    assert server.ended["signal"] == signal.SIGTERM
