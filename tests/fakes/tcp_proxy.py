"""A TCP proxy that a test puts in front of a server, to cut, stall or reset what goes through it, or to speak TLS."""

from __future__ import annotations

import contextlib
import selectors
import socket
import ssl
import struct
import threading
from typing import Literal


class TcpProxy:
    """Forwards 127.0.0.1:``port`` to ``target``. Close it at the end. ``tls``: with it, clients must speak TLS."""

    def __init__(self, target: tuple[str, int], tls: ssl.SSLContext | None = None) -> None:
        self._target, self._tls = target, tls
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._lock = threading.Lock()
        self._open = threading.Event()
        self._open.set()
        self._flowing = threading.Event()
        self._flowing.set()
        self._closed = False
        self.passed = 0  #: bytes in both directions
        self.cut_after: int | None = None  #: do ``cut_how`` once so many bytes have passed; happens once
        self.cut_how: Literal["reset", "cut", "stall"] = "reset"
        self.was_cut = threading.Event()  #: ``cut_after`` has been reached
        threading.Thread(target=self._accept, daemon=True).start()

    # --- what a test does ------------------------------------------------------------------

    def cut(self) -> None:
        """Reset all connections and refuse new ones (they are closed at once)."""
        self._open.clear()
        self._reset_all()

    def reset(self) -> None:
        """Reset all connections; new ones are welcome."""
        self._reset_all()

    def stall(self) -> None:
        """Nothing gets through any more, and nobody is told."""
        self._flowing.clear()

    def mend(self) -> None:
        """All is well again; what was stalled goes on."""
        self._flowing.set()
        self._open.set()

    def close(self) -> None:
        self._closed = True
        self._flowing.set()
        self._listener.close()
        self._reset_all()

    def __enter__(self) -> TcpProxy:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- inside ----------------------------------------------------------------------------

    def _reset_all(self) -> None:
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            for side in pair:
                with contextlib.suppress(OSError):
                    side.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset, no goodbye
                    side.shutdown(socket.SHUT_RDWR)
                side.close()

    def _accept(self) -> None:
        while not self._closed:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if not self._open.is_set():
                client.close()
                continue
            try:
                if self._tls is not None:
                    client.settimeout(5)
                    client = self._tls.wrap_socket(client, server_side=True)
                    client.settimeout(None)
                server = socket.create_connection(self._target, 5)
            except OSError:
                client.close()
                continue
            with self._lock:
                self._pairs.append((client, server))
            for side in (client, server):
                side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._pump, args=(client, server), daemon=True).start()

    def _pump(self, client: socket.socket, server: socket.socket) -> None:
        other = {client: server, server: client}
        with selectors.DefaultSelector() as selector:
            try:
                for side in other:
                    selector.register(side, selectors.EVENT_READ)
                while True:
                    for key, _ in selector.select(0.5):
                        side = key.fileobj
                        assert isinstance(side, socket.socket)
                        data = side.recv(65536)
                        self._flowing.wait()
                        if not data:
                            return
                        other[side].sendall(data)
                        self.passed += len(data)
                        if self.cut_after is not None and self.passed >= self.cut_after:
                            self.cut_after = None
                            getattr(self, self.cut_how)()
                            self.was_cut.set()
            except (OSError, ValueError):
                return
            finally:
                for side in other:
                    side.close()
