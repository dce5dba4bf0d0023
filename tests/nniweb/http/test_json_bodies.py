"""What is said of a request's body that is no JSON."""

from __future__ import annotations

import pytest
from django.test import Client

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
