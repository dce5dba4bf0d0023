"""Where a report's charts draw what: every value on the chart, numbers on the axes that differ."""

import math

from hypothesis import given
from hypothesis import strategies as st

from nniweb.dashboard.report.charts import HEIGHT, LEFT, WIDTH, axis_of, chart

FINITE = st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(FINITE, max_size=40), st.booleans(), st.booleans())
def test_every_value_is_on_the_axis_and_every_number_of_it_differs(values: list[float], logarithmic: bool, cut: bool
                                                                   ) -> None:
    axis = axis_of(values, 100.0, 500.0, logarithmic=logarithmic, cut=cut)
    places = [axis(value) for value in sorted(values)]
    assert all(100.0 <= place <= 500.0 for place in places)
    assert places == sorted(places)
    ticks = axis.ticks
    assert all(100.0 <= tick.at <= 500.0 and math.isfinite(float(tick.text)) for tick in ticks)
    assert len({tick.text for tick in ticks}) == len(ticks) <= 14


def test_an_axis_has_round_numbers() -> None:
    assert [tick.text for tick in axis_of([0.013, 0.052], 0.0, 100.0).ticks] == ["0.02", "0.03", "0.04", "0.05"]
    assert [tick.text for tick in axis_of([1, 100], 0.0, 100.0).ticks] == ["0", "20", "40", "60", "80", "100"]
    assert [tick.text for tick in axis_of([1e-5, 1e-1], 0.0, 100.0, logarithmic=True).ticks] == [
        "1e-5", "0.0001", "0.001", "0.01", "0.1"]


def test_a_few_values_far_away_are_on_the_edge_and_counted() -> None:
    up = [*(value / 100 for value in range(100)), 1e9]
    drawn = chart("c", [float(number) for number in range(101)], up, ("trial", "loss"))
    assert drawn.beyond == 1
    assert drawn.up(1e9) == drawn.top
    assert drawn.up(0.5) < (drawn.top + drawn.bottom) / 2 + 150
    drawn.dots("result", [(0.0, 0.0), (100.0, 1e9)])
    assert drawn.layers[0].path.count("M") == 2


def test_the_line_of_the_best_goes_in_steps_and_stays_on_the_chart() -> None:
    drawn = chart("c", [0.0, 10.0], [1.0, 2.0], ("trial", "loss"))
    drawn.line("best", [(0.0, 2.0), (10.0, 1.0)], steps=True)
    [layer] = drawn.layers
    assert layer.path.startswith("M")
    assert layer.path.count("H") == layer.path.count("V") == 1
    assert LEFT < drawn.across(10.0) < WIDTH
    assert 0 < drawn.up(2.0) < drawn.up(1.0) < HEIGHT
