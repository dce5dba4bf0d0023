"""Metrics that the keeper finds in the lines that a script prints."""

import json
import os
import random
import signal
import sys
import time

import pytest

from tests.trialkeeper.keeper_run import wait_until
from trialkeeper.bounded_pattern import BoundedPattern
from trialkeeper.line_metrics import MOST_BYTES, MOST_CHARACTERS, LineMetrics, Lines, read_json
from trialkeeper.step_groups import PATIENCE, Measured, StepGroups, metrics_in

PATTERN = r"epoch (?P<step>\d+).*acc=(?P<value>\S+)"


def metrics(**fields):
    return {"stdout": PATTERN, "result": "value", **fields}


def told(server):
    """Kinds, sequences and values of what was reported."""
    return [(entry["kind"], entry["sequence"], json.loads(entry["value"])) for entry in server.of_type("metric")]


# --- patterns -----------------------------------------------------------------------------------


@pytest.mark.parametrize("pattern", [r"(?P<value>a+)+$", r"(a|aa)+$", r"(.*)*x$", r"^(([a-z])+.)+[A-Z]([a-z])+$"])
def test_an_expression_that_explodes_is_bounded_and_given_up_after_three_lines(pattern):
    bounded = BoundedPattern(pattern, seconds=0.02)
    bad, good = "a" * 60 + "!", "aaaa"
    began = time.process_time()
    found = bounded.search([good, bad, good, bad, bad, good, bad])
    assert time.process_time() - began < 5
    assert bounded.has_given_up
    matches = bool(bounded._search(good))
    assert [match is not None for match in found[:3]] == [matches, False, matches]
    assert found[5] is None
    assert signal.getitimer(signal.ITIMER_VIRTUAL)[0] == 0


def test_a_line_is_bounded_also_where_the_time_was_up_in_a_destructor(monkeypatch):
    """Python throws away what a destructor raises, and with it the end of the time."""
    thrown_away = []
    monkeypatch.setattr(sys, "unraisablehook", thrown_away.append)

    class Slow:
        def __del__(self):
            began = time.process_time()
            while time.process_time() - began < 0.5:
                pass

    class InTheMidst(list):
        def __getitem__(self, which):
            Slow()  # ends at once
            return super().__getitem__(which)

    bounded = BoundedPattern(r"(a+)+$", seconds=0.05)
    # seconds for each of them without a limit
    assert bounded.search(InTheMidst(["a" * 25 + "!"])) == [None]
    assert len(thrown_away) > 0
    assert bounded.slow_lines == 1
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)


def test_the_many_lines_before_a_line_do_not_cost_it_its_time():
    bounded = BoundedPattern(r"x(?P<value>\d+)", seconds=0.002)
    lines = [f"{'y' * 2000} x{number}" for number in range(2000)]
    assert [match["value"] for match in bounded.search(lines)] == [str(number) for number in range(2000)]
    assert bounded.slow_lines == 0


# --- lines --------------------------------------------------------------------------------------


def test_lines_come_whole_however_the_file_grows(tmp_path):
    text = b"one\ntwo\r\n\rthree\n\xc3\xa4\n" + b"x" * 3 * MOST_BYTES + b"\nfour\n" + b"last"
    path = tmp_path / "stdout"
    path.write_bytes(b"")
    lines, read = Lines(str(path)), []
    chance = random.Random(7)
    at = 0
    while at < len(text):
        step = chance.choice([1, 3, 50_000])
        with open(path, "ab") as stream:
            stream.write(text[at:at + step])
        at += step
        for line, offset in zip(lines.read(), lines.offsets, strict=True):
            assert not line or text[offset - 1 - len(line):offset - 1] == line
            read.append(line)
    read += lines.read(final=True)
    assert [line[:9] for line in read if line] == [b"one", b"two", b"three", b"\xc3\xa4", b"four", b"last"]


def test_a_file_that_was_emptied_is_read_from_its_beginning(tmp_path):
    path = tmp_path / "stdout"
    path.write_text("one\ntwo\n")
    lines = Lines(str(path))
    assert lines.read() == [b"one", b"two"]
    path.write_text("new\n")
    assert lines.read() == [b"new"]


