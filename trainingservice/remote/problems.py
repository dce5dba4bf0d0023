"""What can be wrong between the server and a machine. The texts are what people read."""

from __future__ import annotations

from trainingservice.errors import TemporaryError


class MachineProblem(TemporaryError):
    """A machine cannot be used now. ``check`` names the step of the rehearsal that fails.

    ``needs_person``: it will not pass by itself (wrong password, changed host key, no Python), so it
    is tried again only after long pauses.
    """

    def __init__(self, message: str, check: str = "connection", *, needs_person: bool = False) -> None:
        super().__init__(message)
        self.check = check
        self.needs_person = needs_person


class NotThere(Exception):
    """The machine is not connected at this moment; ``str(error)`` says why."""
