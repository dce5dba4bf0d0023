"""Checkpoints of a trial: they reach the server whole, and the next attempt goes on with the newest that can be had."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.scripted_keeper_server import ScriptedKeeperServer
from tests.trialkeeper.keeper_run import ROOT, KeeperRun, wait_until
from trialkeeper import contract
from trialkeeper.checkpoint_cut import cut
from trialkeeper.checkpoint_entry import Problem, is_name
from trialkeeper.checkpoint_folder import SETTLED, CheckpointFolder, step_of
from trialkeeper.checkpoint_manifest import read_manifest

KEPT: dict[str, Any] = {"max_bytes": 2 ** 40, "bytes_per_second": None, "resume": []}
#: Of a platform that may run the same job again.
ASKED: dict[str, Any] = {**KEPT, "asks_anew": True}

#: Saves and reports epochs, from the one after the checkpoint it finds.
EPOCHS = """
import nni, os
found = nni.load_checkpoint()
nni.get_next_parameter()
first = 0 if found is None else int(open(found).read()) + 1
print("begins with", first, "of", None if found is None else found.step, flush=True)
for epoch in range(first, %d):
    nni.report_intermediate_result(float(epoch))
    with nni.save_checkpoint(step=epoch) as path:
        with open(path, "w") as file:
            file.write(str(epoch))
"""


def saved(server: ScriptedKeeperServer) -> list[dict[str, Any]]:
    return [entry for entry in server.checkpoints if entry["event"] == "saved"]


def failed(server: ScriptedKeeperServer) -> list[tuple[str, str]]:
    return [(entry["name"], entry["problem"]) for entry in server.checkpoints if entry["event"] == "failed"]


def known(entry: dict[str, Any]) -> dict[str, Any]:
    return {name: entry[name] for name in ("id", "name", "step", "size")}


# --- what reaches the server ---------------------------------------------------------------


def test_a_checkpoint_is_told_after_its_content_with_its_step_and_what_was_reported_before(
        keeper: KeeperRun, server: ScriptedKeeperServer) -> None:
    keeper.run(keeper.python_command(EPOCHS % 3), checkpoints=KEPT)
    last = saved(server)[-1]
    assert (last["name"], last["step"], last["size"], last["sequence"]) == ("step-2", 2, 1, 3)
    assert server.content_of(last) == {"": b"2"}
    for entry in saved(server):  # the first ones may have been overtaken
        assert entry["sequence"] == entry["step"] + 1
    assert server.entries[-1]["type"] == "ended"


def test_a_shell_script_renames_what_is_complete(keeper: KeeperRun, server: ScriptedKeeperServer) -> None:
    keeper.run('cd "$NNI_CHECKPOINT_DIR" && mkdir -p .new/empty && echo weights > .new/model && '
               "chmod 755 .new/model && touch .new/nothing && mv .new epoch-7", checkpoints=KEPT)
    entry, = saved(server)
    assert (entry["name"], entry["step"]) == ("epoch-7", 7)
    assert server.content_of(entry) == {"model": b"weights\n", "nothing": b""}
    manifest = json.loads(server.manifests[entry["id"]])
    assert manifest["folders"] == ["empty"]
    assert {file["path"]: file["mode"] & 0o100 for file in manifest["files"]} == {"model": 0o100, "nothing": 0}
    assert (keeper.folder / "checkpoints" / "latest").read_text() == "epoch-7"


def test_large_files_go_in_chunks_and_what_did_not_change_goes_once(keeper: KeeperRun,
                                                                    server: ScriptedKeeperServer) -> None:
    code = """
import nni, os, time
def save(step, tail):
    with nni.save_checkpoint(step=step) as path:
        os.mkdir(path)
        with open(path + "/frozen", "wb") as file:
            file.write(bytes(range(256)) * 40_000)
        with open(path + "/head", "w") as file:
            file.write(tail)