def test_only_the_beginning_of_a_long_line_is_matched(tmp_path):
    path = tmp_path / "stdout"
    path.write_text(f"acc=1\n{'x' * MOST_CHARACTERS}acc=2\nacc=3\nacc=none\n")
    source = LineMetrics(str(path), "lines", r"acc=(?P<value>\S+)", 0, print)
    assert [measured.values["value"] for measured in source.read()] == [1, 3]


def test_a_group_called_name_names_the_metric(tmp_path):
    path = tmp_path / "stdout"
    path.write_text("loss: 0.5 at 3\nacc: nan at 4\n")
    source = LineMetrics(str(path), "lines", r"(?P<name>\w+): (?P<value>\S+) at (?P<step>\d+)", 0, print)
    first, second = source.read()
    assert first == ({"loss": 0.5}, 3.0, 15)
    assert str(second.values) == "{'acc': nan}"


@pytest.mark.parametrize("text", [
    "0.5", "0.5,", "[0.5]", "(0.5)", "tensor(0.5)", "tensor(0.5,", "np.float64(0.5)", "np.float64(0.5),",
    "array([0.5])", ".5%", "'0.5'", "5e-1;", "+0.5.", "\x1b[32m0.5\x1b[0m", "torch.tensor([0.5]),"])
def test_a_number_may_have_around_it_what_programs_print(text, tmp_path):
    path = tmp_path / "stdout"
    path.write_text(f"epoch 1 \x1b[1macc={text} done\n")
    [measured] = LineMetrics(str(path), "lines", PATTERN, 0, print).read()
    assert (measured.values, measured.step) == ({"value": 0.5}, 1)


@pytest.mark.parametrize("text", ["none", "1,234", "0.5/3", "2x", "x2", "0.5s", "1.2.3", "12:30", "--", "tensor()",
                                  "e5", "infinit"])
def test_what_is_no_single_number_is_left_out(text, tmp_path):
    path = tmp_path / "stdout"
    path.write_text(f"epoch 1 acc={text}\n")
    assert LineMetrics(str(path), "lines", PATTERN, 0, print).read() == []


def test_objects_may_have_a_prefix_as_loggers_write_it(tmp_path):
    path = tmp_path / "stdout"
    path.write_text('INFO:root:{"step": 1, "acc": 0.5}\n2024-01-01 | {\'acc\': 0.6, \'step\': 2} \nset {"a"} and {} {\n'
                    'acc {"acc": 0.7} done\n')
    found = LineMetrics(str(path), "lines", "json", 0, print).read()
    assert [(measured.values, measured.step) for measured in found] == [({"acc": 0.5}, 1), ({"acc": 0.6}, 2)]


@pytest.mark.parametrize(("line", "values", "step"), [
    ("{'loss': '0.6931', 'rate': '5e-05', 'epoch': '1.0', 'name': 'x'}", {"loss": 0.6931, "rate": 5e-05}, 1),
    ("{'eval_loss': 0.5, 'epoch': 2.0, 'best': None, 'flag': True}", {"eval_loss": 0.5}, 2),
    ('{"epoch": 1, "val": {"acc": 0.5, "step": 3, "by": {"a": 1}}, "list": [1]}',
     {"val.acc": 0.5, "val.step": 3, "val.by.a": 1}, 1),
    ('{"epoch": 3, "acc": 0.5, "n": 2, "ok": true, "text": "1"}', {"acc": 0.5, "n": 2}, 3),
    ('{"step": 9, "epoch": 3, "acc": 1}', {"acc": 1}, 9),
    ('{"acc": 1e400, "b": 1}', {"acc": float("inf"), "b": 1}, None)])
def test_the_numbers_of_a_json_object_are_metrics(line, values, step):
    assert read_json(line.encode(), 5) == Measured(values, step, 5)


@pytest.mark.parametrize("line", ["{}", "{", '{"a": "b"}', '{"step": 1}',
                                  '{"a": ' * 10_000, '{"a": ' * 8 + "1" + "}" * 8, "{1: 2}", "{'a': [" * 3000,
                                  "{'a': f(1)}", "{'a', 'b'}", "{'a': '" + "1" * 9000 + "'}",
                                  '{"a": 1' + "0" * 400 + "}"])
def test_what_holds_no_number_is_no_metric(line):
    assert read_json(line.encode(), 5) is None


# --- steps --------------------------------------------------------------------------------------


