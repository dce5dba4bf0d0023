"""The journal's file, the metrics file and marked lines, byte by byte."""

import itertools
import json
import os
import time

import pytest

from trialkeeper import contract
from trialkeeper.journal import Journal, read_entries, read_summary
from trialkeeper.metric_source import MARK, MarkedLines, MetricsFile
from trialkeeper.output_files import OutputFile
from trialkeeper.recorder import Recorder
from trialkeeper.reporter import LONGEST_PAUSE, SHORTEST_PAUSE, pause_after


def metric(value, n=0, **more):
    return json.dumps({"parameter_id": 1, "trial_job_id": "t", "type": "PERIODICAL", "sequence": n, "value": value,
                       **more}).encode()


def frame(text):
    return b"ME%06d" % (len(text) + 1) + text + b"\n"


def entry(value, position=0):
    return {"type": "metric", "at": 1.0, "kind": "PERIODICAL", "parameter_id": 1, "sequence": 0, "value": value,
            "position": ["metrics", position]}


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "journal.jsonl")


def test_a_journal_is_numbered_and_says_on_which_position_to_go_on(path):
    first = Journal(path)
    first.append([{"type": "started", "at": 1.0}, entry('", "position": [', 40), entry("b", 80)])
    first.close()
    second = Journal(path)
    assert (second.journal_id, second.last_n, second.opened_at) == (first.journal_id, 3, 3)
    assert second.positions == {"metrics": 80}
    sent = [json.loads(line) for line in second.lines(1, 9, 10**6)]
    assert [line["n"] for line in sent] == [1, 2, 3]
    assert sent[1]["value"] == '", "position": ['
    assert all("position" not in line for line in sent)
    assert read_entries(path, after=1) == (first.journal_id, sent[1:])


@pytest.mark.parametrize("rest", [b'{"n": 3, "at": 1.0, "ty', b"\0" * 512, b"\0" * 511 + b"\n", b"{broken\n"])
def test_half_a_line_at_the_end_is_cut_off(path, rest):
    journal = Journal(path)
    journal.append([entry("a"), entry("b")])
    with open(path, "ab") as stream:
        stream.write(rest)
    again = Journal(path)
    assert again.last_n == 2
    again.append([entry("c")])
    assert [each["value"] for each in read_entries(path)[1]] == ["a", "b", "c"]


def test_batches_hold_at_least_one_entry_and_otherwise_what_fits(path):
    journal = Journal(path)
    journal.append([entry("x" * 1000) for _ in range(10)])
    assert len(journal.lines(1, 10, 10)) == 1
    assert len(journal.lines(1, 10, 3500)) == 3
    assert len(journal.lines(1, 2, 10**6)) == 2
    assert len(journal.lines(8, 99, 10**6)) == 3
    assert journal.lines(11, 99, 10**6) == []


def test_the_summary_is_read_from_the_ends_of_the_file(path):
    journal = Journal(path, "jobaaaaaaaaa")
    assert read_summary(path) == (journal.journal_id, 0, False, False, "jobaaaaaaaaa")
    journal.append([{"type": "started", "at": 1.0}, entry("x" * 100_000)])
    assert read_summary(path) == (journal.journal_id, 2, True, False, "jobaaaaaaaaa")
    journal.append([{"type": "ended", "at": 1.0, "message": "y" * 9000}])
    assert read_summary(path) == (journal.journal_id, 3, True, True, "jobaaaaaaaaa")
    with open(path, "ab") as stream:
        stream.write(b'{"n": 4')
    assert read_summary(path).last_n == 3


def test_what_a_power_cut_left_as_zeros_counts_for_nothing_and_hides_nothing(path):
    journal = Journal(path)
    journal.append([{"type": "started", "at": 1.0}, entry("a")])
    with open(path, "ab") as stream:
        stream.write(b"\0" * 4096 + b"\n")
    assert read_summary(path) == (journal.journal_id, 2, True, False, "")
    assert [each["n"] for each in read_entries(path)[1]] == [1, 2]
    with open(path, "r+b") as stream:
        stream.write(b"\0" * 20)
    assert read_summary(path) is None
    assert read_entries(path) == ("", [])
    again = Journal(path)
    assert again.last_n == 0
    assert again.journal_id != journal.journal_id


