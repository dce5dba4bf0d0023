"""Drives one cluster while its lease is held: rounds over its experiments, woken by events.

A round has four steps: observe what the platform and the keepers report, teach the tuner, carry
out stops, fill slots. Each step reads rows, does what is due and writes through the lease. Rounds
come when something happened, and each second as a safety net.
"""

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from django.db import DatabaseError, InterfaceError, close_old_connections, connection

from nniweb.database.outage_logs import takes_nothing
from nniweb.experiments.clusters.lease import Lease, LeaseLost
from nniweb.experiments.clusters.service_factory import build_service
from nniweb.experiments.config.errors import ConfigInvalid
from nniweb.experiments.lifecycle.transitions import move_experiment
from nniweb.experiments.models import Cluster, Experiment
from nniweb.experiments.models.experiment import ExperimentStatus
from nniweb.experiments.pubsub import doorbell
from nniweb.experiments.secrets.sealing import CannotOpen
from nniweb.experiments.sql import database_health
from nniweb.experiments.sql.idle_connections import drop_connection, give_connection_back
from nniweb.observability import process_figures
from nniweb.observability.log_ids import log_ids
from nniweb.tuning.process.tuner_client import TunerClient, TunerExit
from nniweb.worker.cluster_host.code_fetches import CodeFetches
from nniweb.worker.cluster_host.fenced_gpu_book import FencedGpuBook
from nniweb.worker.cluster_host.metric_inbox import MetricInbox
from nniweb.worker.cluster_host.resumed_jobs import resumed_jobs, submit_unseen_again
from nniweb.worker.cluster_host.service_host import SLOW_CALL_SECONDS, ServiceHost
from nniweb.worker.cluster_host.tuner_sessions import TunerSessions
from nniweb.worker.coalescing_event import CoalescingEvent
from nniweb.worker.rounds import (
    carry_out_stops,
    cluster_health,
    fill_slots,
    hand_parameters,
    preemption,
    refresh_trials,
    submission_answers,
    warm_places,
)
from nniweb.worker.rounds.cluster_work import ClusterWork
from nniweb.worker.rounds.fetch_code import code_is_there
from nniweb.worker.rounds.observing import observe_trials, unheard_keepers
from nniweb.worker.rounds.placing import homes
from nniweb.worker.rounds.removal import delete_experiments, ended_jobs, jobs_of_guests
from nniweb.worker.rounds.repeated_failures import RepeatedFailures
from nniweb.worker.rounds.round_experiments import RoundExperiments
from nniweb.worker.rounds.telling import teach_tuner, tuner_exits
from nniweb.worker.rounds.work_counts import WorkCounts, work_counts_of
from trainingservice import tracing
from trainingservice.base import TrainingService
from trainingservice.errors import PermanentError, TemporaryError
from trainingservice.lasting_thread import Part, in_short
from trainingservice.secrets_in_use import own_secrets

logger = logging.getLogger(__name__)

#: The longest pause between two rounds, in seconds.
ROUND_SECONDS = 1.0
#: So long, in seconds, a round waits for the tuners that it asked: those that answer at once need no round more.
ANSWERED_AT_ONCE = 0.003


