"""What annotations mean: the search space that they give, and what the rewritten code does with parameters."""

import pytest

from tests.nniweb.annotation.annotated_code import carried_out, run

ALL = {
    "choice('a', 2, 0.5)": ("choice", ["a", 2, 0.5]), "randint(1, 10)": ("randint", [1, 10]),
    "uniform(0, 1e-3)": ("uniform", [0, 0.001]), "quniform(0, 1, 0.1)": ("quniform", [0, 1, 0.1]),
    "loguniform(0.0001, 0.1)": ("loguniform", [0.0001, 0.1]), "qloguniform(1, 9, 2)": ("qloguniform", [1, 9, 2]),
    "normal(-1, 2.5)": ("normal", [-1, 2.5]), "qnormal(0, 1, 0.5)": ("qnormal", [0, 1, 0.5]),
    "lognormal(0, 1)": ("lognormal", [0, 1]), "qlognormal(1.2, 3, 4.5)": ("qlognormal", [1.2, 3, 4.5]),
}


@pytest.mark.parametrize("call", ALL)
def test_a_variable_gets_the_value_of_its_parameter(call: str) -> None:
    kind, values = ALL[call]
    code = f'"""@nni.variable(nni.{call}, name=x)"""\nx = 0\n'
    assert carried_out(code, "dir.train").parameters.space == {f"dir.train/x/{kind}": {"_type": kind, "_value": values}}
    for value in values:
        names, nni = run(code, {f"dir.train/x/{kind}": value}, "dir.train")
        assert names["x"] == value
        assert type(names["x"]) is type(value)
        assert nni.asked == 1


def test_a_variable_may_be_assigned_with_a_type() -> None:
    names, _ = run('"""@nni.variable(nni.choice(1, 2), name=x)"""\nx: int = 0\n', {"trial/x/choice": 2})
    assert names["x"] == 2


def test_parameters_are_asked_for_once_whatever_is_read_first() -> None:
    code = '''
"""@nni.variable(nni.choice(1, 2), name=x)"""
x = 0
for step in range(3):
    """@nni.variable(nni.uniform(0, 1), name=rate)"""
    rate = 0.5
    """@nni.report_intermediate_result(rate * step)"""
"""@nni.report_final_result({'default': x, 'other': rate})"""
'''
    _, nni = run(code, {"trial/x/choice": 2, "trial/rate/uniform": 0.25})
    assert nni.asked == 1
    assert nni.reports == [("intermediate", 0.0), ("intermediate", 0.25), ("intermediate", 0.5),
                           ("final", {"default": 2, "other": 0.25})]


def test_the_next_parameters_hold_after_they_were_asked_for() -> None:
    code = '''
"""@nni.get_next_parameter()"""
"""@nni.report_final_result(1)"""
'''
    _, nni = run(code, {"trial/x/choice": 2})
    assert (nni.asked, nni.reports) == (1, [("final", 1)])


def test_attributes_entries_and_several_names_at_once_are_variables() -> None:
    code = '''
class Net:
    def __init__(self):
        """@nni.variable(nni.choice(2, 3), name=self.size)"""
        self.size = 1
net, options = Net(), {}
"""@nni.variable(nni.choice(4, 5), name=options["depth"])"""
options['depth'] = 1
"""@nni.variable(nni.choice((1, 2), (3, 4)), name=(a, b))"""
a, b = 0, 0
'''
    space = carried_out(code).parameters.space
    assert list(space) == ["trial/self.size/choice", "trial/options['depth']/choice", "trial/(a, b)/choice"]
    names, _ = run(code, {"trial/self.size/choice": 3, "trial/options['depth']/choice": 5,
                          "trial/(a, b)/choice": "(3, 4)"})
    assert (names["net"].size, names["options"], names["a"], names["b"]) == (3, {"depth": 5}, 3, 4)


def test_an_option_that_is_no_literal_is_called_by_its_text_and_is_that_value() -> None:
    code = '"""@nni.variable(nni.choice(max, 5*6, -1, {1:2}, [1,2], not x, "5*6"), name=x)"""\nx = 0\n'
    options = carried_out(code).parameters.space["trial/x/choice"]["_value"]
    assert options == ["max", "(5 * 6)", "(-1)", "{(1): 2}", "[1, 2]", "(not x)", "5*6"]
    values = [run(code, {"trial/x/choice": option}, x=0)[0]["x"] for option in options]
    assert values == [max, 30, -1, {1: 2}, [1, 2], True, "5*6"]


