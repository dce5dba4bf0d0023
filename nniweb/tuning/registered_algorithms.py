"""Algorithms that whoever runs this server has registered under a name, as ``nnictl algo register`` does.

They are kept in NNI's own file in NNI's own place, so that nnictl in the same environment and this server know the same
ones. Their classes are imported in the tuner process only; here a name becomes a class.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from nniweb.tuning.algorithms import ASSESSORS, TUNERS
from nniweb.tuning.search_space.problem import InvalidInput, Problem
from trainingservice.limited_yaml import YamlRefused, read_yaml_file, yaml_text
from trialkeeper.durable_files import flush_folder, put_in_place

Kind = Literal["tuner", "assessor", "advisor"]

_KINDS: tuple[Kind, ...] = ("tuner", "assessor", "advisor")
_FILE = "registered_algorithms.yml"
_LONGEST_NAME = 100
#: What a new one may be named: it stands in files, addresses and commands.
_PLAIN_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")


@dataclass(frozen=True)
class RegisteredAlgorithm:
    """``class_name`` and ``validator`` are module.Class; ``class_args`` are its arguments unless a file gives others.
    ``written``: the entry as NNI writes it.
    """

    kind: Kind
    name: str
    class_name: str
    validator: str | None = None
    class_args: Mapping[str, Any] = field(default_factory=dict)
    written: Mapping[str, Any] = field(default_factory=dict)


def registrations_path() -> Path:
    """Where NNI 2 and 3 keep them: in NNI_CONFIG_DIR, else in ``nni`` of a virtual or conda environment, else in the
    home folder.
    """
    if given := os.environ.get("NNI_CONFIG_DIR"):
        return Path(given) / _FILE
    if sys.prefix != sys.base_prefix or Path(sys.prefix, "conda-meta").is_dir():
        return Path(sys.prefix, "nni", _FILE)
    return Path.home() / ".config" / "nni" / _FILE


def registered_algorithms() -> list[RegisteredAlgorithm]:
    """All of them, without those that NNI comes with. Raises InvalidInput (path ``name``) where the file is not as it
    must be.
    """
    path = registrations_path()
    try:
        content = _read(path)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise _wrong(f"the list of registered algorithms, {path}, cannot be read: {error.strerror}") from None
    found: list[RegisteredAlgorithm] = []
    for kind in _KINDS:
        for written in _list(content, f"{kind}s", path):
            if not (isinstance(written, dict) and written.get("source") == "nni"):
                found.append(_entry(kind, written, path))
    return [one for one in found if not is_built_in(one.name)]


def find_registered(kind: Literal["tuner", "assessor"], name: str) -> RegisteredAlgorithm | None:
    """The registered one of this name, in any case; tuners and advisors together. None where there is none, or where
    a built-in one has the name. Raises InvalidInput as ``registered_algorithms`` does.
    """
    if is_built_in(name):
        return None
    wanted: tuple[Kind, ...] = ("assessor",) if kind == "assessor" else ("tuner", "advisor")
    return next((one for one in registered_algorithms()
                 if one.kind in wanted and one.name.lower() == name.lower()), None)


def is_built_in(name: str) -> bool:
    """Whether it is a name that no other algorithm can have."""
    return name.lower() in {known.lower() for one in (*TUNERS, *ASSESSORS) for known in (one.name, *one.aliases)}


def read_meta_file(path: Path) -> list[RegisteredAlgorithm]:
    """What a file for ``algo register`` names: one algorithm, or a list ``algorithms`` of them. Raises InvalidInput."""
    try:
        content = _read(path)
    except OSError as error:
        raise _wrong(f"{path} cannot be read: {error.strerror}") from None
    entries = _list(content, "algorithms", path) if "algorithms" in content else [content]
    found = [_entry(written.get("algoType") if isinstance(written, dict) else None, written, path)
             for written in entries]
    for one in found:
        if not _PLAIN_NAME.fullmatch(one.name):
            raise _wrong(f"{path}: builtinName must begin with a letter and have letters, digits, and the characters "
                         "_ - . only")
        if is_built_in(one.name):
            raise _wrong(f"{path}: builtinName must be another one, because {one.name} is a built-in algorithm")
    return found


def register(algorithms: Iterable[RegisteredAlgorithm]) -> None:
    """Add them; what was registered under their names is replaced. Raises InvalidInput, and OSError."""
    new = list(algorithms)
    names = {one.name.lower() for one in new}
    _write([one for one in registered_algorithms() if one.name.lower() not in names] + new)


def unregister(name: str) -> bool:
    """Whether there was one of this name. Raises InvalidInput, and OSError."""
    known = registered_algorithms()
    left = [one for one in known if one.name.lower() != name.lower()]
    if len(left) < len(known):
        _write(left)
    return len(left) < len(known)


def _read(path: Path) -> dict[str, Any]:
    """Raises OSError too."""
    try:
        content = read_yaml_file(path.resolve())
    except YamlRefused as error:
        raise _wrong(f"{path}: {error}") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise _wrong(f"{path}: must be a group of fields")
    return content


def _list(content: Mapping[str, Any], key: str, path: Path) -> list[Any]:
    found = content.get(key)
    if found is not None and not isinstance(found, list):
        raise _wrong(f"{path}: {key} must be a list")
    return found or []


def _entry(kind: Any, written: Any, path: Path) -> RegisteredAlgorithm:
    if kind not in _KINDS or not isinstance(written, dict):
        raise _wrong(f"{path}: algoType must be tuner, assessor or advisor")
    name, class_args = written.get("builtinName"), written.get("classArgs") or {}
    if not isinstance(name, str) or not name or len(name) > _LONGEST_NAME:
        raise _wrong(f"{path}: builtinName must be a name of at most {_LONGEST_NAME} characters")
    class_name, validator = written.get("className"), written.get("classArgsValidator")
    if not _is_class_name(class_name) or not (validator is None or _is_class_name(validator)):
        raise _wrong(f"{path}: className and classArgsValidator of {name} must be a module and a class in it, such as "
                     "demo_tuner.DemoTuner")
    if not isinstance(class_args, dict):
        raise _wrong(f"{path}: classArgs of {name} must be a group of fields")
    kept = {key: value for key, value in written.items() if key != "algoType"}
    return RegisteredAlgorithm(kind, name, str(class_name), validator, class_args, {**kept, "source": "user"})


def _is_class_name(value: Any) -> bool:
    return isinstance(value, str) and "." in value and all(part.isidentifier() for part in value.split("."))


def _write(algorithms: Iterable[RegisteredAlgorithm]) -> None:
    content: dict[str, list[dict[str, Any]]] = {f"{kind}s": [] for kind in _KINDS}
    for one in algorithms:
        content[f"{one.kind}s"].append(dict(one.written))
    path = registrations_path()
    made = [folder for folder in (path.parent, *path.parent.parents) if not folder.exists()]
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=_FILE, delete=False, encoding="utf-8") as stream:
        stream.write(yaml_text(content, allow_unicode=False))
    os.chmod(stream.name, 0o644)
    put_in_place(stream.name, str(path))
    for folder in made:
        flush_folder(str(folder.parent))


def _wrong(message: str) -> InvalidInput:
    return InvalidInput([Problem("name", message)])
