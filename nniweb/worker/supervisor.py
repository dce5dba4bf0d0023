"""The worker process: takes leases on clusters and runs a thread of rounds for each.

Lease renewal is a thread of its own, so that neither a round nor a platform that hangs can let a
lease run out. ``serve`` runs a supervisor in a thread, ``manage.py worker`` in the main one.
"""

import logging
import os
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from datetime import timedelta

from django.conf import settings
from django.db import DatabaseError, connection
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone

from nniweb.database.database_clock import DatabaseNow
from nniweb.experiments.access.sessions import forget_sessions
from nniweb.experiments.clusters.lease import RENEW_SECONDS, Lease, LeaseLost
from nniweb.experiments.clusters.worker_presence import alive_workers
from nniweb.experiments.launch.code_archives import remove_unused
from nniweb.experiments.models import Cluster, Experiment, ExperimentCluster, Trial, Worker
from nniweb.experiments.models.experiment import UNFINISHED_EXPERIMENTS
from nniweb.experiments.pubsub import doorbell
from nniweb.experiments.sql import database_health
from nniweb.experiments.sql.idle_connections import drop_connection, give_connection_back
from nniweb.experiments.sql.selected_rows import select
from nniweb.experiments.variants.stored_variants import remove_unused_variants
from nniweb.process.process_identity import host_name, is_alive_here, own_start_time
from nniweb.tuning.custom_algorithms.module_search import module_folders
from nniweb.tuning.process.tuner_client import TunerClient
from nniweb.worker.cluster_host import experiment_log
from nniweb.worker.housekeeping.upkeep import Upkeep
from nniweb.worker.notifications.notification_sender import NotificationSender
from nniweb.worker.rounds.runner import ClusterRunner
from trainingservice.lasting_thread import PAUSES, LastingThread, Part, in_short
from trainingservice.platforms import known_platforms

logger = logging.getLogger(__name__)

#: How often clusters without a holder are looked for, in seconds (sooner when a bell rings).
LOOK_SECONDS = 1.0
#: How long a free cluster is left to a worker that drives fewer, in seconds: two of its looks and a bit.
COURTESY_SECONDS = 2.5
#: A private cluster is driven on for so long after it has nothing to do any more, in seconds: what the platform alone
#: knows of the last trial's end (out of memory, evicted) comes after the keeper's word.
LINGER_SECONDS = 30.0
#: How often code archives that nobody needs any more are removed, in seconds.
TIDY_SECONDS = 3600.0
#: Experiments whose cluster is remembered.
MOST_REMEMBERED = 10_000
#: Worker rows not heard of for so long are removed.
FORGET_WORKERS_AFTER = timedelta(days=1)
#: What is read of a cluster.
_READ = ("id", "name", "is_private", "pinned_host", "settings_revision", "lease_holder", "lease_epoch")


