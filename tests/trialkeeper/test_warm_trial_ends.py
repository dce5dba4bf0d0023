"""How warm trials end: output, exit code and signal are those of a plain start of the same script."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.environments_of_fast_tests import hdf5_python
from tests.trialkeeper.keeper_run import KeeperRun
from tests.trialkeeper.warm_attempts import WarmAttempts, how_started, stderr, stdout
from trialkeeper import contract

SCRIPTS = {
    "normal": "print('one'); print('two', end='')",
    "exit code": "import sys; print('out'); sys.exit(7)",
    "exit text": "import sys; sys.exit('a reason')",
    "exit None": "raise SystemExit",
    "exit large": "import sys; sys.exit(300)",
    "exception": "def deep():\n    raise ValueError('wrong')\n\ndeep()\n",
    "chained exception": "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    raise KeyError('x') from error\n",
    "syntax error": "print('never')\nif True print(1)\n",
    "missing module": "import no_such_module_at_all\n",
    "null byte": "x = 1\0\n",
    "os._exit": "import os; print('lost'); os._exit(3)",
    "abort": "import os; os.abort()",
    "own signal": "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
    "interrupt": "import os, signal, time; os.kill(os.getpid(), signal.SIGINT); time.sleep(10)",
    "interrupt raised": "raise KeyboardInterrupt",
    "stdin": "import sys; print(repr(sys.stdin.read())); input()",
    "exit handlers": "import atexit\natexit.register(print, 'first')\natexit.register(print, 'last')\n"
                     "raise ValueError(1)",
    "own hook": "import sys\nsys.excepthook = lambda *args: print('hook', args[0].__name__)\nraise ValueError",
    "failing hook": "import sys\ndef hook(*args):\n    raise RuntimeError('hook')\n"
                    "sys.excepthook = hook\nraise ValueError",
    "thread at the end": "import threading, time\ndef work():\n    time.sleep(0.2)\n    print('worked')\n"
                         "threading.Thread(target=work).start()\nprint('main')",
    "closed stdout": "import os; os.close(1); print('nowhere')",
    "all closed": "import os; os.closerange(0, 4096)",
    "warning": "import warnings\nwarnings.warn('careful')\nwarnings.warn('old', DeprecationWarning)",
    "pickling": "import pickle\n\nclass Thing:\n    value = 3\n\nif __name__ == '__main__':\n"
                "    print(pickle.loads(pickle.dumps(Thing())).value, Thing.__module__, Thing)\n",
    "processes": "import multiprocessing as mp\n\ndef square(x):\n    return x * x\n\nif __name__ == '__main__':\n"
                 "    for method in ('fork', 'spawn', 'forkserver'):\n"
                 "        with mp.get_context(method).Pool(2) as pool:\n"
                 "            print(method, pool.map(square, range(4)))\n",
    "subprocess": "import subprocess, sys\nprint(subprocess.run([sys.executable, '-c', 'print(5)'], "
                  "capture_output=True, text=True).stdout)\n"
                  "subprocess.run('exit 4', shell=True, check=True)",
    "fork": "import os, sys\npid = os.fork()\nif pid == 0:\n    sys.exit(9)\n"
            "print(os.waitpid(pid, 0)[1] >> 8)\nsys.exit(5)",
    "limit": "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))\n"
             "print(resource.getrlimit(resource.RLIMIT_NOFILE))",
    "own module": "import beside\nprint(beside.VALUE)",
    "stack": "import traceback\n\ndef where():\n    raise RuntimeError\n\ntry:\n    where()\nexcept RuntimeError:\n"
             "    traceback.print_exc()\n",
    "fault": "import faulthandler\nfaulthandler.enable()\nimport ctypes\nctypes.string_at(0)",
    "streams of C": "import ctypes; ctypes.CDLL(None).printf(b'no line'); raise SystemExit(3)",
    "exit function of C": "import ctypes; libc = ctypes.CDLL(None)\nlibc.__cxa_atexit(libc.puts, b'late', None)",
    "unraisable": "class Bad:\n    def __del__(self):\n        raise ValueError('late')\nbad = Bad()",
}


@pytest.fixture
def attempts(agents, tmp_path: Path) -> Iterator[WarmAttempts]:
    (tmp_path / "warm").mkdir()
    attempts = WarmAttempts(agents(), tmp_path / "warm", "import json")
    attempts.write("VALUE = 'beside'\n", "beside.py")
    attempts.until_warm()
    yield attempts
    attempts.clean_up()


def end_of(run: KeeperRun) -> dict[str, object]:
    end = run.read(contract.EXIT_FILE)
    return {**{name: end[name] for name in ("exit_code", "signal", "reason", "message")},
            "stdout": _without_addresses(stdout(run)), "stderr": _without_addresses(stderr(run))}


def _without_addresses(text: str) -> str:
    # what a fault shows of the stack, and of the modules in C, is what was loaded before
    text = re.sub(r"(?s)(Current thread.*?line 4 in <module>\n).*", r"\1", re.sub(r"0x[0-9a-f]+", "0x", text))
    return re.sub(r"pid=\d+", "pid=", text)


@pytest.mark.slow
def test_warm_trials_end_as_plain_ones_do(attempts):
    differing = {}
    for name, script in SCRIPTS.items():
        attempts.write(script)
        plain, warm = attempts.start(warm=False), attempts.start()
        attempts.ended(plain)
        attempts.ended(warm)
        assert how_started(warm).get("warm"), (name, how_started(warm))
        if end_of(warm) != end_of(plain):
            differing[name] = (end_of(plain), end_of(warm))
    assert not differing


@pytest.mark.parametrize("script", ["exception", "exit code", "interrupt raised", "processes"])
def test_modules_end_as_they_do(attempts, script):
    attempts.write(SCRIPTS[script])
    command = f"{sys.executable} -m trial"
    plain, warm = end_of(attempts.run(command, warm=False)), end_of(attempts.run(command))
    assert (plain["stdout"], plain["exit_code"], plain["signal"]) == (warm["stdout"], warm["exit_code"], warm["signal"])
    assert str(plain["stderr"]).splitlines()[-1:] == str(warm["stderr"]).splitlines()[-1:]


def test_exit_functions_of_libraries_that_the_parent_has_imported_do_not_run(attempts):
    folder = attempts.folder / "libraries"
    folder.mkdir()
    (folder / "with_library.py").write_text(SCRIPTS["exit function of C"])
    attempts.write("import with_library, sys\nprint('done', flush=True)\nsys.exit(4)")
    attempts.fields = {"environment": {"PYTHONPATH": str(folder)}}
    plain, warm = end_of(attempts.run(warm=False)), end_of(attempts.until_warm(warm=["with_library"]))
    assert plain["stdout"] == "done\nlate\n"
    assert warm == {**plain, "stdout": "done\n"}


#: Nobody closes these files: a thread that is not waited for has one, the other is in a circle of references.
UNCLOSED = """
import os, threading, h5py
written = threading.Event()

def write(name):
    file = h5py.File(os.path.join(os.environ["NNI_OUTPUT_DIR"], name), "w")
    file["x"] = [1, 2, 3]
    return file

def work():
    file = write("thread.h5")
    written.set()
    threading.Event().wait()

threading.Thread(target=work, daemon=True).start()
written.wait()
circle = [write("circle.h5")]
circle.append(circle)
"""


def test_files_of_hdf5_that_nobody_closed_can_be_read(attempts):
    python = hdf5_python()
    attempts.write(UNCLOSED)
    run = attempts.until_warm(command=f"{python} trial.py", warm=["h5py"])
    shown = subprocess.run([python, "-c", "import h5py, sys\nfor path in sys.argv[1:]:\n"
                            "    print(h5py.File(path)['x'][:].tolist())",
                            *(run.folder / contract.NNI_FOLDER / f"{name}.h5" for name in ("thread", "circle"))],
                           capture_output=True, text=True, check=True)
    assert (shown.stdout, stderr(run)) == ("[1, 2, 3]\n" * 2, "")
