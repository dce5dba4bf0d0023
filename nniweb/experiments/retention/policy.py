"""For how long what is not a result is kept: an experiment's own word, else the installation's; and what that says."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings

from nniweb.experiments.models import Experiment, Trial

#: What may be removed: what trials wrote; intermediate results and readings of machines; kept files and checkpoints;
#: copies of the code; ended jobs on platforms that keep them. Parameters, final results and histories never are.
KINDS = ("output", "readings", "files", "code", "jobs")
#: Those that belong to a trial, and have ``<kind>_removed_at`` there.
OF_TRIALS = ("output", "readings", "files")
#: The word that overrules the installation's number of days.
FOREVER = "forever"
#: Of jobs: each goes with the experiment's end if the server has its whole output, and stays otherwise.
SAVED = "saved"
#: The most days that can be said.
LONGEST_DAYS = 36_500
#: In ``<kind>_removed_at`` of a trial: it was looked at, and there was nothing.
NOTHING_THERE = datetime(1970, 1, 1, tzinfo=UTC)

_WHAT = {"output": "The output of the trial "
                   "was", "readings": "The trial's intermediate results and resource samples were",
         "files": "The trial's kept files were"}
_NAMES = {"output": "Output", "readings": "Intermediate results, readings", "files": "Kept files, checkpoints",
          "code": "Copy of the code", "jobs": "Ended jobs on Kubernetes"}


def days_kept(own: Mapping[str, int | str]) -> dict[str, int | None]:
    """For each of KINDS but jobs the days that are in force; None: for ever. ``own``: the experiment's ``retention``.
    """
    return {kind: None if own.get(kind) == FOREVER else int(own[kind]) if own.get(kind) is not None
            else settings.KEEP_DAYS[kind] for kind in KINDS if kind != "jobs"}


def jobs_kept(own: Mapping[str, int | str]) -> int | str:
    """What is in force for ended jobs: days from the experiment's end, FOREVER or SAVED."""
    kept: int | str | None = own.get("jobs")
    return settings.KEEP_JOBS if kept is None else kept


def in_words(own: int | str | None) -> str:
    """One value of an experiment's ``retention``; None: it has none."""
    return "as the server's" if own is None else "for ever" if own == FOREVER \
        else "until the experiment has ended, if the server has all of their output" if own == SAVED \
        else in_days(int(own))


def in_days(days: int | None) -> str:
    return "for ever" if days is None else "1 day" if days == 1 else f"{days} days"


def removed_at(trial: Trial, kind: str) -> datetime | None:
    """When retention removed what there was of this kind (of OF_TRIALS); None where it has not, or nothing was."""
    at: datetime | None = getattr(trial, f"{kind}_removed_at")
    return None if at == NOTHING_THERE else at


def removed_sentence(trial: Trial, kind: str) -> str:
    """That something was removed, for the place where it would be; "" where it was not."""
    at = removed_at(trial, kind)
    return "" if at is None else f"{_WHAT[kind]} removed {_when(at, trial.ended_at)}"


def removed_sentences(trial: Trial) -> dict[str, str]:
    return {kind: removed_sentence(trial, kind) for kind in OF_TRIALS}


def why_it_cannot_go_on(experiment: Experiment) -> str:
    """What an ended experiment would need to go on and has not any more; "" where nothing is missing."""
    for at, what in ((experiment.code_removed_at, "The copy of the experiment's code was"),
                     (experiment.checkpoints_removed_at, "The checkpoints that its trials continue from were")):
        if at is not None:
            return f"{what} removed {_when(at, experiment.ended_at)} Clone the experiment to continue with new trials."
    return ""


def _when(at: datetime, ended_at: datetime | None) -> str:
    after = "" if ended_at is None else f", {in_days(max(0, (at - ended_at) // timedelta(days=1)))} after the end"
    return f"by retention on {at:%Y-%m-%d}{after}."


def as_seen(experiment: Experiment) -> list[dict[str, Any]]:
    """For each kind: what it is and how long it is kept, in words; the experiment's own word, where it has one."""
    own = experiment.retention
    words = {**{kind: in_days(days) for kind, days in days_kept(own).items()}, "jobs": in_words(jobs_kept(own))}
    return [{"kind": kind, "what": _NAMES[kind], "days": words[kind], "own": own.get(kind) is not None,
             "written": own.get(kind, "")} for kind in KINDS]
