"""Changes an experiment that goes on (limits, retention, search space, tuner, words), and takes such changes back.

As in ``intents``: each function is one transaction, says who asked, and raises ``Refused`` when the wish makes no sense
now; then nothing is changed.
"""

from typing import Any

from django.db import transaction
from django.utils import timezone

from nniweb.experiments.access import audit, leashes
from nniweb.experiments.actions.changes import (
    CHANGEABLE,
    changed_since,
    check_new_tuner,
    in_words,
    value_now,
    values_before,
    write_down,
)
from nniweb.experiments.actions.cluster_changes import checked_clusters, set_clusters
from nniweb.experiments.actions.intents import limit_reached, must_be_able_to_go_on, note, resume
from nniweb.experiments.actions.locked_experiment import locked
from nniweb.experiments.errors import Refused
from nniweb.experiments.lifecycle.transitions import move_experiment
from nniweb.experiments.models import Experiment, ExperimentChange, User
from nniweb.experiments.models.experiment import ExperimentStatus, ExperimentTarget
from nniweb.experiments.quotas.launch_quotas import why_not_this_priority
from nniweb.experiments.retention.policy import why_it_cannot_go_on
from nniweb.tuning import algorithms
from nniweb.tuning.search_space.constraint_check import check_constraints
from nniweb.tuning.search_space.problem import InvalidInput, Problem
from nniweb.tuning.search_space.space import SearchSpace
from nniweb.tuning.search_space.uninterpreted_space import read_space
from trainingservice.reasons import Reason

#: Fields whose change asks an experiment that is DONE to go on; a word about it does not.
_TAKES_UP = frozenset({"max_trial_number", "max_duration", "search_space", "tuner"})


def change(experiment: Experiment, changes: dict[str, Any], actor: User | None = None) -> Experiment:
    """Change concurrency, limits, retention, search space and tuner (which is told) or words about an experiment.

    ``changes``: keys of CHANGEABLE, values already checked for their type. Raising a limit takes a
    DONE experiment up again. Trials that exist are never ended by it.
    """
    with transaction.atomic():
        experiment, _ = locked(experiment)
        _check_search(experiment, changes)
        if "clusters" in changes:
            changes = {**changes, "clusters": checked_clusters(experiment, changes["clusters"], actor)}
        return _changed(experiment, changes, actor)


def resume_with(experiment: Experiment, changes: dict[str, Any], actor: User | None = None) -> None:
    """Change it, limits mostly, and go on with it. Raises Refused where the new limits do not allow that either."""
    with transaction.atomic():
        resume(change(experiment, changes, actor), actor)


def undo_change(experiment: Experiment, number: int, actor: User | None = None) -> Experiment:
    """Give the fields of a change the values from before it: a further change, which can be undone as well.

    Raises Refused where one of them was changed again since.
    """
    with transaction.atomic():
        experiment, _ = locked(experiment)
        found = ExperimentChange.objects.filter(experiment=experiment, number=number).first()
        if found is None:
            raise Refused(Reason("no_such_change", number=number))
        if later := changed_since(experiment, found):
            undone = ExperimentChange.objects.filter(experiment=experiment, undoes=number).order_by("number").last()
            if undone is not None and not changed_since(experiment, undone):
                raise Refused(Reason("undone_already", number=number, by=undone.number))
            raise Refused(Reason("changed_since", fields=list(later), number=number))
        before = values_before(found)
        _check_search(experiment, before)
        if "clusters" in before:  # whose rights have changed meanwhile may not bring a cluster back
            before = {**before, "clusters": checked_clusters(
                experiment, [{"trialOptions": {}, **entry} for entry in before["clusters"]], actor)}
        return _changed(experiment, before, actor, undoes=number)


def _check_search(experiment: Experiment, changes: dict[str, Any]) -> None:
    """Whether the search space and the tuner that the changes leave can be searched, and by it."""
    raw = changes.get("search_space", experiment.search_space)
    try:
        if "search_space" in changes:
            _check_constraints(experiment, read_space(raw, is_uninterpreted=experiment.has_own_tuner))
    except InvalidInput as invalid:
        raise Refused.for_fields([(f"search_space.{problem.path}".rstrip("."), problem.message)
                                  for problem in invalid.problems]) from None
    if "tuner" in changes:
        try:
            space = read_space(raw, is_uninterpreted=experiment.has_own_tuner)
            check_new_tuner(experiment, changes["tuner"], space)
        except InvalidInput as invalid:
            raise Refused.for_fields([(f"tuner.{problem.path}".rstrip("."), problem.message)
                                      for problem in invalid.problems]) from None


def _check_constraints(experiment: Experiment, space: SearchSpace) -> None:
    """Whether the experiment's constraints can be satisfied in this space. Raises InvalidInput."""
    if not experiment.constraints or experiment.has_own_tuner:
        return
    is_list = algorithms.find_tuner(experiment.tuner["name"]).takes_a_list
    problems = check_constraints(experiment.constraints, space, is_list=is_list).problems
    if problems:
        raise InvalidInput([Problem("", f"{'the constraints' if at is None else experiment.constraints[at]}: {problem}")
                            for at, problem in problems])


def _described(change: ExperimentChange) -> str:
    """For the experiment's history: what is short in words, of the rest only that it was changed."""
    long = [CHANGEABLE[field] for field in ("search_space", "description", "clusters") if field in change.fields]
    return ", ".join([*(f"{line.what} = {line.after}" for line in in_words(change)
                        if line.what.partition(".")[0] not in long), *long])


def _changed(experiment: Experiment, changes: dict[str, Any], actor: User | None, undoes: int | None = None
             ) -> Experiment:
    now = timezone.now()
    different = {field: value for field, value in changes.items() if value_now(experiment, field) != value}
    if not different:
        return experiment
    leashes.must_not_raise(experiment, different,
                           value_now(experiment, "clusters") if "clusters" in different else ())
    if "priority" in different and (reason := why_not_this_priority(
            actor or experiment.owner, experiment.group, different["priority"])):
        raise Refused(reason, "priority")
    described = _described(write_down(experiment, different, now, actor, undoes))
    fields = dict(different)
    if "clusters" in fields:
        set_clusters(experiment, fields.pop("clusters"))
    if "search_space" in different:
        fields["search_space_version"] = experiment.search_space_version + 1
    if "retention" in different:
        fields["look_after_at"] = None
        if experiment.is_finished:
            fields["jobs_due_at"] = now
    if fields:
        Experiment.objects.filter(pk=experiment.pk).update(**fields)
    for field, value in fields.items():
        setattr(experiment, field, value)
    if undoes is None:
        note(experiment, now, "changed", described, actor)
        audit.record("experiment.change", experiment, actor, changed=described)
    else:
        note(experiment, now, "changed", f"Change {undoes} undone: {described}", actor)
        audit.record("experiment.undo-change", experiment, actor, change=undoes, changed=described)
    resting = (ExperimentStatus.DONE, ExperimentStatus.NO_MORE_TRIAL)
    if experiment.status in resting and experiment.target == ExperimentTarget.RUN \
            and not limit_reached(experiment, now) and not (
                why_it_cannot_go_on(experiment) and different.keys().isdisjoint(_TAKES_UP)):
        must_be_able_to_go_on(experiment)
        move_experiment(experiment, ExperimentStatus.RUNNING, now, message="", actor=actor)
    return experiment
