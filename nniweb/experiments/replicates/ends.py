"""Ends of trials become means of their proposals, which the tuner is told."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db.models import Max, Min

from nniweb.experiments.models import Experiment, Proposal, Trial, TrialParameters
from nniweb.experiments.models.proposal import ProposalState
from nniweb.experiments.models.trial import CONSTRAINT_BROKEN
from nniweb.experiments.notifications import outbox
from nniweb.experiments.replicates.outcome import Outcome, Run, outcome_of
from nniweb.experiments.replicates.told_variants import hashes_of, is_told
from nniweb.experiments.results.replicates import is_raced, replicates_of_each
from nniweb.experiments.sql.changed_rows import update
from nniweb.experiments.sql.selected_rows import places, select
from nniweb.tuning.replicates import may_be_better

_OF_TRIAL = ("id", "public_id", "proposal", "sequence_id", "replicate", "status", "reason", "counted_value", "taught",
             "variant")


def take_ends(experiment: Experiment, trials: Sequence[Trial], values: Mapping[int, Sequence[float | None]],
              revision: int, at: datetime) -> list[dict[str, Any]]:
    """Count trials that have just ended, in the order of their ends, in their proposals. Returns what the tuner's
    history says of proposals that have ended with them, each once; again where one that had no value has one now.

    ``values``: what each trial counts. Inside the transaction that holds the experiment's row and has marked the trials
    as taught.
    """
    ended = [trial for trial in trials if trial.proposal_id is not None]
    if not ended:
        return []
    for trial in ended:
        if (value := values[trial.pk][0]) is not None:
            update(Trial, "id = %s", [trial.pk], counted_value=value)
    keys = sorted({trial.proposal_id for trial in ended if trial.proposal_id is not None})
    proposals = Proposal.objects.in_bulk(keys)
    runs: dict[int, list[Trial]] = defaultdict(list)
    for trial in select(Trial, _OF_TRIAL, f"WHERE proposal_id IN {places(keys)} ORDER BY sequence_id", keys):
        assert trial.proposal_id is not None
        runs[trial.proposal_id].append(trial)
    counting = _Counting(experiment, at)
    to_come = {trial.pk for trial in ended}
    told: list[tuple[Proposal, Outcome]] = []
    for trial in ended:
        to_come.discard(trial.pk)
        proposal = proposals[trial.proposal_id]
        known = [Run(run.replicate or 0, run.status, run.counted_value) for run in runs[proposal.pk]
                 if run.taught and run.pk not in to_come]
        outcome = counting.count(proposal, known, is_forbidden=trial.reason == CONSTRAINT_BROKEN)
        if _is_news(proposal, outcome):
            proposal.is_told, proposal.told_value = True, outcome.mean
            update(Proposal, "id = %s", [proposal.pk], is_told=True, told_value=outcome.mean)
            told.append((proposal, outcome))
    # the pages of all its trials show the mean
    update(Trial, f"proposal_id IN {places(keys)}", keys, revision=revision)
    return _events(experiment, told, {pk: found[0] for pk, found in runs.items()})


def _is_news(proposal: Proposal, outcome: Outcome) -> bool:
    """Whether the tuner is told: of an end once, and of a first value that came by a rerun."""
    if outcome.state == ProposalState.OPEN:
        return False
    return not proposal.is_told or (proposal.told_value is None and outcome.mean is not None)


class _Counting:
    """The proposals of one experiment as ends are counted in them, and the best one that they are compared with."""

    def __init__(self, experiment: Experiment, at: datetime) -> None:
        self._experiment = experiment
        self._at = at
        self._most = replicates_of_each(experiment)
        self._upwards = experiment.optimize_mode == Experiment.OptimizeMode.MAXIMIZE
        self._of_experiment = Proposal.objects.filter(experiment=experiment)
        #: The best mean of proposals that were run in full.
        self._best = self._best_complete()

    def count(self, proposal: Proposal, runs: Sequence[Run], *, is_forbidden: bool) -> Outcome:
        """Give the proposal what these runs come to, and store it. ``is_forbidden``: it breaks a constraint."""
        # of parameters that a person chose all replicates are wanted
        is_in_race = is_forbidden or (is_raced(self._experiment) and proposal.number is not None)

        def is_worth_more(mean: float) -> bool:
            if is_forbidden:
                return False  # also where failed trials have a value
            # until one was run in full, with the best that there is
            best = self._best if self._best is not None else self._best_of_others(proposal)
            return may_be_better(mean, best, maximize=self._upwards)

        outcome = outcome_of(runs, proposal.begun, self._most, is_worth_more if is_in_race else None)
        was_complete = proposal.state == ProposalState.COMPLETE
        proposal.state, proposal.wanted = outcome.state, outcome.wanted
        proposal.value_count, proposal.failed_count = outcome.value_count, outcome.failed_count
        proposal.mean, proposal.standard_error = outcome.mean, outcome.standard_error
        update(Proposal, "id = %s", [proposal.pk], state=outcome.state.value, wanted=outcome.wanted,
               value_count=outcome.value_count, failed_count=outcome.failed_count, mean=outcome.mean,
               standard_error=outcome.standard_error)
        if was_complete or outcome.state == ProposalState.COMPLETE:
            before, self._best = self._best, self._best_complete()
            if not was_complete:
                outbox.proposal_has_result(self._experiment, proposal, before, self._at)
        return outcome

    def _best_complete(self) -> float | None:
        complete = self._of_experiment.filter(state=ProposalState.COMPLETE, mean__isnull=False)
        found: float | None = complete.order_by("-mean" if self._upwards else "mean").values_list(
            "mean", flat=True).first()
        return found

    def _best_of_others(self, proposal: Proposal) -> float | None:
        others = self._of_experiment.exclude(pk=proposal.pk)
        found: float | None = others.aggregate(best=(Max if self._upwards else Min)("mean"))["best"]
        return found


def _events(experiment: Experiment, told: Sequence[tuple[Proposal, Outcome]], first: Mapping[int, Trial]
            ) -> list[dict[str, Any]]:
    """Algorithms of the user's own and programs outside of the server are told of parameters that people chose, too.
    ``first``: by proposal.
    """
    heard = [(proposal, outcome) for proposal, outcome in told
             if is_told(experiment, proposal.number, first[proposal.pk])]
    if not heard:
        return []
    keys = [first[proposal.pk].pk for proposal, _ in heard]
    given = dict(TrialParameters.objects.filter(trial__in=keys, index=0).values_list("trial", "value"))
    hashes = hashes_of(first[proposal.pk] for proposal, _ in heard)
    events = []
    for proposal, outcome in heard:
        trial = first[proposal.pk]
        event: dict[str, Any] = {
            "event": "tell", "number": proposal.number, "parameters": given.get(trial.pk) or {}, "value": outcome.mean,
            "status": outcome.status, "standard_error": outcome.standard_error, "replicates": outcome.value_count}
        if experiment.has_own_tuner:
            event["result"] = None if outcome.mean is None else json.dumps(outcome.mean)
        if experiment.tells_all_ends:
            event["trial"] = trial.public_id
            if proposal.number is None:
                event["customized"] = True
        if trial.variant_id is not None:
            event["variant"] = hashes[trial.variant_id]
        events.append(event)
    return events
