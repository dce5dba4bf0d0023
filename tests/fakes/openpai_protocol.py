"""What an OpenPAI server says to a job document, by the reference of the platform and nobody else's code.

Only what the reference tells: the product's own schema may be stricter, never laxer.
"""

from __future__ import annotations

import re
from typing import Any

TOP = {"protocolVersion", "name", "type", "version", "contributor", "description", "prerequisites", "parameters",
       "secrets", "jobRetryCount", "taskRoles", "deployments", "defaults", "extras"}
ROLE = {"protocolVersion", "instances", "completion", "taskRetryCount", "prerequisites", "dockerImage", "data",
        "output", "script", "extraContainerOptions", "resourcePerInstance", "commands"}
IMAGE = {"protocolVersion", "name", "type", "version", "contributor", "description", "auth", "uri"}


def whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def refusals(document: Any) -> list[str]:
    """Why the server refuses it; [] for a document that it takes."""
    if not isinstance(document, dict):
        return ["should be object"]
    found = [f"should have required property '{key}'" for key in ("protocolVersion", "name", "type", "taskRoles")
             if key not in document]
    found += ["should NOT have additional properties" for key in document if key not in TOP]
    if found:
        return found
    checks = [
        (document["protocolVersion"] in (2, "2"), ".protocolVersion should be equal to one of the allowed values"),
        (re.fullmatch("[A-Za-z0-9_-]{1,255}", str(document["name"])), ".name should match pattern"),
        (document["type"] == "job", ".type should be equal to constant"),
        (whole(document.get("jobRetryCount", 0)) and document.get("jobRetryCount", 0) >= 0, ".jobRetryCount"),
        (isinstance(document["taskRoles"], dict) and document["taskRoles"], ".taskRoles should NOT be empty"),
        (document.get("prerequisites") != [], ".prerequisites should NOT have fewer than 1 items"),
        *((isinstance(document.get(key, {}), dict), f".{key} should be object")
          for key in ("parameters", "secrets", "defaults", "extras")),
    ]
    if found := [message for passed, message in checks if not passed]:
        return found
    things: dict[str, set[str]] = {}
    for entry in document.get("prerequisites") or []:
        if not {"name", "type", "uri"} <= set(entry) or entry["type"] == "dockerimage" and not set(entry) <= IMAGE:
            return [".prerequisites is wrong"]
        if entry["name"] in things.setdefault(entry["type"], set()):
            return [f"Duplicate {entry['type']} prerequisites {entry['name']}"]
        things[entry["type"]].add(entry["name"])
    return [message for name, role in document["taskRoles"].items() for message in _role(name, role, things)]


def _role(name: str, role: Any, things: dict[str, set[str]]) -> list[str]:
    place = f".taskRoles.{name}"
    if not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name):
        return [".taskRoles should NOT have additional properties"]
    if not isinstance(role, dict) or not {"dockerImage", "resourcePerInstance", "commands"} <= set(role) <= ROLE:
        return [f"{place} lacks a property or has one too many"]
    size, completion = role["resourcePerInstance"], role.get("completion", {})
    checks = [
        (isinstance(size, dict) and {"cpu", "memoryMB", "gpu"} <= set(size) <= {"cpu", "memoryMB", "gpu", "ports"}
         and all(whole(size[key]) for key in ("cpu", "memoryMB", "gpu")), "resourcePerInstance"),
        (whole(role.get("instances", 1)) and role.get("instances", 1) >= 1, "instances"),
        (isinstance(role["commands"], list) and role["commands"]
         and all(isinstance(line, str) for line in role["commands"]), "commands"),
        (isinstance(completion, dict) and set(completion) <= {"minFailedInstances", "minSucceededInstances"}
         and all(value is None or whole(value) for value in completion.values()), "completion"),
        (all(key not in role or role[key] in things.get(key.lower(), set())
             for key in ("dockerImage", "data", "output", "script")), "names a prerequisite that does not exist"),
        (set(role.get("prerequisites") or []) <= set().union(*things.values()), "prerequisites do not exist"),
    ]
    return [f"{place} {message}" for passed, message in checks if not passed]
