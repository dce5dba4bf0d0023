"""Puts a checkpoint back in place before the trial's command starts: the newest that can be had whole.

Each chunk is compared with its hash, and the checkpoint gets its name when all of it is there: a trial finds a whole
one or none.
"""

import hashlib
import io
import json
import os
import shutil
import time
from collections import deque
from typing import Callable, Deque, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple
from urllib.parse import quote

from trialkeeper import chunk_pack, contract
from trialkeeper.checkpoint_entry import Problem, is_name
from trialkeeper.checkpoint_folder import RESTORING
from trialkeeper.checkpoint_manifest import chunk_sizes, read_manifest, size_of
from trialkeeper.durable_files import flush_tree
from trialkeeper.reporter import OwnInstallation, pause_after
from trialkeeper.server_connection import Answer, Blocks, Body, ServerAway, ServerConnection

#: How often what came with another hash is fetched again.
_FETCHES = 3
#: Bytes that are left free on the disk.
_SPARE_BYTES = 16 * 1024 * 1024


class Restored(NamedTuple):
    """``checkpoint``: the one that is in place, None where none could be. ``problems``: why newer ones could not."""

    checkpoint: Optional[contract.KnownCheckpoint]
    problems: List[Tuple[contract.KnownCheckpoint, Problem]]


class CheckpointRestorer:
    """Call ``restore`` once; it blocks, also while the server is away."""

    def __init__(self, folder: str, job_name: str, connection: ServerConnection, own: OwnInstallation, *,
                 give_up_after: float, log: Callable[[str], None], is_stopped: Callable[[], bool],
                 clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep) -> None:
        """``folder``: of checkpoints; it is there. ``is_stopped``: whether the attempt is to end."""
        self._folder, self._connection, self._own = folder, connection, own
        self._path = "trials/%s/" % quote(job_name, safe="")
        self._give_up_at = clock() + give_up_after
        self._log, self._is_stopped, self._clock, self._sleep = log, is_stopped, clock, sleep
        #: Chunks in the order in which they are needed, with the one that is needed now first, and their bytes.
        self._needed: Deque[str] = deque()
        self._sizes: Dict[str, int] = {}
        #: Small chunks that came together, by hash. False since a server said that it does not send them so.
        self._together: Dict[str, bytes] = {}
        self._packs = True

    def restore(self, candidates: Sequence[contract.KnownCheckpoint]) -> Restored:
        """Put back the first of them that can be. Raises ServerAway where no server answered in all the time."""
        problems: List[Tuple[contract.KnownCheckpoint, Problem]] = []
        for candidate in candidates:
            try:
                self._restore(candidate)
                return Restored(candidate, problems)
            except Problem as problem:
                self._log("checkpoint %s cannot be put back: %s" % (candidate["name"], problem))
                problems.append((candidate, problem))
            except OSError as error:
                self._log("checkpoint %s cannot be put back: %s" % (candidate["name"], error))
                problems.append((candidate, Problem(contract.NO_ROOM, error.strerror or str(error))))
            finally:
                shutil.rmtree(os.path.join(self._folder, RESTORING), ignore_errors=True)
        return Restored(None, problems)

    def _restore(self, candidate: contract.KnownCheckpoint) -> None:
        if not is_name(candidate["name"]):
            raise Problem(contract.DAMAGED, "its name")
        manifest = read_manifest(self._fetch("checkpoints/" + candidate["id"], candidate["id"]), candidate["id"])
        disk = os.statvfs(self._folder)
        if disk.f_bavail * disk.f_frsize < size_of(manifest) + _SPARE_BYTES:
            raise Problem(contract.NO_ROOM, "%d bytes are needed" % size_of(manifest))
        draft = os.path.join(self._folder, RESTORING, "checkpoint")
        os.makedirs(os.path.dirname(draft), mode=0o700, exist_ok=True)
        files = manifest["files"]
        self._needed = deque(chunk for file in files for chunk in file["chunks"])
        self._sizes, self._together = dict(chunk_sizes(manifest)), {}
        if len(files) == 1 and files[0]["path"] == "":
            self._write(files[0], draft)
        else:
            os.mkdir(draft, 0o755)
            for folder in sorted(manifest["folders"]):  # one comes before those in it
                os.mkdir(os.path.join(draft, folder), 0o755)
            for file in files:
                self._write(file, os.path.join(draft, file["path"]))
        flush_tree(os.path.dirname(draft))
        place = os.path.join(self._folder, candidate["name"])
        if os.path.lexists(place):
            os.rename(place, os.path.join(self._folder, RESTORING, "replaced"))
        os.rename(draft, place)

    def _write(self, file: contract.ManifestFile, path: str) -> None:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb") as stream:
            for chunk in file["chunks"]:
                stream.write(self._chunk(chunk))
            if stream.tell() != file["size"]:
                raise Problem(contract.DAMAGED, file["path"])
            os.fchmod(stream.fileno(), file["mode"] & 0o777 | 0o600)

    def _chunk(self, sha256: str) -> bytes:
        """The chunk that is needed now. Small ones come together with those that are needed after it."""
        if sha256 not in self._together:
            self._together = self._fetch_together() if self._packs else {}
        self._needed.popleft()
        content = self._together.get(sha256)
        return self._fetch("chunks/" + sha256, sha256) if content is None else content

    def _fetch_together(self) -> Dict[str, bytes]:
        """The small chunks that are needed next, by hash; {} where there is one at most, or the server has not all."""
        asked: Dict[str, int] = {}
        for sha256 in self._needed:
            size = self._sizes[sha256]
            if size > chunk_pack.SMALL_CHUNK or len(asked) == chunk_pack.MOST_CHUNKS \
                    or sum(asked.values()) + size > chunk_pack.MOST_BYTES:
                break
            asked[sha256] = size
        if len(asked) < 2:
            return {}
        body = json.dumps({"hashes": list(asked)}).encode("ascii")
        try:
            contents = chunk_pack.unpack(self._get("chunks/fetch", "POST", Blocks(body), {
                "Content-Type": "application/json", "Content-Length": str(len(body))}))
        except (Problem, ValueError):  # what is wrong shows when each is fetched alone
            self._packs = False
            return {}
        return {hashlib.sha256(content).hexdigest(): content for content in contents}

    def _fetch(self, path: str, sha256: str) -> bytes:
        for _ in range(_FETCHES):
            content = self._get(path)
            if hashlib.sha256(content).hexdigest() == sha256:
                return content
            self._log("%s arrived damaged" % path)
        raise Problem(contract.DAMAGED, path)

    def _get(self, path: str, method: str = "GET", body: Body = None, headers: Mapping[str, str] = {}) -> bytes:
        failures = 0
        while True:
            sink = io.BytesIO()
            try:
                answer = self._connection.call(method, self._path + path, self._counts, body, sink=sink,
                                               headers={"Accept": "application/octet-stream", **headers})
            except ServerAway as away:
                if self._is_stopped() or self._clock() >= self._give_up_at:
                    raise
                if not failures:
                    self._log("a checkpoint cannot be fetched yet: %s" % away)
                self._sleep(min(5.0, max(pause_after(failures), away.retry_after)))
                failures += 1
                continue
            if answer.status == 200:
                return sink.getvalue()
            damaged = answer.document.get("error") == contract.DAMAGED
            raise Problem(contract.DAMAGED if damaged else contract.MISSING, path)

    def _counts(self, answer: Answer) -> str:
        if answer.status == 200:
            return ""  # its hash tells whether it is right
        if answer.status in (401, 429) or answer.status >= 500:
            return "answered %d" % answer.status
        return self._own.refuses(answer)
