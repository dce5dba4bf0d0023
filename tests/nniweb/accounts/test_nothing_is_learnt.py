"""People and groups that are none of somebody's business are answered as those that do not exist."""

import pytest
from django.contrib.auth.models import Group

from nniweb.experiments.models import ApiToken


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


@pytest.mark.parametrize("what", ["share", "be told"])
def test_which_groups_there_are_is_not_learnt_by_naming_them(what, with_token, max_, make_experiment, settings) -> None:
    Group.objects.create(name="secret project")
    client, experiment = with_token(max_), make_experiment(owner=max_)

    def named(group: str):
        if what == "share":
            return client.patch(f"/api/v1/experiments/{experiment.public_id}/", {"group": group})
        return client.post("/api/v1/notifications/", {"channel": "webhook", "url": "https://hook.example/",
                                                      "group": group})

    assert refusals(named("secret project")) == refusals(named("no such project"))
    assert named("vision").status_code in (200, 201)