class Supervisor:
    """One per process. ``run`` blocks until ``stop``; both may be called from different threads."""

    def __init__(self) -> None:
        self.worker_id = uuid.uuid4().hex
        self._runners: dict[int, ClusterRunner] = {}
        self._guard = threading.Lock()
        self._stopping = threading.Event()
        #: Where ``run`` waits for work.
        self._listener: doorbell.Listener | None = None
        self._renewing_over = threading.Event()
        self._renewal = LastingThread("leases", self._renew, stopping=self._renewing_over, is_vital=True)
        #: Whether clusters are looked after. That a database which was there once is away is said elsewhere.
        self._part = Part("clusters", is_vital=True)
        self._has_looked = False
        #: Whether ``run`` was called: it can be once.
        self.has_run = False
        self._tuners = TunerClient(exit_seconds=settings.TUNER_EXIT_SECONDS)
        self._notifications = NotificationSender(self.worker_id)
        self._upkeep = Upkeep()
        self._next_tidying = 0.0
        #: Cluster -> how often its rounds have failed in a row, and the monotonic time until which they are left alone.
        self._failed: dict[int, tuple[int, float]] = {}
        #: Cluster -> monotonic time since which it was seen without a worker.
        self._free_since: dict[int, float] = {}
        #: Driven cluster -> monotonic time since which it has had nothing to do.
        self._idle_since: dict[int, float] = {}
        #: Experiment -> its clusters (primary keys), as they were when it rang first since they were forgotten.
        self._clusters_of: dict[int, set[int]] = {}
        #: Experiments that led to a look since the last one that was due: a second would find nothing else.
        self._looked_for: set[int] = set()
        #: Whether this worker's row is there; written again by ``run`` where it is not.
        self._registered = False

    def prepare(self) -> None:
        """Have the tuner process load what it needs while this process still does."""
        self._tuners.prepare()

    def run(self) -> None:
        """Work until stopped; then finish the rounds, give the leases back and return. Trials go on."""
        self.has_run = True
        with experiment_log.kept():
            self._work()

    def _work(self) -> None:
        self._part.is_in_trouble("The worker is starting and has not checked the clusters yet.")
        try:
            self._renewal.start()
            self._notifications.start()
            self._upkeep.start()
            with doorbell.listening(rounds_only=True) as listener:
                self._listener = listener
                failures = 0
                while not self._stopping.is_set():
                    failures = 0 if self._looked() else failures + 1
                    if failures:
                        self._stopping.wait(PAUSES[min(failures, len(PAUSES)) - 1])
                    else:
                        self._wait(listener)
        finally:
            self._part.is_well()  # as far as it is needed
            self._notifications.stop()
            self._upkeep.stop()
            self._sign_off()  # first: nobody leaves a cluster to a worker that is ending
            self._close()
            self._notifications.join(timeout=3.0)
            self._upkeep.join(timeout=3.0)
            self._renewing_over.set()
            self._renewal.join(timeout=10)
            connection.close()

    def _looked(self) -> bool:
        """Do what is due; False where that failed for another reason than the database's, which passes."""
        try:
            if not self._registered:
                self._register()
            self.look()
            self._tidy()
            give_connection_back()
        except DatabaseError as error:
            logger.warning("the worker cannot run the clusters; the database's error: %s", error)
            connection.close()
            if not self._has_looked:
                self._part.is_in_trouble(f"The worker cannot start ({in_short(error)}). It tries again automatically.")
            return True
        except Exception as error:
            logger.exception("the worker cannot run the clusters; it tries again")
            self._part.is_in_trouble(f"The worker cannot run the clusters ({in_short(error)}). It tries again "
                                     "automatically.")
            return False
        self._has_looked = True
        self._part.is_well()
        return True

    def _wait(self, listener: doorbell.Listener) -> None:
        """Until the next look is due, or a bell rings of an experiment that no runner here hears.

        Each report of each trial rings: looking at the clusters each time took a fifth of a busy server's time. Of a
        cluster that another worker drives, or nobody may, the first ring counts until the next look is due.
        """
        deadline = time.monotonic() + LOOK_SECONDS
        while not self._stopping.is_set() and (left := deadline - time.monotonic()) > 0:
            rung = listener.wait(left) - self._looked_for
            try:
                if not self._all_driven(rung):
                    self._looked_for |= rung
                    return
            except DatabaseError:  # the look says what is wrong
                return
        self._looked_for.clear()

    def _all_driven(self, rung: set[int]) -> bool:
        """Whether the clusters of these experiments are all driven by this worker already."""
        if unknown := rung - self._clusters_of.keys():
            if len(self._clusters_of) > MOST_REMEMBERED:
                self._clusters_of.clear()
            several = []
            for pk, cluster, has_several in Experiment.objects.filter(pk__in=unknown).values_list(
                    "pk", "cluster_id", "several_clusters"):
                self._clusters_of[pk] = {cluster}
                several += [pk] * has_several
            if several:
                for pk, cluster in ExperimentCluster.objects.filter(experiment__in=several).values_list(
                        "experiment", "cluster"):
                    self._clusters_of[pk].add(cluster)
            give_connection_back()
        return all(pk in self._clusters_of and self._clusters_of[pk] <= self._runners.keys() for pk in rung)

    def stop(self) -> None:
        """Have ``run`` end, also where it waits for work. For any thread; returns at once."""
        self._stopping.set()
        if self._listener is not None:  # otherwise it does not wait yet, and will not
            self._listener.end_waits()

    @property
    def is_whole(self) -> bool:
        """False while the thread that renews leases fails, though it is needed: a new process may mend that."""
        return self._renewing_over.is_set() or not self._renewal.part.trouble

    def _tidy(self) -> None:
        if time.monotonic() >= self._next_tidying:
            self._next_tidying = time.monotonic() + TIDY_SECONDS
            try:
                forget_sessions(timezone.now())
                remove_unused_variants(timezone.now())  # before the archives that they are of
                remove_unused(timezone.now())
            except OSError as error:
                logger.warning("unused code archives cannot be removed: %s", error)

    def look(self) -> None:
        """Take clusters that need a worker, let go of those that do not, or that were changed."""
        here = {cluster.pk: cluster for cluster in _clusters_here()}
        idle = _idle_of(here.values())
        over = self._idle_for_long(idle)
        wanted = {pk: cluster for pk, cluster in here.items() if pk not in idle}
        for pk, runner in list(self._runners.items()):
            cluster = here.get(pk)
            if not runner.is_alive:
                self._drop(pk)
                self._note_end(runner)
            elif cluster is None or cluster.settings_revision != runner.settings_revision:
                runner.stop()
            elif pk in over:
                runner.stop(is_idle=True)
        for pk, cluster in wanted.items():
            if pk not in self._runners and not self._stopping.is_set() and self._may_begin(pk) \
                    and not self._leave_to_others(cluster):
                self._acquire(cluster)

    def _idle_for_long(self, idle: set[int]) -> set[int]:
        """Those of the clusters with nothing to do that this worker has driven so for long enough."""
        now = time.monotonic()
        self._idle_since = {pk: self._idle_since.get(pk, now) for pk in idle & self._runners.keys()}
        return {pk for pk, since in self._idle_since.items() if now - since >= LINGER_SECONDS}

    def _note_end(self, runner: ClusterRunner) -> None:
        """Of one that failed each begin is later than the one before, up to a limit."""
        if not runner.has_failed:
            self._failed.pop(runner.cluster_pk, None)
            return
        failures, _ = self._failed.get(runner.cluster_pk, (0, 0.0))
        pause = PAUSES[min(failures, len(PAUSES) - 1)]
        self._failed[runner.cluster_pk] = failures + 1, time.monotonic() + pause

    def _may_begin(self, cluster_pk: int) -> bool:
        return time.monotonic() >= self._failed.get(cluster_pk, (0, 0.0))[1]

    def _leave_to_others(self, cluster: Cluster) -> bool:
        """Whether a free cluster is left, for a moment, to a living worker that drives fewer than this one.

        Only those that nobody drives: one whose worker failed is taken at once by whoever comes first.
        """
        if cluster.lease_holder:
            self._free_since.pop(cluster.pk, None)
            return False
        since = self._free_since.setdefault(cluster.pk, time.monotonic())
        if time.monotonic() - since > COURTESY_SECONDS:
            return False
        others = alive_workers().exclude(pk=self.worker_id)
        if cluster.pinned_host:
            others = others.filter(host=cluster.pinned_host)
        driven = Counter(Cluster.objects.exclude(lease_holder="").values_list("lease_holder", flat=True))
        return any(driven[worker.pk] < len(self._runners) for worker in others
                   if is_alive_here(worker.host, worker.pid, worker.pid_started))

    def _acquire(self, cluster: Cluster) -> None:
        lease = Lease.acquire(cluster, self.worker_id)
        if lease is None:
            return
        logger.info("cluster %s: this worker runs its trials now (epoch %d)", cluster.name, lease.epoch)
        self._free_since.pop(cluster.pk, None)
        runner = ClusterRunner(cluster, lease, self._tuners)
        with self._guard:
            self._runners[cluster.pk] = runner
        try:
            runner.start()
        except BaseException:  # the machine has no thread to spare: perhaps another worker's has
            self._drop(cluster.pk)
            with suppress(DatabaseError):
                lease.release()
            raise

    def _drop(self, cluster_pk: int) -> None:
        with self._guard:
            self._runners.pop(cluster_pk, None)

    def _register(self) -> None:
        Worker.objects.filter(heard_at__lt=DatabaseNow() - FORGET_WORKERS_AFTER).delete()
        Worker.objects.update_or_create(id=self.worker_id, defaults={
            "host": host_name(), "pid": os.getpid(), "pid_started": own_start_time(), "started_at": DatabaseNow(),
            "heard_at": DatabaseNow(), "platforms": sorted(known_platforms()), "module_folders": module_folders()})
        self._registered = True

    def _sign_off(self) -> None:
        try:
            Worker.objects.filter(pk=self.worker_id).delete()
        except DatabaseError:
            logger.warning("the worker's row could not be removed")

    def _renew(self) -> None:
        try:
            while not self._renewing_over.wait(RENEW_SECONDS):
                self.renew()
                give_connection_back()
        finally:
            connection.close()

    def renew(self) -> None:
        """Renew all leases and the worker's own row, once."""
        with self._guard:
            runners = list(self._runners.values())
        for runner in runners:
            try:
                if runner.is_alive:
                    runner.lease.renew()
                    runner.show_hanging()
            except LeaseLost:
                runner.stop()
            except DatabaseError as error:
                logger.warning("a lease could not be renewed; the database's error: %s", error)
                database_health.note_refused(error)
                drop_connection()
        try:
            if not Worker.objects.filter(pk=self.worker_id).update(
                    heard_at=DatabaseNow(), platforms=sorted(known_platforms())):
                self._registered = False  # somebody took it for gone, after a day of sleep
            database_health.note_written()
        except DatabaseError as error:
            database_health.note_refused(error)
            drop_connection()

    def _close(self) -> None:
        with self._guard:
            runners = list(self._runners.values())
        self._tuners.hurry()
        for runner in runners:
            runner.stop()
        deadline = time.monotonic() + 10
        for runner in runners:
            runner.join(max(0.1, deadline - time.monotonic()))
        self._tuners.shutdown()


