"""What people ask for: each function writes what is wanted; the worker makes it so.

Every function is one transaction, says who asked, and raises ``Refused`` with a sentence (and the
field, where one is at fault) when the wish makes no sense now; then nothing is changed.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any, Literal

from django.contrib.auth.models import Group
from django.db import transaction
from django.db.models import F
from django.utils import timezone

from nniweb.experiments.access import audit, leashes
from nniweb.experiments.access.request_actor import asking_token
from nniweb.experiments.actions.changes import write_down
from nniweb.experiments.actions.freezing import hold_trials, must_be_able_to_freeze, release_trials
from nniweb.experiments.actions.locked_experiment import locked
from nniweb.experiments.errors import Refused
from nniweb.experiments.lifecycle.reason_columns import reason_of, said
from nniweb.experiments.lifecycle.transitions import end_unsubmitted, move_experiment, set_targets
from nniweb.experiments.lifecycle.trial_end import why_it_waits
from nniweb.experiments.models import (
    Attempt,
    CodeVariant,
    Experiment,
    ExperimentEvent,
    Trial,
    TrialEvent,
    TrialNote,
    TrialParameters,
    User,
)
from nniweb.experiments.models.experiment import ExperimentStatus, ExperimentTarget
from nniweb.experiments.models.trial import CONSTRAINT_BROKEN, TrialSource, TrialTarget
from nniweb.experiments.pubsub.revisions import next_revision
from nniweb.experiments.quotas.launch_quotas import why_no_experiment_more, why_not_this_priority
from nniweb.experiments.replicates.new_trials import with_proposals
from nniweb.experiments.results.running_time import running_seconds
from nniweb.experiments.retention.policy import why_it_cannot_go_on
from nniweb.experiments.sql.exact_text import printable
from nniweb.tuning.constraints.constraint import first_broken, read_constraints
from trainingservice.reasons import Reason, because_of
from trainingservice.trial_job_status import TrialJobStatus

#: Stands for a parameter that is not there; None may be a value.
_MISSING = object()


def note(experiment: Experiment, at: datetime, kind: str, message: str, actor: User | None) -> None:
    """Put an event into the experiment's history."""
    ExperimentEvent.objects.create(experiment=experiment, at=at, kind=kind, message=message, actor=actor)


def pause(experiment: Experiment, actor: User | None = None, freeze: bool | None = None) -> None:
    """Start nothing new; running trials go on to their end, or are frozen. ``freeze`` None: as its config says."""
    with transaction.atomic():
        experiment, revision = locked(experiment)
        if experiment.is_finished or experiment.status == ExperimentStatus.STOPPING:
            raise Refused(Reason("wrong_status", status=str(experiment.status), wish="pause"))
        freeze = experiment.config.get("pause") == "freeze" if freeze is None else freeze
        if freeze:
            must_be_able_to_freeze(experiment)
        now = timezone.now()
        Experiment.objects.filter(pk=experiment.pk).update(target=ExperimentTarget.PAUSE)
        move_experiment(experiment, ExperimentStatus.PAUSED, now, actor=actor)
        _say_why_they_wait(experiment, "free_slot", revision)
        audit.record("experiment.freeze" if freeze else "experiment.pause", experiment, actor)
        if freeze:
            hold_trials(experiment, now, revision, actor)


def resume(experiment: Experiment, actor: User | None = None) -> None:
    """Go on: with a paused experiment, and with one that was stopped, failed or is done but below its limits."""
    with transaction.atomic():
        experiment, revision = locked(experiment)
        now = timezone.now()
        if experiment.status == ExperimentStatus.STOPPING:
            raise Refused(Reason("wrong_status", status=str(experiment.status), wish="resume"))
        if experiment.is_finished and (reason := limit_reached(experiment, now)) \
                and not Trial.objects.unfinished().filter(experiment=experiment).exists():
            raise Refused(at_limit(reason, "resume"))
        must_be_able_to_go_on(experiment)
        Experiment.objects.filter(pk=experiment.pk).update(target=ExperimentTarget.RUN, failures_in_row=0)
        if experiment.status == ExperimentStatus.PAUSED or experiment.is_finished:
            move_experiment(experiment, ExperimentStatus.RUNNING, now, actor=actor)
            _say_why_they_wait(experiment, "experiment_held", revision)
        release_trials(experiment, now, revision, actor)
        audit.record("experiment.resume", experiment, actor)


