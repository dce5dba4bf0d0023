"""Which host takes a scheduler's commands: this machine, or a login node."""

from __future__ import annotations

from pathlib import Path

from trainingservice.ssh.login_settings import SshLoginSettings
from trainingservice.submit_host.host import SubmitHost, ThisMachine


def open_host(login_node: SshLoginSettings | None, host_keys: Path) -> SubmitHost:
    """The login node where one is given, else this machine. ``host_keys``: file for keys seen at first contact."""
    if login_node is None:
        return ThisMachine()
    from trainingservice.submit_host.login_node import LoginNode  # here: where nobody logs in, no SSH library is needed

    return LoginNode(login_node, host_keys)
