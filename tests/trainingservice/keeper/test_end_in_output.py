"""A job's output tells how its trial ended, and what is read of that."""

import signal
import subprocess

import pytest

from trainingservice.keeper.end_in_output import keep_and_tell, told_end
from trainingservice.keeper.keeper_exit import MOST_CHARACTERS, observed_exit
from trainingservice.keeper.trial_of_ranks import rank_by_file
from trainingservice.trial_job_status import TrialJobStatus


def job(keeper, folder):
    return subprocess.Popen(["sh", "-c", keep_and_tell(keeper, '"$END"')], cwd=folder, text=True,
                            env={"END": str(folder / "its end.json")}, stdout=subprocess.PIPE)


def test_the_end_is_printed_last_and_the_job_ends_as_its_keeper_did(tmp_path):
    done = job("""sh -c 'echo working; echo "{\\"exit_code\\": 3}" >"$END"; exit 3'""", tmp_path)
    said = done.communicate(timeout=60)[0]
    assert (said, done.returncode) == ('working\n@nniweb-end {"exit_code": 3}\n', 3)
    assert told_end(said) == {"exit_code": 3}


def test_a_keeper_that_says_nothing_leaves_the_end_to_its_exit_status(tmp_path):
    done = job("sh -c 'exit 82'", tmp_path)
    said = done.communicate(timeout=60)[0]
    assert (told_end(said), done.returncode) == (None, 82)


def test_the_keeper_hears_that_its_job_shall_end(tmp_path):
    keeper = """sh -c 'trap "echo {} >\\"$END\\"; exit 7" TERM; echo ready; while :; do sleep 0.05; done'"""
    done = job(keeper, tmp_path)
    assert done.stdout.readline() == "ready\n"
    done.send_signal(signal.SIGTERM)
    said = done.communicate(timeout=60)[0]
    assert (told_end(said), done.returncode) == ({}, 7)


def test_a_keeper_that_is_started_while_its_job_is_told_to_end_ends_too(tmp_path):
    done = job("sh -c 'kill -TERM $PPID; while :; do sleep 0.05; done'", tmp_path)
    assert (done.communicate(timeout=60)[0], done.returncode) == ("", 128 + signal.SIGTERM)


def test_a_job_that_is_told_to_end_before_its_keeper_is_started_starts_none(tmp_path):
    script = keep_and_tell("echo started", '"$END"')
    first_trap = script.index("\n", script.index("trap ")) + 1
    done = subprocess.run(["sh", "-c", script[:first_trap] + "kill -TERM $$\n" + script[first_trap:]], text=True,
                          timeout=60, cwd=tmp_path, env={"END": str(tmp_path / "end.json")}, stdout=subprocess.PIPE)
    assert (done.stdout, done.returncode) == ("", 128 + signal.SIGTERM)


@pytest.mark.parametrize("output", ["", "no end\n", "@nniweb-end {cut o", "@nniweb-end 3\n"])
def test_what_is_no_end_is_none(output):
    assert told_end(output) is None


@pytest.mark.parametrize("told", [
    {"exit_code": "1"}, {"exit_code": 10**30}, {"exit_code": [1]}, {"signal": {"number": 9}}, {"signal": "9"},
    {"exit_code": 1, "at": "noon", "duration": "long"}, {"exit_code": 1, "at": 1e308, "duration": -1e308},
    {"exit_code": 1, "at": float("nan"), "duration": 10**400}, {"exit_code": 1, "at": 5.0, "duration": 9.0},
    {"exit_code": 1, "message": ["a"], "last_lines": {}}, {"exit_code": 1, "out_of_memory": "all"}], ids=str)
def test_an_end_with_values_of_other_kinds_is_an_end_with_what_can_be_read_of_it(told) -> None:
    """A trial can often write where its keeper leaves the end. One such file must not keep all others from being read.
    """
    end = {"reason": "exited", **told}
    seen = observed_exit(end)
    assert seen.status is TrialJobStatus.FAILED
    assert seen.exit_code in (None, 1)
    assert all(at is None or 0 < at < 1e11 for at in (seen.start_time, seen.end_time))
    assert isinstance(seen.message, str)
    by_file = rank_by_file({"rank": "x", "machine": 5, "exit": end})
    assert (by_file.rank, by_file.machine, by_file.has_failed) == (0, "", True)
    assert 0 <= by_file.ended_at < 1e11


@pytest.mark.parametrize("told", [{"reason": ["exited"]}, {"reason": 5, "message": 5}, {}], ids=str)
def test_an_end_without_a_reason_is_one_of_a_keeper_that_is_lost(told) -> None:
    assert observed_exit(told).status is TrialJobStatus.FAILED


def test_the_texts_of_an_end_are_cut_and_can_be_stored() -> None:
    seen = observed_exit({"reason": "stopped", "message": "\0\ud800" + "x" * 10**6})
    assert len(seen.message or "") == MOST_CHARACTERS
    assert (seen.message or "").startswith("\ufffd\ufffdx")
