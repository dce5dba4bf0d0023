"""The storages that a job document of a user's own asks for, as the server understands them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_PLUGINS = "com.microsoft.pai.runtimeplugin"


def own_storages(document: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """The entries of ``extras.storages`` with a name; the server passes over others.

    Where there is no such list, those that the plugin ``teamwise_storage`` names, which were given so before it.
    """
    extras = (document or {}).get("extras")
    extras = extras if isinstance(extras, dict) else {}
    listed = extras.get("storages") or _of_the_plugin(extras)
    named = (entry for entry in listed if isinstance(entry, dict)) if isinstance(listed, list) else ()
    return [dict(entry) for entry in named if entry.get("name") and isinstance(entry["name"], str)]


def _of_the_plugin(extras: Mapping[str, Any]) -> list[dict[str, Any]]:
    plugins = extras.get(_PLUGINS)
    if isinstance(extras.get("storages"), list) or not isinstance(plugins, list):
        return []
    found: list[dict[str, Any]] = []
    for plugin in plugins:
        if isinstance(plugin, dict) and plugin.get("plugin") == "teamwise_storage":
            parameters = plugin.get("parameters")
            names = parameters.get("storageConfigNames") if isinstance(parameters, dict) else None
            found = [{"name": name} for name in names] if isinstance(names, list) else []
    return found


def storage_problems(document: Mapping[str, Any]) -> Iterator[str]:
    """Of a document that fits the schema: what the server cannot read, or knows no storage for."""
    storages = (document.get("extras") or {}).get("storages")
    if isinstance(storages, dict) or storages and not isinstance(storages, list | str):
        yield f"extras.storages must be array, not {storages!r:.80}"
        return
    for number, entry in enumerate(storages or []):
        if entry is None:
            yield f"extras.storages[{number}] must be object, not None"
        for key in ("name", "mountPath") if isinstance(entry, dict) else ():
            if not isinstance(entry.get(key), str) and (entry.get(key) or isinstance(entry.get(key), list | dict)):
                yield f"extras.storages[{number}].{key} must be string, not {entry[key]!r:.80}"
