"""``sharedStorage`` of an experiment file: what it says, and the shell text that mounts it on a machine.

The fields are NNI's (``localMounted`` speaks of the server: on trial machines NNI mounts what is not mounted yet).
"""

from __future__ import annotations

import posixpath
import shlex
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field, SecretStr, field_validator, model_validator

from trainingservice.cluster_settings import SettingsModel
from trainingservice.refused_values import placeholder_sentence

#: What each kind of storage needs besides its mount points: field -> how files spell it.
NEEDED = {"NFS": {"nfs_server": "nfsServer", "exported_directory": "exportedDirectory"},
          "AzureBlob": {"storage_account_name": "storageAccountName", "container_name": "containerName"}}
#: How blobfuse2 is told the account's key: not on its command line, which others on the machine could read.
KEY_VARIABLE = "AZURE_STORAGE_ACCESS_KEY"


class SharedStorage(SettingsModel):
    """A file store that trials on several machines share."""

    keeps_secrets: ClassVar[frozenset[str]] = frozenset({"local_mount_point", "remote_mount_point", "local_mounted"})

    storage_type: Literal["NFS", "AzureBlob"] = Field(description="Kind of storage.")
    local_mount_point: Path = Field(description="Folder at which it is mounted on this server.")
    remote_mount_point: str = Field(description=(
        "Folder at which it is mounted on the trial machines. On the platform remote, a relative path starts from the "
        "home folder of the login."))
    local_mounted: Literal["usermount", "nnimount", "nomount"] = Field(
        description="Who mounts it on this server: you (usermount), NNI Web (nnimount), nobody (nomount).")
    nfs_server: str | None = Field(None, description="NFS: name or address of the server.")
    exported_directory: str | None = Field(None, description="NFS: the exported folder.")
    storage_account_name: str | None = Field(None, description="AzureBlob: the account.")
    storage_account_key: SecretStr | None = Field(None, description="AzureBlob: its key.")
    container_name: str | None = Field(None, description="AzureBlob: the container.")

    @field_validator("remote_mount_point")
    @classmethod
    def _is_folder(cls, value: str) -> str:
        """``~/share`` and ``./share`` are ``share``."""
        if placeholder := placeholder_sentence(value):
            raise ValueError(placeholder)
        path = posixpath.normpath(value.removeprefix("~/") or ".") if value.strip() else "."
        if path in (".", "/", "//", "~") or path.startswith(("..", "~")):
            raise ValueError("must be a folder on the trial machines, such as /mnt/share, or share, which is below the "
                             "home folder there")
        return path

    def at_home(self, home: str) -> SharedStorage:
        """The same, its mount point absolute. ``home``: the home folder on the trial machine."""
        return self.model_copy(update={"remote_mount_point": posixpath.join(home, self.remote_mount_point)})

    def missing(self) -> list[str]:
        """Fields, as files spell them, that this kind of storage needs and that are empty."""
        return [key for name, key in NEEDED[self.storage_type].items() if not getattr(self, name)]

    @property
    def variables(self) -> dict[str, str]:
        """Variables that ``mount_script`` wants in its environment; they hold the account's key."""
        if self.storage_account_key is None:
            return {}
        return {KEY_VARIABLE: self.storage_account_key.get_secret_value()}

    def trial_folder(self, experiment_id: str, trial_id: str) -> str:
        """Where NNI has a trial's output on the share, on the trial machine."""
        return f"{self.remote_mount_point}/nni/{experiment_id}/trials/{trial_id}/nnioutput"

    def mount_script(self, mount_point: str) -> str:
        """Shell text (sh): has the storage at ``mount_point`` when it succeeds, else a sentence on its stderr.

        What is mounted there already is taken as it is. Otherwise it mounts, as root or by a ``sudo`` that asks for
        no password. Several at a time are harmless. Ends with status 0 or 73.
        """
        place = shlex.quote(mount_point)
        if self.storage_type == "NFS":
            source = f"{self.nfs_server}:{self.exported_directory}"
            needs, package = "mount.nfs", "nfs-common"
            mount = f"$_nni_sudo mount -t nfs {shlex.quote(source)} {place}"
        else:
            source = f"container {self.container_name} of account {self.storage_account_name}"
            needs, package = "blobfuse2", "blobfuse2"
            mount = (f"AZURE_STORAGE_ACCOUNT={shlex.quote(self.storage_account_name or '')} "
                     f"blobfuse2 mount {place} --container-name={shlex.quote(self.container_name or '')} "
                     '--tmp-path="${TMPDIR:-/tmp}/nniweb-blobfuse-$(id -u)"')
        return f"""
_nni_mounted() {{ awk -v p={place} '$2 == p {{ found = 1 }} END {{ exit !found }}' /proc/mounts; }}
_nni_mount() {{
  _nni_mounted && return 0
  _nni_sudo=; [ "$(id -u)" = 0 ] || _nni_sudo='sudo -n'
  mkdir -p {place} 2>/dev/null || $_nni_sudo mkdir -p {place} || return 1
  PATH="$PATH:/usr/sbin:/sbin"
  {mount} || _nni_mounted
}}
_nni_said=$(mktemp)
_nni_mount >"$_nni_said" 2>&1 </dev/null || {{
  echo "The share {_plain(source)} cannot be mounted at {_plain(mount_point)}:" \
"$(tail -n 1 "$_nni_said" | cut -c1-300)." \
"Mount it there yourself, or install what does it ({needs}, package {package}) and let this user mount." >&2
  rm -f "$_nni_said"
  exit 73
}}
rm -f "$_nni_said"
[ -w {place} ] || {{
  echo "The share at {_plain(mount_point)} cannot be written by $(id -un); give this user the right to write there." >&2
  exit 73
}}
unset {KEY_VARIABLE}
"""

    @model_validator(mode="after")
    def _nothing_breaks_a_line(self) -> SharedStorage:
        for name in ("remote_mount_point", "nfs_server", "exported_directory", "storage_account_name",
                     "container_name"):
            if any(letter in (getattr(self, name) or "") for letter in "\n\r\0 \t"):
                raise ValueError(f"{name.replace('_', ' ')} must not contain blanks or line breaks")
        return self


def _plain(text: str) -> str:
    # stands between the double quotes of an echo
    return "".join(letter for letter in text if letter not in '"$`\\')
