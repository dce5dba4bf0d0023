"""Intermediate results of several trials in one answer, thinned, for charts."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import generics, serializers
from rest_framework.request import Request
from rest_framework.response import Response

from nniweb.api.experiments.experiment_views import experiment_of
from nniweb.experiments.charts.intermediate_series import (
    Series,
    SeriesOfTrials,
    Which,
    series_of_these,
    series_of_which,
)
from nniweb.experiments.models import Experiment
from nniweb.experiments.models.trial import TRIAL_STATUSES
from nniweb.experiments.queries.start_step import start_step_advice
from nniweb.experiments.results.other_metrics import main_metric
from nniweb.experiments.retention.policy import removed_at
from nniweb.http.error_form import ErrorsSerializer
from nniweb.http.fields import CommaListField, MetricField, OneOfField, Query
from nniweb.http.times import time_text

#: Trials and points of each that one answer has at most, and unless told otherwise.
MOST_TRIALS, USUAL_TRIALS = 100, 20
MOST_POINTS, USUAL_POINTS = 2000, 200


class SeriesQuery(Query):
    trials = CommaListField(child=serializers.CharField(max_length=12), required=False,
                            help_text=f"Ids or numbers of trials, separated by commas, at most {MOST_TRIALS}.")
    which = OneOfField(choices=[which.value for which in Which], required=False, help_text=(
        "Instead of ids: the best trials (`top`), those that are running, the newest that reported a result "
        "(`latest`), or those that the assessor stopped."))
    count = serializers.IntegerField(min_value=1, max_value=MOST_TRIALS, default=USUAL_TRIALS,
                                     help_text="With `which`: maximum number of trials.")
    points = serializers.IntegerField(min_value=4, max_value=MOST_POINTS, default=USUAL_POINTS,
                                      help_text="Maximum number of points of each trial.")
    metric = MetricField()

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if ("trials" in attrs) == ("which" in attrs):
            raise serializers.ValidationError({"trials": "Give either `trials` or `which`."})
        if len(attrs.get("trials", [])) > MOST_TRIALS:
            raise serializers.ValidationError({"trials": f"names more than {MOST_TRIALS} trials."})
        return attrs


class SeriesSerializer(serializers.Serializer[Any]):
    """One trial's intermediate results: those of its last attempt, the last one reported for each step."""

    id = serializers.CharField()
    sequence_id = serializers.IntegerField()
    status = serializers.ChoiceField(choices=TRIAL_STATUSES)
    final = serializers.FloatField(allow_null=True, help_text="Its final result.")
    steps = serializers.ListField(child=serializers.IntegerField(), help_text="Rising.")
    values = serializers.ListField(child=serializers.FloatField(), help_text="One value for each step.")
    seconds = serializers.ListField(child=serializers.FloatField(), help_text=(
        "When each value was reported, in seconds since its attempt began."))
    left_out = serializers.IntegerField(help_text=(
        "Number of points that are left out. The first and the last point are always included, and the least and the "
        "greatest point of each section."))
    removed_at = serializers.DateTimeField(allow_null=True, help_text="When retention removed them.")


class SeriesOfTrialsSerializer(serializers.Serializer[Any]):
    """Intermediate results of several trials."""

    revision = serializers.IntegerField(help_text="Revision of the experiment when this was read, or slightly earlier.")
    total = serializers.IntegerField(help_text="Number of requested trials that exist, including those beyond `count`.")
    trials = SeriesSerializer(many=True)


class ExperimentSeriesView(generics.GenericAPIView[Experiment]):
    serializer_class = SeriesOfTrialsSerializer
    queryset = Experiment.objects.none()

    @extend_schema(operation_id="experiments_series", parameters=[SeriesQuery],
                   responses={200: SeriesOfTrialsSerializer, 400: ErrorsSerializer})
    def get(self, request: Request, experiment_id: str) -> Response:
        """Intermediate results of several trials, thinned; ids in the order given, unknown ones are left out."""
        experiment = experiment_of(request, experiment_id)
        wanted = SeriesQuery.of(request)
        metric = wanted.get("metric")
        if metric == main_metric(experiment.objectives):
            metric = None
        found = series_of_these(experiment, wanted["trials"], wanted["points"], metric) if "trials" in wanted \
            else series_of_which(experiment, Which(wanted["which"]), wanted["count"], wanted["points"], metric)
        return Response(series_document(experiment, found))


class StartStepAdviceSerializer(serializers.Serializer[Any]):
    """What another start_step of Medianstop would do."""

    start_step = serializers.IntegerField(allow_null=True, help_text="The one that is set; null: auto.")
    suggested = serializers.IntegerField(help_text=(
        "The least one with which none of the best trials would have been stopped."))
    lost = serializers.IntegerField(help_text=(
        "Number of the best trials that would have been stopped with the one that is set."))
    best = serializers.IntegerField(help_text="Number of trials that count as the best: a fifth.")
    trials = serializers.IntegerField(help_text="Number of successful trials that were looked at, the newest.")


class StartStepSerializer(serializers.Serializer[Any]):
    """Whether Medianstop's start_step suits the learning curves so far."""

    advice = StartStepAdviceSerializer(allow_null=True, help_text=(
        "null if the one that is set suits them, if too few trials have succeeded, or if the experiment does not use "
        "Medianstop."))


class ExperimentStartStepView(generics.GenericAPIView[Experiment]):
    serializer_class = StartStepSerializer
    queryset = Experiment.objects.none()

    @extend_schema(operation_id="experiments_start_step", responses={200: StartStepSerializer})
    def get(self, request: Request, experiment_id: str) -> Response:
        """Whether another start_step of Medianstop would keep more of the best trials, or stop the others sooner."""
        advice = start_step_advice(experiment_of(request, experiment_id))
        return Response({"advice": None if advice is None else {
            "start_step": advice.set_to, "suggested": advice.suggested, "lost": advice.lost, "best": advice.best,
            "trials": advice.curves}})


def series_document(experiment: Experiment, found: SeriesOfTrials) -> dict[str, Any]:
    return {"revision": experiment.revision, "total": found.total, "trials": [_one(one) for one in found.series]}


def _one(series: Series) -> dict[str, Any]:
    trial = series.trial
    return {"id": trial.public_id, "sequence_id": trial.sequence_id, "status": trial.status,
            "final": series.final, "steps": series.steps, "values": series.values,
            "seconds": [round(seconds, 1) for seconds in series.seconds], "left_out": series.left_out,
            "removed_at": time_text(removed_at(trial, "readings"))}
