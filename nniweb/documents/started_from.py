"""What the earlier experiments look like over REST that an experiment started from."""

from typing import Any

from rest_framework import serializers

from nniweb.documents.reasons import reason_document
from nniweb.experiments.earlier.agreement import agreement_reason
from nniweb.experiments.models import EarlierExperiment, Experiment
from nniweb.http.reason_serializer import ReasonSerializer


class StartedFromSerializer(serializers.Serializer[Any]):
    """An earlier experiment whose results lead the search as long as they agree with it."""

    id = serializers.CharField(help_text="Of the earlier experiment, which may have been deleted since.")
    available = serializers.IntegerField(help_text="Results that it had at the launch.")
    taken = serializers.IntegerField(help_text="Results that were copied at the launch.")
    misfits = serializers.DictField(help_text=(
        "By parameter, how many results did not fit the search space: missing (the earlier experiment does not have "
        "the parameter), unknown (this one does not), outside (the range), other_type, no_option."))
    compared = serializers.IntegerField(help_text="Results of this experiment that they were compared with.")
    correlation = serializers.FloatField(allow_null=True, help_text=(
        "Kendall's rank correlation of those with what the earlier results predict; null for too few. With several "
        "objectives the mean over those in which they agree, over all where they agree in none."))
    weight = serializers.FloatField(help_text="0 (not used) to 1; with several objectives the mean over them.")
    message = serializers.CharField(help_text="How well they agree so far.")
    reason = ReasonSerializer()


def started_from(experiment: Experiment) -> list[dict[str, Any]]:
    """What StartedFromSerializer describes, in the order of the config. One query where there are any."""
    if not experiment.config.get("startFrom"):
        return []
    found = []
    for one in EarlierExperiment.objects.filter(experiment=experiment).defer("results"):
        reason = agreement_reason(one)
        found.append({"id": one.source_id, "available": one.available, "taken": one.taken, "misfits": one.misfits,
                      "compared": one.compared, "correlation": one.correlation, "weight": one.weight,
                      "message": str(reason), "reason": reason_document(reason.code, reason.arguments)})
    return found
