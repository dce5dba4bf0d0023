"""The trial's code is what was shipped, and unpacking it writes nowhere else."""

import io
import os
import tarfile
from pathlib import Path

import pytest

from tests.trialkeeper.keeper_run import wait_until
from trialkeeper.child_process import CannotStart
from trialkeeper.code_folder import extract_archive, file_sha256


def pack(path, *members):
    """Members: (name, bytes) or (name, TarInfo changes)."""
    with tarfile.open(path, "w:gz") as tar:
        for name, what in members:
            info = tarfile.TarInfo(name)
            content = what if isinstance(what, bytes) else b""
            info.size = len(content)
            for field, value in (what if isinstance(what, dict) else {}).items():
                setattr(info, field, value)
            tar.addfile(info, io.BytesIO(content))
    return path


@pytest.fixture
def source(tmp_path):
    folder = tmp_path / "source"
    (folder / "deep er" / "empty").mkdir(parents=True)
    (folder / "train \u00e4\u4e2d.sh").write_bytes(b"#!/bin/sh\necho \xff trained\n")
    (folder / "train \u00e4\u4e2d.sh").chmod(0o755)
    (folder / "deep er" / "data").write_bytes(bytes(range(256)) * 1000)
    (folder / "link").symlink_to("deep er/data")
    (folder / "deep er" / "up").symlink_to("../deep er")
    return folder


def archive_of(folder, path):
    with tarfile.open(path, "w:gz") as tar:
        tar.add(folder, arcname=".")
    return path


def test_the_code_arrives_with_execute_bits_empty_folders_links_and_any_name(source, tmp_path):
    extract_archive(archive_of(source, tmp_path / "code.tar.gz"), str(tmp_path / "target"))
    for root, folders, names in os.walk(source):
        there = tmp_path / "target" / os.path.relpath(root, source)
        assert sorted(os.listdir(there)) == sorted(folders + names)
        for name in names:
            path = os.path.join(root, name)
            assert (there / name).is_symlink() == os.path.islink(path)
            assert (there / name).read_bytes() == Path(path).read_bytes()
            assert os.access(there / name, os.X_OK) == os.access(path, os.X_OK)
    assert os.readlink(tmp_path / "target" / "deep er" / "up") == "../deep er"


@pytest.mark.parametrize("members", [
    [("../evil", b"x")], [("/tmp/evil-of-a-test", b"x")], [("a/../../evil", b"x")],
    [("link", {"type": tarfile.SYMTYPE, "linkname": "/etc"})],
    [("link", {"type": tarfile.SYMTYPE, "linkname": "../outside"})],
    [("d", {"type": tarfile.SYMTYPE, "linkname": "."}), ("link", {"type": tarfile.SYMTYPE, "linkname": "d/../.."})],
    [("link", {"type": tarfile.SYMTYPE, "linkname": "d/../x"}), ("d", {"type": tarfile.SYMTYPE, "linkname": "."})],
    [("link", {"type": tarfile.SYMTYPE, "linkname": ".."}), ("link/evil", b"x")],
    [("hard", {"type": tarfile.LNKTYPE, "linkname": "../outside"})],
    [("hard", {"type": tarfile.LNKTYPE, "linkname": "/etc/passwd"})],
    [("pipe", {"type": tarfile.FIFOTYPE})], [("device", {"type": tarfile.CHRTYPE})]])
def test_an_archive_that_leaves_the_folder_is_refused(tmp_path, members):
    (tmp_path / "outside").write_text("untouched")
    with pytest.raises(CannotStart, match="refused"):
        extract_archive(pack(tmp_path / "evil.tar.gz", *members), str(tmp_path / "box" / "target"))
    assert not (tmp_path / "box" / "target").exists()
    assert not list(tmp_path.rglob("evil"))
    assert (tmp_path / "outside").read_text() == "untouched"


def test_set_user_id_bits_are_not_taken_over(tmp_path):
    archive = pack(tmp_path / "a.tar.gz", ("program", {"mode": 0o6755}))
    extract_archive(archive, str(tmp_path / "target"))
    assert (tmp_path / "target" / "program").stat().st_mode & 0o7777 == 0o755