save(0, "a")
while not os.path.exists(%r): time.sleep(0.01)
save(1, "b")
"""
    go_on = keeper.folder / "go on"
    keeper.start(keeper.python_command(code % str(go_on)), checkpoints=KEPT)
    server.wait_for(lambda: len(saved(server)) == 1)
    before = [call for call in server.calls if call.startswith("PUT") and "/chunks/" in call]
    assert len(before) == 3  # 10,240,000 bytes are two equal ones and the rest; and the head
    go_on.touch()
    server.wait_for(lambda: server.ended)
    after = [call for call in server.calls if call.startswith("PUT") and "/chunks/" in call]
    assert len(after) == 4
    first, second = saved(server)
    assert server.content_of(first)["frozen"] == server.content_of(second)["frozen"] == bytes(range(256)) * 40_000
    assert server.content_of(second)["head"] == b"b"


def test_what_is_replaced_while_it_is_sent_is_sent_as_it_was(keeper: KeeperRun, server: ScriptedKeeperServer) -> None:
    code = """
import nni, os, sys
folder = os.environ["NNI_CHECKPOINT_DIR"]
with open(folder + "/.draft", "w") as file: file.write("first")
os.utime(folder + "/.draft", (1, 1))
os.rename(folder + "/.draft", folder + "/model-1")
while not os.path.exists(%r): pass
os.remove(folder + "/model-1")
while not os.path.exists(%r): pass
"""
    waits = [keeper.folder / name for name in ("removes", "ends")]
    server.then(delay=0)
    keeper.start(keeper.python_command(code % tuple(map(str, waits))), checkpoints=KEPT)
    aside = keeper.folder / "checkpoints_to_send"
    wait_until(lambda: list(aside.glob("*/model-1")) or saved(server))
    waits[0].touch()
    server.wait_for(lambda: saved(server))
    assert server.content_of(saved(server)[0]) == {"": b"first"}
    waits[1].touch()
    server.wait_for(lambda: server.ended)
    assert not failed(server)


@pytest.mark.parametrize("making", ["mkdir .a && ln -s /etc/passwd .a/weights && mv .a bad-1",
                                    "ln -s /etc/hostname bad-1", "mkfifo .p && mv .p bad-1"])
def test_what_is_no_plain_file_is_refused_and_the_trial_goes_on(keeper: KeeperRun, server: ScriptedKeeperServer,
                                                                making: str) -> None:
    assert keeper.run(f'cd "$NNI_CHECKPOINT_DIR" && {making}', checkpoints=KEPT) == 0
    assert failed(server) == [("bad-1", "not_plain")]
    assert not saved(server)


def test_one_that_is_too_large_is_told_and_not_sent(keeper: KeeperRun, server: ScriptedKeeperServer) -> None:
    keeper.run('cd "$NNI_CHECKPOINT_DIR" && truncate -s 20G .a && mv .a model-1',
               checkpoints={**KEPT, "max_bytes": 1000})
    entry, = server.checkpoints
    assert (entry["event"], entry["problem"], entry["detail"]) == ("failed", "too_large", str(20 * 2 ** 30))
    assert not server.chunks


def test_one_that_never_gets_complete_is_told_at_the_end(keeper: KeeperRun, server: ScriptedKeeperServer) -> None:
    keeper.run('echo half > "$NNI_CHECKPOINT_DIR/model.tmp"', checkpoints=KEPT)
    assert failed(server) == [("model.tmp", "incomplete")]


#: Saves one as it should be, and is in the middle of writing the next one in place when it ends.
IN_THE_MIDDLE = """
import nni, os, signal, sys
with nni.save_checkpoint(step=1) as path, open(path, "w") as file:
    file.write("whole")
folder = os.environ["NNI_CHECKPOINT_DIR"] + "/epoch-9"
os.mkdir(folder)
with open(folder + "/model", "w") as file:
    file.write("half")
    file.flush()
    %s
