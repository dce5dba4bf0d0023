"""Workers of a run are forked with their libraries, and are otherwise what execnet starts (workers.py)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import execnet
import pytest

from tests.forking import workers as forked_workers
from tests.forking.workers import ForkedWorkers

TELL = """
import os, sys
channel.send([os.getpid(), "graphlib" in sys.modules, os.environ["FOR_WORKERS"], sys.argv,
              sys.modules["__main__"].__name__, os.getcwd()])
assert channel.receive() == "die"
print("on its standard output, which is nobody's")
os._exit(3)
"""

pytestmark = pytest.mark.skipif(not forked_workers.can_be_used(), reason="Linux only")


@pytest.fixture
def workers() -> Iterator[ForkedWorkers]:
    workers = ForkedWorkers(["graphlib"])
    workers.take_the_place_of_execnets()
    yield workers
    workers.end()


def test_each_has_the_libraries_and_its_own_environment_and_folder_and_its_end_is_seen(
        workers: ForkedWorkers, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    group = execnet.Group(execmodel="main_thread_only")
    told = {}
    for name in ("one", "other"):
        monkeypatch.setenv("FOR_WORKERS", name)
        channel = group.makegateway("popen//execmodel=main_thread_only").remote_exec(TELL)
        told[name] = (channel, channel.receive(60))
    assert {answer[2]: answer[1:2] + answer[3:] for _, answer in told.values()} == dict.fromkeys(
        ("one", "other"), [True, ["-c"], "__main__", str(tmp_path)])
    assert len({answer[0] for _, answer in told.values()}) == 2
    channel, _ = told["one"]
    channel.send("die")
    with pytest.raises(EOFError):
        channel.receive(60)
    group.terminate(60)  # the other one waits for an answer


def test_elsewhere_execnet_starts_them_as_ever(workers: ForkedWorkers) -> None:
    workers.end()
    group = execnet.Group(execmodel="main_thread_only")
    channel = group.makegateway("popen").remote_exec("import sys\nchannel.send('graphlib' in sys.modules)")
    assert channel.receive(60) is False
    group.terminate(60)
