"""A process that leaves its trial by all means there are, and how tests find it."""

from tests.trialkeeper.keeper_run import KeeperRun, wait_until
from trialkeeper import contract, machine

#: Leaves its session, its parent and its signals behind, and goes on for ever.
HIDER = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGHUP, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.environ.clear()
        os.execve("/bin/sh", ["sh", "-c", "trap '' TERM; echo $$ > hider.pid; while :; do sleep 0.05; done"], {})
    os._exit(0)
os.wait()
"""


def lives(pid: int) -> bool:
    return machine.process_start_time(pid) is not None


def hider_pid(keeper: KeeperRun) -> int:
    path = keeper.folder / contract.CODE_FOLDER / "hider.pid"
    return int(wait_until(lambda: path.exists() and path.read_text().strip(), what="the hiding process"))
