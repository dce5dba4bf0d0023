"""What takes room, in the admin: each experiment, the parts of the data folder, the disk."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, reverse
from django.utils.html import format_html

from nniweb.experiments.admin.access import ToLookAt
from nniweb.experiments.models import DiskUsage
from nniweb.experiments.retention.disk_usage import installation_usage
from nniweb.experiments.retention.policy import days_kept, in_days
from trainingservice.words.byte_size import byte_size

#: Columns that may be large and are not in the list.
_LEFT_OUT = ("search_space", "config", "config_text", "notes", "trial_options", "tuner", "assessor", "description")


def _size(field: str, title: str) -> Any:
    def shown(_: object, usage: DiskUsage) -> str:
        return byte_size(getattr(usage, field) or 0)

    return admin.display(description=title, ordering=field)(shown)


@admin.register(DiskUsage)
class DiskUsageAdmin(ToLookAt, admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = ["name", "status", "total_size", "rows_size", "output_size", "files_size", "checkpoints_size",
                    "code_size", "trial_count", "row_count", "kept", "measured_at"]
    list_display_links = None
    list_select_related = ["experiment__owner"]
    search_fields = ["experiment__name", "=experiment__public_id", "=experiment__owner__username"]
    search_help_text = "Name or id of an experiment, or its owner."
    ordering = ["-total_bytes"]
    show_full_result_count = False
    list_per_page = 100
    change_list_template = "admin/disk_usage.html"

    rows_size = _size("rows_bytes", "rows, about")
    output_size = _size("output_bytes", "output, about")
    files_size = _size("files_bytes", "kept files")
    checkpoints_size = _size("checkpoints_bytes", "checkpoints")
    code_size = _size("code_bytes", "code")
    total_size = _size("total_bytes", "together")

    def get_urls(self) -> list[URLPattern]:
        """The list alone: there is nothing more to see of a row."""
        return [url for url in super().get_urls() if str(url.name).endswith("_changelist")]

    def get_queryset(self, request: HttpRequest) -> QuerySet[DiskUsage]:
        return super().get_queryset(request).defer(*[f"experiment__{name}" for name in _LEFT_OUT])

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        return {}

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        return super().changelist_view(request, {**(extra_context or {}), "title": "Disk usage",
                                                 "installation": installation_usage()})

    @admin.display(description="experiment", ordering="experiment__name")
    def name(self, usage: DiskUsage) -> str:
        experiment = usage.experiment
        if experiment.deleted_at is not None:
            return format_html("{} ({}, deleted)", experiment.name, experiment.public_id)
        return format_html('<a href="{}">{}</a> ({})', reverse("experiment", args=[experiment.public_id]),
                           experiment.name, experiment.owner.username if experiment.owner else "nobody's")

    @admin.display(description="status", ordering="experiment__status")
    def status(self, usage: DiskUsage) -> str:
        experiment = usage.experiment
        if experiment.deleted_at is None:
            return experiment.status
        return experiment.message if experiment.cleanup_tries else "being removed"

    @admin.display(description="trials", ordering="trials")
    def trial_count(self, usage: DiskUsage) -> str:
        return f"{usage.trials:,}"

    @admin.display(description="rows", ordering="rows")
    def row_count(self, usage: DiskUsage) -> str:
        return f"{usage.rows:,}"

    @admin.display(description="kept for")
    def kept(self, usage: DiskUsage) -> str:
        if usage.experiment.deleted_at is not None:
            return "–"
        days = days_kept(usage.experiment.retention)
        words = ", ".join(f"{kind} {in_days(days[kind])}" for kind in days if days[kind] is not None) or "for ever"
        address = reverse("experiment-config", args=[usage.experiment.public_id])
        return format_html('<a href="{}">{}</a>', address, words)
