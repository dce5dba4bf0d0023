"""Trials of proposals: the first of each, further ones when there is room, and those that people ask for."""

from __future__ import annotations

from collections.abc import Container, Sequence
from datetime import datetime
from typing import Any

from django.db.models import F, Sum

from nniweb.experiments.lifecycle.reason_columns import said
from nniweb.experiments.models import Experiment, Proposal, Trial, TrialEvent, TrialParameters
from nniweb.experiments.results.replicates import replicates_of_each, seed_of
from nniweb.experiments.sql.changed_rows import update
from nniweb.experiments.sql.new_rows import insert
from nniweb.experiments.sql.selected_rows import places, select
from trainingservice.reasons import Reason

_OF_PROPOSAL = ("id", "number", "first_sequence_id", "begun", "wanted")


def replicates_to_start(experiment: Experiment) -> int:
    """Further replicates that wait for room."""
    if not experiment.has_replicates:
        return 0
    found = Proposal.objects.filter(experiment=experiment, begun__lt=F("wanted")).aggregate(
        count=Sum(F("wanted") - F("begun")))
    return int(found["count"] or 0)


def with_proposals(experiment: Experiment, trials: Sequence[Trial], *, raced: bool, forbidden: Container[int] = ()
                   ) -> Sequence[Trial]:
    """New trials, not stored yet, as the first replicates of proposals, which are stored. Without ``raced`` all others
    are wanted, too, except at the places ``forbidden``, whose parameters break a constraint. In an experiment without
    replicates they stay as they are.
    """
    if experiment.has_replicates:
        most = 1 if raced else replicates_of_each(experiment)
        proposals = insert(Proposal(experiment=experiment, number=trial.ask_number,
                                    first_sequence_id=trial.sequence_id, wanted=1 if place in forbidden else most)
                           for place, trial in enumerate(trials))
        for trial, proposal in zip(trials, proposals, strict=True):
            trial.proposal, trial.replicate, trial.seed = proposal, 0, seed_of(experiment, 0)
    return trials


def make_replicates(experiment: Experiment, most: int, may_start: int, reason: str, at: datetime, revision: int
                    ) -> tuple[list[Trial], list[Trial], dict[int, TrialParameters]]:
    """At most so many further replicates as trials, those of the earliest proposals first; those of them that start,
    ``may_start`` at most; and by trial (primary key) their parameters. The others wait, and say why: ``reason``, and
    those that another token than the experiment's has asked for until its own limits were looked at.

    Inside a transaction that holds the experiment's row, which is as it is now; it is brought up to date.
    """
    proposals = select(Proposal, _OF_PROPOSAL, "WHERE experiment_id = %s AND begun < wanted ORDER BY first_sequence_id"
                       " LIMIT %s", [experiment.pk, most])
    due = [(proposal, replicate) for proposal in proposals
           for replicate in range(proposal.begun, proposal.wanted)][:most]
    if not due:
        return [], [], {}
    given, first = _first_trials(experiment, proposals)
    askers = [first[proposal.first_sequence_id].token_id for proposal, _ in due]
    own = [place for place, asker in enumerate(askers) if asker in (None, experiment.token_id)]
    starting = set(own[:may_start])
    trials = insert(
        Trial(experiment=experiment, sequence_id=experiment.next_sequence_id + place, ask_number=proposal.number,
              source="tuner" if proposal.number is not None else "customized", proposal=proposal, replicate=replicate,
              seed=seed_of(experiment, replicate), created_at=at, revision=revision,
              variant_id=first[proposal.first_sequence_id].variant_id, token_id=askers[place],
              **said("" if place in starting else reason if place in own and reason else Reason("free_slot")))
        for place, (proposal, replicate) in enumerate(due))
    stored = insert(TrialParameters(trial=trial, index=0, parameter_id=trial.ask_number,
                                    value=given.get(proposal.first_sequence_id))
                    for trial, (proposal, _) in zip(trials, due, strict=True))
    insert(TrialEvent(trial=trial, at=at, kind="created",
                      message=f"Replicate {replicate} of the proposal of trial {proposal.first_sequence_id}.")
           for trial, (proposal, replicate) in zip(trials, due, strict=True))
    for proposal, replicate in due:
        update(Proposal, "id = %s", [proposal.pk], begun=replicate + 1)
    experiment.next_sequence_id += len(trials)
    update(Experiment, "id = %s", [experiment.pk], next_sequence_id=experiment.next_sequence_id)
    return trials, [trials[place] for place in sorted(starting)], {row.trial_id: row for row in stored}


def _first_trials(experiment: Experiment, proposals: Sequence[Proposal]) -> tuple[dict[int, Any], dict[int, Trial]]:
    """Parameters, and the first trials with their variants and tokens, by their numbers."""
    numbers = [proposal.first_sequence_id for proposal in proposals]
    first = {trial.pk: trial for trial in select(
        Trial, ("id", "sequence_id", "variant", "token"),
        f"WHERE experiment_id = %s AND sequence_id IN {places(numbers)}", [experiment.pk, *numbers])}
    given = {first[pk].sequence_id: value for pk, value in TrialParameters.objects.filter(
        trial__in=list(first), index=0).values_list("trial", "value")}
    return given, {trial.sequence_id: trial for trial in first.values()}
