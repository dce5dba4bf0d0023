"""A Git server over https on loopback: git's own http-backend behind a small web server with its own certificate.

    with GitServer(folder) as server:
        commit = server.commit("code", {"train.py": "print(1)"})      # makes the repository where there is none
        server.url("code"), server.certificate                        # what GIT_SSL_CAINFO has to name
"""

from __future__ import annotations

import base64
import os
import subprocess
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

from tests.fakes.tls_certificate import make_certificate

_AUTHOR = {f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER")
           for what, value in (("NAME", "Ada"), ("EMAIL", "ada@example.org"), ("DATE", "2026-01-01T00:00:00Z"))}


class GitServer:
    """Repositories below ``folder``; ``password`` closes them all; ``hold`` makes each request wait until it is set."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.repositories = folder / "repositories"
        context, self.certificate = make_certificate(folder)
        self.password = ""
        #: What came in: method and path.
        self.requests: list[str] = []
        self.hold: threading.Event | None = None
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self._thread = threading.Thread(target=self._server.serve_forever, args=[0.05], daemon=True)

    def __enter__(self) -> GitServer:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self.hold is not None:
            self.hold.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def url(self, name: str) -> str:
        return f"https://127.0.0.1:{self._server.server_port}/{name}.git"

    def path(self, name: str) -> Path:
        return self.repositories / f"{name}.git"

    def commit(self, name: str, files: Mapping[str, str | bytes], *, links: Mapping[str, str] | None = None,
               executable: tuple[str, ...] = (), branch: str = "main") -> str:
        """Replace what the branch holds; returns the commit."""
        bare = self.path(name)
        if not bare.exists():
            self.git("init", "--quiet", "--bare", "--initial-branch=main", str(bare))
        entries, blobs = "", {}
        for path, content in {**files, **(links or {})}.items():
            data = content.encode() if isinstance(content, str) else content
            blob = blobs.get(data) or self.git("hash-object", "-w", "--stdin", cwd=bare, data=data)
            blobs[data] = blob
            mode = "120000" if path in (links or {}) else "100755" if path in executable else "100644"
            entries += f"{mode} {blob}\t{path}\n"
        index = {"GIT_INDEX_FILE": str(bare / "index-of-test")}
        Path(index["GIT_INDEX_FILE"]).unlink(missing_ok=True)
        self.git("update-index", "--index-info", cwd=bare, data=entries.encode(), env=index)
        tree = self.git("write-tree", cwd=bare, env=index)
        commit = self.git("commit-tree", tree, "-m", "as the test wants it", cwd=bare)
        self.git("update-ref", f"refs/heads/{branch}", commit, cwd=bare)
        return commit

    @staticmethod
    def git(*arguments: str, cwd: Path | None = None, data: bytes = b"", env: Mapping[str, str] | None = None) -> str:
        """What git answers."""
        done = subprocess.run(["git", *arguments], cwd=cwd, input=data, capture_output=True, check=True,
                              env={**os.environ, **_AUTHOR, "GIT_CONFIG_GLOBAL": os.devnull, **(env or {})})
        return done.stdout.decode().strip()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer._serve(self)

            do_POST = do_GET

            def log_message(self, format: str, *args: object) -> None:
                pass

        return Handler

    def _serve(self, request: BaseHTTPRequestHandler) -> None:
        outer_path, body = urlsplit(request.path), request.rfile.read(int(request.headers.get("Content-Length") or 0))
        self.requests.append(f"{request.command} {request.path}")
        if self.hold is not None:
            self.hold.wait(60)
        if outer_path.path.startswith("/moved/"):
            request.send_response(302)
            request.send_header("Location", request.path.removeprefix("/moved"))
            request.send_header("Content-Length", "0")
            request.end_headers()
            return
        given = request.headers.get("Authorization", "").removeprefix("Basic ")
        if self.password and base64.b64decode(given).decode().partition(":")[2] != self.password:
            request.send_response(401)
            request.send_header("WWW-Authenticate", 'Basic realm="code"')
            request.send_header("Content-Length", "0")
            request.end_headers()
            return
        self._answer(request, self._backend(request, outer_path.path, outer_path.query, body))

    def _backend(self, request: BaseHTTPRequestHandler, path: str, query: str, body: bytes) -> bytes:
        names: dict[str, Callable[[], str]] = {
            "HTTP_CONTENT_ENCODING": lambda: request.headers.get("Content-Encoding", ""),
            "HTTP_GIT_PROTOCOL": lambda: request.headers.get("Git-Protocol", ""),
            "CONTENT_TYPE": lambda: request.headers.get("Content-Type", "")}
        env = {"PATH": os.environ["PATH"], "GIT_PROJECT_ROOT": str(self.repositories), "GIT_HTTP_EXPORT_ALL": "1",
               "REQUEST_METHOD": request.command, "PATH_INFO": path, "QUERY_STRING": query,
               "CONTENT_LENGTH": str(len(body)), "REMOTE_ADDR": "127.0.0.1", "GIT_CONFIG_COUNT": "2",
               "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*",
               "GIT_CONFIG_KEY_1": "uploadpack.allowReachableSHA1InWant", "GIT_CONFIG_VALUE_1": "true",
               **{name: value() for name, value in names.items()}}
        return subprocess.run(["git", "http-backend"], input=body, env=env, capture_output=True, check=False).stdout

    @staticmethod
    def _answer(request: BaseHTTPRequestHandler, said: bytes) -> None:
        head, _, content = said.partition(b"\r\n\r\n")
        fields = [line.partition(": ")[::2] for line in head.decode().split("\r\n")]
        request.send_response(int(dict(fields).get("Status", "200").split()[0]))
        for name, value in fields:
            if name and name != "Status":
                request.send_header(name, value)
        request.send_header("Content-Length", str(len(content)))
        request.end_headers()
        request.wfile.write(content)
