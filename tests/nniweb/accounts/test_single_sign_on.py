"""Single sign-on against an OpenID provider that speaks the protocol on loopback."""

from collections.abc import Iterator
from datetime import timedelta
from types import SimpleNamespace

import pytest
import requests
from django.contrib.auth.models import Group
from django.core.cache import cache
from django.test import Client
from django.utils import timezone
from joserfc.jwk import RSAKey

from nniweb.dashboard.account import single_sign_on
from nniweb.experiments.access.sessions import forget_sessions
from nniweb.experiments.models import AuditEntry, Session, SingleSignOnIdentity, User
from tests.fakes.openid_provider import CLIENT_ID, CLIENT_SECRET, OpenIdProvider

pytestmark = pytest.mark.django_db


@pytest.fixture
def provider(settings, monkeypatch) -> Iterator[OpenIdProvider]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    cache.clear()  # it counts who begins
    with OpenIdProvider() as provider:
        settings.OIDC_ISSUER, settings.OIDC_NAME = provider.issuer, "the lab's account"
        settings.OIDC_CLIENT_ID, settings.OIDC_CLIENT_SECRET = CLIENT_ID, CLIENT_SECRET
        provider.person = {"sub": "248289761001", "preferred_username": "nora", "email": "nora@example.org",
                           "email_verified": True, "given_name": "Nora"}
        yield provider


def through_the_provider(client: Client, wanted: str = "") -> str:
    """Follows the browser's way to the provider; returns where it is sent back to, on this server."""
    begun = client.get("/sign-in/single-sign-on/", {"next": wanted} if wanted else {})
    assert begun.status_code == 302, begun.content.decode()
    answer = requests.get(begun["Location"], allow_redirects=False, timeout=90)
    return answer.headers["Location"].removeprefix("http://testserver")


def test_without_a_provider_there_is_no_such_way(client) -> None:
    assert client.get("/sign-in/single-sign-on/").status_code == 404
    assert "Sign in with" not in client.get("/sign-in/").content.decode()


def test_who_comes_for_the_first_time_is_made_a_viewer(client, provider) -> None:
    assert "Sign in with the lab&#x27;s account" in client.get("/sign-in/").content.decode()
    answer = client.get(through_the_provider(client, "/clusters/"))
    assert (answer.status_code, answer["Location"]) == (302, "/clusters/")
    assert provider.redirect_addresses == ["http://testserver/sign-in/single-sign-on/back/"]
    user = User.objects.get(username="nora")
    assert (user.role, user.email, user.first_name, user.has_usable_password()) == (
        "viewer", "nora@example.org", "Nora", False)
    assert client.get("/api/v1/account/").json()["username"] == "nora"
    assert list(AuditEntry.objects.order_by("pk").values_list("action", "via")) == [
        ("user.create", "page"), ("sign-in", "single sign-on")]


def test_a_session_of_somebody_who_only_began_ends_within_the_hour_and_is_removed(client, provider) -> None:
    client.get("/sign-in/single-sign-on/")
    assert client.session.get_expiry_age() <= 3600
    signed_in = Client()
    signed_in.get(through_the_provider(signed_in))
    assert signed_in.session.get_expiry_age() > 24 * 3600
    assert forget_sessions(timezone.now()) == 0
    assert forget_sessions(timezone.now() + timedelta(hours=2)) == 1
    assert signed_in.get("/api/v1/account/").status_code == 200


def test_who_begins_again_and_again_fills_no_session(client, provider) -> None:
    path = through_the_provider(client, f"/clusters/?{'x' * 3000}")
    for _ in range(single_sign_on.MOST_BEGUN):
        client.get("/sign-in/single-sign-on/")
    begun = [name for name, _ in client.session.items() if name.startswith("_state_")]
    assert len(begun) == single_sign_on.MOST_BEGUN
    assert client.get(path).status_code == 502, "the oldest are forgotten"
    answer = client.get(through_the_provider(client, f"/clusters/?{'x' * 3000}"))
    assert answer["Location"] == "/", "what is too long is not remembered"


