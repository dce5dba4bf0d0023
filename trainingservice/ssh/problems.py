"""What can be wrong between the server and a machine. The texts are what people read."""

from __future__ import annotations

import logging

from trainingservice.errors import TemporaryError
from trainingservice.reasons import Reason

logger = logging.getLogger(__name__)


#: Step of the rehearsal -> code of what fails there; others are ``machine_unusable``.
_CODES = {"connection": "unreachable", "host_key": "host_key_refused", "login": "log_in_refused"}


class MachineProblem(TemporaryError):
    """A machine cannot be used now. ``check`` names the step of the rehearsal that fails.

    ``needs_person``: it will not pass by itself (wrong password, changed host key, no Python), so it
    is tried again only after long pauses.
    """

    def __init__(self, message: str, check: str = "connection", *, needs_person: bool = False) -> None:
        super().__init__(message)
        self.check = check
        self.needs_person = needs_person
        self.reason_code = _CODES.get(check, "machine_unusable")


class SessionBroke(MachineProblem):
    """The session ended while a command ran in it: it may have done its work."""


class NotConnected(TemporaryError):
    """The machine is not connected at this moment; the text says why. Says nothing of what was to be done there."""

    reason_code = "unreachable"


def as_problem(error: Exception, machine: str) -> MachineProblem:
    """The sentence for whatever went wrong with a machine. What nobody foresaw is logged with its traceback."""
    if isinstance(error, MachineProblem):
        return error
    if isinstance(error, TemporaryError):
        return MachineProblem(error.reason)
    logger.error("machine %s: an unexpected error", machine, exc_info=error)
    return MachineProblem(Reason("platform_defect", said=(
        f"Machine {machine} cannot be used because of an unexpected error ({type(error).__name__}: "
        f"{' '.join(str(error).split())}). The server tries again after a pause. Its log has the traceback.")))
