"""The history of an experiment: who did what when."""

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import generics, serializers

from nniweb.api.experiments.experiment_views import experiment_of
from nniweb.experiments.models import ExperimentEvent
from nniweb.experiments.queries.history import NOBODY, OF_NO_TRIAL, history_of
from nniweb.http.fields import Query


class EventQuery(Query):
    trials = serializers.BooleanField(default=False, help_text="Also the events of its trials.")
    kind = serializers.CharField(required=False, max_length=30)
    by = serializers.CharField(required=False, max_length=150, help_text=(
        f"User name; {NOBODY} for events that the worker or the platform caused."))
    order = serializers.ChoiceField(choices=["at", "-at"], default="at")


class HistoryEventSerializer(serializers.Serializer[Any]):
    """Something that happened to an experiment or a trial of it."""

    at = serializers.DateTimeField()
    kind = serializers.CharField()
    message = serializers.CharField()
    actor = serializers.CharField(source="who", allow_null=True)
    trial = serializers.CharField(help_text="Id of the trial, \"\" for the experiment itself.")
    sequence_id = serializers.SerializerMethodField(help_text="Of the trial.")

    def get_sequence_id(self, event: dict[str, Any]) -> int | None:
        return None if event["sequence"] == OF_NO_TRIAL else int(event["sequence"])


@extend_schema(parameters=[EventQuery])
class ExperimentEventsView(generics.ListAPIView[ExperimentEvent]):
    """What happened to an experiment, oldest first unless told otherwise."""

    serializer_class = HistoryEventSerializer
    queryset = ExperimentEvent.objects.none()

    def get_queryset(self) -> QuerySet[Any]:
        return found(experiment_of(self.request, self.kwargs["experiment_id"]), EventQuery.of(self.request))


def found(experiment: Any, wanted: dict[str, Any]) -> QuerySet[Any]:
    """The events a query asks for."""
    return history_of(experiment, with_trials=wanted["trials"], kind=wanted.get("kind", ""), by=wanted.get("by", ""),
                      order=wanted["order"])
