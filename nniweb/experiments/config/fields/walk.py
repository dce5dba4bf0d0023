"""Walks a document along a pydantic model before pydantic sees it.

Field names are matched as NNI does (case and underscores do not count) and put into their canonical
camelCase; unknown ones are refused with the nearest known one; empty values (``key:`` or null) count
as left out; relative paths become absolute; secrets are noted. Works for any model, so a platform
needs nothing but its models.
"""

from __future__ import annotations

import difflib
import functools
import types
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path as FilePath
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import AliasChoices, BaseModel, SecretStr
from pydantic.fields import FieldInfo

from nniweb.experiments.config.findings import Findings
from nniweb.experiments.config.local_paths import LocalPaths
from nniweb.experiments.config.yaml_positions import Path
from trainingservice.words.spellings import fold

#: Places in documents, by the models that may stand there, of which the fields are known without a look.
_KEPT = 512
#: Characters of what is compared with known names: that takes time and memory for each of them.
_LONGEST_MISSPELT = 300


def nearest(key: str, known: Iterable[str]) -> str:
    """A half sentence that names the known field this one was probably meant to be, "" where none is near."""
    if len(key) > _LONGEST_MISSPELT:
        return ""
    by_fold = {fold(name): name for name in known}
    matches = difflib.get_close_matches(fold(key), list(by_fold), n=1, cutoff=0.6)
    if not matches:  # "gpuNumber" for "trialGpuNumber": the one is part of the other
        matches = [name for name in by_fold if len(fold(key)) >= 4 and (fold(key) in name or name in fold(key))][:1]
    return f"; did you mean {by_fold[matches[0]]}?" if matches else ""


def file_key(name: str, field: FieldInfo) -> str:
    """A field's name in config files."""
    if isinstance(field.validation_alias, str):
        return field.validation_alias
    return field.alias or name


def leaf_types(annotation: Any) -> Iterator[Any]:
    """The members of a union, without ``Annotated``; of a plain annotation, itself."""
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from leaf_types(get_args(annotation)[0])
    elif origin in (Union, types.UnionType):
        for member in get_args(annotation):
            yield from leaf_types(member)
    else:
        yield annotation


@functools.lru_cache(maxsize=_KEPT)
def _of_other_platforms(models: tuple[type[BaseModel], ...]) -> Mapping[str, str]:
    """Folded name of a field that is known elsewhere -> what to do instead."""
    return {fold(name): said for model in models for name, said in getattr(model, "elsewhere", {}).items()}


def model_fields(models: Iterable[type[BaseModel]]) -> Mapping[str, list[FieldInfo]]:
    """Canonical name -> its fields, over all models that may stand at one place. Not to be changed."""
    return _model_fields(tuple(models))


@functools.lru_cache(maxsize=_KEPT)
def _model_fields(models: tuple[type[BaseModel], ...]) -> Mapping[str, list[FieldInfo]]:
    fields: dict[str, list[FieldInfo]] = {}
    for model in models:
        for name, field in model.model_fields.items():
            fields.setdefault(file_key(name, field), []).append(field)
    return fields


@functools.lru_cache(maxsize=_KEPT)
def _spellings(models: tuple[type[BaseModel], ...]) -> Mapping[str, str]:
    """Folded spelling -> canonical name."""
    spellings = {}
    for key, alternatives in model_fields(models).items():
        spellings[fold(key)] = key
        for field in alternatives:
            if isinstance(field.validation_alias, AliasChoices):
                spellings |= {fold(str(choice)): key for choice in field.validation_alias.choices}
    return spellings


class FieldWalk:
    """One walk. Problems go to ``findings``; ``secrets`` holds the canonical paths of the secrets met."""

    def __init__(self, findings: Findings, paths: LocalPaths) -> None:
        self.findings = findings
        self.paths = paths
        self.secrets: dict[Path, str] = {}

    def mapping(self, value: dict[str, Any], models: Iterable[type[BaseModel]], path: Path,
                hints: dict[str, str] | None = None, raw: Path | None = None,
                others: Iterable[str] = ()) -> dict[str, Any]:
        """The canonical form of ``value``, a mapping at the canonical ``path`` that should fit one of ``models``.

        ``raw`` is where the caller has it, if that is not where it belongs. ``hints`` maps folded
        unknown keys to a sentence that says more than the nearest name; ``others`` are names that are
        right here but read elsewhere, to be suggested as well.
        """
        models = tuple(models)
        fields, spellings = model_fields(models), _spellings(models)
        result: dict[str, Any] = {}
        raw = self.findings.raw(path) if raw is None else raw
        hints = {**_of_other_platforms(models), **(hints or {})}
        for written, item in value.items():
            key = spellings.get(fold(written))
            if key is None:
                message = f"is not a known field here{nearest(written, [*fields, *others])}"
                self.findings.add_raw((*raw, written), hints.get(fold(written), message), at_key=True)
                continue
            if key in result:
                before = str(self.findings.raw((*path, key))[-1])
                if item == result[key] and fold(before) != fold(written):
                    continue  # NNI's own classes write some fields under two names
                self.findings.add_raw((*raw, written), f"is the same field as "
                                      f"{self.findings.spelling((*path, key))}, which is already given", at_key=True)
                continue
            self.findings.spelt((*path, key), (*raw, written))
            if item is None:
                continue
            annotations = [field.annotation for field in fields[key]]
            result[key] = self._value(item, annotations, (*path, key))
        return result

    def _value(self, value: Any, annotations: Iterable[Any], path: Path) -> Any:
        leaves = [leaf for annotation in annotations for leaf in leaf_types(annotation)]
        if isinstance(value, dict):
            models = [leaf for leaf in leaves if isinstance(leaf, type) and issubclass(leaf, BaseModel)]
            if models:
                return self.mapping(value, models, path)
            items = [get_args(leaf)[1] for leaf in leaves if get_origin(leaf) is dict]
            return {key: self._value(item, items, (*path, key)) for key, item in value.items()}
        if isinstance(value, list):
            items = [argument for leaf in leaves if get_origin(leaf) in (list, tuple, set, frozenset)
                     for argument in get_args(leaf) if argument is not Ellipsis]
            return [self._value(item, items, (*path, index)) for index, item in enumerate(value)]
        if SecretStr in leaves:
            self.secrets[path] = value if isinstance(value, str) else ""
        elif isinstance(value, str) and any(isinstance(leaf, type) and issubclass(leaf, FilePath) for leaf in leaves):
            return self._absolute(value, path)
        return value

    def _absolute(self, value: str, path: Path) -> str:
        try:
            return str(self.paths.absolute(value))
        except ValueError as error:
            self.findings.add(path, str(error))
            return "/"  # any absolute path: the error above is what counts
