"""Whose the names of jobs in messages are."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import generics, serializers
from rest_framework.request import Request
from rest_framework.response import Response

from nniweb.experiments.models import Trial
from nniweb.experiments.queries.named_trials import MOST_JOBS, trials_of_jobs
from nniweb.http.fields import CommaListField, Query
from nniweb.http.permissions import signed_in_user


class NamedTrialSerializer(serializers.Serializer[Any]):
    job = serializers.CharField(help_text="The requested name.")
    id = serializers.CharField(help_text="Of the trial.")
    sequence_id = serializers.IntegerField()
    experiment = serializers.CharField(help_text="Id of its experiment.")
    experiment_name = serializers.CharField()


class NamedTrialsQuery(Query):
    jobs = CommaListField(child=serializers.CharField(max_length=100), max_length=MOST_JOBS, help_text=(
        f"Names of jobs as they appear in messages, separated by commas; at most {MOST_JOBS}."))


class NamedTrialsView(generics.GenericAPIView[Trial]):
    serializer_class = NamedTrialSerializer
    pagination_class = None

    @extend_schema(operation_id="trials_named", parameters=[NamedTrialsQuery],
                   responses=NamedTrialSerializer(many=True))
    def get(self, request: Request) -> Response:
        """The trials of jobs that messages such as "GPU 0 is held by ..." name, as far as you may see them."""
        return Response(trials_of_jobs(NamedTrialsQuery.of(request)["jobs"], signed_in_user(request)))
