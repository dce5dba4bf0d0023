"""What fails while garbage is collected at the end of the stack is told, and fails no test of something else."""

import sys
from typing import Any

import pytest

from tests.unraisable_hook import ToldLater


class Failing:
    def __del__(self) -> None:
        raise ValueError("of a test that ended long ago")


def collected_at_the_end_of_the_stack() -> None:
    garbage = [Failing() for _ in range(3000)]

    def fall() -> None:
        garbage.pop()
        fall()

    with pytest.raises(RecursionError):
        fall()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_finalizer_that_fails_there_fails_no_test() -> None:
    collected_at_the_end_of_the_stack()


def test_what_failed_is_told_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", told.append)
    later = ToldLater()
    later.begin()
    Failing()
    assert told == []
    later.tell()
    assert [str(each.exc_value) for each in told] == ["of a test that ended long ago"]
    Failing()
    later.end()
    Failing()
    assert len(told) == 3
