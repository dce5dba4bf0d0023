"""By which tuner an experiment proposes whose tuner chooses among others."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from nniweb.experiments.lifecycle.reason_columns import from_document
from nniweb.experiments.models import Experiment
from nniweb.http.reason_serializer import ReasonSerializer
from nniweb.tuning.algorithms import AUTO


class TunerChoiceSerializer(serializers.Serializer[Any]):
    """The tuner that proposes now, and why it is this one."""

    tuner = serializers.CharField(help_text="Its name, such as GP.")
    message = serializers.CharField(help_text="Why it is this one.")
    reason = ReasonSerializer(help_text="The same for programs.")


def choice_document(experiment: Experiment) -> dict[str, Any] | None:
    """What TunerChoiceSerializer describes; None where its tuner, as it is now, does not choose or has not yet."""
    chosen = experiment.tuner_choice
    if chosen is None or experiment.tuner.get("name") != AUTO:
        return None
    return {"tuner": chosen["tuner"], "message": str(from_document("", chosen["reason"])), "reason": chosen["reason"]}
