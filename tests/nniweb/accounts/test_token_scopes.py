"""A token does what its scope says, never more than its person, until it expires."""

import contextlib
from datetime import timedelta

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from nniweb.experiments.access import accounts
from nniweb.experiments.errors import Refused
from nniweb.experiments.models import ApiToken
from nniweb.experiments.models.account import Role, Scope
from tests.nniweb.at_once import at_once


def outcomes(client, experiment) -> tuple[int, int, int]:
    """Looking, steering, administering."""
    address = f"/api/v1/experiments/{experiment.public_id}/"
    return (client.get(address).status_code, client.patch(address, {"tags": ["a"]}).status_code,
            client.get("/api/v1/users/").status_code)


@pytest.mark.parametrize(("scope", "expected"), [(Scope.READ, (200, 403, 403)), (Scope.CHANGE, (200, 200, 403)),
                                                 (Scope.ADMIN, (200, 200, 200))])
def test_a_token_of_an_administrator_does_what_its_scope_says(with_token, make_experiment, rita, scope, expected
                                                              ) -> None:
    assert outcomes(with_token(rita, scope), make_experiment(owner=rita)) == expected


@pytest.mark.parametrize(("role", "expected"), [(Role.VIEWER, (200, 403, 403)), (Role.MEMBER, (200, 200, 403))])
def test_a_token_never_does_more_than_its_person(with_token, make_experiment, max_, role, expected) -> None:
    client = with_token(max_, Scope.ADMIN)  # as it was while Max was an administrator
    max_.role = role
    max_.save()
    assert outcomes(client, make_experiment(owner=max_)) == expected


def test_below_the_scope_admin_a_token_sees_what_a_member_sees(with_token, make_experiment, rita, max_) -> None:
    of_max = make_experiment(owner=max_)
    for scope, status in ((Scope.READ, 404), (Scope.CHANGE, 404), (Scope.ADMIN, 200)):
        assert with_token(rita, scope).get(f"/api/v1/experiments/{of_max.public_id}/").status_code == status


def test_an_expired_token_opens_nothing_and_says_so(with_token, rita) -> None:
    client = with_token(rita, expires_at=timezone.now() - timedelta(seconds=1))
    answer = client.get("/api/v1/account/")
    assert answer.status_code == 401
    assert "expired" in answer.json()["errors"][0]["message"]
    assert with_token(rita, expires_at=timezone.now() + timedelta(hours=1)).get("/api/v1/account/").status_code == 200


def test_a_program_is_told_who_it_is_and_what_it_may_do(with_token, max_) -> None:
    assert with_token(max_, Scope.READ).get("/api/v1/account/").json() == {
        "username": "max", "email": "max@example.org", "role": "member", "scope": "read", "may_change": False,
        "is_admin": False, "may_name_folders": False, "groups": ["vision"], "leash": None}


def test_a_token_is_made_shown_once_and_kept_as_a_hash(with_token, max_) -> None:
    expires = timezone.now() + timedelta(days=3)
    client = with_token(max_, Scope.CHANGE)
    made = client.post("/api/v1/tokens/", {"name": "ci", "scope": "read", "expires_at": expires.isoformat()})
    assert made.status_code == 201, made.json()
    secret = made.json()["token"]
    row = ApiToken.objects.get(name="ci")
    assert (row.user, row.scope, row.expires_at) == (max_, "read", expires)
    assert secret not in str(list(ApiToken.objects.values()))
    listed = client.get("/api/v1/tokens/").json()["results"]
    assert [token["name"] for token in listed] == ["ci", "notebook"]
    assert "token" not in listed[0]
    by_it = APIClient(headers={"Authorization": f"Token {secret}"})
    assert by_it.get("/api/v1/account/").json()["scope"] == "read"


@pytest.mark.parametrize("scope", ["admin", "change"])
def test_a_token_makes_none_that_may_do_more(with_token, rita, max_, vera, scope) -> None:
    asked = {Scope.CHANGE: rita, Scope.ADMIN: max_} if scope == "admin" else {Scope.ADMIN: vera}
    for own, person in asked.items():
        refused = with_token(person, own).post("/api/v1/tokens/", {"name": "more", "scope": scope})
        assert (refused.status_code, refused.json()["errors"][0]["field"]) == (400, "scope")
    assert not ApiToken.objects.filter(name="more").exists()


