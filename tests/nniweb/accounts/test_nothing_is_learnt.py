"""People and groups that are none of somebody's business are answered as those that do not exist."""

import pytest
from django.contrib.auth.models import Group

from nniweb.experiments.models import ApiToken, Cluster


def refusals(answer) -> list:
    assert answer.status_code == 400, answer.json()
    return answer.json()["errors"]


def test_which_user_names_there_are_is_not_learnt_by_making_tokens(with_token, max_, vera, rita) -> None:
    client = with_token(max_)
    wish = {"name": "ci", "scope": "read"}
    there, nowhere = (refusals(client.post("/api/v1/tokens/", {**wish, "user": name})) for name in ("vera", "nobody"))
    assert there == nowhere
    assert client.post("/api/v1/tokens/", {**wish, "user": "max"}).status_code == 201
    admin = with_token(rita)
    assert "nobody" in refusals(admin.post("/api/v1/tokens/", {**wish, "user": "nobody"}))[0]["message"]
    assert admin.post("/api/v1/tokens/", {**wish, "user": "vera"}).status_code == 201
    assert ApiToken.objects.filter(user=vera).count() == 1


@pytest.mark.parametrize("what", ["share", "be told", "give a cluster"])
def test_which_groups_there_are_is_not_learnt_by_naming_them(what, with_token, max_, make_experiment, settings) -> None:
    Group.objects.create(name="secret project")
    client, experiment = with_token(max_), make_experiment(owner=max_)
    mine = Cluster.objects.create(name="mine", platform="local", owner=max_, is_private=True)

    def named(group: str):
        if what == "share":
            return client.patch(f"/api/v1/experiments/{experiment.public_id}/", {"group": group})
        if what == "give a cluster":
            return client.patch(f"/api/v1/clusters/{mine.public_id}/", {"group": group})
        return client.post("/api/v1/notifications/", {"channel": "webhook", "url": "https://hook.example/",
                                                      "group": group})

    assert refusals(named("secret project")) == refusals(named("no such project"))
    assert named("vision").status_code in (200, 201)


def test_which_people_and_groups_there_are_is_not_learnt_by_giving_a_cluster_away(with_token, max_, vera) -> None:
    client = with_token(max_)
    mine = Cluster.objects.create(name="mine", platform="local", owner=max_, is_private=True)

    def change(**fields):
        answer = client.patch(f"/api/v1/clusters/{mine.public_id}/", fields)
        return answer.status_code, answer.json()

    Group.objects.create(name="secret project")
    assert change(owner="vera") == change(owner="nobody") == change(owner=17)
    assert change(owner="vera")[0] == 403
    assert change(group="secret project", owner="vera") == change(group="no such project", owner="nobody")
    mine.refresh_from_db()
    assert (mine.owner, mine.group) == (max_, None)
    assert change(group="vision")[0] == 200


def test_who_has_a_cluster_is_not_learnt_by_renaming_ones_own(with_token, max_, vera) -> None:
    Cluster.objects.create(name="vera-remote", platform="remote", owner=vera, is_private=True)
    mine = Cluster.objects.create(name="mine", platform="local", owner=max_, is_private=True)
    client = with_token(max_)
    for names in (("vera-remote", "nobody-remote"), ("vera-remote-2", "nobody-slurm-17")):
        there, nowhere = (refusals(client.patch(f"/api/v1/clusters/{mine.public_id}/", {"name": name}))
                          for name in names)
        assert there == nowhere
    assert client.patch(f"/api/v1/clusters/{mine.public_id}/", {"name": "the farm"}).status_code == 200


@pytest.mark.parametrize(("method", "address", "field"), [
    ("post", "/api/v1/quotas/", "user"), ("post", "/api/v1/quotas/", "group"), ("post", "/api/v1/groups/", "members"),
    ("post", "/api/v1/clusters/", "group"), ("post", "/api/v1/users/", "groups"),
    ("patch", "/api/v1/experiments/{experiment}/", "owner"), ("patch", "/api/v1/experiments/{experiment}/", "group")])
def test_where_people_and_groups_are_named_those_that_are_there_are_answered_as_those_that_are_not(
        with_token, max_, vera, make_experiment, method, address, field) -> None:
    Group.objects.create(name="secret project")
    client, experiment = with_token(max_), make_experiment(owner=max_)
    name = "secret project" if field.startswith("group") else "rita"
    vera.groups.clear()
    vera.username = "rita"
    vera.save()

    def said(name: str) -> str:
        value = [name] if field in ("members", "groups") else name
        answer = getattr(client, method)(address.format(experiment=experiment.public_id), {field: value, "name": "x"})
        assert answer.status_code in (400, 403)
        return answer.content.decode().replace(name, "NAME")

    assert said(name) == said("no such")
