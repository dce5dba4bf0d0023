"""What can go wrong on a platform. The type says what to do, the text what happened and what to try."""

from __future__ import annotations

from trainingservice.reasons import Reason
from trainingservice.words.shown_value import shown


class TrainingServiceError(Exception):
    """Base of all errors a platform raises on purpose. ``str(error)`` is a sentence for a person; ``reason`` is the
    same with its code, where it was given as a ``reasons.Reason`` or all errors of its class have one.
    """

    #: Code (one of ``reasons.OF_CLUSTERS``) of errors that are raised with plain text; "" for none.
    reason_code = ""

    @property
    def reason(self) -> str:
        said = self.args[0] if self.args else ""
        if isinstance(said, Reason):
            return said
        return Reason(self.reason_code, said=str(self)) if self.reason_code else str(self)


class TemporaryError(TrainingServiceError):
    """The same call may succeed later: the platform is away, busy or limits its callers.

    ``retry_after`` is the pause in seconds the platform asked for, None where it asked for none.
    """

    #: Whether other jobs would fare no better. After a few such faults in a row the platform counts as away.
    of_the_cluster = True

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class MustWait(TemporaryError):
    """The platform is well, but has no room for this job now. The text says what it waits for.

    No fault: it starts no back-off. The job is tried again when another one ends, when the
    platform calls ``room_may_be_free``, and after ``retry_after`` seconds (default 5).
    """


class PermanentError(TrainingServiceError):
    """The same call will never succeed: the job or the settings must be changed first."""


class UnknownTrialJob(TrainingServiceError):
    """No job of that name is known to the service or found on the platform."""

    def __init__(self, job_name: str) -> None:
        super().__init__(f"no trial job named {shown(job_name)} is known here")
        self.job_name = job_name


class InvalidMetadata(TrainingServiceError):
    """A metadata key is unknown or its value wrong. ``field`` names the key or the part of it."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.message = message


class Unsupported(TrainingServiceError):
    """This platform cannot do what was asked, by its nature."""
