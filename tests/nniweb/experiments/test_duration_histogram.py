"""How trials' durations are counted for the chart."""

import pytest

from nniweb.experiments.result_chart import Histogram, histogram


@pytest.mark.parametrize(("durations", "width", "counts"), [
    ([], 1.0, []),
    ([0.0, 0.0], 1.0, [2]),
    ([1.0, 1.9, 39.0], 2.0, [2, *[0] * 18, 1]),
    ([0.05], 0.005, [0] * 10 + [1]),
    ([3600.0, 3599.0], 200.0, [0] * 17 + [1, 1]),
])
def test_bars_have_round_widths_and_hold_every_duration(durations: list[float], width: float,
                                                        counts: list[int]) -> None:
    assert histogram(durations, 5.0) == Histogram(pytest.approx(width), counts, 5.0)  # type: ignore[arg-type]


@pytest.mark.parametrize("longest", [1e-6, 0.3, 1.0, 19.99, 20.0, 21.0, 1e5, 86400.0 * 30])
def test_there_are_never_more_bars_than_fit(longest: float) -> None:
    found = histogram([longest, longest / 3], None)
    assert 4 <= len(found.counts) <= 20
    assert sum(found.counts) == 2
