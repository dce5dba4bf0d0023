"""A part of a process that fails begins again, and says meanwhile what is wrong with it."""

from __future__ import annotations

import errno
import sqlite3
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.trialkeeper.keeper_run import wait_until
from trainingservice.lasting_thread import LastingThread, Part, in_short, parts_in_trouble
from trialkeeper.shortage import is_shortage


def until(condition: Callable[[], Any]) -> Any:
    return wait_until(condition)


def troubles() -> dict[str, str]:
    return {part.name: part.trouble for part in parts_in_trouble()}


def test_a_part_that_raises_begins_again_with_growing_pauses_until_it_is_told_to_end() -> None:
    stopping, begun = threading.Event(), []

    def work() -> None:
        begun.append(time.monotonic())
        if len(begun) < 4:
            raise SystemExit("not even this ends it")
        stopping.wait(60)

    thread = LastingThread("brittle", work, stopping=stopping, pauses=(0.02, 0.3))
    thread.start()
    until(lambda: len(begun) == 4)
    assert begun[1] - begun[0] < 0.3 <= begun[2] - begun[1]
    assert thread.is_alive
    stopping.set()
    thread.join(60)
    assert not thread.is_alive
    assert len(begun) == 4, "what returns is done"


def test_a_part_that_waits_to_begin_again_says_what_was_wrong_and_nothing_private(caplog) -> None:
    stopping = threading.Event()

    def work() -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "/home/somebody/secret")

    thread = LastingThread("writer", work, stopping=stopping, is_vital=True, pauses=(60.0,))
    thread.start()
    said = until(lambda: troubles().get("writer"))
    assert "No space left on device" in said
    assert "/home" not in said
    until(lambda: "/home/somebody/secret" in caplog.text)  # the log is for who looks after the server
    assert next(part.is_vital for part in parts_in_trouble() if part.name == "writer")
    stopping.set()
    thread.join(60)
    assert "writer" not in troubles(), "the pause was cut short, and what has ended is missed by nobody"


def test_a_part_that_has_begun_again_counts_as_well_after_a_while() -> None:
    now = [100.0]
    part = Part("p", monotonic=lambda: now[0])
    part.is_in_trouble("It failed.")
    part.is_well(in_seconds=5.0)
    assert troubles() == {"p": "It failed."}, "it may fail again at once"
    now[0] += 5.0
    assert troubles() == {}


def test_a_part_is_started_once_and_after_a_start_that_failed_once_more(monkeypatch) -> None:
    stopping, threads = threading.Event(), set()

    def work() -> None:
        threads.add(threading.get_ident())
        stopping.wait(60)

    thread = LastingThread("late", work, stopping=stopping)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_thread)
        with pytest.raises(RuntimeError):
            thread.start()
        assert not thread.was_started
        thread.join()  # harmless
    thread.start()
    thread.start()
    until(lambda: threads)
    stopping.set()
    thread.join(60)
    assert len(threads) == 1


def no_thread(_: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


@pytest.mark.parametrize(("error", "expected"), [
    (RuntimeError("can't start new thread"), True), (MemoryError(), True), (OSError(errno.EAGAIN, "busy"), True),
    (OSError(errno.ENOMEM, "memory"), True), (RuntimeError("can't start new thread at interpreter shutdown"), False),
    (OSError(errno.ENOENT, "gone"), False), (ValueError("x"), False), (None, False)])
def test_what_passes_when_others_end_is_told_from_faults(error: object, expected: bool) -> None:
    assert is_shortage(error) is expected


def test_the_words_for_everybody_are_those_of_the_system() -> None:
    locked = RuntimeError("whatever /srv/data says")
    locked.__cause__ = sqlite3.OperationalError("database is locked")
    assert in_short(locked) == "database is locked"
    assert in_short(ValueError("user:password@host")) == "ValueError"
    assert "thread" in in_short(RuntimeError("can't start new thread"))
