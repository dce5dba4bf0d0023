"""Reading what programs write up to a bound."""

import subprocess

import pytest

from trainingservice.bounded_output import COMPLAINT_BYTES, communicate


@pytest.fixture
def start():
    """Starts a shell script; it is killed after the test."""
    started = []

    def begin(script, **more):
        process = subprocess.Popen(["/bin/sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, **more)
        started.append(process)
        return process
    yield begin
    for process in started:
        process.kill()
        process.wait()


def test_a_long_input_comes_back_and_the_exit_status_is_known(start):
    process = start("cat; echo careful >&2; exit 3")
    content = bytes(range(256)) * 4096
    said = communicate(process, content, 30.0, len(content))
    assert (said.output, said.complaint, said.cut, process.returncode) == (content, b"careful\n", "", 3)


def test_a_program_that_does_not_read_its_input_is_no_failure(start):
    process = start("exec <&-; echo done")
    assert communicate(process, b"x" * 1_000_000, 30.0).output == b"done\n"


def test_output_beyond_the_bound_is_not_read(start):
    said = communicate(start("cat /dev/zero"), b"", 30.0, 100_000)
    assert (len(said.output), said.cut) == (100_000, "size")


def test_of_a_long_complaint_the_end_is_kept(start):
    said = communicate(start("head -c 1000000 /dev/zero >&2; printf end >&2"), b"", 30.0)
    assert (len(said.complaint), said.complaint[-3:], said.cut) == (COMPLAINT_BYTES, b"end", "")


def test_a_program_that_takes_longer_is_cut_short(start):
    said = communicate(start("echo begun; sleep 1000"), b"", 0.3)
    assert (said.output, said.cut) == (b"begun\n", "time")


def test_a_program_that_closes_its_output_and_goes_on_is_cut_short(start):
    assert communicate(start("exec >&- 2>&- <&-; sleep 1000"), b"", 0.3).cut == "time"


def test_who_waits_may_give_up(start):
    assert communicate(start("sleep 1000"), give_up=lambda: True).cut == "given up"
