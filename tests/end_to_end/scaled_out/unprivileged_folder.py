"""A folder and a user for servers that refuse to run as root, as PostgreSQL does."""

from __future__ import annotations

import os
import pwd
import shutil
import tempfile
from pathlib import Path
from typing import Any


class UnprivilegedFolder:
    """Short, because the path of a unix socket may have 107 characters. ``remove`` it in the end."""

    def __init__(self, name: str, kept: Path | None = None) -> None:
        """``kept``: this one, which stays. It is made if it is not there; others must be able to reach it."""
        self._is_kept = kept is not None
        if kept is not None:
            kept.mkdir(parents=True, exist_ok=True)
            self.path = kept.resolve()
        else:
            # not below TMPDIR, which may be long, and closed to other users
            self.path = Path(tempfile.mkdtemp(prefix=f"nniweb-{name}-", dir="/tmp"))
        #: For ``subprocess``: who runs the server. Empty where this process is no root: then it does itself.
        self.run_as: dict[str, Any] = {}
        if os.geteuid() == 0:
            person = pwd.getpwnam("nobody")
            os.chown(self.path, person.pw_uid, person.pw_gid)
            self.run_as = {"user": person.pw_uid, "group": person.pw_gid, "extra_groups": []}

    def remove(self) -> None:
        if not self._is_kept:
            shutil.rmtree(self.path, ignore_errors=True)
