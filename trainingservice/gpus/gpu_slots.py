"""Which GPUs a trial gets, and why it gets none.

``choose_gpus`` is a pure function with NNI's rules: a GPU is usable when active ones are allowed,
when trials of this installation are on it already, or when no process of anybody else is; then it
must have room for one more trial; then the first ones in index order are taken.

A job that ran out of GPU memory before is put on GPUs that it has for itself, larger ones if need be, and the largest
ones first.

A job that says how much memory it needs is put on a GPU that has so much left, beside others that have said it: an idle
one if there is one, else the one that has the least left.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from trainingservice.machine_shares.shares import NOTHING, MachineShare
from trainingservice.reasons import Reason
from trainingservice.trial_job import GpuDemand

#: Jobs that are named for one GPU.
MOST_NAMED = 4
#: Share of a GPU's memory that is not given to jobs: the driver's own, and what lies between allocations.
RESERVED = 0.03
#: Jobs that share a GPU by memory, where ``max_trials_per_gpu`` says nothing: they also share its processors.
MOST_SHARING = 8


#: Nothing is known beside the number of GPUs.
ANY_GPU = GpuDemand()


@dataclass(frozen=True)
class GpuRequest:
    """What a trial asks for. ``gpu_indices`` None: any GPU of the machine; a GPU that is cut stands for its instances.
    """

    gpu_number: int
    max_trials_per_gpu: int = 1
    use_active_gpu: bool = False
    gpu_indices: tuple[int, ...] | None = None
    demand: GpuDemand = ANY_GPU
    #: Of each process: CUDA shows a process one instance only, so that it cannot have several.
    for_each: int | None = None
    #: Trials that share a GPU are clients of MPS: to the driver they are one process.
    has_mps: bool = False


@dataclass(frozen=True)
class GpuReading:
    """What was seen of one GPU. ``processes``: how many compute processes ran on it, anybody's. ``memory_total``:
    bytes, None where the driver does not tell; ``memory_used`` of it, by anybody, and ``others_bytes`` by processes
    that are no trials, both None where that is not known. ``fault``: why it does not work, one of contract.GPU_FAULTS.
    ``is_exclusive``: the driver lets one process on it. ``parent``: of an instance (MIG) the index of the GPU that it
    is a part of.
    """

    index: int
    processes: int = 0
    memory_total: int | None = None
    fault: str = ""
    memory_used: int | None = None
    others_bytes: int | None = None
    is_exclusive: bool = False
    parent: int | None = None


class HeldGpus(tuple[int, ...]):
    """The indices of the GPUs that a job holds on one machine. ``alone``: they take no other job. ``memory``: bytes
    that it has of each; 0: all. ``share``: what it holds of the machine beside them.
    """

    alone: bool
    memory: int
    share: MachineShare

    def __new__(cls, indices: Iterable[int] = (), alone: bool = False, memory: int = 0,
                share: MachineShare = NOTHING) -> HeldGpus:
        held = super().__new__(cls, indices)
        held.alone, held.memory, held.share = alone, memory, share
        return held


def is_alone(held: tuple[int, ...]) -> bool:
    """Whether GPUs that a job holds take no other job."""
    return isinstance(held, HeldGpus) and held.alone


def memory_held(held: tuple[int, ...]) -> int:
    """Bytes that a job has of each of its GPUs; 0: all."""
    return held.memory if isinstance(held, HeldGpus) else 0


def share_held(held: tuple[int, ...]) -> MachineShare:
    """What a job holds of the machine beside GPUs."""
    return held.share if isinstance(held, HeldGpus) else NOTHING


@dataclass(frozen=True)
class Assigned:
    """The trial gets these GPUs, in ascending order. ``memory``: so many bytes of each, 0: all. ``room``: then, of
    each, what all jobs together may have.
    """

    indices: tuple[int, ...]
    memory: int = 0
    room: tuple[int, ...] = ()


@dataclass(frozen=True)
class Waits:
    """The machine has such GPUs, but they are taken. ``reason`` names what holds them."""

    reason: Reason


@dataclass(frozen=True)
class Impossible:
    """The trial can never run on this machine as it is. ``reason`` says what it asks and what there is."""

    reason: Reason


def choose_gpus(request: GpuRequest, readings: Sequence[GpuReading], booked: Mapping[str, tuple[int, ...]],
                machine: str, *, recently_ours: Collection[int] = ()) -> Assigned | Waits | Impossible:
    """Choose GPUs of ``machine`` for one trial.

    ``booked``: other jobs of this installation -> the GPUs they hold. ``recently_ours``: GPUs that
    were booked when the readings were made; the processes seen there were ours, even if their
    trial has ended since.
    """
    takes_instances = (request.gpu_number if request.for_each is None else request.for_each) == 1
    seen = {reading.index: reading for reading in readings if takes_instances or reading.parent is None}
    named = request.gpu_indices
    if named is not None and (missing := sorted(set(named) - {index for reading in readings
                                                              for index in (reading.index, reading.parent)})):
        return Impossible(Reason("gpu_missing", machine=machine, missing=missing, has=sorted(
            reading.index for reading in readings)))
    allowed = sorted(index for index, reading in seen.items()
                     if named is None or index in named or reading.parent in named)
    if len(allowed) < request.gpu_number:
        if request.gpu_indices is None or len(seen) < request.gpu_number:
            return Impossible(Reason("too_few_gpus", machine=machine, asked=request.gpu_number, has=len(seen)))
        return Impossible(Reason("too_few_gpus_named", machine=machine, asked=request.gpu_number, allowed=len(allowed)))
    if request.demand.memory_above:
        large = [index for index in allowed
                 if seen[index].fault or (seen[index].memory_total or 0) > request.demand.memory_above]
        if len(large) < request.gpu_number:
            return Impossible(Reason("gpus_too_small", machine=machine, asked=request.gpu_number, has=len(large),
                                     memory=request.demand.memory_above))
        allowed = large
    if request.demand.memory and not request.demand.alone and any(
            _for_jobs(seen[index]) >= request.demand.memory for index in allowed if not seen[index].fault):
        return _choose_by_memory(request, [seen[index] for index in allowed], booked, machine, recently_ours)
    most = 1 if request.demand.alone else request.max_trials_per_gpu
    free: list[int] = []
    held: list[dict[str, Any]] = []
    for index in allowed:
        holders = sorted(job for job, indices in booked.items() if index in indices)
        ours = bool(holders) or index in recently_ours
        if seen[index].fault:  # it may come back: nobody is refused for it
            held.append({"gpu": index, "jobs": [], "fault": seen[index].fault})
        elif len(holders) >= most or any(is_alone(booked[job]) for job in holders):
            held.append({"gpu": index, "jobs": holders[:MOST_NAMED], "more": len(holders) > MOST_NAMED})
        elif seen[index].processes and not ours and not request.use_active_gpu:
            held.append({"gpu": index, "jobs": [], "processes": seen[index].processes})
        else:
            free.append(index)
    if len(free) >= request.gpu_number:
        if request.demand.alone:
            free.sort(key=lambda index: (-(seen[index].memory_total or 0), index))
        return Assigned(tuple(sorted(free[:request.gpu_number])))
    return Waits(Reason("gpu_held", machine=machine, asked=request.gpu_number, free=len(free), held=held))


def _for_jobs(gpu: GpuReading) -> int:
    """Bytes of a GPU that jobs may have where nobody else is on it; 0 where its size is not known."""
    return int((gpu.memory_total or 0) * (1 - RESERVED))


def _room_of(gpu: GpuReading, ours: int) -> int:
    """Bytes of a GPU that jobs may have together now. ``ours``: what they hold there."""
    others = gpu.others_bytes if gpu.others_bytes is not None else max(0, (gpu.memory_used or 0) - ours)
    return _for_jobs(gpu) - others


def _choose_by_memory(request: GpuRequest, gpus: Sequence[GpuReading], booked: Mapping[str, tuple[int, ...]],
                      machine: str, recently_ours: Collection[int]) -> Assigned | Waits:
    needed = request.demand.memory
    most = request.max_trials_per_gpu if request.max_trials_per_gpu > 1 else MOST_SHARING
    holders_of: dict[int, list[tuple[str, tuple[int, ...]]]] = defaultdict(list)
    for job, held in booked.items():
        for index in held:
            holders_of[index].append((job, held))
    #: (whether something is on it, what would be left, its number) -> what jobs may have of it
    fitting: dict[tuple[bool, int, int], int] = {}
    refused: list[dict[str, Any]] = []
    for gpu in gpus:
        holders = holders_of.get(gpu.index, ())
        ours = sum(memory_held(held) for _, held in holders)
        room = _room_of(gpu, ours)
        # a job may have more than it said, and one that has ended may still be in the reading
        left = min(room - ours, _for_jobs(gpu) - (gpu.memory_used or 0) if holders else room)
        if gpu.fault:
            refused.append({"gpu": gpu.index, "jobs": [], "fault": gpu.fault})
        elif gpu.processes and not holders and gpu.index not in recently_ours and not request.use_active_gpu:
            refused.append({"gpu": gpu.index, "jobs": [], "processes": gpu.processes})
        elif left < needed or len(holders) >= (1 if gpu.is_exclusive and not request.has_mps else most) \
                or any(is_alone(held) or not memory_held(held) for _, held in holders):
            jobs = sorted(job for job, _ in holders)
            refused.append({"gpu": gpu.index, "jobs": jobs[:MOST_NAMED], "more": len(jobs) > MOST_NAMED,
                            "free_bytes": max(0, left)})
        else:
            fitting[bool(holders), left - needed, gpu.index] = room
    if len(fitting) < request.gpu_number:
        return Waits(Reason("gpu_held", machine=machine, asked=request.gpu_number, free=len(fitting), held=refused,
                            memory=needed))
    chosen = sorted(sorted(fitting)[:request.gpu_number], key=lambda one: one[2])
    return Assigned(tuple(index for _, _, index in chosen), needed, tuple(fitting[one] for one in chosen))


@dataclass(frozen=True)
class GpuBooking:
    """What one node of a job holds of a machine: GPUs, none of which may have more than ``max_jobs_per_gpu`` jobs, and
    ``share`` of the ``machine_room`` that all jobs may have together.

    ``alone``: only this one, also when others come later; the same for all nodes of a job. ``memory``: it has so many
    bytes of each GPU (the same for all nodes), and others that have said how much they need may have what is left of
    ``room``, the bytes that all jobs may have of each GPU.
    """

    machine_identity: str
    gpu_indices: tuple[int, ...]
    max_jobs_per_gpu: int = 1
    alone: bool = False
    memory: int = 0
    room: tuple[int, ...] = ()
    share: MachineShare = NOTHING
    machine_room: MachineShare = NOTHING

    def is_taken(self, others: Iterable[tuple[int, ...]]) -> bool:
        """Whether the machine, or one of these GPUs, has no room for it. ``others``: what other jobs hold there."""
        others = list(others)
        if self.share != NOTHING and not self.share.fits(self.machine_room, map(share_held, others)):
            return True
        if self.memory:
            most = self.max_jobs_per_gpu if self.max_jobs_per_gpu > 1 else MOST_SHARING
            return any(_is_taken_by_memory([held for held in others if index in held], self.memory, room, most)
                       for index, room in zip(self.gpu_indices, self.room, strict=True))
        most = 1 if self.alone else self.max_jobs_per_gpu
        return any(sum(index in held for held in others) >= most
                   or any(index in held and is_alone(held) for held in others) for index in self.gpu_indices)


    def held(self) -> HeldGpus:
        """What others see of it."""
        return HeldGpus(self.gpu_indices, self.alone, self.memory, self.share)


def taken_among(nodes: Sequence[GpuBooking], held_on: Callable[[str], Iterable[tuple[int, ...]]]) -> bool:
    """Whether one of the nodes has no room, also beside those before it: several of them may be on one machine.
    ``held_on``: what other jobs hold on the machine of this identity.
    """
    return any(node.is_taken([*held_on(node.machine_identity), *(
        before.held() for before in nodes[:place] if before.machine_identity == node.machine_identity)])
        for place, node in enumerate(nodes))


def _is_taken_by_memory(holders: Sequence[tuple[int, ...]], needed: int, room: int, most: int) -> bool:
    return len(holders) >= most or any(is_alone(held) or not memory_held(held) for held in holders) \
        or sum(map(memory_held, holders)) + needed > room


class GpuBook(Protocol):
    """Who holds which GPUs of which machine, and what of its CPUs and memory, over all clusters and experiments of an
    installation.
    """

    def booked(self, machine_identity: str) -> Mapping[str, tuple[int, ...]]:
        """Job name -> what it holds on that machine (``HeldGpus``; without GPUs where it holds a share alone)."""

    def booked_on(self, machine_identities: Collection[str]) -> Mapping[str, Mapping[str, tuple[int, ...]]]:
        """The same of several machines, by identity. It costs little more than ``booked`` of one."""

    def book(self, machine_identity: str, job_name: str, gpu_indices: tuple[int, ...], max_jobs_per_gpu: int,
             alone: bool = False) -> bool:
        """Hold these GPUs for a job; durable when it returns True.

        False, and nothing changes, if any of them already has ``max_jobs_per_gpu`` other jobs, or one that is alone,
        or any at all where this one is to be ``alone``. Booking again under the same name replaces what the job held.
        """

    def book_nodes(self, job_name: str, nodes: Sequence[GpuBooking]) -> bool:
        """The same for all nodes of a job, in the order of their ranks: all of them are booked in one step, or none."""

    def free(self, job_name: str) -> None:
        """The job has ended or will not start: let go of what it holds. Harmless if it holds nothing."""

    def demand(self, job_name: str, known: GpuDemand) -> GpuDemand:
        """What a job needs as far as that is known now. ``known``: what its form says."""


class MemoryGpuBook:
    """A GpuBook for one process, for services used without nniweb."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[str, tuple[GpuBooking, ...]] = {}

    def booked(self, machine_identity: str) -> dict[str, HeldGpus]:
        with self._lock:
            return self._on(machine_identity)

    def booked_on(self, machine_identities: Collection[str]) -> dict[str, dict[str, HeldGpus]]:
        return {identity: self.booked(identity) for identity in machine_identities}

    def _on(self, machine_identity: str) -> dict[str, HeldGpus]:
        return {job: HeldGpus((index for node in here for index in node.gpu_indices), here[0].alone, here[0].memory,
                              here[0].share.times(len(here)))
                for job, nodes in self._held.items()
                if (here := [node for node in nodes if node.machine_identity == machine_identity])}

    def book(self, machine_identity: str, job_name: str, gpu_indices: tuple[int, ...], max_jobs_per_gpu: int,
             alone: bool = False) -> bool:
        return self.book_nodes(job_name, [GpuBooking(machine_identity, gpu_indices, max_jobs_per_gpu, alone)])

    def book_nodes(self, job_name: str, nodes: Sequence[GpuBooking]) -> bool:
        with self._lock:
            if taken_among(nodes, lambda identity: [held for job, held in self._on(identity).items()
                                                    if job != job_name]):
                return False
            self._held[job_name] = tuple(nodes)
            return True

    def free(self, job_name: str) -> None:
        with self._lock:
            self._held.pop(job_name, None)

    def demand(self, job_name: str, known: GpuDemand) -> GpuDemand:
        return known
