"""What a trial does wrong with its folder of checkpoints costs it that checkpoint, and its history says why."""

from __future__ import annotations

import os
import shlex
import tempfile
import time
from pathlib import Path

import pytest

from tests.fakes.scripted_keeper_server import ScriptedKeeperServer
from tests.trialkeeper.keeper_run import KeeperRun
from tests.trialkeeper.test_checkpoints_of_a_trial import KEPT, failed, saved
from trialkeeper import contract
from trialkeeper.checkpoint_folder import SETTLED, CheckpointFolder

#: The user and the group that own nothing.
NOBODY = 65534


def test_a_folder_of_checkpoints_that_leads_elsewhere_gives_nothing_away(
        keeper: KeeperRun, server: ScriptedKeeperServer, tmp_path: Path) -> None:
    elsewhere = tmp_path / "keys"
    elsewhere.mkdir()
    (elsewhere / "secret").write_text("secret")
    keeper.start(f'rm -r "$NNI_CHECKPOINT_DIR" && ln -s {shlex.quote(str(elsewhere))} "$NNI_CHECKPOINT_DIR"',
                 checkpoints=KEPT)
    server.wait_for(lambda: server.ended)
    assert saved(server) == []
    assert not server.chunks
    assert failed(server) == [("checkpoints", contract.NOT_PLAIN)]
    assert [path.name for path in elsewhere.iterdir()] == ["secret"]


#: Saves two checkpoints, each of which takes seconds to send, and something beside them; then waits for a word.
BESIDE = """
import os, time
os.chdir(os.environ["NNI_CHECKPOINT_DIR"])
for step in range(2):
    with open(".new", "wb") as file:
        file.write(os.urandom(4_000_000))
    os.rename(".new", "epoch-%%d" %% step)
    %s
while not os.path.exists(%r): time.sleep(0.05)
"""


@pytest.mark.parametrize(("made", "told"), [
    ('os.symlink("epoch-%d" % step, ".link"); os.rename(".link", "last")', []),
    ('os.path.exists("pipe") or os.mkfifo("pipe"); os.utime("pipe")', ["pipe"]),
    ('os.symlink("/etc/passwd", ".link"); os.rename(".link", "users-%d" % step)', ["users-0", "users-1"]),
], ids=["link beside", "fifo", "link elsewhere"])
def test_what_is_no_checkpoint_does_not_take_the_place_of_one_that_waits(
        keeper: KeeperRun, server: ScriptedKeeperServer, made: str, told: list[str]) -> None:
    end = keeper.folder / "end"
    keeper.start(keeper.python_command(BESIDE % (made, str(end))), checkpoints={**KEPT, "bytes_per_second": 2_000_000})
    server.wait_for(lambda: [entry["name"] for entry in saved(server)][-1:] == ["epoch-1"])
    assert (keeper.folder / "checkpoints" / "latest").read_text() == "epoch-1"
    assert sorted(failed(server)) == [(name, contract.NOT_PLAIN) for name in told], "it is told while the trial runs"
    end.touch()
    server.wait_for(lambda: server.ended)
    assert sorted(failed(server)) == [(name, contract.NOT_PLAIN) for name in told]


def test_a_link_is_another_name_of_a_checkpoint_only_where_it_leads_to_one_beside_it(tmp_path: Path) -> None:
    folder = CheckpointFolder(str(tmp_path), now=time.time)
    folder.make()
    (Path(folder.path) / "epoch-3").mkdir()
    (Path(folder.path) / ".draft").write_text("x")
    for name, target in {"last": "epoch-3", "best": str(Path(folder.path) / "epoch-3"), "both": "best",
                         "removed": "epoch-2", "itself": "itself", "unfinished": ".draft", "above": "..",
                         "elsewhere": "../epoch-3", "a.tmp": "/etc/passwd", "announced": "epoch-3"}.items():
        (Path(folder.path) / name).symlink_to(target)
    folder.announce("announced", 3)
    assert [name for name, _ in folder.listing()] == ["epoch-3"]
    assert folder.take_wrong_names() == ["above", "announced", "elsewhere", "itself", "unfinished"]
    assert not folder.is_awaited
    folder.listing()
    assert folder.take_wrong_names() == [], "each is told once"


def test_the_latest_is_named_in_the_folder_and_nowhere_else(tmp_path: Path) -> None:
    folder = CheckpointFolder(str(tmp_path), now=time.time)
    folder.make()
    elsewhere = tmp_path / "profile"
    elsewhere.write_text("own")
    for name in (".keeper-names-latest", ".latest.json", "latest"):
        (Path(folder.path) / name).symlink_to(elsewhere)
    folder.name_latest("epoch-3", 3)
    assert (Path(folder.path) / "latest").read_text() == "epoch-3"
    assert elsewhere.read_text() == "own"


def test_a_name_that_is_no_text_is_told_at_the_end(keeper: KeeperRun, server: ScriptedKeeperServer) -> None:
    keeper.start("""cd "$NNI_CHECKPOINT_DIR" && echo 1 > .a && mv .a "$(printf 'step-1\\377')\"""", checkpoints=KEPT)
    server.wait_for(lambda: server.ended)
    assert saved(server) == []
    assert failed(server) == [("step-1\\xff", contract.NOT_PLAIN)]


@pytest.mark.parametrize("step", ["2 ** 70", "1.5", "'3'"])
def test_a_step_that_is_no_whole_number_is_an_error_where_it_is_given(
        keeper: KeeperRun, server: ScriptedKeeperServer, step: str) -> None:
    keeper.start(keeper.python_command(f"""
import nni
nni.get_next_parameter()
try:
    with nni.save_checkpoint(step={step}) as path:
        open(path, "w").write("x")
except ValueError as error:
    nni.report_final_result(float("step must be a whole number" in str(error)))
"""), checkpoints=KEPT)
    server.wait_for(lambda: server.ended)
    assert saved(server) == []
    assert [entry["value"] for entry in server.of_type("metric")] == ["1.0"]


