"""The loop of threads that look at the database again and again."""

import threading

import pytest
from django.db import OperationalError

from nniweb.worker import poll_loop


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
