"""Why nothing goes on where no worker drives a cluster, in a sentence."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from django.utils import timezone

from nniweb.experiments.clusters import worker_presence
from nniweb.experiments.clusters.worker_presence import absence_of, alive_hosts, alive_workers
from nniweb.experiments.models import Cluster, Experiment, Worker
from nniweb.process.process_identity import host_name
from nniweb.worker.supervisor import Supervisor


@pytest.fixture
def cluster(make_experiment: Callable[..., Experiment]) -> Cluster:
    cluster = make_experiment().cluster
    cluster.pinned_host = "ada"
    cluster.save()
    return cluster


def living_worker(host: str) -> Worker:
    """One that is alive however long the test takes."""
    return worker(host, timezone.now() + timedelta(hours=1))


def worker(host: str, heard_at: datetime) -> Worker:
    return Worker.objects.create(id=host, host=host, pid=1, started_at=heard_at, heard_at=heard_at)


def test_a_cluster_of_a_host_says_that_the_worker_there_is_away(cluster: Cluster) -> None:
    living_worker("bob")
    worker("ada", timezone.now() - timedelta(seconds=16))
    assert absence_of(cluster, alive_hosts()) == (
        "The worker on host ada is not running, and only it can run trials on local. Start the server there.")


def test_nothing_is_said_while_the_worker_there_lives_or_its_lease_does(cluster: Cluster) -> None:
    living_worker("bob")
    cluster.lease_holder, cluster.lease_expires_at = "somebody", timezone.now() + timedelta(hours=1)
    assert absence_of(cluster, alive_hosts()) == ""
    cluster.lease_holder, cluster.lease_expires_at = "", None
    living_worker("ada")
    assert absence_of(cluster, alive_hosts()) == ""


def test_a_cluster_of_no_host_needs_any_worker(cluster: Cluster) -> None:
    cluster.pinned_host = ""
    assert "No worker is alive" in absence_of(cluster, alive_hosts())
    living_worker("bob")
    assert absence_of(cluster, alive_hosts()) == ""


@pytest.mark.parametrize("wrong_by", [-3600, 3600])
def test_a_worker_lives_whatever_the_clocks_of_hosts_say(cluster: Cluster, monkeypatch: pytest.MonkeyPatch,
                                                         wrong_by: int) -> None:
    monkeypatch.setattr(worker_presence, "ALIVE_FOR", timedelta(minutes=10))  # the machine may be slow
    supervisor = Supervisor()
    supervisor._register()
    right = timezone.now
    with monkeypatch.context() as wrong_clock:
        wrong_clock.setattr(timezone, "now", lambda: right() + timedelta(seconds=wrong_by))
        assert alive_hosts() == {host_name()}, "read on a host whose clock is wrong"
        supervisor.renew()
        other = Supervisor()
        other._register()
    assert alive_workers().count() == 2, "written on one"


def test_a_disabled_cluster_says_so_whoever_lives(cluster: Cluster) -> None:
    cluster.enabled = False
    living_worker("ada")
    assert "is disabled" in absence_of(cluster, alive_hosts())
