"""Clusters as people set them up: checked settings, sealed secrets, a revision by which the worker notices changes."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from django.contrib.auth.models import Group
from django.db import IntegrityError, transaction
from django.db.models import F, Model

from nniweb.experiments.access import audit
from nniweb.experiments.config.errors import ConfigError, ConfigInvalid
from nniweb.experiments.config.platform_section import PlatformSection, parse_stored_section
from nniweb.experiments.errors import Refused
from nniweb.experiments.models import Cluster, ClusterMetadata, Experiment, User
from nniweb.experiments.models.experiment_cluster import of_cluster
from nniweb.experiments.secrets.sealing import seal, unseal
from trainingservice.base import TrainingService
from trainingservice.cluster_metadata.kept_secrets import Changes, keep_secrets, moved_secrets, moved_sentence
from trainingservice.cluster_settings import ClusterSettings, without_secrets
from trainingservice.platforms import load_platform, platform_names
from trainingservice.reasons import Reason
from trainingservice.words.spellings import fold

#: What a cluster may be named: experiment files name it by this.
NAME_PATTERN = r"^[^\s/]([^/\r\n\t]*[^\s/])?\Z"
NAME_RULE = "must not contain a slash, a tab or a line break, and must not begin or end with a space."
_OF_ANOTHER_VERSION: Changes = {"version of the platform": ("", "")}
#: How many names a sentence lists.
_NAMES = 5


class ClusterBusy(Exception):
    """Experiments use the cluster in a way that forbids the change; the sentence names them."""

    def __init__(self, cluster: Cluster, said: str) -> None:
        self.reason = Reason("cluster_in_use", cluster=cluster.name, said=said)
        super().__init__(self.reason)


def store_cluster(section: PlatformSection, name: str, *, owner: User | None, is_private: bool, pinned_host: str = "",
                  group: Group | None = None) -> Cluster:
    """Write a new cluster with its secrets sealed. Raises IntegrityError where the name is taken."""
    with transaction.atomic():
        cluster = Cluster.objects.create(
            name=name, platform=section.platform, settings=without_secrets(section.settings), owner=owner, group=group,
            is_private=is_private, pinned_host=pinned_host)
        _store_secrets(cluster, section.secrets)
        audit.record("cluster.create", cluster, owner, platform=section.platform, private=is_private,
                     group=group.name if group else None)
    return cluster


def create_cluster(name: str, platform: str, settings: dict[str, Any], *, owner: User, is_private: bool, host: str,
                   group: Group | None = None) -> Cluster:
    """Set up a cluster. ``host`` is this machine, for platforms that are pinned to it.

    Raises ConfigInvalid (fields ``platform`` and ``settings...``) and Refused (``name``).
    """
    section = read_settings(platform, settings)
    pinned = load_platform(section.platform).pinned_to_host
    try:
        return store_cluster(section, name, owner=owner, is_private=is_private, group=group,
                             pinned_host=host if pinned else "")
    except IntegrityError:
        raise Refused(Reason("name_taken", what="cluster", name=name), "name") from None


def read_settings(platform: str, settings: dict[str, Any], secrets: Mapping[str, str] | None = None) -> PlatformSection:
    """Check a cluster's settings (camelCase, or any spelling config files may use). Raises ConfigInvalid."""
    if any(fold(key) == "platform" for key in settings):
        raise ConfigInvalid([ConfigError("settings.platform", "belongs beside the settings, not in them.")])
    try:
        section = parse_stored_section({"platform": platform, **settings}, dict(secrets or {}))
    except ConfigInvalid as invalid:
        raise ConfigInvalid([ConfigError(_field(error.field), error.message) for error in invalid.errors]) from None
    own = type(section.settings).model_fields
    options = [field.alias or name for name, field in type(section.options).model_fields.items()
               if name in section.options.model_fields_set and name not in own]
    if options:
        message = "is an option of an experiment's trials, not of the cluster. Give it in the experiment's config file."
        raise ConfigInvalid([ConfigError(f"settings.{name}", message) for name in options])
    return section


def _field(path: str) -> str:
    section = "trainingService"
    if path == f"{section}.platform":
        return "platform"
    return f"settings{path.removeprefix(section)}" if path.startswith(section) else path


def change_settings(cluster: Cluster, settings: dict[str, Any]) -> None:
    """Replace a cluster's settings. Raises ConfigInvalid.

    Stored secrets stay where the new settings leave them out, and none is ever sent elsewhere: it must be given again
    where a field has changed that may decide where it is sent. A machine in a list is recognised by these fields at
    any position; a secret of one that is gone goes with it. A secret given as null is removed.
    """
    section = read_changed_settings(cluster, settings)
    old = settings_secrets(cluster, load_platform(cluster.platform))
    with transaction.atomic():
        bump(cluster, settings=without_secrets(section.settings))
        cluster.metadata.filter(key__in=old).delete()
        _store_secrets(cluster, section.secrets)
        new = without_secrets(section.settings)
        differ = sorted(key for key in {*cluster.settings, *new} if cluster.settings.get(key) != new.get(key))
        secret = sorted(path for path in {*old, *section.secrets} if old.get(path) != section.secrets.get(path))
        audit.record("cluster.settings", cluster, changed=differ, secrets_changed=secret)


