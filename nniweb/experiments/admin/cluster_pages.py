"""Clusters in the admin: set up, changed, rehearsed; their metadata beside them."""

import socket
from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.forms import ModelForm
from django.http import HttpRequest
from django.urls import reverse

from nniweb.experiments.admin.access import ForAdministrators
from nniweb.experiments.admin.cluster_form import ClusterForm
from nniweb.experiments.admin.metadata_form import MetadataForm, MetadataFormSet, readable, without_rows
from nniweb.experiments.clusters import editing
from nniweb.experiments.clusters.editing import ClusterBusy
from nniweb.experiments.clusters.metadata import metadata_of, secret_settings
from nniweb.experiments.clusters.rehearsal import OnAnotherHost, rehearse
from nniweb.experiments.models import Cluster, ClusterMetadata, User

#: Rehearsals take up to a minute each, and the browser waits for all of them.
MOST_REHEARSALS = 5


class MetadataInline(ForAdministrators, admin.StackedInline):  # type: ignore[type-arg]
    """A row for each key that the platform knows, set or not. Secrets of the settings are not shown."""

    model = ClusterMetadata
    form = MetadataForm
    formset = MetadataFormSet

    def get_queryset(self, request: HttpRequest) -> QuerySet[ClusterMetadata]:
        cluster = self._cluster(request)
        return super().get_queryset(request).filter(
            key__in=[metadatum.key for metadatum in metadata_of(cluster)] if cluster else [])

    def get_extra(self, request: HttpRequest, obj: Cluster | None = None, **kwargs: Any) -> int:
        return len(without_rows(obj)) if obj else 0

    def get_max_num(self, request: HttpRequest, obj: Cluster | None = None, **kwargs: Any) -> int:
        return len(metadata_of(obj)) if obj else 0

    @staticmethod
    def _cluster(request: HttpRequest) -> Cluster | None:
        assert request.resolver_match is not None
        return Cluster.objects.filter(pk=request.resolver_match.kwargs["object_id"]).first()


@admin.register(Cluster)
class ClusterAdmin(ForAdministrators, admin.ModelAdmin):  # type: ignore[type-arg]
    form = ClusterForm
    list_display = ["name", "platform", "health", "message", "enabled", "is_private", "owner", "group"]
    list_select_related = ["owner", "group"]
    list_filter = ["platform", "health", "enabled", "is_private"]
    search_fields = ["name"]
    ordering = ["name"]
    autocomplete_fields = ["owner", "group"]
    actions = ["rehearse"]
    records_deletions = False
    _STATE = ["health", "message", "pinned_host", "lease_holder", "lease_epoch", "lease_expires_at", "secrets_set",
              "public_id", "settings_revision", "created_at"]

    def get_fieldsets(self, request: HttpRequest, obj: Cluster | None = None) -> Any:
        own = [(None, {"fields": ["name", "platform", "enabled", "max_trials", "settings"]}),
               ("For whom", {"fields": ["is_private", "owner", "group"]})]
        return [*own, ("State", {"fields": self._STATE})] if obj else own

    def get_readonly_fields(self, request: HttpRequest, obj: Cluster | None = None) -> Any:
        return ["platform", *self._STATE] if obj else []

    def get_inlines(self, request: HttpRequest, obj: Cluster | None) -> Any:
        return [MetadataInline] if obj and metadata_of(obj) else []

    def get_formset_kwargs(self, request: HttpRequest, obj: Cluster, inline: Any, prefix: str) -> dict[str, Any]:
        # a key whose value is in the settings alone, or nowhere, has no row of its own in the database
        rows = [{"key": metadatum.key, "value": readable(metadatum.value)} for metadatum in without_rows(obj)]
        return {**super().get_formset_kwargs(request, obj, inline, prefix), "initial": rows}

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        # one by one: each removal checks whether experiments belong to the cluster
        return {name: action for name, action in super().get_actions(request).items() if name != "delete_selected"}

    def view_on_site(self, obj: Cluster) -> str:
        return reverse("cluster", args=[obj.public_id])

    @admin.display(description="secrets of the settings")
    def secrets_set(self, cluster: Cluster) -> str:
        return ", ".join(f"{key}: set" for key in secret_settings(cluster)) or "none"

    @admin.action(description="Rehearse: check everything that a trial needs", permissions=["change"])
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
            messages.warning(request, f"Only the first {MOST_REHEARSALS} clusters were rehearsed. Choose fewer at a "
                                      "time.")

    def save_model(self, request: HttpRequest, obj: Cluster, form: "ModelForm[Any]", change: bool) -> None:
        wish = form.cleaned_data
        if not change:
            owner = wish["owner"] or request.user
            assert isinstance(owner, User)
            made = editing.create_cluster(wish["name"], wish["platform"], wish["settings"], owner=owner,
                                           is_private=wish["is_private"], group=wish["group"],
                                           host=socket.gethostname())
            if not wish["enabled"] or wish["max_trials"] is not None:
                editing.change_cluster(made, {"enabled": wish["enabled"], "max_trials": wish["max_trials"]})
            obj.pk, obj.public_id, obj.settings = made.pk, made.public_id, made.settings
            return
        if "settings" in form.changed_data:
            editing.change_settings(obj, wish["settings"])
        own = {name: wish[name] for name in form.changed_data if name != "settings" and name in wish}
        if own:
            editing.change_cluster(obj, own)

    def delete_model(self, request: HttpRequest, obj: Cluster) -> None:
        try:
            editing.delete_cluster(obj)
        except ClusterBusy as error:
            messages.error(request, str(error))
