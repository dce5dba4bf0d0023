"""What an OpenPAI rest-server says to a job document, by its own source (release line 1.8, the last one).

The sources of the rules: src/config/v2/protocol.js (the schema, checked by ajv 6.12), src/middlewares/v2/protocol.js
(names that must exist, templates), and of src/models/v2/job/k8s.js what throws before anything is stored. Recorded
answers of the real code are in tests/recordings/openpai. Names that each object of JavaScript has (``constructor``,
``__proto__``) are no case here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tests.fakes.js_yaml import Moment
from tests.fakes.openpai.templates import Unreadable, rendered

Rule = dict[str, Any]
_ROLE_NAME = r"[a-zA-Z_][a-zA-Z0-9_]*"


class Refused(Exception):
    """400 InvalidProtocolError. ``said``: a sentence, or the schema's errors."""

    def __init__(self, said: str | list[dict[str, str]]) -> None:
        super().__init__(str(said))
        self.said = said


class Fault(Exception):
    """The server's code throws: 500 without a code."""


def _object(properties: dict[str, Rule], *, required: tuple[str, ...] = (), closed: bool = False) -> Rule:
    return {"type": ("object",), "properties": properties, "required": required, "closed": closed}


def _list_of(rule: Rule, least: int = 0) -> Rule:
    return {"type": ("array",), "items": rule, "least": least}


def _by_name(rule: Rule) -> Rule:
    """Names as roles have them. No type is asked for: what is no object passes."""
    return {"names": _ROLE_NAME, "named": rule, "least_names": 1}


STRING, INTEGER, NEVER = {"type": ("string",)}, {"type": ("integer",)}, {"never": True}
_BASE: dict[str, Rule] = {
    "protocolVersion": {"one_of": ("2", 2)},
    "name": {"type": ("string",), "text": r"[a-zA-Z0-9_-]+", "longest": 255},
    "version": {"type": ("string", "number")}, "contributor": STRING, "description": STRING,
}


def _prerequisite(kinds: tuple[str, ...], uri: Rule, *, closed: bool = False) -> Rule:
    more = {"auth": _object({"username": STRING, "password": STRING, "registryuri": STRING})} if closed else {
        "plugin": STRING, "require": _list_of(STRING)}
    return _object({**_BASE, "type": {"one_of": kinds}, "uri": uri, **more}, closed=closed,
                   required=("name", "type", "uri") if closed else ("name", "type"))


_PREREQUISITES = (_prerequisite(("script", "output"), STRING), _prerequisite(("data",), _list_of(STRING)),
                  _prerequisite(("dockerimage",), STRING, closed=True))
_COUNT = {"type": ("integer", "null")}
_ROLE = _object({
    "protocolVersion": _BASE["protocolVersion"],
    "instances": {"type": ("integer",), "minimum": 1},
    "completion": _object({"minFailedInstances": _COUNT, "minSucceededInstances": _COUNT}, closed=True),
    "taskRetryCount": INTEGER, "prerequisites": _list_of(STRING),
    "dockerImage": STRING, "data": STRING, "output": STRING, "script": STRING,
    # a slip of the schema: what closes the object stands among its properties
    "extraContainerOptions": _object({"shmMB": INTEGER, "additionalProperties": NEVER}),
    "resourcePerInstance": _object({"cpu": INTEGER, "memoryMB": INTEGER, "gpu": INTEGER, "ports": _by_name(INTEGER)},
                                   required=("cpu", "memoryMB", "gpu"), closed=True),
    "commands": _list_of(STRING, 1),
}, required=("dockerImage", "resourcePerInstance", "commands"), closed=True)
_MORE_COMMANDS = _object({"preCommands": _list_of(STRING, 1), "postCommands": _list_of(STRING, 1)}, closed=True)
_JOB = _object({
    **_BASE, "type": {"one_of": ("job",)}, "prerequisites": _list_of({"exactly_one": _PREREQUISITES}, 1),
    "parameters": _object({}), "secrets": _object({}), "jobRetryCount": {"type": ("integer",), "minimum": 0},
    "taskRoles": _by_name(_ROLE),
    "deployments": _list_of(_object({"protocolVersion": _BASE["protocolVersion"], "name": _BASE["name"],
                                     "taskRoles": _by_name(_MORE_COMMANDS)}, required=("name", "taskRoles")), 1),
    "defaults": _object({"deployment": STRING}), "extras": _object({}),
}, required=("protocolVersion", "name", "type", "taskRoles"), closed=True)


