"""The look at running processes on which "nothing is left behind" rests."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from trainingservice.receiver.keeper_receiver import KeeperReceiver
from trainingservice.testing.bench import Bench, PlatformUnderTest, new_id
from trainingservice.testing.processes import end_processes, is_alive, processes_of, since_boot


def sleeper(**options):
    return subprocess.Popen(["sleep", "300"], **options)


@pytest.mark.parametrize("where", ["environment", "working directory", "command line"])
def test_a_process_is_found_by_its_mark(tmp_path, where):
    mark = new_id("m")
    folder = tmp_path / mark
    folder.mkdir()
    if where == "environment":
        process = sleeper(env={**os.environ, "MARK": f"x{mark}x"})
    elif where == "working directory":
        process = sleeper(cwd=folder)
    else:
        process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)", mark])
    try:
        assert [found.pid for found in processes_of([mark])] == [process.pid]
        assert processes_of([new_id("m")]) == []
        end_processes(processes_of([mark]))
        assert process.wait(90) < 0
        assert processes_of([mark]) == []
    finally:
        process.kill()
        process.wait()


def test_processes_that_began_before_are_left_out(tmp_path):
    mark = new_id("m")
    before = since_boot()
    with sleeper(env={**os.environ, "MARK": mark}) as process:
        try:
            assert [found.pid for found in processes_of([mark], before)] == [process.pid]
            is_known = Path("/proc/self/environ").exists()
            assert [found.pid for found in processes_of([mark], since_boot() + 1)] == [process.pid] * (not is_known)
        finally:
            process.kill()


def test_a_zombie_is_not_alive():
    process = sleeper()
    assert is_alive(process.pid)
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and nobody has taken its status yet
    assert not is_alive(process.pid)
    process.wait()


class NothingUnderTest(PlatformUnderTest):
    def new_service(self, context):
        raise AssertionError("this bench opens no service")

    def left_behind(self, experiment_id):
        return []


@pytest.mark.slow
def test_a_bench_fails_for_a_process_that_is_left_and_ends_it(tmp_path, monkeypatch):
    monkeypatch.setattr("trainingservice.testing.bench.END_PATIENCE", 0.2)
    with KeeperReceiver() as receiver:
        bench = Bench(NothingUnderTest(tmp_path / "platform"), receiver, tmp_path)
        process = sleeper(cwd=tmp_path)
        with pytest.raises(AssertionError, match="sleep 300"):
            bench.close()
        assert process.wait(90) < 0
        bench.close()


def test_a_bench_takes_no_process_that_only_just_begins_for_one_that_was_left(tmp_path, monkeypatch):
    begun = []

    def looks(marks, since=0.0):
        found = processes_of(marks, since)
        begun.append(sleeper(cwd=tmp_path))  # after this look, and before another one
        return found

    monkeypatch.setattr("trainingservice.testing.bench.processes_of", looks)
    with KeeperReceiver() as receiver:
        Bench(NothingUnderTest(tmp_path / "platform"), receiver, tmp_path).close()
    assert [process.poll() for process in begun] == [None]
    end_processes(processes_of([str(tmp_path)]))
    assert begun[0].wait(90) < 0
