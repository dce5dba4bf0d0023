"""Trials that a warm parent forks are what a plain start of the same command would be."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.trialkeeper.keeper_run import NO_OLD_PYTHON, old_python
from tests.trialkeeper.warm_attempts import WarmAttempts, how_started, stderr, stdout

ABOUT = """
import json, os, sys, signal, warnings

def dispositions():
    lines = open("/proc/self/status").read().splitlines()
    return {line.split(":")[0]: line.split()[1] for line in lines if line[:6] in ("SigBlk", "SigIgn", "SigCgt")}

main = sys.modules["__main__"]
environment = {name: value for name, value in os.environ.items()
               if name not in ("NNI_SYS_DIR", "NNI_OUTPUT_DIR", "NNI_PARAMETERS_FILE", "NNI_KEEPER_ATTEMPT",
                               "NNI_KEEPER_WAKE", "PYTHONPATH")}
print(json.dumps({
    "argv": sys.argv, "orig_argv": sys.orig_argv, "executable": sys.executable, "prefix": sys.prefix,
    "path": [entry for entry in sys.path if "for_trials" not in entry], "flags": str(sys.flags),
    "file": __file__, "name": __name__, "doc": __doc__, "package": __package__,
    "spec": repr(__spec__).split(" object at ")[0],
    "loader": type(__loader__).__name__, "cached": repr(globals().get("__cached__")),
    "main": sorted(vars(main)), "annotations": __annotations__, "builtins": type(__builtins__).__name__,
    "directory": os.getcwd(), "environment": environment, "filters": repr(warnings.filters), "umask": os.umask(0o22),
    "session": os.getsid(0) == os.getpid(), "group": os.getpgrp() == os.getpid(),
    "stdin": sys.stdin.read(), "descriptors": sorted(os.listdir("/proc/self/fd"))[:3],
    "extra": [os.readlink("/proc/self/fd/" + name) for name in os.listdir("/proc/self/fd")
              if int(name) > 2 and int(name) != 200 and os.path.exists("/proc/self/fd/" + name)],
    "streams": [[type(stream).__name__, stream.name, stream.line_buffering, getattr(stream, "write_through", 0),
                 stream.encoding, stream.errors, type(stream.buffer).__name__]
                for stream in (sys.stdin, sys.stdout, sys.stderr)],
    "hooks": [sys.excepthook is sys.__excepthook__, sys.displayhook is sys.__displayhook__],
    "limit": sys.getrecursionlimit(), "signals": dispositions(),
    "handlers": [repr(signal.getsignal(number)) .split(" at ")[0] for number in (signal.SIGINT, signal.SIGTERM,
                 signal.SIGCHLD, signal.SIGPIPE, signal.SIGHUP)],
    "threads": len(os.listdir("/proc/self/task"))}))
"""


@pytest.fixture
def attempts(agents, tmp_path: Path) -> Iterator[WarmAttempts]:
    attempts = WarmAttempts(agents(), tmp_path / "warm")
    yield attempts
    attempts.clean_up()


@pytest.fixture(autouse=True)
def folder_of_attempts(tmp_path: Path) -> None:
    (tmp_path / "warm").mkdir()


@pytest.mark.parametrize("arguments", ["trial.py", "./trial.py", "-u trial.py --rate 0.1 'two words'",
                                       "-W ignore -X utf8 sub/../trial.py", "-O -B ../code/trial.py", "-m trial x",
                                       "-s -E trial.py", "-I trial.py"])
def test_a_warm_trial_sees_what_a_plain_one_sees(attempts, arguments):
    attempts.write(ABOUT)
    (attempts.code / "sub").mkdir()
    command = f"{sys.executable} {arguments}"
    plain = attempts.run(command, warm=False)
    warm = attempts.until_warm(command=command)
    assert json.loads(stdout(warm)) == json.loads(stdout(plain))
    assert stderr(warm) == stderr(plain)
    assert how_started(plain) == {}


def test_trials_with_other_parameters_share_a_parent_and_see_their_own(attempts):
    attempts.write("import json, os, sys\nprint(sys.argv[1:], os.environ['NNI_PARAM_LR'],"
                   " json.load(open(os.environ['NNI_PARAMETERS_FILE'])))")
    seen = []
    for rate in ("0.1", "two words"):
        text = json.dumps({"parameter_id": 1, "parameters": {"lr": rate}})
        warm = attempts.until_warm(command=f"{sys.executable} trial.py {{args}} {{lr}}",
                                   parameters=[{"index": 0, "text": text}])
        seen.append(stdout(warm))
    assert seen == [f"{[f'--lr={rate}', rate]} {rate} {{'lr': {rate!r}}}\n" for rate in ("0.1", "two words")]


@pytest.mark.slow
@pytest.mark.parametrize("version", ["3.6", "3.7", "3.8", "3.9", "3.10", "3.12", "3.13"])
@pytest.mark.parametrize("arguments", ["./trial.py x", "-m trial x"])
def test_other_pythons_do_it_too(attempts, version, arguments):
    python = old_python(version)
    if python is None:
        pytest.skip(NO_OLD_PYTHON % version)
    attempts.write(ABOUT.replace('"orig_argv": sys.orig_argv,', '"orig_argv": getattr(sys, "orig_argv", 0),'))
    command = f"{python} {arguments}"
    plain = attempts.run(command, warm=False)
    warm = attempts.until_warm(command=command)
    assert json.loads(stdout(warm)) == json.loads(stdout(plain))
    assert stderr(warm) == stderr(plain)