def _say_why_they_wait(experiment: Experiment, before: str, revision: int) -> None:
    """Of trials without an attempt that waited for what ``before`` (a code) says."""
    Trial.objects.unfinished().without_attempt().filter(experiment=experiment, reason=before).update(
        revision=revision, **said(why_it_waits(experiment.status)))


def stop(experiment: Experiment, actor: User | None = None, because: str = "") -> None:
    """End the experiment and all its trials. Stopping twice, or what has ended, is harmless. ``because``: a Reason that
    the experiment says, where a person has not just stopped it.
    """
    with transaction.atomic():
        experiment, _ = locked(experiment)
        now = timezone.now()
        if experiment.is_finished and not Trial.objects.filter(experiment=experiment).unfinished().exists():
            return
        Experiment.objects.filter(pk=experiment.pk).update(target=ExperimentTarget.STOP)
        move_experiment(experiment, ExperimentStatus.STOPPING, now, message=because, actor=actor)
        audit.record("experiment.stop", experiment, actor, **({"because": str(because)} if because else {}))
    # the trials' targets are written by the worker, in chunks: there may be very many


def limit_reached(experiment: Experiment, now: datetime) -> str:
    """The sentence of the limit that keeps new trials from starting, "" where there is none."""
    most = experiment.max_trial_number
    if most is not None and experiment.next_sequence_id >= most:
        return Reason("max_trial_number", most=most)
    if experiment.max_duration is not None and running_seconds(experiment, now) >= experiment.max_duration:
        return Reason("max_duration", seconds=experiment.max_duration)
    return ""


def at_limit(limit: str, wish: str) -> Reason:
    return Reason("limit_reached", limit=str(limit), wish=wish, **because_of(limit))


def set_archived(experiment: Experiment, archived: bool, actor: User | None = None) -> None:
    """Put a finished experiment out of sight, or back."""
    with transaction.atomic():
        experiment, _ = locked(experiment)
        if archived and not experiment.is_finished:
            raise Refused(Reason("wrong_status", status=str(experiment.status), wish="archive"))
        Experiment.objects.filter(pk=experiment.pk).update(archived=archived)
        note(experiment, timezone.now(), "archived" if archived else "brought back", "", actor)
        audit.record("experiment.archive" if archived else "experiment.bring-back", experiment, actor)


def share(experiment: Experiment, group: Group | None, actor: User | None = None) -> None:
    """Let a group see and steer the experiment; None: its owner alone (and administrators)."""
    leashes.must_not("share an experiment", "group")
    with transaction.atomic():
        experiment, _ = locked(experiment)
        if experiment.group != group:
            if group is not None and not experiment.is_finished and (reason := why_no_experiment_more(None, group)):
                raise Refused(reason, "group")
            if not (actor is not None and actor.is_admin) and (
                    reason := why_not_this_priority(experiment.owner, group, experiment.priority)):
                raise Refused(reason, "group")
            Experiment.objects.filter(pk=experiment.pk).update(group=group)
            note(experiment, timezone.now(), "shared", f"With {group.name}." if group else "With nobody.", actor)
            audit.record("experiment.share", experiment, actor, group=group.name if group else None)


def hand_over(experiment: Experiment, owner: User, actor: User | None = None) -> None:
    """Make it somebody else's. Raises Refused (field ``owner``) where that person may not launch experiments."""
    leashes.must_not("hand an experiment over", "owner")
    if not (owner.is_active and owner.may_change):
        raise Refused(f"{owner.username} may not launch or change experiments and can therefore not own one.", "owner")
    with transaction.atomic():
        experiment, _ = locked(experiment)
        if experiment.owner_id != owner.pk:
            if not experiment.is_finished and (reason := why_no_experiment_more(owner, None)):
                raise Refused(reason, "owner")
            before = experiment.owner.username if experiment.owner else "nobody"
            Experiment.objects.filter(pk=experiment.pk).update(owner=owner)
            note(experiment, timezone.now(), "handed over", f"From {before} to {owner.username}.", actor)
            audit.record("experiment.hand-over", experiment, actor, before=before, now=owner.username)


