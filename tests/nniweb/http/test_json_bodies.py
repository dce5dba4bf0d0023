"""What is said of a request's body that is no JSON."""

from __future__ import annotations

import io
import json
from types import SimpleNamespace

import pytest
from django.test import Client
from rest_framework import serializers
from rest_framework.exceptions import ParseError

from nniweb.http.fields import StrictSerializer
from nniweb.http.parsers import JSONParser

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(("body", "said"), [
    (b'{"name": "x",}', "line 1, column 14: a comma stands before the closing bracket; remove it"),
    (b'{"name": NaN}', "NaN and Infinity are no numbers of JSON"),
    (b'{"name": "\xff"}', "it is not UTF-8 text"),
])
def test_a_body_that_is_no_json_is_told_line_column_and_mistake(django_user_model, body: bytes, said: str) -> None:
    client = Client()
    client.force_login(django_user_model.objects.create_user("ada"))
    answer = client.post("/api/v1/experiments/", body, content_type="application/json")
    assert answer.status_code == 400
    assert [error["message"] for error in answer.json()["errors"]] == [f"The body is not JSON: {said}."]


def parsed(body: object) -> object:
    return JSONParser().parse(io.BytesIO(json.dumps(body).encode()), None, {"request": SimpleNamespace(META={})})


def test_the_way_to_a_value_is_written_only_where_it_is_told() -> None:
    long = {"k" * 4_000_000: [1] * 200_000}
    assert parsed(long) == long
    with pytest.raises(ParseError) as refused:
        parsed({"a": [{"b": "\0"}]})
    assert list(refused.value.detail) == ["a[0].b"]


def test_of_many_unknown_fields_a_few_are_told() -> None:
    class Form(StrictSerializer):
        name = serializers.CharField(required=False)

    form = Form(data={f"nam{number}": 1 for number in range(100_000)})
    assert not form.is_valid()
    assert list(form.errors) == [f"nam{number}" for number in range(20)]
