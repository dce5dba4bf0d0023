"""A trial as NNI has kept it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from trainingservice.trial_job_status import TrialJobStatus


@dataclass(frozen=True)
class ArchivedMetric:
    at: datetime
    kind: str
    sequence: int
    #: JSON text, as the trial gave it.
    value: str
    #: JSON text.
    parameter_id: str


@dataclass
class ArchivedTrial:
    """``status`` is an end; a trial that had none when NNI stopped counts as canceled, and ``ended`` is None."""

    id: str
    sequence_id: int | None = None
    status: TrialJobStatus = TrialJobStatus.USER_CANCELED
    message: str = ""
    #: (parameter id, parameters), one for each phase.
    parameters: list[tuple[Any, Any]] = field(default_factory=list)
    #: Of the parameters.
    is_customized: bool = False
    created: datetime = datetime.fromtimestamp(0, UTC)
    started: datetime | None = None
    ended: datetime | None = None
    folder: Path | None = None
    metrics: list[ArchivedMetric] = field(default_factory=list)
    #: Where the parameters are not the planned ones, or may be others: a sentence.
    about_parameters: str = ""
