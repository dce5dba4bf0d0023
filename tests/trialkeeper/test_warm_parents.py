"""What happens to warm trials when the parent, the process beside a trial, the keeper or the agent is killed, and when
trials do what spoils a machine.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.trialkeeper.keeper_run import KeeperRun, wait_until
from tests.trialkeeper.warm_attempts import WarmAttempts, how_started, stderr, stdout
from trialkeeper import contract, machine
from trialkeeper.process_tree import descendants

#: The trial writes its process id, and goes on when it is told to.
WAITING = """
import os, time
open(os.environ["NNI_OUTPUT_DIR"] + "/pids", "w").write("%d %d" % (os.getpid(), os.getppid()))
while not os.path.exists("go"):
    time.sleep(0.02)
print("ended")
raise SystemExit(4)
"""


@pytest.fixture
def attempts(agents, tmp_path: Path) -> Iterator[WarmAttempts]:
    (tmp_path / "warm").mkdir()
    attempts = WarmAttempts(agents(), tmp_path / "warm", "import decimal")
    attempts.until_warm()
    attempts.write(WAITING)
    yield attempts
    attempts.clean_up()


def pids_of(run: KeeperRun) -> tuple[int, int]:
    """Process ids of the trial and of the process beside it, as soon as the trial runs."""
    path = run.folder / "nni" / "pids"
    trial, beside = wait_until(lambda: path.exists() and path.read_text().split(), what="a running trial")
    return int(trial), int(beside)


def lives(pid: int) -> bool:
    """Whether it is there, and is no zombie."""
    return any(row[0] == pid for row in machine.process_table())


def parent_of(beside: int) -> int:
    return int(Path(f"/proc/{beside}/stat").read_text().rpartition(")")[2].split()[1])


def test_a_killed_parent_ends_no_trial_and_the_next_has_another_parent(attempts):
    run = attempts.start()
    trial, beside = pids_of(run)
    parent = parent_of(beside)
    os.kill(parent, signal.SIGKILL)
    wait_until(lambda: not lives(parent), what="the parent's end")
    # the agent, which gets the process beside the trial as an orphan, looks twice
    looks = [attempts.agent.ask("state", folders=[]) for _ in range(3)]
    assert all(look["ok"] for look in looks)
    second = attempts.start()
    new = parent_of(pids_of(second)[1])
    assert new != parent
    assert lives(trial)
    (attempts.code / "go").touch()
    for each in (run, second):
        end = attempts.ended(each).read(contract.EXIT_FILE)
        assert (end["exit_code"], end["reason"], stdout(each)) == (4, "exited", "ended\n")
        wait_until(lambda each=each: each.trial_processes() == [], what="the end of all its processes")


def test_the_agent_does_not_kill_what_stands_beside_a_trial_of_a_killed_parent(attempts):
    run = attempts.start()
    trial, beside = pids_of(run)
    os.kill(parent_of(beside), signal.SIGKILL)
    wait_until(lambda: parent_of(beside) == attempts.agent.process.pid, what="the agent as its parent")
    other = attempts.start("sleep 3", warm=False)  # for as long as the agent takes for three looks
    attempts.ended(other)
    assert lives(beside)
    (attempts.code / "go").touch()
    assert attempts.ended(run).read(contract.EXIT_FILE)["exit_code"] == 4


def test_a_trial_that_kills_its_parent_process_is_lost_and_leaves_nothing(attempts):
    attempts.write("import os, subprocess, time\nsubprocess.Popen(['sleep', '77'], start_new_session=True)\n"
                   "os.kill(os.getppid(), 9)\ntime.sleep(60)")
    run = attempts.run()
    end = run.read(contract.EXIT_FILE)
    assert (end["reason"], end["exit_code"]) == ("lost", None)
    assert "stands beside a warm trial was killed" in end["message"]
    wait_until(lambda: run.trial_processes() == [], what="the end of all its processes")


def test_a_killed_keeper_s_trial_is_ended_by_the_next_keeper(attempts):
    run = attempts.start()
    trial, beside = pids_of(run)
    os.kill(attempts.agent.state(run.folder)["keeper_pid"], signal.SIGKILL)
    attempts.ended(run)
    assert run.read(contract.EXIT_FILE)["reason"] == "lost"
    wait_until(lambda: not lives(trial) and not lives(beside))
    assert run.trial_processes() == []


def test_a_killed_agent_ends_no_trial(attempts, agents):
    run = attempts.start()
    trial, beside = pids_of(run)
    attempts.agent.process.kill()
    attempts.agent.process.wait()
    attempts.agent = agents()
    assert attempts.agent.state(run.folder)["state"] == "running"
    (attempts.code / "go").touch()
    assert attempts.ended(run).read(contract.EXIT_FILE)["exit_code"] == 4
    assert not lives(beside)
    assert attempts.until_warm().read(contract.EXIT_FILE)["exit_code"] == 4


def test_a_trial_that_ignores_term_and_has_hidden_daemons_is_ended_with_all_of_them(attempts):
    attempts.write("""
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.environ.clear()
            os.execve(sys.executable, [sys.executable, "-c", "import time; time.sleep(99)"], {})
        os._exit(0)
