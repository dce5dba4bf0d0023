"""``nniweb.client.run`` in a program of its own: with a server that runs, and with one that it starts."""

import contextlib
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nniweb.storage.data_folder import ServerLock
from tests.end_to_end.running_server import ROOT, RunningServer
from trainingservice.testing.processes import end_processes, processes_of

SPACE = '{"x": {"_type": "uniform", "_value": [0, 1]}}'
FUNCTION = f"""
import sys, time
from nniweb.client import connect, run

OFFSET = 2

def train(x):
    yield x
    return x + OFFSET

SPACE = {SPACE}
"""


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path: Path) -> Iterator[None]:
    yield
    end_processes(processes_of([str(tmp_path)]))


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(("NNIWEB_", "NNI_", "XDG_", "DJANGO_"))}
    return {**kept, "PYTHONPATH": str(ROOT), **more}


def program(folder: Path, text: str, **variables: str) -> str:
    """Run it as a script; returns what it printed and complained."""
    folder.mkdir(exist_ok=True)
    (folder / "script.py").write_text(FUNCTION + text)
    done = subprocess.run([sys.executable, "script.py"], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=300, check=False, env=environment(**variables))
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.slow
def test_a_function_and_a_command_are_searched_on_a_server_that_runs(running_server: RunningServer,
                                                                     tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "trial.py").write_text("import nni\nnni.report_final_result(nni.get_next_parameter()['x'])\n")
    said = program(tmp_path / "work", """
of_function = run(train, SPACE, trials=2, concurrency=2, tuner="Random")
of_command = run("python3 trial.py", SPACE, trials=1, code="../code", tuner="Random", name="a command")
for experiment in (of_function, of_command):
    best = experiment.best_trial()
    print("found", experiment.status, experiment.name, round(best.final_value - best.parameters["x"], 6),
          len(experiment.metrics()))
""", NNIWEB_SERVER=running_server.url, NNIWEB_TOKEN=running_server.token)
    assert "found DONE train 2.0 4" in said
    assert "found DONE a command 0.0 1" in said
    assert "DONE  2/2 ended (2 succeeded)" in said
    assert f"{running_server.url}/experiments/" in said
    assert "A server was started" not in said


@pytest.mark.slow
def test_without_a_server_one_is_started_and_ends_with_the_program(tmp_path: Path) -> None:
    data = tmp_path / "data"
    said = program(tmp_path / "work", f"""
first = run(train, SPACE, trials=2, tuner="Random")
second = run(train, SPACE, trials=1, tuner="Random", data_folder={str(data)!r})
print("found", first.status, second.status, first.url.partition("/experiments")[0] == connect().server)
""", NNIWEB_DATA=str(data))
    assert "found DONE DONE True" in said
    assert said.count("A server was started at http://127.0.0.1:") == 1
    assert not ServerLock(data).is_held()
    assert [file.name for file in (data / "embedded").iterdir() if file.stat().st_mode & 0o077] == []

    # a token that was taken back is made anew; a server that somebody has started is used, and left alone
    (data / "embedded" / "token").write_text("nniweb_taken_back")
    server = RunningServer(data).start()
    try:
        said = program(tmp_path / "work", 'print("found", connect().server, len(connect().experiments()))',
                       NNIWEB_DATA=str(data))
        assert f"found {server.url} 2" in said
        assert server.is_alive
    finally:
        server.close()


@pytest.mark.slow
def test_a_server_outlives_its_program_while_an_experiment_has_not_ended(tmp_path: Path) -> None:
    data = tmp_path / "data"
    said = program(tmp_path / "work", """
experiment = run("sleep 600", SPACE, trials=1, tuner="Random", wait=False)
print("found", experiment.id, connect().server)
""", NNIWEB_DATA=str(data))
    assert "continues, because 1 experiment has not ended" in said
    assert ServerLock(data).is_held()
    identifier, address = said.partition("found ")[2].split()[:2]
    said = program(tmp_path / "work", f"""
print("found", connect().server)
connect().experiment({identifier!r}).stop().wait(120)
""", NNIWEB_DATA=str(data))
    assert f"found {address}" in said
    assert "A server was started" not in said
    assert not ServerLock(data).is_held()