def test_only_the_chosen_function_is_called_with_its_own_arguments() -> None:
    code = '''
def call(name, *given):
    called.append(name)
    return name, given
def first(*given): return call("first", *given)
def second(*given, scale=1): return call("second", *given, scale)
data, called = [1, 2], []
"""@nni.function_choice(first(data), second(data, 3, scale=2), 7, name=first)"""
found = [first(data), 0]
'''
    key = "trial/first/function_choice"
    assert carried_out(code).parameters.space == {
        key: {"_type": "choice", "_value": ["first(data)", "second(data, 3, scale=2)", 7]}}
    names, _ = run(code, {key: "second(data, 3, scale=2)"})
    assert (names["found"], names["called"]) == ([("second", ([1, 2], 3, 2)), 0], ["second"])
    assert run(code, {key: "first(data)"})[0]["called"] == ["first"]
    assert run(code, {key: 7})[0]["found"] == [7, 0]


def test_a_function_is_chosen_where_it_stands() -> None:
    """``super()``, names of a class, comprehensions and ``await`` mean there what they mean without the annotation."""
    code = '''
import asyncio
class Base:
    def size(self): return 1
    def other(self): return 2
class Net(Base):
    width = 3
    """@nni.function_choice(int(width), str(width), name=int)"""
    kind = int(width)
    def size(self):
        """@nni.function_choice(super().size(), super().other(), name=size)"""
        return super().size()
async def one(): return 1
async def two(): return 2
async def main():
    """@nni.function_choice(one(), two(), name=one)"""
    return await one()
size, kind, awaited = Net().size(), Net.kind, asyncio.run(main())
'''
    names, _ = run(code, {"trial/size/function_choice": "super().other()", "trial/int/function_choice": "str(width)",
                          "trial/one/function_choice": "two()"})
    assert (names["size"], names["kind"], names["awaited"]) == (2, "3", 2)


def test_calls_with_other_arguments_and_those_within_others_stay() -> None:
    code = '''
def f(x): return ("f", x)
def g(x): return ("g", x)
"""@nni.function_choice(f(1), g(1), name=f)"""
found = [f(1), f(2), g(f(1))]
'''
    assert run(code, {"trial/f/function_choice": "g(1)"})[0]["found"] == [("g", 1), ("f", 2), ("g", ("f", 1))]


def test_a_function_in_the_head_of_a_block_is_chosen_and_the_block_has_annotations_of_its_own() -> None:
    code = '''
def yes(): return True
def no(): return False
x = 0
"""@nni.function_choice(yes(), no(), name=yes)"""
if yes():
    """@nni.variable(nni.choice(1, 2), name=x)"""
    x = 1
'''
    assert run(code, {"trial/yes/function_choice": "yes()", "trial/x/choice": 2})[0]["x"] == 2
    assert run(code, {"trial/yes/function_choice": "no()", "trial/x/choice": 2})[0]["x"] == 0


def test_a_function_is_chosen_in_the_whole_statement_after_its_annotation() -> None:
    code = '''
from contextlib import nullcontext
def f(x): return ("f", x)
def g(x): return ("g", x)
"""@nni.function_choice(f(1), g(1), name=f)"""
with nullcontext(f(1)) as inner, f(1) and nullcontext():
    found = [f(1), f(2)]
    if inner is None:
        pass
    else:
        other = f(1)
"""@nni.function_choice(f(1), g(1), name=f)"""
def later(default=f(1)):
    return default, f(1)
called, after = later(), f(1)
'''
    names = run(code, {"trial/f/function_choice": "g(1)"})[0]
    assert (names["inner"], names["found"], names["other"]) == (("f", 1), [("g", 1), ("f", 2)], ("g", 1))
    assert (names["called"], names["after"]) == ((("g", 1), ("g", 1)), ("f", 1))


def test_a_statement_in_the_block_with_an_annotation_of_its_own_keeps_it() -> None:
    code = '''
def f(x): return ("f", x)
def g(x): return ("g", x)
"""@nni.function_choice(f(1), g(1), name=f)"""
for _ in range(1):
    first = f(1)
    """@nni.function_choice(f(1), str(1), name=h)"""
    second = f(1)
    """@nni.variable(nni.choice(1, 2), name=third)"""
    third = f(1)
    """@nni.report_final_result(0)"""
    fourth = nni.choice({1: f(1)}, name="x") if False else f(1)
'''
    names = run(code, {"trial/f/function_choice": "g(1)", "trial/h/function_choice": "str(1)",
                       "trial/third/choice": 2})[0]
    assert [names[name] for name in ("first", "second", "third", "fourth")] == [("g", 1), "1", 2, ("g", 1)]


def test_one_parameter_stands_behind_the_same_annotation_in_two_places() -> None:
    code = "".join('"""@nni.variable(nni.choice(1, 2), name=x)"""\nx = 0\n' + f"found{place} = x\n" for place in (1, 2))
    assert len(carried_out(code).parameters.space) == 1
    names, _ = run(code, {"trial/x/choice": 2})
    assert (names["found1"], names["found2"]) == (2, 2)


