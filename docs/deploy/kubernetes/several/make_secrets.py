#!/usr/bin/env python3
"""Creates keys and passwords, once, in the folder secrets/ beside this file or in the folder that is named.

Standard library only.

Keep the folder: without seal-keys the secrets in the database cannot be opened. Do not commit it to Git.
"""

from __future__ import annotations

import base64
import os
import secrets
import sys
from pathlib import Path


def contents() -> dict[str, str]:
    """File name -> content. Passwords are letters and digits, so that they need no quoting in addresses."""
    database, redis = secrets.token_hex(24), secrets.token_hex(24)
    return {
        "database-password": database,
        "database-url": f"postgres://nniweb:{database}@nniweb-postgresql:5432/nniweb",
        "redis-password": redis,
        "redis-url": f"redis://:{redis}@nniweb-redis:6379/0",
        "installation": secrets.token_hex(8),
        "seal-keys": base64.urlsafe_b64encode(os.urandom(32)).decode(),
        "secret-key": secrets.token_urlsafe(50),
        "metrics-token": secrets.token_urlsafe(32),
    }


def main(folder: Path) -> str:
    """Create the folder and its files. Returns "", or a sentence that says why nothing was written."""
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        return f"{folder} exists already. With new keys the secrets in the database could not be opened any more."
    for name, text in contents().items():
        with os.fdopen(os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(text)
    return ""


if __name__ == "__main__":
    named = sys.argv[1:2]
    sys.exit(main(Path(named[0]) if named else Path(__file__).resolve().parent / "secrets") or 0)
