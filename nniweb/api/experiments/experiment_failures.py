"""Why trials of an experiment failed."""

from dataclasses import asdict
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from nniweb.api.experiments.experiment_views import ExperimentView
from nniweb.experiments.queries.failures import failures_of
from nniweb.http.reason_serializer import ReasonSerializer

#: Causes in one answer.
MOST = 100


class EqualFailuresSerializer(serializers.Serializer[Any]):
    """Trials that failed for the same reason."""

    key = serializers.CharField(help_text="The filter `failure = KEY` finds the trials.")
    count = serializers.IntegerField(help_text="Number of these trials.")
    message = serializers.CharField(help_text="Why the first of them failed.")
    reason = ReasonSerializer(allow_null=True)
    trial_id = serializers.CharField(help_text="The first of them.")
    sequence_id = serializers.IntegerField(help_text="Its number in the experiment.")


class ExperimentFailuresView(ExperimentView):
    pagination_class = None

    @extend_schema(operation_id="experiments_failures", responses=EqualFailuresSerializer(many=True))
    def get(self, request: Request, experiment_id: str) -> Response:
        """Failed trials grouped by cause, the most frequent cause first; at most 100 causes.

        Failures are equal if their reason, exit code and words are the same. Words with a digit in them do not count.
        """
        return Response([asdict(each) for each in failures_of(self.get_object(), MOST)])
