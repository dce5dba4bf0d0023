"""Who sees and who changes what."""

import pytest
from django.test import Client


@pytest.fixture
def hers(make_experiment, alice, group):
    """Alice's experiment, shared with her group."""
    return make_experiment(owner=alice, group=group)


@pytest.fixture
def trial(hers, make_attempt):
    return make_attempt(hers).trial


def statuses(client, experiment, trial) -> dict[str, int]:
    base, one = f"/api/v1/experiments/{experiment.public_id}/", f"/api/v1/trials/{trial.public_id}/"
    return {
        "look": client.get(base).status_code,
        "look at trial": client.get(one).status_code,
        "look at metrics": client.get(f"{one}metrics/").status_code,
        "look at output": client.get(f"{one}output/").status_code,
        "change": client.patch(base, {"trial_concurrency": 3}).status_code,
        "submit": client.post(f"{base}trials/", {"parameters": {"x": 1}}).status_code,
        "tag": client.patch(one, {"tags": ["a"]}).status_code,
        "cancel": client.post(f"{one}actions/cancel/").status_code,
        "pause": client.post(f"{base}actions/pause/").status_code,
    }


@pytest.mark.parametrize("who", ["alice", "bob", "ada"])
def test_owner_group_and_administrators_do_everything(who, request, as_user, hers, trial) -> None:
    found = statuses(as_user(request.getfixturevalue(who)), hers, trial)
    assert set(found.values()) == {200, 201}


def test_a_member_of_the_group_neither_deletes_nor_shares_what_is_anothers(as_user, bob, alice, hers) -> None:
    """Not by the page either: it has no button for what would be refused."""
    hers.status = "DONE"
    hers.save()
    address = f"/api/v1/experiments/{hers.public_id}/"
    for answer, wish in ((as_user(bob).delete(address), "delete it"),
                         (as_user(bob).patch(address, {"group": None, "name": "mine"}), "share it")):
        assert answer.status_code == 403
        assert answer.json()["errors"][0]["message"] == (
            f"Only the owner of an experiment and administrators can {wish}. Ask its owner (alice).")
    hers.refresh_from_db()
    assert (hers.deleted_at, hers.group.name, hers.name) == (None, "vision", hers.name)
    for person, has in ((bob, False), (alice, True)):
        browser = Client()
        browser.force_login(person)
        for page in ("/", f"/experiments/{hers.public_id}/"):
            text = browser.get(page).content.decode()
            assert ('data-action="archive"' in text, 'data-action="delete"' in text) == (True, has)
        assert ('id="share-dialog"' in text) == has
    assert as_user(alice).delete(address).status_code == 204


def test_what_has_no_owner_any_more_is_deleted_by_administrators(as_user, api, bob, hers) -> None:
    hers.owner, hers.status = None, "DONE"
    hers.save()
    address = f"/api/v1/experiments/{hers.public_id}/"
    refused = as_user(bob).delete(address)
    assert (refused.status_code, "Ask an administrator" in refused.content.decode()) == (403, True)
    assert api.delete(address).status_code == 204


def test_a_stranger_finds_nothing(as_user, charlie, hers, trial) -> None:
    client = as_user(charlie)
    assert set(statuses(client, hers, trial).values()) == {404}
    assert client.get("/api/v1/experiments/").json()["count"] == 0


def test_a_viewer_of_the_group_looks_and_changes_nothing(as_user, vera, hers, trial) -> None:
    client = as_user(vera)
    found = statuses(client, hers, trial)
    assert {name for name, status in found.items() if status == 200} == {name for name in found if "look" in name}
    assert {status for name, status in found.items() if "look" not in name} == {403}
    assert "viewer" in client.post("/api/v1/experiments/", {"config": "{}"}).json()["errors"][0]["message"]


def test_without_a_group_an_experiment_is_its_owners_and_the_administrators(as_user, bob, hers, trial) -> None:
    hers.group = None
    hers.save()
    assert set(statuses(as_user(bob), hers, trial).values()) == {404}


def test_an_experiment_can_be_shared_with_a_group_of_ones_own_only(as_user, alice, group, make_experiment) -> None:
    from django.contrib.auth.models import Group

    Group.objects.create(name="speech")
    experiment = make_experiment(owner=alice)
    address = f"/api/v1/experiments/{experiment.public_id}/"
    client = as_user(alice)
    assert client.patch(address, {"group": "vision"}).json()["group"] == "vision"
    refused = client.patch(address, {"group": "speech"})
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (400, "group")
    assert client.patch(address, {"group": None}).json()["group"] is None


def test_a_member_who_lists_sees_own_and_shared_experiments_once(as_user, bob, hers, make_experiment) -> None:
    own = make_experiment(owner=bob, group=hers.group)
    make_experiment()
    ids = [row["id"] for row in as_user(bob).get("/api/v1/experiments/").json()["results"]]
    assert sorted(ids) == sorted([own.public_id, hers.public_id])


def test_a_deleted_experiment_is_gone_for_everybody(api, hers, trial) -> None:
    from django.utils import timezone

    hers.deleted_at = timezone.now()
    hers.save()
    assert set(statuses(api, hers, trial).values()) == {404}
    assert api.get("/api/v1/experiments/?archived=all").json()["count"] == 0