def stopped_by(actor: User | None) -> Reason:
    """Why a trial ended that a person stopped."""
    return Reason("canceled", by=actor.username) if actor else Reason("canceled")


def cancel_trials(experiment: Experiment, trial_pks: Sequence[int], actor: User | None = None, because: str = ""
                  ) -> set[int]:
    """End these trials of the experiment; primary keys of those that were going on and that nobody had wanted ended.
    ``because``: a Reason that they say, where a person has not just stopped them.
    """
    reason = because or stopped_by(actor)
    with transaction.atomic():
        experiment, revision = locked(experiment)
        now = timezone.now()
        trials = Trial.objects.filter(experiment=experiment, pk__in=trial_pks).only("pk")
        wanted = set_targets(trials, TrialTarget.USER_CANCELED, now, revision=revision, reason=reason, actor=actor)
        keys = {trial.pk for trial in wanted}
        end_unsubmitted(keys, TrialJobStatus.USER_CANCELED, now, revision=revision, message=reason, actor=actor)
        if keys:
            audit.record("trials.cancel", experiment, actor, count=len(keys),
                         **({"because": str(because)} if because else {}))
        return keys


def cancel_trial(trial: Trial, actor: User | None = None) -> None:
    """End one trial; one that was never submitted ends at once. Harmless on an ended one."""
    reason = stopped_by(actor)
    with transaction.atomic():
        revision = next_revision(trial.experiment_id)
        leashes.must_hold()
        now = timezone.now()
        if set_targets([trial], TrialTarget.USER_CANCELED, now, revision=revision, reason=reason, actor=actor):
            end_unsubmitted([trial.pk], TrialJobStatus.USER_CANCELED, now, revision=revision, message=reason,
                            actor=actor)
            audit.record("trial.cancel", trial, actor)


def refresh_trial(trial: Trial, actor: User | None = None) -> None:
    """Have the platform asked about the trial's job now; the worker does it. Harmless while that is to be done."""
    with transaction.atomic():
        revision = next_revision(trial.experiment_id)
        leashes.must_hold()
        running = Trial.objects.unfinished().filter(pk=trial.pk)
        asked = Attempt.objects.under_way().filter(trial__in=running)
        if not asked.exists():
            raise Refused(Reason("no_job", status=Trial.objects.values_list("status", flat=True).get(pk=trial.pk)))
        if Attempt.objects.filter(pk__in=asked, refresh_asked_at=None).update(refresh_asked_at=timezone.now()):
            running.update(revision=revision)
            audit.record("trial.refresh", trial, actor)