def read_changed_settings(cluster: Cluster, settings: dict[str, Any]) -> PlatformSection:
    """The new settings with the secrets that stay, changing nothing. Raises ConfigInvalid."""
    platform = load_platform(cluster.platform)
    old = settings_secrets(cluster, platform)
    found = keep_secrets(old, platform.settings_model, cluster.settings, settings)
    section = read_settings(cluster.platform, settings, found.kept)
    wrong = [ConfigError(f"settings.{path}", moved_sentence(changes)) for path, changes in found.moved.items()]
    own = {row.key for row in cluster.metadata.all() if row.is_secret} & platform.secret_metadata_keys
    outside = [path for path in found.kept if "[" not in path]
    if not own and not outside:
        changed = {}
    elif (before := _settings_now(cluster, old)) is None:
        changed = dict.fromkeys((*outside, *own), _OF_ANOTHER_VERSION)
    else:
        changed = moved_secrets((*outside, *own), before, section.settings)
    for path, changes in changed.items():
        if path in own:
            field = "settings" if changes is _OF_ANOTHER_VERSION else f"settings.{next(iter(changes))}"
            wrong.append(ConfigError(field, (
                f"does not change while {path} of the metadata is set, which was given for the settings as they are. "
                "Remove it, change the settings, and set it again.")))
        else:
            wrong.append(ConfigError(f"settings.{path}", moved_sentence(changes)))
    if wrong:
        raise ConfigInvalid(wrong)
    return section


def _settings_now(cluster: Cluster, secrets: Mapping[str, str]) -> ClusterSettings | None:
    """None where another version of the platform wrote them: nobody knows where the secrets went."""
    try:
        return read_settings(cluster.platform, cluster.settings, secrets).settings
    except ConfigInvalid:
        return None


def settings_secrets(cluster: Cluster, platform: type[TrainingService]) -> dict[str, str]:
    """The secrets of a cluster's settings, by their paths. Raises CannotOpen."""
    return {row.key: unseal(row.sealed_value) for row in cluster.metadata.all()
            if row.sealed_value is not None and row.key not in platform.metadata_keys}


def _store_secrets(cluster: Cluster, secrets: Mapping[str, str]) -> None:
    ClusterMetadata.objects.bulk_create(
        ClusterMetadata(cluster=cluster, key=path, sealed_value=seal(secret)) for path, secret in secrets.items())


def change_cluster(cluster: Cluster, fields: Mapping[str, Any]) -> None:
    """Rename, enable or disable it, give it to a group (``name``, ``enabled``, ``group``). Raises Refused."""
    try:
        with transaction.atomic():
            bump(cluster, **fields)
            audit.record("cluster.change", cluster, changed={
                name: str(value) if isinstance(value, Model) else value for name, value in fields.items()})
    except IntegrityError:
        raise Refused(Reason("name_taken", what="cluster", name=fields["name"]), "name") from None


def is_made_by_a_launch(name: str) -> bool:
    """Whether the cluster of a launch could have this name, such as ``alice-remote``: a person's name is in it."""
    stem = re.sub(r"-[0-9]+$", "", name)
    return any(stem.endswith(f"-{platform}") for platform in platform_names())


def bump(cluster: Cluster, **fields: Any) -> None:
    """Write these fields, and the next revision of the settings, by which the worker notices."""
    Cluster.objects.filter(pk=cluster.pk).update(**fields, settings_revision=F("settings_revision") + 1)


def delete_cluster(cluster: Cluster) -> None:
    """Remove it. Raises ClusterBusy while experiments, running or not, belong to it.

    Those that have it as one of several clusters count too, also when it was taken out of their list.
    """
    with transaction.atomic():
        bump(cluster)  # takes the row, so that no experiment is added meanwhile
        experiments = Experiment.objects.filter(of_cluster(cluster))
        if running := experiments.unfinished().filter(deleted_at=None):
            raise ClusterBusy(cluster, f"Experiments use the cluster {cluster.name}: {named(running)}. Stop and delete "
                              "them first.")
        if experiments.exists():
            visible = experiments.filter(deleted_at=None)
            raise ClusterBusy(cluster, f"Ended experiments belong to the cluster {cluster.name}: {named(visible)}. "
                              "Delete them first, or disable the cluster." if visible else
                              f"The server is still removing the data of deleted experiments from {cluster.name}. Make "
                              "sure that a worker is running, and try again in a minute.")
        audit.record("cluster.delete", cluster)
        cluster.delete()


def named(experiments: Iterable[Experiment]) -> str:
    """Experiments by name and id, for a sentence."""
    all_of_them = list(experiments)
    more = f" and {len(all_of_them) - _NAMES} more" if len(all_of_them) > _NAMES else ""
    return ", ".join(str(experiment) for experiment in all_of_them[:_NAMES]) + more
