"""One worker at a time drives a cluster, and a sleeper writes nothing."""

import socket
import subprocess
import sys
from datetime import timedelta

import pytest
from django.utils import timezone

from nniweb.experiments.clusters.lease import Lease, LeaseLost
from nniweb.experiments.models import Cluster, Worker
from nniweb.process import process_identity
from nniweb.process.process_identity import own_start_time, start_time_of

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def cluster(db: None) -> Cluster:
    return Cluster.objects.create(name="farm", platform="docile")


@pytest.fixture(autouse=True)
def no_lease_runs_out_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is: ``expire`` lets them run out."""
    monkeypatch.setattr("nniweb.experiments.clusters.lease.LEASE_SECONDS", 3600.0)


def acquire(cluster: Cluster, worker_id: str) -> Lease | None:
    cluster.refresh_from_db()
    return Lease.acquire(cluster, worker_id)


def expire() -> None:
    Cluster.objects.update(lease_expires_at=timezone.now() - timedelta(seconds=1))


def test_a_second_worker_gets_nothing_while_the_first_renews(cluster: Cluster) -> None:
    first = acquire(cluster, "one")
    assert first is not None
    first.renew()
    assert acquire(cluster, "two") is None


def test_two_workers_that_saw_the_same_row_do_not_both_get_it(cluster: Cluster) -> None:
    same = Cluster.objects.get()
    assert Lease.acquire(cluster, "one") is not None
    expire()
    assert Lease.acquire(same, "two") is None, "its row is older than the lease"


def test_a_lease_that_ran_out_is_taken_and_the_sleeper_can_write_nothing(cluster: Cluster) -> None:
    sleeper = acquire(cluster, "one")
    expire()
    second = acquire(cluster, "two")
    assert sleeper is not None
    assert second is not None
    assert second.epoch == sleeper.epoch + 1
    with pytest.raises(LeaseLost), sleeper.transaction():
        Cluster.objects.update(message="written by the sleeper")
    assert Cluster.objects.get().message == ""
    assert not sleeper.is_good
    with pytest.raises(LeaseLost):
        sleeper.renew()
    with second.transaction():
        Cluster.objects.update(message="written by the holder")


def test_a_lease_from_before_the_databases_clock_was_put_back_keeps_nobody_waiting(cluster: Cluster) -> None:
    late = acquire(cluster, "one")
    Cluster.objects.update(lease_expires_at=timezone.now() + timedelta(hours=3))
    assert acquire(cluster, "two") is not None
    assert late is not None
    with pytest.raises(LeaseLost), late.transaction():
        pass


def test_the_same_worker_in_a_later_epoch_does_not_revive_the_earlier_one(cluster: Cluster) -> None:
    early = acquire(cluster, "one")
    expire()
    acquire(cluster, "one")
    assert early is not None
    with pytest.raises(LeaseLost), early.transaction():
        pass


def test_a_released_lease_is_free_at_once(cluster: Cluster) -> None:
    first = acquire(cluster, "one")
    assert first is not None
    first.release()
    assert not first.is_good
    assert acquire(cluster, "two") is not None


def test_a_holder_whose_process_is_gone_from_this_host_is_replaced_at_once(cluster: Cluster) -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    now = timezone.now()
    Worker.objects.create(id="one", host=socket.gethostname(), pid=child.pid, pid_started=start_time_of(child.pid),
                          started_at=now, heard_at=now)
    acquire(cluster, "one")
    assert acquire(cluster, "two") is None, "it lives"
    child.communicate(b"\n")
    assert acquire(cluster, "two") is not None


def test_a_holder_on_another_host_is_waited_for(cluster: Cluster) -> None:
    now = timezone.now()
    Worker.objects.create(id="one", host="elsewhere", pid=1, pid_started="1", started_at=now, heard_at=now)
    acquire(cluster, "one")
    assert acquire(cluster, "two") is None


def test_a_holder_that_is_not_seen_from_here_is_waited_for_though_its_host_has_the_same_name(
        cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    now = timezone.now()
    with monkeypatch.context() as there:
        there.setattr(process_identity, "seen_processes", lambda: "another container")
        Worker.objects.create(id="one", host=socket.gethostname(), pid=1, pid_started=own_start_time(),
                              started_at=now, heard_at=now)
    acquire(cluster, "one")
    assert acquire(cluster, "two") is None


def test_a_later_process_with_the_same_number_is_not_the_holder(cluster: Cluster) -> None:
    import os

    now = timezone.now()
    Worker.objects.create(id="one", host=socket.gethostname(), pid=os.getpid(), pid_started="long ago",
                          started_at=now, heard_at=now)
    acquire(cluster, "one")
    assert own_start_time() != "long ago"
    assert acquire(cluster, "two") is not None
