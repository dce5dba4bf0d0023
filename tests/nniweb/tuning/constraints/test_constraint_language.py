"""What constraints mean, what is refused and where, and that no text takes long."""

import contextlib
from typing import Any

import pytest

from nniweb.tuning.constraints.constraint import judge_all, read_constraint, sentence
from nniweb.tuning.constraints.evaluation import ABSENT, UNDEFINED
from nniweb.tuning.constraints.language import DEEPEST, LONGEST
from nniweb.tuning.constraints.nodes import ExpressionInvalid
from tests.own_time import takes_at_most

POINT: dict[str, Any] = {
    "layers": 3, "units": 1000, "lr": 0.5, "opt": "sgd", "flag": True, "off": False, "nothing": None,
    "learning rate": 0.1, "size": [1, 2], "huge": 10**400, "zero": 0,
    "block": {"_name": "conv", "kernel": 3, "inner": {"_name": "deep", "depth": 2}}, "plain": {"a": 1}}


@pytest.mark.parametrize(("text", "outcome"), [
    ("layers * units <= 4096", True), ("layers * units > 4096", False),
    ("opt != 'sgd' or lr > 0", True), ("opt = \"adam\"", False), ("opt == 'sgd'", True), ("OPT = 1", ABSENT),
    ("not opt = 'adam' AND layers = 3.0", True),
    ("1 <= layers < 4", True), ("1 <= layers < 3", False), ("5 > layers > lr > 0", True),
    ("layers in (1, 2, 3)", True), ("opt not in ('adam', 'sgd')", False), ("units in (units, 'x')", True),
    ("-layers ** 2 = -9", True), ("2 ** 3 ** 2 = 512 and layers > 0", True), ("layers - 1 - 1 = 1", True),
    ("units / 3 / 2 < 167", True), ("units // 300 = 3", True), ("units % 7 = 6", True), ("-+-layers = 3", True),
    ("min(layers, units, 2) = 2", True), ("max(layers) = 3", True), ("log2(8) = layers", True),
    ("abs(-lr) = 0.5", True),
    ("floor(lr) = 0 and ceil(lr) = 1 and round(lr) = 0", True), ("sqrt(units) > log10(units) + exp(1)", True),
    ("flag", True), ("not off", True), ("flag = true", True), ("flag = 1", False), ("layers = '3'", False),
    ("opt != 3", True), ("size = size", True), ("plain.a = 1", True),
    ("block = 'conv' and block.kernel = 3", True), ("block._name = 'conv'", True), ("block.inner.depth >= 2", True),
    ("`learning rate` < 0.2", True), ("`block`.`kernel` = 3", True),
    # what the point does not have
    ("block.stride > 1", ABSENT), ("block.stride * 2 > 1", ABSENT), ("not block.stride > 1", ABSENT),
    ("block.stride > 1 or layers = 3", True), ("block.stride > 1 and layers = 4", False),
    ("block.stride > 1 and layers = 3", ABSENT), ("block.stride = none", True), ("block.kernel != none", True),
    ("nothing = none", True), ("layers = none", False),
    # what cannot be computed
    ("units / zero > 1", UNDEFINED), ("units // zero > 1", UNDEFINED), ("units % zero > 1", UNDEFINED),
    ("zero = 0 or units / zero > 1", True), ("log(zero) < 1", UNDEFINED), ("(-layers) ** 0.5 = 1", UNDEFINED),
    ("opt < 3", UNDEFINED), ("opt * 3 = 'sgdsgdsgd'", UNDEFINED), ("flag + 1 = 2", UNDEFINED),
    ("layers", UNDEFINED),
    ("size > 1", UNDEFINED), ("huge > 1", UNDEFINED), ("9 ** 9 ** 9 > layers", UNDEFINED),
    ("exp(units) > 1", UNDEFINED),
    ("1e308 * 10 - 1e308 * 10 = zero", UNDEFINED), ("units / zero > 1 and block.stride > 1", UNDEFINED),
    ("nothing < 1", UNDEFINED),
])
def test_a_constraint_means(text: str, outcome: Any) -> None:
    assert read_constraint(text).outcome(POINT) is outcome


def test_a_point_is_allowed_where_a_constraint_is_true_or_says_nothing_of_it() -> None:
    allowed = {text: read_constraint(text).allows(POINT) for text in (
        "layers = 3", "layers = 4", "block.stride > 1", "units / zero > 1", "not units / zero > 1")}
    assert allowed == {"layers = 3": True, "layers = 4": False, "block.stride > 1": True, "units / zero > 1": False,
                       "not units / zero > 1": False}


