"""Which parameters matter: told by the library for a known function, and the rank correlation by hand."""

import random
from typing import Any

import pytest

from nniweb.tuning.parameter_importance import analysis, correlation


def column(values: list[Any], **more: Any) -> dict[str, Any]:
    return {"low": 0.0, "high": 1.0, "logarithmic": False, "options": None, "ordered": True, "numbers": None,
            "values": values, **more}


def test_what_decides_the_result_matters_most_and_what_does_not_matters_least() -> None:
    chance = random.Random(11)
    strong, weak, act = ([chance.random() for _ in range(200)], [chance.random() for _ in range(200)],
                         [chance.randrange(2) for _ in range(200)])
    values = [one + 0.5 * two + 0.001 * chance.random() for one, two in zip(strong, act, strict=True)]
    found = analysis(values, [column(strong), column(weak), column(act, options=2, ordered=False),
                              column([0.5] * 200, low=0.5, high=0.5)], maximize=True)
    shares = [parameter["importance"] for parameter in found]
    assert shares[3] is None, "what does not vary has no importance"
    assert sum(shares[:3]) == pytest.approx(1)
    assert shares[0] > shares[2] > shares[1]
    assert found[0]["correlation"] > 0.7 > 0.2 > abs(found[1]["correlation"])
    assert (found[2]["correlation"], found[3]["correlation"]) == (None, None)


def test_a_parameter_that_only_some_trials_have_counts_by_these() -> None:
    chance = random.Random(12)
    values = [chance.random() for _ in range(60)]
    kernel = [value if number % 2 else None for number, value in enumerate(values)]
    [found] = analysis(values, [column(kernel)], maximize=False)
    assert found["count"] == 30
    assert found["correlation"] == pytest.approx(1)
    assert found["importance"] == pytest.approx(1)


def test_the_rank_correlation_sees_order_only_and_equal_values_share_a_rank() -> None:
    assert correlation(column([1, 2, 3, 4]), [1.0, 10.0, 100.0, 1000.0])["correlation"] == pytest.approx(1)
    assert correlation(column([4, 3, 2, 1]), [1.0, 10.0, 100.0, 1000.0])["correlation"] == pytest.approx(-1)
    # ranks 0.5 0.5 2.5 2.5 and 0 1 2 3
    assert correlation(column([1, 1, 2, 2]), [1.0, 2.0, 3.0, 4.0])["correlation"] == pytest.approx(0.894427, rel=1e-5)
    by_option = column([0, 1, 2, 2], options=3, numbers=[64, 32, 16])
    assert correlation(by_option, [1.0, 2.0, 3.0, 3.0])["correlation"] == pytest.approx(-1)
    assert correlation(column([1, 2]), [1.0, 2.0]) == {"correlation": None, "count": 2}
