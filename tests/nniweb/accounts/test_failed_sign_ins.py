"""Whoever guesses passwords is soon told to wait; everybody else is not."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test import RequestFactory
from django.utils import timezone

from nniweb.experiments import sign_in_attempts
from nniweb.experiments.models import AuditEntry, SignInLink


def try_it(client, name: str, password: str = "wrong", address: str = "192.0.2.1") -> int:
    return client.post("/sign-in/", {"username": name, "password": password}, REMOTE_ADDR=address).status_code


def make_older(by: timedelta) -> None:
    """As if that much time had passed since the failures; the log itself offers no way."""
    with connection.cursor() as cursor:
        for pk, at in AuditEntry.objects.values_list("pk", "at"):
            cursor.execute(f"UPDATE {AuditEntry._meta.db_table} SET at = %s WHERE id = %s", [at - by, pk])


def test_after_five_failures_the_right_password_is_not_tried_either(client, max_) -> None:
    assert [try_it(client, "max") for _ in range(5)] == [200] * 5
    answer = client.post("/sign-in/", {"username": " MAX ", "password": "a long pass phrase"}, REMOTE_ADDR="192.0.2.1")
    assert answer.status_code == 429
    assert 0 < int(answer["Retry-After"]) <= 900
    assert "Too many attempts" in answer.content.decode()
    assert AuditEntry.objects.count() == 5, "what was refused makes no row: the log cannot be filled"


def test_from_elsewhere_and_by_another_name_it_goes_on(client, max_, rita) -> None:
    rita.set_password("another pass phrase")
    rita.save()
    for _ in range(5):
        try_it(client, "max")
    assert try_it(client, "rita", "another pass phrase") == 302
    client.logout()
    assert try_it(client, "max", "a long pass phrase", "192.0.2.2") == 302


def test_after_a_quarter_of_an_hour_it_goes_on(client, max_) -> None:
    for _ in range(5):
        try_it(client, "max")
    make_older(timedelta(minutes=15))
    assert try_it(client, "max", "a long pass phrase") == 302


def test_a_name_that_nobody_has_waits_as_long_so_that_nothing_is_learnt(client, max_) -> None:
    assert [try_it(client, "nobody") for _ in range(6)] == [200] * 5 + [429]


@pytest.mark.parametrize(("many", "other"), [("names", ("new", "192.0.2.1")), ("addresses", ("max", "198.51.100.9"))])
def test_many_names_from_one_address_and_one_name_from_many_wait_too(db, many, other) -> None:
    most = sign_in_attempts.MOST_OF_ADDRESS if many == "names" else sign_in_attempts.MOST_OF_NAME
    request = RequestFactory().get("/")
    for number in range(most):
        request.META["REMOTE_ADDR"] = "192.0.2.1" if many == "names" else f"198.51.100.{number % 200}"
        sign_in_attempts.note_failure(f"name{number}" if many == "names" else "max", request)
    name, request.META["REMOTE_ADDR"] = other[0], "203.0.113.1"
    assert (sign_in_attempts.wait_before(name, request) is None) == (many == "names")
    request.META["REMOTE_ADDR"] = other[1]
    wait = sign_in_attempts.wait_before(name, request, timezone.now())
    assert wait is not None
    assert timedelta() < wait <= sign_in_attempts.PERIOD


def test_links_that_are_used_up_are_put_down_a_few_times_and_keep_nobody_out(client, max_) -> None:
    for _ in range(8):
        assert client.get("/sign-in/used-up/", REMOTE_ADDR="192.0.2.1").status_code == 410
    rows = list(AuditEntry.objects.filter(action="sign-in.failed"))
    assert len(rows) == 5
    assert all("link" in row.details["reason"] for row in rows)
    assert try_it(client, "max", "a long pass phrase") == 302


def test_a_link_signs_in_whoever_has_to_wait(client, max_) -> None:
    for _ in range(6):
        try_it(client, "max")
    assert client.post(f"/sign-in/{SignInLink.make(max_)}/", REMOTE_ADDR="192.0.2.1").status_code == 302
    assert AuditEntry.objects.get(action="sign-in").via == "sign-in link"
