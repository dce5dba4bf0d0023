"""What is said of tokens and their leashes over REST."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.utils import timezone
from rest_framework import serializers

from nniweb.experiments.budgets.spending import UNITS
from nniweb.experiments.models import ApiToken, Budget, Cluster
from nniweb.experiments.models.account import LeashRole, Scope
from nniweb.experiments.queries.token_budgets import budgets_of_tokens


class BudgetLineSerializer(serializers.Serializer[Any]):
    """A limit of a budget of a token. Amounts are hours, trials or money."""

    period = serializers.ChoiceField(choices=Budget.Period.values)
    unit = serializers.ChoiceField(choices=UNITS)
    limit = serializers.FloatField()
    used = serializers.FloatField(help_text="By trials that have ended, and by running ones so far.")
    left = serializers.FloatField()


class LimitsSerializer(serializers.Serializer[Any]):
    """What a token may do."""

    name = serializers.CharField()
    scope = serializers.ChoiceField(choices=Scope.choices)
    expires_at = serializers.DateTimeField(allow_null=True)
    roles = serializers.ListField(child=serializers.ChoiceField(choices=LeashRole.choices), help_text=(
        "All that a token with a leash may do. Empty: it has no leash and does what its scope says."))
    everything = serializers.BooleanField(help_text=(
        "Whether a leash lets it act on all that its person may change; false: on what it launched itself."))
    clusters = serializers.ListField(child=serializers.CharField(), help_text=(
        "Names of the only clusters that it may use. Empty: all that its person may use, unless it is limited."))
    is_limited_to_clusters = serializers.BooleanField(help_text=(
        "Whether it may use only the clusters that are listed; they may all have been deleted."))
    max_trials = serializers.IntegerField(allow_null=True, help_text=(
        "Trials at a time, of all that it asked for; null: no limit."))
    budgets = BudgetLineSerializer(many=True, help_text="Each limit of its budgets, and how it stands.")


class RunningSerializer(serializers.Serializer[Any]):
    """What a token runs now."""

    experiments = serializers.IntegerField(help_text="Experiments that it launched and that have not ended.")
    trials = serializers.IntegerField(help_text="Trials that count for it and are under way.")


def limits_document(tokens: Sequence[ApiToken]) -> list[dict[str, Any]]:
    """As ``LimitsSerializer`` says, of each. A query for clusters, and those of their budgets."""
    budgets = budgets_of_tokens([token.pk for token in tokens], timezone.now())
    ids = {public_id for token in tokens for public_id in token.clusters}
    names = dict(Cluster.objects.filter(public_id__in=ids).values_list("public_id", "name")) if ids else {}
    return [{"name": token.name, "scope": token.scope, "expires_at": token.expires_at, "roles": token.roles,
             "everything": token.everything,
             "clusters": sorted(names[public_id] for public_id in token.clusters if public_id in names),
             "is_limited_to_clusters": bool(token.clusters), "max_trials": token.max_trials,
             "budgets": [{"period": line.period, "unit": line.unit, "limit": line.limit, "used": line.used,
                          "left": line.left} for line in budgets.get(token.pk, ())]} for token in tokens]
