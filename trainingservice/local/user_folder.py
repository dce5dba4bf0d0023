"""Where trials that run as another user of this machine have their files: a folder in that user's home.

``~/.nniweb/INSTALLATION/CLUSTER``, made by the user and closed to all others: the keeper, the addresses of the server,
archives of code, and a folder for each attempt. The server's own folder is out of the user's reach, so what the user
needs of it is handed over here.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path

from trainingservice.local.os_user import OsUser
from trialkeeper import contract


class UserFolder:
    """The folder of one user for one cluster. Methods may be called from any thread.

    Those that start a program as the user raise CannotRunAs.
    """

    def __init__(self, user: OsUser, installation: str, cluster_id: str, *, private: Path | None,
                 urls: Callable[[], tuple[str, ...]]) -> None:
        """``private``: the server's own folder, which the user must not see. ``urls``: where the server is now."""
        self.user = user
        self.path = user.home / ".nniweb" / installation / cluster_id
        #: What keepers read to find the server after it has moved to another port.
        self.url_file = self.path / "server.json"
        self._private = private
        self._urls = urls
        self._lock = threading.Lock()
        self._delivered: set[Path] = set()

    def attempt(self, experiment_id: str, job_name: str) -> Path:
        """The folder of one attempt."""
        return self.path / "trials" / experiment_id / job_name

    def check(self) -> None:
        """Whether trials can run as this user at all, by trying."""
        self.user.prepare(self.path, self._private)

    def make_ready(self, bundle: Path) -> Path:
        """Have the keeper and the server's addresses in the folder; the keeper's path there."""
        self.check()
        keeper = self.path / bundle.name
        self.user.write_file(keeper, bundle)
        self.user.write_file(self.url_file, json.dumps({"urls": self._urls()}).encode())
        return keeper

    def deliver_code(self, experiment_id: str, archive: Path, sha256: str) -> contract.CodeDocument:
        """Have an archive of the server's in the user's folder, once for all trials while it stays there."""
        with self._lock:
            target = self.path / "code" / experiment_id / f"{sha256}.tar.gz"
            if target not in self._delivered or not self.user.has_file(target):  # the folder is the user's to clean
                self.user.write_file(target, archive)
                self._delivered.add(target)
        return {"sha256": sha256, "archive": str(target)}

    def remove_code(self, experiment_id: str) -> None:
        """Remove the experiment's archives."""
        folder = self.path / "code" / experiment_id
        self.user.remove(folder)
        with self._lock:
            self._delivered = {path for path in self._delivered if path.parent != folder}
