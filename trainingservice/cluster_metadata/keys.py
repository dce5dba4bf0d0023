"""Cluster metadata in the JSON that NNI 1.x sent: what a cluster's settings say, and defaults of its experiments.

Keys and the names in their values come from the tables by which NNI's v1 files are read (``v1_fields`` in a platform's
``config.py``): ``machine_list`` holds what ``machineList`` held there, ``pai_config`` what ``paiConfig`` held. A field
that NNI does not have is named as in the settings.
"""

from __future__ import annotations

import difflib
import functools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, ValidationError, field_validator

from trainingservice.cluster_metadata.kept_secrets import (
    keep_secrets,
    moved_secrets,
    moved_sentence,
    put_secret,
    secrets_of,
    steps_of,
)
from trainingservice.cluster_settings import ClusterSettings, SettingsModel, TrialOptions, without_secrets
from trainingservice.errors import InvalidMetadata
from trainingservice.limited_json import JsonRefused, read_json
from trainingservice.refused_values import sentence

TRIAL_CONFIG, NNI_MANAGER_IP = "trial_config", "nni_manager_ip"
#: Metadata key -> the section of NNI's v1 files that it holds. Keys of other sections are made in the same way.
SECTIONS = {
    TRIAL_CONFIG: "trial", "local_config": "localConfig", "machine_list": "machineList",
    "remote_config": "remoteConfig", "pai_config": "paiConfig", "pai_yarn_config": "paiYarnConfig",
    "kubeflow_config": "kubeflowConfig", "frameworkcontroller_config": "frameworkcontrollerConfig",
    "dlts_config": "dltsConfig", "aml_config": "amlConfig"}
#: Of all platforms: v1 path -> path in the experiment file.
_OF_EXPERIMENTS = {"trial.command": "/trialCommand", "trial.codeDir": "/trialCodeDirectory",
                   "trial.gpuNum": "/trialGpuNumber", f"{NNI_MANAGER_IP}.nniManagerIp": "/nniManagerIp"}
_DROPPED_OF_EXPERIMENTS = ("trial.nasMode",)

_Place = tuple[str | int, ...]


class ExperimentDefaults(SettingsModel):
    """Fields of an experiment file that metadata may give to experiments which leave them out."""

    trial_command: str | None = Field(default=None, min_length=1)
    trial_code_directory: Path | None = None
    trial_gpu_number: int | None = Field(default=None, ge=0, le=99_999)
    nni_manager_ip: str | None = Field(default=None, min_length=1)

    @field_validator("trial_code_directory")
    @classmethod
    def _is_absolute(cls, value: Path | None) -> Path | None:
        if value is not None and not value.is_absolute():
            raise ValueError("expected an absolute path on the server")
        return value


@dataclass(frozen=True)
class MetadataParts:
    """One value, taken apart. The documents have the names of experiment files (version 2)."""

    #: Of the cluster's settings: what is given of them.
    settings: dict[str, Any] = field(default_factory=dict)
    #: For experiments that leave them out: of the platform's trial options, and of the top of an experiment file.
    options: dict[str, Any] = field(default_factory=dict)
    experiment: dict[str, Any] = field(default_factory=dict)
    #: What is no setting, in the words in which it was given: an object of JSON.
    rest: dict[str, Any] = field(default_factory=dict)
    #: Place in the settings, the options or the experiment file -> the place in the value.
    _spelt: dict[_Place, _Place] = field(default_factory=dict, repr=False)


