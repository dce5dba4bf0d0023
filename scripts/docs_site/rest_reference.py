"""The pages about the REST interface, from the schema that drf-spectacular makes of the code: requests, and objects."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

REQUESTS, OBJECTS = "rest.md", "rest-objects.md"
_ABOUT_REQUESTS = """\
# REST: all requests

This page is made from the code. A running server has the same as pages to try requests out, *API* in its menu, and as
an OpenAPI document at `/api/schema/`. [The client](client.md) makes these requests for Python programs.

Requests carry a token, which [your account page](accounts.md) makes: `Authorization: Token nniweb_...`. Bodies and
answers are JSON unless another type is named. An error has the form of [Errors](rest-objects.md#errors) and says what
to do. Who may send which request is in [Who may open what](access.md).
"""
_ABOUT_OBJECTS = """\
# REST: all objects

The bodies and answers of [the requests](rest.md), in the order of the alphabet. A field with a \\* is always there, or
is needed in a body.
"""
#: What drf-spectacular writes below a description for each choice, as its name says it.
_CHOICES = re.compile(r"\n*(?:^\* `.*` - .*$\n?)+", re.MULTILINE)


def reference_pages() -> dict[str, str]:
    """Name of each page -> its Markdown. Loads the server's settings and code."""
    import django

    django.setup()
    from drf_spectacular.generators import SchemaGenerator

    schema = SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
    return {REQUESTS: "\n".join(_requests(schema)), OBJECTS: "\n".join(_objects(schema["components"]["schemas"]))}


def _requests(schema: dict[str, Any]) -> Iterator[str]:
    yield _ABOUT_REQUESTS
    by_tag: dict[str, list[tuple[str, str, dict[str, Any]]]] = {}
    for path, operations in schema["paths"].items():
        for method, operation in operations.items():
            by_tag.setdefault(operation["tags"][0], []).append((method.upper(), path, operation))
    for tag in sorted(by_tag):
        yield f"## {tag}\n"
        for method, path, operation in by_tag[tag]:
            yield from _request(method, path, operation)


def _request(method: str, path: str, operation: dict[str, Any]) -> Iterator[str]:
    yield f"### {method} {path}\n"
    yield _plain(operation.get("description", "")) + "\n"
    parameters = [each for each in operation.get("parameters", ()) if each["in"] != "path"]
    if parameters:
        yield "| parameter | where | type | meaning |\n|---|---|---|---|"
        for each in parameters:
            yield _row(f"`{each['name']}`" + (" \\*" if each.get("required") else ""), each["in"],
                       _type(each["schema"]), _meaning({**each["schema"], **each}))
        yield ""
    for kind, content in operation.get("requestBody", {}).get("content", {}).items():
        yield f"Body (`{kind}`): {_type(content['schema'])}\n"
    for status, response in operation["responses"].items():
        if status != "default":
            kinds = [f"{_type(content['schema'])}" + (f" (`{kind}`)" if kind != "application/json" else "")
                     for kind, content in response.get("content", {}).items()]
            said = _plain(response.get("description", ""))
            yield f"Answer {status}: {', or '.join(kinds) or 'no body'}{'. ' + said if said else ''}\n"


def _objects(schemas: dict[str, Any]) -> Iterator[str]:
    yield _ABOUT_OBJECTS
    for name in sorted(schemas, key=str.lower):
        schema = schemas[name]
        yield f"## {name}\n"
        if "enum" in schema:
            yield _type(schema) + "\n"
            continue
        yield _plain(schema.get("description", "")) + "\n"
        if schema["properties"]:
            yield "| field | type | meaning |\n|---|---|---|"
            for field, inner in schema["properties"].items():
                is_needed = field in schema.get("required", ())
                yield _row(f"`{field}`" + (" \\*" if is_needed else ""), _type(inner), _meaning(inner))
            yield ""


def _type(schema: dict[str, Any]) -> str:
    """In words; names of objects are links to them."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}]({OBJECTS}#{name.lower()})"
    for several in ("allOf", "oneOf", "anyOf"):
        if several in schema:
            kinds = [_type(each) for each in schema[several] if not str(each.get("$ref", "")).endswith(
                ("/NullEnum", "/BlankEnum"))]
            return " or ".join(kinds) + _or_null(schema)
    if "enum" in schema:
        return ", ".join(f"`{value}`" if value not in ("", None) else "empty" for value in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'])}{_or_null(schema)}"
    if isinstance(schema.get("additionalProperties"), dict) and schema["additionalProperties"]:
        return f"object whose values are {_type(schema['additionalProperties'])}{_or_null(schema)}"
    return (schema.get("type") or "any JSON") + (
        f" ({schema['format']})" if schema.get("format") in ("date-time", "uri", "email", "binary") else "") + _or_null(
        schema)


def _or_null(schema: dict[str, Any]) -> str:
    return " or null" if schema.get("nullable") else ""


def _meaning(schema: dict[str, Any]) -> str:
    facts = [_plain(schema.get("description", ""))]
    facts += ["Only in answers."] if schema.get("readOnly") else ["Only in bodies."] if schema.get("writeOnly") else []
    facts += [f"Left out: `{schema['default']}`."] if schema.get("default") not in (None, "") else []
    facts += [f"At most {schema['maxLength']} characters."] if "maxLength" in schema else []
    facts += [f"{word} {schema[key]}." for key, word in (("minimum", "At least"), ("maximum", "At most"))
              if key in schema]
    return " ".join(fact for fact in facts if fact)


def _plain(text: str) -> str:
    """A description without the list of choices, which its type has; double quotes of reStructuredText are single."""
    return _CHOICES.sub("", text).replace("``", "`").strip()


def _row(*cells: str) -> str:
    return "| " + " | ".join(re.sub(r"\s*\n\s*", " ", cell).replace("|", "\\|") for cell in cells) + " |"
