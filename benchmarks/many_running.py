"""5,000 running trials on one server, each with a keeper of its own that reports every ten seconds.

    .venv/bin/python benchmarks/many_running.py [--trials 5000] [--seconds 60]

The keepers are simulated: one connection each, kept alive, as real ones have it, all held by one process beside the
server (5,000 real ones would measure this machine's memory). Printed: whether the server kept up, how long answers
took at the beginning and at the end, and its memory and descriptors for a trial.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.reporting import Report  # noqa: E402
from tests.end_to_end.running_server import RunningServer  # noqa: E402
from tests.end_to_end.simulated_trials import TOKEN, SimulatedTrials  # noqa: E402

#: Seconds between two reports of one keeper.
INTERVAL = 10.0
#: Of the reports that were due, so many came and were answered with good words; kilobytes of the server for a trial;
#: how many times as long an answer may take in the last third as in the first (99 of 100).
ANSWERED, MEMORY, GROWTH = 0.99, 200.0, 1.5


class Connection:
    """Kept alive, and made again where it broke, as keepers do."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, path: str, body: bytes) -> tuple[int, Any]:
        """Status and JSON of the answer; asks again where the connection breaks."""
        while True:
            try:
                return await self._post(path, body)
            except (OSError, asyncio.IncompleteReadError):
                self.close()
                await asyncio.sleep(0.5)

    async def _post(self, path: str, body: bytes) -> tuple[int, Any]:
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        writer.write(f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\nAuthorization: Bearer {TOKEN}\r\n"
                     f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
        status, _, fields = (await reader.readuntil(b"\r\n\r\n")).lower().partition(b"\r\n")
        length = next(int(field.partition(b":")[2]) for field in fields.split(b"\r\n")
                      if field.startswith(b"content-length"))
        return int(status.split()[1]), json.loads(await reader.readexactly(length))

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


async def keeper(port: int, name: str, begin: float, end: float, answers: list[tuple[float, float]]) -> None:
    """One simulated keeper: reports one metric each INTERVAL; notes when it asked and how long the answer took."""
    loop = asyncio.get_running_loop()
    await asyncio.sleep(begin - loop.time())
    connection = Connection(port)
    n = 0
    while (due := begin + n * INTERVAL) < end:
        await asyncio.sleep(max(0.0, due - loop.time()))
        n += 1
        body = json.dumps({"keeper": {"version": 1, "journal_id": name, "host": "box", "pid": 1},
                           "sent_at": time.time(), "entries": [
                               {"n": n, "at": time.time(), "type": "metric", "kind": "PERIODICAL", "parameter_id": 0,
                                "sequence": n, "value": "0.5"}]}).encode()
        asked = loop.time()
        status, answer = await connection.post(f"/api/trialkeeper/v1/trials/{name}/reports", body)
        if status == 200 and answer["accepted"] == n:
            answers.append((due, loop.time() - asked))
    connection.close()


async def all_keepers(port: int, names: list[str], seconds: float) -> list[tuple[float, float]]:
    answers: list[tuple[float, float]] = []
    begin = asyncio.get_running_loop().time() + 1
    await asyncio.gather(*(keeper(port, name, begin + place * INTERVAL / len(names), begin + seconds, answers)
                           for place, name in enumerate(names)))
    return sorted((due - begin, took) for due, took in answers)


def resident(pid: int, most: bool = False) -> int:
    """Bytes of memory of the process: now, or the most it ever had."""
    field = "VmHWM:" if most else "VmRSS:"
    [line] = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith(field)]
    return int(line.split()[1]) * 1024


def p99(answers: list[tuple[float, float]]) -> float:
    times = sorted(took for _, took in answers)
    return 1000 * times[int(0.99 * len(times))] if times else float("inf")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=5_000)
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    report = Report(__file__)
    with tempfile.TemporaryDirectory() as name, closing(RunningServer(Path(name) / "data")) as server:
        server.start()
        trials = SimulatedTrials(server, running=options.trials)
        server.get(f"experiments/{trials.experiment}/")  # what is loaded once is loaded
        before = resident(server.pid)
        answers = asyncio.run(all_keepers(server.port, trials.running, options.seconds))
        memory = (resident(server.pid, most=True) - before) / options.trials / 1000
    due = sum(1 for place in range(options.trials)
              for _ in range(len(range(int(place * INTERVAL * 1000 / options.trials), int(options.seconds * 1000),
                                       int(INTERVAL * 1000)))))
    third = options.seconds / 3
    first = p99([answer for answer in answers if answer[0] < third])
    last = p99([answer for answer in answers if answer[0] >= 2 * third])
    report.add(f"{options.trials:,} running trials, a report each {INTERVAL:.0f} s: answered of those due",
               len(answers) / due, "", limit=ANSWERED, at_least=True, beside=f"{len(answers) / options.seconds:.0f}/s")
    report.add("answer, 99 %, in the last third beside the first", last / first, "x", limit=GROWTH,
               beside=f"{first:.0f} ms, then {last:.0f} ms")
    report.add("memory of the server for a running trial", memory, "kB", limit=MEMORY)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
