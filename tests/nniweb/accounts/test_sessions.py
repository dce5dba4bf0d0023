"""What a thief of the database finds signs nobody in."""

import importlib
from datetime import timedelta

import pytest
from asgiref.sync import async_to_sync
from django.apps import apps
from django.conf import settings
from django.contrib.sessions.models import Session as OldSession
from django.db import connection
from django.test import Client
from django.utils import timezone

from nniweb.experiments.access.sessions import SessionStore, living
from nniweb.experiments.models import Session, User
from nniweb.experiments.models.account import hash_of


def key_of(client: Client) -> str:
    return client.cookies[settings.SESSION_COOKIE_NAME].value


def opens(key: str) -> bool:
    client = Client()
    client.cookies[settings.SESSION_COOKIE_NAME] = key
    return client.get("/account/").status_code == 200


def test_the_database_has_a_digest_of_what_the_browser_sends_and_the_digest_opens_nothing(browser, max_) -> None:
    key = key_of(browser(max_))
    assert opens(key)
    row = Session.objects.get()
    assert row.session_key == hash_of(key)
    assert key not in f"{row.session_key} {row.session_data} {row.get_decoded()}"
    assert not opens(row.session_key)


def test_whoever_signs_out_is_signed_out(browser, max_) -> None:
    client = browser(max_)
    key = key_of(client)
    client.post("/sign-out/")
    assert not opens(key)
    assert not Session.objects.exists()


def test_a_session_that_ran_out_opens_nothing_and_those_that_go_on_are_known_by_their_keys(browser, max_) -> None:
    first, second = key_of(browser(max_)), key_of(browser(max_))
    Session.objects.filter(session_key=hash_of(first)).update(expire_date=timezone.now() - timedelta(seconds=1))
    assert (opens(first), opens(second)) == (False, True)
    assert living({first, second, "nonsense"}) == {second}


@pytest.mark.parametrize("key", ["", "x", "nonsense" * 30, "\udcff" * 8, "' OR 1=1"])
def test_what_is_no_key_opens_nothing(db, key) -> None:
    store = SessionStore(key)
    assert store.load() == {}
    assert not store.exists(key)


@pytest.mark.django_db(transaction=True)
def test_whoever_is_signed_in_stays_so_when_the_server_is_upgraded(max_: User) -> None:
    """Rows as an older version has them, and what the migration makes of them."""
    from django.contrib.sessions.backends.db import SessionStore as OldStore

    old = OldStore()
    old.update({"_auth_user_id": str(max_.pk), "_auth_user_hash": max_.get_session_auth_hash(),
                "_auth_user_backend": "django.contrib.auth.backends.ModelBackend"})
    old.save()
    assert not opens(old.session_key)
    migration = importlib.import_module("nniweb.experiments.migrations.0027_sessions_by_digest")
    with connection.schema_editor() as editor:
        migration.hash_keys(apps, editor)
    assert opens(old.session_key)
    assert not OldSession.objects.exists()
    assert not opens(Session.objects.get().session_key)


@pytest.mark.django_db(transaction=True)
def test_it_works_from_an_event_loop_too() -> None:
    async def use() -> None:
        store = SessionStore()
        await store.aset("fruit", "pear")
        await store.asave()
        again = SessionStore(store.session_key)
        assert await again.aget("fruit") == "pear"
        assert await again.aexists(store.session_key)
        await again.adelete()

    async_to_sync(use)()
    assert not Session.objects.exists()
