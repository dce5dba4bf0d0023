"""Attempts that went on from a checkpoint continue the curve of the attempt that saved it, of the same trial or of one
that it continues.

An attempt's intermediate result of sequence number n stands at ``first_sequence + n`` in the joined curve of its trial.
For each place the latest attempt's value counts; what an earlier attempt reported beyond the checkpoint counts until it
is repeated. An attempt that began from the beginning begins a new curve.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from django.db import connection
from django.db.models import Exists, OuterRef

from nniweb.experiments.models import Attempt, Metric
from nniweb.experiments.sql.selected_rows import places
from trialkeeper import contract

#: Attempts of one curve (primary keys), the first one first, and where in the curve each begins.
Chain = Mapping[int, int]

#: Annotation of trials: whether an attempt went on from a checkpoint. Asked with them it costs no question more.
IS_RESUMED = Exists(Attempt.objects.filter(trial=OuterRef("pk"), resumed_from__isnull=False))
#: Attempts of one curve at most, the latest ones.
MOST_JOINED = 1000
# by hand: Django has no words for it
_CURVES = """\
WITH RECURSIVE curve(last, attempt, first, checkpoint, place) AS (
  SELECT id, id, COALESCE(first_sequence, 0), resumed_from_id, 0 FROM experiments_attempt
  WHERE id IN {last}
  UNION ALL
  SELECT curve.last, before.id, COALESCE(before.first_sequence, 0), before.resumed_from_id, curve.place + 1
  FROM curve JOIN experiments_checkpoint saved ON saved.id = curve.checkpoint
  JOIN experiments_attempt before ON before.id = saved.attempt_id WHERE curve.place < {most})
SELECT last, attempt, first FROM curve ORDER BY last, place DESC"""
_LAST_RESUMED = """\
(SELECT id FROM experiments_attempt resumed WHERE trial_id IN {trials} AND resumed_from_id IS NOT NULL
 AND NOT EXISTS (SELECT 1 FROM experiments_attempt later
                 WHERE later.trial_id = resumed.trial_id AND later.number > resumed.number))"""


def chains_of(trials: Collection[int]) -> dict[int, Chain]:
    """The curve of each of these trials (primary keys) whose latest attempt went on from a checkpoint. Two questions,
    one where none did.
    """
    if not trials:
        return {}
    found = _chains(_LAST_RESUMED.format(trials=places(trials)), list(trials))
    trial_of = dict(Attempt.objects.filter(pk__in=found).values_list("pk", "trial")) if found else {}
    return {trial_of[last]: chain for last, chain in found.items() if len(chain) > 1}


def chain_of(attempt: Attempt) -> Chain:
    """The curve that ends with this attempt; it alone where it began from the beginning, without a question."""
    if attempt.resumed_from_id is None:
        return {attempt.pk: 0}
    return _chains("(%s)", [attempt.pk])[attempt.pk]


def values_before(attempt: Attempt) -> list[tuple[int, float | None, str]]:
    """What the curve has before this attempt's own results, of attempts of other trials as well: place, number and
    text, by place. The attempt must have gone on from a checkpoint.
    """
    chain = chain_of(attempt)
    earlier = [pk for pk in chain if pk != attempt.pk]
    found: dict[int, tuple[float | None, str]] = {}
    for pk, sequence, number, value in reported_by(earlier):
        if chain[pk] + sequence < (attempt.first_sequence or 0):
            found[chain[pk] + sequence] = (number, value)
    return [(place, *found[place]) for place in sorted(found)]


def reported_by(attempts: Iterable[int]) -> Iterator[tuple[int, int, float | None, str]]:
    """The intermediate results of these attempts: attempt, sequence, number, text; the earliest attempt first."""
    for attempt, sequence, number, value in Metric.objects.filter(
            attempt__in=list(attempts), kind=contract.PERIODICAL).order_by("attempt", "n").values_list(
            "attempt", "sequence", "number", "value").iterator():
        yield attempt, sequence, number, str(value)


def _chains(which: str, arguments: list[int]) -> dict[int, dict[int, int]]:
    """By the last attempt of each."""
    chains: dict[int, dict[int, int]] = {}
    with connection.cursor() as cursor:
        cursor.execute(_CURVES.format(last=which, most=MOST_JOINED), arguments)
        for last, attempt, first in cursor.fetchall():
            chains.setdefault(last, {})[attempt] = first
    return chains
