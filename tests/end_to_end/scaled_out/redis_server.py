"""A real Redis server for tests, reached through a unix socket only. It keeps nothing: rings carry no data."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

NO_REDIS = "no Redis server: apt-get install redis-server"
#: Seconds for the server to come up, on a busy machine.
PATIENCE = 60.0


class RedisServer:
    """``start``, ``stop`` and ``kill`` as often as wanted; ``close`` removes everything."""

    def __init__(self) -> None:
        program = shutil.which("redis-server")
        if program is None:
            pytest.skip(NO_REDIS)
        self._program = program
        # not below TMPDIR, which may be long: the path of a socket is limited
        self._folder = Path(tempfile.mkdtemp(prefix="nniweb-redis-", dir="/tmp"))
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def _socket(self) -> Path:
        return self._folder / "redis.sock"

    @property
    def url(self) -> str:
        """For NNIWEB_REDIS_URL."""
        return f"unix://{self._socket}"

    @property
    def pid(self) -> int:
        assert self._process is not None, "the server was not started"
        return self._process.pid

    def start(self) -> RedisServer:
        """Start it and wait until it answers."""
        if self._process is None or self._process.poll() is not None:
            with open(self._folder / "log", "ab") as log:
                self._process = subprocess.Popen(
                    [self._program, "--port", "0", "--unixsocket", str(self._socket), "--save", "", "--appendonly",
                     "no", "--dir", str(self._folder)], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                    start_new_session=True)
        deadline = time.monotonic() + PATIENCE
        while not self._answers():
            assert time.monotonic() < deadline, f"Redis does not answer:\n{(self._folder / 'log').read_text()[-2000:]}"
            time.sleep(0.05)
        return self

    def _answers(self) -> bool:
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(5)
            try:
                probe.connect(str(self._socket))
                probe.sendall(b"PING\r\n")
                return probe.recv(64).startswith(b"+PONG")
            except OSError:
                return False

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)
            self._process.wait(PATIENCE)

    def close(self) -> None:
        self._end(signal.SIGKILL)
        shutil.rmtree(self._folder, ignore_errors=True)


@pytest.fixture(scope="session")
def redis_of_this_run() -> Iterator[RedisServer]:
    server = RedisServer()
    try:
        yield server.start()
    finally:
        server.close()


@pytest.fixture
def redis(redis_of_this_run: RedisServer) -> RedisServer:
    """A server that answers; a test may kill it, the next one finds it started again."""
    return redis_of_this_run.start()
