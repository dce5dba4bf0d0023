"""An experiment's results for a chart: columns instead of rows, thinned where there are thousands."""

from dataclasses import asdict
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import generics, serializers
from rest_framework.request import Request
from rest_framework.response import Response

from nniweb.api.experiments.experiment_views import experiment_of
from nniweb.experiments.charts.result_chart import MOST_POINTS, chart_of
from nniweb.experiments.models import Experiment
from nniweb.experiments.models.trial import TRIAL_STATUSES
from nniweb.experiments.results.other_metrics import main_metric
from nniweb.http.error_form import ErrorsSerializer
from nniweb.http.fields import MetricField, Query
from trainingservice.trial_job_status import TrialJobStatus

#: ``status`` of a point is the place of its status in this list.
STATUSES = [status.value for status in TrialJobStatus]


class ChartQuery(Query):
    metric = MetricField()


class DurationsSerializer(serializers.Serializer[Any]):
    bar_width = serializers.FloatField(help_text="Width of a bar in seconds; bar i begins at i times this.")
    counts = serializers.ListField(child=serializers.IntegerField())
    until = serializers.FloatField(allow_null=True, help_text=(
        "When the last trial ended, in seconds since the epoch."))


class ExperimentChartSerializer(serializers.Serializer[Any]):
    """One column per subject, all of the same length, in order of sequence."""

    revision = serializers.IntegerField(help_text="Revision of the experiment when this was read, or slightly earlier.")
    statuses = serializers.ListField(child=serializers.ChoiceField(choices=TRIAL_STATUSES),
                                     help_text="The statuses that the numbers in `status` refer to.")
    sequence_id = serializers.ListField(child=serializers.IntegerField())
    id = serializers.ListField(child=serializers.CharField())
    status = serializers.ListField(child=serializers.IntegerField())
    value = serializers.ListField(child=serializers.FloatField(allow_null=True), help_text=(
        "The final result, else the latest intermediate result; null for a trial that failed or ended without a "
        "result."))
    at = serializers.ListField(child=serializers.FloatField(allow_null=True), help_text=(
        "When it ended (or began), in seconds since the epoch."))
    final = serializers.ListField(child=serializers.IntegerField(), help_text=(
        "1 where the value is a final result that counts for the best."))
    infeasible = serializers.ListField(child=serializers.IntegerField(), help_text=(
        "1 where the value is a final result that breaks a constraint on outcomes, or was not compared with them yet."))
    standard_error = serializers.ListField(child=serializers.FloatField(allow_null=True), help_text=(
        "With replicates a point is a proposal, at the number of its first trial: the value is the mean, and this its "
        "standard error. null everywhere else."))
    optimize_mode = serializers.ChoiceField(choices=Experiment.OptimizeMode.choices, allow_null=True, help_text=(
        "null for a further metric that is not an objective, because it has no best value."))
    durations = DurationsSerializer(help_text="Durations of all attempts that have run.")
    left_out = serializers.IntegerField(help_text=(
        f"How many trials are left out. At most about {MOST_POINTS} are listed. No trial that is left out was the best "
        "when it ended."))


class ExperimentChartView(generics.GenericAPIView[Experiment]):
    serializer_class = ExperimentChartSerializer
    queryset = Experiment.objects.none()

    @extend_schema(operation_id="experiments_chart", parameters=[ChartQuery],
                   responses={200: ExperimentChartSerializer, 400: ErrorsSerializer})
    def get(self, request: Request, experiment_id: str) -> Response:
        """Data for a chart of all results. Many results are thinned; the line of the best result stays exact."""
        metric = ChartQuery.of(request).get("metric")
        return Response(chart_document(experiment_of(request, experiment_id), metric))


def chart_document(experiment: Experiment, metric: str | None = None) -> dict[str, Any]:
    """The chart's columns."""
    chart = chart_of(experiment, metric=None if metric == main_metric(experiment.objectives) else metric)
    place = {status: number for number, status in enumerate(STATUSES)}
    return {"revision": chart.revision, "statuses": STATUSES,
            "sequence_id": [point.sequence_id for point in chart.points],
            "id": [point.id for point in chart.points],
            "status": [place[point.status] for point in chart.points],
            "value": [point.value for point in chart.points],
            "at": [None if point.at is None else round(point.at, 1) for point in chart.points],
            "final": [int(point.counts) for point in chart.points],
            "infeasible": [int(point.infeasible) for point in chart.points],
            "standard_error": [point.error for point in chart.points],
            "optimize_mode": chart.mode, "durations": asdict(chart.durations),
            "left_out": chart.left_out}
