"""A forgotten password: a link by mail; without mail, the page says what helps; the command that makes a link."""

import io
import re
import threading

import pytest
from django.core import mail
from django.core.mail import EmailMessage
from django.core.management import CommandError, call_command
from django.test import Client

from nniweb.dashboard.account import password_reset
from nniweb.experiments.clusters.addresses import page_root
from nniweb.experiments.models import AuditEntry, SignInLink, User
from tests.nniweb.at_once import at_once


def sent() -> list:
    """The mails, once those under way have gone."""
    for thread in threading.enumerate():
        if thread.name == password_reset.THREAD:
            thread.join(30)
    return mail.outbox


@pytest.fixture
def with_mail(settings) -> None:
    settings.MAIL_URL = "smtp://mail.example.org"  # the tests' backend keeps what is sent


def test_without_mail_the_page_says_what_helps(client, max_) -> None:
    page = client.get("/password-reset/").content.decode()
    assert "sends no mail" in page
    assert "python manage.py sign-in-link" in page
    assert client.post("/password-reset/", {"email": "max@example.org"}).status_code == 409


@pytest.mark.usefixtures("with_mail")
def test_the_link_in_the_mail_changes_the_password_once(client, max_) -> None:
    answer = client.post("/password-reset/", {"email": "MAX@example.org"})
    assert (answer.status_code, answer["Location"]) == (302, "/password-reset/asked/")
    [message] = sent()
    assert message.to == ["max@example.org"]
    path = re.search(r"http://127\.0\.0\.1:8080(/password-reset/\S+)", message.body)[1]  # type: ignore[index]
    page = client.get(path, follow=True)
    form = {"new_password1": "one more pass phrase", "new_password2": "one more pass phrase"}
    assert client.post(page.redirect_chain[-1][0], form).status_code == 302
    max_.refresh_from_db()
    assert max_.check_password("one more pass phrase")
    assert "already used" in client.get(path, follow=True).content.decode()
    assert list(AuditEntry.objects.order_by("pk").values_list("action", "target")) == [
        ("password.reset-asked", str(max_.pk)), ("password.reset", str(max_.pk))]


@pytest.mark.usefixtures("with_mail")
def test_the_link_leads_to_the_public_address_whatever_the_request_says(client, max_, settings) -> None:
    settings.PUBLIC_URL = "https://nni.example.org"
    client.post("/password-reset/", {"email": "max@example.org"}, headers={"host": "localhost"})
    assert "https://nni.example.org/password-reset/" in sent()[0].body


@pytest.mark.usefixtures("with_mail")
@pytest.mark.parametrize("host", ["localhost:6666", "127.0.0.1:6666", "localhost"])
def test_without_a_public_address_the_link_leads_to_the_servers_own_whatever_is_asked(client, max_, host) -> None:
    client.post("/password-reset/", {"email": "max@example.org"},
                headers={"host": host, "x-forwarded-host": "evil.example"})
    assert re.findall(r"\w+://[^/]*/", sent()[0].body) == [f"{page_root()}/"]


@pytest.mark.usefixtures("with_mail")
def test_nothing_is_learnt_of_who_is_here_and_mail_is_not_sent_without_end(client, max_) -> None:
    unknown = client.post("/password-reset/", {"email": "nobody@example.org"})
    for _ in range(7):
        known = client.post("/password-reset/", {"email": "max@example.org"})
    assert (unknown.status_code, unknown["Location"]) == (known.status_code, known["Location"])
    assert len(sent()) == 4, "five requests an hour from one address"


@pytest.mark.usefixtures("with_mail")
def test_a_whole_network_of_ipv6_is_one_address(client, max_) -> None:
    for number in range(7):
        client.post("/password-reset/", {"email": "nobody@example.org"}, REMOTE_ADDR=f"2001:db8::{number}")
    assert AuditEntry.objects.count() == 5
    client.post("/password-reset/", {"email": "nobody@example.org"}, REMOTE_ADDR="2001:db8:0:1::1")
    assert AuditEntry.objects.count() == 6


@pytest.mark.usefixtures("with_mail")
def test_the_answer_does_not_wait_for_the_mail_server_which_would_tell_who_is_here(client, max_, monkeypatch) -> None:
    answered = threading.Event()
    monkeypatch.setattr(EmailMessage, "send", lambda *_, **__: answered.wait(30) and sends.append(1))
    sends: list[int] = []
    assert client.post("/password-reset/", {"email": "max@example.org"}).status_code == 302
    answered.set()
    sent()
    assert sends == [1]


@pytest.mark.usefixtures("with_mail")
def test_nobodys_mail_box_is_filled_from_many_addresses(client, max_) -> None:
    for number in range(7):
        client.post("/password-reset/", {"email": "max@example.org"}, REMOTE_ADDR=f"192.0.2.{number}")
    assert len(sent()) == 5


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("with_mail")
def test_many_requests_at_one_moment_send_no_more(max_) -> None:
    at_once(*[lambda _: Client().post("/password-reset/", {"email": "max@example.org"})] * 12)
    assert len(sent()) == password_reset.MOST


def test_the_command_prints_a_link_that_works_once(client, max_, settings, tmp_path) -> None:
    settings.DATA_FOLDER = tmp_path
    out = io.StringIO()
    call_command("sign-in-link", "max", stdout=out)
    assert out.getvalue().startswith("http://")
    path = re.search(r"/sign-in/\S+", out.getvalue())[0]  # type: ignore[index]
    for look in (client.get, client.head, client.get):  # a scanner of mail, a preview, the person
        assert look(path).status_code == 200
    assert "Sign in as max" in client.get(path).content.decode()
    assert client.get("/api/v1/account/").status_code == 401, "looking signs nobody in"
    assert client.post(path).status_code == 302
    assert client.get("/api/v1/account/").json()["username"] == "max"
    assert (client.get(path).status_code, client.post(path).status_code) == (410, 410)
    assert AuditEntry.objects.get(action="user.sign-in-link").via.startswith("command sign-in-link by ")


def test_no_other_page_signs_a_visitor_in_with_a_link(max_) -> None:
    client = Client(enforce_csrf_checks=True)
    path = f"/sign-in/{SignInLink.make(max_)}/"
    assert client.post(path).status_code == 403
    page = client.get(path)
    [token] = re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', page.content.decode())
    assert client.post(path, {"csrfmiddlewaretoken": token}).status_code == 302


def test_a_link_of_somebody_who_was_let_go_shows_and_does_nothing(client, max_) -> None:
    path = f"/sign-in/{SignInLink.make(max_)}/"
    User.objects.update(is_active=False)
    assert (client.get(path).status_code, client.post(path).status_code) == (410, 410)


def test_the_command_without_a_name_is_for_the_first_administrator_who_is_made_if_need_be(client, db) -> None:
    out = io.StringIO()
    call_command("sign-in-link", stdout=out)
    client.post(re.search(r"/sign-in/\S+", out.getvalue())[0])  # type: ignore[index]
    assert client.get("/api/v1/account/").json()["is_admin"]


def test_the_command_names_who_there_is(db, max_) -> None:
    User.objects.create_user("gone", is_active=False)
    for name in ("mx", "gone"):
        with pytest.raises(CommandError, match="Users: max"):
            call_command("sign-in-link", name)
    assert not SignInLink.objects.exists()