@pytest.mark.parametrize(("text", "said"), [
    ("layers * units", "character 1 (layers * units): is a value and no condition; compare it"),
    ("layers <", "character 9: ends too early; expected: a value"),
    ("layers <= units)", 'character 16 ()): ")" is not expected here; expected: its end'),
    ("layers units", 'character 8 (units): "units" is not expected here; expected: a comparison (= != < <= > >=)'),
    ("a && b", 'character 3 (&): "&" is not expected here. Write \'and\'.'),
    ("a = 1; b = 2", 'character 6 (;): ";" is not expected here. Write several constraints'),
    ("opt = 'sgd", "character 7 ('): the text in quotes that begins here is not closed; a second ' is missing"),
    ("open('x') = 1", "character 1 (open): there is no function open; there are min, max, abs"),
    ("abs(1, a) = 1", "abs takes one argument, not 2"),
    ("opt < 'sgd'", "character 7 ('sgd'): a text cannot be compared by <; only numbers can"),
    ("a + true > 1", "character 5 (true): this word cannot be computed with"),
    ("(a < b) = (c < d)", "a condition cannot be compared; join conditions by and, or, not"),
    ("min(a < b) > 1", "a condition cannot be given to min"),
    ("a.b[0] = 1", 'character 4 ([): "[" is not expected here. An element of a list'),
    ("a = 1e999", "is too large a number"), ("a < \N{FULLWIDTH DIGIT ONE}", "character 5"),
    ("1 < 2", "contains no name"), ("  ", "is empty; write a condition"),
    ("lambda: 1", 'character 7 (:): ":" is not expected here'),
    ("not 'a'", "is a value and no condition"),
])
def test_a_wrong_constraint_is_refused_with_its_place(text: str, said: str) -> None:
    with pytest.raises(ExpressionInvalid) as refused:
        read_constraint(text)
    assert said in sentence(refused.value, text)


def test_nothing_of_python_can_be_reached() -> None:
    names = {"x": 3}
    for text in ("x.__class__ = 1", "x.real = 3", "__import__ = 1"):
        assert read_constraint(text).outcome(names) is ABSENT
    for text in ("__import__('os') = 1", "x.bit_length() = 2", "(x := 4) > 3", "[x for x in x] = 1", "f'{x}' = 1"):
        with pytest.raises(ExpressionInvalid):
            read_constraint(text)


@pytest.mark.parametrize("text", [
    "(" * 1_000_000, "(" * 900 + "a" + ")" * 900 + " > 1", "a" * 1_000_000, "not " * 480 + "a", "-" * 1900 + "a > 1",
    "a > 9" + "**9" * 600, "a > 1" + "+1" * 900, "a > 1" + "*1e9" * 450, "9" * 1900 + " > a", "a" + ".a" * 900 + " > 1",
    "a > 1" + " or a > 1" * 180, "a" + "<a" * 900, "a in (" + "a," * 900 + "1)", "a > '" + "x" * 1900 + "'",
    "a = '" + "\\\\" * 900 + "'", "a > 1" + " " * 1900, "`" * 1999, "'" * 1999, "1" + "." * 1500, "a=" + "=" * 1900,
    "min(" * 400 + "a" + ")" * 400 + " > 1", "((a" + " < a" * 20 + ") = " * 20, "a > 1e" + "9" * 1900,
    "\0" * 1000, "𝟘" * 1000, "a > " + "٣" * 1000, "a" + " in (a" * 300,
])
def test_no_text_takes_long(text: str) -> None:
    read_constraint("a > 1")  # the parser is made once
    constraint = None
    with takes_at_most(1.0):
        with contextlib.suppress(ExpressionInvalid):
            constraint = read_constraint(text)
        if constraint is not None:
            for value in (3, 0, "text", 10**300, [1] * 1000, None):
                constraint.allows({"a": value})
                constraint.judge({"a": float(value) if isinstance(value, int) else 0.0})


def test_length_and_depth_are_bounded() -> None:
    read_constraint("a > " + "1 + " * 490 + "1")
    with pytest.raises(ExpressionInvalid, match=f"longer than {LONGEST}"):
        read_constraint("a > 1" + " " * LONGEST)
    with pytest.raises(ExpressionInvalid, match=f"nested more than {DEEPEST} deep"):
        read_constraint("-" * DEEPEST + "a > 1")


def test_a_result_is_judged_by_its_metrics_and_a_missing_one_is_not_known_to_hold() -> None:
    texts = ["latency <= 20", "accuracy > 0.9 or latency < 5", "not memory > 3"]
    good = judge_all(texts, {"latency": 12.0, "accuracy": 0.95, "memory": 1.0})
    assert [one.violation for one in good] == [0, 0, 0]
    slow, both, unknown = judge_all(texts, {"latency": 30.0, "accuracy": 0.8})
    assert (slow.violation, slow.values, slow.missing) == (pytest.approx(0.2), {"latency": 30.0}, ())
    assert both.violation == pytest.approx(0.1 / 1.7)  # the nearer one of the two
    assert (unknown.violation, unknown.missing) == (1, ("memory",))
    assert [one.violation for one in judge_all(["latency < 5"], {"latency": 5.0})] == [pytest.approx(0, abs=1e-9)]
    assert judge_all(["latency < 5"], {"latency": 5.0})[0].violation > 0
    assert judge_all(["`val/loss` < 1", "a.b = 2"], {"val/loss": 0.5, "a.b": 2.0}) == judge_all(
        ["`val/loss` < 1", "a.b = 2"], {"val/loss": 0.5, "a.b": 2.0})
    assert [one.violation for one in judge_all(["`val/loss` < 1", "a.b = 2"], {"val/loss": 0.5, "a.b": 2.0})] == [0, 0]


def test_a_worse_violation_counts_more_whatever_its_unit() -> None:
    for scale in (1e-6, 1.0, 1e9):
        near, far = (judge_all([f"size <= {20 * scale}"], {"size": value * scale})[0].violation for value in (21, 100))
        assert 0 < near < far < 1
        assert near == pytest.approx(1 / 41)