def grouped(*measured):
    groups, complete = StepGroups(), []
    for number, (step, values) in enumerate(measured):
        complete.append([group.values for group in groups.add(Measured(dict(values), step, number), 0.0)])
    return complete, [group.values for group in groups.close()]


def test_what_comes_at_one_step_is_put_together():
    assert grouped((1, {"a": 1}), (1, {"b": 2}), (2, {"a": 3}), (2, {"b": 4}), (3, {"b": 5})) == (
        [[], [], [{"a": 1, "b": 2}], [{"a": 3, "b": 4}], []], [{"b": 5}])


def test_a_metric_that_comes_again_begins_a_group_and_what_has_no_step_is_one():
    assert grouped((0, {"a": 1}), (0, {"a": 2}), (None, {"a": 3, "b": 1})) == (
        [[], [{"a": 1}, {"a": 2}], [{"a": 3, "b": 1}]], [])


def test_a_metric_that_comes_at_some_steps_alone_is_put_to_its_step():
    groups, complete = StepGroups(), []
    for step, values in ((0, {"acc": 1}), (0, {"loss": 2}), (1, {"acc": 3}), (3, {"acc": 4}), (3, {"loss": 5})):
        complete += groups.add(Measured(values, step, None), 0.0)
    complete += groups.close()
    assert [(group.step, group.values) for group in complete] == [
        (0, {"acc": 1, "loss": 2}), (1, {"acc": 3}), (3, {"acc": 4, "loss": 5})]


def test_a_step_waits_a_second_for_more():
    groups = StepGroups()
    groups.add(Measured({"a": 1}, 1, 10), 5.0)
    assert groups.close(5.0 + PATIENCE / 2) == []
    assert groups.close(5.0 + PATIENCE) == [Measured({"a": 1}, 1, 10)]


def test_numbers_that_are_too_large_and_truth_values_are_left_out():
    assert metrics_in({"a": 10 ** 400, "b": True, "c": "1"}, 0) is None


# --- a trial ------------------------------------------------------------------------------------


def test_each_match_is_an_intermediate_result_and_the_last_is_the_final_one(keeper, server):
    command = "for i in 1 2 3; do echo epoch $i loss=9 acc=0.$i; done; echo done; printf 'epoch 4 acc=0.4'"
    assert keeper.run(command, metrics=metrics()) == 0
    assert told(server) == [*(("PERIODICAL", n - 1, n / 10) for n in (1, 2, 3, 4)), ("FINAL", 0, 0.4)]
    assert {entry["parameter_id"] for entry in server.of_type("metric")} == {7}
    assert not any("position" in entry for entry in server.entries)
    assert server.output().startswith("epoch 1 loss=9")


@pytest.mark.parametrize(("greater_is_better", "best"), [(True, 0.9), (False, 0.1)])
def test_the_best_value_is_the_final_one_if_asked_for(keeper, server, greater_is_better, best):
    command = "for a in 0.5 nan 0.9 0.1 0.3; do echo loss=$a acc=$a; done"
    document = {"stdout": r"loss=(?P<loss>\S+) acc=(?P<acc>\S+)", "result": "acc", "main": "accuracy", "final": "best",
                "greater_is_better": greater_is_better}
    assert keeper.run(command, metrics=document) == 0
    assert told(server)[-1] == ("FINAL", 0, {"accuracy": best, "loss": best})
    assert len(told(server)) == 6


def test_at_exit_there_is_one_result(keeper, server):
    command = """echo acc=1; echo '{"acc": 2, "loss": 9}'; echo '{"acc": 3, "loss": 1}'; echo acc=4"""
    assert keeper.run(command, metrics={"stdout": "json", "result": "acc", "final": "at exit"}) == 0
    assert told(server) == [("FINAL", 0, {"default": 3, "loss": 1})]


@pytest.mark.parametrize("end", ["exit 3", "kill -9 $$"])
def test_a_trial_that_failed_has_no_final_result(keeper, server, end):
    keeper.run(f"echo epoch 1 acc=0.5; {end}", metrics=metrics())
    assert told(server) == [("PERIODICAL", 0, 0.5)]


def test_a_final_result_that_the_trial_reports_itself_counts(keeper, server):
    code = "import nni; nni.get_next_parameter(); print('epoch 1 acc=0.5', flush=True); nni.report_final_result(0.75)"
    assert keeper.run(keeper.python_command(code), metrics=metrics()) == 0
    assert sorted(told(server)) == [("FINAL", 0, 0.75), ("PERIODICAL", 0, 0.5)]


