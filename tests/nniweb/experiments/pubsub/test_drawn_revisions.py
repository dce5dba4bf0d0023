"""Revisions that have been drawn: the last bits of a number, from which PostgreSQL's locks give it back."""

from __future__ import annotations

import pytest

from nniweb.experiments.pubsub.drawn_revisions import Drawn, _whole
from nniweb.experiments.pubsub.revisions import NUMBERS


@pytest.mark.parametrize("number", [1, 7, NUMBERS - 1, NUMBERS, 5 * NUMBERS + 3])
@pytest.mark.parametrize("distance", [0, 1, 1000, -1, -1000])
def test_a_number_is_known_again_by_its_last_bits_and_one_that_is_near(number: int, distance: int) -> None:
    assert _whole(number % NUMBERS, number + distance) == number


def test_an_experiment_of_which_nothing_is_being_stored_is_there_up_to_the_last_number() -> None:
    drawn = Drawn(9, {3: 5})
    assert [drawn.limit(pk) for pk in (3, 4, NUMBERS + 3)] == [5, 9, 5]