def submit_trial(experiment: Experiment, parameters: dict[str, Any], actor: User | None = None, *,
                 rerun_of: Trial | None = None, is_same: bool = False, origin: str = "Submitted by a person.",
                 variant: CodeVariant | None = None) -> Trial:
    """Queue a trial with hand-picked parameters. As in NNI they need not lie inside the search space; they must satisfy
    the constraints.

    It counts towards maxTrialNumber. Where that is reached, it grows by one for ``rerun_of``, in the same transaction,
    so that the tuner gets no trial more; without ``rerun_of`` it is refused. ``is_same``: they are those of
    ``rerun_of``, and so are the seed and the code. ``origin``: the sentence with which its history begins.
    ``variant``: of the code, stored.
    """
    with transaction.atomic():
        experiment, revision = locked(experiment)
        now = timezone.now()
        _must_take_trials(experiment)
        must_satisfy_constraints(experiment, parameters)
        must_be_able_to_go_on(experiment)
        if rerun_of is not None:
            _grow_for_one(experiment, now, actor)
        if reason := limit_reached(experiment, now):
            raise Refused(at_limit(reason, "submit"))
        trial = Trial(
            experiment=experiment, sequence_id=experiment.next_sequence_id, created_at=now, revision=revision,
            source=TrialSource.RERUN if rerun_of else TrialSource.CUSTOMIZED, rerun_of=rerun_of, token=asking_token(),
            variant=variant,
            feasible=False if experiment.outcome_constraints else None, **said(why_it_waits(experiment.status)))
        if rerun_of is not None and is_same:
            trial.proposal, trial.replicate, trial.seed = rerun_of.proposal, rerun_of.replicate, rerun_of.seed
            trial.continues_id = rerun_of.continues_id
        else:
            with_proposals(experiment, [trial], raced=False)
        trial.save()
        TrialParameters.objects.create(trial=trial, index=0, parameter_id=None, value=parameters)
        TrialEvent.objects.create(trial=trial, at=now, kind="created", actor=actor, message=origin)
        Experiment.objects.filter(pk=experiment.pk).update(next_sequence_id=experiment.next_sequence_id + 1)
        if experiment.status == ExperimentStatus.DONE:
            move_experiment(experiment, ExperimentStatus.RUNNING, now, actor=actor)
        audit.record("trial.rerun" if rerun_of else "trial.submit", trial, actor, experiment=experiment.public_id,
                     **({} if variant is None else {"variant": variant.sha256}))
        return trial


def _grow_for_one(experiment: Experiment, now: datetime, actor: User | None) -> None:
    """Raise maxTrialNumber by one where it is reached."""
    most = experiment.max_trial_number
    if most is None or experiment.next_sequence_id < most:
        return
    grown = experiment.next_sequence_id + 1
    write_down(experiment, {"max_trial_number": grown}, now, actor)
    experiment.max_trial_number = grown
    Experiment.objects.filter(pk=experiment.pk).update(max_trial_number=experiment.max_trial_number, failures_in_row=0)
    note(experiment, now, "changed", f"maxTrialNumber = {experiment.max_trial_number}", actor)


def must_be_able_to_go_on(experiment: Experiment) -> None:
    """One that has ended goes on only where it is whole and quotas allow one more, and where what it needs was not
    removed since.
    """
    if experiment.reason == "import_unfinished":
        raise Refused(reason_of(experiment))
    if experiment.is_finished and (reason := why_it_cannot_go_on(experiment) or why_no_experiment_more(
            experiment.owner, experiment.group)):
        raise Refused(reason)


def must_satisfy_constraints(experiment: Experiment, parameters: dict[str, Any], field: str = "parameters") -> None:
    """Raises Refused (with the field) where a constraint of the experiment forbids the parameters."""
    broken = first_broken(read_constraints(experiment.constraints), parameters)
    if broken is not None:
        raise Refused(Reason("constraint_broken", constraint=broken.text, by="person"), field)


def _must_take_trials(experiment: Experiment) -> None:
    """Raises Refused where nobody would run a trial that is submitted."""
    if experiment.is_finished and experiment.status != ExperimentStatus.DONE \
            or experiment.target == ExperimentTarget.STOP:
        raise Refused(Reason("wrong_status", status=str(experiment.status), wish="submit"))


def tag_trial(trial: Trial, tags: list[str]) -> None:
    """Replace a trial's tags."""
    with transaction.atomic():
        Trial.objects.filter(pk=trial.pk).update(tags=tags, revision=next_revision(trial.experiment_id))
        leashes.must_hold()
        audit.record("trial.tag", trial, tags=tags)


def write_note(trial: Trial, text: str, actor: User | None = None) -> None:
    """Replace what people have written about a trial; "" removes it."""
    with transaction.atomic():
        leashes.must_hold()
        if text:
            TrialNote.objects.update_or_create(trial=trial, defaults={
                "text": text, "changed_at": timezone.now(), "actor": actor})
        else:
            TrialNote.objects.filter(trial=trial).delete()
        audit.record("trial.note", trial, characters=len(text))


