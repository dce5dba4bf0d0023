"""What tests fork (keepers.py) does what a keeper does that is started."""

import json
import os
import signal
import subprocess
import sys

import pytest

from tests.forking import keepers as forked_keepers
from tests.forking.forker import ForkedProcess
from tests.trialkeeper.keeper_run import ROOT, KeeperRun
from trainingservice.keeper.keeper_bundle import build_keeper
from trialkeeper.process_tree import MARK_VARIABLE

#: Writes what a program has of who started it. Its descriptors are counted by itself: in a pipe to another program the
#: shell still has the ends of that pipe, or not.
TELL = ("{ env | grep -v '^_=' | sort; pwd; umask; cat /proc/self/limits; trap; set -- /proc/$$/fd/*; echo $#; } "
        "> \"$SEEN\"")


def seen_by_a_trial(run: KeeperRun) -> list[str]:
    process = run.start(TELL, environment={"SEEN": str(run.folder / "seen")})
    assert process.wait(60) == 0
    text = (run.folder / "seen").read_text().replace(str(run.folder), "FOLDER")
    return [line for line in text.splitlines() if not line.startswith(MARK_VARIABLE)]


def test_a_trial_of_a_forked_keeper_has_what_one_of_a_started_keeper_has(tmp_path):
    started, forked = KeeperRun(tmp_path / "started", None), KeeperRun(tmp_path / "forked", None)
    started.before = "pass"
    try:
        assert seen_by_a_trial(forked) == seen_by_a_trial(started)
        assert isinstance(forked.processes[0], ForkedProcess)
        assert isinstance(started.processes[0], subprocess.Popen)
    finally:
        started.clean_up()
        forked.clean_up()


@pytest.mark.parametrize(("arguments", "status", "words"), [(["agent"], 0, ""), (["nothing"], 2, "usage: keeper.pyz")])
def test_its_end_its_exit_status_and_its_words_are_known(tmp_path, arguments, status, words):
    process = forked_keepers.start(arguments, cwd=tmp_path, env=os.environ, stdout=subprocess.DEVNULL,
                                   stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdin.close()
    assert process.wait(60) == status
    with process.stderr:
        assert process.stderr.read().decode().startswith(words)
    assert process.poll() == process.returncode == status


def test_one_that_is_killed_has_ended_by_that_signal(tmp_path):
    process = forked_keepers.start(["agent"], cwd=tmp_path, env=os.environ, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE)
    assert b'"hello"' in process.stdout.readline()
    assert process.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.01)
    process.kill()
    assert process.wait(60) == -signal.SIGKILL
    process.stdin.close()
    process.stdout.close()


def test_one_that_takes_itself_for_a_zipapp_has_the_files_of_that(tmp_path):
    bundle = build_keeper(tmp_path / "keepers").path
    process = forked_keepers.start(["agent"], archive=bundle, cwd=tmp_path, env={**os.environ, "TMPDIR": str(tmp_path)},
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert b'"hello"' in process.stdout.readline()
    assert (bundle.with_suffix(".for_trials") / "nni" / "__init__.py").is_file()
    process.stdin.write(json.dumps({"id": 1, "do": "start", "folder": str(tmp_path / "attempt"), "access": {
        "urls": [], "token": "t", "url_file": None, "ca_file": None}, "job": {
            **KeeperRun(tmp_path / "unused", None).job("true", warm_start=["decimal"])}}).encode() + b"\n")
    process.stdin.flush()
    assert json.loads(process.stdout.readline())["ok"]
    assert [path.name for path in tmp_path.glob("nniweb-warm-*/*.py")]
    process.stdin.close()
    assert process.wait(60) == 0
    process.stdout.close()


@pytest.mark.parametrize("variables", [{"PYTHONPATH": "/where/sitecustomize/may/be"}, {"LD_PRELOAD": "libfaketime.so"},
                                       {"LANG": "de_DE.ISO-8859-1"}, {"PYTHONHASHSEED": "7"}])
def test_what_python_reads_when_it_starts_has_a_keeper_started(variables):
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG"))}
    assert forked_keepers.can_fork(sys.executable, {**environment, "PYTHONPATH": str(ROOT)})
    assert not forked_keepers.can_fork(sys.executable, {**environment, **variables})


def test_another_python_is_started():
    assert not forked_keepers.can_fork("/usr/bin/python3", os.environ)
    assert not forked_keepers.can_fork(None, os.environ)
