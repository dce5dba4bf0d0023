"""The installation of a release, put back as it was when its machine lost its power: for tests of upgrades.

Its database is SQL in the archive, so that the paths in it can be those of a test's folder: ``ROOT`` stands for the
folder, ``HOST`` for the name of the machine.
"""

from __future__ import annotations

import socket
import sqlite3
import tarfile
from contextlib import closing
from pathlib import Path

ASSETS = Path(__file__).resolve().parent
#: Every release with an asset, the oldest first.
RELEASES = tuple(sorted((path.name for path in ASSETS.iterdir() if (path / "installation.tar.gz").exists()),
                        key=lambda name: [int(part) for part in name.split(".")]))
DATABASE = "nniweb.sqlite3"
ROOT, HOST = "@ROOT@", "@HOST@"
#: The password of all three people, and a sealed secret.
PASSWORD, SECRET = "of the asset 7!", "the farm's password"
#: What is not kept: what a server makes anew, and what belongs to processes.
LEFT_OUT = (f"data/{DATABASE}", "data/static/", "data/server.", "data.log", "/agent.log", "__pycache__")


def unpack(version: str, root: Path) -> Path:
    """Unpack into a folder, which is made; returns the data folder."""
    with tarfile.open(ASSETS / version / "installation.tar.gz") as tar:
        for member in tar:
            content = tar.extractfile(member)
            assert content is not None
            text = content.read()
            path = root / member.name
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not member.name.endswith(".pyz"):
                text = text.replace(ROOT.encode(), str(root).encode()).replace(HOST.encode(),
                                                                               socket.gethostname().encode())
            path.write_bytes(text)
            path.chmod(0o600)
    (root / "many" / "orders").mkdir(parents=True, exist_ok=True)
    (root / "one" / "orders").mkdir(parents=True, exist_ok=True)
    script = root / "data" / f"{DATABASE}.sql"
    with closing(sqlite3.connect(root / "data" / DATABASE)) as database:
        database.executescript(script.read_text())
    script.unlink()
    return root / "data"
