"""What is said of a text that is no JSON: line, column and the mistake, in no words of Python's reader."""

from __future__ import annotations

import json

import pytest

from trainingservice.limited_json import JsonRefused, json_fault, read_json


@pytest.mark.parametrize(("text", "said"), [
    ('{"a": 1 "b": 2}', "line 1, column 9: a comma or the closing bracket is missing"),
    ('{\n "a" 1}', "line 2, column 6: a colon is missing after the name"),
    ('{"a": 1,}', "line 1, column 9: a comma stands before the closing bracket; remove it"),
    ("[1, 2,]", "line 1, column 7: a comma stands before the closing bracket; remove it"),
    ("{'a': 1}", "line 1, column 2: texts and names are in double quotes, not in single ones"),
    ("['a']", "line 1, column 2: texts and names are in double quotes, not in single ones"),
    ("{a: 1}", "line 1, column 2: the name of a field in double quotes is missing"),
    ("[True]", "line 1, column 2: write true instead of True"),
    ('{"a": None}', "line 1, column 7: write null instead of None"),
    ("[no]", "line 1, column 2: write false instead of no"),
    ("[abc]", "line 1, column 2: a value is missing, or is none of JSON: texts are in double quotes"),
    ('[{"ip": "a"}', "line 1, column 13: the text ends before the JSON is complete"),
    ('{"a":', "line 1, column 6: the text ends before the JSON is complete"),
    ("", "line 1, column 1: the text is empty"),
    ("[1] [2]", "line 1, column 5: the JSON is complete before this; remove what follows, or a closing bracket before "
                "it"),
    ('{"a": "b\n"}', "line 1, column 9: a line break or a tab in a text; write \\n or \\t"),
    (r'["\q"]', "line 1, column 3: a backslash in a text; write two"),
    (r'["\u12"]', "line 1, column 4: \\u must be followed by four hexadecimal digits"),
    ('\n["abc]', "line 2, column 2: a quote opens here and is not closed"),
    ("\ufeff[]", "line 1, column 1: the text begins with a byte order mark; save it as UTF-8 without one"),
    ("[" + "9" * 5000 + "]", "a number has too many digits"),
])
def test_the_place_and_the_mistake_are_said(text: str, said: str) -> None:
    with pytest.raises(JsonRefused) as refused:
        read_json(text)
    assert str(refused.value) == f"must be JSON; {said}"


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_numbers_that_json_does_not_have_are_refused_at_their_place(number: str) -> None:
    with pytest.raises(JsonRefused, match=r"^a\[1\]: must be a number that is finite"):
        read_json(f'{{"a": [1, {number}]}}')


def test_bytes_that_are_no_text_are_told_so() -> None:
    with pytest.raises(UnicodeDecodeError) as error:
        json.loads(b'["\xff"]')
    assert json_fault(error.value) == "it is not UTF-8 text"


def test_every_message_of_pythons_reader_has_words_of_ours() -> None:
    whole = '{"name": ["text", 1.5e3, true, null, {"a": "\\u00e9\\n"}], "b": -1}'
    broken = {whole[:at] + put + whole[at + drop:] for at in range(len(whole) + 1) for drop in (0, 1)
              for put in ("", *"{}[],:'\"\\ \t\nxT0-.e")} | {whole[:at] for at in range(len(whole))}
    faults = [fault for text in broken if (fault := fault_of(text)) is not None]
    assert len(faults) > 1000
    for error in faults:
        said = json_fault(error)
        assert said.startswith(f"line {error.lineno}, column {error.colno}: ")
        assert error.msg not in said
        assert "(char" not in said
        assert "too many" not in said, f"no words for {error.msg}"


def fault_of(text: str) -> json.JSONDecodeError | None:
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return error
    return None
