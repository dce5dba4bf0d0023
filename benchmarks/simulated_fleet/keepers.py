"""All keepers of a simulated fleet in one process: what they say to the server and when is what real ones do.

    python -m benchmarks.simulated_fleet.keepers < plan.json > found.json

They are cheap, because they share the machine with the server that is measured: one object and at most one connection
for each keeper, no coroutine, HTTP by hand. A keeper has a metric each second, and sends it at once or gathers several
as long as the server asks for; or it sends nothing but signs of life, as often as the server asks for. Where an address
does not answer it asks the other one, as keepers do that were given several. A stop comes from the platform as a
datagram with the job's name.
"""

from __future__ import annotations

import asyncio
import json
import random
import resource
import sys
import time
from dataclasses import asdict, dataclass, field
from typing import Any

import orjson

from trialkeeper import contract

#: Seconds between two metrics of a keeper that reports.
EACH = 1.0
#: Seconds after a fault until a keeper tries again: at first, and at most; as trialkeeper.reporter does.
PAUSES = (0.5, 30.0)
#: The chance with which a keeper that another web has taken over goes back with its next report, as behind a proxy that
#: balances.
GO_HOME = 0.05
#: Seconds that one answer may take until the connection counts as broken.
PATIENCE = 60.0
#: Seconds after the end in which what is under way is answered.
DRAIN = 90.0


@dataclass
class Plan:
    """``seconds``: the run lasts; ``reporting``: the part of the keepers that send a metric each second; ``spread``:
    seconds over which the quiet ones begin; ``gathers``: keepers gather metrics as the server asks for; else each
    report has one metric, and the next comes a second after its answer.
    """

    names: list[str]
    ports: list[int]
    token: str
    seconds: float
    reporting: float
    spread: float
    gathers: bool = True


@dataclass
class Found:
    """Times are monotonic seconds of this machine, durations are seconds."""

    answered: int = 0
    refused: int = 0
    repeated: int = 0
    #: Of those, how many the server asked to come again.
    put_off: int = 0
    unanswered: int = 0
    quiet: int = 0
    opened: int = 0
    #: Of each report that was answered, from when it was sent first; and when that was.
    durations: list[float] = field(default_factory=list)
    sent_at: list[float] = field(default_factory=list)
    #: Job name -> entries that the server has acknowledged; the first one was there before.
    accepted: dict[str, int] = field(default_factory=dict)
    #: Job name -> when its stop was heard, and whether by the answer to a report.
    stopped: dict[str, tuple[float, bool]] = field(default_factory=dict)
    intervals: list[float] = field(default_factory=list)
    #: For how many seconds those with metrics were asked to gather them.
    gathered: list[float] = field(default_factory=list)
    processor_seconds: float = 0.0
    ended_at: float = 0.0