def test_a_full_disk_loses_nothing_that_was_written_and_writes_no_half_line(path, monkeypatch):
    journal = Journal(path)
    journal.append([entry("a")])
    real_write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: real_write(descriptor, data[:10]))
    with pytest.raises(OSError, match="is the disk full"):
        journal.append([entry("b")])
    monkeypatch.undo()
    journal.append([entry("c")])
    assert [each["value"] for each in read_entries(path)[1]] == ["a", "c"]


def test_frames_are_read_as_they_come_and_half_ones_wait(tmp_path):
    path = tmp_path / "metrics"
    reader = MetricsFile(str(path))
    assert reader.read() == []
    whole = frame(metric("1")) + frame(metric("2", 1)) + frame(metric("3", 2))
    values = []
    for end in range(0, len(whole) + 1, 7):
        path.write_bytes(whole[:end])
        values += [each["value"] for each in reader.read()]
    path.write_bytes(whole)
    values += [each["value"] for each in reader.read()]
    assert values == ["1", "2", "3"]


@pytest.mark.parametrize("garbage", [b"\0" * 200, b"ME00", b"ME000099{ half a frame\n", b"ME000004{x}\n",
                                     b"\nMEMEME\n"])
def test_after_garbage_reading_goes_on_at_the_next_frame(tmp_path, garbage):
    path = tmp_path / "metrics"
    path.write_bytes(frame(metric("1")) + garbage + frame(metric("2")) + frame(metric("3")))
    assert [each["value"] for each in MetricsFile(str(path)).read()] == ["1", "2", "3"]


def test_a_metrics_file_that_was_emptied_is_read_from_its_start(tmp_path):
    path = tmp_path / "metrics"
    path.write_bytes(frame(metric("1")) * 3)
    reader = MetricsFile(str(path))
    assert len(reader.read()) == 3
    path.write_bytes(frame(metric("2")))
    assert [each["value"] for each in reader.read()] == ["2"]


@pytest.mark.parametrize("count", [2, 3])
def test_a_metrics_file_that_took_another_s_place_is_read_from_its_start(tmp_path, count):
    path = tmp_path / "metrics"
    path.write_bytes(frame(metric("1")) * 2)
    reader = MetricsFile(str(path))
    assert len(reader.read()) == 2
    path.unlink()
    path.write_bytes(b"".join(frame(metric(str(number))) for number in range(2, 2 + count)))
    assert [each["value"] for each in reader.read()] == ["2", "3", "4"][:count]
    with path.open("ab") as file:
        file.write(frame(metric("5")))
    assert [each["value"] for each in reader.read()] == ["5"]


def test_a_frame_may_hold_the_header_of_another(tmp_path):
    path = tmp_path / "metrics"
    path.write_bytes(frame(metric("ME000050{")) + frame(metric("2")))
    assert [each["value"] for each in MetricsFile(str(path)).read()] == ["ME000050{", "2"]


def sort_out(text, step):
    lines = MarkedLines()
    for at in range(0, len(text), step):
        lines.feed(text[at:at + step])
    lines.feed(b"", final=True)
    for run in lines.plain:
        assert text[run.offset:run.offset + len(run.data)] == run.data
    return b"".join(run.data for run in lines.plain), [each["value"] for each in lines.metrics]


@pytest.mark.parametrize("step", [1, 7, 10**6])
def test_marked_lines_are_taken_out_wherever_they_stand(step):
    first, second = MARK + metric("it's") + b"'", MARK + metric("2") + b"'"
    text = (b"plain\n" + first + b"\nbefore " + second + b" after\n" + first + second + b"\n"
            + MARK + b"broken\nNNISDK_MEx\nlast NNISDK_ME")
    plain, values = sort_out(text, step)
    assert plain == b"plain\nbefore  after\n" + MARK + b"broken\nNNISDK_MEx\nlast NNISDK_ME"
    assert values == ["it's", "2", "it's", "2"]