def tag_trials(experiment: Experiment, trial_pks: Sequence[int], add: Sequence[str], remove: Sequence[str]) -> set[int]:
    """Add tags to these trials of the experiment and take others away; primary keys of those that it changed."""
    with transaction.atomic():
        experiment, revision = locked(experiment)
        by_tags: dict[tuple[str, ...], list[int]] = {}
        for key, tags in Trial.objects.filter(experiment=experiment, pk__in=trial_pks).values_list("pk", "tags"):
            now = tuple(tag for tag in dict.fromkeys([*tags, *add]) if tag not in remove)
            if list(now) != tags:
                by_tags.setdefault(now, []).append(key)
        for tags_now, keys in by_tags.items():
            Trial.objects.filter(pk__in=keys).update(tags=list(tags_now), revision=revision)
        changed = {key for keys in by_tags.values() for key in keys}
        if changed:
            audit.record("trials.tag", experiment, count=len(changed), add=list(add), remove=list(remove))
        return changed


class _AsBefore(Enum):
    VARIANT = "the variant of the trial"


def rerun_trial(trial: Trial, actor: User | None = None, parameters: dict[str, Any] | None = None,
                variant: CodeVariant | Literal[_AsBefore.VARIANT] | None = _AsBefore.VARIANT) -> Trial:
    """A new trial with the same parameters, or with those that are given; it counts towards maxTrialNumber, which grows
    by one where it is reached. Of several parameter sets it begins with the one whose result is the trial's.

    It has the trial's variant of the code, or the one that is given (None: the code as it is). With the same parameters
    and code the trial must have ended; with others it is another trial, which may run beside it.
    """
    variant = trial.variant if variant is _AsBefore.VARIANT else variant
    same_code = trial.variant_id == (None if variant is None else variant.pk)
    of_result = trial.parameter_sets.filter(index=trial.result_index).first()
    old = (of_result.value if of_result else None) or {}
    parameters = old if parameters is None else parameters
    if parameters == old and same_code:
        if not trial.is_finished:
            raise Refused(Reason("trial_not_ended", status=str(trial.status)))
        return submit_trial(trial.experiment, old, actor, rerun_of=trial, is_same=True, variant=variant,
                            origin=f"Rerun of trial {trial.sequence_id}.")
    names = [name for name in {**old, **parameters} if old.get(name, _MISSING) != parameters.get(name, _MISSING)]
    described = ", ".join([f"{name} = {json.dumps(parameters[name])}" if name in parameters else f"no {name}"
                           for name in names] + ([] if same_code else ["another variant of the code" if variant else
                                                                       "the code as it is"]))
    return submit_trial(trial.experiment, parameters, actor, rerun_of=trial, variant=variant,
                        origin=printable(f"Rerun of trial {trial.sequence_id} with {described}."))


@dataclass(frozen=True)
class RerunOutcome:
    """What became of a wish to run trials again."""

    #: The new trials.
    again: list[Trial]
    #: Those that have not ended themselves, and those of which a rerun has not.
    unfinished: list[Trial]
    runs_again: list[Trial]


def rerun_failed(experiment: Experiment, actor: User | None = None) -> None:
    """New trials with the parameters of all failed ones that were not run again yet; see ``_run_again``."""
    with transaction.atomic():
        experiment, revision = locked(experiment)
        _must_take_reruns(experiment)
        failed = list(Trial.objects.filter(experiment=experiment, status=TrialJobStatus.FAILED.value, reruns=None)
                      .exclude(reason=CONSTRAINT_BROKEN).order_by("sequence_id"))
        if not failed:
            raise Refused(Reason("nothing_to_rerun"))
        if experiment.max_trial_number is not None:
            leashes.must_not_raise(experiment, {"max_trial_number": experiment.max_trial_number + len(failed)})
        _run_again(experiment, failed, revision, "failed trials run again", actor)