def test_only_so_many_begin_from_one_address(provider, monkeypatch) -> None:
    """Each leaves a session. The minute does not end meanwhile."""
    monkeypatch.setattr(single_sign_on, "MOST_A_MINUTE", 3)
    monkeypatch.setattr(single_sign_on, "time", SimpleNamespace(time=lambda: 3_000_000_015.0))
    answers = [Client().get("/sign-in/single-sign-on/", REMOTE_ADDR="2001:db8::1").status_code for _ in range(8)]
    assert answers == [302] * 3 + [429] * 5
    assert Session.objects.count() == 3
    again = [Client().get("/sign-in/single-sign-on/", REMOTE_ADDR=f"2001:db8::{number}") for number in range(2, 6)]
    assert again[-1].status_code == 429, "a whole network of IPv6 is one address"
    assert Client().get("/sign-in/single-sign-on/", REMOTE_ADDR="192.0.2.1").status_code == 302


def test_the_subject_says_who_comes_again_not_the_name(client, provider) -> None:
    client.get(through_the_provider(client))
    provider.person.update(preferred_username="eleonora")
    again = Client()
    again.get(through_the_provider(again))
    assert again.get("/api/v1/account/").json()["username"] == "nora"
    provider.person.update(sub="another", preferred_username="nora")
    other = Client()
    other.get(through_the_provider(other))
    assert other.get("/api/v1/account/").json()["username"] == "nora-2", "a name is no proof"
    assert SingleSignOnIdentity.objects.count() == 2


@pytest.mark.parametrize(("match", "verified", "expected"), [(False, True, "nora"), (True, True, "max"),
                                                             (True, False, "nora")])
def test_an_address_makes_somebody_known_only_where_that_is_wanted(client, provider, max_, settings, match, verified,
                                                                   expected) -> None:
    settings.OIDC_MATCH_EMAIL = match
    provider.person.update(email="Max@example.org", email_verified=verified)
    client.get(through_the_provider(client))
    assert client.get("/api/v1/account/").json()["username"] == expected


def test_the_provider_says_who_is_in_which_group(client, provider, vision, settings) -> None:
    settings.OIDC_GROUPS_CLAIM = "groups"
    Group.objects.create(name="speech")
    provider.person["groups"] = ["vision", "unknown here"]
    client.get(through_the_provider(client))
    assert client.get("/api/v1/account/").json()["groups"] == ["vision"]
    provider.person["groups"] = ["speech"]
    client.logout()
    client.get(through_the_provider(client))
    assert client.get("/api/v1/account/").json()["groups"] == ["speech"]


def test_who_is_not_active_is_told_so(client, provider) -> None:
    client.get(through_the_provider(client))
    User.objects.update(is_active=False)
    other = Client()
    answer = other.get(through_the_provider(other))
    assert answer.status_code == 403
    assert "nora is not active" in answer.content.decode()
    assert AuditEntry.objects.filter(action="sign-in.failed").count() == 1


@pytest.mark.parametrize("bent", [{"iss": "https://elsewhere.example"}, {"aud": "somebody else"}, {"exp": 1},
                                  {"nonce": "of another request"}], ids=lambda bent: next(iter(bent)))
def test_a_word_of_the_provider_that_is_not_for_us_now_lets_nobody_in(client, provider, bent) -> None:
    provider.bent = bent
    assert client.get(through_the_provider(client)).status_code == 502
    assert not User.objects.exists()


def test_a_signature_by_another_key_lets_nobody_in(client, provider) -> None:
    provider.signs_with = RSAKey.generate_key(2048, {"kid": "k"})
    assert client.get(through_the_provider(client)).status_code == 502
    assert not User.objects.exists()


def test_an_answer_that_nobody_asked_for_lets_nobody_in(client, provider) -> None:
    path = through_the_provider(client)
    assert Client().get(path).status_code == 502, "the code of somebody else's browser"
    assert client.get(f"{path}x").status_code == 502, "another state"
    assert not User.objects.exists()


def test_after_signing_in_nobody_is_sent_elsewhere(client, provider) -> None:
    answer = client.get(through_the_provider(client, "https://evil.example/"))
    assert answer["Location"] == "/"


def test_a_provider_that_is_away_is_named_as_the_reason(client, provider, settings) -> None:
    settings.OIDC_ISSUER = "http://127.0.0.1:9"
    answer = client.get("/sign-in/single-sign-on/")
    assert answer.status_code == 502
    assert "could not be asked" in answer.content.decode()