"""


@pytest.mark.parametrize("end", ["os.kill(os.getpid(), signal.SIGKILL)", "raise MemoryError", "os._exit(1)"])
def test_what_a_trial_that_fails_was_writing_in_place_does_not_count(keeper: KeeperRun, server: ScriptedKeeperServer,
                                                                     end: str) -> None:
    assert keeper.run(keeper.python_command(IN_THE_MIDDLE % end), checkpoints=KEPT) != 0
    assert [entry["name"] for entry in saved(server)] == ["step-1"]
    assert failed(server) == [("epoch-9", "incomplete")]


def test_what_a_trial_that_ends_well_has_written_in_place_counts_at_once(keeper: KeeperRun,
                                                                         server: ScriptedKeeperServer) -> None:
    assert keeper.run(keeper.python_command(IN_THE_MIDDLE % "sys.exit()"), checkpoints=KEPT) == 0
    assert [entry["name"] for entry in saved(server)][-1] == "epoch-9"
    assert failed(server) == []


def test_a_server_that_does_not_take_it_is_told_of_with_its_words(keeper: KeeperRun,
                                                                  server: ScriptedKeeperServer) -> None:
    full = {"installation": server.installation, "error": "too_large", "message": "the quota of ada is full"}
    go, end = (shlex.quote(str(keeper.folder / name)) for name in ("go", "end"))
    keeper.start(f'while [ ! -e {go} ]; do sleep 0.01; done; cd "$NNI_CHECKPOINT_DIR" && echo 1 > .a && '
                 f"touch -d @1 .a && mv .a model-1; while [ ! -e {end} ]; do sleep 0.01; done", checkpoints=KEPT,
                 limits={"report_interval": 60.0})
    server.next_report_within = 60.0
    server.wait_for(lambda: server.entries)
    server.then(status=413, document=full)
    (keeper.folder / "go").touch()
    entry = server.wait_for(lambda: server.checkpoints)[0]
    assert (entry["problem"], entry["detail"]) == ("not_taken", "the quota of ada is full")
    (keeper.folder / "end").touch()
    server.wait_for(lambda: server.ended)


def test_a_trial_without_a_word_of_checkpoints_has_no_folder(keeper: KeeperRun, server: ScriptedKeeperServer) -> None:
    keeper.variables["NNI_CHECKPOINT_DIR"] = "/of/somebody/else"
    keeper.run('echo "[$NNI_CHECKPOINT_DIR]"')
    assert server.output() == "[]\n"
    assert not keeper.exists("checkpoints")
    assert not server.checkpoints


def test_metrics_do_not_wait_for_a_checkpoint(keeper: KeeperRun, server: ScriptedKeeperServer) -> None:
    code = """
import nni, os
nni.get_next_parameter()
with nni.save_checkpoint(step=0) as path:
    with open(path, "wb") as file: file.write(os.urandom(6_000_000))
