"""Cluster metadata: keys with texts, as NNI's services had them. NNI's keys are another form of the settings.

A key of NNI's (``machine_list``, ``pai_config``) is read from the settings and written to them; what its JSON says for
experiments (``trial_config``) is a row. A key of the platform's own is a row. A service's ``set_cluster_metadata`` gets
what the rows say.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from nniweb.experiments.access import audit
from nniweb.experiments.clusters import platform_calls
from nniweb.experiments.clusters.draft import Draft
from nniweb.experiments.clusters.editing import (
    ClusterBusy,
    bump,
    change_settings,
    named,
    read_changed_settings,
    settings_secrets,
)
from nniweb.experiments.clusters.platform_calls import ask_new_service
from nniweb.experiments.clusters.service_factory import service_builder
from nniweb.experiments.config.callback_address import check_callback_address
from nniweb.experiments.config.cluster_defaults import ClusterDefaults
from nniweb.experiments.config.errors import ConfigInvalid
from nniweb.experiments.errors import Refused
from nniweb.experiments.models import Cluster, ClusterMetadata, Experiment
from nniweb.experiments.secrets.sealing import seal
from trainingservice.base import TrainingService
from trainingservice.cluster_metadata.keys import MetadataKey, MetadataParts
from trainingservice.cluster_settings import without_secrets
from trainingservice.errors import InvalidMetadata, TrainingServiceError
from trainingservice.platforms import load_platform
from trainingservice.words.shown_value import shown
from trialkeeper.whole_number import whole_number


@dataclass(frozen=True)
class Metadatum:
    """One key of a cluster's platform, set or not."""

    key: str
    meaning: str
    #: Its value is never shown: "set" stands for it. Of NNI's keys only the secrets in the value are left out.
    is_secret: bool
    is_set: bool
    value: str
    #: Fields of the settings, as files have them, that it says in NNI's words.
    says_settings: tuple[str, ...] = ()


def metadata_of(cluster: Cluster) -> list[Metadatum]:
    """Every key, by name; none where the platform is not installed any more."""
    try:
        platform = load_platform(cluster.platform)
    except TrainingServiceError:
        return []
    rows, of_nni = {row.key: row for row in cluster.metadata.all()}, platform.nni_metadata()
    found = []
    for key, meaning in platform.metadata_meanings().items():
        row = rows.get(key)
        if key in of_nni:
            is_secret, value = False, of_nni[key].shown(cluster.settings, _rest(row))
            is_set = bool(value)
        else:
            is_secret, is_set = key in platform.secret_metadata_keys, row is not None
            value = "" if row is None else "set" if is_secret or row.is_secret else row.value
        found.append(Metadatum(key, meaning, is_secret, is_set, value, of_nni[key].owned if key in of_nni else ()))
    return found


def _rest(row: ClusterMetadata | None) -> dict[str, Any]:
    rest: dict[str, Any] = json.loads(row.value) if row is not None and row.value else {}
    return rest


def secret_settings(cluster: Cluster) -> list[str]:
    """Paths of the secrets that are set in the settings."""
    keys = {metadatum.key for metadatum in metadata_of(cluster)}
    return sorted(row.key for row in cluster.metadata.all() if row.is_secret and row.key not in keys)


def defaults_among(usable: QuerySet[Cluster]) -> Callable[[str], ClusterDefaults]:
    """Tells what the metadata of a cluster say for experiments that name it; of an unknown one, nothing."""
    def of_name(name: str) -> ClusterDefaults:
        cluster = usable.filter(name=name).prefetch_related("metadata").first()
        return ClusterDefaults() if cluster is None else defaults_of(cluster)

    return of_name


def defaults_of(cluster: Cluster) -> ClusterDefaults:
    """What the metadata say for experiments that name this cluster. What no longer fits the platform is left out."""
    defaults = ClusterDefaults()
    try:
        of_nni = load_platform(cluster.platform).nni_metadata()
    except TrainingServiceError:
        return defaults
    rows = {row.key: row for row in cluster.metadata.all()}
    for key, known in of_nni.items():
        if key in rows:
            try:
                parts = known.read(known.shown({}, _rest(rows[key])))
            except InvalidMetadata:  # of a version that had other fields
                continue
            defaults.experiment.update(parts.experiment)
            defaults.options.update(parts.options)
    return defaults


def says_settings(cluster: Cluster, key: str) -> tuple[str, ...]:
    """Fields of the settings that a key says in NNI's words; () for none."""
    known = load_platform(cluster.platform).nni_metadata().get(key)
    return () if known is None else known.owned


def set_metadata(cluster: Cluster, key: str, value: str) -> None:
    """Set one key, after the platform has taken it for good. Raises Refused, ClusterBusy and CannotOpen."""
    check_metadata(cluster, key, value)
    write_metadata(cluster, key, value)


def remove_metadata(cluster: Cluster, key: str) -> None:
    """Forget one key; harmless where it was not set. Raises Refused, ClusterBusy and CannotOpen."""
    check_metadata(cluster, key, None)
    write_metadata(cluster, key, None)


