"""Private networks that reach each other, and nothing else: a bridge in a namespace of its own, and a cable to each."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

import pytest

from tests.fakes.ssh_machine import NO_NAMESPACES, PrivateNetwork


class JoinedNetworks:
    """``addresses``: of each network, in their order. ``remove`` the bridge; the networks belong to who made them."""

    def __init__(self, networks: Sequence[PrivateNetwork]) -> None:
        self._hub = PrivateNetwork()
        self.addresses = [f"10.77.0.{number}" for number in range(1, len(networks) + 1)]
        try:
            self._ip(self._hub, "link", "add", "bridge", "type", "bridge")
            self._ip(self._hub, "link", "set", "bridge", "up")
            for number, (network, address) in enumerate(zip(networks, self.addresses, strict=True), 1):
                self._ip(network, "link", "add", "cable", "type", "veth", "peer", "name", f"port{number}", "netns",
                         self._hub.name)
                self._ip(self._hub, "link", "set", f"port{number}", "master", "bridge", "up")
                self._ip(network, "addr", "add", f"{address}/24", "dev", "cable")
                self._ip(network, "link", "set", "cable", "up")
        except (OSError, subprocess.CalledProcessError):
            self.remove()
            pytest.skip(NO_NAMESPACES)

    @staticmethod
    def _ip(network: PrivateNetwork, *arguments: str) -> None:
        subprocess.run(["ip", "-n", network.name, *arguments], check=True, capture_output=True)

    def remove(self) -> None:
        self._hub.remove()
