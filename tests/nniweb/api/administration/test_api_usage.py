"""Who uses how much of the clusters: by person and group, as far as one may see."""

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from nniweb.experiments.models import Attempt, Cluster, Experiment, ExperimentCluster, Trial

USAGE = "/api/v1/usage/"
Ran = Callable[..., Attempt]


@pytest.fixture(autouse=True)
def standing_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """What runs would take more while a busy machine is at a test."""
    now = timezone.now()
    monkeypatch.setattr(timezone, "now", lambda: now)


@pytest.fixture
def ran(make_attempt: Callable[..., Attempt]) -> Ran:
    """An attempt that began so many hours ago and ran for so many; ``hours`` None: it still runs."""

    def ran(experiment: Experiment, began: float, hours: float | None) -> Attempt:
        now = timezone.now()
        attempt = make_attempt(experiment, status="RUNNING" if hours is None else "SUCCEEDED")
        attempt.started_at = now - timedelta(hours=began)
        if hours is not None:
            attempt.stage, attempt.ended_at = Attempt.Stage.ENDED, attempt.started_at + timedelta(hours=hours)
        attempt.save()
        return attempt

    return ran


@pytest.fixture
def busy(make_experiment, ran, make_attempt, alice, charlie, group) -> dict[str, Experiment]:
    """Alice shares two-GPU trials with her group and has a small experiment of her own; Charlie has one."""
    shared = make_experiment(owner=alice, group=group, gpus_of_a_trial=2)
    ran(shared, 1, None)
    ran(shared, 100, 3)
    make_attempt(shared, status="WAITING")
    own = make_experiment(owner=alice)
    ran(own, 5, 5)
    make_attempt(own, status="WAITING")
    theirs = make_experiment(owner=charlie, gpus_of_a_trial=1)
    ran(theirs, 30, 10)
    return {"shared": shared, "own": own, "theirs": theirs}


def rows(client: Any, **query: Any) -> list[tuple[Any, ...]]:
    answer = client.get(USAGE, query)
    assert answer.status_code == 200, answer.content
    return [(row["user"], row["group"], row["running"], row["waiting"], row["gpus"], round(row["gpu_hours"], 2))
            for row in answer.json()["results"]]


def test_administrators_see_what_everybody_uses(api, busy) -> None:
    assert rows(api) == [("alice", "vision", 1, 1, 2, 8.0), ("charlie", None, 0, 0, 0, 10.0),
                         ("alice", None, 0, 1, 0, 0.0)]


def test_others_see_their_own_and_their_groups(as_user, alice, bob, charlie, vera, busy) -> None:
    assert rows(as_user(alice)) == [("alice", "vision", 1, 1, 2, 8.0), ("alice", None, 0, 1, 0, 0.0)]
    for person in (bob, vera):
        assert rows(as_user(person)) == [("alice", "vision", 1, 1, 2, 8.0)]
    assert rows(as_user(charlie)) == [("charlie", None, 0, 0, 0, 10.0)]


def test_hours_are_those_of_the_last_days_where_days_are_given(api, busy) -> None:
    assert rows(api, days=1) == [("alice", "vision", 1, 1, 2, 2.0), ("charlie", None, 0, 0, 0, 4.0),
                                 ("alice", None, 0, 1, 0, 0.0)], "only what lies in the last 24 hours counts"


def test_usage_of_one_cluster(api, as_user, alice, busy) -> None:
    other = Cluster.objects.create(name="other", platform="local")
    Experiment.objects.filter(pk=busy["theirs"].pk).update(cluster=other)
    Attempt.objects.filter(trial__experiment=busy["theirs"]).update(cluster=other)
    assert rows(api, cluster=other.public_id) == [("charlie", None, 0, 0, 0, 10.0)]
    Cluster.objects.filter(pk=other.pk).update(is_private=True)
    assert as_user(alice).get(USAGE, {"cluster": other.public_id}).status_code == 404


@pytest.fixture
def on_two(make_experiment, ran, make_attempt, group) -> tuple[Cluster, Cluster]:
    """An experiment whose trials have two GPUs at home and one elsewhere. On each cluster one runs, one ran and one
    waits, and one more may start on either."""
    experiment = make_experiment(group=group, gpus_of_a_trial=2, several_clusters=True)
    home, other = experiment.cluster, Cluster.objects.create(name="other", platform="local")
    for position, (cluster, gpus) in enumerate([(home, 2), (other, 1)]):
        ExperimentCluster.objects.create(experiment=experiment, cluster=cluster, position=position,
                                         gpus_of_a_trial=gpus)
        attempts = [ran(experiment, 4, None), ran(experiment, 30, 3), make_attempt(experiment, status="WAITING")]
        Attempt.objects.filter(pk__in=[one.pk for one in attempts]).update(cluster=cluster)
    Attempt.objects.filter(pk=make_attempt(experiment, status="WAITING").pk).delete()
    return home, other


