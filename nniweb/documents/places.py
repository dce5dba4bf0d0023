"""The warm place in which a trial ran, and the trials that shared it, over REST and on the trial's page."""

from typing import Any

from django.db.models import F
from rest_framework import serializers

from nniweb.experiments.lifecycle.reason_columns import from_document
from nniweb.experiments.models import Attempt, Place

#: Trials that are listed; the filter ``place = NAME`` finds all of them.
MOST_LISTED = 50


class SharingTrialSerializer(serializers.Serializer[Any]):
    """A trial that ran in the same place."""

    id = serializers.CharField()
    sequence_id = serializers.IntegerField()


class PlaceSerializer(serializers.Serializer[Any]):
    """A warm place: a job of the platform that takes one trial of the experiment after the other."""

    name = serializers.CharField(help_text="The name of its job; the value of the filter's field place.")
    is_open = serializers.BooleanField(help_text="Whether it takes further trials.")
    message = serializers.CharField(help_text="Why it was given back, \"\" while it is open.")
    reason = serializers.DictField(allow_null=True, help_text=(
        "The same with its code: place_idle, place_failures, place_limit, place_unclean, place_not_needed or "
        "place_lost."))
    trials_count = serializers.IntegerField(help_text="How many trials have run in it, this one among them.")
    trials = SharingTrialSerializer(many=True, help_text=(
        f"The others, in the order in which they were given to it, at most {MOST_LISTED}."))


def place_document(attempt: Attempt | None) -> dict[str, Any] | None:
    """What ``PlaceSerializer`` says of the place of an attempt; None where it ran in none. Two questions."""
    place = None if attempt is None or attempt.place_id is None else Place.objects.filter(pk=attempt.place_id).first()
    if place is None or attempt is None:
        return None
    sharing = Attempt.objects.filter(place=place).exclude(trial=attempt.trial_id).order_by(
        "submitted_at", "pk").values(shown_id=F("trial__public_id"), sequence=F("trial__sequence_id"))
    listed = list({row["shown_id"]: row["sequence"] for row in sharing}.items())
    said = place.reason or {"message": "", "reason": None}
    return {"name": place.job_name, "is_open": place.closed_at is None,
            "message": str(from_document(said["message"], said["reason"] or {})), "reason": said["reason"],
            "trials_count": len(listed) + 1,
            "trials": [{"id": public, "sequence_id": number} for public, number in listed[:MOST_LISTED]]}


def place_of_trial(trial_pk: int) -> dict[str, Any] | None:
    """As ``place_document``, of the trial's last attempt."""
    return place_document(Attempt.objects.filter(trial=trial_pk).order_by("-number").only("trial", "place").first())