def _clusters_here() -> list[Cluster]:
    """Enabled clusters that a worker on this host may drive."""
    # by hand: asked each second
    return select(Cluster, _READ, "WHERE enabled AND pinned_host IN ('', %s)", [host_name()])


def _idle_of(clusters: Iterable[Cluster]) -> set[int]:
    """Private clusters that have nothing to do (primary keys).

    A shared one always has: its machines are shown, and the first trial starts at once.
    """
    private = [cluster.pk for cluster in clusters if cluster.is_private]
    return set(private) - set(_busy_clusters().filter(pk__in=private).values_list("pk", flat=True)) if private \
        else set()


def _busy_clusters() -> QuerySet[Cluster]:
    unfinished_trials = Trial.objects.unfinished().filter(experiment=OuterRef("pk"))
    return Cluster.objects.filter(Exists(Experiment.objects.filter(cluster=OuterRef("pk")).filter(
        Q(status__in=UNFINISHED_EXPERIMENTS) | Q(deleted_at__isnull=False) | Q(jobs_due_at__lte=timezone.now())
        | Q(tuner_exit_tries__isnull=False) | Exists(unfinished_trials)))
        | Exists(ExperimentCluster.objects.filter(cluster=OuterRef("pk")).filter(
            Q(experiment__status__in=UNFINISHED_EXPERIMENTS, experiment__deleted_at=None)
            | Q(experiment__deleted_at__isnull=False, used_at__isnull=False, cleaned_at=None)
            | Q(jobs_due_at__lte=timezone.now())
            | Exists(Trial.objects.unfinished().filter(experiment=OuterRef("experiment"))))))