def test_a_step_that_no_server_takes_is_left_out(keeper: KeeperRun, server: ScriptedKeeperServer) -> None:
    keeper.start(keeper.python_command("""
import nni, os
from nni.trial import tell_keeper
path = os.path.join(os.environ["NNI_CHECKPOINT_DIR"], "model")
open(path + ".tmp", "w").write("x")
tell_keeper({"type": "CHECKPOINT", "name": "model", "step": 2 ** 70})
os.rename(path + ".tmp", path)
"""), checkpoints=KEPT)
    server.wait_for(lambda: server.ended)
    assert [(entry["name"], entry["step"]) for entry in saved(server)] == [("model", None)]


def test_a_link_that_an_earlier_run_left_is_removed_and_not_what_it_leads_to(tmp_path: Path) -> None:
    folder = CheckpointFolder(str(tmp_path), now=lambda: 0.0)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "kept").write_text("x")
    Path(folder.path).symlink_to(elsewhere)
    folder.remove_left_over()
    assert Path(folder.path).is_dir()
    assert not Path(folder.path).is_symlink()
    assert (elsewhere / "kept").exists()


def test_what_was_written_in_place_is_not_taken_after_one_that_is_newer(tmp_path: Path) -> None:
    """A file that gets its name in the moment in which it was written looks as if it were still being written."""
    clock = [0.0]
    folder = CheckpointFolder(str(tmp_path), now=lambda: clock[0])
    folder.make()
    older, newer, draft = (Path(folder.path) / name for name in ("step-1", "step-2", ".draft"))
    older.write_text("older")
    draft.write_text("newer")
    while draft.stat().st_ctime_ns <= max(older.stat().st_mtime_ns, draft.stat().st_mtime_ns):
        draft.rename(newer)
        newer.rename(draft)
    draft.rename(newer)
    clock[0] = older.stat().st_mtime
    assert [one.name for one in folder.take_complete(folder.listing())] == ["step-2"]
    clock[0] += SETTLED + 1
    assert folder.take_complete(folder.listing()) == []
    older.write_text("a new one of this name")
    clock[0] = older.stat().st_mtime + SETTLED + 0.1
    assert [one.name for one in folder.take_complete(folder.listing())] == ["step-1"]


@pytest.mark.parametrize("has_ended", [False, True])
def test_a_folder_of_which_a_part_was_removed_is_no_new_checkpoint(tmp_path: Path, has_ended: bool) -> None:
    """Libraries remove old checkpoints where they are, file by file, and may be killed meanwhile."""
    clock = [0.0]
    folder = CheckpointFolder(str(tmp_path), now=lambda: clock[0])
    folder.make()
    for name in ("step-1", "step-2"):
        draft = Path(folder.path) / f".{name}"
        (draft / "inner").mkdir(parents=True)
        for file in ("model", "inner/state"):
            (draft / file).write_text(name)
        draft.rename(draft.with_name(name))
    clock[0] = time.time() + 2 * SETTLED
    assert {one.name for one in folder.take_complete(folder.listing())} == {"step-1", "step-2"}
    (Path(folder.path) / "step-1" / "model").unlink()
    clock[0] += 2 * SETTLED
    assert folder.take_complete(folder.listing(), has_ended) == []
    (Path(folder.path) / "step-2" / "more").write_text("more of it")
    clock[0] += 2 * SETTLED
    assert [one.name for one in folder.take_complete(folder.listing(), has_ended)] == ["step-2"]


def test_an_old_checkpoint_is_whole_under_its_name_until_it_is_gone(keeper: KeeperRun,
                                                                    server: ScriptedKeeperServer) -> None:
    """A trial that is killed while it removes one, or that may not remove all of it, leaves no half checkpoint."""
    keeper.start(keeper.python_command("""
import nni, os, shutil
def removes_a_part(path, **more):
    if os.path.exists(os.path.join(path, "model")):
        os.remove(os.path.join(path, "model"))
shutil.rmtree = removes_a_part
nni.get_next_parameter()
for step in range(4):
    with nni.save_checkpoint(step=step) as path:
        os.mkdir(path)
        for name in ("model", "state"):
            open(os.path.join(path, name), "w").write(str(step))
folder = os.environ["NNI_CHECKPOINT_DIR"]
nni.report_final_result(" ".join(sorted(name for name in os.listdir(folder) if name.startswith("step"))))
"""), checkpoints=KEPT)
    server.wait_for(lambda: server.ended)
    assert [entry["value"] for entry in server.of_type("metric")] == ['"step-2 step-3"']


def test_what_an_earlier_run_has_closed_is_removed_by_its_own_user(tmp_path: Path) -> None:
    """Root may enter each folder: the keeper's work is done as another user here."""
    if os.geteuid() != 0:
        pytest.skip("needs root: machines of their own, other users, small disks")
    with tempfile.TemporaryDirectory(dir="/tmp") as attempt:  # a folder of pytest's own has closed ones above it
        inner = Path(attempt, "checkpoints", "step-1", "inner")
        inner.mkdir(parents=True)
        (inner / "model").write_text("x")
        for path in (Path(attempt), inner.parent.parent, inner.parent, inner, inner / "model"):
            os.chown(path, NOBODY, NOBODY)
        inner.chmod(0o500)
        inner.parent.parent.chmod(0)
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
                CheckpointFolder(attempt, now=lambda: 0.0).remove_left_over()
                status = 0
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        folder = Path(attempt, "checkpoints")
        assert list(folder.iterdir()) == []
        assert folder.stat().st_mode & 0o777 == 0o700
