"""What the conformance classes need of a server of the keeper protocol; ``KeeperReceiver`` is one."""

from __future__ import annotations

from typing import Protocol

from trainingservice.base import TrainingService
from trainingservice.trial_job import HyperParameters, JobApplicationForm, KeeperAccess, TrialCode
from trialkeeper import contract


class KeeperServer(Protocol):
    """A server that answers keepers, seen from the inside. All methods may be called from any thread."""

    def start(self) -> object:
        """Answer again after ``close``, at the same address and with all that is known. Harmless while started."""

    def close(self) -> None:
        """Stop answering, as a server does that is restarted. Nothing is forgotten."""

    def access_for(self, job_name: str) -> KeeperAccess:
        """A new token for this attempt, with the addresses of the server. Earlier ones stay valid."""

    def expect(self, form: JobApplicationForm, *, platform: str, code: TrialCode | None = None) -> None:
        """From now on the keeper of this form can fetch its job and code. Comes after ``access_for``."""

    def entries(self, job_name: str) -> list[contract.Entry]:
        """All entries taken of an attempt, in order, with at least the fields that the keeper gave."""

    def order_stop(self, job_name: str, reason: str) -> None:
        """The next answer to this attempt's keeper tells it to stop."""

    def order_freeze(self, job_name: str, reason: str) -> None:
        """The next answer to this attempt's keeper tells it to have the trial save a checkpoint and end."""

    def order_parameters(self, job_name: str, parameters: HyperParameters) -> None:
        """The next answer to this attempt's keeper brings it further parameters."""

    def attach(self, service: TrainingService) -> None:
        """Call ``service.hear`` with each newly taken entry, once."""
