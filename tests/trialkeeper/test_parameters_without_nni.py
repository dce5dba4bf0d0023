"""Parameters of a trial that does not import `nni`: in its command, in variables, in a file."""

import json
import math
import shlex
import subprocess
import time

import pytest

from trialkeeper.command_template import MOST_IN_QUOTES, fill
from trialkeeper.trial_parameters import as_overrides, flat, parameter_variables, parameters_in

#: Prints its arguments, and a NUL behind each.
SHOW = r"""show() { for word; do printf '%s\0' "$word"; done; }; show"""
WEIRD = """it's "a" $(touch broken) `touch broken` \\ ${HOME} *;#\n{lr} é"""
NESTED = {"lr": 0.1, "model": {"_name": "forest", "trees": 100, "split": {"_name": "best"}}, "sizes": [1, 2]}


def words(command, parameters, possible=()):
    """What the program is given when bash runs the command with the parameters in it."""
    done = subprocess.run(["/bin/bash", "-c", fill(command, parameters, possible)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\0")[:-1]


@pytest.mark.parametrize("written", ["{lr}", "'{lr}'", '"{lr}"', "--a={lr}", "--a='{lr}'", '--a="x {lr} y"',
                                     '"$(printf %s {lr})"', "\"$(printf %s '{lr}')\"", '"$(printf %s "{lr}")"'])
@pytest.mark.parametrize("value", ["plain", "two words", "", "-1", "it's", '"', WEIRD])
def test_a_value_is_one_word_whatever_is_in_it_and_around_it(written, value, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if "$(" in written:
        value = value.rstrip("\n")
    prefix, suffix = ("--a=" if "--a" in written else ""), ""
    if written.endswith(' y"'):
        prefix, suffix = "--a=x ", " y"
    expected = [prefix + value + suffix] if value or prefix or written != "{lr}" else [""]
    assert words(f"{SHOW} {written}", {"lr": value}) == expected
    assert not (tmp_path / "broken").exists()


@pytest.mark.parametrize("command", [
    "echo ${lr} ${lr:-1} $lr", "echo {lr,x} {1..3} {other} {}", "awk '{print $1}' {\\lr}", "echo \\{lr\\}",
    "find . -exec ls {} \\;", '{ echo "a"; }', "f() { echo x; }; f", "echo `echo {lr}`", "echo $'{lr}\\n'",
    "cat <<EOF\n{lr}\nEOF\necho {lr}", "", "{", "'{"])
def test_all_other_braces_keep_their_meaning(command):
    assert fill(command, {"lr": "a b"}) == command


@pytest.mark.parametrize(("command", "filled"), [
    ("{" * 130_000 + "}{x}", "{" * 130_000 + "}1"), ("(" * 60_000 + "{" * 60_000 + "{x}", None),
    ("(" * 60_000 + "<<" * 30_000 + "{x}", None), ("\"$(" * 40_000 + "{x}", None), ("`" * 130_001 + "{x}", None)])
def test_a_long_command_is_read_in_one_pass(command, filled):
    began = time.process_time()
    assert fill(command, {"x": 1}) == (filled or command)
    assert time.process_time() - began < 5


@pytest.mark.parametrize("command", [
    'echo "${NOPE:-"{x}"}"', "echo ${NOPE:-'}'} {x}", "echo \"${NOPE:-'}'}\" {x}",
    'y="$(case a in a) echo {x};; esac)"', 'y="$(echo "$(cat <<EOF\n{x}\nEOF\n)")"',
    "(\n(\ncat <<EOF\n{x}\nEOF\n)\n)", "echo $(( {x} + 1 ))",
    'echo "$(( 2 * ({x} + 1) ))"', "(( y = '{x}' ))", "echo $[ {x} + 1 ]",
    "for ((i = 0; i < {x}; i++)); do break; done",
    "echo \\ #'\n{x}\n'"])
def test_the_shell_runs_nothing_of_a_value_in_any_construct(command, tmp_path):
    for value in ("$(touch broken)", "a[$(touch broken)]", "'$(touch broken)'", "\"$(touch broken)\""):
        subprocess.run(["/bin/bash", "-c", fill(command, {"x": value})], cwd=tmp_path, capture_output=True, check=False)
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("value", "result"), [(7, "15"), ("7", "15"), (-7, "-13")])
def test_numbers_stand_in_arithmetic(value, result):
    assert words(f"{SHOW} $(( 2 * {{x}} + 1 )) \"$(( (2 * {{x}}) + 1 ))\"", {"x": value}) == [result, result]


def test_the_default_of_a_variable_and_a_subshell_do_not_change_what_follows():
    assert words(f"{SHOW} ${{NOPE:-'it is'}} {{x}} \"$(case a in a) ;; esac; (echo b))\"", {"x": "a b"}) == [
        "it is", "a b", "b"]


def test_doubled_braces_stand_for_the_name_in_braces():
    assert fill("echo {{lr}} {lr} {{other}} '{{args}}'", {"lr": 1}) == "echo {lr} 1 {{other}} '{args}'"


def test_a_comment_and_a_here_string_do_not_change_what_follows():
    assert fill("cat <<< {x} # don't\necho {x}", {"x": "a b"}) == "cat <<< 'a b' # don't\necho 'a b'"
    assert fill("echo $((1<<2)) {x}\necho {x}", {"x": "a b"}) == "echo $((1<<2)) 'a b'\necho 'a b'"


def test_all_parameters_are_arguments_with_nested_ones_under_names_with_dots():
    assert words(f"{SHOW} {{args}}", flat(NESTED)) == [
        "--lr=0.1", "--model=forest", "--model.trees=100", "--model.split=best", "--sizes=[1, 2]"]
    assert words(f"{SHOW} {{args}}", {"a": WEIRD, "b c": None, "c": True}) == [f"--a={WEIRD}", "--b c=null", "--c=true"]
    assert words(f"{SHOW} {{args}}", {}) == []


def test_a_parameter_named_args_hides_the_word():
    assert words(f"{SHOW} {{args}}", {"args": "x y"}) == ["x y"]


@pytest.mark.parametrize("quotes", ["'", '"'])
def test_within_quotes_all_parameters_are_text_for_a_further_shell(quotes):
    inner = 'printf "%s\\0" {args}' if quotes == "'" else "printf '%s\\0' {args}"
    assert words(f"bash -c {quotes}{inner}{quotes}", {"a": WEIRD, "b": 1}) == [f"--a={WEIRD}", "--b=1"]


@pytest.mark.parametrize("command", [
    """bash -c 'bash -c "show {args}"'""", """bash -c "bash -c 'show {args}'" """,
    r"""bash -c "bash -c \"show {args}\"" """, r"""bash -c "bash -c \"bash -c 'show {args}'\"" """,
    """bash -c "echo 'one' | bash -c 'show {args}'" """])
def test_shells_within_shells_give_the_same_words(command):
    show = SHOW.rpartition(";")[0] + "; export -f show; "
    assert words(show + command, {"a": WEIRD, "b": 1, "c": "it's"}) == [f"--a={WEIRD}", "--b=1", "--c=it's"]


@pytest.mark.parametrize("command", ["bash -c 'echo `echo {args}`'", "bash -c 'echo $(( {args} ))'",
                                     "bash -c \"cat <<EOF\n{args}\nEOF\""])
def test_where_a_shell_within_has_no_words_nothing_is_put_in(command):
    assert fill(command, {"a": 1}) == command


def test_many_places_in_long_quotes_are_read_in_bounded_time():
    began = time.process_time()
    assert fill(f"bash -c '{'{args} ' * 20_000}'", {"a": 1}).count("--a=1") == MOST_IN_QUOTES
    assert time.process_time() - began < 5


def test_a_name_that_another_option_has_is_empty():
    assert words(f"{SHOW} --a={{model.depth}} {{model}}", flat(NESTED), ["model.depth"]) == ["--a=", "forest"]


def test_overrides_of_hydra_are_in_its_grammar():
    assert as_overrides({"lr": 1e-05, "model": "forest", "model.trees": 100, "on": True, "no": None, "nan": math.nan,
                         "word": "true", "text": "it's a, b", "end": "\\", "dollar": "${x}",
                         "list": [1, "a b", {"k": "v"}], "empty": ""}) == [
        "lr=1e-05", "model=forest", "model.trees=100", "on=true", "no=null", "nan=nan", "word='true'",
        r"text='it\'s a, b'", r"end='\\'", r"dollar='\${x}'", "list=[1,'a b',{k:v}]", "empty=''"]


def test_variables_have_the_names_in_capitals():
    assert parameter_variables({"lr": 0.1, "model.trees": 3, "b-c": "x"}) == {
        "NNI_PARAM_LR": "0.1", "NNI_PARAM_MODEL_TREES": "3", "NNI_PARAM_B_C": "x"}


def test_what_no_variable_can_hold_and_what_two_would_share_is_left_out():
    assert parameter_variables({"a": "\0", "b": "\ud800", "c.d": 1, "c_d": 2, "e": 3}) == {"NNI_PARAM_E": "3"}
    many = parameter_variables({f"p{number}": "x" * 10_000 for number in range(100)})
    assert 5 < len(many) < 20


@pytest.mark.parametrize("text", ["", "[", '{"parameters": [1]}', '{"parameters": null}', "[]", '{"parameters": 3}'])
def test_what_has_no_names_gives_no_parameters(text):
    assert parameters_in(text) == {}


TRIAL = """import json, os, sys
print(json.dumps([sys.argv[1:], {name: value for name, value in os.environ.items() if name.startswith("NNI_PARAM_")},
                  json.load(open(os.environ["NNI_PARAMETERS_FILE"]))]))"""


def test_a_trial_gets_them_from_its_keeper(keeper, server):
    text = json.dumps({"parameter_id": 7, "parameters": {**NESTED, "text": WEIRD}, "parameter_index": 0})
    command = keeper.python_command(TRIAL) + " {model.trees} {other} {hydra}"
    assert keeper.run(command, parameters=[{"index": 0, "text": text}], parameter_names=["other"],
                      variables={"NNI_PARAM_STALE": "x"}) == 0
    flat_ones = {**flat(NESTED), "text": WEIRD}
    arguments, variables, file = json.loads(server.output())
    assert arguments == ["100", "", *as_overrides(flat_ones)]
    assert variables == {"NNI_PARAM_LR": "0.1", "NNI_PARAM_MODEL": "forest", "NNI_PARAM_MODEL_TREES": "100",
                         "NNI_PARAM_MODEL_SPLIT": "best", "NNI_PARAM_SIZES": "[1, 2]", "NNI_PARAM_TEXT": WEIRD}
    assert file == flat_ones


def test_a_value_that_no_program_can_be_given_fails_the_trial_with_a_reason(keeper, server):
    text = json.dumps({"parameter_id": 7, "parameters": {"x": "a\0b"}, "parameter_index": 0})
    assert keeper.run("echo {x}", parameters=[{"index": 0, "text": text}]) != 0
    assert server.ended["reason"] == "not_started"
    assert "NUL" in server.ended["message"]


def test_words_are_the_same_as_those_of_shlex():
    assert shlex.split(fill("python3 t.py {args}", {"a": WEIRD, "b": [1]})) == [
        "python3", "t.py", f"--a={WEIRD}", "--b=[1]"]
