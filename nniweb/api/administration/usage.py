"""Who uses how much of the clusters, for everybody as far as they may see."""

from typing import Any

from django.shortcuts import get_object_or_404
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import generics, serializers
from rest_framework.request import Request
from rest_framework.response import Response

from nniweb.experiments.access.visibility import visible_clusters
from nniweb.experiments.queries.usage import Usage, usage
from nniweb.http.fields import Query
from nniweb.http.permissions import signed_in_user

#: A hundred years: more is no period any more.
MOST_DAYS = 36_525


class UsageQuery(Query):
    cluster = serializers.CharField(required=False, help_text="Id of a cluster. Default: all that you may see.")
    days = serializers.IntegerField(required=False, min_value=1, max_value=MOST_DAYS, help_text=(
        "GPU-hours of the last so many days. Default: of all trials that are stored."))


class UsageSerializer(serializers.Serializer[Any]):
    """The trials of one person's experiments that are shared with one group, or with none."""

    user = serializers.CharField(allow_null=True)
    group = serializers.CharField(allow_null=True)
    running = serializers.IntegerField(help_text="Trials that run now.")
    waiting = serializers.IntegerField(help_text="Trials that wait now.")
    gpus = serializers.IntegerField(help_text="GPUs that the running trials ask for.")
    gpu_hours = serializers.FloatField(help_text="GPUs that trials asked for, times the hours that they ran.")


class UsageView(generics.GenericAPIView[Any]):
    serializer_class = UsageSerializer

    @extend_schema(operation_id="usage_list", parameters=[UsageQuery], responses=UsageSerializer(many=True))
    def get(self, request: Request) -> Response:
        """Usage by person and group: of your own and your groups' experiments, of all for administrators."""
        user, wish = signed_in_user(request), UsageQuery.of(request)
        cluster = get_object_or_404(visible_clusters(user), public_id=wish["cluster"]) if "cluster" in wish else None
        rows: list[Usage] = usage(user, timezone.now(), cluster=cluster, days=wish.get("days"))
        return self.get_paginated_response(UsageSerializer(self.paginate_queryset(rows), many=True).data)
