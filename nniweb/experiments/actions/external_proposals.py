"""Parameters that a program outside of the server proposes, in an experiment with the tuner External.

Each proposal becomes a trial as one of a built-in tuner does: it is an ``ask`` of the tuner's history, and its end a
``tell``. That history is what the program reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import Count, Max
from django.utils import timezone

from nniweb.experiments.access import audit
from nniweb.experiments.access.request_actor import asking_token
from nniweb.experiments.actions.intents import at_limit, limit_reached
from nniweb.experiments.actions.locked_experiment import locked
from nniweb.experiments.errors import Refused
from nniweb.experiments.lifecycle.reason_columns import said
from nniweb.experiments.lifecycle.transitions import move_experiment
from nniweb.experiments.lifecycle.trial_end import why_it_waits
from nniweb.experiments.lifecycle.tuner_events import append_events
from nniweb.experiments.models import (
    CodeVariant,
    Experiment,
    ProposalKey,
    Trial,
    TrialEvent,
    TrialParameters,
    TunerEvent,
    User,
)
from nniweb.experiments.models.experiment import ExperimentStatus, ExperimentTarget
from nniweb.experiments.replicates.new_trials import with_proposals
from nniweb.experiments.results.replicates import is_raced, replicates_of_each
from nniweb.experiments.sql.new_rows import insert
from nniweb.tuning.constraints.constraint import first_broken, read_constraints
from nniweb.tuning.search_space.parser import parse_search_space
from trainingservice.reasons import Reason
from trainingservice.trial_job_status import TrialJobStatus

#: Most proposals of one request, and most that wait for a slot at a time.
MOST_AT_ONCE, MOST_WAITING = 1000, 10_000
#: Events of the history that are read for one answer.
MOST_READ = 1000

_TAKES_PROPOSALS = (ExperimentStatus.INITIALIZED, ExperimentStatus.RUNNING, ExperimentStatus.PAUSED,
                    ExperimentStatus.NO_MORE_TRIAL)


@dataclass(frozen=True)
class Proposed:
    """``key`` None: it has no name, and is a new proposal each time it is sent. ``variant``: of the code, stored."""

    parameters: dict[str, Any]
    key: str | None = None
    variant: CodeVariant | None = None

    @property
    def named(self) -> tuple[dict[str, Any], int | None]:
        """What its key stands for."""
        return self.parameters, None if self.variant is None else self.variant.pk


@dataclass(frozen=True)
class Told:
    """One thing that the history tells. ``number``: its place there; ``trial`` None: an imported result."""

    number: int
    data: dict[str, Any]
    trial: Trial | None
    key: str | None


def propose(experiment: Experiment, proposals: Sequence[Proposed], actor: User | None = None, *,
            complete: bool = False) -> tuple[list[Trial], set[int]]:
    """Make trials of proposals; one whose key is known keeps its trial. The trial of each, in their order, and the
    primary keys of the new ones. ``complete``: no more follow, so the experiment is done when its trials have ended.

    Parameters must lie inside the search space and satisfy the constraints. Raises Refused; then nothing was changed.
    """
    with transaction.atomic():
        experiment, revision = locked(experiment)
        if not experiment.has_external_tuner:
            raise Refused(Reason("not_external", tuner=str(experiment.tuner.get("name") or "a custom one")))
        known = _known(experiment, proposals)
        new = _new(experiment, proposals, known)
        trials = _made(experiment, [proposals[place] for place in new], revision, actor) if new else []
        made = dict(zip(new, trials, strict=True))
        known |= {proposals[place].key: trial for place, trial in made.items() if proposals[place].key is not None}
        if complete:
            _complete(experiment, actor)
        found = [made[place] if place in made else known[proposal.key] for place, proposal in enumerate(proposals)]
    return found, {trial.pk for trial in trials}


def wanted(experiment: Experiment) -> int:
    """How many proposals could run now besides those that are there."""
    may_start = experiment.status in (ExperimentStatus.INITIALIZED, ExperimentStatus.RUNNING) \
        and experiment.target == ExperimentTarget.RUN
    if not (experiment.has_external_tuner and may_start) or limit_reached(experiment, timezone.now()):
        return 0
    free = max(0, experiment.trial_concurrency - Trial.objects.unfinished().filter(experiment=experiment).count())
    if experiment.has_replicates and not is_raced(experiment):
        free = -(-free // replicates_of_each(experiment))
    return free if experiment.max_trial_number is None else min(
        free, experiment.max_trial_number - experiment.next_sequence_id)


def told_after(experiment: Experiment, number: int) -> tuple[list[Told], int, bool]:
    """Ends and imported results that the history has after this place, in order; the place to go on from; and whether
    there is more. -1 is the place before the first.
    """
    rows = list(TunerEvent.objects.filter(experiment=experiment, number__gt=number).order_by("number")
                .values_list("number", "data")[:MOST_READ])
    tells = [(place, data) for place, data in rows if data["event"] == "tell"]
    trials = _trials_told(experiment, [data for _, data in tells])
    keys = dict(ProposalKey.objects.filter(trial__in=[trial.pk for trial in trials.values()]).values_list(
        "trial", "key"))
    told = []
    for place, data in tells:
        trial = trials.get(data.get("trial") or data["number"])
        told.append(Told(place, data, trial, None if trial is None else keys.get(trial.pk)))
    return told, rows[-1][0] if rows else number, len(rows) == MOST_READ


def newest_place(experiment: Experiment) -> int:
    """Of the history; -1 where there is none."""
    newest: int | None = TunerEvent.objects.filter(experiment=experiment).aggregate(newest=Max("number"))["newest"]
    return -1 if newest is None else newest


def _trials_told(experiment: Experiment, events: Sequence[dict[str, Any]]) -> dict[Any, Trial]:
    """By what an event names its trial with: its id, or the number of the proposal, of which it is the first trial."""
    trials = Trial.objects.filter(experiment=experiment).only("id", "public_id", "sequence_id", "ask_number")
    by_id = trials.filter(public_id__in=[event["trial"] for event in events if event.get("trial")])
    by_number = trials.filter(ask_number__in=[event["number"] for event in events
                                              if not event.get("trial") and event["number"] is not None])
    found: dict[Any, Trial] = {trial.public_id: trial for trial in by_id}
    for trial in by_number.order_by("-sequence_id"):
        found[trial.ask_number] = trial
    return found


def _known(experiment: Experiment, proposals: Sequence[Proposed]) -> dict[str | None, Trial]:
    """By key. Raises Refused where a key names other parameters, or another variant of the code."""
    given: dict[str, tuple[dict[str, Any], int | None]] = {}
    wrong = []
    for place, proposal in enumerate(proposals):
        if proposal.key is not None and given.setdefault(proposal.key, proposal.named) != proposal.named:
            wrong.append((f"proposals[{place}].key", "An earlier proposal of this request has this key and other "
                                                     "parameters, or another variant of the code."))
    rows = ProposalKey.objects.filter(experiment=experiment, key__in=list(given)).select_related("trial")
    known: dict[str | None, Trial] = {row.key: row.trial for row in rows}
    stored = dict(TrialParameters.objects.filter(trial__in=list(known.values()), index=0).values_list("trial", "value"))
    for place, proposal in enumerate(proposals):
        trial = known.get(proposal.key)
        if trial is not None and (stored.get(trial.pk), trial.variant_id) != proposal.named:
            differs = "variant" if stored.get(trial.pk) == proposal.parameters else "parameters"
            wrong.append((f"proposals[{place}].key", Reason(
                "key_of_another", key=str(proposal.key), trial=trial.sequence_id, differs=differs)))
    if wrong:
        raise Refused.for_fields(wrong)
    return known


def _new(experiment: Experiment, proposals: Sequence[Proposed], known: dict[str | None, Trial]) -> list[int]:
    """Places of the proposals that become trials. Raises Refused where one of them cannot."""
    seen: set[str] = set()
    new = []
    for place, proposal in enumerate(proposals):
        if proposal.key is None:
            new.append(place)
        elif proposal.key not in known and proposal.key not in seen:
            seen.add(proposal.key)
            new.append(place)
    if not new:
        return []
    if experiment.status not in _TAKES_PROPOSALS or experiment.target == ExperimentTarget.STOP:
        raise Refused(Reason("wrong_status", status=str(experiment.status), wish="propose"))
    if reason := limit_reached(experiment, timezone.now()):
        raise Refused(at_limit(reason, "propose"))
    most = experiment.max_trial_number
    if most is not None and experiment.next_sequence_id + len(new) > most:
        raise Refused(at_limit(Reason("max_trial_number", most=most), "propose"), "proposals")
    waiting = Trial.objects.unfinished().without_attempt().filter(experiment=experiment).count()
    if waiting + len(new) > MOST_WAITING:
        raise Refused(Reason("too_many_proposals", most=MOST_WAITING))
    _must_be_possible(experiment, proposals, new)
    return new


def _must_be_possible(experiment: Experiment, proposals: Sequence[Proposed], new: Sequence[int]) -> None:
    """Raises Refused with all parameters that are not points of the search space, or that a constraint forbids."""
    space, constraints = parse_search_space(experiment.search_space), read_constraints(experiment.constraints)
    wrong: list[tuple[str, str]] = []
    for place in new:
        parameters, field = proposals[place].parameters, f"proposals[{place}].parameters"
        problems = space.problems_with(parameters)
        wrong += [(f"{field}.{problem.path}" if problem.path else field, problem.message) for problem in problems]
        broken = None if problems else first_broken(constraints, parameters)
        if broken is not None:
            wrong.append((field, Reason("constraint_broken", constraint=broken.text, by="person")))
    if wrong:
        raise Refused.for_fields(wrong)


def _made(experiment: Experiment, proposals: Sequence[Proposed], revision: int, actor: User | None) -> list[Trial]:
    now, token = timezone.now(), asking_token()
    first_ask, first_sequence = experiment.next_ask, experiment.next_sequence_id
    trials = insert(with_proposals(experiment, [
        Trial(experiment=experiment, sequence_id=first_sequence + place, ask_number=first_ask + place, created_at=now,
              revision=revision, token=token, variant=proposal.variant,
              feasible=False if experiment.outcome_constraints else None, **said(why_it_waits(experiment.status)))
        for place, proposal in enumerate(proposals)], raced=experiment.has_replicates and is_raced(experiment)))
    insert(TrialParameters(trial=trial, index=0, parameter_id=trial.ask_number, value=proposal.parameters)
           for trial, proposal in zip(trials, proposals, strict=True))
    insert(TrialEvent(trial=trial, at=now, kind="created", actor=actor, message="Proposed from outside.")
           for trial in trials)
    insert(ProposalKey(experiment=experiment, key=proposal.key, trial=trial)
           for trial, proposal in zip(trials, proposals, strict=True) if proposal.key is not None)
    append_events(experiment, [{"event": "ask", "number": trial.ask_number, "parameters": proposal.parameters}
                               for trial, proposal in zip(trials, proposals, strict=True)], now)
    Experiment.objects.filter(pk=experiment.pk).update(
        next_ask=first_ask + len(trials), next_sequence_id=first_sequence + len(trials))
    audit.record("trials.propose", experiment, actor, count=len(trials))
    return trials


def _complete(experiment: Experiment, actor: User | None) -> None:
    """Harmless where it has ended, or takes no more for another reason. Raises Refused while it is paused."""
    if experiment.status == ExperimentStatus.PAUSED:
        raise Refused(Reason("wrong_status", status=str(experiment.status), wish="complete"), "complete")
    now = timezone.now()
    if experiment.status == ExperimentStatus.INITIALIZED:
        move_experiment(experiment, ExperimentStatus.RUNNING, now, actor=actor)
    if experiment.status == ExperimentStatus.RUNNING:
        move_experiment(experiment, ExperimentStatus.TUNER_NO_MORE_TRIAL, now, message=Reason("proposals_complete"),
                        actor=actor)
        audit.record("experiment.complete", experiment, actor)


def counts_of(experiment: Experiment) -> dict[str, int]:
    """Proposals in all, and how many of its trials wait and run."""
    counts = dict(Trial.objects.unfinished().filter(experiment=experiment).order_by().values_list("status").annotate(
        count=Count("pk")))
    waiting = counts.pop(TrialJobStatus.WAITING.value, 0)
    return {"proposed": experiment.next_ask, "waiting": waiting, "running": sum(counts.values())}