class MetadataKey:
    """One key of one platform."""

    def __init__(self, name: str, section: str, owned: Sequence[str], models: _Models) -> None:
        self.name, self.meaning = name, _meaning(name, section, owned)
        #: Top-level fields of the settings, as files spell them, that are this key's: setting it replaces them.
        self.owned = tuple(owned)
        self._section, self._models = section, models
        #: v1 path -> (part, path there).
        self._rows = {v1: row for v1, row in models.rows.items() if _starts(v1, section)}
        self._dropped = {v1 for v1 in models.dropped if _starts(v1, section)}
        self._groups = {section, *(part for v1 in (*self._rows, *self._dropped) for part in _beginnings(v1))}
        self._is_list = any(group.startswith(f"{section}[]") for group in self._groups)

    # --- reading ---------------------------------------------------------------------------

    def read(self, value: str) -> MetadataParts:
        """The value's parts. Raises InvalidMetadata where it is not of this form, or where what it gives to
        experiments is not right; the settings in it are checked by who uses them.
        """
        try:
            document = read_json(value) if value.strip() else ([] if self._is_list else {})
        except JsonRefused as refused:
            raise InvalidMetadata(self._text(("", *refused.path)), refused.message) from None
        kind = list if self._is_list else dict
        if not isinstance(document, kind):
            raise InvalidMetadata(self.name, f"must be {'a list' if self._is_list else 'an object'} of JSON")
        parts = MetadataParts()
        self._walk({self._section: document}, "", (), parts)
        if self._is_list:  # an empty list, too, and entries that say nothing
            entries = parts.settings.setdefault(self.owned[0], [])
            entries += [{} for _ in range(len(document) - len(entries))]
        for name in self._models.options.secret_fields():
            alias = self._models.options.model_fields[name].alias or name
            if alias in parts.options:
                raise InvalidMetadata(self.place_of((alias,), parts),
                                      "is a secret; give it in the experiment's own file")
        self._check(self._models.options, parts.options, parts)
        self._check(ExperimentDefaults, parts.experiment, parts)
        return parts

    def _walk(self, group: Mapping[str, Any], pattern: str, raw: _Place, parts: MetadataParts) -> None:
        for name, item in group.items():
            here, place = f"{pattern}.{name}" if pattern else name, (*raw, name)
            if here in self._rows and not (isinstance(item, dict) and pattern == self._section
                                           and self._is_own_name(pattern, name)):
                self._take(*self._rows[here], self._models.values.get(here, lambda given: given)(item), place, parts)
            elif here in self._dropped:
                _put(parts.rest, place[1:], item)
            elif f"{here}[]" in self._groups and isinstance(item, list):
                for index, entry in enumerate(item):
                    if not isinstance(entry, dict):
                        raise InvalidMetadata(self._text((*place, index)), "must be an object of JSON")
                    self._walk(entry, f"{here}[]", (*place, index), parts)
            elif here in self._groups and isinstance(item, dict):
                self._walk(item, here, place, parts)
            elif self._is_own_name(pattern, name):
                part, path = self._own_place(pattern, name)
                self._take(part, path, item, place, parts)
            else:
                known = [path[len(pattern) + 1:].split(".")[0].removesuffix("[]")
                         for path in (*self._rows, *self._dropped) if path.startswith(f"{pattern}.")]
                near = difflib.get_close_matches(str(name), [*known, *self.owned], n=1)
                raise InvalidMetadata(self._text(place), "is not a known field here"
                                      + (f"; did you mean {near[0]}?" if near else ""))

    def _is_own_name(self, pattern: str, name: str) -> bool:
        return self._own_place(pattern, name)[0] != ""

    def _own_place(self, pattern: str, name: str) -> tuple[str, str]:
        """Part and path of a field under the name that it has in the settings or options; ("", "") for none."""
        if pattern == self._section:
            for part, model in (("settings", self._models.settings), ("options", self._models.options)):
                known = _names(model)
                if name in known and (part == "options" and self.name == TRIAL_CONFIG or known[name] in self.owned):
                    return part, known[name]
        elif pattern:  # a group or an entry of a list that is the same group there
            ours = pattern.rpartition(".")[2]
            for v1, (part, path) in self._rows.items():
                parent = path.rpartition(".")[0]
                if _starts(v1, pattern) and parent.rpartition(".")[2] == ours:
                    return part, f"{parent}.{name}"
        return "", ""

    def _take(self, part: str, path: str, item: Any, raw: _Place, parts: MetadataParts) -> None:
        indices = iter([step for step in raw if isinstance(step, int)])
        place: list[str | int] = []
        for step in path.split("."):
            place.append(step.removesuffix("[]"))
            if step.endswith("[]"):
                place.append(next(indices))
        if (other := parts._spelt.get(tuple(place))) is not None:
            raise InvalidMetadata(self._text(raw), f"is {other[-1]} under another name; give one of them")
        parts._spelt[tuple(place)] = raw
        _put(getattr(parts, part), tuple(place), item)
        if part != "settings":
            _put(parts.rest, raw[1:], item)

    def _check(self, model: type[BaseModel], document: dict[str, Any], parts: MetadataParts) -> None:
        try:
            model.model_validate(document, context={"reads_files": False, "must_exist": False})
        except ValidationError as invalid:
            for error in invalid.errors():
                if error["type"] != "missing":  # the experiment has it
                    raise InvalidMetadata(self.place_of(error["loc"], parts), sentence(error)) from None

    def place_of(self, path: _Place, parts: MetadataParts) -> str:
        """A path in the settings, the options or the experiment file, as the value spells it: machine_list[0].ip."""
        for length in range(len(path), 0, -1):
            if path[:length] in parts._spelt:
                return self._text((*parts._spelt[path[:length]], *path[length:]))
        wanted = _pattern(path)
        for v1, (_, there) in self._rows.items():  # of a field that is missing
            if there == wanted:
                indices = iter([step for step in path if isinstance(step, int)])
                return self._text(tuple(part for step in v1.split(".") for part in (
                    (step.removesuffix("[]"), next(indices)) if step.endswith("[]") else (step,))))
        return self._text((self._section, *(path[1:] if self._is_list else path)))

    def _text(self, place: _Place) -> str:
        text = self.name
        for step in place[1:]:
            text += f"[{step}]" if isinstance(step, int) else f".{step}"
        return text

    # --- settings and back -----------------------------------------------------------------

    def changed(self, settings: Mapping[str, Any], parts: MetadataParts | None) -> dict[str, Any]:
        """A document of settings in which this key's fields are replaced by the value's; None: without them.

        What ``trial_config`` does not name stays: trials are its subject. A secret takes the place of the key's others
        (a password that of a token), which are null then.
        """
        kept = {name: value for name, value in settings.items()
                if name not in self.owned or parts is not None and self.name == TRIAL_CONFIG}
        if parts is None:
            return kept
        model = self._models.settings
        secrets = {model.model_fields[name].alias or name for name in model.secret_fields()} & set(self.owned)
        others = dict.fromkeys(secrets - parts.settings.keys()) if secrets & parts.settings.keys() else {}
        return {**kept, **others, **parts.settings}

    def shown(self, settings: Mapping[str, Any], rest: Mapping[str, Any]) -> str:
        """The value that says what these settings (a document without secrets) say, "" where they say nothing of it.

        ``rest`` is what ``read`` gave as such.
        """
        owned = {name: settings[name] for name in self.owned if name in settings}
        if self._is_list:
            entries = owned.get(self.owned[0]) or []
            return json.dumps([self._entry(entry) for entry in entries], ensure_ascii=False) if entries else ""
        document: dict[str, Any] = {}
        for name, value in owned.items():
            leaves = dict(_leaves(value, (name,)))
            spelt = {path: v1 for path in leaves if (v1 := self._name_of(path, owned[name])) is not None}
            if len(spelt) == len(leaves):
                for path, leaf in leaves.items():
                    _put(document, tuple(spelt[path].split(".")[1:]), leaf)
            else:
                document[name] = value
        whole = _merged(document, rest)
        return json.dumps(whole, ensure_ascii=False) if whole else ""

    def _entry(self, entry: Mapping[str, Any]) -> dict[str, Any]:
        names = {there.rpartition(".")[2]: v1.rpartition(".")[2] for v1, (_, there) in self._rows.items()}
        return {names.get(name, name): value for name, value in entry.items()}

    def _name_of(self, path: tuple[str, ...], field_value: Any) -> str | None:
        """NNI's path of a setting; of several, that in a group named like a text beside it (storage: pvc, pvc.path)."""
        found = [v1 for v1, (part, there) in self._rows.items() if part == "settings" and there == ".".join(path)]
        beside = field_value.values() if isinstance(field_value, dict) else ()
        return next((v1 for v1 in found if v1.split(".")[1] in beside), found[0] if found else None)

    def applied(self, settings: ClusterSettings, value: str) -> tuple[ClusterSettings, dict[str, Any]]:
        """Settings in which the value holds, and what of it is no setting. Secrets that it leaves out stay as they are.

        Raises InvalidMetadata, also where such a secret was given for another address.
        """
        parts = self.read(value)
        document = self.changed(without_secrets(settings), parts)
        secrets = dict(secrets_of(settings))
        found = keep_secrets(secrets, type(settings), without_secrets(settings), document)
        for path, secret in found.kept.items():
            put_secret(document, path, secret)
        try:
            after = type(settings).model_validate(document)
        except ValidationError as invalid:
            error = invalid.errors()[0]
            raise InvalidMetadata(self.place_of(error["loc"], parts), sentence(error)) from None
        outside = [path for path in found.kept if "[" not in path]
        for path, changes in (found.moved | moved_secrets(outside, settings, after)).items():
            raise InvalidMetadata(self.place_of(steps_of(path), parts), moved_sentence(changes))
        return after, parts.rest


