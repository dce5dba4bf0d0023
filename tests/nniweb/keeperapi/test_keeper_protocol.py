"""nniweb passes the cases of the keeper protocol, behind a real web server."""

from collections.abc import Iterator

import pytest

from tests.nniweb.keeperapi.keeper_server import NniwebKeeperServer
from trainingservice.testing.keeper_protocol import KeeperProtocolConformance


class TestNniweb(KeeperProtocolConformance):
    @pytest.fixture
    def keeper_server(self, transactional_db: None) -> Iterator[NniwebKeeperServer]:
        with NniwebKeeperServer() as server:
            yield server
