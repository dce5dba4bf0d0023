"""The page with the form of a cluster: who may open it, and what is in it for whom."""

import pytest
from django.contrib.auth.models import Group
from django.test import Client

from nniweb.experiments.models import Cluster, User
from nniweb.experiments.models.account import Role


def client_of(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def mia(db: None) -> User:
    return User.objects.create_user("mia", role=Role.MEMBER)


def test_an_administrator_sets_up_clusters_for_people_and_groups(admin: User, mia: User) -> None:
    Group.objects.create(name="vision")
    html = client_of(admin).get("/clusters/new/").content.decode()
    for words in ("<option>remote</option>", '<option value="group:vision">', '<option value="mia">', "Test cluster"):
        assert words in html


def test_others_are_told_why_they_may_not(mia: User, vera: User) -> None:
    for person in (mia, vera):
        answer = client_of(person).get("/clusters/new/")
        assert answer.status_code == 403
        assert "Only administrators may set up clusters." in answer.content.decode()
    shared = Cluster.objects.create(name="lab", platform="remote")
    answer = client_of(mia).get(f"/clusters/{shared.public_id}/edit/")
    assert answer.status_code == 403
    assert "only its owner and administrators may change it" in answer.content.decode()


def test_the_owner_of_a_private_cluster_changes_all_but_its_settings(mia: User, vera: User) -> None:
    own = Cluster.objects.create(name="mias", platform="remote", is_private=True, owner=mia, max_trials=3)
    html = client_of(mia).get(f"/clusters/{own.public_id}/edit/").content.decode()
    assert 'value="mias"' in html
    assert 'value="3"' in html
    assert "Only administrators may change the settings of a cluster" in html
    for part in ('id="settings-fields"', 'id="metadata"', 'id="f-owner"', 'id="test"'):
        assert part not in html
    assert client_of(vera).get(f"/clusters/{own.public_id}/edit/").status_code == 404
    assert f"/clusters/{own.public_id}/edit/" in client_of(mia).get(f"/clusters/{own.public_id}/").content.decode()


def test_the_form_shows_what_the_cluster_is(admin: User, mia: User) -> None:
    group = Group.objects.create(name="vision")
    made = Cluster.objects.create(name='a "quoted" <name>', platform="remote", group=group, owner=mia, enabled=False)
    html = client_of(admin).get(f"/clusters/{made.public_id}/edit/").content.decode()
    assert 'value="a &quot;quoted&quot; &lt;name&gt;"' in html
    assert '<option value="group:vision" selected>' in html
    assert 'list="people" autocomplete="off" spellcheck="false" value="mia">' in html
    assert 'data-field="enabled">' in html