nni.report_intermediate_result(1)
while not os.path.exists(%r): pass
"""
    end = keeper.folder / "end"
    keeper.start(keeper.python_command(code % str(end)), checkpoints={**KEPT, "bytes_per_second": 3_000_000})
    server.wait_for(lambda: server.values() == ["1"])
    assert not saved(server)  # it takes two seconds
    end.touch()
    server.wait_for(lambda: server.ended, 30.0)
    assert saved(server)[0]["sequence"] == 0


# --- what comes back -----------------------------------------------------------------------


def test_the_next_attempt_goes_on_with_the_newest_on_another_machine(tmp_path: Path, keeper: KeeperRun,
                                                                     server: ScriptedKeeperServer) -> None:
    keeper.run(keeper.python_command(EPOCHS % 3), checkpoints=KEPT)
    newest = saved(server)[-1]
    server.journal_id, server.entries = None, []
    shutil.rmtree(keeper.folder)
    keeper.folder.mkdir()
    keeper.run(keeper.python_command(EPOCHS % 5), checkpoints={**KEPT, "resume": [known(newest)]})
    assert "begins with 3 of 2" in server.output()
    restored, *others = server.checkpoints
    assert (restored["event"], restored["id"], restored["step"]) == ("restored", newest["id"], 2)
    assert server.entries.index(restored) == 1  # behind "started", before all else
    assert server.values() == ["3.0", "4.0"]
    assert others[-1]["name"] == "step-4"


@pytest.mark.parametrize("packs", [True, False], ids=["together", "one by one"])
def test_many_small_files_are_sent_and_come_back(keeper: KeeperRun, server: ScriptedKeeperServer, packs: bool) -> None:
    server.packs = packs
    keeper.run('cd "$NNI_CHECKPOINT_DIR" && mkdir .a && for n in $(seq 60); do echo $((n % 40)) > .a/$n; done && '
               "head -c 100000 /dev/zero > .a/large && mv .a step-1", checkpoints=KEPT)
    newest = saved(server)[-1]
    alone = [call for call in server.calls if call.startswith("PUT") and "/chunks/" in call]
    assert (len(server.chunks), len(alone)) == (41, 1 if packs else 41)
    before, server.journal_id, server.entries = len(server.calls), None, []
    shutil.rmtree(keeper.folder)
    keeper.folder.mkdir()
    keeper.run('cd "$NNI_CHECKPOINT_DIR/step-1" && cat $(seq 60) | tr "\\n" " " && wc -c < large',
               checkpoints={**KEPT, "resume": [known(newest)]})
    assert " ".join(str(number % 40) for number in range(1, 61)) + " 100000" in server.output()
    alone = [call for call in server.calls[before:] if call.startswith("GET") and "/chunks/" in call]
    assert len(alone) == 1 if packs else len(alone) > 40


def test_one_that_the_server_has_no_room_for_in_time_is_told_of(keeper: KeeperRun,
                                                                server: ScriptedKeeperServer) -> None:
    """However large it is: what is sent again and again is no progress, for which the end would wait."""
    keeper.before = "keeper.SEND_AFTER_EXIT = 2.0"
    server.refuses_chunks = {"installation": server.installation, "error": "busy", "message": "the disk is full"}
    keeper.start('cd "$NNI_CHECKPOINT_DIR" && head -c 6000000 /dev/urandom > .a && mv .a model-1', checkpoints=KEPT)
    entry = server.wait_for(lambda: server.checkpoints)[0]
    assert (entry["name"], entry["problem"]) == ("model-1", "not_taken")
    assert "not sent in time" in entry["detail"]
    assert "the disk is full" in entry["detail"]
    server.wait_for(lambda: server.ended)


# --- a job that its platform runs again ----------------------------------------------------


def test_a_job_that_is_run_again_goes_on_with_what_the_server_has_by_then(keeper: KeeperRun,
                                                                          server: ScriptedKeeperServer) -> None:
    """Its job file was written before the first run, which has saved more since and left its files in the folder."""
    keeper.run(keeper.python_command(EPOCHS % 3), checkpoints=ASKED)
    newest = saved(server)[-1]
    for name in (contract.JOURNAL_FILE, contract.ACCEPTED_FILE, contract.EXIT_FILE, contract.KEEPER_FILE):
        (keeper.folder / name).unlink(missing_ok=True)
    (keeper.folder / "checkpoints" / "step-99").write_text("99")  # never with the server: nobody could join its curve
    (keeper.folder / "checkpoints" / "latest").write_text("step-99")
    server.journal_id, server.entries = None, []
    command = keeper.python_command(EPOCHS % 5)
    server.job = keeper.job(command, checkpoints={**ASKED, "resume": [known(newest)]})
    keeper.run(command, checkpoints=ASKED)
    assert "begins with 3 of 2" in server.output()
    assert (server.checkpoints[0]["event"], server.checkpoints[0]["id"]) == ("restored", newest["id"])
    assert not (keeper.folder / "checkpoints" / "step-99").exists()


def test_a_job_that_is_run_again_begins_anew_where_the_server_has_nothing_more(keeper: KeeperRun,
                                                                               server: ScriptedKeeperServer) -> None:
    command = keeper.python_command(EPOCHS % 2)
    gone = {"id": "0" * 64, "name": "step-9", "step": 9, "size": 5}
    server.job = keeper.job(command, checkpoints=ASKED)
    keeper.run(command, checkpoints={**ASKED, "resume": [gone]})
    assert "begins with 0 of None" in server.output()
    assert not failed(server)


def test_a_job_that_may_be_run_again_starts_soon_without_a_server(keeper: KeeperRun,
                                                                  server: ScriptedKeeperServer) -> None:
    server.stop()
    keeper.before = "from trialkeeper import checkpoints; checkpoints.ASK_FOR = 0.3"
    process = keeper.start(keeper.python_command(EPOCHS % 2), checkpoints=ASKED, limits={"claim_timeout": 0.1})
    stdout = keeper.folder / contract.STDOUT_FILE
    wait_until(lambda: stdout.exists() and "begins with 0 of None" in stdout.read_text(), what="the trial begins")
    server.start()
    process.wait(90)
    assert "goes on with what its job says" in keeper.log()


def test_a_job_that_has_left_checkpoints_waits_for_the_server(keeper: KeeperRun, server: ScriptedKeeperServer) -> None:
    keeper.run(keeper.python_command(EPOCHS % 3), checkpoints=ASKED)
    newest = saved(server)[-1]
    for name in (contract.JOURNAL_FILE, contract.ACCEPTED_FILE, contract.EXIT_FILE, contract.KEEPER_FILE):
        (keeper.folder / name).unlink(missing_ok=True)
    server.journal_id, server.entries = None, []
    command = keeper.python_command(EPOCHS % 5)
    server.job = keeper.job(command, checkpoints={**ASKED, "resume": [known(newest)]})
    server.stop()
    keeper.before = "from trialkeeper import checkpoints; checkpoints.ASK_FOR = 0.0"
    process = keeper.start(command, checkpoints=ASKED, limits={"claim_timeout": 0.1})
    wait_until(lambda: "what to run cannot be fetched yet" in keeper.log(), what="it waits")
    server.start()
    process.wait(90)
    assert "begins with 3 of 2" in server.output()


# --- what cannot be put back ------------------------------------------------------------------


@pytest.mark.parametrize(("damage", "problem"), [("chunk", "damaged"), ("no chunk", "missing"),
                                                 ("manifest", "damaged"), ("no manifest", "missing")])
def test_what_cannot_be_had_whole_gives_way_to_the_one_before(keeper: KeeperRun, server: ScriptedKeeperServer,
                                                              damage: str, problem: str) -> None:
    entries = []
    for number in (1, 2):
        keeper.run(f'cd "$NNI_CHECKPOINT_DIR" && mkdir .a && echo {number} > .a/model && mv .a step-{number}',
                   checkpoints=KEPT)
        entries.append(saved(server)[0])
        server.journal_id, server.entries = None, []
        shutil.rmtree(keeper.folder)
        keeper.folder.mkdir()
    newest = entries[1]
    chunk = json.loads(server.manifests[newest["id"]])["files"][0]["chunks"][0]
    if damage == "chunk":
        server.chunks[chunk] = b"x\n"
    elif damage == "no chunk":
        del server.chunks[chunk]
    elif damage == "manifest":
        server.manifests[newest["id"]] = server.manifests[newest["id"]].replace(b"model", b"other")
    else:
        del server.manifests[newest["id"]]
    keeper.run('cat "$NNI_CHECKPOINT_DIR/$(cat "$NNI_CHECKPOINT_DIR/latest")/model"; ls -A "$NNI_CHECKPOINT_DIR"',
               checkpoints={**KEPT, "resume": [known(newest), known(entries[0])]})
    assert server.output().split() == ["1", ".latest.json", "latest", "step-1"]
    assert [(entry["event"], entry["name"], entry.get("problem")) for entry in server.checkpoints] == [
        ("failed", "step-2", problem), ("restored", "step-1", None)]


def test_where_none_can_be_had_the_trial_begins_anew_and_says_so(keeper: KeeperRun,
                                                                 server: ScriptedKeeperServer) -> None:
    gone = {"id": "0" * 64, "name": "step-9", "step": 9, "size": 5}
    keeper.run(keeper.python_command(EPOCHS % 1), checkpoints={**KEPT, "resume": [gone]})
    assert "begins with 0 of None" in server.output()
    assert failed(server) == [("step-9", "missing")]


@pytest.mark.parametrize("change", [
    {"name": "../step-1"}, {"files": [{"path": "../../evil", "size": 0, "mode": 0o600, "chunks": []}]},
    {"folders": ["../up"]}, {"files": [{"path": "a", "size": 5, "mode": 0o600, "chunks": []}]},
    {"files": [{"path": "a/b", "size": 0, "mode": 0o600, "chunks": []}]}, {"files": "no list"}, {"version": 2}])
def test_a_manifest_that_leads_out_of_the_folder_is_damaged(change: dict[str, Any]) -> None:
    import hashlib
    text = json.dumps({"version": 1, "name": "step-1", "files": [], "folders": [], **change}).encode()
    with pytest.raises(Problem) as problem:
        read_manifest(text, hashlib.sha256(text).hexdigest())
    assert problem.value.code == "damaged"


def test_a_keeper_that_was_killed_leaves_its_checkpoint_to_the_next(keeper: KeeperRun,
                                                                    server: ScriptedKeeperServer) -> None:
    server.then(delay=0)
    keeper.start(f'cd "$NNI_CHECKPOINT_DIR" && head -c 9000000 /dev/urandom > .a && mv .a step-4; '
                 f"while [ ! -e {shlex.quote(str(keeper.folder / 'end'))} ]; do sleep 0.01; done",
                 checkpoints={**KEPT, "bytes_per_second": 4_000_000})
    server.wait_for(lambda: server.chunks)
    keeper.processes[-1].kill()
    keeper.processes[-1].wait()
    assert not saved(server)
    keeper.start()
    server.wait_for(lambda: server.ended)
    assert [(entry["name"], entry["step"]) for entry in saved(server)] == [("step-4", 4)]
    chunks = [call for call in server.calls if call.startswith("PUT") and "/chunks/" in call]
    assert len(chunks) == len(set(chunks))  # what was there was not sent again
    assert server.ended["reason"] == "lost"


def test_a_keeper_that_takes_over_sends_none_that_is_older_than_one_that_is_kept(
        keeper: KeeperRun, server: ScriptedKeeperServer) -> None:
    """What was overtaken by a newer one is still in the folder; it must not become the latest."""
    code = """
