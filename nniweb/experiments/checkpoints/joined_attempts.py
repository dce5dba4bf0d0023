"""Attempts that went on from a checkpoint continue the curve of the attempt that saved it.

An attempt's intermediate result of sequence number n stands at ``first_sequence + n`` in the joined curve of its trial.
For each place the latest attempt's value counts; what an earlier attempt reported beyond the checkpoint counts until it
is repeated. An attempt that began from the beginning begins a new curve.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from django.db.models import Exists, OuterRef

from nniweb.experiments.models import Attempt

#: Attempts of one curve (primary keys), the first one first, and where in the curve each begins.
Chain = Mapping[int, int]

#: Annotation of trials: whether an attempt went on from a checkpoint. Asked with them it costs no question more.
IS_RESUMED = Exists(Attempt.objects.filter(trial=OuterRef("pk"), resumed_from__isnull=False))


def chains_of(trials: Collection[int]) -> dict[int, Chain]:
    """The curve of each of these trials (primary keys) whose latest attempt went on from a checkpoint. One question."""
    if not trials:
        return {}
    attempts: dict[int, dict[int, tuple[int, int | None]]] = {}
    for pk, trial, first, before in Attempt.objects.filter(
            trial__in=Attempt.objects.filter(trial__in=trials, resumed_from__isnull=False).values("trial")).order_by(
            "number").values_list("pk", "trial", "first_sequence", "resumed_from__attempt"):
        attempts.setdefault(trial, {})[pk] = (first or 0, before)
    chains = {trial: _chain(list(known)[-1], known) for trial, known in attempts.items()}
    return {trial: chain for trial, chain in chains.items() if len(chain) > 1}


def chain_of(attempt: Attempt) -> Chain:
    """The curve that ends with this attempt; it alone where it began from the beginning, without a question."""
    if attempt.resumed_from_id is None:
        return {attempt.pk: 0}
    known = {pk: (first or 0, before) for pk, first, before in Attempt.objects.filter(
        trial=attempt.trial_id).values_list("pk", "first_sequence", "resumed_from__attempt")}
    return _chain(attempt.pk, known)


def _chain(last: int, known: Mapping[int, tuple[int, int | None]]) -> Chain:
    chain: dict[int, int] = {}
    at: int | None = last
    while at is not None and at in known and at not in chain:
        chain[at], at = known[at]
    return dict(reversed(chain.items()))
