"""Metrics in files with a row for each step: as Lightning's and Keras's CSV loggers write them, and JSON lines."""

import itertools
import json
import os

import pytest

from tests.trialkeeper.keeper_run import wait_until
from trialkeeper.found_files import MOST_FILES, FoundFiles
from trialkeeper.journal import Journal
from trialkeeper.recorder import Recorder
from trialkeeper.script_metrics import script_metrics
from trialkeeper.table_metrics import TableFile

LIGHTNING = "epoch,step,train_loss,val_acc\n0,1,0.9,\n0,1,,0.5\n1,3,0.8,\n1,3,,0.6\n"
KERAS = "epoch,accuracy,loss,val_accuracy\n0,0.1,0.9,0.5\n1,0.2,0.8,0.6\n"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "metrics.csv"


def table_of(path, reached=None):
    return TableFile(lambda: open(path, "rb"), str(path), "file", reached)


def values(table, final=False):
    return [measured.values for measured in table.read(final)]


def losses(*numbers):
    return [{"loss": number} for number in numbers]


def written(path, *rows, columns="step,loss"):
    """In place, as a logger does that opens the file anew."""
    path.write_text("".join(line + "\n" for line in (columns, *rows)))


def test_cells_that_are_no_numbers_are_left_out(path):
    path.write_text('step,loss,word,empty,"a,b"\r\n1,0.5,x,,7\r\n2,nan\r\n3,,,\r\n4,"0.25",x,,\r\n')
    table = table_of(path)
    first, second, third = table.read()
    assert (first.values, first.step) == ({"loss": 0.5, "a,b": 7}, 1)
    assert str(second.values) == "{'loss': nan}"
    assert (third.values, third.step) == ({"loss": 0.25}, 4)


def test_a_byte_order_mark_and_spaces_are_no_part_of_a_column_s_name(path):
    path.write_bytes(b"\xef\xbb\xbfloss, step, acc\r\n0.5, 1, 0.25\r\n")
    assert [(row.values, row.step) for row in table_of(path).read()] == [({"loss": 0.5, "acc": 0.25}, 1)]


def test_a_cell_in_quotes_may_have_line_ends(path):
    table = table_of(path)
    path.write_text('step,note,loss\n0,"one\n')
    assert table.read() == []
    with path.open("a") as stream:
        stream.write('7,8 ""\n",0.5\n1,5" disk,0.25\n2,"x",0.125\n')
    assert [(row.values, row.step) for row in table.read()] == [
        ({"loss": 0.5}, 0), ({"loss": 0.25}, 1), ({"loss": 0.125}, 2)]


def test_quotes_that_are_never_closed_hide_no_rows(path):
    path.write_text('step,note,loss\n0,"one,0.5\n' + "".join(f"{row},x,{row}\n" for row in range(1, 150)))
    assert values(table_of(path), final=True) == losses(*range(1, 150))
    path.write_text('step,note,loss\n0,"one,0.5\n1,x,1\n')
    assert values(table_of(path), final=True) == losses(1)


def test_rows_come_once_as_the_file_grows_also_by_halves_of_a_line(path):
    table = table_of(path)
    assert table.read() == []
    path.write_text("step,loss\n1,0.")
    assert table.read() == []
    with path.open("a") as stream:
        stream.write("5\n2,0.25")
    assert values(table) == losses(0.5)
    assert values(table) == []
    assert values(table, final=True) == losses(0.25)


def test_a_file_that_is_written_anew_with_a_further_column_has_the_same_rows(path):
    written(path, "1,0.5", "2,0.25")
    table = table_of(path)
    assert len(values(table)) == 2
    path.write_text("acc,step,loss\n")
    assert values(table) == []  # it is being written
    written(path, ",1,0.5", ",2,0.25", "0.75,3,", columns="acc,step,loss")
    assert values(table) == [{"acc": 0.75}]
    with path.open("a") as stream:
        stream.write("0.8,4,\n")
    assert values(table) == [{"acc": 0.8}]


@pytest.mark.parametrize("shared", [0, 1, 2])
def test_a_file_that_begins_anew_has_other_rows_however_many_are_the_same(path, shared):
    written(path, "1,9", "2,8", "3,7")
    table = table_of(path)
    assert values(table) == losses(9, 8, 7)
    rows = ["1,9", "2,8", "3,7"][:shared] + ["4,6", "5,5", "6,4"]
    written(path, *rows[:1])
    seen = values(table)
    written(path, *rows)
    assert seen + values(table) == losses(9, 8, 7)[:shared] + losses(6, 5, 4)


