"""Experiments, trials and workers: to look at. They are steered on their pages, by the rules that hold there."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse

from nniweb.experiments.admin.access import ToLookAt
from nniweb.experiments.lifecycle.nni_ports import nni_port_words
from nniweb.experiments.models import Experiment, Trial, Worker

#: Columns that may be large and are not in lists.
_LARGE = ["search_space", "config", "config_text", "notes", "trial_options", "tuner", "assessor", "description"]


@admin.register(Experiment)
class ExperimentAdmin(ToLookAt, admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = ["public_id", "name", "status", "owner", "cluster", "created_at", "archived"]
    list_select_related = ["owner", "cluster"]
    list_filter = ["status", "archived"]
    search_fields = ["=public_id", "name"]
    ordering = ["-created_at"]
    show_full_result_count = False
    list_per_page = 50
    readonly_fields = ["nni_clients"]

    @admin.display(description="Port for NNI's clients")
    def nni_clients(self, experiment: Experiment) -> str:
        return nni_port_words(experiment) or "-"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Experiment]:
        found = super().get_queryset(request)
        is_list = request.resolver_match is not None and request.resolver_match.url_name == (
            "experiments_experiment_changelist")
        return found.defer(*_LARGE) if is_list else found

    def view_on_site(self, obj: Experiment) -> str:
        return reverse("experiment", args=[obj.public_id])


@admin.register(Trial)
class TrialAdmin(ToLookAt, admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = ["public_id", "experiment", "sequence_id", "status", "final_number", "created_at", "ended_at"]
    list_select_related = ["experiment"]
    list_filter = ["status"]
    search_fields = ["=public_id", "=experiment__public_id"]
    search_help_text = "The id of a trial or of an experiment."
    ordering = ["-pk"]
    raw_id_fields = ["experiment", "rerun_of"]
    show_full_result_count = False
    list_per_page = 50

    def get_queryset(self, request: HttpRequest) -> QuerySet[Trial]:
        return super().get_queryset(request).defer(*[f"experiment__{name}" for name in _LARGE])

    def view_on_site(self, obj: Trial) -> str:
        return reverse("trial", args=[obj.public_id])


@admin.register(Worker)
class WorkerAdmin(ToLookAt, admin.ModelAdmin):  # type: ignore[type-arg]
    list_display: Any = ["host", "pid", "started_at", "heard_at"]
    ordering = ["-heard_at"]
