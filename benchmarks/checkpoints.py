"""What checkpoints cost: how fast a large one reaches the server, and whether anything else waits for it meanwhile.

A trial saves a checkpoint of so many megabytes, which its keeper sends; the time is that from its announcement until
the server counts it. In the same run the same bytes are copied over a loopback socket by a process that reads the file,
to one that hashes what comes and writes it, flushed at the end. Other keepers report metrics meanwhile, beside both,
and once while nothing else happens; their answers of all rounds are taken together. How long a commit waits for a disk
that others write to differs between disks; what is measured begins when the disk has written what came before.

    .venv/bin/python benchmarks/checkpoints.py [--megabytes 1024] [--rounds 3]
"""

from __future__ import annotations

import argparse
import hashlib
import inspect
import multiprocessing
import os
import socket
import sqlite3
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.ingest import Keepers  # noqa: E402
from benchmarks.reporting import Report  # noqa: E402
from tests.end_to_end.running_server import RunningServer  # noqa: E402
from tests.end_to_end.simulated_trials import SimulatedTrials  # noqa: E402

#: At least so much of what copying and hashing reaches.
RATE_LIMIT = 0.7
#: Megabytes by which the server may grow.
GROWTH_LIMIT = 50.0
#: Milliseconds within which 99 of 100 reports of metrics are answered.
P99_LIMIT = 150.0
#: Reports of other keepers in a second, all together.
REPORTS = 40.0
MIB = 2 ** 20



def wait_for_a_quiet_disk(folder: str) -> None:
    """Until the disk has nothing left to do of what was written before: ten flushes of little, each within 10 ms."""
    quick, until = 0, time.monotonic() + 60
    with open(os.path.join(folder, "flushed"), "wb") as file:
        while quick < 10 and time.monotonic() < until:
            file.write(b"x")
            file.flush()
            begun = time.monotonic()
            os.fsync(file.fileno())
            quick = quick + 1 if time.monotonic() < begun + 0.01 else 0
            time.sleep(0.02)


TRIAL = """\
import nni, os, sys, time
""" + inspect.getsource(wait_for_a_quiet_disk) + """\
nni.get_next_parameter()
go, begun, size = sys.argv[1], sys.argv[2], int(sys.argv[3])
for number in range(int(sys.argv[4])):
    while not os.path.exists("%s%d" % (go, number)):
        time.sleep(0.01)
    with nni.save_checkpoint(step=number) as path:
        with open(path, "wb") as file:
            for _ in range(size // 2 ** 20):
                file.write(os.urandom(2 ** 20))
            file.flush()
            os.fsync(file.fileno())
        wait_for_a_quiet_disk(os.path.dirname(begun))
        with open(begun + ".draft", "w") as file:
            file.write(repr(time.time()))
        os.rename(begun + ".draft", "%s%d" % (begun, number))
nni.report_final_result(0.0)
"""


def copy_and_hash(source: Path, target: Path) -> float:
    """Seconds in which the file gets from one process to another over a loopback socket, is hashed and is written."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        sender = multiprocessing.Process(target=_send, args=(source, server.getsockname()[1]))
        begin = time.monotonic()
        sender.start()
        connection, _ = server.accept()
        digest = hashlib.sha256()
        with connection, open(target, "wb") as file:
            while piece := connection.recv(MIB):
                digest.update(piece)
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        seconds = time.monotonic() - begin
        sender.join()
    target.unlink()
    return seconds


def _send(source: Path, port: int) -> None:
    with socket.create_connection(("127.0.0.1", port)) as connection, open(source, "rb") as file:
        connection.sendfile(file)


def percentile(times: list[float]) -> float:
    """Milliseconds within which 99 of 100 of these answers came. ``times``: in seconds."""
    return 1000 * sorted(times)[int(0.99 * len(times))]


def resident_megabytes(pid: int) -> float:
    """Of the server's process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise AssertionError("a process without memory")


