"""Platforms of which one part never returns, or raises what no platform should, while somebody waits for a page."""

import threading
from typing import Any, ClassVar

from trainingservice.base import RehearsalFinding, ServiceContext
from trainingservice.cluster_settings import ClusterSettings, TrialOptions
from trainingservice.files.output_folder import OutputFolder
from trainingservice.testing.misbehaving import DocileSettings, DocileTrainingService
from trainingservice.trial_job import TrialJobDetail


class StuckSettings(DocileSettings):
    platform_name: ClassVar[str] = "stuck"
    part: str = ""


class StuckTrainingService(DocileTrainingService):
    platform: ClassVar[str] = "stuck"
    settings_model: ClassVar[type[ClusterSettings]] = StuckSettings
    metadata_keys: ClassVar[dict[str, str]] = {"note": "any text"}
    #: Lets go of all calls that hang.
    released: ClassVar[threading.Event] = threading.Event()

    def __init__(self, settings: ClusterSettings, context: ServiceContext) -> None:
        super().__init__(settings, context)
        self._do("constructor")

    def rehearse(self, quick: bool = False, options: TrialOptions | None = None) -> list[RehearsalFinding]:
        self._do("rehearsal")
        return [RehearsalFinding("connection", True, "It answers.")]

    def set_cluster_metadata(self, key: str, value: str) -> None:
        self._do("metadata")

    def output_folder(self, job: TrialJobDetail) -> OutputFolder:
        self._do("output folder")
        return super().output_folder(job)

    def _do(self, part: str) -> None:
        settings: Any = self.settings
        if settings.part == part:
            self.released.wait()
        elif settings.part == f"broken {part}":
            raise RuntimeError("a defect")
