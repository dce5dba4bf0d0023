"""Clusters in the admin: the dashboard's form with what is stored besides, tests, and removal."""

from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.template.response import TemplateResponse
from django.urls import reverse

from nniweb.experiments.admin.access import ForAdministrators
from nniweb.experiments.clusters import editing
from nniweb.experiments.clusters.editing import ClusterBusy
from nniweb.experiments.clusters.form_page import form_context
from nniweb.experiments.clusters.metadata import secret_settings
from nniweb.experiments.clusters.rehearsal import OnAnotherHost, rehearse
from nniweb.experiments.models import Cluster, User

#: Rehearsals take up to a minute each, and the browser waits for all of them.
MOST_REHEARSALS = 5
_STATE = ("health", "message", "pinned_host", "lease_holder", "lease_epoch", "lease_expires_at", "public_id",
          "settings_revision", "created_at")


@admin.register(Cluster)
class ClusterAdmin(ForAdministrators, admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = ["name", "platform", "health", "message", "enabled", "access", "owner"]
    list_select_related = ["owner", "group"]
    list_filter = ["platform", "health", "enabled", "is_private"]
    search_fields = ["name"]
    ordering = ["name"]
    actions = ["rehearse"]
    records_deletions = False

    def changeform_view(self, request: HttpRequest, object_id: str | None = None, form_url: str = "",
                        extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """The form of the dashboard, which saves over REST: there is one set of rules."""
        if request.method not in ("GET", "HEAD"):
            return HttpResponseNotAllowed(["GET", "HEAD"])
        cluster = None if object_id is None else self.get_object(request, object_id)
        if object_id is not None and cluster is None:
            return self._get_obj_does_not_exist_redirect(  # type: ignore[no-any-return, attr-defined]  # Django's own
                request, self.opts, object_id)
        user = request.user
        assert isinstance(user, User)
        every = reverse("admin:experiments_cluster_changelist")
        context = form_context(user, cluster, after=every, back=every, every=every)
        return TemplateResponse(request, "admin/cluster_form.html", {**context, "state": self._state(cluster)})

    @staticmethod
    def _state(cluster: Cluster | None) -> list[tuple[str, Any]]:
        if cluster is None:
            return []
        rows = [(name.replace("_", " ").capitalize(), getattr(cluster, name)) for name in _STATE]
        return [*rows, ("Secrets of the settings", ", ".join(f"{key}: set" for key in secret_settings(cluster)))]

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        # one by one: each removal checks whether experiments belong to the cluster
        return {name: action for name, action in super().get_actions(request).items() if name != "delete_selected"}

    @admin.display(description="access", ordering="is_private")
    def access(self, cluster: Cluster) -> str:
        """In words: that a cluster is not private is no fault of it."""
        if cluster.is_private:
            return "its owner alone"
        return f"group {cluster.group.name}" if cluster.group else "everybody"

    def view_on_site(self, obj: Cluster) -> str:
        return reverse("cluster", args=[obj.public_id])

    @admin.action(description="Test cluster: check everything that a trial needs", permissions=["change"])
    def rehearse(self, request: HttpRequest, queryset: QuerySet[Cluster]) -> None:
        user = request.user
        assert isinstance(user, User)
        chosen = list(queryset.prefetch_related("metadata")[:MOST_REHEARSALS + 1])
        for cluster in chosen[:MOST_REHEARSALS]:
            try:
                findings = rehearse(cluster, user)
            except OnAnotherHost as error:
                messages.warning(request, f'"{cluster.name}": {error}')
                continue
            for finding in findings:
                level = messages.SUCCESS if finding.ok else messages.WARNING if finding.temporary else messages.ERROR
                messages.add_message(request, level, f'"{cluster.name}": {finding.message}')
        if len(chosen) > MOST_REHEARSALS:
            messages.warning(request, f"Only the first {MOST_REHEARSALS} clusters were tested. Choose fewer at a time.")

    def delete_model(self, request: HttpRequest, obj: Cluster) -> None:
        try:
            editing.delete_cluster(obj)
        except ClusterBusy as error:
            messages.error(request, str(error))
