"""The process of a TensorBoard: nobody else gets in, it ends with the server, and comes back with it."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path
from typing import Any

import psutil
import pytest
import requests

from tests.end_to_end.running_server import RunningServer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

#: Seconds for TensorBoard to load on a busy machine.
PATIENCE = 120
TRIAL = """
import os, pathlib, time
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

writer = EventFileWriter(os.path.join(os.environ["NNI_OUTPUT_DIR"], "tensorboard"))
for step in range(100000):
    writer.add_event(Event(wall_time=time.time(), step=step, summary=Summary(
        value=[Summary.Value(tag="loss", simple_value=1 / (step + 1))])))
    writer.flush()
    if pathlib.Path("end").exists():
        break
    time.sleep(0.2)
"""


def signed_in(server: RunningServer) -> requests.Session:
    """A session as a browser has it."""
    link = re.findall(r"http://\S+/sign-in/\S+", server.log_file.read_text())[-1]
    session = requests.Session()
    session.trust_env = False
    session.get(link)
    answer = session.post(link, data={"csrfmiddlewaretoken": session.cookies["csrftoken"]}, headers={"Referer": link})
    assert answer.ok, answer.text
    return session


def steps(session: requests.Session, page: str) -> int:
    """How many steps TensorBoard shows; 0 while it has none."""
    answer = session.get(f"{page}data/plugin/scalars/scalars", params={"tag": "loss", "run": "trial-0"})
    return len(answer.json()) if answer.ok else 0


def page_of(server: RunningServer, session: requests.Session, board: dict[str, Any]) -> str:
    """Its own page, as soon as it listens."""
    def opened() -> str:
        answer = session.get(f"{server.url}{board['url']}")
        assert "Try again" not in answer.text, answer.text
        return answer.url if answer.ok and len(answer.url.split("/")) == 7 else ""
    return str(server.wait_until(opened, PATIENCE, "TensorBoard listens"))


def folder_of(server: RunningServer, board: dict[str, Any]) -> Path:
    return server.data_folder / "tensorboard" / socket.gethostname() / str(board["id"])


def processes(server: RunningServer) -> list[psutil.Process]:
    """TensorBoards that were started below its data folder."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.cwd().startswith(str(server.data_folder)) and "launcher.py" in " ".join(process.cmdline()):
                found.append(process)
        except psutil.Error:
            continue
    return found


def test_it_follows_a_running_trial_lets_nobody_else_in_and_ends_and_comes_back_with_the_server(
        running_server: RunningServer, tmp_path: Path) -> None:
    server = running_server
    code = tmp_path / "code"
    code.mkdir()
    (code / "trial.py").write_text(TRIAL)
    experiment = server.launch({
        "experimentName": "followed", "trialCommand": "python3 trial.py", "trialCodeDirectory": str(code),
        "trialConcurrency": 1, "maxTrialNumber": 1, "tuner": {"name": "Random"},
        "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}}, "trainingService": {"platform": "local"}}, code)
    trials = server.wait_until(lambda: server.get(f"experiments/{experiment}/trials/")["results"], what="a trial")
    session = signed_in(server)
    board = server.post(f"experiments/{experiment}/tensorboards/", {"trials": [trials[0]["id"]]})
    page = page_of(server, session, board)
    seen = server.wait_until(lambda: steps(session, page), PATIENCE, "TensorBoard shows what the trial wrote")
    server.wait_until(lambda: steps(session, page) > seen, PATIENCE, "it shows what the trial has written since")

    [process] = processes(server)
    where = json.loads((folder_of(server, board) / "server.json").read_text())
    assert where["prefix"] not in " ".join(process.cmdline()), "other users can read command lines"
    local = f"http://127.0.0.1:{where['port']}"
    assert requests.get(f"{local}/data/runs", timeout=90).status_code == 404
    assert requests.get(f"{local}{where['prefix']}/data/runs", timeout=90).json() == ["trial-0"]
    assert "projector" not in requests.get(f"{local}{where['prefix']}/data/plugins_listing", timeout=90).json()

    server.kill()
    server.wait_until(lambda: not process.is_running() or process.status() == psutil.STATUS_ZOMBIE,
                      what="the kernel ends TensorBoard with the server")
    server.start()
    page = page_of(server, session, board)
    server.wait_until(lambda: steps(session, page), PATIENCE, "it is back with what the trial wrote")
    (code / "end").touch()
    assert server.request("DELETE", f"experiments/{experiment}/tensorboards/{board['id']}/").status_code == 204
    server.wait_until(lambda: not processes(server), what="it ends when it is stopped")
    server.wait_until(lambda: not folder_of(server, board).exists(), what="its files are removed")
