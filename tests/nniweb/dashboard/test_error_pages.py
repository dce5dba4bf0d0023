"""Each page of an error says what happened and the next step, and looks like the others."""

import sqlite3

import pytest
from django.db import OperationalError
from django.template.loader import render_to_string
from django.test import Client, RequestFactory

from nniweb.dashboard.failure import page_failed
from nniweb.experiments.models import User
from nniweb.experiments.models.account import Role

STYLE = '<link rel="stylesheet" href="/static/css/nniweb.css">'


def full_disk() -> OperationalError:
    """As Django raises it."""
    cause = sqlite3.OperationalError("database or disk is full")
    cause.sqlite_errorcode = sqlite3.SQLITE_FULL
    error = OperationalError(str(cause))
    error.__cause__ = cause
    return error


def test_not_found_names_the_address_and_who_one_is(client: Client, admin: User) -> None:
    client.force_login(admin)
    answer = client.get("/trials/nosuchthing/")
    html = answer.content.decode()
    assert answer.status_code == 404
    assert "<code>/trials/nosuchthing/</code>" in html
    assert "signed in as ada" in html
    assert 'href="/?archived=all"' in html


def test_forbidden_says_who_can_help(client: Client, db: None) -> None:
    member = User.objects.create_user("bob", role=Role.MEMBER)
    client.force_login(member)
    answer = client.get("/admin/", follow=True)
    html = answer.content.decode()
    assert answer.status_code == 403
    assert "signed in as bob with the role member" in html
    assert "An administrator can change the role" in html


def test_a_form_that_is_too_old_says_load_again(admin: User) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(admin)
    answer = client.post("/demo/")
    html = answer.content.decode()
    assert answer.status_code == 403
    assert "load the page again" in html
    assert STYLE in html


def test_a_server_of_an_unknown_name_says_what_to_add(client: Client, db: None) -> None:
    answer = client.get("/sign-in/", headers={"host": "elsewhere.example"})
    assert answer.status_code == 400
    html = answer.content.decode()
    assert "NNIWEB_ALLOWED_HOSTS" in html
    assert STYLE in html


@pytest.mark.parametrize(("error", "status", "words"), [
    (ValueError("a slip"), 500, "the server's log has the reason"),
    (full_disk(), 503, "tries again every five seconds")])
def test_a_failure_says_what_it_means_for_trials(error: Exception, status: int, words: str) -> None:
    try:
        raise error
    except Exception:
        answer = page_failed(RequestFactory().get("/"))
    html = answer.content.decode()
    assert answer.status_code == status
    assert "unning trials" in html
    assert words in html
    assert STYLE in html


@pytest.mark.parametrize("name", ["400.html", "403_csrf.html", "500.html", "503.html"])
def test_none_of_them_needs_a_script_or_another_server(name: str) -> None:
    html = render_to_string(name)
    assert "<script" not in html
    assert "http:" not in html
    assert "https:" not in html
    assert "<h1>" in html
    assert "<li>" in html
