"""Code and keeper by shared storage, for clusters whose pods mount what is mounted on this server, too.

Everything lies below ``nniweb/<cluster>`` in the storage: ``keeper-<hash>.pyz`` and ``code/<hash>.tar.gz``.
Nothing is mounted by us: that takes rights a web server should not have.
"""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Collection
from pathlib import Path

from trainingservice.code.code_archive import archive_of
from trainingservice.errors import PermanentError, TemporaryError
from trainingservice.keeper.keeper_bundle import build_keeper
from trainingservice.kubernetes_base.config import StorageSettings
from trainingservice.trial_job import TrialCode
from trialkeeper.durable_files import put_in_place

logger = logging.getLogger(__name__)

#: Seconds that the command az may take to read a key.
AZ_TIMEOUT = 60.0


class SharedStorage:
    """The cluster's folder in a storage that is mounted here. May be called from several threads."""

    def __init__(self, mount: Path, cluster: str) -> None:
        self._mount, self._cluster = mount, f"nniweb/{cluster}"
        self._lock = threading.Lock()

    @property
    def folder(self) -> Path:
        return self._mount / self._cluster

    def keeper(self) -> str:
        """Have the keeper there; its path below the storage. Raises TemporaryError."""
        with self._lock:
            self._check()
            try:
                return f"{self._cluster}/{build_keeper(self.folder).path.name}"
            except OSError as error:
                raise self._cannot_write(error) from error

    def code(self, code: TrialCode) -> tuple[str, str]:
        """Have the code there; (path below the storage, hash). Raises TemporaryError, PermanentError."""
        with self._lock:
            self._check()
            with tempfile.TemporaryDirectory(prefix="nniweb-code-") as scratch:
                archive, sha256 = archive_of(code, Path(scratch))
                target = self.folder / "code" / f"{sha256}.tar.gz"
                try:
                    if not target.is_file() or target.stat().st_size != archive.stat().st_size:
                        target.parent.mkdir(parents=True, exist_ok=True)
                        partial = target.with_suffix(f".{os.getpid()}.part")
                        shutil.copyfile(archive, partial)
                        put_in_place(str(partial), str(target))
                except OSError as error:
                    raise self._cannot_write(error) from error
            return f"{self._cluster}/code/{target.name}", sha256

    def clean(self, wanted: Collection[str]) -> None:
        """Remove the archives of code that no trial is wanted for. ``wanted``: hashes."""
        with self._lock:
            for path in sorted((self.folder / "code").glob("*.tar.gz")):
                if path.name.partition(".")[0] not in wanted:
                    path.unlink(missing_ok=True)

    def _check(self) -> None:
        if not self._mount.is_dir():
            raise TemporaryError(f"The storage is not mounted: {self._mount} is not a folder on this server. Mount the "
                                 "storage, or correct localMountPoint.", 15.0)

    def _cannot_write(self, error: OSError) -> TemporaryError:
        return TemporaryError(f"{self.folder} in the storage cannot be written ({error.strerror or error}). Let the "
                              "server's user write there, or free disk space.", 15.0)


def azure_account_key(storage: StorageSettings) -> str:
    """The key of the storage account: given, or read from the vault with az. Raises PermanentError, TemporaryError."""
    if storage.azure_account_key is not None:
        return storage.azure_account_key.get_secret_value()
    command = ["az", "keyvault", "secret", "show", "--vault-name", str(storage.key_vault_name),
               "--name", str(storage.key_vault_key), "--query", "value", "--output", "tsv"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=AZ_TIMEOUT, check=False,
                                stdin=subprocess.DEVNULL)
    except FileNotFoundError as error:
        raise PermanentError("The key of the Azure account is in a vault, but the command az that reads it is not "
                             "installed on this server; install the Azure CLI and log in, or give azureAccountKey or "
                             "azureSecretName.") from error
    except subprocess.TimeoutExpired as error:
        raise TemporaryError(f"az has not answered within {AZ_TIMEOUT:.0f} s when asked for the secret "
                             f"{storage.key_vault_key} of vault {storage.key_vault_name}.") from error
    key = result.stdout.strip()
    if result.returncode != 0 or not key:
        said = " ".join(result.stderr.split())[-300:] or "it printed nothing"
        raise TemporaryError(f"az could not read the secret {storage.key_vault_key} of vault {storage.key_vault_name}: "
                             f"{said}. Run az login as the server's user, or correct the names.", 60.0)
    return key
