"""Who finds what on the page that launches."""

import pytest
from django.test import Client

from nniweb.experiments.models import Cluster, User
from nniweb.experiments.models.account import Role


@pytest.fixture
def hers(make_experiment):
    """An experiment of a member's own."""
    alice = User.objects.create_user("alice", role=Role.MEMBER)
    config = {"trialCommand": "true", "tuner": {"name": "Random"}, "trainingService": {"platform": "local"}}
    return make_experiment(owner=alice, config=config, config_text='{"written": "by a program"}')


def page_of(role: str, address: str, name: str = "somebody"):
    user, _ = User.objects.get_or_create(username=name, defaults={"role": role})
    client = Client()
    client.force_login(user)
    return client.get(address)


def test_what_one_may_not_see_or_launch_cannot_be_cloned(hers) -> None:
    address = f"/new/?clone={hers.public_id}"
    assert page_of(Role.MEMBER, address).status_code == 404
    hers.owner.role = Role.VIEWER
    hers.owner.save()
    assert page_of(Role.VIEWER, address, "alice").status_code == 404


def test_a_clone_of_what_a_program_wrote_is_yaml(hers) -> None:
    page = page_of(Role.MEMBER, f"/new/?clone={hers.public_id}", "alice").content.decode()
    assert "trialCommand: &#x27;true&#x27;" in page
    assert "searchSpace:\n  x: {_type: uniform, _value: [0, 1]}" in page


def test_a_viewer_is_told_to_ask_and_is_offered_nothing_to_clone(hers) -> None:
    page = page_of(Role.VIEWER, "/new/?way=clone")
    assert "Your role is viewer" in page.content.decode()
    assert hers.public_id not in page.content.decode()
    assert "<form method=\"post\" enctype" not in page.content.decode(), "a form that would be refused"


@pytest.mark.parametrize("query", ["way=nonsense", "template=nonsense", "clone=nonsense"])
def test_a_wrong_address_is_not_found(query, db) -> None:
    assert page_of(Role.MEMBER, f"/new/?{query}").status_code == 404


def test_a_member_is_offered_no_folder_on_the_server(db) -> None:
    assert "Code folder on the server" not in page_of(Role.MEMBER, "/new/").content.decode()
    assert "Code folder on the server" in page_of(Role.ADMIN, "/new/", "boss").content.decode()


def test_field_by_field_begins_with_a_cluster_that_can_be_reached(db) -> None:
    for name, health in (("a-broken", Cluster.Health.BAD), ("b-away", Cluster.Health.AWAY),
                         ("c", Cluster.Health.UNKNOWN)):
        Cluster.objects.create(name=name, platform="local", health=health)
    start = page_of(Role.ADMIN, "/new/?way=fields").context["field_start"]
    assert start.endswith("cluster: c\n")
    Cluster.objects.filter(name="c").delete()
    assert page_of(Role.ADMIN, "/new/?way=fields").context["field_start"].endswith("cluster: a-broken\n")
