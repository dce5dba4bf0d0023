"""The server's own mount of a shared storage (``localMounted``). Trials do not need it; people look at files there."""

from __future__ import annotations

import logging
import os
import subprocess

from trainingservice.base import RehearsalFinding
from trainingservice.shared_folder.shared_storage import SharedStorage

logger = logging.getLogger(__name__)

#: How long mounting may take, in seconds.
TIMEOUT = 40.0


def look_at_mount_here(storage: SharedStorage) -> RehearsalFinding | None:
    """Mount it where it is ours to mount; say how it is. None where nobody wants it here. Never blocks a launch."""
    place = str(storage.local_mount_point)
    if storage.local_mounted == "nomount":
        return None
    problem = ""
    if storage.local_mounted == "nnimount":
        try:
            done = subprocess.run(["sh", "-s"], input=storage.mount_script(place), capture_output=True, text=True,
                                  timeout=TIMEOUT, env={**os.environ, **storage.variables}, check=False)
            problem = (done.stderr.strip().splitlines() or [f"Mounting ended with status {done.returncode}."])[-1] \
                if done.returncode else ""
        except (OSError, subprocess.TimeoutExpired) as error:
            problem = f"The share cannot be mounted at {place}: {error}"
    elif not os.path.ismount(place):
        problem = (f"localMounted is usermount, but nothing is mounted at {place} on the server. Mount it there, or "
                   "set nomount, because trials do not need it there.")
    if problem:
        logger.warning("shared storage on the server: %s", problem)
        return RehearsalFinding("storage", False, f"On the server: {problem}", temporary=True)
    return RehearsalFinding("storage", True, f"The share is mounted at {place} on the server.")
