"""Numbers in texts of others."""

import re
from pathlib import Path

import pytest

from trialkeeper.whole_number import whole_number

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(("text", "number"), [
    ("0", 0), ("007", 7), (" 42\n", 42), (b"12", 12), ("9" * 18, 10 ** 18 - 1),
    ("", None), ("-1", None), ("+1", None), ("1.0", None), ("1_000", None), ("\u00b2", None),
    ("\u0663", None), (b"\xb2", None), ("9" * 19, None), ("9" * 5000, None), ("1\n2", None), ("x", None)])
def test_a_number_is_ascii_digits_and_not_endless(text, number):
    assert whole_number(text) == number


def test_no_other_place_asks_whether_a_text_is_digits_and_forgets_those_that_int_cannot_read():
    """Of bytes ``isdigit`` asks for ASCII."""
    of_bytes = {"nniweb/middleware/body_size.py"}
    found = [f"{path.relative_to(ROOT)}:{number}" for package in ("nniweb", "trainingservice", "trialkeeper")
             for path in sorted((ROOT / package).rglob("*.py")) if str(path.relative_to(ROOT)) not in of_bytes
             for number, line in enumerate(path.read_text().splitlines(), 1)
             if re.search(r"\.is(digit|decimal|numeric)\(", line) and "isascii()" not in line]
    assert found == []