@dataclass(frozen=True)
class _Models:
    """What the models of a platform say of NNI's v1 form."""

    settings: type[ClusterSettings]
    options: type[TrialOptions]

    @functools.cached_property
    def rows(self) -> dict[str, tuple[str, str]]:
        found: dict[str, tuple[str, str]] = {}
        for part, table in (("experiment", _OF_EXPERIMENTS), ("settings", self.settings.v1_fields),
                            ("options", self.options.v1_fields)):
            for v1, path in table.items():
                found[v1] = ("experiment", path[1:]) if path.startswith("/") else (part, path)
        return found

    @functools.cached_property
    def dropped(self) -> tuple[str, ...]:
        return (*_DROPPED_OF_EXPERIMENTS, *self.settings.v1_dropped, *self.options.v1_dropped)

    @functools.cached_property
    def values(self) -> dict[str, Any]:
        return {**self.settings.v1_values, **self.options.v1_values}


@functools.lru_cache(maxsize=256)
def keys_of(platform: str, settings: type[ClusterSettings], options: type[TrialOptions]) -> dict[str, MetadataKey]:
    """The keys of a platform that say what its settings say, or what holds for its experiments."""
    models = _Models(settings, options)
    rows = [(v1, part, there) for v1, (part, there) in models.rows.items() if "." in v1]
    in_settings = [(_section(v1), there.split(".")[0].removesuffix("[]")) for v1, part, there in rows
                   if part == "settings"]
    lists = {_section(v1) for v1, _, _ in rows if v1.startswith(f"{_section(v1)}[]")}
    sections = dict.fromkeys(_section(v1) for v1, part, _ in rows if part == "settings" or _section(v1) not in lists)
    main = next((section for section, _ in in_settings if section.endswith("Config")), f"{platform}Config")
    owned: dict[str, list[str]] = {}
    for name in _aliases(settings):
        of_field = [section for section, there in in_settings if there == name]
        owned.setdefault(of_field[0] if of_field and main not in of_field else main, []).append(name)
    found = {}
    for section in dict.fromkeys((*sections, *owned)):
        key = next((key for key, known in SECTIONS.items() if known == section), _snake(section))
        found[key] = MetadataKey(key, section, owned.get(section, ()), models)
    return dict(sorted(found.items()))


