"""Removing folders into which a process that is about to end still writes."""

import os
import threading
import time
from pathlib import Path

import pytest

from trainingservice.submit_host.disk import LocalDisk


def test_a_folder_that_somebody_still_writes_into_is_removed_all_the_same(tmp_path: Path) -> None:
    folder = tmp_path / "attempt"
    folder.mkdir()
    wrote = threading.Event()

    def write_for_a_while() -> None:
        until = time.monotonic() + 0.3
        for number in range(10**6):
            try:
                (folder / f"{number}.txt").touch()
            except FileNotFoundError:  # removed
                return
            wrote.set()
            if time.monotonic() > until:
                return

    writer = threading.Thread(target=write_for_a_while)
    writer.start()
    assert wrote.wait(90)
    problems = LocalDisk().remove_folder(folder)
    writer.join()
    assert problems == []
    assert not folder.exists()


def test_a_file_that_its_writer_renames_meanwhile_is_removed_by_its_new_name(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "attempt"
    folder.mkdir()
    (folder / ".accepted.draft").touch()
    real = os.unlink

    def renamed_first(path: str, *, dir_fd: int | None = None) -> None:
        if path == ".accepted.draft":  # listed, and then whole
            os.rename(folder / ".accepted.draft", folder / "accepted")
        real(path, dir_fd=dir_fd)

    monkeypatch.setattr(os, "unlink", renamed_first)
    assert LocalDisk().remove_folder(folder) == []
    assert not folder.exists()


def test_what_is_not_there_is_no_trouble(tmp_path: Path) -> None:
    assert LocalDisk().remove_folder(tmp_path / "nothing") == []


def test_a_link_or_a_pipe_that_a_trial_has_put_in_the_place_of_a_file_is_not_read(tmp_path: Path) -> None:
    """It could lead to what is the server's alone; whoever opens a pipe waits for one who writes to it."""
    secret = tmp_path / "secret"
    secret.write_text("a key of the server")
    attempt = tmp_path / "attempt"
    attempt.mkdir()
    (attempt / "job.out").symlink_to(secret)
    os.mkfifo(attempt / "exit.json")
    for name in ("job.out", "exit.json"):
        with pytest.raises(OSError, match="it is no plain file"):
            LocalDisk().read(attempt / name)


def test_a_file_takes_the_place_of_a_link_that_a_trial_has_put_there(tmp_path: Path) -> None:
    (tmp_path / "canceled").symlink_to(tmp_path / "elsewhere")
    for _ in range(2):
        LocalDisk().touch(tmp_path / "canceled")
        assert (tmp_path / "canceled").is_file()
    assert not (tmp_path / "elsewhere").exists()
