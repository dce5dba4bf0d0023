"""Reading what trials wrote on machines over SSH, also on one to which there is no connection."""

from __future__ import annotations

from collections.abc import Callable

from trainingservice.files.output_folder import FolderElsewhere, OutputFolder
from trainingservice.keeper.keeper_bundle import KeeperBundle
from trainingservice.remote.first_contact import look_at
from trainingservice.remote.machines import RemoteMachine
from trainingservice.ssh.connection import Connection, connect
from trainingservice.ssh.host_keys import HostKeyStore
from trainingservice.submit_host.machine_output import OneConnection, run_reader


class OutputFolders:
    """Any method may be called from any thread."""

    def __init__(self, keys: HostKeyStore, keeper_bundle: Callable[[], KeeperBundle], clock: Callable[[], float]
                 ) -> None:
        self._keys, self._keeper_bundle, self._clock = keys, keeper_bundle, clock

    def open(self, machine: RemoteMachine, trusted: str, folder: str) -> OutputFolder:
        """``folder`` below ``trusted``, which nothing leaves. Without a connection it makes one of its own."""
        if machine.is_connected:
            return FolderElsewhere(trusted, folder, lambda content: _read_on(machine, content))
        own = OneConnection(lambda: self._look_at(machine))
        return FolderElsewhere(trusted, folder, own.run, own.close)

    def _look_at(self, machine: RemoteMachine) -> tuple[Connection, str]:
        connection = connect(machine.settings, self._keys)
        try:
            return connection, look_at(connection, machine.settings, self._keeper_bundle(), self._clock).python
        except BaseException:
            connection.close()
            raise


def _read_on(machine: RemoteMachine, content: bytes) -> bytes:
    connection, facts = machine.connection()
    return run_reader(connection, facts.python, content)
