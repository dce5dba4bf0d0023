"""How to log in to a machine, as configuration files say it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

from pydantic import Field, SecretStr, StringConstraints, field_validator, model_validator

from trainingservice.cluster_settings import SettingsModel
from trainingservice.refused_values import matching

_FINGERPRINT = re.compile(r"SHA256:[A-Za-z0-9+/]{43}=?")

#: Text without blanks at its ends, at least one character.
Name = Annotated[str, StringConstraints(min_length=1), matching(r"\S+", "a name without blanks")]


class SshLoginSettings(SettingsModel):
    """How to log in to one machine."""

    host: Name = Field(description="Host name, address, or a name from the server user's ~/.ssh/config.")
    port: int | None = Field(default=None, ge=1, le=65535, description="Default: 22, or what ~/.ssh/config says.")
    user: Name = Field(description="User who logs in. Trials run as this user.")
    password: SecretStr | None = Field(
        default=None, description="Password for the log-in. If it is given, keys are not tried.")
    ssh_key_file: Path | None = Field(
        default=None, description="Private key file on the server. Default: keys of the SSH agent and ~/.ssh.")
    ssh_passphrase: SecretStr | None = Field(default=None, description="Passphrase of sshKeyFile.")
    proxy_jump: str | None = Field(
        default=None, description="Jump hosts, as in ssh -J: user@gate:22,user@inner.")
    host_key: str | None = Field(
        default=None, description="Fingerprint of the machine's host key (SHA256:...). Default: known_hosts. A machine "
                                  "that is not listed there is trusted at first contact, and its key is stored.")

    @field_validator("host_key")
    @classmethod
    def _is_fingerprint(cls, value: str | None) -> str | None:
        if value is not None and not _FINGERPRINT.fullmatch(value):
            raise ValueError("expected a fingerprint such as SHA256:AbC...; ssh-keygen -lf shows it")
        return None if value is None else value.rstrip("=")

    @model_validator(mode="after")
    def _passphrase_has_key(self) -> SshLoginSettings:
        if self.ssh_passphrase is not None and self.ssh_key_file is None:
            raise ValueError("sshPassphrase is the passphrase of a key file; give sshKeyFile, too")
        return self

    @property
    def address(self) -> str:
        """Names the machine within its cluster, also in stored states: ``user@host:port``."""
        return f"{self.user}@{self.host}:{self.port or 22}"
