"""Warm places: an attempt is given to one, taken away from it again, and the place is closed."""

from __future__ import annotations

import hashlib
import json
from datetime import datetime

from django.utils import timezone

from nniweb.experiments.models import Attempt, Experiment, Place
from nniweb.experiments.models.experiment_cluster import gpu_number_on, options_on
from nniweb.experiments.sql.changed_rows import update
from trainingservice.reasons import Reason, as_document
from trialkeeper import contract


def asked_for(experiment: Experiment, cluster_pk: int | None) -> str:
    """A digest of what a job of the experiment is given on a cluster: a place serves no trial that is to have more, or
    other code. An experiment may be changed while it runs.
    """
    asked = [options_on(experiment, cluster_pk), gpu_number_on(experiment, cluster_pk), experiment.trial_command,
             experiment.code_id]
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


def is_of_use(place: Place, last: Attempt, experiment: Experiment) -> bool:
    """Whether an open place may be given another attempt. ``last``: the one that has ended there.

    One that was frozen has made room, which the place must not keep.
    """
    return last.end_reason != contract.FROZEN and place.asked_for == asked_for(experiment, place.cluster_id)


def give(place: Place, attempt: Attempt, now: datetime) -> bool:
    """Mean an attempt that no platform has for a place whose last one has ended; False where either has changed.

    Inside a transaction. ``place.attempt`` and the columns of the place's last attempt were read.
    """
    before = place.attempt
    if not update(Place, "id = %s AND attempt_id = %s AND closed_at IS NULL", [place.pk, before.pk],
                  attempt_id=attempt.pk, given_at=now):
        return False
    if not update(Attempt, "id = %s AND stage = %s", [attempt.pk, Attempt.Stage.SUBMITTING.value],
                  stage=Attempt.Stage.SUBMITTED.value, place_id=place.pk, submitted_at=now,
                  keeper_urls=before.keeper_urls, machine_name=before.machine_name, url=before.url,
                  platform_state={}):
        update(Place, "id = %s", [place.pk], attempt_id=before.pk)
        return False
    return True


def take_away(place: Place, attempt: Attempt) -> bool:
    """Have an attempt that no keeper has begun placed anew; False where one has. Inside a transaction.

    The place keeps an attempt that has ended: it may be given another one, or be closed.
    """
    # the place's row first, as everybody here: who waits for the other's row never waits in a circle
    if not Place.objects.select_for_update().filter(pk=place.pk).values_list("pk"):
        return False
    if not update(Attempt, "id = %s AND stage = %s AND place_id = %s AND journal_id = ''",
                  [attempt.pk, Attempt.Stage.SUBMITTED.value, place.pk],
                  stage=Attempt.Stage.SUBMITTING.value, place_id=None, submitted_at=None, machine_name="", url=""):
        return False
    before = Attempt.objects.filter(place=place, stage=Attempt.Stage.ENDED).order_by("-ended_at", "-pk").first()
    if before is not None:
        update(Place, "id = %s AND attempt_id = %s", [place.pk, attempt.pk], attempt_id=before.pk)
    return True


def close(place: Place, why: Reason, current: int | None = None) -> bool:
    """No attempt is given to it any more; False where it was closed before. ``current``: only where that attempt
    (primary key) is still the one that it has.
    """
    open_one = Place.objects.filter(pk=place.pk, closed_at__isnull=True)
    if current is not None:
        open_one = open_one.filter(attempt=current)
    return bool(open_one.update(closed_at=timezone.now(), reason={"reason": as_document(why), "message": str(why)}))
