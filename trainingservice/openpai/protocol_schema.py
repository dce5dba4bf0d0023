"""OpenPAI's job protocol, version 2, as a JSON schema, and the checks that a schema cannot make.

What the cluster would refuse is found before it is asked. Source of the rules: the reference of the platform; the
cluster itself merges the kinds of prerequisites into one list, which are written out here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import yaml

_TEXT: dict[str, Any] = {"type": "string"}
#: Of an entry in prerequisites, whatever its type.
_DESCRIPTION = {"protocolVersion": {"enum": [2, "2"]}, "name": _TEXT, "type": _TEXT, "version": {
    "type": ["string", "number"]}, "contributor": _TEXT, "description": _TEXT}
_AUTH = {"type": "object", "properties": {"username": _TEXT, "password": _TEXT, "registryuri": _TEXT},
         "additionalProperties": False}


def _prerequisite(kind: str, **more: Any) -> dict[str, Any]:
    """The rule for entries of one type."""
    return {"if": {"properties": {"type": {"const": kind}}, "required": ["type"]},
            "then": {"required": ["name", "type", "uri"],
                     "properties": {**_DESCRIPTION, "type": {"const": kind}, **more}, "additionalProperties": False}}


_URIS = {"anyOf": [_TEXT, {"type": "array", "items": _TEXT}]}
PREREQUISITE = {
    "type": "object",
    "required": ["type"],
    "properties": {"type": {"enum": ["dockerimage", "script", "data", "output"]}},
    "allOf": [_prerequisite("dockerimage", uri=_TEXT, auth=_AUTH), _prerequisite("script", uri=_TEXT),
              _prerequisite("output", uri=_TEXT), _prerequisite("data", uri=_URIS)],
}
_NUMBER_OR_NONE = {"type": ["integer", "null"]}
TASK_ROLE = {
    "type": "object",
    "required": ["dockerImage", "resourcePerInstance", "commands"],
    "additionalProperties": False,
    "properties": {
        "protocolVersion": {"enum": [2, "2"]},
        "instances": {"type": "integer", "minimum": 1},
        "completion": {"type": "object", "additionalProperties": False,
                       "properties": {"minFailedInstances": _NUMBER_OR_NONE, "minSucceededInstances": _NUMBER_OR_NONE}},
        "taskRetryCount": {"type": "integer"},
        "prerequisites": {"type": "array", "items": _TEXT},
        "dockerImage": _TEXT, "data": _TEXT, "output": _TEXT, "script": _TEXT,
        "extraContainerOptions": {"type": "object", "properties": {"shmMB": {"type": "integer"},
                                                                   "infiniband": {"type": "boolean"}}},
        "resourcePerInstance": {
            "type": "object", "required": ["cpu", "memoryMB", "gpu"], "additionalProperties": False,
            "properties": {"cpu": {"type": "integer"}, "memoryMB": {"type": "integer"}, "gpu": {"type": "integer"},
                           "ports": {"type": "object", "additionalProperties": {"type": "integer"}}}},
        "commands": {"type": "array", "items": _TEXT, "minItems": 1},
    },
}
#: What clusters with the HiveD scheduler read; which SKUs there are only the cluster knows.
HIVED = {
    "type": "object",
    "properties": {
        "jobPriorityClass": {"enum": ["prod", "test", "oppo"]},
        "taskRoles": {"type": "object", "additionalProperties": {
            "type": "object", "properties": {"skuType": {"type": ["string", "null"]},
                                             "pinnedCellId": {"type": ["string", "null"]}}}},
    },
}
JOB: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "required": ["protocolVersion", "name", "type", "taskRoles"],
    "additionalProperties": False,
    "properties": {
        "protocolVersion": {"enum": [2, "2"]},
        "name": {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,255}$"},
        "type": {"const": "job"},
        "version": {"type": ["string", "number"]}, "contributor": _TEXT, "description": _TEXT,
        "prerequisites": {"type": "array", "minItems": 1, "items": PREREQUISITE},
        "parameters": {"type": "object"}, "secrets": {"type": "object"},
        "jobRetryCount": {"type": "integer", "minimum": 0},
        "taskRoles": {"type": "object", "minProperties": 1, "additionalProperties": False,
                      "patternProperties": {"^[A-Za-z_][A-Za-z0-9_]*$": TASK_ROLE}},
        "deployments": {"type": "array"},
        "defaults": {"type": "object", "properties": {"virtualCluster": _TEXT}},
        "extras": {"type": "object", "properties": {
            "storages": {"type": "array", "items": {
                "type": "object", "required": ["name"], "properties": {"name": _TEXT, "mountPath": _TEXT}}},
            "hivedScheduler": HIVED}},
    },
}
_VALIDATOR = jsonschema.Draft202012Validator(JOB)
#: What the cluster takes of a document, in bytes.
MAX_BYTES = 100 * 1024


def document_problems(document: Any) -> list[str]:
    """Why the cluster would refuse the document, one sentence part each, [] for a right one."""
    problems = [f"{_place(error.absolute_path)}{_words(error)}"
                for error in sorted(_VALIDATOR.iter_errors(document), key=lambda error: list(map(str, error.path)))]
    return problems or [*_names_twice(document), *_missing_prerequisites(document), *_unclosed_templates(document),
                        *_hived_problems(document), *_too_large(document)]


def own_document_problems(document: dict[str, Any]) -> list[str]:
    """The same of a document that a user wrote, whose name is put in later and may be missing."""
    return document_problems({**document, "name": "put-in-later"})


def document_text(document: Mapping[str, Any]) -> bytes:
    """The document as it is sent."""
    return yaml.safe_dump(dict(document), sort_keys=False, width=100_000).encode()


def _place(path: Any) -> str:
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return f"{text.lstrip('.')} " if text else ""


def _words(error: jsonschema.ValidationError) -> str:
    if error.validator == "pattern":
        return f"{error.instance!r} does not fit the pattern {error.validator_value}"
    if error.validator in ("type", "enum", "const"):
        return f"must be {_expected(error.validator_value)}, not {error.instance!r:.80}"
    return str(error.message)[:200]


def _expected(value: Any) -> str:
    return " or ".join(map(str, value)) if isinstance(value, list) else str(value)


def _names_twice(document: dict[str, Any]) -> list[str]:
    seen: set[tuple[str, str]] = set()
    problems = []
    for entry in document.get("prerequisites") or []:
        key = (entry["type"], entry["name"])
        if key in seen:
            problems.append(f"prerequisites has two entries of type {key[0]} named {key[1]!r}")
        seen.add(key)
    return problems


def _missing_prerequisites(document: dict[str, Any]) -> list[str]:
    names: dict[str, set[str]] = {}
    for entry in document.get("prerequisites") or []:
        names.setdefault(entry["type"], set()).add(entry["name"])
    everything = set().union(*names.values()) if names else set()
    problems = []
    for role_name, role in document["taskRoles"].items():
        for field in ("dockerImage", "data", "output", "script"):
            wanted = role.get(field)
            if wanted is not None and wanted not in names.get(field.lower(), set()):
                problems.append(f"taskRoles.{role_name}.{field} names {wanted!r}, which is not in prerequisites")
        problems += [f"taskRoles.{role_name}.prerequisites names {wanted!r}, which is not in prerequisites"
                     for wanted in role.get("prerequisites") or [] if wanted not in everything]
    return problems


def _unclosed_templates(document: dict[str, Any]) -> list[str]:
    """The cluster reads templates in the whole text, and has no answer but a fault (500) to one without its end."""
    problems = []
    for place, text in _texts(document, ""):
        rest = text
        while "<%" in rest:
            _, _, rest = rest.partition("<%")
            inside, end, rest = rest.partition("%>")
            if not end or "<%" in inside:
                problems.append(f"{place} has a <% without its %>, which the cluster takes for a template")
                break
    return problems


def _texts(value: Any, place: str) -> Iterator[tuple[str, str]]:
    """All texts of a document with where they stand; commands of a role are one script."""
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, dict):
        for key, part in value.items():
            yield f"a name in {place or 'the document'}", str(key)
            if key == "commands" and isinstance(part, list):
                part = "\n".join(map(str, part))
            yield from _texts(part, f"{place}.{key}".lstrip("."))
    elif isinstance(value, list):
        for number, part in enumerate(value):
            yield from _texts(part, f"{place}[{number}]")


def _hived_problems(document: dict[str, Any]) -> list[str]:
    roles = ((document.get("extras") or {}).get("hivedScheduler") or {}).get("taskRoles") or {}
    problems = []
    for name, wish in roles.items():
        place = f"extras.hivedScheduler.taskRoles.{name}"
        if name not in document["taskRoles"]:
            problems.append(f"{place} names a role that taskRoles does not have")
        if wish.get("skuType") and wish.get("pinnedCellId"):
            problems.append(f"{place} has both skuType and pinnedCellId; give one of them")
    return problems


def _too_large(document: dict[str, Any]) -> list[str]:
    size = len(document_text(document))
    return [] if size <= MAX_BYTES else [f"the document has {size} bytes; the cluster takes {MAX_BYTES} at most"]
