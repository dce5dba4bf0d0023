"""What the clusters of an experiment that runs on several look like over REST and on pages."""

from datetime import datetime
from typing import Any

from rest_framework import serializers

from nniweb.documents.reasons import reason_document
from nniweb.experiments.models import Experiment
from nniweb.experiments.queries.cluster_figures import ClusterFigures, cluster_figures
from nniweb.http.reason_serializer import ReasonSerializer
from trainingservice.reasons import arguments_of, code_of


class ExperimentClusterSerializer(serializers.Serializer[Any]):
    """One of the clusters of an experiment."""

    name = serializers.CharField()
    platform = serializers.CharField()
    is_home = serializers.BooleanField(help_text="Whether its worker asks the tuner and places the trials.")
    is_listed = serializers.BooleanField(help_text="false: taken out of the list; it gets no new trials.")
    up_to = serializers.IntegerField(allow_null=True)
    weight = serializers.FloatField()
    cost = serializers.FloatField(allow_null=True)
    after = serializers.ListField(child=serializers.CharField())
    drained = serializers.BooleanField()
    running = serializers.IntegerField()
    waiting = serializers.IntegerField(help_text="Trials that were placed there and have not begun.")
    ended = serializers.IntegerField(help_text="Attempts that have ended there.")
    hours = serializers.FloatField(help_text="Of all attempts there, with the time so far of those that run.")
    spent = serializers.FloatField(allow_null=True, help_text="hours times cost; null without a cost.")
    message = serializers.CharField(help_text="Why it gets no trials now; \"\" if it does.")
    reason = ReasonSerializer(allow_null=True)


def clusters_document(experiment: Experiment, now: datetime) -> list[dict[str, Any]]:
    """What ``ExperimentClusterSerializer`` describes, of each cluster; [] for an experiment on one."""
    return [_document(one) for one in cluster_figures(experiment, now)]


def _document(one: ClusterFigures) -> dict[str, Any]:
    row = one.row
    return {"name": row.cluster.name, "platform": row.cluster.platform, "is_home": one.is_home,
            "is_listed": row.is_listed, "up_to": row.up_to, "weight": row.weight, "cost": row.cost, "after": one.after,
            "drained": row.is_drained, "running": one.running, "waiting": one.waiting, "ended": one.ended,
            "hours": one.hours, "spent": one.spent, "message": str(one.why_not),
            "reason": reason_document(code_of(one.why_not), arguments_of(one.why_not))}
