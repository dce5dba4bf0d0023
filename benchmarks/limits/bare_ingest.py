"""The least that taking in keepers' reports can cost: Daphne, one ASGI function, SQLite, group commit.

Knows tokens, drops what it has, answers after the commit, and does nothing else: no Django, no trials, no bell.
What the product reaches beside it says what all the rest costs.

    python benchmarks/limits/bare_ingest.py DATABASE PORT TOKEN        # prints "listening" when it does
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import sqlite3
import sys
import threading
from typing import Any


class Store:
    """Rows of many reports in one transaction, as durable as the product's. ``put`` is called on the loop."""

    def __init__(self, path: str, loop: asyncio.AbstractEventLoop) -> None:
        self._path = path
        self._loop = loop
        self._waiting: list[tuple[list[tuple[Any, ...]], asyncio.Future[None]]] = []
        self._condition = threading.Condition()
        threading.Thread(target=self._run, daemon=True).start()

    async def put(self, rows: list[tuple[Any, ...]]) -> None:
        done: asyncio.Future[None] = self._loop.create_future()
        with self._condition:
            self._waiting.append((rows, done))
            self._condition.notify()
        await done

    def _run(self) -> None:
        database = sqlite3.connect(self._path, isolation_level=None)
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA synchronous=FULL")
        database.execute("CREATE TABLE IF NOT EXISTS metric (job TEXT, n INTEGER, kind TEXT, sequence INTEGER, "
                         "value TEXT, number REAL, at REAL, PRIMARY KEY (job, n)) WITHOUT ROWID")
        while True:
            with self._condition:
                while not self._waiting:
                    self._condition.wait()
                group, self._waiting = self._waiting, []
            database.execute("BEGIN IMMEDIATE")
            for rows, _ in group:
                database.executemany("INSERT OR IGNORE INTO metric VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
            database.execute("COMMIT")
            self._loop.call_soon_threadsafe(lambda group=group: [done.set_result(None) for _, done in group])


class Application:
    def __init__(self, path: str, token: str) -> None:
        self._path = path
        self._hash = hashlib.sha256(token.encode()).hexdigest()
        self._accepted: dict[str, int] = {}
        self._store: Store | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if self._store is None:
            self._store = Store(self._path, asyncio.get_running_loop())
        body = b""
        while True:
            event = await receive()
            body += event.get("body", b"")
            if not event.get("more_body"):
                break
        token = dict(scope["headers"]).get(b"authorization", b"").removeprefix(b"Bearer ")
        if hashlib.sha256(token).hexdigest() != self._hash:
            await answer(send, 401, {})
            return
        job = scope["path"].split("/")[-2]
        before = self._accepted.get(job, 0)
        rows = [(job, entry["n"], entry["kind"], entry["sequence"], entry["value"], float(entry["value"]), entry["at"])
                for entry in json.loads(body)["entries"] if entry["n"] > before]
        await self._store.put(rows)
        self._accepted[job] = max([before, *(row[1] for row in rows)])
        await answer(send, 200, {"accepted": self._accepted[job], "orders": []})


async def answer(send: Any, status: int, content: dict[str, Any]) -> None:
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", b"application/json")]})
    await send({"type": "http.response.body", "body": json.dumps(content).encode()})


def main(path: str, port: int, token: str) -> None:
    from daphne.server import Server

    Server(application=Application(path, token), endpoints=[f"tcp:port={port}:interface=127.0.0.1"],
           action_logger=None, http_timeout=None, verbosity=0,
           ready_callable=lambda: print("listening", flush=True)).run()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
