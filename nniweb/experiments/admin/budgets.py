"""Budgets, prices and the ledger in the admin."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.utils import timezone

from nniweb.experiments.admin.access import ForAdministrators, ToLookAt
from nniweb.experiments.budgets.concerned import Held
from nniweb.experiments.budgets.spending import UNITS
from nniweb.experiments.budgets.standing import standing
from nniweb.experiments.models import Budget, LedgerEntry, Price


@admin.register(Budget)
class BudgetAdmin(ForAdministrators, admin.ModelAdmin):  # type: ignore[type-arg]
    """What people, groups, tokens, experiments, and everybody else may use in a month or in total."""

    list_display = ["of_whom", "period", *UNITS, "left"]
    list_select_related = ["user", "group", "token", "experiment"]
    list_filter = ["period"]
    search_fields = ["user__username", "group__name", "token__name", "experiment__name", "=experiment__public_id"]
    ordering = ["pk"]
    autocomplete_fields = ["user", "group", "token"]
    raw_id_fields = ["experiment"]
    list_per_page = 50

    @admin.display(description="left now")
    def left(self, budget: Budget) -> str:
        """In words; of each person's there is no single figure."""
        if (budget.user_id, budget.group_id, budget.token_id, budget.experiment_id) == (None,) * 4:
            return "of each person"
        found = standing(Held(budget), timezone.now())
        return ", ".join(f"{float(found.left(unit)):g} {unit.replace('_', ' ')}" for unit in found.limits)


@admin.register(Price)
class PriceAdmin(ForAdministrators, admin.ModelAdmin):  # type: ignore[type-arg]
    """What an hour costs."""

    list_display = ["cluster", "machine", "gpu_hour", "cpu_hour"]
    list_select_related = ["cluster"]
    list_editable = ["gpu_hour", "cpu_hour"]
    search_fields = ["cluster__name", "machine"]
    ordering = ["cluster__name", "machine"]
    autocomplete_fields = ["cluster"]


@admin.register(LedgerEntry)
class LedgerEntryAdmin(ToLookAt, admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = ["at", "month", "owner", "group", "token", "experiment_name", "job_name", "cluster", "machine",
                    "milliseconds", "measured_by", "gpus", "milli_cpus", "money"]
    list_filter = ["month", "measured_by"]
    search_fields = ["=owner", "=experiment", "=trial", "=job_name", "=cluster"]
    search_help_text = "A user name, an id of an experiment or a trial, a cluster."
    ordering = ["-pk"]
    show_full_result_count = False
    list_per_page = 100

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        return {}