class ClusterRunner:
    """The thread of one cluster. Starts with the lease, ends when it is lost or ``stop`` is called."""

    def __init__(self, cluster: Cluster, lease: Lease, tuner_client: TunerClient) -> None:
        self.cluster_pk = cluster.pk
        self.settings_revision = cluster.settings_revision
        self.lease = lease
        self._name, self._platform = cluster.name, cluster.platform
        self._wake = CoalescingEvent()
        self._stopping = threading.Event()
        self._is_idle = False
        metrics = MetricInbox(cluster.name, lease)
        host = ServiceHost(cluster.name, self._build, self._resume, self._wake.ring, metrics.listen)
        self._failures = RepeatedFailures(self._fail_experiment)
        tuners = TunerSessions(tuner_client, self._wake.ring, self._fail_tuner, self._stop_early,
                               self._failures.guard, self._tuner_exited, self._note_choice, cluster.platform)
        self.work = ClusterWork(cluster.pk, lease, host, metrics, tuners, CodeFetches(self._wake.ring))
        self._experiments = RoundExperiments(cluster.pk)
        #: Whether the round that is going on takes in what has happened, before the steps of experiments.
        self._is_gathering = False
        #: When the round that is going on began (monotonic); None between rounds.
        self._round_began: float | None = None
        #: Experiments whose steps it makes.
        self._in_round = 0
        #: Whether the thread has ended by a fault.
        self.has_failed = False
        #: Whether its rounds fail by a defect: it is they that show on the cluster what is wrong.
        self._part = Part("rounds")
        self._thread = threading.Thread(target=self._run, name=f"rounds-{cluster.name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, *, is_idle: bool = False) -> None:
        """Finish the round, close the service, give the lease back.

        ``is_idle``: nobody takes the cluster over, so what is in its way now is said of it no more.
        """
        self._is_idle = self._is_idle or is_idle
        self._stopping.set()
        self._wake.ring()

    def join(self, timeout: float) -> None:
        self._thread.join(timeout)

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    # --- the thread ------------------------------------------------------------------------

    def _run(self) -> None:
        with log_ids(cluster=self._name), own_secrets(), \
                process_figures.clusters_driven.labels(self._name).track_inprogress():
            try:
                self._make_rounds()
            except BaseException:
                self.has_failed = True  # the supervisor begins anew
                logger.exception("cluster %s: its rounds have failed; they are restarted", self._name)
            finally:
                self._part.is_well()

    def _make_rounds(self) -> None:
        next_full_round = 0.0
        try:
            with doorbell.listening(self._hear, rounds_only=True) as bell:
                while not self._stopping.is_set() and not self.lease.is_lost:
                    now = time.monotonic()
                    gathers = self._wake.clear()
                    is_full = now >= next_full_round
                    if is_full:
                        next_full_round = now + ROUND_SECONDS
                    self._guarded_round(bell, is_full, gathers or is_full)
                    give_connection_back()
                    self._wake.wait(max(0.0, next_full_round - time.monotonic()))
        except LeaseLost:
            pass  # as if the thread that renews it had found out first
        finally:
            if self.lease.is_lost:
                logger.warning("cluster %s: another worker has taken over", self._name)
            self._close()

    def _hear(self, experiment_pk: int) -> None:
        """Called in the ringing thread. What this round itself changed before its steps, its steps will see."""
        if not (self._is_gathering and threading.current_thread() is self._thread):
            self._wake.ring()

    def _guarded_round(self, bell: doorbell.Listener | None, is_full: bool = True, gathers: bool = True) -> bool:
        try:
            if not self.lease.is_good:
                self.lease.renew()  # it is ours until another epoch has begun; where nobody can say so, nothing is done
            with process_figures.round_seconds.labels(self._name).time():
                self.round(bell, is_full, gathers)
            self._part.is_well()
            return True
        except LeaseLost:
            raise
        except (DatabaseError, InterfaceError) as error:
            if takes_nothing(error):
                database_health.note_refused(error)
            else:
                self._tell(error)
            logger.warning("cluster %s: the round is postponed; the database's error: %s", self._name, error)
            drop_connection()
        except Exception as error:
            logger.exception("cluster %s: a round failed; the next one tries again", self._name)
            self._tell(error)
        process_figures.rounds_failed.labels(self._name).inc()
        # what fails each time must not fill the log or the processor
        self._stopping.wait(ROUND_SECONDS)
        return False

    def _tell(self, error: BaseException) -> None:
        self._part.is_in_trouble(f"The rounds of a cluster failed ({in_short(error)}) and are tried again. Until they "
                                 "succeed its experiments stand still. The log has details.")

    def round(self, bell: doorbell.Listener | None = None, is_full: bool = True, gathers: bool = True) -> None:
        """One round over the cluster's experiments, or over those only that have rung at the bell.

        ``gathers``: whether it takes in what the platform took over and says of its jobs, which may wait a little.
        """
        self._round_began = began = time.monotonic()
        self._in_round = 0
        failed = ""
        try:
            self._one_round(bell, is_full, gathers)
        except BaseException as error:
            failed = type(error).__name__
            raise
        finally:
            self._round_began = None
            self._is_gathering = False
            if self._in_round or failed:
                tracing.passed("round", time.monotonic() - began, failed=failed, cluster=self.cluster_pk,
                               platform=self._platform, experiments=self._in_round)

    def show_hanging(self) -> None:
        """For another thread: if a round hangs in a question to the platform, the cluster's page says so."""
        began = self._round_began
        if began is not None and time.monotonic() - began > SLOW_CALL_SECONDS:
            cluster_health.show_hanging(self.work)

    def _one_round(self, bell: doorbell.Listener | None, is_full: bool, gathers: bool) -> None:
        work = self.work
        work.shares = work.budgets = None
        self._is_gathering = True
        work.host.look_after()
        work.host.collect()
        if gathers:
            submission_answers.note_submitted(work)
        work.tuners.collect()
        work.fetches.collect()
        if gathers:
            observe_trials.observe_trials(work)
        self._is_gathering = False
        rung = set() if bell is None else bell.take()
        try:
            experiments = self._experiments.with_something_to_do() if is_full else self._experiments.of(rung)
            self._in_round = len(experiments)
            found = work_counts_of([experiment.pk for experiment in experiments], self.cluster_pk)
            for experiment in experiments:
                self._steps(experiment, found[experiment.pk])
            work.tuners.collect(ANSWERED_AT_ONCE)
        except BaseException:
            for pk in rung:
                doorbell.ring(pk)  # of what it was rung for nothing may have been done
            raise
        if is_full:
            # one that has ended stays as long as it has trials that end: they bring a round each time that they report
            here = {experiment.pk for experiment in experiments}
            work.logged_status = {pk: status for pk, status in work.logged_status.items() if pk in here}
            homes.take_over(work)
            preemption.preempt(work, experiments, found)
            cluster_health.show(work)
            unheard_keepers.remark_on_unheard_keepers(work)
            warm_places.look_after(work)
            delete_experiments.delete_some(work)
            ended_jobs.remove_some(work)
            jobs_of_guests.remove_some_of_guests(work)
            tuner_exits.make_up_for_exits(work)

    def _steps(self, experiment: Experiment, found: WorkCounts) -> None:
        """The steps of one experiment."""
        with log_ids(experiment=experiment.public_id):
            self._failures.guard(experiment, "steps", lambda: self._carry_out(experiment, found))

    def _carry_out(self, experiment: Experiment, found: WorkCounts) -> None:
        if experiment.cluster_id != self.cluster_pk:
            self._carry_out_as_guest(experiment, found)
            return
        teach_tuner.teach_tuner(self.work, experiment, found)
        carry_out_stops.carry_out_stops(self.work, experiment, found)
        refresh_trials.refresh_trials(self.work, experiment, found)
        if code_is_there(self.work, experiment):
            fill_slots.fill_slots(self.work, experiment, found)
        if experiment.multi_phase:
            hand_parameters.hand_parameters(self.work, experiment)
        self._log_status(experiment)

    def _carry_out_as_guest(self, experiment: Experiment, found: WorkCounts) -> None:
        """The steps for trials here of an experiment whose home is another cluster."""
        carry_out_stops.stop_guests(self.work, experiment, found)
        refresh_trials.refresh_trials(self.work, experiment, found)
        fill_slots.submit_placed(self.work, experiment, found)
        if experiment.multi_phase:
            hand_parameters.hand_over_known(self.work, experiment)

    def _log_status(self, experiment: Experiment) -> None:
        """Say what it is now where that changed, by this round or by somebody who steers it."""
        before = self.work.logged_status.get(experiment.pk)
        if experiment.status == before:
            return
        logger.info("experiment %s: it %s %s%s", experiment.public_id, "is" if before is None else "is now",
                    experiment.status, f": {experiment.message}" if experiment.message else "")
        self.work.logged_status[experiment.pk] = experiment.status
        if experiment.is_finished:
            self.work.handed_over.pop(experiment.pk, None)

    def _fail_tuner(self, experiment: Experiment, message: str, untaken: int | None) -> None:
        """As ``_fail_experiment``, because of its tuner. ``untaken``: as TunerSessions gives it."""
        with self.lease.transaction():
            self._fail_experiment(experiment, message)
            tuner_exits.note_failure(self.work, experiment, untaken)

    def _fail_experiment(self, experiment: Experiment, message: str) -> None:
        """The experiment cannot go on: ERROR with the reason; its running trials end by themselves."""
        with self.lease.transaction():
            move_experiment(experiment, ExperimentStatus.ERROR, self.work.now(), message=message)
        logger.error("experiment %s: it cannot continue: %s", experiment.public_id, message)

    def _stop_early(self, experiment: Experiment, trials: list[str]) -> None:
        teach_tuner.stop_early(self.work, experiment, trials)

    def _tuner_exited(self, experiment_pk: int, how: TunerExit) -> None:
        tuner_exits.note_exit(self.work, experiment_pk, how)

    def _note_choice(self, experiment: Experiment, chosen: dict[str, Any]) -> None:
        teach_tuner.note_choice(self.work, experiment, chosen)

    def _close(self) -> None:
        try:
            self.work.fetches.close()
            self.work.host.close()
            self.work.host.join(timeout=3.0)
            self.work.metrics.close()
            self.work.tuners.close(is_handed_over=self.lease.is_lost)
            if not self.lease.is_lost:
                if self._is_idle:
                    cluster_health.forget_trouble(self.work)
                self.lease.release()
        except Exception:
            logger.exception("cluster %s: not everything could be handed over to the next worker", self._name)
        finally:
            connection.close()

    # --- called on the host's threads ------------------------------------------------------

    def _build(self, on_change: Callable[[str], None]) -> TrainingService:
        close_old_connections()
        cluster = Cluster.objects.prefetch_related("metadata").get(pk=self.cluster_pk)
        try:
            return build_service(cluster, on_change, gpu_book=FencedGpuBook(self.lease))
        except (PermanentError, TemporaryError):
            raise
        except (ConfigInvalid, CannotOpen) as error:
            raise PermanentError(str(error)) from error

    def _resume(self) -> list:  # type: ignore[type-arg]
        try:
            with self.lease.transaction():
                submit_unseen_again(self.cluster_pk)
        except LeaseLost:
            raise TemporaryError("Another worker has taken this cluster over.") from None
        return resumed_jobs(self.cluster_pk)
