"""What the keeper writes into folders of its trial, and what the trial has put there."""

import json
import os

import pytest

from trialkeeper.attempt_folder import write_file
from trialkeeper.folder_writer import make_folder_below, open_new_or_plain, write_below
from trialkeeper.mlflow_calls import CALLS_FILE, FOLDER, MlflowCalls


@pytest.fixture
def outside(tmp_path):
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret").write_text("as it was")
    return folder


@pytest.fixture
def folder(tmp_path, outside):
    folder = tmp_path / "nni"
    folder.mkdir()
    return folder


def test_a_link_in_the_place_of_a_draft_is_replaced(folder, outside):
    for write in (lambda: write_file(str(folder / "parameter_1.cfg"), "new"),
                  lambda: write_below(str(folder), "parameter_1.cfg", "new")):
        (folder / f"parameter_1.cfg.{os.getpid()}.new").symlink_to(outside / "secret")
        write()
        assert (folder / "parameter_1.cfg").read_text() == "new"
        assert (outside / "secret").read_text() == "as it was"
        assert not (folder / "parameter_1.cfg").is_symlink()


def test_a_link_in_the_place_of_a_file_is_replaced(folder, outside):
    (folder / "a").symlink_to(outside / "secret")
    write_below(str(folder), "a", "new")
    assert ((folder / "a").read_text(), (outside / "secret").read_text()) == ("new", "as it was")


def test_no_link_is_followed_on_the_way(folder, outside):
    (folder / "run").symlink_to(outside)
    for write in (lambda: write_below(str(folder), "run/secret", "new"),
                  lambda: make_folder_below(str(folder), "run/inner"),
                  lambda: open_new_or_plain(str(folder), "run/secret", os.O_WRONLY | os.O_TRUNC)):
        with pytest.raises(OSError, match="Not a directory|symbolic links"):
            write()
    assert [(path.name, path.read_text()) for path in outside.iterdir()] == [("secret", "as it was")]


def test_folders_are_made_and_files_written_in_them(folder):
    for _ in range(2):
        make_folder_below(str(folder), "a/b")
        write_below(str(folder), "a/b/c", "text")
    assert (folder / "a" / "b" / "c").read_text() == "text"
    assert [path.name for path in (folder / "a" / "b").iterdir()] == ["c"]


def test_mlflow_s_runs_are_written_below_the_output_folder_alone(folder, outside):
    calls = MlflowCalls(str(folder))

    def call(name, /, **fields):
        return calls.answer(f"/api/2.0/mlflow/{name}", json.dumps(fields).encode())

    run = call("runs/create")[1]["run"]["info"]["run_id"]
    call("runs/log-metric", run_id=run, key="loss", value=1.5)
    (folder / FOLDER / run / "artifacts").rmdir()
    (folder / FOLDER / run).rmdir()
    (folder / FOLDER / run).symlink_to(outside)
    status, answer = call("runs/update", run_id=run, status="FINISHED")
    assert (status, answer["error_code"]) == (500, "INTERNAL_ERROR")
    (folder / FOLDER / CALLS_FILE).unlink()
    (folder / FOLDER / CALLS_FILE).symlink_to(outside / "secret")
    assert [one["value"] for one in call("metrics/get-history", run_id=run, metric_key="loss")[1]["metrics"]] == [1.5]
    (folder / FOLDER).rename(folder / "aside")
    (folder / FOLDER).symlink_to(outside)
    assert call("runs/create")[0] == call("logged-models", name="m")[0] == 500
    assert [(path.name, path.read_text()) for path in outside.iterdir()] == [("secret", "as it was")]
