"""What is kept of trials that are over: memory, descriptors and threads while thousands of short ones pass.

    .venv/bin/python benchmarks/soak.py [10000]

The trials report a result and end, eight at a time, on the local platform. Meanwhile pages are open, as browsers have
them: websockets that watch the experiment, its log, the list of experiments, the clusters and a trial, and each second
the next of the pages and REST answers that somebody looks at. The first thousand trials (of fewer than 2,000 the first
half) are left out of the figures: what is made once, caches that fill, what is remembered for a minute. Of the rest the
least of each 25 seconds counts, because a page about all trials takes megabytes for its moment, the server gives freed
memory back each 20 seconds, and what is looked for is what stays. The slope is that of the line of least squares
through these. Server and worker are one process, as ``serve`` has it.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import requests  # noqa: E402
from websockets.sync.client import connect  # noqa: E402

from benchmarks.cost_curves import session_of  # noqa: E402
from benchmarks.reporting import Report  # noqa: E402
from benchmarks.trial_start import AT_ONCE, COMMAND, NOTHING  # noqa: E402
from tests.end_to_end.running_server import RunningServer  # noqa: E402

#: Kilobytes of memory for a further trial. The server's pages about all trials need more for a moment the more there
#: are. Agent and tuner process have to remember nothing: one entry in a dictionary of Python is twice what they may.
SERVER_LIMIT, FLAT = 0.5, 0.05
#: Descriptors, or threads, for a thousand trials: their number goes up and down by some as trials start and pages open.
COUNT_LIMIT = 0.5
#: Trials that are left out of the figures.
FIRST = 1000
#: Seconds of the stretches of which the least counts: more than nniweb.process.freed_memory.EVERY.
STRETCH = 25.0
#: Seconds between two looks at the processes, and between two pages that somebody looks at.
LOOK_EVERY = PAGE_EVERY = 1.0


@dataclass(frozen=True)
class Look:
    """What a process has when so many trials are over. ``memory``: kilobytes that are resident."""

    trials: int
    memory: int
    descriptors: int
    threads: int


def look_at(pid: int, trials: int) -> Look:
    """Raises OSError where the process has gone."""
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return Look(trials, int(fields["VmRSS"].split()[0]), len(os.listdir(f"/proc/{pid}/fd")), int(fields["Threads"]))


def parts_of(worker_pid: int) -> dict[str, int]:
    """Process ids of a worker's agent and tuner process, by name, as far as they run."""
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with suppress(OSError):  # it has just ended
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                command = (folder / "cmdline").read_bytes()
                if parent == worker_pid and b"nniweb.tuning.process.tuner_process" in command:
                    found["tuner"] = int(folder.name)
                elif parent == worker_pid and b"/keeper-" in command:
                    found["agent"] = int(folder.name)
    return found