def _section(v1: str) -> str:
    return v1.split(".")[0].removesuffix("[]")


def _meaning(name: str, section: str, owned: Sequence[str]) -> str:
    if name == NNI_MANAGER_IP:
        return ("Where trials reach this server, for experiments that name the cluster and give no nniManagerIp. "
                'An object of JSON: {"nniManagerIp": "10.0.0.5"}.')
    says = []
    if owned:
        says.append(f"What the settings say in {', '.join(owned)}.")
    if name == TRIAL_CONFIG:
        says.append("For experiments that name the cluster: what their files leave out.")
    is_nnis = not owned or section in SECTIONS.values()
    return " ".join([*says, f"The JSON of {section} in NNI's v1 files." if is_nnis else
                     "An object of JSON with the settings' names."])


# --- documents and paths -------------------------------------------------------------------


def _starts(path: str, beginning: str) -> bool:
    return path == beginning or path.startswith((f"{beginning}.", f"{beginning}[]"))


def _beginnings(path: str) -> Iterator[str]:
    steps = path.split(".")
    for number in range(1, len(steps)):
        beginning = ".".join(steps[:number])
        yield beginning
        if beginning.endswith("[]"):
            yield beginning.removesuffix("[]")


def _pattern(path: _Place) -> str:
    text = ""
    for step in path:
        text += "[]" if isinstance(step, int) else f".{step}" if text else step
    return text


def _aliases(model: type[BaseModel]) -> list[str]:
    return [name if known.alias is None else known.alias for name, known in model.model_fields.items()]


def _names(model: type[BaseModel]) -> dict[str, str]:
    """Spelling -> the field's name in files."""
    return {spelling: known.alias or name for name, known in model.model_fields.items()
            for spelling in (name, known.alias or name)}


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()


def _put(document: Any, place: _Place, item: Any) -> None:
    """Put an item at a place, making groups and entries on the way."""
    for step, after in zip(place, place[1:], strict=False):
        made: Any = [] if isinstance(after, int) else {}
        if isinstance(step, int):
            document += [{} for _ in range(step + 1 - len(document))]
            document = document[step]
        else:
            document = document.setdefault(step, made)
    last = place[-1]
    if isinstance(last, int):
        document += [None for _ in range(last + 1 - len(document))]
    document[last] = item


def _leaves(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(value, dict) and value:
        for name, item in value.items():
            yield from _leaves(item, (*path, name))
    else:
        yield path, value


def _merged(one: dict[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    both = dict(one)
    for name, value in other.items():
        mine = both.get(name)
        both[name] = _merged(mine, value) if isinstance(mine, dict) and isinstance(value, dict) else value
    return both