@pytest.mark.slow
def test_a_program_in_the_background_of_a_shell_script_ends_its_server(tmp_path: Path) -> None:
    data = tmp_path / "data"
    said = program(tmp_path / "work", """
import signal
signal.signal(signal.SIGINT, signal.SIG_IGN)  # so shells start what runs in the background; the server inherits it
print("found", connect().server)
""", NNIWEB_DATA=str(data))
    assert "found http://127.0.0.1:" in said
    assert not ServerLock(data).is_held()


@pytest.mark.slow
def test_a_server_that_another_program_uses_is_not_ended(tmp_path: Path) -> None:
    data = tmp_path / "data"
    (tmp_path / "work").mkdir()
    other = subprocess.Popen([sys.executable, "-c", "from nniweb.client import connect\nprint(connect().server, "
                              "flush=True)\ninput()"], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             text=True, env=environment(NNIWEB_DATA=str(data)))
    try:
        assert other.stdout is not None
        address = other.stdout.readline().strip()
        assert f"found {address}" in program(tmp_path / "work", 'print("found", connect().server)',
                                             NNIWEB_DATA=str(data))
        assert ServerLock(data).is_held()
        other.communicate("\n", timeout=120)
        assert other.returncode == 0
        assert not ServerLock(data).is_held()
    finally:
        other.kill()
        other.wait()


@pytest.mark.slow
def test_a_server_that_cannot_be_started_is_an_error_with_its_words(tmp_path: Path) -> None:
    said = program(tmp_path / "work", """
from nniweb.client import ClientError
try:
    connect()
except ClientError as error:
    print("found", error)
""", NNIWEB_DATA=str(tmp_path / "data"), NNIWEB_KEEP_CODE_DAYS="never")
    assert "found The server for this program could not be started:" in said
    assert "NNIWEB_KEEP_CODE_DAYS must be a whole number" in said


@pytest.mark.slow
def test_ctrl_c_without_a_terminal_leaves_the_experiment_running(running_server: RunningServer, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(f"from nniweb.client import run\nrun('sleep 600', {SPACE}, tuner='Random')\n")
    process = subprocess.Popen([sys.executable, "script.py"], cwd=tmp_path, stdout=subprocess.PIPE, text=True,
                               stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, env=environment(
                                   NNIWEB_SERVER=running_server.url, NNIWEB_TOKEN=running_server.token))
    try:
        [found] = running_server.wait_until(lambda: running_server.get("experiments/")["results"])
        running_server.wait_for_experiment(found["id"], "RUNNING")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert "The experiment continues: " in out
    assert "KeyboardInterrupt" in err
    assert running_server.get(f"experiments/{found['id']}/")["status"] == "RUNNING"


@pytest.mark.slow
def test_ctrl_c_on_a_terminal_asks_and_stops_the_experiment(running_server: RunningServer, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        "from nniweb.client import run\n"
        f"print('found', run('sleep 600', {SPACE}, tuner='Random').status)\n")
    terminal, other_end = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", "import fcntl, os, sys, termios; os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
         "os.execv(sys.executable, [sys.executable, 'script.py'])"],
        cwd=tmp_path, stdin=other_end, stdout=other_end, stderr=other_end, env=environment(
            NNIWEB_SERVER=running_server.url, NNIWEB_TOKEN=running_server.token))
    os.close(other_end)
    os.set_blocking(terminal, False)
    said = bytearray()

    def has(words: bytes) -> bool:
        with contextlib.suppress(OSError):  # nothing new, or the program has ended
            said.extend(os.read(terminal, 65536))
        return words in said

    try:
        running_server.wait_until(lambda: has(b"RUNNING"), what="the progress is shown")
        os.write(terminal, b"\x03")
        running_server.wait_until(lambda: has(b"or go on following it (g)? "), what="it asks")
        os.write(terminal, b"s\n")
        running_server.wait_until(lambda: has(b"found STOPPED"), what="it has stopped")
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
        os.close(terminal)
