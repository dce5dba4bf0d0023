"""Trials that go on with earlier ones: which trial that is, and whose checkpoints they may have."""

from __future__ import annotations

from collections.abc import Iterable

from django.db import connection

from nniweb.experiments.models import Experiment, Trial
from nniweb.experiments.models.trial import RESULTS
from nniweb.tuning.algorithms import find_tuner

#: Trials that one follows another, at most: beyond them nothing is looked for.
MOST_BEFORE = 100
# by hand: Django has no words for it
_LINE = """\
WITH RECURSIVE line(trial, continued, place) AS (
  SELECT id, continues_id, 0 FROM experiments_trial WHERE id = %s
  UNION ALL
  SELECT trial.id, trial.continues_id, line.place + 1
  FROM line JOIN experiments_trial trial ON trial.id = line.continued WHERE line.place < %s)
SELECT trial FROM line ORDER BY place"""


def may_continue_trials(experiment: Experiment) -> bool:
    """Whether a trial that has ended may be continued yet: its checkpoints are needed until the experiment ends."""
    name = experiment.tuner.get("name")
    return not experiment.is_finished and bool(name) and find_tuner(name).continues_trials


def trials_of_proposals(experiment: Experiment, numbers: Iterable[int]) -> dict[int, int]:
    """The trials (primary keys) that ran these proposals of the tuner, by number; those that there are.

    Of a trial that gave no result its rerun that did: the tuner was told that one's.
    """
    found: dict[int, int] = {}
    for number in set(numbers):
        trials = Trial.objects.filter(experiment=experiment, ask_number=number).order_by("sequence_id").only("status")
        # by sequence number, which has an index: it is mostly the same, and less only where trials were imported
        trial = trials.filter(sequence_id__gte=number).first() or trials.first()
        if trial is not None:
            found[number] = trial.pk if trial.status in RESULTS else _rerun_with_result(trial)
    return found


def _rerun_with_result(trial: Trial) -> int:
    """The rerun of it, or of a rerun of it, that has a result; itself where none has."""
    runs = [trial.pk]
    for _ in range(MOST_BEFORE):
        reruns = list(Trial.objects.filter(rerun_of__in=runs).order_by("sequence_id").values_list("pk", "status"))
        for pk, status in reruns:
            if status in RESULTS:
                return pk
        if not reruns:
            break
        runs = [pk for pk, _ in reruns]
    return trial.pk


def line_of(trial: Trial) -> list[int]:
    """The trial and those that it goes on with, one after another (primary keys), itself first. No question where it
    continues none.
    """
    if trial.continues_id is None:
        return [trial.pk]
    with connection.cursor() as cursor:
        cursor.execute(_LINE, [trial.pk, MOST_BEFORE])
        return [pk for (pk,) in cursor.fetchall()]
