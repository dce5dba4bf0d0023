"""Trials that run on several machines at the same time: one keeper on each, all placed and booked at once, or none.

Rank 0 is started first. Its keeper chooses the port on which the ranks meet when it starts the command, and its agent
tells it with the state of the folder; then the others are started. Each folder holds the plan of the whole trial, so
that whoever finds rank 0 after a restart knows where the others are, and starts those that were not started yet.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from trainingservice.base import ServiceContext
from trainingservice.errors import PermanentError, TrainingServiceError
from trainingservice.gpus.gpu_slots import GpuBooking, Impossible, Waits
from trainingservice.keeper.agent_client import FolderState
from trainingservice.keeper.trial_of_ranks import RankState, failed_rank, rank_state, rows_of, trial_of_ranks
from trainingservice.machine_shares.shares import NOTHING
from trainingservice.nodes.node_names import node_name
from trainingservice.nodes.options import nodes_of
from trainingservice.polling.service import MustWait, Observation
from trainingservice.reasons import Reason
from trainingservice.remote.machines import RemoteMachine, room_on
from trainingservice.remote.scheduling import MachineView, Placed, choose_machines
from trainingservice.trial_job import TrialJobDetail
from trainingservice.trial_job_status import TrialJobStatus
from trialkeeper import contract

logger = logging.getLogger(__name__)


class NodeHost(Protocol):
    """What the service of the machines does for these trials."""

    def folder_of_rank(self, job: TrialJobDetail, rank: int) -> str:
        """Relative to the cluster's folder on its machine."""

    def document_of(self, job: TrialJobDetail, machine: RemoteMachine,
                    code: contract.CodeDocument | None) -> contract.JobDocument:
        """What the keeper of one node runs, without what is said of the node."""

    def note(self, job_name: str, seen: Observation) -> None:
        """Something was seen of a job."""

    def give_back(self, job_name: str, fault: TrainingServiceError) -> None:
        """It could not be started, and nothing of it runs."""


@dataclass
class _NodeJob:
    places: tuple[Placed, ...]
    port: int | None = None
    states: dict[int, RankState] = field(default_factory=dict)
    #: Ranks of which a folder was seen, and when the answer came (monotonic seconds): an older one may come later.
    present: dict[int, float] = field(default_factory=dict)
    started: set[int] = field(default_factory=set)
    stopped: set[int] = field(default_factory=set)
    failed: int | None = None
    rank_0_ended_at: float | None = None
    #: No machine has rank 0, and nobody is starting it.
    is_absent: bool = False


