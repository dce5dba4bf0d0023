"""How the API double checks what it is sent: names, labels, and schemas, with the messages of the real one."""

from __future__ import annotations

import re
from typing import Any

Object = dict[str, Any]
#: (field, reason, message) of one thing that is wrong.
Cause = tuple[str, str, str]

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_KEY_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")

_NAME_RULE = ("a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and "
              "must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
              "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')")
_LABEL_RULE = ("a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
               "start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used "
               "for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')")


def metadata_causes(item: Object) -> list[Cause]:
    """What is wrong with name and labels."""
    metadata = item.get("metadata") or {}
    name = metadata.get("name") or ""
    if not name:
        return [("metadata.name", "FieldValueRequired", "Required value: name or generateName is required")]
    return [*subdomain_causes(name, "metadata.name"), *labels_and_annotations(metadata, "metadata")]


def labels_and_annotations(metadata: Object, path: str) -> list[Cause]:
    """What is wrong with the labels and annotations of an object, or of a template."""
    annotations = metadata.get("annotations") or {}
    causes = label_causes(metadata.get("labels") or {}, f"{path}.labels")
    causes += [cause for key in annotations for cause in _key_causes(key.lower(), f"{path}.annotations", key)]
    if sum(len(key) + len(value.encode()) for key, value in annotations.items()) > 256 * 1024:
        causes.append((f"{path}.annotations", "FieldValueTooLong", "Too long: must have at most 262144 bytes"))
    return causes


def label_causes(labels: dict[str, str], path: str) -> list[Cause]:
    """What is wrong with labels, or with a selector of labels."""
    causes: list[Cause] = []
    for key, value in labels.items():
        causes += _key_causes(key, path, key)
        if len(value) > 63:
            causes.append(invalid(path, value, "must be no more than 63 characters"))
        elif not _LABEL_VALUE.fullmatch(value):
            causes.append(invalid(path, value, _LABEL_RULE))
    return causes


def _key_causes(key: str, path: str, shown: str) -> list[Cause]:
    domain, slash, name = key.rpartition("/")
    if not name:
        return [invalid(path, shown, "name part must be non-empty")]
    causes = subdomain_causes(domain, path, f"prefix part {_NAME_RULE}") if slash else []
    if len(name) > 63:
        causes.append(invalid(path, shown, "name part must be no more than 63 characters"))
    if not _KEY_NAME.fullmatch(name):
        causes.append(invalid(path, shown, "name part must consist of alphanumeric characters, '-', '_' or '.', and "
                                           "must start and end with an alphanumeric character"))
    return causes


def subdomain_causes(name: str, path: str, rule: str = "") -> list[Cause]:
    """What is wrong with a name that must be a subdomain of RFC 1123."""
    if len(name) > 253:
        return [invalid(path, name, "must be no more than 253 characters")]
    return [] if _SUBDOMAIN.fullmatch(name) else [invalid(path, name, rule or _NAME_RULE)]


def invalid(field: str, value: object, rule: str) -> Cause:
    shown = f'"{value}"' if isinstance(value, str) else str(value)
    return field, "FieldValueInvalid", f"Invalid value: {shown}: {rule}"


_TYPES: dict[str, tuple[type, ...]] = {"object": (dict,), "array": (list,), "string": (str,), "boolean": (bool,),
                                       "integer": (int,), "number": (int, float)}


def schema_causes(value: Any, schema: Object, field: str = "") -> list[Cause]:
    """What of an OpenAPI v3 schema is broken. ``strict`` in a schema refuses unknown fields."""
    if value is None:
        return []
    kind = schema.get("type")
    if "x-kubernetes-int-or-string" in schema:
        return []
    if kind and (not isinstance(value, _TYPES[kind]) or kind != "boolean" and isinstance(value, bool)):
        found = next(name for name, types in _TYPES.items() if isinstance(value, types)
                     and (name == "boolean" or not isinstance(value, bool)))
        return [(field, "FieldValueInvalid",
                 f'Invalid value: "{found}": {field} in body must be of type {kind}: "{found}"')]
    causes: list[Cause] = []
    if "minimum" in schema and value < schema["minimum"]:
        causes.append(invalid(field, value, f"{field} in body should be greater than or equal to {schema['minimum']}"))
    if "maximum" in schema and value > schema["maximum"]:
        causes.append(invalid(field, value, f"{field} in body should be less than or equal to {schema['maximum']}"))
    if "pattern" in schema and not re.search(schema["pattern"], value):
        causes.append(invalid(field, value, f"{field} in body should match '{schema['pattern']}'"))
    if "enum" in schema and value not in schema["enum"]:
        supported = ", ".join(f'"{word}"' for word in schema["enum"])
        causes.append((field, "FieldValueNotSupported", f'Unsupported value: "{value}": supported values: {supported}'))
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        for name in schema.get("required", []):
            if name not in value:
                causes.append((_join(field, name), "FieldValueRequired", "Required value"))
        for name, item in value.items():
            if name in properties:
                causes += schema_causes(item, properties[name], _join(field, name))
            elif isinstance(schema.get("additionalProperties"), dict):
                causes += schema_causes(item, schema["additionalProperties"], _join(field, name))
            elif schema.get("strict"):
                causes.append((_join(field, name), "FieldValueInvalid", f'unknown field "{_join(field, name)}"'))
    elif isinstance(value, list) and "items" in schema:
        for item in value:  # the real server's messages carry no index either
            causes += schema_causes(item, schema["items"], field)
    return causes


def _join(field: str, name: str) -> str:
    return f"{field}.{name}" if field else name


def as_stored(value: Any, schema: Object) -> Any:
    """The value as the real server stores it: without fields that a structural schema does not know, with defaults."""
    if isinstance(value, dict) and "properties" in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
        known = schema["properties"]
        defaults = {name: item["default"] for name, item in known.items() if "default" in item}
        return {**defaults, **{name: as_stored(item, known[name]) for name, item in value.items() if name in known}}
    if isinstance(value, dict) and isinstance(schema.get("additionalProperties"), dict):
        return {name: as_stored(item, schema["additionalProperties"]) for name, item in value.items()}
    if isinstance(value, list) and "items" in schema:
        return [as_stored(item, schema["items"]) for item in value]
    return value