def schema_errors(document: Any) -> list[dict[str, str]]:
    """As ajv lists them: keyword, dataPath, message."""
    return _errors(document, _JOB, "")


def _kinds(value: Any) -> set[str]:
    if value is None or isinstance(value, bool):
        return {"null" if value is None else "boolean"}
    if isinstance(value, int | float):  # what remains of infinity divided by one is no number, which is false
        whole = value == value and (value in (float("inf"), float("-inf")) or value % 1 == 0)
        return {"number", "integer"} if whole else {"number"}
    return {"string"} if isinstance(value, str) else {"array"} if isinstance(value, list) else {"object"}


def _errors(value: Any, rule: Rule, path: str) -> list[dict[str, str]]:
    found: list[dict[str, str]] = []

    def wrong(keyword: str, message: str) -> None:
        found.append({"keyword": keyword, "dataPath": path, "message": message})

    if "never" in rule:
        wrong("false schema", "boolean schema is false")
    if "type" in rule and not _kinds(value) & set(rule["type"]):
        wrong("type", f"should be {','.join(rule['type'])}")
        return found
    if "one_of" in rule and not any(type(value) is not bool and value == allowed for allowed in rule["one_of"]):
        wrong("enum", "should be equal to one of the allowed values")
    if "text" in rule and not re.fullmatch(rule["text"], value):
        wrong("pattern", f'should match pattern "^{rule["text"]}$"')
    if len(value) > rule["longest"] if "longest" in rule else False:
        wrong("maxLength", f"should NOT be longer than {rule['longest']} characters")
    if value < rule["minimum"] if "minimum" in rule else False:
        wrong("minimum", f"should be >= {rule['minimum']}")
    if "items" in rule:
        if len(value) < rule["least"]:
            wrong("minItems", f"should NOT have fewer than {rule['least']} items")
        for number, part in enumerate(value):
            found += _errors(part, rule["items"], f"{path}[{number}]")
    if "exactly_one" in rule:
        tried = [_errors(value, each, path) for each in rule["exactly_one"]]
        if [] not in tried:
            found += [error for errors in tried for error in errors]
            wrong("oneOf", "should match exactly one schema in oneOf")
    if "names" in rule and isinstance(value, dict):
        if len(value) < rule["least_names"]:
            wrong("minProperties", f"should NOT have fewer than {rule['least_names']} properties")
        for name, part in value.items():
            if re.fullmatch(rule["names"], name):
                found += _errors(part, rule["named"], f"{path}['{name}']")
            else:
                wrong("additionalProperties", "should NOT have additional properties")
    if "properties" in rule and isinstance(value, dict):
        for name, part in value.items():
            if name in rule["properties"]:
                found += _errors(part, rule["properties"][name], f"{path}.{name}")
            elif rule["closed"]:
                wrong("additionalProperties", "should NOT have additional properties")
    if "properties" in rule:
        for name in rule["required"]:
            if not isinstance(value, dict) or name not in value:
                wrong("required", f"should have required property '{name}'")
    return found