def test_a_broken_archive_is_a_sentence(tmp_path):
    (tmp_path / "broken").write_bytes(b"no tar at all")
    with pytest.raises(CannotStart, match="cannot be unpacked"):
        extract_archive(str(tmp_path / "broken"), str(tmp_path / "target"))


def test_the_trial_runs_in_the_users_own_folder(keeper, server, source):
    assert keeper.run("pwd; touch written", code={"folder": str(source)}) == 0
    assert server.output() == f"{source}\n"
    assert (source / "written").exists()
    assert server.entries[0]["working_directory"] == str(source)


def test_the_trial_runs_in_a_copy_from_an_archive_on_the_machine(keeper, server, source, tmp_path):
    archive = archive_of(source, tmp_path / "code.tar.gz")
    code = {"sha256": file_sha256(str(archive)), "archive": str(archive)}
    assert keeper.run("'./train \u00e4\u4e2d.sh'; touch written", code=code) == 0
    assert server.output().encode("latin-1") == b"\xff trained\n"
    assert not (source / "written").exists()


def test_the_code_is_fetched_again_when_it_arrives_damaged_or_the_server_is_away(keeper, server, source, tmp_path):
    sha256 = server.put_code(archive_of(source, tmp_path / "code.tar.gz"))
    server.codes_before.extend([b"damaged on the way", None])
    assert keeper.run("ls", code={"sha256": sha256}, limits={"claim_timeout": 0}) == 0, server.entries
    assert sum(call.endswith("/code") for call in server.calls) == 3
    assert "deep er" in server.output()
    assert not (keeper.folder / "code.tar.gz").exists()


def test_code_with_the_wrong_hash_is_not_run(keeper, server, source, tmp_path):
    archive = archive_of(source, tmp_path / "code.tar.gz")
    assert keeper.run("true", code={"sha256": "0" * 64, "archive": str(archive)}) == 1
    assert server.ended["reason"] == "not_started"
    assert "SHA-256" in server.ended["message"]


def test_a_stop_while_the_code_is_fetched_starts_nothing(keeper, server, tmp_path):
    server.code = None
    process = keeper.start(f"touch {tmp_path}/started", code={"sha256": "0" * 64})
    server.wait_for(lambda: any(call.endswith("/code") for call in server.calls))
    process.terminate()
    wait_until(lambda: keeper.exists("exit.json"))
    assert process.wait(90) == 1
    assert server.ended["reason"] == "stopped"
    assert not (tmp_path / "started").exists()


def test_of_an_archive_with_parts_only_the_trials_own_one_is_unpacked_and_becomes_the_folder(source, tmp_path):
    whole = tmp_path / "whole"
    whole.mkdir()
    source.rename(whole / "worker")
    (whole / "ps").mkdir()
    (whole / "ps" / "serve.py").write_text("serve")
    archive = archive_of(whole, tmp_path / "code.tar.gz")
    extract_archive(archive, str(tmp_path / "target"), "worker")
    assert sorted(os.listdir(tmp_path / "target")) == sorted(os.listdir(whole / "worker"))
    assert (tmp_path / "target" / "link").read_bytes() == (whole / "worker" / "link").read_bytes()
    with pytest.raises(CannotStart, match="has no folder launcher"):
        extract_archive(archive, str(tmp_path / "other"), "launcher")
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("members", [
    [("worker/link", {"type": tarfile.SYMTYPE, "linkname": "../ps"})],
    [("ps/secret", b"x"), ("worker/hard", {"type": tarfile.LNKTYPE, "linkname": "ps/secret"})],
    [("worker/../evil", b"x"), ("worker/a", b"x"), ("worker/../../evil", b"x")]])
def test_a_part_that_leaves_itself_is_refused(tmp_path, members):
    archive = pack(tmp_path / "evil.tar.gz", ("worker", {"type": tarfile.DIRTYPE, "mode": 0o755}), *members)
    with pytest.raises(CannotStart, match="refused"):
        extract_archive(archive, str(tmp_path / "box" / "target"), "worker")
    assert not (tmp_path / "box" / "target").exists()
    assert not list(tmp_path.rglob("evil"))
