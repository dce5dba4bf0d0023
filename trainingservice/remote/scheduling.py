"""Which machine gets a trial, and why it waits. Pure functions over what is known of the machines now."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trainingservice.gpus.gpu_slots import (
    ANY_GPU,
    Assigned,
    GpuReading,
    GpuRequest,
    Impossible,
    Waits,
    choose_gpus,
    share_held,
)
from trainingservice.machine_shares.shares import NOTHING, MachineShare, why_never, why_not_now
from trainingservice.reasons import Reason, as_document, because_of
from trainingservice.trial_job import GpuDemand


@dataclass(frozen=True)
class MachineView:
    """One machine as the choice sees it."""

    address: str
    name: str
    #: Why nothing can be started there now, "" where it can.
    problem: str = ""
    #: Unfinished trials of this cluster there, and how many there may be (None: any number).
    trials: int = 0
    max_trials: int | None = None
    cpu_count: int = 1
    #: Submissions in a row that failed there: such a machine comes last.
    failures: int = 0
    #: None: not looked at yet. With ``gpu_problem`` they cannot be read now.
    gpus: Sequence[GpuReading] | None = None
    gpu_problem: str = ""
    #: False: it has no nvidia-smi at all.
    has_gpus: bool = True
    recently_ours: Collection[int] = ()
    #: Job -> what it holds there, of all clusters and experiments.
    booked: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    #: What all jobs may have there together beside GPUs.
    room: MachineShare = NOTHING
    max_trials_per_gpu: int = 1
    use_active_gpu: bool = False
    gpu_indices: tuple[int, ...] | None = None
    has_mps: bool = False

    @property
    def is_full(self) -> bool:
        return self.max_trials is not None and self.trials >= self.max_trials


@dataclass(frozen=True)
class Placed:
    """The trial goes to this machine; ``gpu_indices`` None where GPUs are not looked at. ``memory``, ``room``: as of
    ``Assigned``.
    """

    address: str
    gpu_indices: tuple[int, ...] | None = None
    memory: int = 0
    room: tuple[int, ...] = ()


def choose_machine(gpu_number: int | None, machines: Sequence[MachineView], *, kept: Collection[str] = (),
                   demand: GpuDemand = ANY_GPU, share: MachineShare = NOTHING) -> Placed | Waits | Impossible:
    """Choose among ``machines``: enough free GPUs, or a free slot; then least loaded, then first in the list. A job
    that is to be alone goes where the GPUs are largest.

    ``kept``: machines on which GPUs come free for a trial that has waited for long; they are left out. ``share``: what
    it asks for beside GPUs.
    """
    reasons: list[dict[str, Any]] = []
    never: list[dict[str, Any]] = []
    fitting: list[tuple[tuple[float, ...], Placed]] = []
    for order, machine in enumerate(machines):
        if machine.problem:
            reasons.append(as_document(Reason("machine_away", machine=machine.name, said=machine.problem,
                                              **because_of(machine.problem))))
        elif (too_small := why_never(share, machine.room, machine.name)) is not None:
            never.append(as_document(too_small))
        elif machine.is_full:
            reasons.append(as_document(Reason("machine_full", machine=machine.name, trials=machine.trials)))
        elif (held := why_not_now(share, machine.room, map(share_held, machine.booked.values()), machine.name)
              ) is not None:
            reasons.append(as_document(held))
        elif not gpu_number:
            load = machine.trials / (machine.max_trials or machine.cpu_count)
            fitting.append(((machine.failures, load, order), Placed(machine.address)))
        elif not machine.has_gpus:
            never.append(as_document(Reason("no_nvidia_smi", machine=machine.name)))
        elif machine.gpu_problem:
            reasons.append(as_document(Reason("gpus_unread", machine=machine.name, error=machine.gpu_problem)))
        elif machine.gpus is None:
            reasons.append(as_document(Reason("gpus_not_seen", machine=machine.name)))
        else:
            choice = _choose_gpus(gpu_number, machine, demand)
            if isinstance(choice, Impossible):
                never.append(as_document(choice.reason))
            elif isinstance(choice, Waits):
                reasons.append({key: choice.reason.arguments[key] for key in ("machine", "free", "held")})
            elif machine.address in kept:
                reasons.append(as_document(Reason("machine_kept", machine=machine.name)))
            else:
                used = sum(map(len, machine.booked.values())) / max(1, len(machine.gpus) * machine.max_trials_per_gpu)
                size = _smallest(machine, choice.indices) if demand.alone else 0
                fitting.append(((machine.failures, -size, used, order),
                                Placed(machine.address, choice.indices, choice.memory, choice.room)))
    if fitting:
        return min(fitting, key=lambda pair: pair[0])[1]
    if not reasons:
        return Impossible(Reason("no_machine_fits", asked=gpu_number or 0, machines=never))
    return Waits(Reason("machines_busy", asked=gpu_number or 0, machines=[*reasons, *never]))


def choose_machines(nodes: int, gpu_number: int | None, machines: Sequence[MachineView], *, kept: Collection[str] = (),
                    demand: GpuDemand = ANY_GPU, share: MachineShare = NOTHING
                    ) -> list[Placed] | Waits | Impossible:
    """Choose a machine of its own for each of several nodes of one trial: all of them, or none."""
    each = {machine.address: choose_machine(gpu_number, [machine], kept=kept, demand=demand, share=share)
            for machine in machines}
    never = [choice for choice in each.values() if isinstance(choice, Impossible)]
    asked = gpu_number or 0
    if len(machines) - len(never) < nodes:
        return Impossible(Reason("too_few_machines", nodes=nodes, fit=len(machines) - len(never), asked=asked,
                                 machines=[one for choice in never for one in choice.reason.arguments["machines"]]))
    fitting = [machine for machine in machines if isinstance(each[machine.address], Placed)]
    if len(fitting) < nodes:
        return Waits(Reason("nodes_busy", nodes=nodes, free=len(fitting), asked=asked, machines=[
            one for choice in each.values() if isinstance(choice, Waits | Impossible)
            for one in choice.reason.arguments["machines"]]))
    placed: list[Placed] = []
    while len(placed) < nodes:
        choice = choose_machine(gpu_number, fitting, kept=kept, demand=demand, share=share)
        assert isinstance(choice, Placed)
        placed.append(choice)
        fitting = [machine for machine in fitting if machine.address != choice.address]
    return placed


def machines_to_keep(gpu_number: int, machines: Sequence[MachineView], nodes: int = 1) -> tuple[str, ...]:
    """Where GPUs should come free for a trial that has waited for long, one machine for each of its nodes: where the
    fewest are missing.
    """
    missing: list[tuple[int, int, str]] = []
    for order, machine in enumerate(machines):
        if machine.problem or machine.gpus is None or isinstance(_choose_gpus(gpu_number, machine), Impossible):
            continue
        free = sum(isinstance(_choose_gpus(1, _only(machine, gpu.index)), Assigned) for gpu in machine.gpus
                   if machine.gpu_indices is None or gpu.index in machine.gpu_indices)
        missing.append((gpu_number - free, order, machine.address))
    return tuple(address for _, _, address in sorted(missing)[:nodes])


def _only(machine: MachineView, index: int) -> MachineView:
    from dataclasses import replace

    return replace(machine, gpu_indices=(index,))


def _smallest(machine: MachineView, indices: Collection[int]) -> int:
    """Bytes of memory of the smallest of these GPUs, 0 where that is not known."""
    return min((gpu.memory_total or 0 for gpu in machine.gpus or () if gpu.index in indices), default=0)


def _choose_gpus(gpu_number: int, machine: MachineView, demand: GpuDemand = ANY_GPU
                 ) -> Assigned | Waits | Impossible:
    request = GpuRequest(gpu_number, machine.max_trials_per_gpu, machine.use_active_gpu, machine.gpu_indices, demand,
                         has_mps=machine.has_mps)
    return choose_gpus(request, machine.gpus or (), machine.booked, machine.name, recently_ours=machine.recently_ours)
