"""Whoever guesses passwords is soon told to wait; everybody else is not."""

import threading
from datetime import timedelta

import pytest
from django.db import connections
from django.db.models import F
from django.test import RequestFactory
from django.utils import timezone

from nniweb.experiments.access import sign_in_attempts
from nniweb.experiments.access.request_actor import asked_at
from nniweb.experiments.models import AuditEntry, SignInAttempt, SignInLink


def try_it(client, name: str, password: str = "wrong", address: str = "192.0.2.1") -> int:
    return client.post("/sign-in/", {"username": name, "password": password}, REMOTE_ADDR=address).status_code


def make_older(by: timedelta) -> None:
    """As if that much time had passed since the failures."""
    SignInAttempt.objects.update(at=F("at") - by)


def fail(name: str, address: str) -> bool:
    """Whether a password was tried (a wrong one)."""
    request = RequestFactory().get("/", REMOTE_ADDR=address)
    with asked_at(request):
        try:
            with sign_in_attempts.attempt(name):
                return True
        except sign_in_attempts.TooManyAttempts:
            return False


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


def test_many_names_from_one_address_wait_and_elsewhere_nobody_does(db) -> None:
    assert all(fail(f"name{number}", "192.0.2.1") for number in range(sign_in_attempts.MOST_OF_ADDRESS))
    assert not fail("new", "192.0.2.1")
    assert fail("name1", "203.0.113.1")


def test_one_name_from_many_addresses_waits_and_no_other_name_does(db) -> None:
    assert all(fail("max", f"198.51.100.{number}") for number in range(sign_in_attempts.MOST_OF_NAME))
    assert not fail("max", "203.0.113.1")
    assert fail("rita", "203.0.113.1")


def test_a_whole_network_of_ipv6_is_one_address_and_the_log_says_which_one_it_was(db) -> None:
    """Whoever has one address of IPv6 has the 2**64 beside it."""
    assert all(fail("max", f"2001:db8::{number}") for number in range(1, 6))
    assert not fail("max", "2001:db8::1:0:0:6")
    assert fail("max", "2001:db8:0:1::6")
    assert fail("max", "192.0.2.1")
    assert AuditEntry.objects.order_by("pk").values_list("address", flat=True)[4] == "2001:db8::5"


@pytest.mark.parametrize("same", ["ｍax", "ＭＡＸ", "Max ", "m\u0061x", "\u2003max"])
def test_a_name_counts_as_django_understands_it(client, max_, same) -> None:
    for _ in range(5):
        try_it(client, "max")
    assert try_it(client, same, "a long pass phrase") == 429


def test_a_name_that_is_typed_in_another_way_each_time_is_one_name(client, max_) -> None:
    names = ["max", "ｍax", "mａx", "maｘ", "ｍａx"]
    assert [try_it(client, name) for name in names] == [200] * 5
    assert try_it(client, "ｍａｘ", "a long pass phrase") == 429


def test_the_right_password_leaves_nothing_that_counts(client, max_) -> None:
    for _ in range(8):
        assert try_it(client, "max", "a long pass phrase") == 302
        client.logout()
    assert not SignInAttempt.objects.exists()


def test_a_process_that_ended_while_it_looked_at_a_password_has_let_nobody_guess_more(client, max_) -> None:
    for _ in range(5):
        SignInAttempt.objects.create(mark=sign_in_attempts._mark("max"), address="192.0.2.1", at=timezone.now())
    assert try_it(client, "max", "a long pass phrase") == 429
    make_older(timedelta(minutes=15))
    assert try_it(client, "max", "a long pass phrase") == 302


def test_failures_that_count_no_more_are_forgotten(client, max_) -> None:
    try_it(client, "max")
    make_older(timedelta(minutes=15))
    try_it(client, "rita")
    assert SignInAttempt.objects.count() == 1


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("names", ["one name", "many names", "one name from everywhere"])
def test_of_160_passwords_at_the_same_moment_exactly_as_many_are_tried_as_one_after_the_other(max_, names) -> None:
    tried, start = [], threading.Barrier(160)

    def guess(number: int) -> None:
        address = f"198.51.100.{number}" if names == "one name from everywhere" else "192.0.2.1"
        name = f"name{number}" if names == "many names" else "max"
        start.wait(30)
        try:
            if fail(name, address):
                tried.append(number)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=guess, args=(number,)) for number in range(160)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(tried) == {"one name": 5, "many names": 30, "one name from everywhere": 60}[names]
    assert AuditEntry.objects.filter(action="sign-in.failed").count() == len(tried)


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
