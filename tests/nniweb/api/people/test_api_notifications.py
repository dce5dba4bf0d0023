"""Notifications over REST and on their pages: everybody their own, secrets never given again."""

import contextlib
import json
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import connection
from django.test import Client
from django.utils import timezone

from nniweb.experiments.errors import Refused
from nniweb.experiments.models import NotificationDelivery, NotificationRule, User
from nniweb.experiments.notifications import notification_rules
from nniweb.experiments.notifications.notification_rules import MOST_RULES, create_rule
from nniweb.experiments.secrets.sealing import unseal
from tests.nniweb.at_once import at_once

BASE = "/api/v1/notifications/"
URL = "https://hook.example/services/T0/very-secret-path?key=very-secret-key"
WEBHOOK = {"channel": "webhook", "url": URL, "secret": "very-secret-word"}


def made(client: Any, **more: Any) -> dict[str, Any]:
    answer = client.post(BASE, {**WEBHOOK, **more})
    assert answer.status_code == 201, answer.content
    return answer.json()


def page_of(user: User, address: str) -> str:
    client = Client()
    client.force_login(user)
    answer = client.get(address)
    assert answer.status_code == 200, answer.status_code
    return answer.content.decode()


def test_address_and_secret_of_a_webhook_are_sealed_and_never_shown(as_user, alice) -> None:
    client = as_user(alice)
    rule = made(client)
    assert (rule["address"], rule["secret"]) == ("https://hook.example", "very-secret-word")
    one = f"{BASE}{rule['id']}/"
    client.post(f"{one}actions/test/")
    shown = [json.dumps(client.get(address).json()) for address in (BASE, one, f"{one}deliveries/")]
    shown += [page_of(alice, address) for address in ("/notifications/", f"/notifications/{rule['id']}/")]
    with connection.cursor() as cursor:
        for table in ("notificationrule", "notificationdelivery"):
            cursor.execute(f"SELECT * FROM experiments_{table}")
            shown.append(str([[bytes(cell) if isinstance(cell, memoryview) else cell for cell in row]
                              for row in cursor]))
    assert not [text for text in shown if "very-secret" in text]
    row = NotificationRule.objects.get()
    assert (unseal(row.sealed_url), unseal(row.sealed_secret)) == (URL, "very-secret-word")


def test_a_secret_is_made_where_none_is_given_and_can_be_replaced(as_user, alice) -> None:
    client = as_user(alice)
    rule = made(client, secret="x" * 16)
    other = client.post(BASE, {"channel": "webhook", "url": URL}).json()
    assert len(other["secret"]) >= 32
    changed = client.patch(f"{BASE}{rule['id']}/", {"secret": "y" * 16, "url": "https://else.example/"})
    assert (changed.status_code, changed.json()["address"]) == (200, "https://else.example")
    assert "secret" not in changed.json()
    row = NotificationRule.objects.get(public_id=rule["id"])
    assert (unseal(row.sealed_url), unseal(row.sealed_secret)) == ("https://else.example/", "y" * 16)


@pytest.mark.parametrize(("change", "field"), [
    ({"url": "http://hook.example/"}, "url"), ({"url": "https://127.0.0.1/"}, "url"), ({"url": "ftp://a/"}, "url"),
    ({"url": "https://[::ffff:10.0.0.1]/"}, "url"), ({"url": "https://u:p@hook.example/"}, "url"),
    ({"url": "https://hook.example:0/"}, "url"), ({"url": "https://hook.example:x/"}, "url"), ({"url": ""}, "url"),
    ({"url": "https://hook.example/a b"}, "url"), ({"url": "https://hook.example/\r\nHost: a"}, "url"),
    ({"secret": "short"}, "secret"), ({"channel": "pigeon"}, "channel"), ({"colour": "red"}, "colour"),
    ({"on_done": False, "on_failed": False}, "on_done"), ({"experiment": "nothing"}, "experiment"),
    ({"group": "nobody"}, "group"), ({"group": "others"}, "group")])
def test_what_is_wrong_is_named(as_user, alice, change, field) -> None:
    Group.objects.create(name="others")
    answer = as_user(alice).post(BASE, {**WEBHOOK, **change})
    assert answer.status_code == 400, answer.content
    assert [error["field"] for error in answer.json()["errors"]] == [field]
    assert not NotificationRule.objects.exists()


def test_private_addresses_are_taken_where_an_administrator_allows_them(as_user, alice, settings) -> None:
    settings.WEBHOOK_PRIVATE_ADDRESSES = True
    assert made(as_user(alice), url="http://10.0.0.1:8000/hook")["address"] == "http://10.0.0.1:8000"


def test_a_rule_is_of_ones_own_experiments_of_a_groups_or_of_one(as_user, alice, bob, make_experiment) -> None:
    experiment = make_experiment(owner=bob)
    assert as_user(bob).post(BASE, {**WEBHOOK, "experiment": experiment.public_id}).json()["experiment"] == (
        experiment.public_id)
    hidden = as_user(alice).post(BASE, {**WEBHOOK, "experiment": experiment.public_id})
    assert (hidden.status_code, hidden.json()["errors"][0]["field"]) == (400, "experiment")
    assert made(as_user(alice), group="vision")["group"] == "vision"
    both = as_user(bob).post(BASE, {**WEBHOOK, "experiment": experiment.public_id, "group": "vision"})
    assert both.status_code == 400


