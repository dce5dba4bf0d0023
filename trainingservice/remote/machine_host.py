"""What a machine tells the service that has it, and asks of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from trainingservice.errors import TrainingServiceError
from trainingservice.keeper.agent_client import FolderState


class MachineHost(Protocol):
    """What a machine tells its service. Called in the machine's threads."""

    def machine_saw(self, address: str, job_name: str, state: FolderState, asked_at: float) -> None:
        """The state of a trial's folder; "absent" where the machine has none of that name.

        ``asked_at``: monotonic seconds; what is told was true then or later. Several threads tell, so an old answer
        may come after a newer one.
        """

    def machine_gives_back(self, address: str, job_name: str, fault: TrainingServiceError) -> None:
        """A trial could not be started there, and certainly does not run there."""

    def machine_says(self, job_name: str, message: str) -> None:
        """Why a trial that waits there still waits."""

    def machine_changed(self, address: str) -> None:
        """It came, went, or has room: trials that wait may be looked at again."""

    def folders_on(self, address: str) -> Mapping[str, str]:
        """Unfinished trials that are there, or may be there: job name -> folder relative to the cluster's folder."""

    def accepted_when_resumed(self, job_names: Iterable[str]) -> dict[str, int]:
        """How much the server had of these trials' journals when the service took them over, until ``seen_again``."""

    def seen_again(self, job_name: str) -> None:
        """The machine that has the trial knows how much the server had of its journal."""