def test_an_experiment_on_two_clusters_counts_on_each_for_what_it_has_there(api, on_two) -> None:
    home, other = on_two
    assert rows(api, cluster=home.public_id) == [("ada", "vision", 1, 2, 2, 14.0)]
    assert rows(api, cluster=other.public_id) == [("ada", "vision", 1, 2, 1, 7.0)]
    assert rows(api) == [("ada", "vision", 2, 3, 3, 21.0)]


def test_what_waits_does_not_count_on_a_cluster_that_takes_no_more(api, on_two) -> None:
    _, other = on_two
    ExperimentCluster.objects.filter(cluster=other).update(is_drained=True)
    assert rows(api, cluster=other.public_id) == [("ada", "vision", 1, 1, 1, 7.0)], "what was sent there waits there"


def test_the_gpus_of_a_running_trial_are_those_that_it_was_given(api, make_experiment, ran) -> None:
    experiment = make_experiment(gpus_of_a_trial=0)
    Attempt.objects.filter(pk=ran(experiment, 1, None).pk).update(charged_gpus=4)
    assert rows(api) == [("ada", None, 1, 0, 4, 0.0)]


@pytest.mark.parametrize(("query", "field"), [({"days": 0}, "days"), ({"days": "x"}, "days"),
                                              ({"days": 10**9}, "days"), ({"colour": "red"}, "colour")])
def test_a_wrong_question_is_refused(api, query, field) -> None:
    answer = api.get(USAGE, query)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, field)


def test_retries_count_and_what_never_began_or_ended_before_it_began_does_not(api, make_experiment, ran) -> None:
    experiment = make_experiment(gpus_of_a_trial=1)
    first = ran(experiment, 10, 2)
    again = ran(experiment, 5, 1)
    Attempt.objects.filter(pk=again.pk).update(trial=first.trial, number=2)
    Trial.objects.filter(pk=again.trial_id).delete()
    ran(experiment, 4, -1)
    unheard = ran(experiment, 3, 1)
    Attempt.objects.filter(pk=unheard.pk).update(ended_at=None)
    never = ran(experiment, 2, 1)
    Attempt.objects.filter(pk=never.pk).update(started_at=None)
    assert rows(api) == [("ada", None, 0, 0, 0, 3.0)]


def test_people_who_are_gone_and_deleted_experiments(api, busy, charlie) -> None:
    charlie.delete()
    assert (None, None, 0, 0, 0, 10.0) in rows(api)
    Experiment.objects.filter(pk=busy["theirs"].pk).update(deleted_at=timezone.now())
    assert (None, None, 0, 0, 0, 10.0) not in rows(api)


def test_the_page_shows_the_same(admin, alice, busy) -> None:
    client = Client()
    client.force_login(alice)
    html = client.get("/usage/").content.decode()
    assert "charlie" not in html
    assert '<td>vision</td><td class="number">1</td><td class="number">1</td><td class="number">2</td>' \
        '<td class="number">8.0</td>' in html
    client.force_login(admin)
    assert "charlie" in client.get("/usage/?days=7").content.decode()
    assert client.get("/usage/?cluster=nothing").status_code == 404
    empty = Cluster.objects.create(name="empty", platform="local")
    assert "No trial runs or waits on empty" in client.get(f"/usage/?cluster={empty.public_id}").content.decode()


def test_the_owner_of_each_trial_is_on_the_clusters_page(admin, busy) -> None:
    client = Client()
    client.force_login(admin)
    html = client.get(f"/clusters/{Cluster.objects.get().public_id}/").content.decode()
    assert '<td class="small">alice <span class="quiet">in vision</span></td>' in html
    assert f'href="/usage/?cluster={Cluster.objects.get().public_id}"' in html


def test_more_trials_take_no_more_statements(api, make_experiment, ran) -> None:
    experiment = make_experiment(gpus_of_a_trial=1)

    def asked() -> int:
        with CaptureQueriesContext(connection) as found:
            assert api.get(USAGE).status_code == 200
        return len(found)

    ran(experiment, 1, None)
    asked()
    before = asked()
    for _ in range(5):
        ran(make_experiment(gpus_of_a_trial=1, group=Group.objects.create(name=f"g{_}")), 2, 1)
    assert asked() == before


@pytest.mark.slow
def test_a_hundred_thousand_trials_are_counted_by_the_database(api, make_experiment) -> None:
    now = timezone.now()
    experiment = make_experiment(gpus_of_a_trial=1)
    Trial.objects.bulk_create(
        [Trial(experiment=experiment, sequence_id=number, public_id=f"t{number:011}", status="SUCCEEDED",
               created_at=now) for number in range(100_000)], batch_size=5000)
    Attempt.objects.bulk_create(
        [Attempt(trial_id=pk, job_name=f"j{pk}", stage=Attempt.Stage.ENDED, created_at=now,
                 started_at=now - timedelta(hours=1), ended_at=now)
         for pk in Trial.objects.values_list("pk", flat=True)], batch_size=5000)
    began = time.monotonic()
    assert rows(api) == [("ada", None, 0, 0, 0, 100_000.0)]
    assert time.monotonic() - began < 5
