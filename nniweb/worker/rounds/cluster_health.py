"""Shows how a cluster is: its health, why, and its machines. Written only when it changed."""

from __future__ import annotations

import logging
from dataclasses import replace

from nniweb.experiments.clusters.machine_loads import REFRESH_SECONDS
from nniweb.experiments.lifecycle.reason_columns import said, said_by_platform, struck_reason
from nniweb.experiments.models import Cluster, Experiment, Machine
from nniweb.experiments.pubsub import doorbell
from nniweb.observability.log_ids import ExperimentLogger, log_ids
from nniweb.worker.rounds.cluster_work import ClusterWork
from trainingservice.base import MachineDetail
from trainingservice.every_machine import every_machine, some_machines
from trainingservice.machine_load import MachineLoad
from trainingservice.reasons import Reason, arguments_of, code_of

logger = ExperimentLogger(__name__)

#: Seconds between two looks.
LOOK_SECONDS = 2.0
#: Seconds, at least, between two times that loads are written down.
LOAD_SECONDS = 10.0
#: Codes of machines that do not mend themselves.
NEED_A_PERSON = frozenset({"log_in_refused", "host_key_refused", "machine_unusable", "not_permitted"})


def show(work: ClusterWork) -> None:
    """Write the cluster's health and its machines into their rows, where it is time and they have changed."""
    if work.monotonic() < work.next_health_look:
        return
    work.next_health_look = work.monotonic() + LOOK_SECONDS
    slow = work.host.slow_calls()
    service = work.service
    trouble = "" if service is None else work.host.ask("trouble", lambda: service.trouble, "")
    none: list[MachineDetail] = []
    machines = none if service is None else work.host.ask("list_machines", service.list_machines, none)
    faults = list(work.host.faults.values())
    if work.service is None:
        health = Cluster.Health.BAD if work.host.needs_person else Cluster.Health.AWAY
        message = work.host.message
    elif slow:
        health, message = Cluster.Health.AWAY, Reason("slow_call", calls=slow[:3])
    elif faults:
        health, message = Cluster.Health.AWAY, faults[0]
    elif trouble:
        health, message = Cluster.Health.AWAY, trouble
    elif machines and not any(machine.healthy for machine in machines):
        message = every_machine([(machine.name, machine.message) for machine in machines])
        needs_person = message.arguments["common"] in NEED_A_PERSON
        health = Cluster.Health.BAD if needs_person else Cluster.Health.AWAY
    elif lost := [machine for machine in machines
                  if not machine.healthy and code_of(machine.message) != "machine_connects"]:
        health = Cluster.Health.DEGRADED
        message = some_machines([(machine.name, machine.message) for machine in lost], len(machines))
    else:
        health, message = Cluster.Health.GOOD, ""
    message = struck_reason(message)
    if work.shown_health != (health, message):
        with work.lease.transaction():
            Cluster.objects.filter(pk=work.cluster_pk).update(health=health, **said_by_platform(message))
            _ring(work)
        _log(work, health, message)
        work.shown_health = (health, message)
    if work.service is not None:
        _show_machines(work, [replace(machine, load=None) for machine in machines])
        _show_loads(work, machines)


def show_hanging(work: ClusterWork) -> None:
    """For another thread, while a round of the cluster hangs in a question to the platform: the cluster says so."""
    slow = work.host.slow_calls()
    if not slow:
        return
    with work.lease.transaction():
        Cluster.objects.filter(pk=work.cluster_pk).update(health=Cluster.Health.AWAY,
                                                          **said_by_platform(Reason("slow_call", calls=slow[:1])))
        _ring(work)
    work.shown_health = None  # the round thread says what is so when it goes on


def forget_trouble(work: ClusterWork) -> None:
    """Of a cluster that nobody will ask for a while: trouble of now may have passed long before it is asked again."""
    with work.lease.transaction():
        Cluster.objects.filter(pk=work.cluster_pk).exclude(health=Cluster.Health.GOOD).update(
            health=Cluster.Health.UNKNOWN, **said(""))


def _show_machines(work: ClusterWork, machines: list[MachineDetail]) -> None:
    if machines == work.shown_machines:
        return
    with work.lease.transaction():
        for machine in machines:
            Machine.objects.update_or_create(
                cluster_id=work.cluster_pk, name=machine.name, defaults={
                    "identity": machine.identity, "gpu_summary": list(machine.gpus), "healthy": machine.healthy,
                    "agent_state": machine.agent_state, "way_home": machine.way_home, "seen_at": work.now(),
                    **said_by_platform(struck_reason(machine.message))})
        Machine.objects.filter(cluster_id=work.cluster_pk).exclude(name__in=[machine.name for machine in machines]
                                                                   ).delete()
        _ring(work)
    work.shown_machines = machines


def _show_loads(work: ClusterWork, machines: list[MachineDetail]) -> None:
    """Loads change all the time, so they are written less often, and only the pages of clusters look again."""
    now = work.monotonic()
    if now < work.next_load:
        return
    shows_all = now >= work.next_load_of_all
    changed = [machine for machine in machines if _is_news(machine.load, work.shown_loads.get(machine.name), shows_all)]
    if not changed:
        return
    with work.lease.transaction():
        for machine in changed:
            Machine.objects.filter(cluster_id=work.cluster_pk, name=machine.name).update(
                load=None if machine.load is None else machine.load.document(), seen_at=work.now())
    work.next_load = now + LOAD_SECONDS
    if shows_all:
        work.next_load_of_all = now + REFRESH_SECONDS
    names = {machine.name for machine in machines}
    work.shown_loads = {name: load for name, load in work.shown_loads.items() if name in names} | {
        machine.name: machine.load for machine in changed}


def _is_news(load: MachineLoad | None, shown: MachineLoad | None, shows_all: bool) -> bool:
    if load is None:
        return shown is not None
    return shows_all or not load.is_like(shown)


def _log(work: ClusterWork, health: Cluster.Health, message: str) -> None:
    """For those whose experiments run there: that the platform is in trouble, or is well again."""
    if health == Cluster.Health.GOOD and work.shown_health is None:
        return
    if arguments_of(message).get("common") == "machine_connects":  # each time that the cluster is taken up
        return
    level = logging.INFO if health == Cluster.Health.GOOD or work.host.is_starting else logging.WARNING
    there = Experiment.objects.unfinished().filter(cluster=work.cluster_pk).values_list("public_id", flat=True)
    for public_id in there:
        with log_ids(experiment=public_id):
            logger.log(level, "the platform: %s", message or "it is well.")


def _ring(work: ClusterWork) -> None:
    """Pages of the cluster look again when the experiments that run on it ring: it is their why that changed."""
    for experiment_pk in Experiment.objects.unfinished().filter(cluster=work.cluster_pk).values_list("pk", flat=True):
        doorbell.ring_on_commit(experiment_pk)
