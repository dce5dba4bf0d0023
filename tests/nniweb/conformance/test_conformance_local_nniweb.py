"""The local platform passes the suite with nniweb as the server that keepers report to."""

import pytest

from tests.nniweb.conformance.reports_to_nniweb import ReportsToNniweb
from tests.trainingservice.conformance.test_conformance_local import LocalUnderTest
from trainingservice.testing.conformance import TrainingServiceConformance


@pytest.mark.slow
class TestLocalOnNniweb(ReportsToNniweb, TrainingServiceConformance):
    @pytest.fixture
    def platform(self, tmp_path):
        return LocalUnderTest(tmp_path / "platform")
