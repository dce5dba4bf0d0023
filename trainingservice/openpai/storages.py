"""The storages that a job document of a user's own asks for, as the server understands them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trainingservice.errors import PermanentError
from trainingservice.words.shown_value import shown

_PLUGINS, _STORAGE_PLUGIN = "com.microsoft.pai.runtimeplugin", "teamwise_storage"


def own_storages(document: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """The entries of ``extras.storages`` with a name; the server passes over others.

    Where there is no such list, those that the plugin ``teamwise_storage`` names, which were given so before it.
    """
    named = (entry for entry in _listed(document) or [] if isinstance(entry, dict))
    return [dict(entry) for entry in named if entry.get("name") and isinstance(entry["name"], str)]


def default_storage(names: Sequence[str], username: str) -> str:
    """The account's one default storage. Raises PermanentError where it has none, or several."""
    if len(names) == 1:
        return names[0]
    has = "no default storage" if not names else f"several default storages ({', '.join(names)})"
    raise PermanentError(f"The account {username} has {has} on the cluster: give storageConfigName, the name of the "
                         "storage that is mounted at localStorageMountPoint.")


def wants_default_storages(document: Mapping[str, Any] | None) -> bool:
    """Whether the server would give the job the default storages of its account, as it does for an empty list."""
    return _listed(document) == []


def _listed(document: Mapping[str, Any] | None) -> list[Any] | None:
    """What the document gives as the list of its storages; None where it gives none."""
    extras = (document or {}).get("extras")
    extras = extras if isinstance(extras, dict) else {}
    storages, plugins = extras.get("storages"), extras.get(_PLUGINS)
    if storages or isinstance(storages, list):
        return storages if isinstance(storages, list) else None
    found: list[Any] | None = None
    for plugin in plugins if isinstance(plugins, list) else []:
        if isinstance(plugin, dict) and plugin.get("plugin") == _STORAGE_PLUGIN:
            parameters = plugin.get("parameters")
            names = parameters.get("storageConfigNames") if isinstance(parameters, dict) else None
            found = [{"name": name} for name in names] if isinstance(names, list) else []
    return found


def storage_problems(document: Mapping[str, Any]) -> Iterator[str]:
    """Of a document that fits the schema: what the server cannot read, or knows no storage for."""
    storages = (document.get("extras") or {}).get("storages")
    if isinstance(storages, dict) or storages and not isinstance(storages, list | str):
        yield f"extras.storages must be a list, not {shown(storages)}"
        return
    for number, entry in enumerate(storages or []):
        if entry is None:
            yield f"extras.storages[{number}] must be a mapping, not null"
        for key in ("name", "mountPath") if isinstance(entry, dict) else ():
            if not isinstance(entry.get(key), str) and (entry.get(key) or isinstance(entry.get(key), list | dict)):
                yield f"extras.storages[{number}].{key} must be text, not {shown(entry[key])}"
