"""What the runs of the suite with nniweb as the keepers' server have in common."""

from collections.abc import Iterator
from typing import ClassVar

import pytest

from nniweb.experiments.ingest import report_intervals
from tests.nniweb.keeperapi.keeper_server import NniwebKeeperServer


class ReportsToNniweb:
    """Mix in before ``TrainingServiceConformance``."""

    #: Registered name of the platform under test.
    platform_name: ClassVar[str] = "local"

    @pytest.fixture
    def keeper_server(self, transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[NniwebKeeperServer]:
        # as the suite's forms ask: whoever waits for an order of the server need not wait for 10 s
        monkeypatch.setattr(report_intervals, "SHORTEST", 0.2)
        with NniwebKeeperServer(self.platform_name) as server:
            yield server
