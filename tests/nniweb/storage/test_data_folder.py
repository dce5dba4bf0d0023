"""The data folder is private, its keys are made once, and one server uses it."""

import errno
import fcntl
import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from nniweb.experiments.data_folder_check import data_folder_is_closed
from nniweb.storage import data_folder


def test_a_key_is_made_once_however_many_come_first_together(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        keys = set(pool.map(lambda _: data_folder.secret_key(tmp_path / "new"), range(32)))
    assert len(keys) == 1
    [file] = (tmp_path / "new" / "keys").iterdir()
    assert (file.name, file.stat().st_mode & 0o777) == ("secret_key", 0o600)


def test_a_key_is_on_the_disk_before_it_has_its_name_and_the_name_before_it_is_used(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    fsync, link = os.fsync, os.link

    def flush(opened: int) -> None:
        done.append("names" if stat.S_ISDIR(os.fstat(opened).st_mode) else f"{os.fstat(opened).st_size} bytes")
        fsync(opened)

    def name(draft: Path, path: Path) -> None:
        done.append(f"link {path.name}")
        link(draft, path)

    monkeypatch.setattr(os, "fsync", flush)
    monkeypatch.setattr(os, "link", name)
    key = data_folder.secret_key(tmp_path)
    assert done == ["names", f"{len(key)} bytes", "link secret_key", "names"], "that of the new folder comes first"


def test_folders_are_made_private_at_every_level(tmp_path: Path) -> None:
    folder = data_folder.prepare(tmp_path / "a" / "b")
    assert [path.stat().st_mode & 0o777 for path in (folder, folder.parent)] == [0o700, 0o700]


def test_a_second_server_is_told_who_has_the_folder(tmp_path: Path) -> None:
    first = data_folder.ServerLock(tmp_path)
    first.acquire()
    first.write_address(["http://127.0.0.1:1234"])
    program = ("import sys; from pathlib import Path; from nniweb.storage import data_folder;"
               "data_folder.ServerLock(Path(sys.argv[1])).acquire()")
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=False)
    assert "DataFolderLocked" in done.stderr
    assert "http://127.0.0.1:1234" in done.stderr
    first.release()
    again = data_folder.ServerLock(tmp_path)
    again.acquire()
    again.release()


def test_a_file_system_without_locks_is_not_taken_for_another_server(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with pytest.raises(OSError, match="No locks available"):
        data_folder.ServerLock(tmp_path).acquire()


@pytest.mark.parametrize("content", ["", "{", "[]", "null"])
def test_a_broken_address_file_is_like_none(tmp_path: Path, content: str) -> None:
    (tmp_path / "server.json").write_text(content)
    assert data_folder.read_address_file(tmp_path / "server.json") == {}


def test_a_folder_made_by_hand_is_closed_to_others_before_anything_lies_in_it(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    data_folder.close_to_others(tmp_path)
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o700
    assert data_folder.who_else_may_look(tmp_path) == ""


def test_a_folder_that_holds_other_things_is_left_alone_and_the_check_says_who_may_look(
        tmp_path: Path, settings: Any) -> None:
    (tmp_path / "somebody's file").touch()
    tmp_path.chmod(0o750)
    data_folder.close_to_others(tmp_path)
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o750
    settings.DATA_FOLDER = tmp_path
    [warning] = data_folder_is_closed()
    assert f"The data folder {tmp_path} is accessible to its group" in warning.msg
    tmp_path.chmod(0o700)
    assert data_folder_is_closed() == []


def test_an_empty_key_is_no_key_and_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data_folder.installation_id(tmp_path)
    (tmp_path / "keys" / "installation").write_text("\n")
    with pytest.raises(data_folder.EmptyKey, match=r"installation is empty\. Put its content back"):
        data_folder.installation_id(tmp_path)
    monkeypatch.setattr(data_folder, "_only_look", True)
    assert data_folder.installation_id(tmp_path) == "", "the doctor names the file"
