"""The Pareto front of an experiment with several objectives, and the results around it, for a chart."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import generics, serializers
from rest_framework.request import Request
from rest_framework.response import Response

from nniweb.api.experiments.experiment_views import experiment_of
from nniweb.documents.experiments import ObjectiveSerializer
from nniweb.experiments.charts.pareto_chart import MOST_ON_FRONT, MOST_OTHERS, pareto_chart_of
from nniweb.experiments.models import Experiment


class ExperimentFrontSerializer(serializers.Serializer[Any]):
    """Columns of the same length, in order of sequence; only trials with a number for every objective."""

    revision = serializers.IntegerField(help_text="Revision of the experiment when this was read, or slightly earlier.")
    objectives = ObjectiveSerializer(many=True, help_text="Empty if the config names none; then there is no front.")
    sequence_id = serializers.ListField(child=serializers.IntegerField())
    id = serializers.ListField(child=serializers.CharField())
    on_front = serializers.ListField(child=serializers.IntegerField(), help_text="1 or 0.")
    values = serializers.ListField(child=serializers.ListField(child=serializers.FloatField()), help_text=(
        "For each trial, one value for each objective, in the order of the objectives."))
    left_out = serializers.IntegerField(help_text=(
        f"Number of results that are left out. At most {MOST_ON_FRONT} of the front and {MOST_OTHERS} others are "
        "listed."))


class ExperimentFrontView(generics.GenericAPIView[Experiment]):
    serializer_class = ExperimentFrontSerializer
    queryset = Experiment.objects.none()

    @extend_schema(operation_id="experiments_front", responses=ExperimentFrontSerializer)
    def get(self, request: Request, experiment_id: str) -> Response:
        """The trials on the Pareto front, and an even selection of the others."""
        experiment = experiment_of(request, experiment_id)
        chart = pareto_chart_of(experiment)
        return Response({
            "revision": chart.revision, "objectives": experiment.objectives,
            "sequence_id": [point.sequence_id for point in chart.points], "id": [point.id for point in chart.points],
            "on_front": [int(point.on_front) for point in chart.points],
            "values": [point.values for point in chart.points], "left_out": chart.left_out})