def rerun_trials(experiment: Experiment, trial_pks: Sequence[int], actor: User | None = None) -> RerunOutcome:
    """Run these trials of the experiment again; see ``_run_again``.

    Those that have not ended are not, nor those of which a rerun has not ended: asking twice makes no second one.
    """
    with transaction.atomic():
        experiment, revision = locked(experiment)
        _must_take_reruns(experiment)
        trials = list(Trial.objects.filter(experiment=experiment, pk__in=trial_pks).order_by("sequence_id"))
        run_again = set(Trial.objects.unfinished().filter(experiment=experiment, rerun_of__isnull=False)
                        .values_list("rerun_of", flat=True))
        ended = [trial for trial in trials if trial.is_finished and trial.pk not in run_again
                 and trial.reason != CONSTRAINT_BROKEN]
        again = _run_again(experiment, ended, revision, "trials run again", actor) if ended else []
        return RerunOutcome(again, unfinished=[trial for trial in trials if not trial.is_finished],
                            runs_again=[trial for trial in trials if trial.is_finished and trial.pk in run_again])


def _must_take_reruns(experiment: Experiment) -> None:
    _must_take_trials(experiment)
    must_be_able_to_go_on(experiment)
    now = timezone.now()
    if experiment.max_duration is not None and running_seconds(experiment, now) >= experiment.max_duration:
        raise Refused(at_limit(limit_reached(experiment, now), "submit"))


def _run_again(experiment: Experiment, trials: list[Trial], revision: int, kind: str, actor: User | None
               ) -> list[Trial]:
    """A new trial with the parameters of each of these; maxTrialNumber grows by as many, so that the search still gets
    all the trials it was promised.
    """
    now = timezone.now()
    parameters = dict(TrialParameters.objects.filter(
        trial__in=trials, index=F("trial__result_index")).values_list("trial", "value"))
    first = experiment.next_sequence_id
    again = Trial.objects.bulk_create(
        Trial(experiment=experiment, sequence_id=first + index, created_at=now, revision=revision,
              source=TrialSource.RERUN, rerun_of=trial, proposal_id=trial.proposal_id, replicate=trial.replicate,
              seed=trial.seed, continues_id=trial.continues_id, variant_id=trial.variant_id, token=asking_token(),
              feasible=False if experiment.outcome_constraints else None, **said(why_it_waits(experiment.status)))
        for index, trial in enumerate(trials))
    TrialParameters.objects.bulk_create(
        TrialParameters(trial=trial, index=0, parameter_id=None, value=parameters.get(old.pk) or {})
        for trial, old in zip(again, trials, strict=True))
    TrialEvent.objects.bulk_create(
        TrialEvent(trial=trial, at=now, kind="created", actor=actor, message=f"Rerun of trial {old.sequence_id}.")
        for trial, old in zip(again, trials, strict=True))
    most = experiment.max_trial_number
    if most is not None:
        write_down(experiment, {"max_trial_number": most + len(trials)}, now, actor)
    experiment.next_sequence_id += len(trials)
    experiment.max_trial_number = None if most is None else most + len(trials)
    Experiment.objects.filter(pk=experiment.pk).update(
        next_sequence_id=experiment.next_sequence_id, max_trial_number=experiment.max_trial_number, failures_in_row=0)
    grown = "" if most is None else f" maxTrialNumber = {experiment.max_trial_number}."
    note(experiment, now, kind, f"{len(trials)}.{grown}", actor)
    audit.record("trials.rerun", experiment, actor, count=len(trials))
    if experiment.status == ExperimentStatus.DONE:
        move_experiment(experiment, ExperimentStatus.RUNNING, now, actor=actor)
    return again


def delete(experiment: Experiment, actor: User | None = None) -> None:
    """Out of sight at once; the worker removes what it left on the platform, then its rows."""
    leashes.must_not("delete an experiment")
    with transaction.atomic():
        experiment, _ = locked(experiment)
        if not experiment.is_finished or Trial.objects.filter(experiment=experiment).unfinished().exists():
            raise Refused(Reason("wrong_status", status=str(experiment.status), wish="delete"))
        now = timezone.now()
        Experiment.objects.filter(pk=experiment.pk).update(
            deleted_at=now, look_after_at=None, cleanup_tries=0)
        note(experiment, now, "deleted", "", actor)
        audit.record("experiment.delete", experiment, actor)
