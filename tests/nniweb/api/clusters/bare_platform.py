"""A platform that declares no settings, as a third party's may."""

from trainingservice.cluster_settings import ClusterSettings
from trainingservice.testing.misbehaving import DocileTrainingService


class BareTrainingService(DocileTrainingService):
    platform = "bare"
    settings_model = ClusterSettings