import nni, time
for step in range(3):
    with nni.save_checkpoint(step=step) as path:
        open(path, "w").write(str(step))
time.sleep(600)
"""
    keeper.start(keeper.python_command(code), checkpoints=KEPT)
    server.wait_for(lambda: saved(server) and saved(server)[-1]["step"] == 2)
    keeper.processes[-1].kill()
    keeper.processes[-1].wait()
    overtaken = keeper.folder / "checkpoints" / "step-0"
    overtaken.write_text("never sent")
    os.utime(overtaken, (1, 1))
    keeper.start()
    server.wait_for(lambda: server.ended)
    assert saved(server)[-1]["step"] == 2


# --- finding what is complete ----------------------------------------------------------------


@pytest.fixture
def found(tmp_path: Path) -> CheckpointFolder:
    folder = CheckpointFolder(str(tmp_path), now=lambda: 0.0)
    folder.make()
    return folder


def test_what_is_written_in_place_counts_when_it_has_rested(tmp_path: Path) -> None:
    clock = [0.0]
    folder = CheckpointFolder(str(tmp_path), now=lambda: clock[0])
    folder.make()
    path = Path(folder.path) / "model-3.pt"
    path.write_text("half")
    written_at = path.stat().st_mtime
    clock[0] = written_at + SETTLED - 0.1
    assert folder.take_complete(folder.listing()) == []
    assert folder.has_news()
    clock[0] = written_at + SETTLED + 0.1
    assert [(one.name, one.step) for one in folder.take_complete(folder.listing())] == [("model-3.pt", 3)]
    assert folder.take_complete(folder.listing()) == []
    path.write_text("again")
    clock[0] = path.stat().st_mtime + SETTLED + 0.1
    assert [one.name for one in folder.take_complete(folder.listing())] == ["model-3.pt"]


def test_what_is_renamed_counts_at_once_and_drafts_never(found: CheckpointFolder) -> None:
    for name in (".hidden", "a.tmp", "b.partial", "c~", "latest"):
        (Path(found.path) / name).write_text("x")
    draft = Path(found.path) / ".draft"
    draft.write_text("x")
    draft.rename(Path(found.path) / "done-1")
    assert [one.name for one in found.take_complete(found.listing(), has_ended=True)] == ["done-1"]


def test_a_trial_without_checkpoints_costs_a_stat(found: CheckpointFolder) -> None:
    found.listing()
    assert not found.has_news()


@pytest.mark.parametrize(("name", "step"), [
    ("checkpoint-500", 500), ("step-12", 12), ("epoch=3-step=40.ckpt", 40), ("model.012.h5", 12), ("model.pt", None),
    ("weights_0007.safetensors", 7), ("epoch_3_val0.53.ckpt", 3), ("3", 3), ("x" + "9" * 30, None)])
def test_the_step_is_read_from_the_name(name: str, step: int | None) -> None:
    assert step_of(name) == step


@pytest.mark.parametrize(("name", "right"), [("a", True), ("a b", True), ("ä", True), ("", False), (".a", False),
                                             ("a/b", False), ("latest", False), ("x" * 256, False), ("\udc80", False)])
def test_names_of_checkpoints(name: str, right: bool) -> None:
    assert is_name(name) is right


def test_what_changes_while_it_is_read_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "step-1").mkdir()
    (tmp_path / "step-1" / "a").write_text("a")
    (tmp_path / "step-1" / "b").write_text("b")
    from trialkeeper import checkpoint_cut
    reading = checkpoint_cut._read_into

    def changing(stream: Any, target: memoryview) -> int:
        (tmp_path / "step-1" / "c").write_text("new")
        return reading(stream, target)
    monkeypatch.setattr(checkpoint_cut, "_read_into", changing)
    with pytest.raises(Problem) as problem:
        cut(str(tmp_path), "step-1", 10 ** 9)
    assert problem.value.code == contract.CHANGED


# --- our nni module --------------------------------------------------------------------------


def test_without_an_experiment_a_script_saves_and_nothing_stays(tmp_path: Path) -> None:
    import subprocess
    (tmp_path / "nni").symlink_to(Path(__file__).resolve().parents[2] / "trialkeeper" / "nni")
    code = ("import nni\nassert nni.load_checkpoint() is None\n"
            "with nni.save_checkpoint(step=3) as path: open(path, 'w').write('x')\n"
            "found = nni.load_checkpoint()\nprint(found, found.step)\n")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60,
                          env={"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path)})
    path, step = done.stdout.split()
    assert step == "3"
    assert path.endswith("step-3")
    assert not os.path.exists(path)


SEVERAL_THREADS = """
import nni, os, threading
problems = []
def save(first):
    try:
        for step in range(first, 200, 4):
            with nni.save_checkpoint(step=step) as path, open(path, "w") as file:
                file.write(str(step))
    except Exception as error:
        problems.append(repr(error))
