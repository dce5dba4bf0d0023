"""The OpenAPI schema says everything, and truly."""

import json
import re

import pytest
from django.urls import get_resolver
from drf_spectacular.drainage import GENERATOR_STATS
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.validation import validate_schema


@pytest.fixture
def schema() -> dict:
    GENERATOR_STATS.reset()
    return SchemaGenerator().get_schema(request=None, public=True)


def test_the_schema_is_made_without_a_warning(schema) -> None:
    validate_schema(schema)
    assert not GENERATOR_STATS, dict(GENERATOR_STATS._warn_cache) | dict(GENERATOR_STATS._error_cache)


def test_every_address_is_in_the_schema(schema) -> None:
    api = next(pattern for pattern in get_resolver().url_patterns if str(pattern.pattern) == "api/v1/")
    addresses = {"/api/v1/" + re.sub(r"<\w+:(\w+)>", r"{\1}", str(pattern.pattern)) for pattern in api.url_patterns}
    assert addresses - {"/api/v1/"} == set(schema["paths"])


def test_every_operation_says_what_it_does_and_how_it_fails(schema) -> None:
    assert len(schema["paths"]) > 50
    for path, operations in schema["paths"].items():
        for method, operation in operations.items():
            assert operation.get("description"), f"{method} {path}"
            assert "default" in operation["responses"], f"{method} {path}"


def test_the_schema_says_what_is_told_of_who_holds_gpus_of_a_machine(schema) -> None:
    holders = schema["components"]["schemas"]["Machine"]["properties"]["gpu_holders"]
    assert holders["items"] == {"$ref": "#/components/schemas/GpuHolder"}


def test_the_schema_is_served_as_it_is_made_and_made_once(api, client, db, schema, monkeypatch) -> None:
    assert api.get("/api/schema/?format=json").json() == json.loads(json.dumps(schema, default=str))
    monkeypatch.setattr(SchemaGenerator, "parse", lambda *_: {})
    assert api.get("/api/schema/?format=json").json()["paths"].keys() == schema["paths"].keys()
    assert api.get("/api/schema/?format=json&version=2").json()["paths"] == {}, "nobody has asked for this one before"


def test_the_schema_is_served_to_people_who_are_signed_in(api, client, db) -> None:
    assert api.get("/api/schema/?format=json").status_code == 200
    assert client.get("/api/schema/").status_code in (401, 403)
