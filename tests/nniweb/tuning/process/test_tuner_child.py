"""One process with a tuner in it, from its start to its end."""

import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from nniweb.tuning.process.tuner_child import TunerChild
from tests.trialkeeper.keeper_run import wait_until
from trialkeeper import machine

#: Leaves a process in a session of its own, which holds the pipes, and ends.
FORKS = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    with open(sys.argv[1] + ".new", "w") as file:
        file.write(str(os.getpid()))
    os.rename(sys.argv[1] + ".new", sys.argv[1])
    time.sleep(300)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
"""


def test_what_a_tuner_has_started_ends_with_its_process(tmp_path: Path) -> None:
    ended = threading.Event()
    child = TunerChild([sys.executable, "-c", FORKS, str(tmp_path / "pid")], lambda *_: ended.set())
    assert ended.wait(90), "the end is noticed though another process holds the pipes"
    child.end()
    assert machine.process_start_time(int((tmp_path / "pid").read_text())) is None


#: A worker with one tuner of a person's own. argv: the folder of the class, its file of pids.
WORKER = """
import sys, threading
from nniweb.tuning.process.tuner_client import TunerClient

client = TunerClient()
client.open("e", {"search_space": {}, "tuner": {"class_name": "starting.Starting", "code_directory": sys.argv[1],
                  "class_args": {"file": sys.argv[2], "hangs": sys.argv[3] == "hangs"}}, "assessor": None,
                  "optimize_mode": "minimize", "seed": 1}, [])
threading.Event().wait()
"""
STARTING = """
import json, os, subprocess, time
from nni.tuner import Tuner

class Starting(Tuner):
    def __init__(self, file, hangs):
        pids = [subprocess.Popen(["sleep", "300"], start_new_session=apart).pid for apart in (False, True)]
        shell = subprocess.run("setsid sleep 300 >/dev/null 2>&1 & echo $!", shell=True, text=True,
                               stdout=subprocess.PIPE)
        with open(file + ".new", "w") as out:
            json.dump([os.getpid(), *pids, int(shell.stdout)], out)
        os.rename(file + ".new", file)
        while hangs:
            time.sleep(1)
    def update_search_space(self, search_space):
        pass
    def generate_parameters(self, parameter_id, **kwargs):
        return {}
"""


@pytest.mark.parametrize("busy", ["waits", "hangs"])
def test_what_a_tuner_has_started_ends_also_where_the_worker_was_killed(tmp_path: Path, busy: str) -> None:
    (tmp_path / "starting.py").write_text(STARTING)
    worker = subprocess.Popen([sys.executable, "-c", WORKER, str(tmp_path), str(tmp_path / "pids"), busy])
    try:
        wait_until((tmp_path / "pids").exists)
        started = {pid: machine.process_start_time(pid) for pid in json.loads((tmp_path / "pids").read_text())}
        assert None not in started.values()
    finally:
        worker.kill()
        worker.wait()
    wait_until(lambda: not any(machine.process_lives(pid, began) for pid, began in started.items()))
