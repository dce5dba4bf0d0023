"""Jobs that a test gives to a real scheduler by the commands of an example, and what is seen of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.trainingservice.command.page_examples import settings_of
from trainingservice.command.scheduler import Scheduler
from trainingservice.submit_host.host import ThisMachine
from trainingservice.trial_job_status import TrialJobStatus

ASKED = {"GPUS": "0", "CPUS": "1", "MEMORY_MB": "", "ARGUMENTS": ""}


class JobsOfAScheduler:
    def __init__(self, chapter: str, folder: Path, wait: Callable[[str, Callable[[], bool]], None]) -> None:
        """``chapter``: of docs/platforms/command.md; ``wait``: the scheduler's, with a limit."""
        self.folder = folder
        self.scheduler = Scheduler(settings_of(chapter), ThisMachine())
        self.ids: list[str] = []
        self._wait = wait

    def submit(self, name: str, text: str = "sleep 600", **asked: str) -> str:
        """The id of a job that runs these lines of shell; ``asked``: variables of submitCommand."""
        script = self.folder / f"{name}.sh"
        script.write_text(f"{text}\n")
        self.ids.append(self.scheduler.submit(name, str(script), {"JOB_FOLDER": str(self.folder), **ASKED, **asked}))
        return self.ids[-1]

    def status(self, job_id: str) -> TrialJobStatus | None:
        """None: the scheduler does not have it any more."""
        listed = self.scheduler.listed([job_id])
        assert listed.is_whole, listed.said
        return listed.seen[job_id].status if job_id in listed.seen else None

    def wait(self, job_id: str, status: TrialJobStatus | None) -> None:
        self._wait(f"job {job_id} is {status}", lambda: self.status(job_id) is status)