open(os.environ["NNI_OUTPUT_DIR"] + "/pids", "w").write("%d %d" % (os.getpid(), os.getppid()))
time.sleep(99)
""")
    run = attempts.start()
    trial, beside = pids_of(run)
    started = wait_until(lambda: len(found := descendants([beside], machine.process_table())) == 4 and found)
    attempts.agent.ask("stop", folder=str(run.folder))
    assert attempts.ended(run).read(contract.EXIT_FILE)["reason"] == "stopped"
    for pid in [*started, beside]:
        wait_until(lambda pid=pid: not lives(pid), what=f"the end of {pid}")


SPOILERS = {
    "daemon": "import subprocess; subprocess.Popen(['sleep', '98'], start_new_session=True)",
    "folder": "import os; os.chdir('/'); os.environ['WORSE'] = '1'; os.umask(0o777)",
    "closes all": "import os; os.closerange(0, 4096); os._exit(5)",
    "limits": "import resource\nfor one in (resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC, resource.RLIMIT_CORE):\n"
              "    resource.setrlimit(one, (8, 8))",
    "modules": "import sys, decimal, json\ndecimal.Decimal = None\njson.loads = None\nsys.modules.clear()",
    "signals": "import signal\nfor number in (1, 2, 15, 17):\n    signal.signal(number, signal.SIG_IGN)",
    "kills its group": "import os; os.killpg(0, 9)",
    "stops its parent process": "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)",
    "disk": "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))\nprint('x' * 100, flush=True)",
}
AFTER = """
import decimal, json, os, resource, signal
os.environ.pop("WORSE", None) and print("worse")
print(json.dumps([decimal.Decimal("1.5") == 1.5, os.getcwd() == os.environ["NNI_CODE_DIR"], os.umask(0),
                  resource.getrlimit(resource.RLIMIT_NOFILE), str(signal.getsignal(signal.SIGTERM)),
                  len(os.listdir("/proc/self/fd"))]))
"""


def test_what_a_trial_does_to_its_process_does_not_touch_the_next_one(attempts):
    attempts.write(AFTER)
    before = stdout(attempts.run())
    assert json.loads(before)[0] is True
    for name, script in SPOILERS.items():
        attempts.write(script)
        run = attempts.start(limits={"max_trial_duration": 1.0} if name.startswith("stops") else {})
        attempts.ended(run)
        assert run.trial_processes() == [], name
        attempts.write(AFTER)
        after = attempts.run()
        assert (stdout(after), how_started(after).get("warm")) == (before, True), name


def test_every_trial_has_its_own_randomness(attempts):
    pytest.importorskip("numpy")
    attempts.write("import random, numpy, uuid\nprint(random.random(), numpy.random.random(), uuid.uuid4())")
    attempts.until_warm(warm=["numpy", "random", "uuid"])
    drawn = [stdout(attempts.run(warm=["numpy", "random", "uuid"])).split() for _ in range(3)]
    assert all(len(set(column)) == 3 for column in zip(*drawn, strict=True))


SPAWNS = """
import multiprocessing as mp

