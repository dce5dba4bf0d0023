"""The command platform for benches: an example of its page, with the scheduler that the example is for."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from tests.trainingservice.command.page_examples import settings_of
from trainingservice.command.config import CommandTrialOptions
from trainingservice.command.service import CommandTrainingService
from trainingservice.testing.conformance import PlatformUnderTest


class QuickCommand(CommandTrainingService):
    """Asks as often as no administrator would like."""

    poll_interval = (0.2, 0.5)
    search_time = 2.0
    not_there_yet = 2.0
    gone_after = 2.0


class SchedulerUnderTest(PlatformUnderTest):
    """``chapter``: of the page; ``job_names``: names of the scheduler's jobs that have not ended."""

    def __init__(self, folder: Path, chapter: str, job_names: Callable[[], Collection[str]], *, login_node: Any = None,
                 **options: Any) -> None:
        super().__init__(folder)
        self.shared = folder / "shared"
        self.shared.mkdir(parents=True)
        self.settings = settings_of(chapter, working_folder=str(self.shared), login_node=login_node)
        self.more_options = options
        self.job_names = job_names

    def new_service(self, context):
        return QuickCommand(self.settings, context)

    def options(self):
        return CommandTrialOptions(python_path=str(Path(sys.executable).parent), **self.more_options)

    def left_behind(self, experiment_id):
        return [str(path) for path in self.shared.rglob("*") if experiment_id in path.parts]

    def jobs_have_ended(self) -> bool:
        return not self.job_names()
