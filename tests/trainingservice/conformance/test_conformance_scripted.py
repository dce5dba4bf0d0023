"""The scripted platform passes the suite in both shapes; so the suite has seen a platform that ships code."""

import pytest

from trainingservice.testing.behaviour import ScriptedClusterSettings
from trainingservice.testing.conformance import PlatformUnderTest, TrainingServiceConformance
from trainingservice.testing.scripted import ScriptedAtOnceTrainingService, ScriptedTrainingService


class ScriptedUnderTest(PlatformUnderTest):
    metadata_example = ("note", "any text")
    service_class = ScriptedTrainingService
    script = {}

    def new_service(self, context):
        self.service = self.service_class(ScriptedClusterSettings(folder=str(self.folder), **self.script), context)
        return self.service

    def left_behind(self, experiment_id):
        return self.service.left_behind(experiment_id)


class AtOnceUnderTest(ScriptedUnderTest):
    service_class = ScriptedAtOnceTrainingService
    script = {"fetches_job": True, "multi_phase": False}


class TestScriptedWithQueue(TrainingServiceConformance):
    @pytest.fixture
    def platform(self, tmp_path):
        return ScriptedUnderTest(tmp_path / "platform")


@pytest.mark.slow
class TestScriptedAtOnceWithFetchedJobs(TrainingServiceConformance):
    @pytest.fixture
    def platform(self, tmp_path):
        return AtOnceUnderTest(tmp_path / "platform")
