"""Folders that one trial saves and another one loads, without storage that they share: what PBT's parameters name."""

from __future__ import annotations

import json
import shutil
from typing import Any

import pytest

from tests.fakes.scripted_keeper_server import ScriptedKeeperServer
from tests.trialkeeper.keeper_run import KeeperRun
from tests.trialkeeper.test_checkpoints_of_a_trial import KEPT, failed, known, saved
from trialkeeper import contract
from trialkeeper.handed_on_folders import HandedOnFolders

FOLDERS = {"load_parameter": "load_checkpoint_dir", "save_parameter": "save_checkpoint_dir", "load": []}

#: As in NNI's example: loads what is there, reports, and then saves.
TRAINING = """
import json, os, sys, nni
given = nni.get_next_parameter()
path, epochs = os.path.join(given["load_checkpoint_dir"], "model.txt"), 0
if os.path.isfile(path):
    epochs = int(open(path).read())
print("loaded", epochs, "of", given["lr"], flush=True)
nni.report_final_result(epochs + 1)
folder = given["save_checkpoint_dir"]
if not os.path.exists(folder):
    os.makedirs(folder)
open(os.path.join(folder, "model.txt"), "w").write(str(epochs + 1))
sys.exit(%d)
"""


def given(**parameters: Any) -> list[dict[str, Any]]:
    names = {"lr": 0.1, "load_checkpoint_dir": "checkpoints/1/0", "save_checkpoint_dir": "checkpoints/2/0"}
    return [{"index": 0, "text": json.dumps({
        "parameter_id": 7, "parameter_source": "algorithm", "parameters": names | parameters, "parameter_index": 0})}]


def told(**folders: Any) -> dict[str, Any]:
    return {**KEPT, "folders": {**FOLDERS, **folders}}


def anew(keeper: KeeperRun, server: ScriptedKeeperServer) -> None:
    """On another machine."""
    server.journal_id, server.entries = None, []
    shutil.rmtree(keeper.folder)
    keeper.folder.mkdir()


def test_what_a_trial_saves_another_one_loads_on_another_machine(keeper: KeeperRun,
                                                                server: ScriptedKeeperServer) -> None:
    assert keeper.run(keeper.python_command(TRAINING % 0), parameters=given(), checkpoints=told()) == 0
    assert server.output() == "loaded 0 of 0.1\n"
    entry, = saved(server)
    assert (entry["name"], server.content_of(entry)) == (contract.HANDED_ON, {"model.txt": b"1"})
    assert server.entries[-1]["type"] == "ended"
    anew(keeper, server)
    keeper.run(keeper.python_command(TRAINING % 0), parameters=given(lr=0.2), checkpoints=told(load=[known(entry)]))
    assert server.output() == "loaded 1 of 0.2\n"
    restored, following = server.checkpoints
    assert (restored["event"], restored["name"], restored["id"]) == ("restored", contract.HANDED_ON, entry["id"])
    assert server.content_of(following) == {"model.txt": b"2"}


def test_what_is_saved_unchanged_is_handed_on_again(keeper: KeeperRun, server: ScriptedKeeperServer) -> None:
    copies = 'cat > copy.py <<"END"\nimport nni, shutil\ngiven = nni.get_next_parameter()\n' \
             'shutil.copytree(given["load_checkpoint_dir"], given["save_checkpoint_dir"])\nEND\npython3 copy.py'
    keeper.run(keeper.python_command(TRAINING % 0), parameters=given(), checkpoints=told())
    entry, = saved(server)
    anew(keeper, server)
    keeper.run(copies, parameters=given(), checkpoints=told(load=[known(entry)]))
    assert [one["id"] for one in saved(server)] == [entry["id"]]


def test_what_a_failed_trial_saved_is_not_handed_on(keeper: KeeperRun, server: ScriptedKeeperServer) -> None:
    assert keeper.run(keeper.python_command(TRAINING % 3), parameters=given(), checkpoints=told()) == 3
    assert server.checkpoints == []


def test_what_cannot_be_had_is_not_there_and_the_trial_runs(keeper: KeeperRun, server: ScriptedKeeperServer) -> None:
    gone = {"id": "0" * 64, "name": contract.HANDED_ON, "step": None, "size": 5}
    keeper.run(keeper.python_command(TRAINING % 0), parameters=given(), checkpoints=told(load=[gone]))
    assert "loaded 0" in server.output()
    assert failed(server) == [(contract.HANDED_ON, "missing")]


def test_its_own_checkpoint_and_the_loaded_folder_are_both_there_in_the_next_attempt(
        keeper: KeeperRun, server: ScriptedKeeperServer) -> None:
    keeper.run(keeper.python_command(TRAINING % 0), parameters=given(), checkpoints=told())
    loaded, = saved(server)
    anew(keeper, server)
    keeper.run('cd "$NNI_CHECKPOINT_DIR" && echo half > .a && sleep 0.1 && mv .a step-4; exit 1', parameters=given(),
               checkpoints=told(load=[known(loaded)]))
    own, = saved(server)
    anew(keeper, server)
    keeper.run('cat "$NNI_CHECKPOINT_DIR/step-4"; ' + keeper.python_command(TRAINING % 0), parameters=given(),
               checkpoints={**told(load=[known(loaded)]), "resume": [known(own)]})
    assert server.output() == "half\nloaded 1 of 0.1\n"
    assert [(one["event"], one["name"]) for one in server.checkpoints] == [
        ("restored", contract.HANDED_ON), ("restored", "step-4"), ("saved", contract.HANDED_ON)]


@pytest.mark.parametrize("text", ["no JSON", "[]", '{"parameters": [1]}', '{"parameters": null}',
                                  '{"parameters": {"x": 1}, "parameter_id":3}'])
def test_parameters_without_such_folders_stay_as_they_are(tmp_path, text: str) -> None:
    folders = HandedOnFolders(str(tmp_path), FOLDERS)  # type: ignore[arg-type]
    assert folders.told(text) == text
