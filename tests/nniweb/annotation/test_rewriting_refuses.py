"""What cannot be carried out is refused at its line, with a sentence that says what to write."""

import pytest

from nniweb.annotation.rewriting import rewrite
from tests.nniweb.annotation.annotated_code import problems

VARIABLE = '"""@nni.variable(nni.choice(1, 2), name=x)"""\n'
REFUSED = {
    VARIABLE + "y = 1\n": (1, "the annotation is for x, but the assignment after it is to y."),
    VARIABLE + "x += 1\n": (1, "must be directly before an assignment to one variable"),
    VARIABLE + "x = y = 1\n": (1, "must be directly before an assignment"),
    VARIABLE + "x: int\n": (1, "must be directly before an assignment"),
    VARIABLE + "y: int = 1\n": (1, "the assignment after it is to y"),
    VARIABLE + VARIABLE + "x = 1\n": (2, "there is a text in place of the statement that the annotation in line 1"),
    "def f():\n    " + VARIABLE + "x = 1\n": (2, "is at the end of its block"),
    VARIABLE + "x = 1\n" + VARIABLE.replace("2", "3") + "x = 1\n": (3, "other values in line 1"),
    '"""@nni.variable(nni.choice(1, 2))"""\nx = 1\n': (1, "exactly one keyword argument, name"),
    '"""@nni.variable(nni.choice(1, 2), name=x, more=1)"""\nx = 1\n': (1, "exactly one keyword argument"),
    '"""@nni.variable(1, 2, name=x)"""\nx = 1\n': (1, "needs one call with the possible values"),
    '"""@nni.variable(range(3), name=x)"""\nx = 1\n': (1, "range(3) is none of NNI's functions"),
    '"""@nni.variable(nni.coice(1, 2), name=x)"""\nx = 1\n': (1, "There are nni.choice, nni.randint"),
    '"""@nni.variable(nni.uniform(0, k), name=x)"""\nx = 1\n': (1, "has k where a number such as"),
    '"""@nni.variable(nni.uniform(low=0, high=1), name=x)"""\nx = 1\n': (1, "takes its values as positional arguments"),
    '"""@nni.variable(nni.uniform(True, 1e999), name=x)"""\nx = 1\n': (1, "has True where a number"),
    '"""@nni.variable(nni.choice(), name=x)"""\nx = 1\n': (1, "no options to choose from"),
    '"""@nni.variable(nni.choice(*some), name=x)"""\nx = 1\n': (1, "the options behind *some are not known"),
    '"""@nni.variable(nni.choice(1, True), name=x)"""\nx = 1\n': (1, "options 1 and True are equal in Python"),
    '"""@nni.variable(nni.choice(1j, b"a"), name=x)"""\nx = 1\n': (1, "cannot be stored as JSON"),
    '"""@nni.variable(nni.choice(1e999), name=x)"""\nx = 1\n': (1, "cannot be stored as JSON"),
    f'"""@nni.variable(nni.choice(1, {"9" * 400}), name=x)"""\nx = 1\n': (1, "a number of too many digits"),
    f'"""@nni.variable(nni.choice(0x{"f" * 5000}), name=x)"""\nx = 1\n': (1, "a number of too many digits"),
    f'x = nni.choice({{{"9" * 400}: 1}})\n': (1, "a number of too many digits"),
    '"""@nni.variable(nni.choice("\\\\ud800", "b"), name=x)"""\nx = 1\n': (1, "the option '\\ud800' contains a"),
    '"""@nni.variable(nni.choice("a\\\\0", "b"), name=x)"""\nx = 1\n': (1, "the option 'a\\x00' contains a character"),
    'x = nni.choice({"\\udfff": f, "b": g}, name="x")\n': (1, "the option '\\udfff' contains a character"),
    'x = nni.choice({"a": f, "b": g}, name="x\\0")\n': (1, "the name 'x\\x00' contains a character"),
    f'"""@nni.variable(nni.choice({"9" * 5000}, 2), name=x)"""\nx = 1\n': (
        1, "cannot be read as Python: a whole number has more than 4300 digits."),
    f"x = nni.choice(2)\ny = {'9' * 5000}\n": (2, "the server runs: a whole number has more than 4300 digits."),
    '"""@nni.function_choice(f(1), g(1), name=f)"""\nf(2)\n': (1, "calls none of its functions with the same"),
    '"""@nni.report_final_result(1"""\n': (1, "cannot be read as Python: '(' was never closed"),
    'x = 1\n"""@nni.report_final_result(\n1 +* 2)"""\n': (3, "cannot be read as Python: invalid syntax"),
    '"""@nni.report_final_result(1); x = 2"""\n': (1, "must be one call"),
    '"""@nni.report_final_result"""\n': (1, "must be one call"),
    '"""@nni.report_result(1)"""\n': (1, "@nni.report_result is not an annotation. Annotations: @nni.variable"),
    '"""@nni.mutable_layers({layer_choice: [a()], layer_output: b})"""\n': (
        1, "@nni.mutable_layers belongs to neural architecture search, which is not supported."),
    '"""@nni.training_update(tf=tf)"""\n': (1, "belongs to neural architecture search"),
    "x = nni.mutable_layer('a', 'b')\n": (1, "nni.mutable_layer belongs to neural architecture search"),
    "x = nni.choice(1, 2)\n": (1, "nni.choice needs a dict whose keys are written out"),
    "x = nni.choice({**a})\n": (1, "needs a dict whose keys are written out"),
    "x = nni.choice({1: 1}, name=y)\n": (1, 'takes one keyword argument, a text: name="x"'),
    "x = nni.choice()\n": (1, "has nothing to choose from"),
    "x = nni.uniform(0, 1) + nni.uniform(2, 3)\n": (1, "occurs twice in this line without a name"),
    "x = nni.uniform(0, y)\n": (1, "has y where a number such as"),
    "print 'nni.choice'\n": (1, "this is not valid in Python 3."),
    "print 'nni.choice' \n": (1, "Did you mean print(...)? Files with annotations must be valid in it."),
    '"""@nni.report_final_result(print 1)"""\n': (1, "Did you mean print(...)?"),
    **{f'"""@nni.report_{kind}_result({arguments})"""\n': (1, "needs exactly one argument, the result")
       for kind in ("final", "intermediate") for arguments in ("", "1, 2", "result=1", "1, metric=2")},
    '"""@nni.get_next_parameter(1)"""\n': (1, "takes no arguments. Write @nni.get_next_parameter()."),
    **{f'"""@nni.variable({values}, name=(a, b))"""\n(a, b) = (1, 2)\n': (1, f"{words}cannot be assigned to (a, b)")
       for values, words in (
           ("nni.choice(1, 2)", "the option 1 "), ("nni.uniform(0, 1)", "draws one number, which "),
           ("nni.choice((1, 2), (3, 4, 5))", "the option (3, 4, 5) "), ("nni.choice('ab', 'abc')", "the option 'abc' "),
           ("nni.choice(f(), nni.uniform(0, 1))", "the option nni.uniform(0, 1) "),
           ("nni.choice(lambda: 1, None)", "the option lambda: 1 "))},
    '"""@nni.variable(nni.choice((1, 2), (1, (2, 3))), name=(a, (b, c)))"""\n(a, (b, c)) = (1, (2, 3))\n': (
        1, "the option (1, 2) cannot be assigned to (a, (b, c))"),
    '"""@nni.variable(nni.choice((), (1, 2)), name=(a, *b))"""\n(a, *b) = (1, 2)\n': (1, "the option () cannot be"),
    "x = 1\n  y = nni.choice({1: 1})\n": (2, "this is not valid in Python 3."),
    "# coding: nothing\nnni.choice({1: 1})\n": (1, "unknown encoding"),
    '"""@nni.get_next_parameter()"""\nfrom __future__ import annotations\n': (2, "does not give valid Python code"),
    VARIABLE.replace("x", "a" * 600) + "a" * 600 + " = 1\n": (1, "at most 500"),
}


