"""The address of one's account: with the password, and with the word of whoever reads the mail there."""

import copy
import re

import pytest
from django.core import mail

from nniweb.experiments.models import AuditEntry, User
from tests.nniweb.at_once import at_once

FORM = {"email": "new@example.org", "password": "a long pass phrase"}


@pytest.fixture(autouse=True)
def with_mail(settings) -> None:
    settings.MAIL_URL = "smtp://mail.example.org"  # the tests' backend keeps what is sent


def address_of(user: User) -> str:
    user.refresh_from_db()
    return user.email


def test_another_address_counts_when_its_link_was_followed_and_the_old_one_hears_of_it(browser, max_, settings) -> None:
    settings.PUBLIC_URL = "https://nni.example.org"
    client = browser(max_)
    assert client.post("/account/email/", FORM).status_code == 302
    [message] = mail.outbox
    assert message.to == ["new@example.org"]
    path = re.search(r"https://nni\.example\.org(/account/email/\S+)", message.body)[1]
    assert client.get(path).status_code == 200
    assert address_of(max_) == "max@example.org", "a program that opens links changes nothing"
    assert client.post(path).status_code == 302
    assert address_of(max_) == "new@example.org"
    assert mail.outbox[1].to == ["max@example.org"]
    assert client.post(path).status_code == 410, "it works once"
    assert AuditEntry.objects.filter(action="email.change", who="max", details__email="new@example.org").exists()


def test_nobody_else_follows_it_and_no_other_word_is_taken(browser, max_, vera) -> None:
    browser(max_).post("/account/email/", FORM)
    path = re.search(r"/account/email/\S+", mail.outbox[0].body)[0]
    for person, opened in ((vera, path), (max_, "/account/email/nonsense/"), (max_, f"{path[:-3]}x/")):
        assert browser(person).post(opened).status_code == 410
    assert address_of(max_) == "max@example.org"


def test_without_the_password_nothing_is_sent_and_guessing_is_as_slow_as_at_the_door(browser, max_) -> None:
    client = browser(max_)
    for _ in range(5):
        refused = client.post("/account/email/", {**FORM, "password": "wrong"})
        assert refused.status_code == 400
        assert "not your password" in refused.content.decode()
    late = client.post("/account/email/", FORM)
    assert (late.status_code, "Too many attempts" in late.content.decode()) == (400, True)
    change = {"old_password": "a long pass phrase", "new_password1": "a new phrase", "new_password2": "a new phrase"}
    assert client.post("/account/password/", change).status_code == 400, "nor is it learnt there"
    assert not mail.outbox


def test_nobodys_mail_box_is_filled(browser, max_) -> None:
    client = browser(max_)
    assert [client.post("/account/email/", FORM).status_code for _ in range(6)] == [302] * 5 + [429]
    assert len(mail.outbox) == 5


@pytest.mark.django_db(transaction=True)
def test_nor_by_many_requests_at_one_moment(browser, max_) -> None:
    client = browser(max_)
    client.get("/account/")
    clients = [copy.deepcopy(client) for _ in range(12)]
    at_once(*(lambda _, client=client: client.post("/account/email/", FORM) for client in clients))  # type: ignore[misc]
    assert len(mail.outbox) == 5


def test_without_mail_the_page_says_who_changes_it(browser, max_, settings) -> None:
    settings.MAIL_URL = ""
    client = browser(max_)
    assert "an administrator changes it" in client.get("/account/").content.decode()
    assert client.post("/account/email/", FORM).status_code == 409


def test_whoever_has_no_password_is_asked_for_none(browser, vera) -> None:
    vera.set_unusable_password()
    vera.save()
    assert browser(vera).post("/account/email/", {"email": "vera@example.org"}).status_code == 302
    assert mail.outbox[0].to == ["vera@example.org"]
