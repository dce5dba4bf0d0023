import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainingservice.words.durations import LONGEST, format_duration, parse_duration, parse_grace


@pytest.mark.parametrize(("written", "seconds"), [
    ("10s", 10), ("5m", 300), ("1h", 3600), ("2d", 172800), ("0.5h", 1800), (".5m", 30), ("1.1s", 2), ("0.1s", 1),
    ("1h30m", 5400), ("1d 2h 3m 4s", 93784), (" 7 m ", 420), ("30m1h", 5400), (90, 90), ("999d", 86313600),
    ("0.1h", 360),
])
def test_a_duration_is_read_in_seconds_and_rounded_up(written: object, seconds: int) -> None:
    assert parse_duration(written) == seconds


@pytest.mark.parametrize("written", [
    "", "h", "10", "10 ", "ten minutes", "-5m", "1h-", "1M", "1w", "5m5m", "1,5h", 0, "0h", -3, 1.5, True, None, [],
    "1h!", "１０s",
])
def test_what_is_no_duration_is_refused(written: object) -> None:
    with pytest.raises(ValueError):
        parse_duration(written)


@pytest.mark.parametrize("written", ["99999d", 2**31, 10**30])
def test_what_is_longer_than_68_years_is_as_good_as_no_limit(written: object) -> None:
    assert parse_duration(written) == LONGEST == 2**31 - 1


def test_a_number_without_a_unit_is_told_how_to_write_it() -> None:
    with pytest.raises(ValueError, match="has no unit: write 30s, 30m, 30h or 30d"):
        parse_duration("30")


@pytest.mark.parametrize("written", [0, "0s", -3, 86_401, "30d", 10**30])
def test_the_time_to_save_a_checkpoint_is_told_its_range_and_not_that_there_is_none(written: object) -> None:
    with pytest.raises(ValueError, match="^must be from 1s to 1d$"):
        parse_grace(written)
    assert (parse_grace("1d"), parse_grace(1)) == (86_400, 1)


@given(st.integers(1, LONGEST))
def test_a_duration_survives_being_written_and_read_again(seconds: int) -> None:
    assert parse_duration(format_duration(seconds)) == seconds
