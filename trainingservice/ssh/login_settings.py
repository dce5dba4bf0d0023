"""How to log in to a machine, as configuration files say it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, SecretStr, StringConstraints, model_validator

from trainingservice.cluster_settings import SettingsModel
from trainingservice.refused_values import matching

#: Text without blanks at its ends, at least one character.
Name = Annotated[str, StringConstraints(min_length=1), matching(r"\S+", "a name without blanks")]


def _without_padding(value: str) -> str:
    return value.rstrip("=")


#: What ``ssh-keygen -lf`` shows of a host key.
Fingerprint = Annotated[
    str, matching(r"SHA256:[A-Za-z0-9+/]{43}=?",
                  "a fingerprint such as SHA256:AbC..., which ssh-keygen -lf shows on the machine"),
    AfterValidator(_without_padding)]


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
    host_key: Fingerprint | None = Field(
        default=None, description="Fingerprint of the machine's host key (SHA256:...). Default: known_hosts. A machine "
                                  "that is not listed there is trusted at first contact, and its key is stored.")

    @model_validator(mode="after")
    def _passphrase_has_key(self) -> SshLoginSettings:
        if self.ssh_passphrase is not None and self.ssh_key_file is None:
            raise ValueError("sshPassphrase is the passphrase of a key file; give sshKeyFile, too")
        return self

    @property
    def address(self) -> str:
        """Names the machine within its cluster, also in stored states: ``user@host:port``."""
        return f"{self.user}@{self.host}:{self.port or 22}"