@pytest.mark.parametrize("code", REFUSED, ids=range(len(REFUSED)))
def test_it_is_refused_at_its_line(code: str) -> None:
    line, words = REFUSED[code]
    found = problems(code)
    assert found
    assert found[0][0] == line
    assert words in found[0][1]
    assert "?." not in found[0][1]


@pytest.mark.parametrize("code", [
    '"""@nni.variable(nni.choice((1, 2), f(), [*g()], \'ab\', x + y), name=(a, b))"""\n(a, b) = (1, 2)\n',
    '"""@nni.variable(nni.choice((1, 2, 3), (1,)), name=(a, *b))"""\n(a, *b) = (1, 2)\n',
    '"""@nni.variable(nni.choice((1, (2, 3)), (1, f())), name=(a, (b, c)))"""\n(a, (b, c)) = (1, (2, 3))\n',
    '"""@nni.report_final_result(metric=1)"""\n', '"""@nni.report_final_result(*some)"""\n',
    '"""@nni.report_final_result(**some)"""\n', '"""@nni.get_next_parameter()"""\n'])
def test_what_may_fit_is_carried_out(code: str) -> None:
    assert problems(code) == []


def test_all_that_is_wrong_in_a_file_is_said_at_once() -> None:
    code = VARIABLE + "y = 1\n" + '"""@nni.report(1)"""\n' + VARIABLE + "x = 1\n" + "nni.choice(1)\n"
    assert [line for line, _ in problems(code)] == [1, 3, 6]


def test_bytes_that_are_no_text_are_refused() -> None:
    assert "can't decode" in problems(b"x = '\xff'; nni.choice({1: 1})\n")[0][1] or problems(b"\xff\xfe")[0]


def test_code_that_is_nested_too_deeply_is_refused() -> None:
    assert problems("nni.choice({1: " + "(" * 500 + ")" * 500 + "})\n")
    assert problems('"""@nni.report_final_result(' + "-" * 20_000 + '1)"""\n')


@pytest.mark.parametrize("encoding", ["unicode_escape", "raw_unicode_escape", "rot13", "zlib_codec", "utf_7", "hex",
                                      "punycode", "idna"])
def test_an_encoding_that_does_not_keep_the_file_is_named(encoding: str) -> None:
    source = f'# -*- coding: {encoding} -*-\n{VARIABLE}x = "\\n+AAo-\\u0041"\n'.encode()
    (problem,) = rewrite(source, "m").problems
    assert encoding.replace("_", "") in problem.message.replace("_", "").replace("-", "")
    assert "encoding" in problem.message


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1", "cp1252", "shift_jis", "gbk", "koi8-r"])
def test_encodings_of_files_are_kept(encoding: str) -> None:
    source = f"# -*- coding: {encoding.removesuffix('-sig')} -*-\r\n{VARIABLE}x = 1\n".encode(encoding)
    found = rewrite(source, "m")
    assert not found.problems
    assert found.source is not None
    assert found.source.startswith(source[:20])
