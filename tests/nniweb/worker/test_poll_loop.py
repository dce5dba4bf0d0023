"""The loop of threads that look at the database again and again."""

import threading

import pytest
from django.db import OperationalError, ProgrammingError

from nniweb.worker import poll_loop
from trainingservice.lasting_thread import Part


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("error", [OperationalError("the database is away"), ValueError("a mistake")])
def test_a_look_that_fails_is_told_and_followed_by_the_next_one(error: Exception, monkeypatch: pytest.MonkeyPatch,
                                                                caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(poll_loop, "AWAY_SECONDS", 0.01)
    stopping, looks = threading.Event(), []

    def look() -> float:
        looks.append("look")
        if len(looks) == 1:
            raise error
        stopping.set()
        return 0.0

    thread = threading.Thread(target=poll_loop.look_until, args=[stopping, "upkeep", look])
    thread.start()
    thread.join(30)
    assert looks == ["look", "look"]
    assert "upkeep: " in caplog.text
    assert str(error) in caplog.text


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("error", "is_told"), [
    (OperationalError("the database is away"), False), (ProgrammingError("no such column"), True),
    (ValueError("a mistake"), True)])
def test_looks_that_fail_by_a_defect_are_told_until_one_does_not(error: Exception, is_told: bool,
                                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(poll_loop, "AWAY_SECONDS", 0.01)
    stopping, part, told = threading.Event(), Part("upkeep"), []

    def look() -> float:
        told.append(part.trouble)
        if len(told) < 3:
            raise error
        stopping.set()
        return 0.0

    thread = threading.Thread(target=poll_loop.look_until, args=[stopping, "upkeep", look, part])
    thread.start()
    thread.join(30)
    assert [bool(trouble) for trouble in told] == [False, is_told, is_told]
    assert part.trouble == ""
