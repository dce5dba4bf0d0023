"""Who drives a cluster: a lease with an epoch that fences sleepers."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import NoReturn

from django.db import connection, transaction
from django.db.models import F, Q, QuerySet

from nniweb.database.database_clock import DatabaseNow
from nniweb.experiments.models import Cluster, Worker
from nniweb.process.process_identity import is_alive_here

#: A lease not renewed for so long may be taken by another worker.
LEASE_SECONDS = 15.0
#: How often it is renewed.
RENEW_SECONDS = 5.0


class LeaseLost(Exception):
    """The cluster is driven by somebody else now: write nothing more, start nothing more."""


class Lease:
    """This worker's right to drive one cluster, for one epoch.

    Expiry is written and judged by the database's clock, so workers on hosts with different clocks
    agree; the holder judges its own by the monotonic clock, which a suspended process also sees. A lease that could
    not be renewed in time (the disk is full, the database away) is not lost by that: until another epoch has begun
    it is this worker's, and whatever it writes says so first.
    """

    def __init__(self, cluster_pk: int, worker_id: str, epoch: int) -> None:
        self.cluster_pk = cluster_pk
        self.worker_id = worker_id
        self.epoch = epoch
        self._good_until = time.monotonic() + LEASE_SECONDS
        #: Whether another epoch is known to have begun, or this worker gave the lease back.
        self.is_lost = False

    @property
    def is_good(self) -> bool:
        """Whether nobody can have taken it yet. Where not, ``renew`` says who has it."""
        return not self.is_lost and time.monotonic() < self._good_until

    @classmethod
    def acquire(cls, cluster: Cluster, worker_id: str) -> "Lease | None":
        """Take the cluster if nobody holds it; None if somebody does.

        A holder that is known to be dead (its process on this host is gone) is replaced at once. A lease that ends
        later than any can was written before the database's clock was put back: it counts as run out, or a cluster
        whose holder died in those seconds would wait for the clock. One that lives loses its epoch by that, no more.
        """
        free = Q(lease_holder="") | Q(lease_expires_at=None) | Q(lease_expires_at__lt=DatabaseNow()) | Q(
            lease_expires_at__gt=DatabaseNow() + timedelta(seconds=2 * LEASE_SECONDS))
        if cluster.lease_holder and is_dead_here(cluster.lease_holder):
            free |= Q(lease_holder=cluster.lease_holder)
        taken = Cluster.objects.filter(free, pk=cluster.pk, lease_epoch=cluster.lease_epoch).update(
            lease_holder=worker_id, lease_epoch=F("lease_epoch") + 1,
            lease_expires_at=DatabaseNow() + timedelta(seconds=LEASE_SECONDS))
        return cls(cluster.pk, worker_id, cluster.lease_epoch + 1) if taken else None

    def renew(self) -> None:
        """Raises LeaseLost where another epoch has begun."""
        asked_at = time.monotonic()
        if not self._own().update(lease_expires_at=DatabaseNow() + timedelta(seconds=LEASE_SECONDS)):
            self._lose()
        self._good_until = asked_at + LEASE_SECONDS

    def release(self) -> None:
        """Let another worker take over at once."""
        self.is_lost = True
        self._own().update(lease_holder="", lease_expires_at=None)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """A transaction that only a true holder can commit: it begins with a write to the lease's own epoch.

        Raises LeaseLost. The write holds the row until the commit, so no other epoch can begin before it.
        """
        if self.is_lost:
            raise LeaseLost
        with transaction.atomic():
            with connection.cursor() as cursor:  # by hand: each write of a round begins with it
                cursor.execute("UPDATE experiments_cluster SET lease_epoch = lease_epoch"
                               " WHERE id = %s AND lease_holder = %s AND lease_epoch = %s",
                               [self.cluster_pk, self.worker_id, self.epoch])
                if not cursor.rowcount:
                    self._lose()
            yield

    def _lose(self) -> NoReturn:
        self.is_lost = True
        raise LeaseLost

    def _own(self) -> QuerySet[Cluster]:
        return Cluster.objects.filter(pk=self.cluster_pk, lease_holder=self.worker_id, lease_epoch=self.epoch)


def is_dead_here(worker_id: str) -> bool:
    """Whether this worker is known to be dead: its process was one of this host, and has gone. One query."""
    worker = Worker.objects.filter(pk=worker_id).first()
    return worker is not None and not is_alive_here(worker.host, worker.pid, worker.pid_started)