class Keeper(asyncio.Protocol):
    """One keeper and its connection."""

    __slots__ = ("accepted", "asked_at", "buffer", "fleet", "head", "home", "is_busy", "is_over", "is_stopping",
                 "metric_due", "name", "place", "retries", "sent", "timer", "transport")

    def __init__(self, fleet: Fleet, name: str, place: int, is_busy: bool) -> None:
        self.fleet, self.name, self.place, self.home, self.is_busy = fleet, name, place, place, is_busy
        self.accepted, self.retries, self.asked_at, self.metric_due = 1, 0, 0.0, 0.0
        self.is_over = self.is_stopping = False
        self.transport: asyncio.Transport | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.buffer = self.sent = b""
        self.head = (f"POST {contract.URL_PREFIX}trials/{name}/reports HTTP/1.1\r\nHost: fleet\r\n"
                     f"Authorization: Bearer {fleet.plan.token}\r\nContent-Length: ").encode()

    def fire(self) -> None:
        """Report now; the time of this report is counted from here, however often it has to be sent."""
        self.timer = None
        if self.asked_at or self.is_over:
            return
        if self.fleet.is_over:
            self.is_over = True
            return
        self.asked_at = time.monotonic()
        if self.place != self.home and random.random() < GO_HOME:
            self.place = self.home
            if self.transport is not None:
                self.leave()
        n, now = self.accepted + 1, time.time()
        entries: list[str] = []
        if self.is_stopping:
            entries.append(f'{{"n":{n},"at":{now},"type":"ended","exit_code":null,"signal":15,"reason":"stopped",'
                           '"message":"","duration":1.0}')
        elif self.is_busy:
            self.metric_due = (self.metric_due if self.fleet.plan.gathers else 0.0) or self.asked_at
            while self.metric_due <= self.asked_at:
                at = now - (self.asked_at - self.metric_due)
                entries.append(f'{{"n":{n},"at":{at},"type":"metric","kind":"PERIODICAL","parameter_id":0,'
                               f'"sequence":{n - 2},"value":"0.5"}}')
                n, self.metric_due = n + 1, self.metric_due + EACH
        body = (f'{{"keeper":{{"version":1,"journal_id":"{self.name}","host":"box","pid":1}},"sent_at":{now},'
                f'"entries":[{",".join(entries)}]}}')
        self.sent = self.head + f"{len(body)}\r\n\r\n{body}".encode()
        self.send()

    def send(self) -> None:
        self.timer = self.fleet.loop.call_later(PATIENCE, self.give_up)
        if self.transport is not None:
            self.transport.write(self.sent)
        else:
            self.fleet.open(self)

    def give_up(self) -> None:
        self.timer = None
        if self.transport is not None:
            self.transport.abort()

    def broken(self) -> None:
        """Where somebody waits for an answer: again, at the other address."""
        if not self.asked_at:
            return  # it makes another connection with its next report
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        if not self.is_over:
            self.place += 1
            self.fleet.found.repeated += 1
            pause = min(PAUSES[0] * 2 ** (self.retries // len(self.fleet.plan.ports)), PAUSES[1])
            # as a keeper that was given several addresses: the next one at once, and a pause when all were tried
            pause = 0.0 if self.retries % len(self.fleet.plan.ports) == 0 else pause * random.uniform(0.75, 1.25)
            self.retries += 1
            self.timer = self.fleet.loop.call_later(pause, self.send)

    # --- the connection --------------------------------------------------------------------

    def connection_made(self, transport: Any) -> None:
        self.transport, self.buffer = transport, b""
        transport.write(self.sent)

    def connection_lost(self, error: Exception | None) -> None:
        self.transport = None
        self.broken()

    def data_received(self, data: bytes) -> None:
        if self.buffer:
            data = self.buffer + data
        end = data.find(b"\r\n\r\n")
        if end < 0:
            self.buffer = data
            return
        head = data[:end].lower()
        at = head.find(b"content-length:") + 15
        stop = head.find(b"\r", at)
        length = int(head[at:] if stop < 0 else head[at:stop])
        if len(data) < end + 4 + length:
            self.buffer = data
            return
        self.buffer = b""
        if b"connection: close" in head:
            self.leave()
        self.answer(int(data[9:12]), data[end + 4:])

    def leave(self) -> None:
        """Close the connection, of which nothing is heard any more."""
        transport, self.transport = self.transport, None
        if transport is not None:
            transport.set_protocol(_CLOSED)
            transport.close()

    def answer(self, status: int, body: bytes) -> None:
        fleet, found = self.fleet, self.fleet.found
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        if status != 200:
            if status in (429, 503):  # it is asked to come again
                found.repeated += 1
                found.put_off += 1
                self.timer = fleet.loop.call_later(1.0, self.send)
                return
            found.refused += 1
            fleet.refusal = body.decode(errors="replace")
            self.is_over = True
            return
        document = orjson.loads(body)
        now = time.monotonic()
        found.answered += 1
        found.durations.append(now - self.asked_at)
        found.sent_at.append(self.asked_at)
        self.asked_at, self.retries = 0.0, 0
        self.accepted = document["accepted"]
        if self.is_stopping:
            if not document["orders"]:
                self.is_over = True
            else:  # its end comes with the next report
                fleet.loop.call_soon(self.fire)
            return
        within = document["next_report_within"]
        if document["orders"]:
            self.stop(by_answer=True)
        elif self.is_busy:
            gather_for = document.get("gather_for", 0.0)
            found.gathered.append(gather_for)
            due = max(self.metric_due, now + gather_for) if fleet.plan.gathers else now + EACH
            self.timer = fleet.loop.call_later(max(0.0, due - now), self.fire)
        else:
            found.quiet += 1
            found.intervals.append(within)
            self.timer = fleet.loop.call_later(within, self.fire)

    def stop(self, *, by_answer: bool = False) -> None:
        """It shall end: by the platform's word, or by an order."""
        if self.is_stopping or self.is_over:
            return
        self.is_stopping = True
        self.fleet.found.stopped[self.name] = (time.monotonic(), by_answer)
        if not self.asked_at:
            if self.timer is not None:
                self.timer.cancel()
            self.fire()


class _Closed(asyncio.Protocol):
    """Of connections that the server asked to close."""


_CLOSED = _Closed()


class Stops(asyncio.DatagramProtocol):
    """Where the platform says which trials are to end."""

    def __init__(self, keepers: dict[str, Keeper]) -> None:
        self._keepers = keepers

    def datagram_received(self, data: bytes, address: Any) -> None:
        if (keeper := self._keepers.get(data.decode())) is not None:
            keeper.stop()


class Fleet:
    def __init__(self, plan: Plan) -> None:
        self.plan, self.found = plan, Found()
        self.loop = asyncio.get_running_loop()
        self.is_over = False
        self.refusal = ""
        busy = round(len(plan.names) * plan.reporting)
        self.keepers = {name: Keeper(self, name, place, place < busy) for place, name in enumerate(plan.names)}
        self._opening: set[asyncio.Task[None]] = set()

    def open(self, keeper: Keeper) -> None:
        task = self.loop.create_task(self._open(keeper))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    async def _open(self, keeper: Keeper) -> None:
        try:
            self.found.opened += 1
            await self.loop.create_connection(
                lambda: keeper, "127.0.0.1", self.plan.ports[keeper.place % len(self.plan.ports)])
        except OSError:
            keeper.broken()

    async def run(self) -> Found:
        plan, found = self.plan, self.found
        transport, _ = await self.loop.create_datagram_endpoint(lambda: Stops(self.keepers), ("127.0.0.1", 0))
        print(json.dumps({"stops": transport.get_extra_info("sockname")[1]}), flush=True)
        await asyncio.to_thread(sys.stdin.readline)  # the worker has to know the port before it begins
        for keeper in self.keepers.values():
            keeper.timer = self.loop.call_later(
                random.uniform(0.0, EACH if keeper.is_busy else plan.spread), keeper.fire)
        used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
        await asyncio.sleep(plan.seconds)
        found.processor_seconds = sum(resource.getrusage(resource.RUSAGE_SELF)[:2]) - used
        self.is_over = True
        deadline = time.monotonic() + DRAIN
        while time.monotonic() < deadline and any(keeper.asked_at and not keeper.is_over
                                                  for keeper in self.keepers.values()):
            await asyncio.sleep(0.2)
        found.unanswered = sum(bool(keeper.asked_at) and not keeper.is_over for keeper in self.keepers.values())
        found.accepted = {name: keeper.accepted for name, keeper in self.keepers.items()}
        found.ended_at = time.monotonic()
        transport.close()
        return found


async def main() -> None:
    fleet = Fleet(Plan(**json.loads(sys.stdin.readline())))
    found = await fleet.run()
    if fleet.refusal:
        print(f"a report was refused: {fleet.refusal}", file=sys.stderr)
    print(json.dumps(asdict(found)), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