def test_a_token_makes_none_that_lives_longer(with_token, max_) -> None:
    soon = timezone.now() + timedelta(hours=1)
    client = with_token(max_, expires_at=soon)
    for expires in (None, (soon + timedelta(seconds=1)).isoformat()):
        refused = client.post("/api/v1/tokens/", {"name": "x", "expires_at": expires})
        assert (refused.status_code, refused.json()["errors"][0]["field"]) == (400, "expires_at")
    assert client.post("/api/v1/tokens/", {"name": "x", "expires_at": soon.isoformat()}).status_code == 201


def test_a_token_that_reads_makes_and_removes_none(with_token, max_) -> None:
    client = with_token(max_, Scope.READ)
    own = ApiToken.objects.get()
    assert client.post("/api/v1/tokens/", {"name": "x"}).status_code == 403
    assert client.delete(f"/api/v1/tokens/{own.pk}/").status_code == 403


def test_a_viewer_has_tokens_that_read(browser, vera) -> None:
    made = browser(vera).post("/api/v1/tokens/", {"name": "x"}, content_type="application/json")
    assert (made.status_code, made.json()["scope"]) == (201, "read")


def test_tokens_of_others_are_not_there_but_for_administrators(with_token, rita, max_, vera) -> None:
    ApiToken.make(vera, "hers", Scope.READ)
    hers = ApiToken.objects.get(name="hers")
    member, admin = with_token(max_), with_token(rita)
    assert member.get(f"/api/v1/tokens/{hers.pk}/").status_code == 404
    assert member.delete(f"/api/v1/tokens/{hers.pk}/").status_code == 404
    assert member.get("/api/v1/tokens/?user=*").json()["count"] == 1
    assert member.post("/api/v1/tokens/", {"name": "x", "user": "vera"}).status_code == 400
    assert admin.get("/api/v1/tokens/?user=vera").json()["count"] == 1
    assert admin.post("/api/v1/tokens/", {"name": "x", "user": "vera", "scope": "change"}).status_code == 400
    assert admin.post("/api/v1/tokens/", {"name": "x", "user": "vera", "scope": "read"}).json()["user"] == "vera"
    assert admin.delete(f"/api/v1/tokens/{hers.pk}/").status_code == 204


@pytest.mark.parametrize("name", ["a\nb", "a\rb", "a\x1b[31mb", "a\u202eb", "a\u200bb", "a\u2028b"])
def test_a_name_that_hides_what_stands_beside_it_is_refused_wherever_a_token_is_made(with_token, browser, rita, name
                                                                                    ) -> None:
    api, page, said = with_token(rita), browser(rita), "must be one line without control characters"
    before = ApiToken.objects.count()
    [error] = api.post("/api/v1/tokens/", {"name": name}, "json").json()["errors"]
    assert (error["field"], said in error["message"]) == ("name", True)
    answer = page.post("/account/", {"make-token": "1", "name": name, "scope": "read", "lives": "1"})
    assert (answer.status_code, said in answer.content.decode()) == (400, True)
    answer = page.post("/admin/experiments/apitoken/add/", {"user": rita.pk, "name": name, "scope": "read",
                                                            "expires_at_0": "", "expires_at_1": ""})
    assert (answer.status_code, said in answer.content.decode()) == (200, True)
    assert ApiToken.objects.count() == before
    assert api.post("/api/v1/tokens/", {"name": "Büro, 2. Stock – 夜 🚀"}, "json").status_code == 201


@pytest.mark.django_db(transaction=True)
def test_those_that_are_made_at_one_moment_are_counted_one_after_the_other(max_, monkeypatch) -> None:
    monkeypatch.setattr(accounts, "MOST_TOKENS", 2)
    made: list[bool] = []

    def make(_: int) -> None:
        with contextlib.suppress(Refused):
            accounts.make_token(max_, max_, name="one of many", scope=Scope.READ, expires_at=None)
            made.append(True)

    at_once(*[make] * 6)
    assert len(made) == ApiToken.objects.filter(user=max_).count() == 2
