"""Quotas in the admin."""

from django.contrib import admin

from nniweb.experiments.admin.access import ForAdministrators
from nniweb.experiments.models import Quota


@admin.register(Quota)
class QuotaAdmin(ForAdministrators, admin.ModelAdmin):  # type: ignore[type-arg]
    """What people, groups, and everybody else may use at a time."""

    list_display = ["of_whom", "max_trials", "max_gpus", "max_experiments", "max_checkpoint_gb", "max_priority"]
    list_select_related = ["user", "group"]
    list_editable = ["max_trials", "max_gpus", "max_experiments", "max_checkpoint_gb", "max_priority"]
    search_fields = ["user__username", "group__name"]
    ordering = ["pk"]
    autocomplete_fields = ["user", "group"]