class NodeJobs:
    """Any method may be called from any thread. ``places``: node -> address of its machine, for who counts them."""

    def __init__(self, host: NodeHost, machines: Mapping[str, RemoteMachine], places: MutableMapping[str, str],
                 context: ServiceContext, monotonic: Callable[[], float]) -> None:
        self._host, self._machines, self._places, self._context = host, machines, places, context
        self._monotonic = monotonic
        self._lock = threading.RLock()
        self._jobs: dict[str, _NodeJob] = {}

    # --- where they are --------------------------------------------------------------------

    def places_of(self, job: TrialJobDetail) -> list[str]:
        """Addresses of the machines of all ranks, in their order; [] while that is not known."""
        with self._lock:
            entry = self._entry(job)
            return [] if entry is None else [placed.address for placed in entry.places]

    def folders_on(self, address: str, job: TrialJobDetail) -> dict[str, str]:
        """Names and folders of the ranks there. Of a job of which nothing is known, rank 0 is looked for everywhere."""
        places = self.places_of(job)
        ranks = [rank for rank, place in enumerate(places) if place == address] if places else [0]
        return {node_name(job.id, rank): self._host.folder_of_rank(job, rank) for rank in ranks}

    def resume(self, job: TrialJobDetail) -> None:
        """It was started by an earlier object."""
        with self._lock:
            self._entry(job)

    def forget(self, job_name: str) -> list[str]:
        """The job has ended; the names of its nodes."""
        with self._lock:
            entry = self._jobs.pop(job_name, None)
            names = [node_name(job_name, rank) for rank in range(len(entry.places))] if entry else [job_name]
            for name in names:
                self._places.pop(name, None)
            return names

    # --- starting --------------------------------------------------------------------------

    def start(self, job: TrialJobDetail, views: Sequence[MachineView], kept: Sequence[str]) -> Observation:
        """Place all ranks, book their GPUs in one step, and start rank 0. Raises MustWait, PermanentError."""
        number, share = job.form.gpu_number, job.form.share
        demand = self._context.gpu_book.demand(job.id, job.form.gpu_demand)
        choice = choose_machines(nodes_of(job.form.options), number, views, kept=kept, demand=demand, share=share)
        if isinstance(choice, Impossible):
            raise PermanentError(choice.reason)
        if isinstance(choice, Waits):
            raise MustWait(choice.reason)
        machines = [self._machines[placed.address] for placed in choice]
        if (number or share != NOTHING) and not self._context.gpu_book.book_nodes(job.id, [
                GpuBooking(machine.identity, placed.gpu_indices or (), machine.settings.max_trial_number_per_gpu,
                           demand.alone, placed.memory, placed.room, share, room_on(machine))
                for machine, placed in zip(machines, choice, strict=True)]):
            raise MustWait(Reason("gpu_taken", asked=number or 0), retry_after=0.2)
        with self._lock:
            entry = self._jobs[job.id] = _NodeJob(tuple(choice))
            self._note_places(job.id, entry)
            self._start_rank(job, entry, 0)
            return Observation(TrialJobStatus.WAITING, machine=machines[0].name, gpu_indices=choice[0].gpu_indices,
                               url=machines[0].url_of(self._host.folder_of_rank(job, 0)),
                               platform_state=self._state(job, entry))

    def _start_rank(self, job: TrialJobDetail, entry: _NodeJob, rank: int) -> None:
        placed = entry.places[rank]
        machine = self._machines.get(placed.address)
        if machine is None:
            return
        node = replace(job, id=node_name(job.id, rank), gpu_indices=placed.gpu_indices)
        entry.started.add(rank)
        machine.start(node, self._host.folder_of_rank(job, rank),
                      lambda code: self._document(node, machine, code, entry, rank))

    def _document(self, node: TrialJobDetail, machine: RemoteMachine, code: contract.CodeDocument | None,
                  entry: _NodeJob, rank: int) -> contract.JobDocument:
        document = self._host.document_of(node, machine, code)
        first = self._machines[entry.places[0].address].settings
        document["node"] |= {
            "rank": rank, "address": first.node_address or first.host,
            "places": [{"machine": placed.address,
                        "gpu_indices": None if placed.gpu_indices is None else list(placed.gpu_indices)}
                       for placed in entry.places]}
        if entry.port is not None:
            document["node"]["port"] = entry.port
        return document

    def given_back(self, job: TrialJobDetail, rank: int, fault: TrainingServiceError) -> None:
        """A rank certainly was not started. Of rank 0: none was, and the job may be placed anew."""
        if rank == 0:
            self._context.gpu_book.free(job.id)
            self.forget(job.id)
            self._host.give_back(job.id, fault)
            return
        with self._lock:
            entry = self._entry(job)
            if entry is None:
                return
            entry.states[rank] = failed_rank(self._state_of(entry, rank), fault.reason)
            seen = self._judged(job, entry)
        self._host.note(job.id, seen)

    def says(self, job: TrialJobDetail, rank: int, said: Reason) -> None:
        """Why a rank waits on its machine."""
        with self._lock:
            entry = self._entry(job)
            if entry is None or rank in entry.present:
                return
            entry.states[rank] = replace(self._state_of(entry, rank),
                                         seen=Observation(TrialJobStatus.WAITING, message=said))
            seen = self._judged(job, entry)
        self._host.note(job.id, seen)

    def stop(self, job: TrialJobDetail) -> bool:
        """Have all ranks ended; those that were not started leave a tombstone. False: nobody knows where they are."""
        with self._lock:
            entry = self._entry(job)
            if entry is None:
                return False
            for rank in range(len(entry.places)):
                self._stop_rank(job, entry, rank)
            return True

    # --- looking ---------------------------------------------------------------------------

    def saw(self, job: TrialJobDetail, rank: int, address: str, state: FolderState, asked_at: float
            ) -> Observation | None:
        """What a machine told of a rank; what it means for the trial, None for nothing. ``asked_at``: as for the host.
        """
        with self._lock:
            entry = self._entry(job) or self._found(job, state)
            if entry is None or rank >= len(entry.places) or entry.places[rank].address != address:
                return None
            if state["state"] == "absent":
                return self._missed(job, entry, rank) if asked_at >= entry.present.get(rank, 0.0) else None
            entry.present[rank] = self._monotonic()
            entry.started.add(rank)
            entry.is_absent = False
            machine = self._machines[address]
            if not self._state_of(entry, rank).has_ended:  # the first end counts, also where a stop came after it
                entry.states[rank] = rank_state(rank, job, machine.name, state, entry.places[rank].gpu_indices)
            if rank == 0 and entry.port is None:
                entry.port = state.get("node", {}).get("port")
            if entry.rank_0_ended_at is None and rank == 0 and entry.states[0].has_ended:
                entry.rank_0_ended_at = self._monotonic()
            self._start_others(job, entry)
            seen = self._judged(job, entry)
            return replace(seen, url=self._url(job, entry), machine=self._name(entry, 0))

    def unanswered(self, job: TrialJobDetail, rank: int, seen: Observation) -> None:
        """The machine of a rank does not answer: UNKNOWN, or FAILED where that has lasted too long."""
        with self._lock:
            entry = self._entry(job)
            if entry is None or self._state_of(entry, rank).has_ended:
                return
            state = self._state_of(entry, rank)
            entry.states[rank] = failed_rank(state, seen.message or "") if seen.status.is_end \
                else replace(state, seen=seen)

    def observed(self, job: TrialJobDetail) -> tuple[Observation | None, bool]:
        """What is known of a trial now, and whether anything is. None and True: its machines certainly do not have it.
        """
        with self._lock:
            entry = self._entry(job)
            if entry is None:
                return None, False
            if entry.is_absent and not entry.present:
                return None, True
            self._start_others(job, entry)
            if not entry.states:
                return None, False
            return self._judged(job, entry), True

    def _missed(self, job: TrialJobDetail, entry: _NodeJob, rank: int) -> Observation | None:
        """A machine has no folder of a rank."""
        machine = self._machines[entry.places[rank].address]
        if machine.is_starting(node_name(job.id, rank)):
            return None
        if rank in entry.present:
            if self._state_of(entry, rank).has_ended:
                return None
            entry.states[rank] = failed_rank(self._state_of(entry, rank), Reason(
                "node_failed", platform="remote", said=f"Its folder on machine {machine.name} is gone."))
            self._stop_rank(job, entry, rank)  # its processes may be there
            return self._judged(job, entry)
        if rank == 0:
            entry.is_absent = True
        else:
            entry.started.discard(rank)
            self._start_others(job, entry)
        return None

    def _start_others(self, job: TrialJobDetail, entry: _NodeJob) -> None:
        """Start the ranks that are not, once rank 0 has told its port."""
        if entry.port is None or entry.failed is not None or job.is_early_stopped is not None or (
                entry.rank_0_ended_at is not None):
            return
        for rank in range(1, len(entry.places)):
            if rank not in entry.started:
                self._start_rank(job, entry, rank)

    def _judged(self, job: TrialJobDetail, entry: _NodeJob) -> Observation:
        """What the ranks mean for the trial; those that must not go on are ended."""
        ended_at = entry.rank_0_ended_at
        trial = trial_of_ranks(
            [self._state_of(entry, rank) for rank in range(len(entry.places))],
            is_canceled=job.is_early_stopped is not None, failed=entry.failed,
            rank_0_ended_for=0.0 if ended_at is None else self._monotonic() - ended_at)
        if trial.failed is not None and entry.failed is None:
            logger.info("trial %s: rank %d failed, the others are ended", job.id, trial.failed)
        entry.failed = trial.failed
        for rank in trial.stop:
            if rank not in entry.stopped:
                self._stop_rank(job, entry, rank)
        return replace(trial.seen, platform_state=self._state(job, entry))

    def _stop_rank(self, job: TrialJobDetail, entry: _NodeJob, rank: int) -> None:
        machine = self._machines.get(entry.places[rank].address)
        entry.stopped.add(rank)
        if machine is not None:
            machine.stop(node_name(job.id, rank), self._host.folder_of_rank(job, rank))

    # --- what is kept ----------------------------------------------------------------------

    def _entry(self, job: TrialJobDetail) -> _NodeJob | None:
        """What is known of the job; what an earlier object knew is taken from its ``platform_state``."""
        entry = self._jobs.get(job.id)
        if entry is None and not job.status.is_end and (plan := job.platform_state.get("places")):
            entry = self._adopt(job, plan, job.platform_state.get("port"))
            entry.failed = job.platform_state.get("failed")
        return entry

    def _found(self, job: TrialJobDetail, state: FolderState) -> _NodeJob | None:
        """By the plan that a rank's folder holds: the object before this one was killed before it could write it down.
        """
        node = state.get("node")
        return self._adopt(job, node["places"], node.get("port")) if node and node.get("places") else None

    def _adopt(self, job: TrialJobDetail, plan: Sequence[Mapping[str, Any]], port: int | None) -> _NodeJob:
        entry = self._jobs[job.id] = _NodeJob(tuple(
            Placed(str(place["machine"]), None if place.get("gpu_indices") is None else tuple(place["gpu_indices"]))
            for place in plan), port)
        entry.started.update(range(len(entry.places)))  # those that were not are missed by their machines
        self._note_places(job.id, entry)
        return entry

    def _note_places(self, job_name: str, entry: _NodeJob) -> None:
        for rank, placed in enumerate(entry.places):
            self._places[node_name(job_name, rank)] = placed.address

    def _state(self, job: TrialJobDetail, entry: _NodeJob) -> dict[str, Any]:
        places = [{"machine": placed.address,
                   "gpu_indices": None if placed.gpu_indices is None else list(placed.gpu_indices)}
                  for placed in entry.places]
        ranks = rows_of([self._state_of(entry, rank) for rank in range(len(entry.places))])
        known = {"port": entry.port, "failed": entry.failed}
        return {"machine": entry.places[0].address, "places": places, "ranks": ranks,
                **{name: value for name, value in known.items() if value is not None}}

    def _state_of(self, entry: _NodeJob, rank: int) -> RankState:
        return entry.states.get(rank) or RankState(rank, self._name(entry, rank), entry.places[rank].gpu_indices)

    def _name(self, entry: _NodeJob, rank: int) -> str:
        machine = self._machines.get(entry.places[rank].address)
        return entry.places[rank].address if machine is None else machine.name

    def _url(self, job: TrialJobDetail, entry: _NodeJob) -> str:
        return self._machines[entry.places[0].address].url_of(self._host.folder_of_rank(job, 0))
