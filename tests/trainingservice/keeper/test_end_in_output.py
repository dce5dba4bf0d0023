"""A job's output tells how its trial ended."""

import signal
import subprocess

import pytest

from trainingservice.keeper.end_in_output import keep_and_tell, told_end


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
