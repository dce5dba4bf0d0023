"""Stored secrets when settings change: each stays where it was given for, and none is sent elsewhere.

Which fields decide where a secret is sent is what the models say: all but those in ``SettingsModel.keeps_secrets``.
An entry of a list, such as a machine, is recognised by these fields, at whatever position it is now.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import AliasChoices, BaseModel, SecretStr, ValidationError
from pydantic_core import PydanticUndefined, to_jsonable_python

from trainingservice.cluster_settings import ClusterSettings, SettingsModel, without_secrets
from trainingservice.words.shown_value import shown
from trainingservice.words.spellings import fold

_Steps = tuple[str | int, ...]
#: Changed field -> what it was, and what it is now.
Changes = dict[str, tuple[Any, Any]]


@dataclass(frozen=True)
class KeptSecrets:
    """What becomes of the secrets of settings that are replaced. Paths: ``password``, ``machineList[0].password``."""

    #: Those that the new settings leave out and that stay, by their paths there.
    kept: dict[str, str]
    #: Those of entries of lists that were given for another place: path there -> what parts it from that place.
    moved: dict[str, Changes]


def keep_secrets(secrets: Mapping[str, str], model: type[SettingsModel], old: Mapping[str, Any],
                 new: Mapping[str, Any]) -> KeptSecrets:
    """``old``: the settings for which the secrets were given, as ``without_secrets`` makes them. ``new``: a document in
    any spelling. Of a secret outside of lists it is only told whether it is left out: see ``moved_secrets``.
    """
    found = KeptSecrets({}, {})
    for path, secret in secrets.items():
        steps = steps_of(path)
        numbered = next((number for number, step in enumerate(steps) if isinstance(step, int)), None)
        if numbered is None:
            group = _at(new, steps[:-1])
            if isinstance(group, Mapping) and _member(group, steps[-1]) is None:
                found.kept[path] = secret
        else:
            _keep_in_list(found, secret, steps, numbered, model, old, new)
    return found


def _keep_in_list(found: KeptSecrets, secret: str, steps: _Steps, numbered: int, model: type[SettingsModel],
                  old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    before, now = _at(old, steps[:numbered]), _at(new, steps[:numbered])
    index, rest, entry_model = steps[numbered], steps[numbered + 1:], _model_at(model, steps[:numbered])
    if not isinstance(before, list) or not isinstance(now, list) or not isinstance(index, int) or entry_model is None:
        return
    given = [_as_stored(entry_model, entry) if isinstance(entry, Mapping) else None for entry in now]

    def changes(one: Any, number: int) -> Changes:
        entry = given[number]
        return {"entry": (one, entry)} if entry is None else _changes(rest, entry_model, one, entry)

    def is_given(number: int) -> bool:
        group = _at(now[number], rest[:-1])
        return not isinstance(group, Mapping) or _member(group, rest[-1]) is not None

    places = [number for number in range(len(now)) if not changes(before[index], number)]
    if places:
        place = index if index in places else places[0]
        if not is_given(place):
            found.kept[_path((*steps[:numbered], place, *rest))] = secret
    elif index < len(now) and not is_given(index) and all(changes(other, index) for other in before) \
            and not _has_its_own(entry_model, before[index], given[index]):
        found.moved[_path(steps)] = changes(before[index], index)


def _has_its_own(model: type[SettingsModel], before: Any, now: Mapping[str, Any] | None) -> bool:
    """Whether an entry has got something that serves instead of a secret, and so is another one, not a changed one."""
    keys = [model.model_fields[name].alias or name for name in model.serves_as_secret]
    return now is not None and any(now.get(key) and now[key] != before.get(key) for key in keys)


def moved_secrets(paths: Iterable[str], before: ClusterSettings, after: ClusterSettings) -> dict[str, Changes]:
    """Of these secrets, outside of lists: the changed fields (paths) that part each from where it was given for.

    A path that the models do not know, such as a key of metadata, is that of a secret beside the settings.
    """
    old, new = without_secrets(before), without_secrets(after)
    return {path: changes for path in paths if (changes := _changes(steps_of(path), type(after), old, new))}


def moved_sentence(changes: Changes) -> str:
    """Why a secret does not stay, and what to do."""
    fields = " and ".join(name + _difference(before, now) for name, (before, now) in changes.items())
    return f"was given for another {fields}, and is not sent elsewhere. Give it again, or null to remove it."


def _difference(before: Any, now: Any) -> str:
    was, is_now = ("not given" if value is None else shown(value) for value in (before, now))
    return f" (it was {was} and is {is_now} now)" if was != is_now else ""


def secrets_of(model: BaseModel, place: str = "") -> Iterator[tuple[str, str]]:
    """The secrets of settings, by their paths."""
    for name, field in type(model).model_fields.items():
        value, path = getattr(model, name), f"{place}{field.alias or name}"
        if isinstance(value, SecretStr):
            yield path, value.get_secret_value()
        elif isinstance(value, BaseModel):
            yield from secrets_of(value, f"{path}.")
        elif isinstance(value, list | tuple):
            for number, entry in enumerate(value):
                if isinstance(entry, BaseModel):
                    yield from secrets_of(entry, f"{path}[{number}].")


def put_secret(document: Any, path: str, secret: str) -> None:
    """Write a secret into a document of settings, whose lists have the entry."""
    steps = steps_of(path)
    for step in steps[:-1]:
        document = document[step] if isinstance(step, int) else document.setdefault(step, {})
    document[steps[-1]] = secret


# --- where a secret is sent -------------------------------------------------------------------


def _changes(steps: _Steps, model: type[SettingsModel], old: Mapping[str, Any], new: Mapping[str, Any],
             place: str = "") -> Changes:
    """``steps`` to the secret. ``place``: of the model in the settings."""
    is_plain = all(isinstance(step, str) for step in steps)  # in a list within an entry nothing may change
    groups = (name for name, field in model.model_fields.items() if _is(field.alias or name, steps[0]))
    group = next(groups, "") if is_plain else ""
    free = {name for each in model.__mro__ if issubclass(each, SettingsModel) for name in each.keeps_secrets}
    found = {}
    for name, field in model.model_fields.items():
        key = field.alias or name
        if name != group and (name not in free or not is_plain) and old.get(key) != new.get(key):
            found[place + key] = (old.get(key), new.get(key))
    inner = _inner_model(model.model_fields[group].annotation) if group and len(steps) > 1 else None
    if inner is not None:
        key = model.model_fields[group].alias or group
        found |= _changes(steps[1:], inner, old.get(key) or {}, new.get(key) or {}, f"{place}{key}.")
    return found


def _as_stored(model: type[SettingsModel], given: Mapping[str, Any]) -> dict[str, Any]:
    """An entry of a document in any spelling, as ``without_secrets`` makes it."""
    document = {}
    for name, field in model.model_fields.items():
        also = field.validation_alias.choices if isinstance(field.validation_alias, AliasChoices) else []
        for key, value in given.items():
            if any(_is(str(spelling), key) for spelling in (field.alias or name, *also)):
                document[field.alias or name] = value
    try:
        return without_secrets(model.model_validate(document, context={"reads_files": False, "must_exist": False}))
    except ValidationError:  # a secret is missing, or something is wrong: that is said elsewhere
        plain = {field.alias or name: to_jsonable_python(default, by_alias=True, exclude_none=True)
                 for name, field in model.model_fields.items()
                 if (default := field.get_default(call_default_factory=True)) is not PydanticUndefined}
        secret = {model.model_fields[name].alias or name for name in model.secret_fields()}
        return {key: value for key, value in {**plain, **document}.items() if value is not None and key not in secret}


def _inner_model(annotation: Any) -> type[SettingsModel] | None:
    """The model in a union, a list or ``Annotated``."""
    if isinstance(annotation, type) and issubclass(annotation, SettingsModel):
        return annotation
    return next((model for argument in get_args(annotation) if (model := _inner_model(argument)) is not None), None)


def _model_at(model: type[SettingsModel], steps: _Steps) -> type[SettingsModel] | None:
    found: type[SettingsModel] | None = model
    for step in steps:
        if found is not None and isinstance(step, str):
            field = next((field for name, field in found.model_fields.items() if _is(field.alias or name, step)), None)
            found = None if field is None else _inner_model(field.annotation)
    return found


# --- paths -------------------------------------------------------------------------------------


def steps_of(path: str) -> _Steps:
    """``machineList[0].password`` in steps."""
    return tuple(int(step[1:]) if step.startswith("[") else step for step in re.findall(r"\[[0-9]+|[^.\[\]]+", path))


def _path(steps: _Steps) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps).removeprefix(".")


def _is(name: str, other: object) -> bool:
    return fold(name) == fold(str(other))


def _member(group: Mapping[str, Any], key: object) -> tuple[Any] | None:
    """The value in a tuple, None where the key is absent in every spelling."""
    return next(((value,) for name, value in group.items() if _is(name, key)), None)


def _at(document: Any, steps: _Steps) -> Any:
    for step in steps:
        if isinstance(step, int):
            document = document[step] if isinstance(document, list) and step < len(document) else None
        else:
            found = _member(document, step) if isinstance(document, Mapping) else None
            document = None if found is None else found[0]
    return document
