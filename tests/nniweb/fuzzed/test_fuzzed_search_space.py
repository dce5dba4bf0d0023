"""Whatever somebody calls a search space: it can be sampled, or the errors say where it cannot."""

import json
import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from nniweb.tuning.search_space.parser import SearchSpaceError, parse_search_space

NUMBERS = st.sampled_from([0, 1, -1, 0.5, 1e308, -1e308, 1e-308, 10**400, 2**63, True]) | st.floats() | st.integers()
KEYS = st.sampled_from(["_type", "_value", "_name", "x", ""])
KINDS = st.sampled_from(["choice", "randint", "uniform", "quniform", "loguniform", "qloguniform", "normal", "qnormal",
                         "lognormal", "qlognormal", "nothing", 1, None, []])
VALUES = st.recursive(
    NUMBERS | st.text(max_size=3) | st.none(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=3)
    | st.fixed_dictionaries({"_type": KINDS, "_value": st.lists(inner, max_size=4) | inner}), max_leaves=10)


@given(VALUES | st.dictionaries(st.text(max_size=3), VALUES, max_size=3), st.integers(0, 2**32))
def test_no_search_space_breaks_its_reader(raw: Any, seed: int) -> None:
    try:
        space = parse_search_space(raw)
    except SearchSpaceError as error:
        found = [problem.message for problem in error.problems]
    else:
        found = [json.dumps(space.sample(random.Random(seed)), allow_nan=False)]
    assert found
    assert all(found)
