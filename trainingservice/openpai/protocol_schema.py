"""OpenPAI's job protocol, version 2, as a JSON schema, and the checks that a schema cannot make.

What the cluster would refuse is found before it is asked, and what it takes is taken. The source of the rules is the
rest-server (src/config/v2, src/middlewares/v2). Stricter than that is: taskRoles must be a mapping, because a trial is
one of its roles.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import jsonschema  # type: ignore[import-untyped]

from trainingservice.openpai.document_text import document_text
from trainingservice.openpai.storages import storage_problems
from trainingservice.openpai.templates import default_deployment, template_problems
from trainingservice.words.shown_value import shown

_TEXT: dict[str, Any] = {"type": "string"}
_TEXTS = {"type": "array", "items": _TEXT}
_NAME = {"type": "string", "pattern": r"^[A-Za-z0-9_-]{1,255}\Z"}
_ROLE_NAME = r"^[A-Za-z_][A-Za-z0-9_]*\Z"
_HIVED_ROLE_NAME = r"^[A-Za-z0-9._~]+\Z"
#: What a person is told instead of a pattern.
_IN_WORDS = {
    _NAME["pattern"]: '1 to 255 letters, digits, "-" or "_"',
    _ROLE_NAME: 'letters, digits or "_" and not begin with a digit',
    _HIVED_ROLE_NAME: 'letters, digits, ".", "_" or "~"',
}
#: The kinds of values, as a person is told of them.
_KINDS = {"object": "a mapping", "array": "a list", "string": "text", "integer": "a whole number", "number": "a number",
          "null": "null"}
_VERSION = {"enum": [2, "2"]}
_DESCRIPTION = {"protocolVersion": _VERSION, "name": _NAME, "version": {"type": ["string", "number"]},
                "contributor": _TEXT, "description": _TEXT}
_AUTH = {"type": "object", "properties": {"username": _TEXT, "password": _TEXT, "registryuri": _TEXT}}


def _prerequisite(kind: str, uri: dict[str, Any]) -> dict[str, Any]:
    """The rule for entries of one type. Of an image nothing but what is named here is taken."""
    properties = {**_DESCRIPTION, "type": {"const": kind}, "uri": uri}
    rule: dict[str, Any] = {"required": ["name"], "properties": {**properties, "plugin": _TEXT, "require": _TEXTS}}
    if kind == "dockerimage":
        rule = {"required": ["name", "uri"], "properties": {**properties, "auth": _AUTH},
                "additionalProperties": False}
    return {"if": {"properties": {"type": {"const": kind}}, "required": ["type"]}, "then": rule}


def _by_role(rule: dict[str, Any]) -> dict[str, Any]:
    return {"minProperties": 1, "additionalProperties": False, "patternProperties": {_ROLE_NAME: rule}}


PREREQUISITE = {
    "type": "object",
    "required": ["type"],
    "properties": {"type": {"enum": ["dockerimage", "script", "data", "output"]}},
    "allOf": [_prerequisite("dockerimage", _TEXT), _prerequisite("script", _TEXT), _prerequisite("output", _TEXT),
              _prerequisite("data", _TEXTS)],
}
_NUMBER_OR_NONE = {"type": ["integer", "null"]}
TASK_ROLE = {
    "type": "object",
    "required": ["dockerImage", "resourcePerInstance", "commands"],
    "additionalProperties": False,
    "properties": {
        "protocolVersion": _VERSION,
        "instances": {"type": "integer", "minimum": 1},
        "completion": {"type": "object", "additionalProperties": False,
                       "properties": {"minFailedInstances": _NUMBER_OR_NONE, "minSucceededInstances": _NUMBER_OR_NONE}},
        "taskRetryCount": {"type": "integer"},
        "prerequisites": _TEXTS,
        "dockerImage": _TEXT, "data": _TEXT, "output": _TEXT, "script": _TEXT,
        # a slip of the server's schema: it refuses this one key, and takes all others
        "extraContainerOptions": {"type": "object", "properties": {"shmMB": {"type": "integer"},
                                                                   "additionalProperties": False}},
        "resourcePerInstance": {
            "type": "object", "required": ["cpu", "memoryMB", "gpu"], "additionalProperties": False,
            "properties": {
                "cpu": {"type": "integer"}, "memoryMB": {"type": "integer"}, "gpu": {"type": "integer"},
                "ports": {"anyOf": [{"type": ["object", "array", "null"]}, {"enum": [False, 0, ""]}],
                          **_by_role({"type": "integer"})}}},
        "commands": {**_TEXTS, "minItems": 1},
    },
}
_MORE_COMMANDS = {"type": "object", "additionalProperties": False,
                  "properties": {key: {**_TEXTS, "minItems": 1} for key in ("preCommands", "postCommands")}}
#: What clusters with the HiveD scheduler read; which SKUs there are only the cluster knows.
_WORD_OR_NONE = {"type": ["string", "null"]}
HIVED = {
    "type": "object",
    "properties": {
        "jobPriorityClass": {"enum": ["prod", "test", "oppo"]},
        "taskRoles": {"minProperties": 1, "additionalProperties": False, "patternProperties": {
            _HIVED_ROLE_NAME: {"type": "object", "properties": {
                "skuType": _WORD_OR_NONE, "pinnedCellId": _WORD_OR_NONE, "affinityGroupName": _WORD_OR_NONE}}}},
    },
}
JOB: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "required": ["protocolVersion", "name", "type", "taskRoles"],
    "additionalProperties": False,
    "properties": {
        **_DESCRIPTION,
        "type": {"const": "job"},
        "prerequisites": {"type": "array", "minItems": 1, "items": PREREQUISITE},
        "parameters": {"type": "object"}, "secrets": {"type": "object"},
        "jobRetryCount": {"type": "integer", "minimum": 0},
        "taskRoles": {"type": "object", **_by_role(TASK_ROLE)},
        "deployments": {"type": "array", "minItems": 1, "items": {
            "type": "object", "required": ["name", "taskRoles"],
            "properties": {"protocolVersion": _VERSION, "name": _NAME, "taskRoles": _by_role(_MORE_COMMANDS)}}},
        # of any other kind than text it is the name of no virtual cluster, which the server says with 403
        "defaults": {"type": "object", "properties": {"deployment": _TEXT, "virtualCluster": {
            "type": ["string", "null"], "minLength": 1}}},
        "extras": {"type": "object", "properties": {"hivedScheduler": HIVED}},
    },
}
_VALIDATOR = jsonschema.Draft202012Validator(JOB)
#: What the cluster takes of a document, in bytes.
MAX_BYTES = 100 * 1024


def document_problems(document: Any) -> list[str]:
    """Why the cluster would refuse the document, one sentence part each, [] for a right one."""
    problems = [f"{_place(error.absolute_path)}{_words(error)}"
                for error in sorted(_VALIDATOR.iter_errors(document), key=lambda error: list(map(str, error.path)))]
    problems = list(dict.fromkeys(problems))  # of several names that are missing there is an error each
    return problems or [*_names_twice(document), *_missing_prerequisites(document), *_deployment_problems(document),
                        *template_problems(document), *storage_problems(document), *_hived_problems(document),
                        *_too_large(document)]


def own_document_problems(document: dict[str, Any]) -> list[str]:
    """The same of a document that a user wrote, whose name is put in later and may be missing."""
    return document_problems({**document, "name": "put-in-later"})


def _place(path: Any) -> str:
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return f"{text.lstrip('.')} " if text else ""


def _words(error: jsonschema.ValidationError) -> str:
    """What is wrong at the place of the error, in our words: those of the library show patterns and whole documents."""
    rule, wanted, given = error.validator, error.validator_value, error.instance
    if rule == "required":
        return f"must have {_names((name for name in wanted if name not in given), 'and')}"
    if rule == "additionalProperties":
        return _unknown_names(error.schema, given)
    if rule in ("minProperties", "minItems"):
        return "must have at least one entry"
    if rule == "minLength":
        return "must not be empty"
    expected = (_IN_WORDS[wanted] if rule == "pattern"
                else f"{wanted} or more" if rule == "minimum"
                else "a mapping of names to whole numbers" if rule == "anyOf"
                else _expected(wanted))
    return f"must be {expected}" + ("" if _is_secret(error.absolute_path) else f", not {shown(given)}")


def _expected(value: Any) -> str:
    return " or ".join(_KINDS.get(each, str(each)) for each in (value if isinstance(value, list) else [value]))


def _unknown_names(schema: Mapping[str, Any], given: Mapping[str, Any]) -> str:
    patterns = list(schema.get("patternProperties", {}))
    known = schema.get("properties", {})
    unknown = _names((name for name in given
                      if name not in known and not any(re.search(pattern, name) for pattern in patterns)), "and")
    if patterns:
        return f"has {unknown}; each name in it must be {_IN_WORDS[patterns[0]]}"
    return f"has {unknown}, which the protocol does not know; it may have {_names(known, 'and')}"


def _names(names: Iterable[str], word: str) -> str:
    *others, last = [shown(name) for name in names]
    return f"{', '.join(others)} {word} {last}" if others else last


def _is_secret(path: Iterable[Any]) -> bool:
    parts = list(path)
    return parts[:1] == ["secrets"] or (parts[:1] == ["prerequisites"] and "auth" in parts)


def _names_twice(document: dict[str, Any]) -> list[str]:
    seen: set[tuple[str, str]] = set()
    problems = []
    for entry in document.get("prerequisites") or []:
        key = (entry["type"], entry["name"])
        if key in seen:
            problems.append(f"prerequisites has two entries of type {key[0]} named {shown(key[1])}")
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
                problems.append(f"taskRoles.{role_name}.{field} names {shown(wanted)}, which is not in prerequisites")
        problems += [f"taskRoles.{role_name}.prerequisites names {shown(wanted)}, which is not in prerequisites"
                     for wanted in role.get("prerequisites") or [] if wanted not in everything]
    return problems


def _deployment_problems(document: dict[str, Any]) -> Iterator[str]:
    names = [entry["name"] for entry in document.get("deployments") or []]
    yield from (f"deployments has two entries named {shown(name)}"
                for name in dict.fromkeys(names) if names.count(name) > 1)
    wanted = (document.get("defaults") or {}).get("deployment")
    if wanted is not None and wanted not in names:
        yield f"defaults.deployment names {shown(wanted)}, which is not in deployments"
    chosen = default_deployment(document)
    if chosen is not None and not isinstance(chosen["taskRoles"], dict | list):
        yield f"the taskRoles of deployment {shown(wanted)} must be a mapping"


def _hived_problems(document: dict[str, Any]) -> Iterator[str]:
    roles = ((document.get("extras") or {}).get("hivedScheduler") or {}).get("taskRoles")
    groups: dict[str, tuple[Any, Any]] = {}
    for name, wish in roles.items() if isinstance(roles, dict) else ():
        place, asked = f"extras.hivedScheduler.taskRoles.{name}", (wish.get("skuType"), wish.get("pinnedCellId"))
        if name not in document["taskRoles"]:
            yield f"{place} names a role that taskRoles does not have"
        if None not in asked:
            yield f"{place} has both skuType and pinnedCellId; give one of them"
        group = wish.get("affinityGroupName")
        if group is not None and groups.setdefault(group, asked) != asked:
            yield f"{place} has another skuType or pinnedCellId than the rest of its affinity group {shown(group)}"


def _too_large(document: dict[str, Any]) -> list[str]:
    size = len(document_text(document))
    return [] if size <= MAX_BYTES else [f"the document has {size} bytes; the cluster accepts at most {MAX_BYTES}"]
