"""A burst at once, then so many a second; what was not there is owed."""

import math

import pytest

from nniweb.process.token_bucket import TokenBucket
from tests.fakes.hand_set_clock import HandSetClock


@pytest.fixture
def clock() -> HandSetClock:
    return HandSetClock()


@pytest.fixture
def bucket(clock: HandSetClock) -> TokenBucket:
    return TokenBucket(2, 5, clock)


def test_a_burst_is_taken_at_once_and_then_the_rate(bucket: TokenBucket, clock: HandSetClock) -> None:
    assert [bucket.take() for _ in range(6)] == [True] * 5 + [False]
    clock.now += 1
    assert [bucket.take() for _ in range(3)] == [True, True, False]


def test_it_says_how_long_to_wait(bucket: TokenBucket, clock: HandSetClock) -> None:
    assert (bucket.wait(), bucket.wait(5)) == (0, 0)
    bucket.spend(5)
    assert (bucket.wait(), bucket.wait(4), bucket.wait(0)) == (0.5, 2, 0)
    clock.now += 0.5
    assert bucket.wait() == 0
    assert TokenBucket(0, 0, clock).wait() == math.inf


def test_what_was_not_there_is_owed(bucket: TokenBucket, clock: HandSetClock) -> None:
    bucket.spend(9)
    assert bucket.wait(0) == 2
    clock.now += 2
    assert bucket.wait(0) == 0
    assert not bucket.take()


def test_it_holds_no_more_than_a_burst_and_a_clock_that_goes_back_takes_nothing(bucket: TokenBucket,
                                                                                clock: HandSetClock) -> None:
    bucket.spend(1)
    assert not bucket.is_full
    clock.now -= 100
    assert bucket.wait(4) == 0
    clock.now += 1000
    assert bucket.is_full
    assert bucket.wait(6) == 0.5, "one more than the burst"