def test_many_marks_and_headers_of_no_metric_take_no_longer_than_other_text(tmp_path):
    path = tmp_path / "metrics"
    path.write_bytes(b"ME400000{" * 20_000 + b"\xff" * 400_000 + frame(metric("1")))
    lines = MarkedLines()
    began = time.process_time()
    lines.feed(MARK * 20_000 + b"\n" + MARK + metric("1") + b"'\n")
    values = [entry["value"] for entry in lines.metrics + MetricsFile(str(path)).read()]
    assert time.process_time() - began < 5
    assert values == ["1", "1"]
    assert sum(len(text.data) for text in lines.plain) == len(MARK) * 20_000 + 1


def test_a_metric_over_the_limit_becomes_a_marker_and_blocks_nothing():
    lines = MarkedLines()
    text = MARK + metric("x" * 3_000_000, 5) + b"'\nplain\n" + MARK + metric("1") + b"'\n"
    for at in range(0, len(text), 100_000):
        lines.feed(text[at:at + 100_000])
    marker, next_one = lines.metrics
    assert (marker["kind"], marker["sequence"], marker["parameter_id"], marker["value"]) == ("PERIODICAL", 5, 1, None)
    assert "must have fewer than 1000000" in marker["omitted"]
    assert next_one["value"] == "1"
    assert [run.data for run in lines.plain] == [b"plain\n"]


def test_output_pieces_come_at_most_once_a_second_unless_they_are_full(tmp_path, path):
    clock = [100.0]
    file = tmp_path / "stdout"
    output = OutputFile(str(file), "stdout", {}, Journal(path), lambda: clock[0])
    file.write_bytes(b"a")
    assert [piece["data"] for piece in output.look()] == ["a"]
    file.write_bytes(b"ab")
    assert output.look() == []
    clock[0] += 1
    assert [(piece["offset"], piece["data"]) for piece in output.look()] == [(1, "b")]
    file.write_bytes(b"ab" + b"c" * 70_000)
    pieces = output.look()
    assert [len(piece["data"]) for piece in pieces] == [contract.MAX_OUTPUT_PIECE_BYTES, 70_000 - 65_536]


@pytest.mark.parametrize("is_stopped", [False, True])
@pytest.mark.parametrize(("name", "problem"), [
    ("stdout", ["stdout"]), ("stderr", []), ("nni/.nni/metrics", [contract.METRICS_FILE])])
def test_what_the_trial_reported_and_printed_is_not_read_for_ever_after_its_end(
        tmp_path, path, name, problem, is_stopped):
    file = tmp_path / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"first\n")
    os.truncate(file, 1 << 40)
    with file.open("ab") as stream:
        stream.write(b"last\n")
    seconds = itertools.count(0, 1 if is_stopped else 60)
    journal = Journal(path)
    recorder = Recorder(str(tmp_path), journal, {}, now=lambda: 1.0, clock=lambda: next(seconds), log=print,
                        notify=lambda entries: None)
    recorder.drain(lambda: is_stopped)
    assert next(seconds) < 2000
    assert recorder.conclude_metrics(has_ended_well=True) == [
        {"problem": "not_read_in_time", "detail": detail} for detail in problem]
    told = [entry for entry in read_entries(path)[1] if entry["type"] == "output"]
    if name.startswith("std"):
        assert told[0]["data"].startswith("first\n")
        assert told[-1]["data"].endswith("last\n")
        head, tail = (sum(len(entry["data"]) for entry in told if is_head == (entry["offset"] < 1 << 39))
                      for is_head in (True, False))
        assert (head, tail) == (262_144, 262_144)
        assert [entry["skipped"] for entry in told if "skipped" in entry] == [(1 << 40) + 5 - head - tail]


def test_pauses_grow_and_differ():
    longest = [pause_after(failures, lambda: 1.0) for failures in range(12)]
    assert longest == sorted(longest)
    assert (longest[0], longest[-1]) == (SHORTEST_PAUSE, LONGEST_PAUSE)
    assert pause_after(5, lambda: 0.0) < pause_after(5, lambda: 0.9)
    assert min(pause_after(failures, lambda: 0.0) for failures in range(12)) >= SHORTEST_PAUSE