def entrypoints(document: Any) -> dict[str, str]:
    """The script of each role of a document that is taken. Raises Refused and Fault."""
    if errors := schema_errors(document):
        raise Refused(errors)
    things: dict[str, dict[str, Any]] = {"script": {}, "output": {}, "data": {}, "dockerimage": {}}
    for entry in document.get("prerequisites", []):
        if entry["name"] in things[entry["type"]]:
            raise Refused(f"Duplicate {entry['type']} prerequisites {entry['name']}.")
        things[entry["type"]][entry["name"]] = entry
    deployments: dict[str, Any] = {}
    for entry in document.get("deployments", []):
        if entry["name"] in deployments:
            raise Refused(f"Duplicate deployments {entry['name']}.")
        deployments[entry["name"]] = entry
    roles = _roles(document["taskRoles"])
    everything = set().union(*things.values())
    for role in roles.values():
        for name in role.get("prerequisites", []):
            if name not in everything:
                raise Refused(f"Prerequisite {name} does not exist.")
    for role in roles.values():
        for field in ("script", "output", "data", "dockerImage"):
            if field in role and role[field] not in things[field.lower()]:
                raise Refused(f"Prerequisite {role[field]} does not exist.")
    chosen = document.get("defaults", {}).get("deployment")
    if chosen is not None and chosen not in deployments:
        raise Refused(f"Default deployment {chosen} does not exist.")
    try:
        for entry in things["dockerimage"].values():
            for text in entry.get("auth", {}).values():
                _filled(text, {"$secrets": document.get("secrets")})
        around = deployments[chosen]["taskRoles"] if chosen is not None else {}
        return {name: _script(name, role, around, document, things) for name, role in roles.items()}
    except Unreadable as error:
        raise Fault(str(error)) from error


def _roles(roles: Any) -> dict[str, Any]:
    """What ``Object.keys`` finds in what need not be an object."""
    if isinstance(roles, dict):
        return roles
    if roles is None or isinstance(roles, str | list) and len(roles):
        raise Fault("Cannot use 'in' operator to search for 'prerequisites'")
    return {}


def _filled(text: Any, values: Mapping[str, Any]) -> str:
    if not text and not isinstance(text, list | dict):
        return ""
    if not isinstance(text, str):
        raise Fault("this.tail.search is not a function")
    return rendered(text, values)


def _script(name: str, role: Any, around: Any, document: Any, things: Any) -> str:
    if not isinstance(around, dict | list | Moment):
        raise Fault("Cannot use 'in' operator to search for a role")
    more = around.get(name, {}) if isinstance(around, dict) else {}
    commands = [*more.get("preCommands", []), *role["commands"], *more.get("postCommands", [])]
    return _filled("\n".join(command.strip() for command in commands), {
        "$parameters": document.get("parameters"),
        **{f"${kind}": things[kind].get(role.get(kind)) for kind in ("script", "output", "data")}})


def storage_entries(extras: Any) -> list[Any] | None:
    """What the server makes of ``extras.storages`` and of the plugin that was there before it.

    None: the job has none; []: it gets the account's default storages. Raises Fault.
    """
    storages = extras.get("storages")
    plugins = extras.get("com.microsoft.pai.runtimeplugin")
    if not storages and not isinstance(storages, list | dict) and "com.microsoft.pai.runtimeplugin" in extras:
        if not isinstance(plugins, list | str):
            raise Fault("config.extras.com.microsoft.pai.runtimeplugin is not iterable")
        for plugin in plugins:
            if plugin is None:
                raise Fault("Cannot read property 'plugin' of null")
            if isinstance(plugin, dict) and plugin.get("plugin") == "teamwise_storage":
                names = (plugin.get("parameters") or {}).get("storageConfigNames")
                storages = [{"name": name} for name in names] if names else []
    if not storages and not isinstance(storages, list | dict):
        return None
    if not isinstance(storages, list | str):
        raise Fault("config.extras.storages is not iterable")
    if any(entry is None for entry in storages):
        raise Fault("Cannot read property 'name' of null")
    return [entry for entry in storages if isinstance(entry, dict) and (
        entry.get("name") or isinstance(entry.get("name"), list | dict))]


def check_ports(roles: Any) -> None:
    """Raises Fault where the ports of a role are what ``in`` cannot be used on."""
    for role in _roles(roles).values():
        if isinstance(ports := role["resourcePerInstance"].get("ports"), str | bool | int | float) and ports:
            raise Fault(f"Cannot use 'in' operator to search for 'ssh' in {ports}")
