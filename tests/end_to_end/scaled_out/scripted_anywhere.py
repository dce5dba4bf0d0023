"""The scripted platform as one that a worker on any host may drive, as remote ones are.

In experiment files ``platform: scripted_anywhere``; the processes of ``several_processes`` know it.
"""

from __future__ import annotations

from typing import ClassVar

from trainingservice.cluster_settings import ClusterSettings
from trainingservice.testing.behaviour import ScriptedClusterSettings
from trainingservice.testing.scripted import ScriptedTrainingService


class ScriptedAnywhereSettings(ScriptedClusterSettings):
    """Give ``folder``: the cluster is then the same for all workers."""

    platform_name: ClassVar[str] = "scripted_anywhere"


class ScriptedAnywhereTrainingService(ScriptedTrainingService):
    """Its keepers are given the public address of the installation, as those on other machines are."""

    platform: ClassVar[str] = "scripted_anywhere"
    settings_model: ClassVar[type[ClusterSettings]] = ScriptedAnywhereSettings
    pinned_to_host: ClassVar[bool] = False
    needs_public_url: ClassVar[bool] = True