def slope(looks: Sequence[Look], what: str) -> float:
    """Of the line of least squares through the least of each stretch: so much more of it for each trial."""
    size = min(round(STRETCH / LOOK_EVERY), len(looks) // 2)
    stretches = [looks[start: start + size] for start in range(0, len(looks) - size + 1, size)]  # whole ones
    points = [(stretch[len(stretch) // 2].trials, min(getattr(look, what) for look in stretch))
              for stretch in stretches]
    middle_x, middle_y = (sum(values) / len(points) for values in zip(*points, strict=True))
    return sum((x - middle_x) * (y - middle_y) for x, y in points) / sum((x - middle_x) ** 2 for x, _ in points)


class Pages:
    """What people have open while the trials run, as their browsers would ask for it. Ends with the block."""

    def __init__(self, server: RunningServer, experiment: str) -> None:
        self._server, self._experiment = server, experiment
        self._cookie = f"sessionid={session_of(server)}"
        self._over = threading.Event()
        self._threads: list[threading.Thread] = []
        #: Documents and pages that were answered, frames that came.
        self.answers = self.frames = 0
        self.faults: list[str] = []

    def __enter__(self) -> Pages:
        for topic in (f"experiment/{self._experiment}", f"log/{self._experiment}", "experiments", "clusters"):
            self._start(self._watch, topic, self._over)
        self._start(self._look_around)
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _start(self, target: Callable[..., None], *arguments: object) -> threading.Thread:
        def work() -> None:
            try:
                target(*arguments)
            except Exception as error:
                self.faults.append(f"{target.__name__} {arguments}: {type(error).__name__}: {error}")

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        self._threads.append(thread)
        return thread

    def _watch(self, topic: str, over: threading.Event) -> None:
        """Take the frames about this until it is over."""
        with connect(self._server.url.replace("http", "ws", 1) + "/live/", proxy=None, max_size=None,
                     origin=self._server.url, additional_headers={"Cookie": self._cookie}) as socket:  # type: ignore[arg-type]
            socket.send(json.dumps({"watch": topic, "since": 0, "rows": {}}))
            while not over.is_set():
                with suppress(TimeoutError):
                    socket.recv(timeout=0.5)
                    self.frames += 1

    def _look_around(self) -> None:
        """One page after the other, each second; now and then another trial's page, with its own websocket."""
        its, documents = f"/experiments/{self._experiment}/", f"/api/v1/experiments/{self._experiment}/"
        newest = f"{documents}trials/?page_size=50&order=-sequence_id"
        addresses = itertools.cycle([
            its, f"{its}trials/", documents, newest, f"{documents}chart/", "/", f"{its}timeline/", f"{its}log/",
            newest, f"{its}events/", "/clusters/", f"{documents}trials/?page_size=50&order=-final_value"])
        leaves = threading.Event()
        with requests.Session() as session:
            session.trust_env = False
            session.headers["Cookie"] = self._cookie
            while not self._over.wait(PAGE_EVERY):
                address = next(addresses)
                answer = self._get(session, address)
                if address == newest and answer.ok and (rows := answer.json()["results"]):
                    self._get(session, f"/trials/{rows[0]['id']}/")
                    leaves.set()
                    leaves = threading.Event()
                    self._start(self._watch, f"trial/{rows[0]['id']}", leaves)
            leaves.set()

    def _get(self, session: requests.Session, address: str) -> requests.Response:
        answer = session.get(self._server.url + address, timeout=60)
        self.answers += 1
        if not answer.ok:
            self.faults.append(f"{address} was answered with {answer.status_code}: {answer.text[:200]}")
        return answer


def soak(server: RunningServer, folder: Path, trials: int) -> dict[str, list[Look]]:
    """Looks at the processes, by name, from the first trial to the last."""
    experiment = server.launch({
        "trialCommand": " ".join(COMMAND), "trialCodeDirectory": str(folder), "trialConcurrency": AT_ONCE,
        "maxTrialNumber": trials, "tuner": {"name": "Random"}, "trainingService": {"platform": "local"},
        "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}}}, folder)
    looks: dict[str, list[Look]] = {}
    told = 0
    begin = time.monotonic()
    with Pages(server, experiment) as pages:
        while (found := server.get(f"experiments/{experiment}/"))["status"] != "DONE" and not pages.faults:
            assert found["status"] in ("INITIALIZED", "RUNNING", "NO_MORE_TRIAL"), found["message"]
            over = found["progress"]["ended"]
            for name, pid in {"server": server.pid, **parts_of(server.pid)}.items():
                with suppress(OSError):  # it has just ended
                    looks.setdefault(name, []).append(look_at(pid, over))
            if over >= told:
                told += max(1, trials // 10)
                print(f"  {over:,} trials in {time.monotonic() - begin:.0f} s: " + ", ".join(
                    f"{name} {its[-1].memory / 1000:.1f} MB" for name, its in looks.items()), flush=True)
            time.sleep(LOOK_EVERY)
    assert not pages.faults, pages.faults
    print(f"  {pages.answers:,} pages and documents, {pages.frames:,} frames", flush=True)
    return looks


def add(report: Report, looks: Mapping[str, Sequence[Look]], trials: int) -> None:
    for part in ("server", "agent", "tuner"):
        later = [look for look in looks[part] if look.trials >= min(FIRST, trials // 2)]
        report.add(f"{trials:,} short trials with pages open: memory of the {part} for a further one",
                   slope(later, "memory"), "kB", limit=SERVER_LIMIT if part == "server" else FLAT,
                   beside=f"{later[0].memory / 1000:.1f} MB, then {later[-1].memory / 1000:.1f} MB, at most "
                          f"{max(look.memory for look in later) / 1000:.1f} MB")
        for what in ("descriptors", "threads"):
            report.add(f"... {what} of the {part} for a thousand", 1000 * slope(later, what), "", limit=COUNT_LIMIT,
                       beside=f"{getattr(later[0], what)}, then {getattr(later[-1], what)}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trials", type=int, nargs="?", default=10_000)
    options = parser.parse_args()
    if options.trials < 200:
        parser.error("the slope of fewer than 200 trials says nothing")
    report = Report(__file__)
    with tempfile.TemporaryDirectory() as name:
        code = Path(name) / "code"
        code.mkdir()
        (code / "trial.py").write_text(NOTHING)
        with closing(RunningServer(Path(name) / "data")) as server:
            server.start()
            looks = soak(server, code, options.trials)
        add(report, looks, options.trials)
        return report.finish()  # now: removing what so many trials left takes its time


if __name__ == "__main__":
    sys.exit(main())