class Sampled:
    """The greatest value of something that is looked at again and again."""

    def __init__(self, look: Callable[[], float]) -> None:
        self.greatest = look()
        self._look, self._ended = look, threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.wait(0.1):
            self.greatest = max(self.greatest, self._look())

    def end(self) -> float:
        self._ended.set()
        self._thread.join()
        return self.greatest


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    report = Report(__file__)
    size = options.megabytes * MIB

    with tempfile.TemporaryDirectory() as name, closing(RunningServer(Path(name) / "data")) as server:
        server.start()
        folder = Path(name)
        code = folder / "code"
        code.mkdir()
        (code / "trial.py").write_text(TRIAL)
        go, begun = folder / "go", folder / "begun"
        others = SimulatedTrials(server, running=8)
        keepers = Keepers(server.port, others.running)
        experiment = server.launch({
            "trialCommand": f"python3 trial.py {go} {begun} {size} {options.rounds}", "trialConcurrency": 1,
            "maxTrialNumber": 1, "tuner": {"name": "Random"}, "trainingService": {"platform": "local"},
            "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}}}, code)
        trial = server.wait_until(lambda: server.get_all(f"experiments/{experiment}/trials/"), what="a trial")[0]["id"]
        server.wait_until(lambda: server.get(f"trials/{trial}/")["status"] == "RUNNING", what="it runs")

        # the database itself is asked: a question over REST ten times a second would be a load of its own
        database = sqlite3.connect(f"file:{server.data_folder}/nniweb.sqlite3?mode=ro", uri=True)

        def confirmed(number: int) -> bool:
            return bool(database.execute("SELECT 1 FROM experiments_checkpoint WHERE step = ? AND confirmed_at "
                                         "IS NOT NULL", [number]).fetchone())

        source = folder / "source"
        with open(source, "wb") as file:
            for _ in range(options.megabytes):
                file.write(os.urandom(MIB))
            file.flush()
            os.fsync(file.fileno())  # else the kernel writes it some time later, beside what is measured
        ratios: list[float] = []
        ours: list[float] = []
        plain: list[float] = []
        growth = 0.0
        answers: list[float] = []
        plain_answers: list[float] = []
        undisturbed = percentile(keepers.post(1, 4.0, REPORTS))
        for number in range(options.rounds):
            wait_for_a_quiet_disk(name)
            beside: list[float] = []
            posting = threading.Thread(target=lambda beside=beside: beside.extend(keepers.post(
                1, max(2.0, plain[-1] if plain else 4.0), REPORTS)))
            posting.start()
            plain.append(copy_and_hash(source, folder / "target"))
            posting.join()
            plain_answers += beside
            before = resident_megabytes(server.pid)
            memory = Sampled(lambda: resident_megabytes(server.pid))
            Path(f"{go}{number}").touch()
            started = server.wait_until(lambda number=number: Path(f"{begun}{number}").exists()
                                        and float(Path(f"{begun}{number}").read_text()), 120, "it is saved")
            times: list[float] = []
            posting = threading.Thread(target=lambda times=times: times.extend(keepers.post(
                1, max(2.0, 1.5 * plain[-1]), REPORTS)))
            posting.start()
            server.wait_until(lambda number=number: confirmed(number), 300, "it counts")
            ours.append(time.time() - started)
            posting.join()
            growth = max(growth, memory.end() - before)
            answers += times
            ratios.append(plain[-1] / ours[-1])
        database.close()
        report.add(f"checkpoint of {options.megabytes} MB reaches the server, throughput", statistics.median(ratios),
                   "x copy + hash", limit=RATE_LIMIT, at_least=True,
                   beside=f"{options.megabytes / statistics.median(ours):.0f} MB/s beside "
                          f"{options.megabytes / statistics.median(plain):.0f}")
        report.add("the server's memory meanwhile, growth", growth, "MB", limit=GROWTH_LIMIT)
        report.add("answer to a report of other keepers meanwhile, 99 %", percentile(answers), "ms", limit=P99_LIMIT,
                   beside=f"{percentile(plain_answers):.0f} ms while the copy is made, {undisturbed:.0f} ms before")
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