def test_others_do_not_find_it_and_viewers_set_up_none(as_user, alice, bob, vera, ada) -> None:
    one = f"{BASE}{made(as_user(alice))['id']}/"
    for person in (bob, ada, vera):
        client = as_user(person)
        assert client.get(BASE).json()["results"] == []
        assert client.get(one).status_code == 404
        assert client.patch(one, {"enabled": False}).status_code == (403 if person is vera else 404)
        assert client.delete(one).status_code == (403 if person is vera else 404)
    assert as_user(vera).post(BASE, WEBHOOK).status_code == 403
    browser = Client()
    browser.force_login(bob)
    assert browser.get(one.replace("/api/v1", "")).status_code == 404
    assert "Your role is viewer" in page_of(vera, "/notifications/")


def test_mail_is_offered_where_it_can_arrive(as_user, alice, settings) -> None:
    client = as_user(alice)
    settings.MAIL_URL = ""
    assert "NNIWEB_MAIL_URL" in client.post(BASE, {"channel": "email"}).json()["errors"][0]["message"]
    assert "NNIWEB_MAIL_URL" in page_of(alice, "/notifications/")
    settings.MAIL_URL = "smtp://mail.example"
    assert "no e-mail address" in client.post(BASE, {"channel": "email"}).json()["errors"][0]["message"]
    User.objects.filter(pk=alice.pk).update(email="alice@example.org")
    answer = as_user(User.objects.get(pk=alice.pk)).post(BASE, {"channel": "email"}).json()
    assert (answer["address"], answer["secret"]) == ("alice@example.org", "")
    assert client.post(BASE, {"channel": "email", "url": URL}).status_code == 400


def test_a_test_waits_once_and_is_listed(as_user, alice) -> None:
    client = as_user(alice)
    one = f"{BASE}{made(client)['id']}/"
    first = client.post(f"{one}actions/test/")
    assert (first.status_code, first.json()["state"], first.json()["event"]) == (202, "waiting", "test")
    assert client.post(f"{one}actions/test/").status_code == 409
    assert [row["id"] for row in client.get(f"{one}deliveries/").json()["results"]] == [first.json()["id"]]


def test_switching_off_withdraws_what_waits(as_user, alice) -> None:
    client = as_user(alice)
    one = f"{BASE}{made(client)['id']}/"
    client.post(f"{one}actions/test/")
    assert client.patch(one, {"enabled": False}).json()["enabled"] is False
    assert client.get(f"{one}deliveries/").json()["results"][0]["state"] == "withdrawn"
    assert client.post(f"{one}actions/test/").status_code == 409


def test_what_was_given_up_is_sent_again_and_nothing_else(as_user, alice, bob) -> None:
    client = as_user(alice)
    one = f"{BASE}{made(client)['id']}/"
    again = f"{one}deliveries/{client.post(f'{one}actions/test/').json()['id']}/actions/send-again/"
    assert client.post(again).status_code == 409
    NotificationDelivery.objects.update(state="given_up", ended_at=timezone.now(), try_count=9, tries=[
        {"at": timezone.now().isoformat(), "seconds": 0.5, "status": 500, "answer": "<b>out of order</b>"}])
    text = page_of(alice, one.replace("/api/v1", ""))
    assert "&lt;b&gt;out of order&lt;/b&gt;" in text
    assert "Send again" in text
    assert as_user(bob).post(again).status_code == 404
    answer = client.post(again)
    assert (answer.status_code, answer.json()["state"], answer.json()["try_count"]) == (202, "waiting", 0)
    other = f"{BASE}{made(client)['id']}/"
    assert client.post(again.replace(one, other)).status_code == 404, "a message of another rule"


def test_removing_takes_its_messages_along(as_user, alice) -> None:
    client = as_user(alice)
    one = f"{BASE}{made(client)['id']}/"
    client.post(f"{one}actions/test/")
    assert client.delete(one).status_code == 204
    assert not NotificationDelivery.objects.exists()


def test_there_is_a_most_of_them(as_user, alice) -> None:
    NotificationRule.objects.bulk_create(NotificationRule(owner=alice, channel="webhook", created_at=timezone.now())
                                         for _ in range(MOST_RULES))
    answer = as_user(alice).post(BASE, WEBHOOK)
    assert answer.status_code == 409
    assert "50 notifications" in answer.json()["errors"][0]["message"]


@pytest.mark.django_db(transaction=True)
def test_those_that_are_made_at_one_moment_are_counted_one_after_the_other(alice, monkeypatch) -> None:
    monkeypatch.setattr(notification_rules, "MOST_RULES", 2)
    answers: list[bool] = []

    def create(_: int) -> None:
        with contextlib.suppress(Refused):
            create_rule(alice, {**WEBHOOK, "on_failed": True})
            answers.append(True)

    at_once(*[create] * 6)
    assert len(answers) == NotificationRule.objects.count() == 2


def test_the_form_is_filled_in_for_an_experiment_one_may_see(alice, ada, make_experiment) -> None:
    experiment = make_experiment(owner=alice, name="<i>mine</i>")
    address = f"/notifications/?experiment={experiment.public_id}"
    assert "this experiment: &lt;i&gt;mine&lt;/i&gt;" in page_of(alice, address)
    other = make_experiment(owner=ada)
    assert "this experiment" not in page_of(alice, f"/notifications/?experiment={other.public_id}")
