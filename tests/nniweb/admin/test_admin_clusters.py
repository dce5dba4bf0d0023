"""Clusters in the admin: the dashboard's form, which saves over REST; tests and removal."""

import pytest
from django.test import Client

from nniweb.experiments.clusters import editing
from nniweb.experiments.clusters.metadata import set_metadata
from nniweb.experiments.models import Cluster, ExperimentCluster, User
from nniweb.experiments.models.account import Role

SETTINGS = {"address": "there", "token": "sesame", "doors": [{"host": "a", "password": "pw-a"}]}
ADD = "/admin/experiments/cluster/add/"


@pytest.fixture
def cluster(rita, vault) -> Cluster:
    return editing.create_cluster("strong room", "vault", SETTINGS, owner=rita, is_private=False, host="")


def page_of(cluster: Cluster) -> str:
    return f"/admin/experiments/cluster/{cluster.pk}/change/"


def form_of(html: str) -> str:
    """The form, without what differs from page to page: the token and where it leads."""
    form = html[html.index('<form id="cluster-form"'):html.index("</form>", html.index('<form id="cluster-form"'))]
    opening, _, rest = form.partition("novalidate>")
    assert opening
    return rest.partition('name="csrfmiddlewaretoken"')[2].partition(">")[2].replace("/admin/experiments/cluster/", "/")


def test_the_form_is_the_dashboards(browser, cluster) -> None:
    for admins, dashboards in ((ADD, "/clusters/new/"), (page_of(cluster), f"/clusters/{cluster.public_id}/edit/")):
        admin_page, page = (browser.get(address).content.decode() for address in (admins, dashboards))
        back = "/clusters/" if admins == ADD else f"/clusters/{cluster.public_id}/"
        assert form_of(admin_page).replace('href="/"', f'href="{back}"') == form_of(page)
        assert "js/pages/cluster_form.js" in admin_page
        assert 'name="csrfmiddlewaretoken"' in admin_page, "the script needs its cookie"


def test_it_is_for_administrators(cluster) -> None:
    client = Client()
    client.force_login(User.objects.create_user("mia", role=Role.MEMBER))
    for address in (ADD, page_of(cluster)):
        assert client.get(address).status_code == 302
        assert client.post(address).status_code == 302


def test_what_is_stored_besides_is_shown_and_no_secret(browser, cluster) -> None:
    set_metadata(cluster, "key_file", "open please")
    for address in (page_of(cluster), "/admin/experiments/cluster/", f"/clusters/{cluster.public_id}/edit/"):
        text = browser.get(address).content.decode()
        assert not any(secret in text for secret in ("sesame", "pw-a", "open please"))
    text = browser.get(page_of(cluster)).content.decode()
    assert "doors[0].password: set, token: set" in text
    assert cluster.public_id in text


def test_nothing_is_saved_but_over_rest(browser, cluster) -> None:
    assert browser.post(ADD, {"name": "x"}).status_code == 405
    assert browser.post(page_of(cluster), {"name": "x"}).status_code == 405
    assert Cluster.objects.get().name == "strong room"


def test_a_cluster_that_is_not_there_is_said_on_the_list(browser, vault) -> None:
    answer = browser.get("/admin/experiments/cluster/99/change/", follow=True)
    assert "exist" in str(next(iter(answer.context["messages"])))


def test_rehearsing_shows_every_finding(browser, cluster) -> None:
    act = {"action": "rehearse", "_selected_action": [cluster.pk]}
    answer = browser.post("/admin/experiments/cluster/", act, follow=True)
    assert [(str(message), message.level_tag) for message in answer.context["messages"]] == [
        ('"strong room": It opens.', "success")]
    editing.change_settings(cluster, {"address": "there", "token": "wrong"})
    answer = browser.post("/admin/experiments/cluster/", act, follow=True)
    assert [message.level_tag for message in answer.context["messages"]] == ["error"]
    editing.change_settings(cluster, {"address": "away", "token": "wrong"})
    answer = browser.post("/admin/experiments/cluster/", act, follow=True)
    assert [message.level_tag for message in answer.context["messages"]] == ["warning"]


def test_a_cluster_of_another_machine_is_not_rehearsed_here(browser, cluster) -> None:
    Cluster.objects.update(pinned_host="elsewhere")
    answer = browser.post("/admin/experiments/cluster/", {"action": "rehearse", "_selected_action": [cluster.pk]},
                          follow=True)
    assert "elsewhere" in str(next(iter(answer.context["messages"])))


def test_a_cluster_with_experiments_is_not_deleted(browser, cluster, make_experiment) -> None:
    address = f"/admin/experiments/cluster/{cluster.pk}/delete/"
    experiment = make_experiment(cluster=cluster)
    browser.post(address, {"post": "yes"})
    assert Cluster.objects.filter(pk=cluster.pk).exists()
    experiment.delete()
    browser.post(address, {"post": "yes"})
    assert not Cluster.objects.filter(pk=cluster.pk).exists()


def test_one_of_the_clusters_of_an_experiment_is_not_deleted_and_the_page_says_why(browser, cluster, make_experiment
                                                                                   ) -> None:
    address = f"/admin/experiments/cluster/{cluster.pk}/delete/"
    experiment = make_experiment(cluster=Cluster.objects.create(name="home", platform="local"), several_clusters=True)
    ExperimentCluster.objects.create(experiment=experiment, cluster=cluster, position=1)
    for answer in (browser.get(address), browser.post(address, {"post": "yes"}, follow=True)):
        assert answer.status_code == 200
        assert experiment.public_id in answer.content.decode()
    assert Cluster.objects.filter(pk=cluster.pk).exists()