class Result:
    def __init__(self, loss):
        self.loss = loss

def job(x):
    return Result(x / 2)

if __name__ == "__main__":
    with mp.get_context("spawn").Pool(1) as pool:
        print([one.loss for one in pool.map_async(job, [1, 2]).get(30)])
"""


def test_objects_of_the_script_come_back_from_spawned_processes(attempts):
    attempts.write(SPAWNS)
    run = attempts.until_warm(warm=["multiprocessing"])
    assert stdout(run) == "[0.5, 1.0]\n", stderr(run)


def test_a_script_that_extends_the_path_has_the_same_modules_in_each_trial(attempts, tmp_path):
    for folder in ("installed", "own"):
        (tmp_path / folder / "package_of_trial").mkdir(parents=True)
        for name in ("module_of_trial.py", "package_of_trial/__init__.py", "package_of_trial/inner.py"):
            (tmp_path / folder / name).write_text(f"VALUE = {folder!r}\n")
    (tmp_path / "installed" / "another_of_trial.py").write_text("VALUE = 'another'\n")
    attempts.write(f"import sys\nsys.path.insert(0, {str(tmp_path / 'own')!r})\n"
                   "loaded = 'another_of_trial' in sys.modules\n"
                   "import module_of_trial, package_of_trial.inner, another_of_trial\n"
                   "print(loaded, module_of_trial.VALUE, package_of_trial.VALUE, package_of_trial.inner.VALUE)")
    environment = {"PYTHONPATH": str(tmp_path / "installed")}
    assert stdout(attempts.run(environment=environment)) == "False own own own\n"
    assert stdout(attempts.until_warm(environment=environment)) == "True own own own\n"


def test_the_streams_of_a_warm_trial_have_no_warnings_of_ours(attempts):
    attempts.write("print(1)")
    for _ in range(3):
        run = attempts.run(f"{sys.executable} -X dev trial.py")
        assert (stdout(run), stderr(run)) == ("1\n", "")
        assert how_started(run)["warm"]


def test_the_environment_of_each_trial_is_its_own(attempts):
    attempts.write("import os; print(os.environ['NNI_TRIAL_SEQ_ID'], os.environ['CUDA_VISIBLE_DEVICES'])\n"
                   "import subprocess; print(subprocess.getoutput('echo $NNI_TRIAL_SEQ_ID'))")
    for number in range(3):
        run = attempts.run(sequence_id=number, gpu_indices=[number])
        assert stdout(run) == f"{number} {number}\n{number}\n"
        assert how_started(run)["warm"]


def test_variables_that_an_import_sets_are_set_in_each_trial(attempts, tmp_path):
    (tmp_path / "libraries").mkdir()
    (tmp_path / "libraries" / "sets_variables.py").write_text(
        "import os\nos.environ['OF_IMPORT'] = '1'\nos.environ.setdefault('GIVEN', 'no')\ndel os.environ['REMOVED']\n"
        "os.environ['MADE_LONGER'] += ':b'\n")
    attempts.write("import sets_variables, os, subprocess\n"
                   "names = ('OF_IMPORT', 'GIVEN', 'REMOVED', 'MADE_LONGER', 'NNI_TRIAL_SEQ_ID')\n"
                   "print([os.environ.get(name) for name in names])\n"
                   "print([os.environb.get(name.encode()) for name in names])\n"
                   "print(subprocess.getoutput('echo ' + ' '.join('$' + name for name in names)))")
    attempts.fields = {"environment": {"PYTHONPATH": str(tmp_path / "libraries"), "GIVEN": "yes", "REMOVED": "there",
                                       "MADE_LONGER": "a"}}
    plain = attempts.run(warm=False)
    assert stdout(plain).splitlines()[0] == "['1', 'yes', None, 'a:b', '3']"
    for _ in range(2):
        warm = attempts.until_warm(warm=["sets_variables"])
        assert (stdout(warm), stderr(warm)) == (stdout(plain), stderr(plain))


def test_the_mark_of_a_trial_is_seen_from_outside(attempts):
    run = attempts.start()
    trial, beside = pids_of(run)
    assert sorted(run.trial_processes()) == sorted([trial, beside])
    (attempts.code / "go").touch()
    attempts.ended(run)


def test_trials_that_come_while_a_parent_imports_what_was_learned_wait_for_it(attempts, tmp_path):
    (tmp_path / "libraries").mkdir()
    may_import = tmp_path / "may-import"
    may_import.touch()
    (tmp_path / "libraries" / "slow_library.py").write_text(
        f"import os, time\nwhile not os.path.exists({str(may_import)!r}):\n    time.sleep(0.02)\n")
    attempts.write("import slow_library")
    attempts.fields = {"environment": {"PYTHONPATH": str(tmp_path / "libraries")}}
    assert how_started(attempts.run())["learns"]
    may_import.unlink()
    runs = [attempts.start() for _ in range(3)]
    wait_until(lambda: all(run.exists(contract.JOURNAL_FILE) for run in runs), what="their keepers")
    may_import.touch()
    starts = [how_started(attempts.ended(run)) for run in runs]
    assert [(start["warm"], start["learns"]) for start in starts] == [(True, False)] * 3


def test_a_change_of_an_imported_module_makes_another_parent(attempts, tmp_path):
    library = tmp_path / "library"
    library.mkdir()
    (library / "lib_of_trial.py").write_text("VALUE = 1\n")
    attempts.write("import lib_of_trial; print(lib_of_trial.VALUE)")
    environment = {"PYTHONPATH": str(library)}
    assert stdout(attempts.until_warm(environment=environment)) == "1\n"
    (library / "lib_of_trial.py").write_text("VALUE = 22\n")

    def is_new() -> bool:
        return stdout(attempts.run(environment=environment)) == "22\n"
    wait_until(is_new, what="the change")
    assert stdout(attempts.until_warm(environment=environment)) == "22\n"


def test_a_change_of_the_script_is_seen_at_once(attempts):
    for number in range(3):
        attempts.write(f"import beside; print({number}, beside.VALUE)")
        attempts.write(f"VALUE = {number * 10 ** number}\n", "beside.py")
        run = attempts.run()
        assert (stdout(run), how_started(run)["warm"]) == (f"{number} {number * 10 ** number}\n", True)


@pytest.mark.slow
def test_eight_at_a_time_all_end(attempts):
    attempts.write("import os; print(os.environ['NNI_TRIAL_SEQ_ID'])")
    runs = [attempts.start(sequence_id=number) for number in range(24)]
    assert [stdout(attempts.ended(run)) for run in runs] == [f"{number}\n" for number in range(24)]
    assert all(how_started(run)["warm"] for run in runs)


PLAIN = {
    "command": {"command": f"{sys.executable} trial.py; true"},
    "variable": {"environment": {"BASH_ENV": "/dev/null"}},
    "import": {"warm": ["no_such_module_here"]}, "reads, and needs it": {"warm": ["needs"]},
    "files": {"warm": ["opens"]}, "files, in a folder of its own": {"warm": ["makes_folder"]},
    "threads": {"warm": ["threads"]}, "reads": {"warm": ["reads"]},
    "failed": {"warm": ["dies"]},
    "shadowed": {"warm": ["plistlib"]},
}


@pytest.mark.slow
@pytest.mark.parametrize("cause", PLAIN)
def test_where_a_parent_cannot_serve_trials_are_started_plainly(attempts, cause, tmp_path):
    library = tmp_path / "library"
    library.mkdir()
    (library / "opens.py").write_text("FILE = open(__file__)\n")
    (library / "makes_folder.py").write_text("import tempfile\nFOLDER = tempfile.TemporaryDirectory()\n")
    (library / "threads.py").write_text("import threading, time\n"
                                        "threading.Thread(target=time.sleep, args=(99,), daemon=True).start()\n")
    (library / "reads.py").write_text("import os\nFOLDER = os.environ.get('NNI_OUTPUT_DIR', '.')\n")
    (library / "needs.py").write_text("import os\nFOLDER = os.environ['NNI_OUTPUT_DIR']\n")
    (library / "dies.py").write_text("import os\nos._exit(3)\n")
    if cause == "shadowed":
        attempts.write("", "plistlib.py")
    attempts.write("print('ran')")
    asked = {"environment": {"PYTHONPATH": str(library)}, **PLAIN[cause]}
    cause = cause.partition(",")[0]
    if cause == "failed":
        assert stdout(attempts.run(**asked)) == "ran\n"  # nobody knows yet that the next parent would end, too
    for _ in range(2):
        run = attempts.run(**asked)
        assert (stdout(run), run.read(contract.EXIT_FILE)["exit_code"]) == ("ran\n", 0)
        start = how_started(run)
        assert (start["warm"], start["cause"]) == (False, cause), start
        assert start["detail"] or cause == "command", start
        assert start["cause"] in contract.PLAIN_START_CAUSES


def test_a_module_that_removes_its_temporary_folder_again_is_imported(attempts, tmp_path):
    (tmp_path / "libraries").mkdir()
    (tmp_path / "libraries" / "tries_folders.py").write_text(
        "from tempfile import TemporaryDirectory, mkdtemp\nwith TemporaryDirectory() as folder:\n    NAME = folder\n")
    attempts.write("import os, tempfile, tries_folders\nfolder = tries_folders.mkdtemp()\nos.rmdir(folder)\n"
                   "print(tries_folders.NAME != folder, tempfile.mkdtemp.__module__)")
    attempts.fields = {"environment": {"PYTHONPATH": str(tmp_path / "libraries")}}
    assert stdout(attempts.until_warm(warm=["tries_folders"])) == "True tempfile\n"


def test_without_an_agent_trials_are_started_plainly(lone_keeper):
    assert lone_keeper.run("python3 trial.py", warm_start=True) != 0
    assert how_started(lone_keeper) == {"warm": False, "cause": "no_agent", "detail": ""}


def with_parents(text: str) -> tuple[str, ...]:
    """An agent whose parents are made with these arguments."""
    return ("-c", "import functools, sys\nfrom trialkeeper import agent\nagent.WarmParents = functools.partial("
                  f"agent.WarmParents, {text})\nsys.exit(agent.Agent().run())")


@pytest.mark.slow
def test_a_parent_that_is_idle_ends(attempts, agents):
    attempts.agent = agents(with_parents("idle=0.5"))
    attempts.write("import os; print(os.getppid())")
    attempts.until_warm()
    children = set(machine.children_of(attempts.agent.process.pid))
    assert children
    wait_until(lambda: not machine.children_of(attempts.agent.process.pid), what="the end of all parents")
    assert how_started(attempts.run())["warm"]


@pytest.mark.parametrize(("arguments", "cause"), [("memory=1024 * 1024", "memory"), ("import_seconds=0.5", "slow")])
def test_the_limits_of_parents(attempts, agents, arguments, cause, tmp_path):
    attempts.agent = agents(with_parents(arguments))
    (tmp_path / "slowly.py").write_text("import time\ntime.sleep(99 if 'memory' not in __doc__ else 0)\n".replace(
        "__doc__", repr(cause)))
    attempts.write("print('ran')")
    asked = {"warm": ["slowly"], "environment": {"PYTHONPATH": str(tmp_path)}}
    start = wait_until(lambda: how_started(attempts.run(**asked)), what="a trial of which the cause is told")
    assert (start["warm"], start["cause"]) == (False, cause)


def test_a_parent_that_answers_no_more_is_ended_and_the_next_trials_start_plainly(attempts, agents):
    attempts.agent = agents(with_parents("import_seconds=5.0"))
    attempts.write("import os\nprint(open('/proc/%d/stat' % os.getppid()).read().rpartition(')')[2].split()[1])")
    parent = int(stdout(attempts.until_warm()))
    os.kill(parent, signal.SIGSTOP)
    runs = [attempts.start() for _ in range(2)]
    assert [stdout(attempts.ended(run)).strip().isdecimal() for run in runs] == [True, True]
    assert not any(how_started(run).get("warm") for run in runs)
    wait_until(lambda: not lives(parent), what="the end of the parent")
    assert how_started(attempts.run())["cause"] == "slow", "and no other one is tried for a while"
