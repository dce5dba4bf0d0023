"""Hypothesis strategies for search spaces as people write them."""

from typing import Any

from hypothesis import strategies as st

finite = st.floats(-1e6, 1e6, allow_nan=False).map(lambda number: round(number, 6))
positive = st.floats(1e-6, 1e6).map(lambda number: round(number, 6) or 1e-6)
widths = st.floats(1e-3, 1e4).map(lambda number: round(number, 3) or 1e-3)
small = st.floats(-5, 5).map(lambda number: round(number, 3))
steps = st.sampled_from([0.001, 0.1, 0.25, 0.3, 1, 2.5, 7, 100])
plain_options = st.one_of(
    st.integers(-100, 100), finite, st.text(max_size=5), st.booleans(), st.none(), st.lists(st.integers(), max_size=2)
)


def _spec(kind: str, *values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.tuples(*values).map(lambda drawn: {"_type": kind, "_value": list(drawn)})


def _range(
    kind: str, low: st.SearchStrategy[float], *more: st.SearchStrategy[Any]
) -> st.SearchStrategy[dict[str, Any]]:
    return st.tuples(low, widths, *more).map(
        lambda drawn: {"_type": kind, "_value": [drawn[0], drawn[0] + drawn[1], *drawn[2:]]}
    )


flat_specs = st.one_of(
    st.lists(plain_options, min_size=1, max_size=4).map(lambda options: {"_type": "choice", "_value": options}),
    st.tuples(st.integers(-1000, 1000), st.integers(1, 1000)).map(
        lambda drawn: {"_type": "randint", "_value": [drawn[0], drawn[0] + drawn[1]]}
    ),
    _range("uniform", finite),
    _range("quniform", finite, steps),
    _range("loguniform", positive),
    _range("qloguniform", positive, steps),
    _spec("normal", finite, widths),
    _spec("qnormal", finite, widths, steps),
    _spec("lognormal", small, st.floats(0.01, 2)),
    _spec("qlognormal", small, st.floats(0.01, 2), steps),
)
names = st.text(min_size=1, max_size=6).filter(lambda name: name != "_name")


def _nested(specs: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    option = st.tuples(st.text(max_size=4), st.dictionaries(names, specs, max_size=2))
    return st.lists(option, min_size=1, max_size=3, unique_by=lambda drawn: drawn[0]).map(
        lambda options: {"_type": "choice", "_value": [{"_name": name, **inner} for name, inner in options]}
    )


search_spaces = st.dictionaries(names, st.recursive(flat_specs, _nested, max_leaves=6), min_size=1, max_size=4)
