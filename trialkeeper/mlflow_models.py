"""MLflow's model registry for one trial: scripts register what they have trained where their tracking server is one.

Nothing of it is a metric, and it ends with the trial. A version names the folder that the script has logged.
"""

import time
from typing import Any, Callable, Dict, List

from trialkeeper.mlflow_words import Document, bound, key_of, missing, refused_twice

#: Registered models of one trial, and versions of one.
MOST_MODELS = 1000


class ModelRegistry:
    """For one thread. ``calls`` has its calls by their names. Each raises CallRefused, KeyError, TypeError, ValueError.
    """

    def __init__(self) -> None:
        self._models: Dict[str, Document] = {}
        self._versions: Dict[str, List[Document]] = {}
        self._aliases: Dict[str, Dict[str, str]] = {}
        self.calls: Dict[str, Callable[[Document], Document]] = {
            "registered-models/create": self._create, "registered-models/get": self._get,
            "registered-models/search": self._search, "registered-models/update": self._update,
            "registered-models/set-tag": self._tag_model, "registered-models/alias": self._alias,
            "registered-models/get-latest-versions": self._latest, "model-versions/create": self._create_version,
            "model-versions/get": self._get_version, "model-versions/search": self._search_versions,
            "model-versions/update": self._update_version, "model-versions/set-tag": self._tag_version,
            "model-versions/transition-stage": self._move, "model-versions/get-download-uri": self._place}

    def _create(self, given: Document) -> Document:
        name = key_of({"key": given["name"]})
        if name in self._models:
            raise refused_twice("registered model", name)
        bound(self._models, MOST_MODELS)
        now = int(time.time() * 1000)
        self._models[name] = {"name": name, "creation_timestamp": now, "last_updated_timestamp": now,
                              "description": str(given.get("description") or ""), "tags": given.get("tags") or []}
        self._versions[name], self._aliases[name] = [], {}
        return self._get(given)

    def _named(self, given: Document) -> str:
        name = str(given["name"])
        if name not in self._models:
            raise missing("registered model", name)
        return name

    def _document(self, name: str) -> Document:
        return {**self._models[name], "latest_versions": self._versions[name][-1:],
                "aliases": [{"alias": alias, "version": version} for alias, version in self._aliases[name].items()]}

    def _get(self, given: Document) -> Document:
        return {"registered_model": self._document(self._named(given))}

    def _search(self, _: Document) -> Document:
        return {"registered_models": [self._document(name) for name in self._models]}

    def _update(self, given: Document) -> Document:
        self._models[self._named(given)]["description"] = str(given.get("description") or "")
        return self._get(given)

    def _tag_model(self, given: Document) -> Document:
        _set_tag(self._models[self._named(given)], given)
        return {}

    def _latest(self, given: Document) -> Document:
        versions = self._versions[self._named(given)]
        stages = given.get("stages") or sorted({version["current_stage"] for version in versions})
        of_stages = [[version for version in versions if version["current_stage"] == stage] for stage in stages]
        return {"model_versions": [found[-1] for found in of_stages if found]}

    def _alias(self, given: Document) -> Document:
        """With a version it is set, without one it is asked for."""
        aliases, alias = self._aliases[self._named(given)], key_of({"key": given["alias"]})
        if given.get("version") is not None:
            bound(aliases, MOST_MODELS)
            aliases[alias] = self._version(given)["version"]
            return {}
        if alias not in aliases:
            raise missing("alias", alias)
        return {"model_version": self._version({**given, "version": aliases[alias]})}

    def _create_version(self, given: Document) -> Document:
        versions = self._versions[self._named(given)]
        bound(versions, MOST_MODELS)
        now = int(time.time() * 1000)
        versions.append({
            "name": str(given["name"]), "version": str(len(versions) + 1), "creation_timestamp": now,
            "last_updated_timestamp": now, "current_stage": "None", "source": str(given["source"]),
            "run_id": str(given.get("run_id") or ""), "description": str(given.get("description") or ""),
            "tags": given.get("tags") or [], "status": "READY", "model_id": str(given.get("model_id") or "")})
        return {"model_version": versions[-1]}

    def _version(self, given: Document) -> Document:
        for version in self._versions[self._named(given)]:
            if version["version"] == str(given["version"]):
                return version
        raise missing("version", "%s of the registered model %s" % (given["version"], given["name"]))

    def _get_version(self, given: Document) -> Document:
        return {"model_version": self._version(given)}

    def _search_versions(self, given: Document) -> Document:
        """All of them, the newest first; of a filter the name of the model and the run count."""
        asked = str(given.get("filter") or "")
        found = [version for versions in self._versions.values() for version in reversed(versions)]
        for field in ("name", "run_id"):
            if field in asked:
                found = [version for version in found if "'%s'" % version[field] in asked]
        return {"model_versions": found}

    def _update_version(self, given: Document) -> Document:
        self._version(given)["description"] = str(given.get("description") or "")
        return self._get_version(given)

    def _tag_version(self, given: Document) -> Document:
        _set_tag(self._version(given), given)
        return {}

    def _move(self, given: Document) -> Document:
        self._version(given)["current_stage"] = str(given["stage"])
        return self._get_version(given)

    def _place(self, given: Document) -> Document:
        return {"artifact_uri": self._version(given)["source"]}


def _set_tag(item: Document, given: Document) -> None:
    key = key_of(given)
    tags: List[Any] = [tag for tag in item["tags"] if tag.get("key") != key]
    bound(tags, MOST_MODELS)
    item["tags"] = [*tags, {"key": key, "value": str(given["value"])}]
