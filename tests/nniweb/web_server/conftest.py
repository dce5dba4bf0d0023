"""The web server in a process of its own, and raw connections to it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

ROOT = Path(__file__).resolve().parents[3]
PATIENCE = 60.0


class Served:
    """A running server. ``temporary``: what it would put its temporary files in."""

    def __init__(self, temporary: Path, **allowances: Any) -> None:
        temporary.mkdir()
        self.temporary = temporary
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("serving.py")), json.dumps(allowances)], cwd=ROOT,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(temporary)})
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())
        self._connections: list[socket.socket] = []

    @contextlib.contextmanager
    def busy(self) -> Iterator[None]:
        """It takes no connection meanwhile, nor does it do anything else."""
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def connect(self, timeout: float = PATIENCE) -> socket.socket:
        """Raises TimeoutError."""
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=timeout)
        self._connections.append(connection)
        return connection

    def ask(self, head: str, body: bytes = b"") -> bytes:
        """All that is answered to this, on a connection of its own. Lines of ``head`` end with ``\\n``."""
        connection = self.connect()
        connection.sendall(head.replace("\n", "\r\n").encode() + b"\r\n" + body)
        return all_of(connection)

    def counted(self) -> dict[str, int]:
        found = self.ask("GET /counted HTTP/1.1\nHost: x\nConnection: close\n")
        return dict(json.loads(found.partition(b"\r\n\r\n")[2]))

    def wait_until(self, condition: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < end, "it did not come to that"
            time.sleep(0.02)

    @property
    def stored(self) -> int:
        return stored_by(self._process.pid, self.temporary)

    @property
    def megabytes(self) -> float:
        return float(psutil.Process(self._process.pid).memory_info().rss / 2**20)

    @property
    def descriptors(self) -> int:
        """How many the server has open."""
        return int(psutil.Process(self._process.pid).num_fds())

    def close(self) -> None:
        for connection in self._connections:
            connection.close()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(PATIENCE)
        self._process.stdout.close()


def stored_by(pid: int, temporary: Path) -> int:
    """Bytes of files in this folder, of those that the process has open without a name, too."""
    named = sum(path.stat().st_size for path in temporary.rglob("*") if path.is_file())
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):  # closed meanwhile
            target = os.readlink(descriptor)
            if target.startswith(str(temporary)) and target.endswith("(deleted)"):
                named += descriptor.stat().st_size
    return named


def all_of(connection: socket.socket) -> bytes:
    """All that comes until the other side ends it."""
    pieces = []
    try:
        while piece := connection.recv(65536):
            pieces.append(piece)
    except ConnectionResetError:
        pieces.append(b"(cut)")
    return b"".join(pieces)


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    """``serve(headers_seconds=0.5)``: a server with these allowances; closed after the test."""
    servers: list[Served] = []

    def made(**allowances: Any) -> Served:
        servers.append(Served(tmp_path / f"temporary{len(servers)}", **allowances))
        return servers[-1]

    yield made
    for server in servers:
        server.close()