def test_a_result_that_was_not_found_is_told_with_what_was(keeper, server):
    document = {"stdout": r"(?P<name>\w+)=(?P<value>\S+)", "result": "acc"}
    assert keeper.run("echo loss=1; echo accuracy=2", metrics=document) == 0
    assert server.ended["metric_problems"] == [{"problem": "no_result", "detail": "loss, accuracy"}]
    assert keeper.read("exit.json")["metric_problems"] == server.ended["metric_problems"]


def test_a_pattern_that_takes_too_long_is_told_and_the_trial_is_ended_on_time(keeper, server):
    document = {"stdout": r"(?P<value>(a+)+)$", "result": "value"}
    line = "a" * 60 + "b"
    assert keeper.run(f"for i in 1 2 3 4 5; do echo {line}; done; exit 3", metrics=document) == 3
    assert server.ended["metric_problems"] == [{"problem": "slow_pattern", "detail": "lines of stdout"}]
    assert server.output().count(line) == 5


def test_megabytes_that_are_printed_at_once_are_all_read(keeper, server):
    code = "for i in range(20000):\n    print('step', i, 'x' * 60, 'acc=%d' % i)"
    document = metrics(stdout=r"step (?P<step>\d+) .*acc=(?P<value>\d+)")
    assert keeper.run(keeper.python_command(code), metrics=document) == 0
    server.wait_for(lambda: len(server.values()) == 20001)
    assert [int(float(value)) for value in server.values()] == [*range(20000), 19999]


def test_a_pattern_that_this_python_does_not_know_ends_no_trial(keeper, server):
    assert keeper.run("echo epoch 1 acc=0.5", metrics=metrics(stdout="(?P<value>")) == 0
    assert told(server) == []
    assert "cannot be used" in keeper.log()
    assert [one["problem"] for one in server.ended["metric_problems"]] == ["unknown_pattern", "no_result"]


def test_nothing_is_lost_or_doubled_when_the_keeper_is_killed_at_any_time(keeper, server):
    """The trial writes on while no keeper reads, and ends when the next one ends what is left."""
    code = ("import time\nfor i in range(100000):\n    print('epoch', i, 'acc=%d' % i, 'loss=%d' % i, flush=True)\n"
            "    time.sleep(0.001)")
    keeper.limits["grace_period"] = 0.2
    process = keeper.start(keeper.python_command(code), metrics={
        "stdout": r"epoch (?P<step>\d+) acc=(?P<acc>\S+) loss=(?P<loss>\S+)", "result": "acc"})
    server.wait_for(lambda: len(server.values()) > 100)
    process.kill()
    process.wait()
    written = (keeper.folder / "stdout").stat().st_size
    wait_until(lambda: (keeper.folder / "stdout").stat().st_size > written + 2000, what="a trial that goes on")
    keeper.run()
    lines = (keeper.folder / "stdout").read_text().splitlines(keepends=True)
    if not lines[-1].endswith("\n"):
        lines.pop()
    reported = [json.loads(value)["default"] for value in server.values()]
    assert reported[:len(lines)] == list(range(len(lines)))
    assert len(reported) - len(lines) in (0, 1)
    assert server.ended["reason"] == "lost"
    assert [entry["sequence"] for entry in server.of_type("metric")] == list(range(len(reported)))


def test_a_best_value_of_before_a_keeper_was_killed_is_known_to_the_next(keeper, server):
    """The keeper dies after it has written how the trial ended, before it has told so."""
    keeper.before = "keeper.Keeper._record_end = lambda self, end: (write(self, end), os.kill(os.getpid(), 9))\n" \
        "import os, json\n" \
        "keeper.Recorder.record_final = lambda self: None\n" \
        "write = lambda self, end: keeper.write_file(self._path('exit.json'), json.dumps(end))"
    assert keeper.run("echo epoch 1 acc=0.9; echo epoch 2 acc=0.2", metrics=metrics(final="best")) == -9
    keeper.before = ""
    assert keeper.run() == 0
    assert told(server)[-1] == ("FINAL", 0, 0.9)
    assert os.path.exists(keeper.folder / "exit.json")
