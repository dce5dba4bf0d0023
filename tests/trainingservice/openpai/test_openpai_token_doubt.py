"""When a token is to blame for what the server refuses, by a clock that the test turns."""

from trainingservice.openpai.token_doubt import BLAME_AFTER, FORGET_AFTER, TokenDoubt


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def refusals(doubt: TokenDoubt, clock: Clock, *pauses: float) -> list[bool]:
    """Whether the token was to blame after each refusal; before each so many seconds pass."""
    found = []
    for pause in pauses:
        clock.now += pause
        found.append(doubt.refused())
    return found


def test_refusals_over_a_minute_blame_it_and_one_acceptance_clears_it() -> None:
    clock = Clock()
    doubt = TokenDoubt(clock)
    assert refusals(doubt, clock, 0.0, 5.0, 5.0, BLAME_AFTER) == [False, False, False, True]
    doubt.accepted()
    assert refusals(doubt, clock, 0.0, 5.0, 5.0) == [False, False, False]


def test_a_refusal_of_long_ago_says_nothing_of_an_outage_of_now() -> None:
    clock = Clock()
    doubt = TokenDoubt(clock)
    assert refusals(doubt, clock, 0.0, FORGET_AFTER + 1.0, 5.0, 5.0) == [False, False, False, False]
    assert refusals(doubt, clock, BLAME_AFTER) == [True]