def test_a_file_that_is_replaced_by_another_is_read_from_its_beginning(path):
    written(path, "1,9", "2,8")
    table = table_of(path)
    assert values(table) == losses(9, 8)
    written(path.with_suffix(".new"), "1,7", "2,8", "3,6")
    os.replace(path.with_suffix(".new"), path)
    assert values(table) == losses(7, 8, 6)


def test_a_shorter_file_with_other_rows_counts_at_the_end(path):
    written(path, "1,9", "2,8")
    table = table_of(path)
    assert values(table) == losses(9, 8)
    written(path, "1,7")
    assert values(table) == losses(7)


def test_a_file_that_was_cut_off_in_the_midst_of_being_written_anew_has_no_new_rows(path):
    written(path, "1,9", "2,8")
    table = table_of(path)
    assert len(values(table)) == 2
    written(path, "1,9")
    assert values(table, final=True) == []


@pytest.mark.parametrize("reached", [0, 1, 2, 3])
def test_a_reader_goes_on_where_the_journal_ends(path, reached):
    written(path, "1,9", "2,8", "3,7")
    positions = [None, *(measured.position for measured in table_of(path).read())]
    positions = json.loads(json.dumps(positions))
    assert values(table_of(path, positions[reached])) == losses(9, 8, 7)[reached:]
    written(path, "1,0.5", "2,0.4")
    assert values(table_of(path, positions[reached]), final=True) == losses(0.5, 0.4)


def test_a_line_without_an_end_does_not_hold_up_the_file(path):
    path.write_text("step,loss\n1,0.5\n" + "x" * 600_000 + "\n2,0.25\n")
    table, found = table_of(path), []
    while (read := values(table)) or table.has_more:
        found += read
    assert found == losses(0.5, 0.25)


def test_json_lines_are_read_too(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1, "loss": 0.5}\nnot json\n{"step": 2, "loss": 0.25}\n')
    table = table_of(path)
    assert [(measured.step, measured.values) for measured in table.read()] == [(1, {"loss": 0.5}), (2, {"loss": 0.25})]


# --- where files are found ----------------------------------------------------------------------


def test_files_are_found_when_they_appear_each_once_and_not_too_many(tmp_path):
    now, log = [0.0], []
    found = FoundFiles(str(tmp_path), ["**/*.csv"], lambda name, opened: name, lambda: now[0], log.append)
    assert found.new() == []
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "a.csv").touch()
    assert found.new() == []  # it was looked a moment ago
    now[0] = 2.0
    assert found.new() == ["logs/a.csv"]
    for number in range(MOST_FILES + 5):
        (tmp_path / f"{number:03}.csv").touch()
    assert len(found.new(final=True)) == MOST_FILES - 1
    found.new(final=True)
    assert len(log) == 1


def test_a_link_out_of_the_folder_is_not_read(tmp_path):
    (tmp_path / "outside.csv").touch()
    (tmp_path / "output").mkdir()
    (tmp_path / "output" / "inside.csv").symlink_to(tmp_path / "outside.csv")
    assert FoundFiles(str(tmp_path / "output"), ["*.csv"], lambda name, opened: name, lambda: 0.0, print
                      ).new() == []


def test_a_file_that_becomes_a_link_or_a_pipe_is_not_opened(tmp_path):
    output, outside = tmp_path / "output", tmp_path / "outside.csv"
    output.mkdir()
    written(outside, "1,5")
    written(output / "a.csv", "1,9")
    [table] = FoundFiles(str(output), ["*.csv"], lambda name, opened: TableFile(opened, name, "file", None),
                         lambda: 0.0, print).new()
    assert values(table) == losses(9)
    (output / "a.csv").unlink()
    (output / "a.csv").symlink_to(outside)
    assert values(table) == []
    (output / "a.csv").unlink()
    os.mkfifo(output / "a.csv")
    assert values(table) == []


