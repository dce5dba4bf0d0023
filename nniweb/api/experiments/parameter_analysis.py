"""What the charts of an experiment's hyper-parameters need: columns of values, and how much each parameter matters."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import generics, serializers, status
from rest_framework.exceptions import APIException
from rest_framework.request import Request
from rest_framework.response import Response

from nniweb.api.experiments.experiment_views import experiment_of
from nniweb.experiments.charts.parameter_axes import Column
from nniweb.experiments.charts.parameter_columns import BEST_DRAWN, MOST_DRAWN, MOST_VALUES, Results, results_of
from nniweb.experiments.charts.parameter_importance import FEWEST_TRIALS, MOST_TRIALS, NotWorkedOut, importance_of
from nniweb.experiments.models import Experiment
from nniweb.http.error_form import ErrorsSerializer
from nniweb.http.fields import MetricField, Query

#: Significant digits of a number in a column: more than the eye sees.
DIGITS = 6


class MetricQuery(Query):
    metric = MetricField()
    optimize_mode = serializers.ChoiceField(
        choices=Experiment.OptimizeMode.choices, default=Experiment.OptimizeMode.MINIMIZE, help_text=(
            "Whether smaller or greater numbers are better, for a further metric that is not an objective."))


class AnyJSONField(serializers.JSONField):
    """Any JSON value."""


class ParameterColumnSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(help_text="For example `lr`, or `layer.Conv.kernel` inside a nested choice.")
    kind = serializers.ChoiceField(choices=["number", "category"])
    logarithmic = serializers.BooleanField(help_text="The search space samples it on a logarithmic scale.")
    whole = serializers.BooleanField(help_text="Whole numbers only.")
    low = serializers.FloatField(allow_null=True, help_text=(
        "Range of a numeric parameter, from the search space and the trials."))
    high = serializers.FloatField(allow_null=True)
    options = serializers.ListField(child=AnyJSONField(), help_text=(
        "The options that the values of a categorical parameter refer to."))
    choice = serializers.CharField(allow_null=True, help_text=(
        "The nested choice that it belongs to. The parameter is used if that choice has the value `option`."))
    option = serializers.IntegerField(allow_null=True)
    values = serializers.ListField(child=serializers.FloatField(allow_null=True), help_text=(
        "One value for each trial: the number, or the index in `options`; null if the trial does not use the "
        "parameter. Rounded to six digits."))


class ParameterColumnsSerializer(serializers.Serializer[Any]):
    """Trials with a final result, in order of sequence; all columns are of the same length. A trial of a multi-phase
    experiment is there once for each parameter set with a result.
    """

    revision = serializers.IntegerField(help_text="Revision of the experiment when this was read, or slightly earlier.")
    id = serializers.ListField(child=serializers.CharField())
    sequence_id = serializers.ListField(child=serializers.IntegerField())
    value = serializers.ListField(child=serializers.FloatField(), help_text=(
        "The final result, or the number of the requested metric."))
    optimize_mode = serializers.ChoiceField(choices=Experiment.OptimizeMode.choices, help_text=(
        "Whether smaller or greater values are better: as in the experiment, or as requested."))
    rank = serializers.ListField(child=serializers.IntegerField(), help_text=(
        "Its rank among all trials with a result, including those that are left out here; 0 is the best. Results that "
        "break a constraint on outcomes, and proposals that were not run in full, come last."))
    columns = ParameterColumnSerializer(many=True)
    trials = serializers.IntegerField(help_text="Trials with a final result.")
    left_out = serializers.IntegerField(help_text=(
        f"How many of them are left out. Of more than {MOST_DRAWN} trials, the {BEST_DRAWN} best and an even selection "
        f"of the others are listed. With more than {MOST_VALUES // MOST_DRAWN} parameters, fewer are."))


class ImportantParameterSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    importance = serializers.FloatField(allow_null=True, help_text=(
        "Its importance (PED-ANOVA), 0 to 1: its share in the difference between the best trials and the others; null "
        "if nothing varies."))
    correlation = serializers.FloatField(allow_null=True, help_text=(
        "Spearman's rank correlation with the result, -1 to 1; null if its options have no order or do not vary."))
    count = serializers.IntegerField(help_text="Number of evaluated trials that have this parameter.")


class ParameterImportanceSerializer(serializers.Serializer[Any]):
    revision = serializers.IntegerField(help_text="Revision of the experiment when the results were read.")
    trials = serializers.IntegerField(help_text="Trials with a final result.")
    looked_at = serializers.IntegerField(help_text=(
        f"Number of trials that were evaluated: at most {MOST_TRIALS}, fewer with many parameters, spread evenly; 0 if "
        "there are too few trials."))
    needed = serializers.IntegerField(help_text="The smallest number of trials that is evaluated.")
    parameters = ImportantParameterSerializer(many=True)


class NotNow(APIException):
    status_code = status.HTTP_503_SERVICE_UNAVAILABLE


class ParameterColumnsView(generics.GenericAPIView[Experiment]):
    serializer_class = ParameterColumnsSerializer
    queryset = Experiment.objects.none()

    @extend_schema(operation_id="experiments_parameter_columns", parameters=[MetricQuery],
                   responses={200: ParameterColumnsSerializer, 400: ErrorsSerializer})
    def get(self, request: Request, experiment_id: str) -> Response:
        """Results and parameters of the trials in columns. Of many trials, a selection is returned."""
        return Response(columns_document(_asked_for(experiment_of(request, experiment_id), request)))


class ParameterImportanceView(generics.GenericAPIView[Experiment]):
    serializer_class = ParameterImportanceSerializer
    queryset = Experiment.objects.none()

    @extend_schema(operation_id="experiments_parameter_importance", parameters=[MetricQuery],
                   responses={200: ParameterImportanceSerializer, 400: ErrorsSerializer, 503: ErrorsSerializer})
    def get(self, request: Request, experiment_id: str) -> Response:
        """The importance of each parameter and its correlation with the result. May take seconds; may be 15 s old."""
        experiment = experiment_of(request, experiment_id)
        results = _asked_for(experiment, request)
        try:
            found = importance_of(experiment.pk, results)
        except NotWorkedOut as error:
            raise NotNow(str(error)) from error
        names = [column.axis.name for column in results.columns]
        return Response({
            "revision": found.revision, "trials": found.results, "looked_at": found.looked_at,
            "needed": FEWEST_TRIALS,
            "parameters": [{"name": name, **parameter}
                           for name, parameter in zip(names, found.parameters, strict=False)]})


def _asked_for(experiment: Experiment, request: Request) -> Results:
    wanted = MetricQuery.of(request)
    return results_of(experiment, wanted.get("metric"), wanted["optimize_mode"])


def columns_document(results: Results) -> dict[str, Any]:
    """One list for each column, all of the same length: an entry for each drawn trial."""
    drawn = results.drawn
    rank = results.rank
    return {
        "revision": results.revision,
        "id": [results.ids[place] for place in drawn],
        "sequence_id": [results.sequence_ids[place] for place in drawn],
        "value": [results.values[place] for place in drawn],
        "rank": [rank[place] for place in drawn],
        "optimize_mode": "maximize" if results.greater_is_better else "minimize",
        "columns": [_column_document(column, drawn) for column in results.columns],
        "trials": len(results.ids), "left_out": len(results.ids) - len(drawn)}


def _column_document(column: Column, drawn: list[int]) -> dict[str, Any]:
    axis = column.axis
    return {"name": axis.name, "kind": axis.kind, "logarithmic": axis.logarithmic, "whole": axis.whole,
            "low": axis.low, "high": axis.high, "options": list(axis.options), "choice": axis.choice,
            "option": axis.option, "values": [_short(column.values[place]) for place in drawn]}


def _short(value: float | int | None) -> float | int | None:
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value