def write_metadata(cluster: Cluster, key: str, value: str | None) -> None:
    """Set one key, or forget it (None), after ``check_metadata``. Raises CannotOpen, and ConfigInvalid where the
    settings have changed since.
    """
    cluster = Cluster.objects.get(pk=cluster.pk)  # the settings as they are, not as the caller read them
    platform = load_platform(cluster.platform)
    known, is_secret = platform.nni_metadata().get(key), key in platform.secret_metadata_keys
    with transaction.atomic():
        if known is not None:
            _set_in_settings(cluster, known, None if value is None else known.read(value))
        else:
            bump(cluster)
            if value is None:
                cluster.metadata.filter(key=key).delete()
            else:
                ClusterMetadata.objects.update_or_create(cluster=cluster, key=key, defaults={
                    "value": "" if is_secret else value, "sealed_value": seal(value) if is_secret else None})
        details: dict[str, Any] = {"removed": True} if value is None else {"secret": is_secret}
        audit.record("cluster.metadata", cluster, key=key, **details)


def _set_in_settings(cluster: Cluster, known: MetadataKey, parts: MetadataParts | None) -> None:
    settings = known.changed(cluster.settings, parts)
    section = read_changed_settings(cluster, settings)
    if without_secrets(section.settings) != cluster.settings \
            or section.secrets != settings_secrets(cluster, load_platform(cluster.platform)):
        change_settings(cluster, settings)  # else the worker need not make its service anew
    if parts is not None and parts.rest:
        ClusterMetadata.objects.update_or_create(cluster=cluster, key=known.name, defaults={
            "value": json.dumps(parts.rest, ensure_ascii=False), "sealed_value": None})
    else:
        cluster.metadata.filter(key=known.name).delete()


def check_metadata(cluster: Cluster, key: str, value: str | None, draft: Draft | None = None) -> None:
    """Whether a key may be set to a value, or removed (None), now. Raises Refused, ClusterBusy and CannotOpen.

    ``draft``: settings that are changed with it.
    """
    cluster = Cluster.objects.get(pk=cluster.pk)  # the settings as they are, not as the caller read them
    platform = load_platform(cluster.platform)
    _may_be_set(cluster, platform, key)
    known = platform.nni_metadata().get(key)
    if known is not None:
        _check_in_settings(cluster, known, value)
    if value is None or known is not None and platform.set_cluster_metadata is TrainingService.set_cluster_metadata:
        return
    try:
        build = service_builder(cluster, replacing={key: value}) if draft is None else \
            replace(draft, metadata={key: value}).service_builder()
        ask_new_service(cluster.platform, build, lambda service: None, platform_calls.BRIEF)
    except InvalidMetadata as invalid:
        raise _refused(key, invalid) from None
    except TrainingServiceError as error:
        raise Refused(str(error), "value") from None


def _check_in_settings(cluster: Cluster, known: MetadataKey, value: str | None) -> None:
    try:
        parts = None if value is None else known.read(value)
    except InvalidMetadata as invalid:
        raise _refused(known.name, invalid) from None
    address = str(parts.experiment.get("nniManagerIp") or "") if parts is not None else ""
    try:
        check_callback_address(address)
    except ValueError as error:
        raise Refused(f"{known.name}: {error}.", "value") from None
    try:
        read_changed_settings(cluster, known.changed(cluster.settings, parts))
    except ConfigInvalid as invalid:
        places = {error.field: known.place_of(_path(error.field), parts or MetadataParts()) for error in invalid.errors}
        raise Refused.for_fields([("value", f"{places[error.field]}: {error.message}")
                                  for error in invalid.errors]) from None


def _path(field_of_settings: str) -> tuple[str | int, ...]:
    """``settings.machineList[0].host`` in steps, without its beginning."""
    steps = re.findall(r"[^.\[\]]+", field_of_settings.removeprefix("settings"))
    return tuple(step if (number := whole_number(step)) is None else number for step in steps)


def _refused(key: str, invalid: InvalidMetadata) -> Refused:
    if not invalid.field.startswith(key):
        return Refused(invalid.message, invalid.field)
    return Refused(invalid.message if invalid.field == key else str(invalid), "value")


def _may_be_set(cluster: Cluster, platform: type[TrainingService], key: str) -> None:
    known: Mapping[str, str] = platform.metadata_meanings()
    if key not in known:
        raise Refused(f"The {platform.platform} platform has no metadata named {shown(key)}. Its metadata: "
                      f"{', '.join(known)}.", "key")
    if key in platform.nni_metadata() or key in platform.metadata_changeable_while_running:
        return
    running = Experiment.objects.filter(cluster=cluster, deleted_at=None).unfinished()
    if running:
        raise ClusterBusy(cluster, f"{key} cannot be changed while experiments use the cluster: {named(running)}. Stop "
                          "them first.")
