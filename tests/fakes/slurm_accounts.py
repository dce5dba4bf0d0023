"""The accounts of a real Slurm: Debian's slurmdbd, and the MariaDB in which it keeps them, on loopback.

Both are started and ended by the ``SlurmCluster`` that has them, in whose folder their files lie.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.ssh_machine import free_port

PROGRAMS = ("slurmdbd", "sacctmgr", "sacct", "mariadbd", "mariadb-install-db")
NO_ACCOUNTS = "no accounts of Slurm: apt-get install slurmdbd mariadb-server"


class SlurmAccounts:
    def __init__(self, folder: Path, munge_socket: Path, path: str) -> None:
        """``path``: where programs are looked for. Skips the test where one is missing."""
        if any(shutil.which(program, path=path) is None for program in PROGRAMS):
            pytest.skip(NO_ACCOUNTS)
        self._folder, self._path = folder, path
        self._data = folder / "accounts"
        self._database_port, self._port = free_port(), free_port()
        password = secrets.token_hex(16)
        self._init = folder / "accounts.sql"
        self._init.write_text(f"CREATE USER slurm@localhost IDENTIFIED BY '{password}';\n"
                              f"CREATE USER slurm@'127.0.0.1' IDENTIFIED BY '{password}';\n"
                              "GRANT ALL ON accounts.* TO slurm@localhost;\n"
                              "GRANT ALL ON accounts.* TO slurm@'127.0.0.1';\n")
        self._init.chmod(0o600)
        config = folder / "slurmdbd.conf"
        config.touch(0o600)  # slurmdbd demands it
        config.write_text("\n".join([
            "AuthType=auth/munge", f"AuthInfo=socket={munge_socket}", "DbdHost=localhost", "DbdAddr=127.0.0.1",
            f"DbdPort={self._port}", "SlurmUser=root", "StorageType=accounting_storage/mysql",
            "StorageHost=127.0.0.1", f"StoragePort={self._database_port}", "StorageUser=slurm",
            f"StoragePass={password}", "StorageLoc=accounts", f"LogFile={folder / 'log' / 'slurmdbd'}",
            f"PidFile={folder / 'slurmdbd.pid'}"]) + "\n")
        #: Lines of slurm.conf.
        self.settings = {"AccountingStorageType": "accounting_storage/slurmdbd", "AccountingStorageHost": "127.0.0.1",
                         "AccountingStoragePort": str(self._port),
                         "AccountingStoragePass": str(munge_socket)}

    def start_database(self, run: Callable[..., None], wait: Callable[[str, Callable[[], Any]], None]) -> None:
        """Returns when slurmdbd may begin."""
        self._data.mkdir()
        subprocess.run(["mariadb-install-db", "--no-defaults", "--user=root", f"--datadir={self._data}",
                        "--skip-test-db", "--auth-root-authentication-method=normal"],
                       env={**os.environ, "PATH": self._path}, check=True, capture_output=True, timeout=120)
        run("mariadbd", "--no-defaults", "--user=root", f"--datadir={self._data}", "--bind-address=127.0.0.1",
            f"--port={self._database_port}", f"--socket={self._folder / 'accounts.sock'}",
            f"--pid-file={self._folder / 'mariadbd.pid'}", f"--init-file={self._init}",
            "--innodb-buffer-pool-size=64M", "--innodb-lock-wait-timeout=900")
        wait("the database answers", (self._folder / "accounts.sock").exists)
