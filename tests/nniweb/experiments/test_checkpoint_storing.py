"""How what arrives of a checkpoint is stored: without a second copy, flushed, and several chunks in one transaction."""

from __future__ import annotations

import errno
import hashlib
import os
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from django.core.files.storage import Storage

from nniweb.experiments.checkpoints import chunk_files
from nniweb.experiments.checkpoints.chunk_files import NoRoom, content_of, incoming_file, keep_file
from nniweb.experiments.checkpoints.incoming_file import SMALL, IncomingFile
from nniweb.experiments.checkpoints.shared_transactions import SharedTransactions
from nniweb.storage.durable_storage import DurableFileSystemStorage


@pytest.fixture(autouse=True)
def storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = DurableFileSystemStorage(location=str(tmp_path / "files"))
    monkeypatch.setattr(chunk_files, "checkpoint_storage", own)


@pytest.fixture
def large() -> bytes:
    return os.urandom(3 * SMALL)


def arrived(content: bytes) -> IncomingFile:
    body = incoming_file()
    for begin in range(0, len(content), 50_000):
        body.write([content[begin:begin + 30_000], content[begin + 30_000:begin + 50_000]])
    assert (body.size, body.sha256) == (len(content), hashlib.sha256(content).hexdigest())
    assert body.content() == content
    return body


def kept(content: bytes) -> str:
    body = arrived(content)
    path = f"checkpoints/e1/chunks/aa/{body.sha256}"
    keep_file(path, body.sha256, body)
    assert content_of(path, body.sha256) == content
    body.close()
    body.close()
    return path


@pytest.mark.parametrize("size", [7, 3 * SMALL], ids=["small", "large"])
def test_what_arrived_is_kept_and_leaves_nothing_beside(size: int) -> None:
    content = os.urandom(size)
    path = kept(content)
    kept(content)  # once more
    assert os.listdir(Path(chunk_files.checkpoint_storage.path(path)).parent) == [Path(path).name]
    assert os.listdir(chunk_files.checkpoint_storage.path("checkpoints")) == ["e1"]


def test_it_is_flushed_before_it_has_its_name_and_its_folders_after_it(
        monkeypatch: pytest.MonkeyPatch, large: bytes) -> None:
    order: list[tuple[str, int]] = []
    fsync, link = os.fsync, os.link

    def watched_fsync(descriptor: int) -> None:
        fsync(descriptor)
        order.append(("flush", os.fstat(descriptor).st_ino))

    def watched_link(source: str, *names: str, **more: int) -> None:
        order.append(("name", os.stat(source).st_ino))
        link(source, *names, **more)

    monkeypatch.setattr(os, "fsync", watched_fsync)
    monkeypatch.setattr(os, "link", watched_link)
    path = Path(chunk_files.checkpoint_storage.path(kept(large)))
    number = path.stat().st_ino
    assert order[:3] == [("flush", number), ("name", number), ("flush", path.parent.stat().st_ino)]
    assert ("flush", path.parent.parent.stat().st_ino) in order[3:]


def test_where_files_without_names_are_not_to_be_had_it_is_copied(
        monkeypatch: pytest.MonkeyPatch, large: bytes) -> None:
    opening = os.open

    def without_them(path: str, flags: int, *more: int, **most: int) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, "Operation not supported")
        return opening(path, flags, *more, **most)

    monkeypatch.setattr(os, "open", without_them)
    path = kept(large)
    assert os.listdir(Path(chunk_files.checkpoint_storage.path(path)).parent) == [Path(path).name]


def test_a_damaged_file_gives_way_to_what_arrives(large: bytes) -> None:
    path = Path(chunk_files.checkpoint_storage.path(kept(large)))
    path.chmod(0o600)
    path.write_bytes(b"damaged")
    kept(large)


def test_who_sends_the_same_at_the_same_time_takes_nothing_away_that_is_stored(
        monkeypatch: pytest.MonkeyPatch, large: bytes) -> None:
    """Both find that it is not there. One has stored it when the disk is full for the other."""
    first, second = arrived(large), arrived(large)
    path, check_room = f"checkpoints/e1/chunks/aa/{first.sha256}", chunk_files._check_room

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def meanwhile(_: int) -> None:
        monkeypatch.setattr(chunk_files, "_check_room", check_room)
        keep_file(path, first.sha256, first)
        monkeypatch.setattr(os, "fsync", full)

    monkeypatch.setattr(chunk_files, "_check_room", meanwhile)
    with pytest.raises(OSError, match="No space left"):
        keep_file(path, second.sha256, second)
    assert content_of(path, first.sha256) == large
    first.close()
    second.close()


def test_a_full_disk_is_an_error_of_the_sender_and_leaves_nothing(
        monkeypatch: pytest.MonkeyPatch, large: bytes) -> None:
    def full(*_: object, **__: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "open", full)
    body = incoming_file()
    with pytest.raises(OSError, match="No space left"):
        body.write([large])
    body.close()


@pytest.mark.parametrize("place", ["here", "elsewhere"])
def test_what_arrives_takes_none_of_the_room_that_stays_free(
        monkeypatch: pytest.MonkeyPatch, large: bytes, place: str) -> None:
    """Many arrive at once and are not stored yet."""
    limit = "KEPT_FREE"
    if place == "elsewhere":
        limit = "KEPT_FREE_ON_THE_WAY"
        monkeypatch.setattr(chunk_files, "checkpoint_storage", Storage())
    body = incoming_file()
    body.write([large])
    monkeypatch.setattr(chunk_files, limit, 2**62)
    with pytest.raises(NoRoom):
        body.write([large])
    body.close()
    little = incoming_file()
    little.write([b"what is kept in memory alone"])
    little.close()


# --- several in one transaction ------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
def test_what_waits_while_a_transaction_is_written_shares_the_next_one() -> None:
    written: list[list[int]] = []
    goes_on, is_writing = threading.Event(), threading.Event()

    def write(items: Sequence[int]) -> None:
        written.append(sorted(items))
        is_writing.set()
        goes_on.wait(60)

    shared = SharedTransactions(write)
    threads = [threading.Thread(target=shared.write, args=(number,)) for number in range(5)]
    threads[0].start()
    assert is_writing.wait(90)
    for thread in threads[1:]:
        thread.start()
    while len(shared._waiting) < 4:
        assert not goes_on.wait(0.01)
    goes_on.set()
    for thread in threads:
        thread.join(60)
    assert written == [[0], [1, 2, 3, 4]]


@pytest.mark.django_db(transaction=True)
def test_what_cannot_be_written_is_told_to_who_wanted_it_and_to_nobody_else() -> None:
    written: list[int] = []
    goes_on, is_writing = threading.Event(), threading.Event()

    def write(items: Sequence[int]) -> None:
        is_writing.set()
        goes_on.wait(60)
        if 3 in items:
            raise ValueError("three")
        written.extend(items)

    shared, errors = SharedTransactions(write), list[int]()

    def want(number: int) -> None:
        try:
            shared.write(number)
        except ValueError:
            errors.append(number)

    threads = [threading.Thread(target=want, args=(number,)) for number in range(5)]
    threads[0].start()
    assert is_writing.wait(90)
    for thread in threads[1:]:
        thread.start()
    while len(shared._waiting) < 4:
        assert not goes_on.wait(0.01)
    goes_on.set()
    for thread in threads:
        thread.join(60)
    assert (sorted(written), errors) == ([0, 1, 2, 4], [3])
