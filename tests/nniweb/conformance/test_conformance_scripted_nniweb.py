"""The scripted platform passes the suite in both shapes with nniweb as the server that keepers report to.

In the second shape keepers also fetch job and code from nniweb.
"""

import pytest

from tests.nniweb.conformance.reports_to_nniweb import ReportsToNniweb
from tests.trainingservice.conformance.test_conformance_scripted import AtOnceUnderTest, ScriptedUnderTest
from trainingservice import platforms
from trainingservice.testing.conformance import TrainingServiceConformance


@pytest.fixture(autouse=True)
def _registered():
    classes = {"scripted": "ScriptedTrainingService", "scripted_at_once": "ScriptedAtOnceTrainingService"}
    for name, class_name in classes.items():
        platforms.register(name, f"trainingservice.testing.scripted:{class_name}")
    yield
    for name in classes:
        platforms.unregister(name)


@pytest.mark.slow
class TestScriptedWithQueueOnNniweb(ReportsToNniweb, TrainingServiceConformance):
    platform_name = "scripted"

    @pytest.fixture
    def platform(self, tmp_path):
        return ScriptedUnderTest(tmp_path / "platform")


class TestScriptedAtOnceWithFetchedJobsOnNniweb(ReportsToNniweb, TrainingServiceConformance):
    platform_name = "scripted_at_once"

    @pytest.fixture
    def platform(self, tmp_path):
        return AtOnceUnderTest(tmp_path / "platform")