threads = [threading.Thread(target=save, args=(number,)) for number in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert not problems, problems
latest = nni.load_checkpoint()
assert open(latest).read() == str(latest.step)
left = [name for name in os.listdir(os.environ["NNI_CHECKPOINT_DIR"]) if not name.startswith(".latest")]
assert len(left) == 3, left  # two, and the link's text
"""


def test_threads_may_save_at_the_same_time(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", SEVERAL_THREADS], capture_output=True, text=True, timeout=90, env={
        **os.environ, "PYTHONPATH": str(ROOT / "trialkeeper"), "NNI_CHECKPOINT_DIR": str(tmp_path)})
    assert done.returncode == 0, done.stderr


def test_an_error_while_saving_leaves_the_one_before(keeper: KeeperRun, server: ScriptedKeeperServer) -> None:
    code = """
import nni, os
with nni.save_checkpoint(step=1) as path: open(path, "w").write("right")
try:
    with nni.save_checkpoint(step=2) as path:
        open(path, "w").write("half")
        raise MemoryError
except MemoryError: pass
try:
    with nni.save_checkpoint(step=3) as path: pass
except FileNotFoundError as error: print(error)
try:
    with nni.save_checkpoint("../out") as path: pass
except ValueError as error: print(error)
found = nni.load_checkpoint()
print(found.step, open(found).read())
print(sorted(os.listdir(os.environ["NNI_CHECKPOINT_DIR"])))
for epoch in range(5):
    with nni.save_checkpoint(step=epoch) as path: os.mkdir(path)
with nni.save_checkpoint("step-4") as path: open(path, "w").write("a file now")
print(sorted(os.listdir(os.environ["NNI_CHECKPOINT_DIR"])), nni.load_checkpoint().step)
"""
    assert keeper.run(keeper.python_command(code), checkpoints=KEPT) == 0
    lines = server.output().splitlines()
    assert "nothing was written" in lines[0]
    assert "is no name of a checkpoint" in lines[1]
    assert lines[2:] == ["1 right", "['.latest.json', 'latest', 'step-1']",
                         "['.latest.json', 'latest', 'step-3', 'step-4'] None"]
