"""A cluster saved as a whole: settings, metadata and the rest are checked first, then written in one transaction."""

from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.utils import timezone

from nniweb.experiments.clusters.draft import Draft, changed_draft, new_draft, tested_findings
from nniweb.experiments.clusters.editing import change_cluster, change_settings, create_cluster
from nniweb.experiments.clusters.metadata import check_metadata, says_settings, write_metadata
from nniweb.experiments.config.platform_section import PlatformSection
from nniweb.experiments.errors import Refused
from nniweb.experiments.models import Cluster, User


def set_up(wish: Mapping[str, Any], by: User, host: str) -> Cluster:
    """Make a cluster: ``name``, ``platform``, ``settings``, ``is_private``, ``group``, and where they are given
    ``owner`` (default: ``by``), ``enabled``, ``max_trials`` and ``tested`` (``draft.sign_test``).

    Raises what ``editing.create_cluster`` raises.
    """
    draft = new_draft(wish["platform"], wish["settings"])
    with transaction.atomic():
        cluster = create_cluster(wish["name"], wish["platform"], wish["settings"], owner=wish.get("owner") or by,
                                 is_private=wish["is_private"], group=wish["group"], host=host)
        more = {name: wish[name] for name, plain in (("enabled", True), ("max_trials", None))
                if wish.get(name, plain) != plain}
        if more:
            change_cluster(cluster, more)
        _keep_test(cluster, wish.get("tested", ""), draft.section)
    return cluster


def save_changes(cluster: Cluster, changes: Mapping[str, Any]) -> None:
    """Change a cluster, all of it or nothing: fields of its row, ``settings``, ``metadata`` (key -> value, None to
    remove it) and ``tested`` (``draft.sign_test``).

    Raises ConfigInvalid, Refused, ClusterBusy and CannotOpen.
    """
    fields = dict(changes)
    settings, metadata = fields.pop("settings", None), fields.pop("metadata", {})
    tested = fields.pop("tested", "")
    draft = changed_draft(cluster, settings) if settings is not None else None
    check_all_metadata(cluster, metadata, draft)
    with transaction.atomic():
        if settings is not None and draft is not None:
            change_settings(cluster, settings)
            _keep_test(cluster, tested, draft.section)
        for key, value in metadata.items():
            write_metadata(cluster, key, value)
        if fields:
            change_cluster(cluster, fields)


def check_all_metadata(cluster: Cluster, metadata: Mapping[str, str | None], draft: Draft | None) -> None:
    """Whether all of these may be set or removed now; ``draft`` has settings that are changed with them.

    Raises Refused with the fields ``metadata.<key>``, ClusterBusy and CannotOpen.
    """
    errors: list[tuple[str, str]] = []
    for key, value in metadata.items():
        try:
            if draft is not None and (names := says_settings(cluster, key)):
                raise Refused(f"says what the settings say in {', '.join(names)}. Change the settings or {key}, not "
                              "both at once.")
            check_metadata(cluster, key, value, draft)
        except Refused as refused:
            errors += [(f"metadata.{key}", message) for _, message in refused.errors]
    if errors:
        raise Refused.for_fields(errors)


def _keep_test(cluster: Cluster, tested: str, section: PlatformSection) -> None:
    if tested and (found := tested_findings(tested, section)) is not None:
        Cluster.objects.filter(pk=cluster.pk).update(rehearsal=found, rehearsed_at=timezone.now())
