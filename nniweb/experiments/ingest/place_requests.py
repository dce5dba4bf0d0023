"""What the process of a warm place asks: the experiment's next attempt (``POST trials/HOST/next``).

A place's row says which attempt is meant for it. The worker writes that (``nniweb.worker.rounds.warm_places``); here it
is read, as often as it is asked: a lost answer costs nothing. Whoever gives an attempt to a place or takes it away
changes the place's row first, with a condition, so that exactly one of them does.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from nniweb.experiments.launch.job_forms import application_form, first_parameters, stays_for
from nniweb.experiments.lifecycle.places import asked_for, close, is_of_use, take_away
from nniweb.experiments.models import Attempt, Place
from nniweb.experiments.models.account import hash_of
from nniweb.experiments.models.experiment import ExperimentTarget
from nniweb.experiments.pubsub.revisions import next_revision
from trainingservice.platforms import load_platform
from trainingservice.reasons import Reason
from trainingservice.receiver.report_reading import RefusedReport
from trainingservice.trial_job import KeeperAccess, job_document
from trialkeeper import contract

#: Of ``Place.asked_at``: it is written down at most so often while the place waits.
NOTE_EVERY = timedelta(seconds=5)
#: Fields of a job that are the trial's own; in all others it is as the first one of the place.
_OWN = ("job_name", "trial_job_id", "sequence_id", "parameters", "environment", "checkpoints", "multi_phase",
        "variant")
_LONGEST_KEY = 64


@dataclass(frozen=True)
class PlaceRequest:
    """A checked ``contract.NextDocument``."""

    place: str
    after: str
    running: bool
    wait: float
    leave: str | None


def read_request(document: Any) -> PlaceRequest:
    """Raises RefusedReport naming the field that is wrong."""
    if not isinstance(document, Mapping):
        raise _wrong("The body must be a JSON object.")
    place, after, leave = document.get("place"), document.get("after"), document.get("leave")
    running, wait = document.get("running", False), document.get("wait", 0)
    if not isinstance(place, str) or not 1 <= len(place) <= _LONGEST_KEY or not place.isalnum():
        raise _wrong(f"place must be an id of at most {_LONGEST_KEY} letters and digits.")
    if not isinstance(after, str) or len(after) > 20:
        raise _wrong("after must be the name of a trial job.")
    if not isinstance(running, bool):
        raise _wrong("running must be true or false.")
    if isinstance(wait, bool) or not isinstance(wait, int | float) or not math.isfinite(wait) or wait < 0:
        raise _wrong("wait must be a number of seconds, 0 or more.")
    if leave is not None and leave not in contract.LEAVES:
        raise _wrong(f"leave must be null or one of {', '.join(contract.LEAVES)}.")
    return PlaceRequest(place, after, running, min(float(wait), contract.MOST_WAITING), leave)


def _wrong(message: str) -> RefusedReport:
    return RefusedReport(400, contract.ERROR_UNREADABLE, message)


def look(job_name: str, token_hash: str, asked: PlaceRequest) -> tuple[dict[str, Any] | None, int]:
    """What a place is to run now, None where that is nothing yet; and its experiment (primary key).

    ``job_name``: of the attempt that began the place's job, which the token opens for as long as the place is there.
    Raises RefusedReport: 410 where the place is to be given back.
    """
    host = Attempt.objects.filter(job_name=job_name).select_related(
        "cluster", "trial__experiment__cluster").first()
    if host is None:
        raise RefusedReport(404, "unknown", "No trial job of this name is known here.")
    if token_hash not in host.token_hashes:
        raise RefusedReport(401, contract.ERROR_TOKEN, "This token is not valid for this trial job.")
    place = Place.objects.filter(job_name=job_name, key=asked.place).order_by("-pk").first()
    if place is None:
        place = _open(host, asked)
    if place.closed_at is not None:
        raise _gone()
    experiment = host.trial.experiment
    if abs(timezone.now() - place.asked_at) > NOTE_EVERY:  # the clock may have been put back
        Place.objects.filter(pk=place.pk).update(asked_at=timezone.now())
    if asked.running:
        return None, experiment.pk
    if asked.leave is not None and asked.leave != contract.LEAVES_IDLE:
        _give_back(place, asked)
        return None, experiment.pk
    if (job := _job_for(place, asked)) is not None:
        return job, experiment.pk
    last = Attempt.objects.get(pk=place.attempt_id)
    is_over = experiment.is_finished or experiment.target == ExperimentTarget.STOP or experiment.deleted_at is not None
    if (is_over or last.stage == Attempt.Stage.ENDED and not is_of_use(place, last, experiment)) and close(
            place, Reason("place_not_needed"), current=last.pk):
        raise _gone()
    if asked.leave is not None and not close(place, Reason("place_idle"), current=place.attempt_id):
        # an attempt was given to it meanwhile
        return _job_for(Place.objects.get(pk=place.pk), asked), experiment.pk
    return None, experiment.pk


def _gone() -> RefusedReport:
    return RefusedReport(410, contract.ERROR_GONE, "This place is not needed any more.")


def _open(host: Attempt, asked: PlaceRequest) -> Place:
    """The row of a place that asks for the first time."""
    experiment, cluster = host.trial.experiment, host.runs_on
    if stays_for(experiment, cluster.pk, load_platform(cluster.platform)) is None:
        raise RefusedReport(410, contract.ERROR_GONE, "The trials of this experiment run in no places.")
    now = timezone.now()
    place = Place(experiment=experiment, cluster=cluster, job_name=host.job_name, key=asked.place, attempt=host,
                  asked_for=asked_for(experiment, cluster.pk),
                  given_at=now, asked_at=now, opened_at=now)
    try:
        with transaction.atomic():
            revision = next_revision(experiment.pk, needs_round=False)
            # the platform has run the job anew before the place had taken anything else
            Place.objects.filter(job_name=host.job_name, closed_at__isnull=True, attempt=host).exclude(
                attempt__stage=Attempt.Stage.ENDED).delete()
            place.save(force_insert=True)
            Attempt.objects.filter(pk=host.pk).update(place=place)
            type(host.trial).objects.filter(pk=host.trial_id).update(revision=revision)
    except IntegrityError:
        raise RefusedReport(409, contract.ERROR_CLAIMED, "Another process is the place of this job.") from None
    return place


def _job_for(place: Place, asked: PlaceRequest) -> dict[str, Any] | None:
    """The attempt that is meant for the place, where that is another one than it had."""
    attempt = Attempt.objects.select_related("cluster", "trial__experiment__cluster", "trial__experiment__code").get(
        pk=place.attempt_id)
    if attempt.job_name == asked.after or attempt.stage == Attempt.Stage.ENDED:
        return None
    token = secrets.token_urlsafe(32)
    with transaction.atomic():
        if not Place.objects.filter(pk=place.pk, attempt=attempt.pk, closed_at__isnull=True).update(
                asked_at=timezone.now()):
            return None  # it was taken away meanwhile
        [hashes] = Attempt.objects.select_for_update().filter(pk=attempt.pk).values_list("token_hashes", flat=True)
        # the last answer may have arrived, too: its token stays valid
        Attempt.objects.filter(pk=attempt.pk).update(token_hashes=[*hashes[-9:], hash_of(token)])
    service = load_platform(attempt.runs_on.platform)
    form = application_form(attempt, first_parameters([attempt.trial_id]).get(attempt.trial_id), service,
                            KeeperAccess(urls=(), token=""))
    document: dict[str, Any] = dict(job_document(form, platform=service.platform, code=None))
    return {**{name: document[name] for name in _OWN}, "token": token,
            "limits": {"max_trial_duration": form.limits.max_trial_duration}}


_WHY = {contract.LEAVES_AFTER_FAILURES: "place_failures", contract.LEAVES_AT_LIMIT: "place_limit",
        contract.LEAVES_UNCLEAN: "place_unclean"}


def _give_back(place: Place, asked: PlaceRequest) -> None:
    """Whatever was given to it meanwhile is placed anew: the process says that it has not begun."""
    assert asked.leave is not None
    with transaction.atomic():
        next_revision(place.experiment_id)
        current = Attempt.objects.get(pk=place.attempt_id)
        if current.job_name not in (asked.after, place.job_name):
            take_away(place, current)
        close(place, Reason(_WHY[asked.leave]))