# --- a trial ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "result", "expected"), [
    (LIGHTNING, "val_acc", [{"default": 0.5, "train_loss": 0.9}, {"default": 0.6, "train_loss": 0.8}]),
    (KERAS, "val_accuracy", [{"default": 0.5, "accuracy": 0.1, "loss": 0.9},
                             {"default": 0.6, "accuracy": 0.2, "loss": 0.8}])])
def test_the_files_of_loggers_become_results(keeper, server, text, result, expected):
    folder = "$NNI_OUTPUT_DIR/logs/version_0"
    command = f"mkdir -p {folder}; printf {json.dumps(text)} > {folder}/metrics.csv"
    assert keeper.run(command, metrics={"files": ["**/metrics.csv"], "result": result}) == 0
    assert [json.loads(value) for value in server.values()] == [*expected, expected[-1]]


def test_nothing_is_lost_or_doubled_when_the_keeper_is_killed(keeper, server):
    """The trial ends after a step: one that is killed while it writes its file anew leaves none."""
    code = ("import os, signal, time\npath = os.environ['NNI_OUTPUT_DIR'] + '/log.csv'\nrows = ['step,loss\\n']\n"
            "told = []\nsignal.signal(signal.SIGTERM, lambda *_: told.append(1))\n"
            "for step in range(100000):\n    if told:\n        break\n    rows.append('%d,%d\\n' % (step, step))\n"
            "    if step % 50 == 7:\n        open(path, 'w').write(''.join(rows))\n"
            "    else:\n        open(path, 'a').write(''.join(rows) if not os.path.exists(path) else rows[-1])\n"
            "    time.sleep(0.002)")
    keeper.limits["grace_period"] = 60.0
    process = keeper.start(keeper.python_command(code), metrics={"files": ["*.csv"], "result": "loss"})
    server.wait_for(lambda: len(server.values()) > 100)
    process.kill()
    process.wait()
    path = keeper.folder / "nni" / "log.csv"
    rows = len(path.read_text().splitlines())
    wait_until(lambda: len(path.read_text().splitlines()) > rows + 20, what="a trial that goes on")
    keeper.run()
    whole = [line for line in path.read_text().splitlines(keepends=True)[1:] if line.endswith("\n")]
    reported = [json.loads(value) for value in server.values()]
    assert reported[:len(whole)] == list(range(len(whole)))
    assert len(reported) - len(whole) in (0, 1)


def test_values_that_wait_for_their_step_are_not_in_the_journal_and_come_again(tmp_path):
    output = tmp_path / "nni"
    output.mkdir()
    (output / "log.csv").write_text("step,loss,acc\n1,9,1\n2,8,\n")
    job = {"metrics": {"files": ["log.csv"], "result": "loss"}}
    for expected in (['{"default": 9.0, "acc": 1.0}'], []):
        journal = Journal(str(tmp_path / "journal.jsonl"))
        script = script_metrics(job, str(tmp_path), journal, lambda: 0.0, print)
        entries = script.read()
        assert [entry["value"] for entry in entries] == expected
        journal.append([{**entry, "at": 1.0} for entry in entries])
        journal.close()
    script = script_metrics(job, str(tmp_path), Journal(str(tmp_path / "journal.jsonl")), lambda: 0.0, print)
    assert [entry["value"] for entry in script.read(final=True)] == ['{"default": 8.0, "acc": 1.0}']


@pytest.mark.parametrize("is_stopped", [False, True])
def test_a_huge_file_is_not_read_for_ever_after_the_end(is_stopped, tmp_path):
    output = tmp_path / "nni"
    output.mkdir()
    with (output / "log.csv").open("w") as stream:
        stream.write("step,loss\n1,9\n2,8\n")
        stream.truncate(1 << 40)
    seconds = itertools.count(0, 1 if is_stopped else 60)
    journal = Journal(str(tmp_path / "journal.jsonl"))
    script = script_metrics({"metrics": {"files": ["log.csv"], "result": "loss"}}, str(tmp_path), journal,
                            lambda: next(seconds), print)
    recorder = Recorder(str(tmp_path), journal, {}, now=lambda: 1.0, clock=lambda: next(seconds), log=print,
                        notify=lambda entries: None, script=script)
    recorder.drain(lambda: is_stopped)
    assert recorder.conclude_metrics(has_ended_well=True) == [
        {"problem": "not_read_in_time", "detail": "file log.csv"}]
    assert next(seconds) < 1500
