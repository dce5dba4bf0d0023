"""Tokens for programs, sessions for browsers."""

from datetime import timedelta

import psycopg
import pytest
from django.db import DatabaseError, InternalError, OperationalError, connection
from django.test import Client
from django.utils import timezone
from rest_framework.test import APIClient

from nniweb.experiments.models import ApiToken


def test_without_a_proof_of_who_asks_the_answer_is_401(db: None) -> None:
    answer = APIClient().get("/api/v1/experiments/")
    assert answer.status_code == 401
    assert answer["WWW-Authenticate"] == "Token"
    assert answer.json()["errors"][0]["field"] == ""


def test_a_token_opens_the_door(ada) -> None:
    secret = ApiToken.make(ada)
    assert APIClient().get("/api/v1/experiments/", headers={"Authorization": f"Token {secret}"}).status_code == 200
    assert secret not in str(list(ApiToken.objects.values()))


def test_a_wrong_token_is_401_also_on_a_public_sounding_path(ada) -> None:
    for wrong in ("Token nniweb_x", "Token", "Token \udcff\udcfe", "Token a b c"):
        answer = APIClient().get("/api/v1/platforms/", HTTP_AUTHORIZATION=wrong)
        assert answer.status_code == 401, wrong


def test_the_token_of_a_person_who_left_is_refused(ada) -> None:
    secret = ApiToken.make(ada)
    ada.is_active = False
    ada.save()
    assert APIClient().get("/api/v1/workers/", headers={"Authorization": f"Token {secret}"}).status_code == 401


def test_the_use_of_a_token_is_noted_at_most_once_a_minute(ada, django_assert_num_queries) -> None:
    client = APIClient(headers={"Authorization": f"Token {ApiToken.make(ada)}"})
    client.get("/api/v1/workers/")
    first = ApiToken.objects.get().last_used_at
    assert first is not None
    client.get("/api/v1/workers/")
    assert ApiToken.objects.get().last_used_at == first
    ApiToken.objects.update(last_used_at=timezone.now() - timedelta(minutes=2))
    client.get("/api/v1/workers/")
    assert ApiToken.objects.get().last_used_at >= first


def test_a_session_may_look_and_needs_the_csrf_token_to_change(ada, make_experiment) -> None:
    experiment = make_experiment()
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(ada)
    assert browser.get(f"/api/v1/experiments/{experiment.public_id}/").status_code == 200
    refused = browser.post(f"/api/v1/experiments/{experiment.public_id}/actions/pause/")
    assert refused.status_code == 403
    assert "CSRF" in refused.json()["errors"][0]["message"]
    browser.cookies["csrftoken"] = "a" * 32
    accepted = browser.post(f"/api/v1/experiments/{experiment.public_id}/actions/pause/", {}, "application/json",
                            headers={"X-CSRFToken": "a" * 32})
    assert accepted.status_code == 200


def read_only() -> InternalError:
    """As after a fail-over."""
    error = InternalError("cannot execute UPDATE in a read-only transaction")
    error.__cause__ = psycopg.errors.ReadOnlySqlTransaction()
    return error


@pytest.mark.parametrize("error", [OperationalError("database or disk is full"), read_only()])
def test_where_nothing_can_be_written_a_token_still_lets_look(transactional_db, ada, error: DatabaseError) -> None:
    client = APIClient(headers={"Authorization": f"Token {ApiToken.make(ada)}"})

    def refuse(execute, sql, params, many, context):
        if sql.startswith("UPDATE"):
            raise error
        return execute(sql, params, many, context)

    with connection.execute_wrapper(refuse):
        assert client.get("/api/v1/experiments/").status_code == 200
