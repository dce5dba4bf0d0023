"""Where in the curve a checkpoint stands that an earlier keeper of the attempt saw and did not send."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.scripted_keeper_server import ScriptedKeeperServer
from tests.trialkeeper.keeper_run import KeeperRun
from trialkeeper.checkpoint_folder import CheckpointFolder

#: Sending takes two seconds, so that the keeper can be killed before the checkpoint is told.
SLOW: dict[str, Any] = {"max_bytes": 2 ** 40, "bytes_per_second": 4_000_000, "resume": []}
TRIAL = """
import nni, os, time
def wait_for(name):
    while not os.path.exists(name): time.sleep(0.01)
nni.get_next_parameter()
nni.report_intermediate_result(1)
wait_for("first was read")
%s
wait_for("checkpoint is being sent")
nni.report_intermediate_result(2)
wait_for("end")
"""
ANNOUNCED = """
with nni.save_checkpoint(step=0) as path:
    with open(path, "wb") as file: file.write(os.urandom(9_000_000))
"""
RENAMED = """
os.chdir(os.environ["NNI_CHECKPOINT_DIR"])
with open(".draft", "wb") as file: file.write(os.urandom(9_000_000))
os.rename(".draft", "step-0")
os.chdir(os.environ["HERE"])
"""


@pytest.mark.parametrize("saving", [ANNOUNCED, RENAMED], ids=["announced", "renamed"])
def test_a_checkpoint_stands_behind_the_results_reported_before_it_also_where_another_keeper_sends_it(
        keeper: KeeperRun, server: ScriptedKeeperServer, saving: str) -> None:
    server.then(delay=0)
    keeper.start(f"cd {shlex.quote(str(keeper.folder))}; export HERE=$PWD; " + keeper.python_command(TRIAL % saving),
                 checkpoints=SLOW)
    server.wait_for(lambda: server.values() == ["1"])
    (keeper.folder / "first was read").touch()
    server.wait_for(lambda: server.chunks)
    (keeper.folder / "checkpoint is being sent").touch()
    server.wait_for(lambda: server.values() == ["1", "2"])
    keeper.processes[-1].kill()
    keeper.processes[-1].wait()
    assert not server.checkpoints
    keeper.start()
    server.wait_for(lambda: server.checkpoints, 30.0)
    (keeper.folder / "end").touch()
    server.wait_for(lambda: server.ended, 30.0)
    assert [(entry["event"], entry["name"], entry["sequence"]) for entry in server.checkpoints] == [
        ("saved", "step-0", 1)]


def test_the_newest_one_stays_the_newest_where_an_earlier_keeper_had_laid_an_older_one_aside(tmp_path: Path) -> None:
    """A link that is made or removed counts as a change of the file's status."""
    earlier = CheckpointFolder(str(tmp_path), now=lambda: 0.0)
    earlier.make()
    for number in (1, 2):
        draft = Path(earlier.path) / ".draft"
        draft.write_text("x")
        os.utime(draft, (1000.0 + number, 1000.0 + number))
        draft.rename(Path(earlier.path) / f"step-{number}")
    aside = earlier.set_aside("step-1", 1)
    found = CheckpointFolder(str(tmp_path), now=lambda: 0.0)
    earlier.let_go(aside)
    assert [(one.name, one.changed) for one in found.take_complete(found.listing(), has_ended=True)] == [
        ("step-1", 1001.0), ("step-2", 1002.0)]