def test_an_option_may_be_drawn_itself() -> None:
    code = '"""@nni.variable(nni.choice(nni.uniform(0, 1), 5), name=x)"""\nx = 0\n'
    assert carried_out(code).parameters.space == {
        "trial/__line1/uniform": {"_type": "uniform", "_value": [0, 1]},
        "trial/x/choice": {"_type": "choice", "_value": ["nni.uniform(0, 1)", 5]}}
    given = {"trial/__line1/uniform": 0.25, "trial/x/choice": "nni.uniform(0, 1)"}
    assert run(code, given)[0]["x"] == 0.25
    assert run(code, {**given, "trial/x/choice": 5})[0]["x"] == 5


def test_a_value_that_is_no_option_is_named_in_the_error() -> None:
    for code, key in (('"""@nni.variable(nni.choice(1, 2), name=x)"""\nx = 0\n', "trial/x/choice"),
                      ('"""@nni.function_choice(f(), g(), name=f)"""\nf()\n', "trial/f/function_choice")):
        with pytest.raises(KeyError, match="neither"):
            run(code, {key: "neither"})


def test_names_of_the_file_are_not_in_the_way() -> None:
    code = '''
nni = get_current_parameter = None
def f():
    """@nni.variable(nni.choice(1, 2), name=x)"""
    x = 0
    """@nni.report_final_result(x)"""
    nni = 5
    return nni
found = f()
'''
    names, nni = run(code, {"trial/x/choice": 2})
    assert (nni.reports, names["found"], names["nni"]) == ([("final", 2)], 5, None)


def test_what_only_looks_like_an_annotation_stays_as_it_is() -> None:
    for code in ('"""A docstring about @nni.variable(nni.choice(1), name=x)."""\nx = 1\n',
                 '""" @nni.variable(nni.choice(1, 2), name=x)"""\nx = 1\n', '# """@nni.report_final_result(1)"""\n',
                 'x = "@nni.report_final_result(1)"\n', 'f"@nni.report_final_result({1})"\n',
                 'b"@nni.report_final_result(1)"\n', "import nni\n@nni.trace\ndef f(): pass\n",
                 "import nni\nnni.report_final_result(nni.get_next_parameter()['x'])\n"):
        found = carried_out(code)
        assert (found.source, found.parameters.space) == (None, {})


def test_a_file_that_begins_with_future_imports_and_a_docstring_still_does() -> None:
    code = '"""What it is for."""\nfrom __future__ import annotations\n' \
           '"""@nni.variable(nni.choice(1, 2), name=x)"""\nx = 0\ndef f(a: Unknown): pass\n'
    names, _ = run(code, {"trial/x/choice": 2})
    assert (names["__doc__"], names["x"]) == ("What it is for.", 2)


def test_calls_by_hand_in_the_form_that_nni_makes_of_annotations_are_parameters() -> None:
    code = '''import nni
def double(x): return 2 * x
def half(x): return x / 2
a = nni.choice({'double': double, 'half': half})(8)
b = nni.choice({2: 2, '(5 * 6)': 5 * 6}, name='b')
c = nni.function_choice({'one':
                             lambda: double(1),
                         'two': lambda: half(2)})
d = nni.qlognormal(1.2, 3,
                   4.5)
nni.report_final_result(nni.uniform(-1, 1, name='e'))
'''
    assert carried_out(code).parameters.space == {
        "trial/__line4/choice": {"_type": "choice", "_value": ["double", "half"]},
        "trial/b/choice": {"_type": "choice", "_value": [2, "(5 * 6)"]},
        "trial/__line6/function_choice": {"_type": "choice", "_value": ["one", "two"]},
        "trial/__line10/qlognormal": {"_type": "qlognormal", "_value": [1.2, 3, 4.5]},
        "trial/e/uniform": {"_type": "uniform", "_value": [-1, 1]}}
    names, nni = run(code, {"trial/__line4/choice": "half", "trial/b/choice": "(5 * 6)", "trial/e/uniform": 0.5,
                            "trial/__line6/function_choice": "two", "trial/__line10/qlognormal": 9.0})
    assert (names["a"], names["b"], names["c"], names["d"], nni.reports) == (4, 30, 1, 9.0, [("final", 0.5)])


def test_calls_by_hand_may_stand_within_each_other_and_beside_annotations() -> None:
    code = '''import nni
def f(x): return ("f", x)
def g(x): return ("g", x)
a = nni.choice({"deep": nni.choice({1: 10, 2: 20}, name="in"), "flat": 0}, name="out")
"""@nni.function_choice(f(1), g(1), name=f)"""
b = [f(1), nni.choice({3: 30}, name="beside")]
'''
    names, _ = run(code, {"trial/in/choice": 2, "trial/out/choice": "deep", "trial/f/function_choice": "g(1)",
                          "trial/beside/choice": 3})
    assert (names["a"], names["b"]) == (20, [("g", 1), 30])
