"""REST of people and groups, for administrators."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import Group

from nniweb.experiments.access import accounts
from nniweb.experiments.errors import Refused
from nniweb.experiments.models import AuditEntry, Cluster, SignInLink, User
from nniweb.experiments.models.account import Role
from nniweb.startup.first_start import first_user
from tests.nniweb.at_once import at_once


def test_a_person_is_made_changed_let_in_and_removed(with_token, rita, vision, client) -> None:
    api = with_token(rita)
    made = api.post("/api/v1/users/", {"username": "nora", "role": "viewer", "groups": ["vision"]})
    assert made.status_code == 201, made.json()
    address = f"/api/v1/users/{made.json()['id']}/"
    assert api.get(address).json()["groups"] == ["vision"]
    changed = api.patch(address, {"role": "member", "groups": [], "email": "nora@example.org"}).json()
    assert (changed["role"], changed["groups"], changed["email"]) == ("member", [], "nora@example.org")
    link = api.post(f"{address}actions/sign-in-link/").json()["url"]
    assert client.post("/sign-in/" + link.partition("/sign-in/")[2]).status_code == 302
    assert client.get("/api/v1/account/").json()["username"] == "nora"
    assert api.patch(address, {"is_active": False}).json()["is_active"] is False
    assert client.get("/api/v1/account/").status_code == 401, "who is not active is out at once"
    assert api.post(f"{address}actions/sign-in-link/").status_code == 409
    assert api.delete(address).status_code == 204
    assert not User.objects.filter(username="nora").exists()


def test_a_name_that_is_taken_or_no_name_is_refused(with_token, rita, max_) -> None:
    api = with_token(rita)
    for name in ("max", "no spaces", ""):
        refused = api.post("/api/v1/users/", {"username": name})
        assert (refused.status_code, refused.json()["errors"][0]["field"]) == (400, "username"), name


def test_the_last_administrator_stays_one(with_token, rita) -> None:
    api, address = with_token(rita), f"/api/v1/users/{rita.pk}/"
    for refused in (api.patch(address, {"role": "member"}), api.patch(address, {"is_active": False}),
                    api.delete(address)):
        assert refused.status_code == 409
        assert "only administrator" in refused.json()["errors"][0]["message"]
    rita.refresh_from_db()
    assert rita.is_admin


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("change", [
    lambda other: accounts.change_user(other, {"role": Role.MEMBER}),
    lambda other: accounts.change_user(other, {"is_active": False}),
    accounts.delete_user,
])
def test_of_two_administrators_who_remove_each_other_at_one_moment_one_stays(change: Callable[[User], None]) -> None:
    for number in range(10):
        User.objects.all().delete()
        pair = [User.objects.create_user(f"admin-{number}-{one}", role=Role.ADMIN) for one in range(2)]
        refused = []

        def remove(other: User, refused: list[Refused] = refused) -> None:
            try:
                change(other)
            except Refused as error:
                refused.append(error)

        at_once(*(lambda _, other=other: remove(other) for other in pair))  # type: ignore[misc]
        assert len(refused) == 1
        assert [user.is_admin for user in User.objects.filter(is_active=True, role=Role.ADMIN)] == [True]


def test_nor_does_the_admin_take_the_last_administrator_away(browser, rita) -> None:
    address = f"/admin/experiments/user/{rita.pk}/"
    page = browser(rita).post(f"{address}change/", {"username": "rita", "role": "member", "is_active": "on"})
    assert "only administrator" in page.content.decode()
    page = browser(rita).post(f"{address}delete/", {"post": "yes"}, follow=True)
    assert "only administrator" in page.content.decode()
    assert not AuditEntry.objects.filter(action__contains="delete").exists(), "what was refused was not done"
    rita.refresh_from_db()
    assert rita.is_admin


def test_where_nobody_administers_the_next_start_makes_somebody(max_, rita) -> None:
    assert first_user() == rita
    User.objects.filter(pk=rita.pk).update(is_active=False)
    User.objects.filter(pk=max_.pk).update(username="admin")
    made = first_user()
    assert (made.username, made.is_admin, made.has_usable_password()) == ("admin-2", True, False)
    assert first_user() == made


def test_who_has_experiments_that_go_on_is_not_removed(with_token, rita, max_, make_experiment) -> None:
    experiment = make_experiment(owner=max_)
    api = with_token(rita)
    assert api.delete(f"/api/v1/users/{max_.pk}/").status_code == 409
    experiment.status = "STOPPED"
    experiment.save()
    assert api.delete(f"/api/v1/users/{max_.pk}/").status_code == 204


def test_members_learn_nothing_of_people_and_see_their_own_groups(with_token, max_, rita) -> None:
    other = Group.objects.create(name="speech")
    api = with_token(max_)
    for path in ("users/", f"users/{rita.pk}/", "audit/"):
        assert api.get(f"/api/v1/{path}").status_code == 403
    assert api.post("/api/v1/users/", {"username": "x"}).status_code == 403
    assert api.post(f"/api/v1/users/{rita.pk}/actions/sign-in-link/").status_code == 403
    assert not SignInLink.objects.exists()
    [own] = api.get("/api/v1/groups/").json()["results"]
    assert (own["name"], own["members"]) == ("vision", ["max"])
    assert api.get(f"/api/v1/groups/{other.pk}/").status_code == 404
    assert api.patch(f"/api/v1/groups/{own['id']}/", {"members": []}).status_code == 403


def test_a_group_is_made_filled_renamed_and_removed(with_token, rita, max_, vera) -> None:
    api = with_token(rita)
    made = api.post("/api/v1/groups/", {"name": "speech", "members": ["max"]})
    assert made.status_code == 201, made.json()
    address = f"/api/v1/groups/{made.json()['id']}/"
    changed = api.patch(address, {"name": "voice", "members": ["max", "vera"]}).json()
    assert (changed["name"], changed["members"]) == ("voice", ["max", "vera"])
    assert api.patch(address, {"name": "vision"}).status_code == 400
    assert api.post("/api/v1/groups/", {"name": "vision"}).status_code == 400
    cluster = Cluster.objects.create(name="c", platform="local", group_id=made.json()["id"])
    refused = api.delete(address)
    assert refused.status_code == 409, "its cluster would be everybody's"
    cluster.delete()
    assert api.delete(address).status_code == 204


def test_an_experiment_is_handed_over_within_a_group(with_token, make_experiment, max_, rita, vera) -> None:
    colleague, stranger = User.objects.create_user("cora"), User.objects.create_user("stan")
    colleague.groups.add(*max_.groups.all())
    experiment = make_experiment(owner=max_, group=max_.groups.get())
    address = f"/api/v1/experiments/{experiment.public_id}/"
    for name in ("stan", "vera", "nobody"):
        refused = with_token(max_).patch(address, {"owner": name})
        assert (refused.status_code, refused.json()["errors"][0]["field"]) == (400, "owner"), name
    assert with_token(colleague).patch(address, {"owner": "cora"}).status_code == 400, "it is not theirs to give"
    assert with_token(max_).patch(address, {"group": None, "owner": "cora"}).json()["owner"] == "cora"
    assert with_token(max_).get(address).status_code == 404
    assert with_token(rita).patch(address, {"owner": "stan"}).json()["owner"] == "stan"
    assert with_token(stranger).get(address).status_code == 200
    events = with_token(rita).get(f"{address}events/").json()["results"]
    assert {event["message"] for event in events if event["kind"] == "handed over"} == {
        "From max to cora.", "From cora to stan."}


def test_whose_a_cluster_is_says_an_administrator(with_token, rita, max_, vision) -> None:
    cluster = Cluster.objects.create(name="c", platform="local", is_private=True, owner=max_)
    address = f"/api/v1/clusters/{cluster.public_id}/"
    assert with_token(max_).patch(address, {"is_private": False}).status_code == 403
    changed = with_token(rita).patch(address, {"is_private": False, "owner": None, "group": "vision"}).json()
    assert (changed["is_private"], changed["owner"], changed["group"]) == (False, None, "vision")


def test_the_first_administrator_who_becomes_a_member_is_none_any_more(with_token, rita) -> None:
    first = User.objects.create_superuser("admin", role="admin")
    changed = with_token(rita).patch(f"/api/v1/users/{first.pk}/", {"role": "member"})
    first.refresh_from_db()
    assert (changed.status_code, changed.json()["role"], first.is_admin) == (200, "member", False)


def test_so_in_the_admin(browser, rita) -> None:
    first = User.objects.create_superuser("ada", role="admin")
    address = f"/admin/experiments/user/{first.pk}/change/"
    sent = {"username": "ada", "role": "viewer", "is_active": "on", "local_users": ""}
    assert browser(rita).post(address, sent).status_code == 302
    first.refresh_from_db()
    assert (first.role, first.is_admin) == ("viewer", False)
    client = browser(rita)
    rita.refresh_from_db()
    answer = client.post(f"/admin/experiments/user/{rita.pk}/change/", {**sent, "username": "rita"})
    assert "the installation&#x27;s only administrator" in answer.content.decode()
