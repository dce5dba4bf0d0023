"""What algorithms print and log, read from the pipe of the tuner process."""

import json
import logging
from collections.abc import Iterable

import pytest

from nniweb.tuning.process import process_log
from nniweb.tuning.process.process_log import BURST, LONGEST, PER_SECOND, Said, read


def marked(**content: object) -> bytes:
    return f"\x1e{json.dumps(content)}\n".encode()


def texts(pieces: Iterable[bytes]) -> list[tuple[str | None, str]]:
    return [(said.experiment, said.text) for said in read(pieces)]


def test_lines_belong_to_the_experiment_that_was_marked_before_them() -> None:
    assert list(read([b"early\n", marked(experiment="e1"), b"one\n\n", marked(level=30, text="careful\nnow"),
                      marked(experiment="e2"), b"end"])) == [
        Said(None, logging.INFO, "early"), Said("e1", logging.INFO, "one"), Said("e1", 30, "careful\nnow"),
        Said("e2", logging.INFO, "end")]


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_it_is_all_the_same_where_pieces_end(size: int) -> None:
    whole = b"begun" + marked(experiment="e1") + "\u2603 snow\n".encode() + marked(level=20, text="x") + b"\x1enone\n"
    pieces = [whole[at:at + size] for at in range(0, len(whole), size)]
    assert texts(pieces) == [(None, "begun"), ("e1", "\u2603 snow"), ("e1", "x"), ("e1", "none")]


def test_a_line_without_end_is_cut_once_and_what_follows_it_is_read() -> None:
    found = texts([marked(experiment="e1"), *[b"x" * 100_000] * 5, b"rest\nnext\n"])
    assert [experiment for experiment, _ in found] == ["e1"] * 3
    assert found[0][1].startswith("x" * LONGEST + " ... (")
    assert len(found[0][1]) < LONGEST + 100
    assert "were left out" in found[1][1]
    assert found[2][1] == "next"


def test_what_is_too_much_is_left_out_and_said_once_and_the_other_experiment_is_read() -> None:
    now = 0.0
    noisy = b"y" * 99 + b"\n"

    def pieces() -> Iterable[bytes]:
        nonlocal now
        yield marked(experiment="noisy")
        for _ in range(3 * BURST // 10_000):
            yield noisy * 100
        yield marked(experiment="quiet") + b"here\n" + marked(experiment="noisy")
        for _ in range(5):
            yield noisy * 100
        now += BURST / PER_SECOND
        yield b"calm\n"
    found = list(read(pieces(), lambda: now))
    assert sum(len(said.text) for said in found) < BURST
    assert [said.text for said in found if said.experiment == "quiet"] == ["here"]
    assert [said.text.partition(" ")[2][:40] for said in found if said.level == logging.WARNING] == [
        "tuner has written more than 1024 KB in a", "bytes of what the tuner wrote were left "]
    assert found[-1] == Said("noisy", logging.INFO, "calm")
    left_out = int(found[-2].text.split()[0])
    taken = sum(said.text == "y" * 99 for said in found) * 100
    assert abs(left_out + taken - (3 * BURST // 10_000 + 5) * 10_000) < 1000


def test_a_long_record_of_logging_is_cut_before_it_is_written(capfd: pytest.CaptureFixture[str]) -> None:
    process_log.MarkedLog().emit(logging.LogRecord("n", 30, "", 0, "\u2603" * 1_000_000, (), None))
    (said,) = read([capfd.readouterr().err.encode()])
    assert said.level == 30
    assert said.text.startswith("n: " + "\u2603" * 1000)
    assert said.text.endswith("more characters)")
