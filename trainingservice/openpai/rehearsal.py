"""Tries what a job will need of the cluster, with reading questions only, and says what is wrong in sentences."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from trainingservice.base import RehearsalFinding
from trainingservice.errors import PermanentError, TrainingServiceError
from trainingservice.openpai.api import OpenPaiApi, token_expiry
from trainingservice.openpai.config import OpenPaiClusterSettings, OpenPaiTrialOptions
from trainingservice.openpai.storages import default_storage, own_storages
from trainingservice.openpai.token_doubt import TokenDoubted
from trainingservice.openpai.without_storage import NEEDS_STORAGE
from trainingservice.rest.rest_client import QUICK_TIMEOUT, TIMEOUT, LogInRefused
from trainingservice.shared_folder.folder import SharedFolder
from trainingservice.shared_folder.storage_rehearsal import rehearse_storage
from trainingservice.words.shown_value import shown

#: A token that runs out within so many seconds is worth a warning.
EXPIRES_SOON = 24 * 3600.0
#: A token that is refused is tried again after so many seconds.
ASK_AGAIN_AFTER = (0.5, 1.0)


def rehearse_cluster(api: OpenPaiApi, settings: OpenPaiClusterSettings, storage: SharedFolder | None,
                     options: OpenPaiTrialOptions | None, clock: Callable[[], float], *,
                     quick: bool) -> list[RehearsalFinding]:
    """All findings, good ones too. ``options``: of the experiment that is to be launched. ``storage``: None where there
    is none.
    """
    findings = []
    try:
        for finding in _cluster(api, settings, options, clock, QUICK_TIMEOUT if quick else TIMEOUT):
            findings.append(finding)  # noqa: PERF402  those before an error count
    except TrainingServiceError as error:
        findings.append(RehearsalFinding("connection", False, str(error), temporary=True))
    return [*findings, *(rehearse_storage(storage) if storage is not None else [_without_storage(options)])]


def _without_storage(options: OpenPaiTrialOptions | None) -> RehearsalFinding:
    what = "openpaiConfig" if options is not None and options.openpai_config is not None else \
        "channel: storage" if options is not None and options.channel == "storage" else ""
    if what:
        return RehearsalFinding("folder", False, f"{what} needs a storage: {NEEDS_STORAGE}.")
    return RehearsalFinding("folder", True, "Jobs share no storage with this server: they fetch their code from it "
                                            "over the network, and report to it.")


def _cluster(api: OpenPaiApi, settings: OpenPaiClusterSettings, options: OpenPaiTrialOptions | None,
             clock: Callable[[], float], timeout: tuple[float, float]) -> Iterator[RehearsalFinding]:
    info = api.info(timeout)
    yield RehearsalFinding("connection", True, f"{api.where} answers (version {info.get('version') or 'unknown'}).")
    try:
        owner = _token_owner(api, timeout)
    except TrainingServiceError as error:
        yield RehearsalFinding("rights", False, str(error), temporary=not isinstance(error, LogInRefused))
        return
    if owner != settings.username:
        yield RehearsalFinding("rights", False, f"The token belongs to user {owner}, not to {settings.username}; "
                                                "correct username or token.")
        return
    yield RehearsalFinding("rights", True, f"The cluster accepts the token of user {owner}.")
    yield from _expiry(settings, clock())
    queues = api.virtual_clusters(timeout)
    wanted = _queue(options)
    if queues and wanted not in queues:
        yield RehearsalFinding("queue", False, f"User {owner} may not use the virtual cluster {shown(wanted)}. Virtual "
                                               f"clusters that the user may use: {', '.join(queues)}. Correct "
                                               "virtualCluster.")
    else:
        yield RehearsalFinding("queue", True, f"Jobs go to the virtual cluster {wanted}.")
    if settings.container_storage_mount_point is not None:
        try:
            name = settings.storage_config_name or default_storage(api.default_storages(), settings.username)
        except PermanentError as error:
            yield RehearsalFinding("storage", False, str(error))
            return
        yield from _storage(api.storage(name, timeout), settings, name)
    for name in _further_storages(options, settings):
        is_there = api.storage(name, timeout) is not None
        yield RehearsalFinding("storage", is_there, f"Jobs mount the storage {shown(name)}." if is_there else
                               f"The cluster has no storage {shown(name)} that user {settings.username} may use; "
                               "correct "
                               "storages, or extras.storages of openpaiConfig.")


def _token_owner(api: OpenPaiApi, timeout: tuple[float, float]) -> str:
    """Whose the token is. It is to blame only where it is refused several times."""
    for pause in ASK_AGAIN_AFTER:
        try:
            return api.token_owner(timeout)
        except TokenDoubted:
            time.sleep(pause)
    try:
        return api.token_owner(timeout)
    except TokenDoubted as error:
        raise LogInRefused(api.refused_token(error.said)) from error


def _queue(options: OpenPaiTrialOptions | None) -> str:
    """Where a job goes: virtualCluster wins over what a document of the user's own says."""
    own = (options.openpai_config if options is not None else None) or {}
    return str((options.virtual_cluster if options is not None else None)
               or (own.get("defaults") or {}).get("virtualCluster") or "default")


def _further_storages(options: OpenPaiTrialOptions | None, settings: OpenPaiClusterSettings) -> list[str]:
    if options is None:
        return []
    names = dict.fromkeys([*options.storages, *(str(entry["name"]) for entry in own_storages(options.openpai_config))])
    return [name for name in names if name != settings.storage_config_name]


def _expiry(settings: OpenPaiClusterSettings, now: float) -> Iterator[RehearsalFinding]:
    expiry = token_expiry(settings.token.get_secret_value()) if settings.token is not None else None
    if expiry is not None and expiry - now < EXPIRES_SOON:
        yield RehearsalFinding("token", False, f"The token runs out in {max(0.0, expiry - now) / 3600:.1f} hours. "
                                               "Trials wait from then on. An application token does not expire.",
                               temporary=True)


def _storage(found: dict[str, Any] | None, settings: OpenPaiClusterSettings, name: str) -> Iterator[RehearsalFinding]:
    if found is None:
        yield RehearsalFinding("storage", False, f"The cluster has no storage {shown(name)} that user "
                                                 f"{settings.username} "
                                                 "may use; correct storageConfigName.")
        return
    if found.get("readOnly"):
        yield RehearsalFinding("storage", False, f"The storage {shown(name)} can only be read, but trials must "
                                                 "write to it. "
                                                 "Choose another storage.")
        return
    data = found.get("data")
    where = ""
    if found.get("type") == "nfs" and isinstance(data, dict):
        where = f" It is the NFS export {data.get('server')}:{data.get('path')}"
        where += "" if found.get("share", True) else f", of which jobs see the folder {settings.username}"
        where += f"; {settings.local_storage_mount_point} must be the same on this server."
    yield RehearsalFinding("storage", True, f"The storage {shown(name)} may be used.{where}")
