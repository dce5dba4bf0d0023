"""What was changed of an experiment after its launch, and taking it back."""

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import generics, serializers
from rest_framework.request import Request
from rest_framework.response import Response

from nniweb.api.experiments.experiment_views import ExperimentView, experiment_of
from nniweb.documents.experiments import ExperimentSerializer
from nniweb.experiments.actions import change_and_undo
from nniweb.experiments.actions.changes import in_words
from nniweb.experiments.models import Experiment, ExperimentChange
from nniweb.http.error_form import ErrorsSerializer
from nniweb.http.permissions import signed_in_user


class ChangedValueSerializer(serializers.Serializer[Any]):
    what = serializers.CharField(help_text="The name in config files; for a search space or a tuner, the path of the "
                                           "part that changed.")
    before = serializers.CharField(help_text="As text; long values are truncated.")
    after = serializers.CharField()


class ExperimentChangeSerializer(serializers.ModelSerializer[ExperimentChange]):
    """A change of limits, search space, tuner, name, description or tags."""

    who = serializers.CharField(source="actor.username", allow_null=True, default=None,
                                help_text="null for a command, and if the account was deleted.")
    via = serializers.CharField(help_text="How the change was requested: page, token NAME, command NAME.")
    undoes = serializers.IntegerField(allow_null=True, help_text="The number of the change that this change undid.")
    values = serializers.SerializerMethodField()

    class Meta:
        model = ExperimentChange
        fields = ["number", "at", "who", "via", "undoes", "values"]

    @extend_schema_field(ChangedValueSerializer(many=True))
    def get_values(self, change: ExperimentChange) -> Any:
        return ChangedValueSerializer(in_words(change), many=True).data


class ExperimentChangesView(generics.ListAPIView[ExperimentChange]):
    """What people changed after the launch, the newest first."""

    serializer_class = ExperimentChangeSerializer
    queryset = ExperimentChange.objects.none()

    def get_queryset(self) -> QuerySet[ExperimentChange]:
        return changes_of(experiment_of(self.request, self.kwargs["experiment_id"]))


def changes_of(experiment: Experiment) -> QuerySet[ExperimentChange]:
    return ExperimentChange.objects.filter(experiment=experiment).select_related("actor").order_by("-number")


class ExperimentUndoView(ExperimentView):
    @extend_schema(operation_id="experiments_undo_change", request=None,
                   responses={200: ExperimentSerializer, 409: ErrorsSerializer})
    def post(self, request: Request, experiment_id: str, number: int) -> Response:
        """Take a change back: a further change, which can be taken back as well. Not where it was changed again."""
        experiment = self.get_object()
        change_and_undo.undo_change(experiment, number, signed_in_user(request))
        return Response(self.fresh(experiment))
