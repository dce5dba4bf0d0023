"""The remote platform: trials on machines reached over SSH, under keepers that need neither SSH nor the server."""

from __future__ import annotations

import posixpath
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, cast

from pydantic import TypeAdapter, ValidationError

from trainingservice.base import MachineDetail, RehearsalFinding, ServiceContext
from trainingservice.cluster_settings import ClusterSettings, TrialOptions
from trainingservice.errors import InvalidMetadata, PermanentError, TemporaryError, TrainingServiceError, Unsupported
from trainingservice.files.output_folder import NoSuchOutput, OutputFolder
from trainingservice.gpus.gpu_slots import GpuBooking, Impossible, Waits, memory_held
from trainingservice.gpus.refused_demands import RefusedDemands
from trainingservice.keeper.agent_client import FolderState
from trainingservice.keeper.attempt_states import observed_state, remove_folders
from trainingservice.keeper.container_images import PATIENCE, PULL_SECONDS
from trainingservice.keeper.keeper_bundle import KeeperBundle, build_keeper
from trainingservice.machine_shares.shares import NOTHING
from trainingservice.nodes.node_names import job_and_rank, node_name
from trainingservice.nodes.options import nodes_of
from trainingservice.polling.service import MustWait, Observation, PollingTrainingService
from trainingservice.reasons import Reason
from trainingservice.refused_values import refusals
from trainingservice.remote.code_copies import folders_in, remove_folder
from trainingservice.remote.config import RemoteClusterSettings, RemoteTrialOptions
from trainingservice.remote.first_contact import DEFAULT_FOLDER
from trainingservice.remote.lost_trials import of_machine, on_emptied_machine, on_removed_machine, on_silent_machine
from trainingservice.remote.machines import RemoteMachine, room_on
from trainingservice.remote.node_jobs import NodeJobs
from trainingservice.remote.output_folders import OutputFolders
from trainingservice.remote.rehearsal import ServerAddresses, rehearse_machines
from trainingservice.remote.scheduling import MachineView, choose_machine
from trainingservice.remote.server_mount import look_at_mount_here
from trainingservice.remote.trial_document import trial_document
from trainingservice.remote.waiting_trials import WaitingTrials
from trainingservice.secrets_in_use import ServiceThread
from trainingservice.ssh.host_keys import HostKeyStore
from trainingservice.ssh.login_settings import Fingerprint, Name
from trainingservice.trial_job import ResumedJob, TrialJobDetail
from trainingservice.trial_job_status import TrialJobStatus
from trialkeeper import contract

#: Seconds a question waits for the machines; those that have not answered then are heard of later.
ANSWER_PATIENCE = 2.0
#: Machine (its identity) -> job -> what it holds there.
_Booked = Mapping[str, Mapping[str, tuple[int, ...]]]
#: The metadata key ``host_keys``: host or host:port -> fingerprint.
_HOST_KEYS = TypeAdapter(dict[Name, Fingerprint])


class RemoteTrainingService(PollingTrainingService):
    """Runs trials on machines reached over SSH.

    Each machine has threads of its own (``machines.py``); this object chooses machines, books GPUs, and
    keeps in mind who is where. ``platform_state`` is ``{"machine": user@host:port, ...}``. Everything of an
    attempt lies in ``<workingFolder>/clusters/<cluster>/trials/<experiment>/<job name>`` on its machine.
    """

    platform: ClassVar[str] = "remote"
    settings_model: ClassVar[type[ClusterSettings]] = RemoteClusterSettings
    options_model: ClassVar[type[TrialOptions]] = RemoteTrialOptions
    takes_variants: ClassVar[bool] = True
    needs_public_url: ClassVar[bool] = False
    metadata_keys: ClassVar[dict[str, str]] = {
        "host_keys": "Fingerprints of host keys, for jump hosts and for machines whose settings have none: a JSON "
                     "object that maps host or host:port to SHA256:..."}
    poll_interval: ClassVar[tuple[float, float]] = (2.0, 15.0)

    def __init__(self, settings: ClusterSettings, context: ServiceContext, *,
                 monotonic: Callable[[], float] = time.monotonic) -> None:
        super().__init__(settings, context, monotonic=monotonic)
        self._settings = cast(RemoteClusterSettings, settings)
        self._keys = HostKeyStore(context.state_folder / "host_keys")
        self._bundle: KeeperBundle | None = None
        self._bundling = threading.Lock()
        self._host_keys_text = ""
        self._machines: dict[str, RemoteMachine] = {}
        self._places: dict[str, str] = {}  # unfinished job -> address of its machine
        self._seen: dict[str, Observation] = {}  # job of known place -> what its machine said last
        self._saw_lock = threading.Lock()  # machines tell from several threads
        self._absent: dict[str, set[str]] = {}  # job -> machines that do not have it
        self._present_at: dict[str, float] = {}  # job -> monotonic seconds when a machine last had it
        self._waiting = WaitingTrials(monotonic)
        self._refused = RefusedDemands(monotonic)
        self._outputs = OutputFolders(self._keys, self.keeper_bundle, context.clock)
        self._nodes = NodeJobs(self, self._machines, self._places, context, monotonic)

    # --- cluster ---------------------------------------------------------------------------

    def set_cluster_metadata(self, key: str, value: str) -> None:
        if key != "host_keys":
            super().set_cluster_metadata(key, value)
            return
        try:
            fingerprints = _HOST_KEYS.validate_json(value or "{}")
        except ValidationError as error:
            field, said = refusals(error)[0]
            if not field:
                said = ("must be a JSON object that maps host or host:port to a fingerprint, such as "
                        '{"10.0.0.5": "SHA256:..."}')
            raise InvalidMetadata(f"host_keys.{field.removesuffix('.[key]')}".rstrip("."), said) from error
        self._host_keys_text = value
        self._keys.demand(fingerprints)

    def get_cluster_metadata(self, key: str) -> str:
        return self._host_keys_text if key == "host_keys" else super().get_cluster_metadata(key)

    def _make_machines(self) -> None:
        if self._machines:
            return
        self.context.state_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        settings = self._settings.machine_list
        hosts = [machine.host for machine in settings]
        for machine in settings:
            name = machine.host if hosts.count(machine.host) == 1 else machine.address
            self._machines[machine.address] = RemoteMachine(
                machine, name, self, keys=self._keys, bundle=self.keeper_bundle, cluster_folder=self.cluster_folder,
                scratch=self.context.state_folder / "code", relay_urls=self.context.relay_urls,
                held_gpus=self._held_gpus, gpus_matter=self._gpus_matter, clock=self.context.clock,
                monotonic=self._monotonic)

    @property
    def cluster_folder(self) -> str:
        """Our folder in each machine's working folder."""
        return f"clusters/{self.context.cluster_id}"

    def keeper_bundle(self) -> KeeperBundle:
        """The keeper that all machines get."""
        with self._bundling:
            if self._bundle is None or not self._bundle.path.is_file():
                try:
                    self._bundle = build_keeper(self.context.state_folder / "keepers")
                except OSError as error:
                    raise TemporaryError(f"The keeper cannot be packed on the server: {error}") from error
            return self._bundle

    def open(self) -> None:
        self._make_machines()
        for machine in self._machines.values():
            machine.open()
        storage = self._settings.shared_storage
        if storage is not None:
            # beside the rest: a file server that is away can hold a mount up for minutes
            ServiceThread(target=look_at_mount_here, args=(storage,), daemon=True, name="mount here").start()

    def close(self) -> None:
        closers = [ServiceThread(target=machine.close, daemon=True) for machine in self._machines.values()]
        for closer in closers:
            closer.start()
        for closer in closers:
            closer.join(15.0)

    def list_machines(self) -> list[MachineDetail]:
        details = []
        for machine in self._machines.values():
            look = machine.gpus.latest
            problem = machine.problem()
            details.append(MachineDetail(
                name=machine.name, identity=machine.identity, gpus=() if look is None else look.gpus,
                message=machine.message() or ("" if look is None or not machine.is_connected
                                              else look.message(machine.name)),
                healthy=not problem, agent_state=machine.agent_state,
                way_home=machine.way_home(), load=machine.load))
        return details

    def rehearse(self, quick: bool = False, options: TrialOptions | None = None) -> list[RehearsalFinding]:
        try:
            self.context.state_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            bundle = self.keeper_bundle()
        except OSError as error:
            return [RehearsalFinding("folder", False, f"The folder {self.context.state_folder} on the server cannot be "
                                                      f"created ({error.strerror}). Free disk space, or correct its "
                                                      "permissions.")]
        except TemporaryError as error:
            return [RehearsalFinding("folder", False, str(error))]
        findings = rehearse_machines(self._settings.machine_list, self._keys, bundle, self.cluster_folder,
                                     ServerAddresses(self.context.public_urls, self.context.relay_urls,
                                                     self.context.ca_file),
                                     self.context.clock, self._settings.shared_storage, quick=quick,
                                     options=options if isinstance(options, RemoteTrialOptions) else None)
        if self._settings.shared_storage is not None and not quick:
            findings += [here] if (here := look_at_mount_here(self._settings.shared_storage)) else []
        return findings

    # --- the four methods ------------------------------------------------------------------

    def start_job(self, job: TrialJobDetail) -> Observation:
        self._make_machines()
        number, share = job.form.gpu_number, job.form.share
        demand = self.context.gpu_book.demand(job.id, job.form.gpu_demand)
        # one that was tried before has no booking of an earlier object
        if _asks(job) and not _has_nodes(job) and self._waiting.knows(job.id) and (
                why := self._refused.why(number or 0, demand, share)) is not None:
            raise MustWait(why)
        booked = self._booked(job)
        views = [self._view(machine, job, booked) for machine in self._machines.values()]
        kept = self._waiting.machines_kept_from(
            job, views, {other.id for other in self.list_trial_jobs() if not other.status.is_end})
        if _has_nodes(job):
            try:
                seen = self._nodes.start(job, views, kept)
            except MustWait:
                self._waiting.note(job)
                raise
            self._waiting.forget(job.id)
            self._absent.pop(job.id, None)
            return seen
        held = self._booked_before(job, booked)
        choice = held or choose_machine(number, views, kept=kept, demand=demand, share=share)
        if isinstance(choice, Impossible):
            raise PermanentError(choice.reason)
        if isinstance(choice, Waits):
            self._waiting.note(job)
            self._refused.note(number or 0, demand, choice.reason, share)
            raise MustWait(choice.reason)
        machine = self._machines[choice.address]
        if _asks(job) and not self.context.gpu_book.book_nodes(job.id, [
                GpuBooking(machine.identity, choice.gpu_indices or (), machine.settings.max_trial_number_per_gpu,
                           demand.alone, choice.memory, choice.room, share,
                           NOTHING if held else room_on(machine))]):
            raise MustWait(Reason("gpu_taken", asked=number or 0), retry_after=0.2)
        self._waiting.forget(job.id)
        self._places[job.id] = choice.address
        self._absent.pop(job.id, None)
        folder = self._folder(job)
        placed = replace(job, gpu_indices=choice.gpu_indices)
        machine.start(placed, folder, lambda code: self.document_of(placed, machine, code))
        return Observation(TrialJobStatus.WAITING, machine=machine.name, gpu_indices=choice.gpu_indices,
                           url=machine.url_of(folder), platform_state={"machine": choice.address})

    def observe_jobs(self, jobs: Sequence[TrialJobDetail]) -> Mapping[str, Observation | None]:
        self._make_machines()
        places = {place for job in jobs for place in self._places_of(job)}
        since = self._monotonic()
        asked = [machine for address, machine in self._machines.items() if None in places or address in places]
        for machine in asked:
            machine.look_soon()
        answered = {machine.address for machine in asked if machine.wait_for_look(since, since + ANSWER_PATIENCE)}
        answers: dict[str, Observation | None] = {}
        for job in jobs:
            place = self._places.get(job.id)
            if place is not None and _has_nodes(job):
                self._observe_nodes(job, answered, answers)
            elif place is None:
                if self._absent.get(job.id, set()) >= self._machines.keys() and answered >= self._machines.keys():
                    answers[job.id] = None
            elif place in answered:
                # in this order: a start that is over has taken back what was said of the time before it
                if not self._machines[place].is_starting(job.id) and place in self._absent.get(job.id, set()):
                    answers[job.id] = on_emptied_machine(job, self._machines[place])
                elif job.id in self._seen:
                    answers[job.id] = self._seen[job.id]
            else:
                seen = self._unanswered(job, place)
                if seen is not None:
                    answers[job.id] = seen
        return answers

    def _observe_nodes(self, job: TrialJobDetail, answered: set[str], answers: dict[str, Observation | None]) -> None:
        for rank, place in enumerate(self._nodes.places_of(job)):
            if place not in answered and (seen := self._unanswered(job, place, rank)) is not None:
                self._nodes.unanswered(job, rank, seen)
        seen, is_known = self._nodes.observed(job)
        if is_known:
            answers[job.id] = seen

    def stop_job(self, job: TrialJobDetail) -> None:
        self._make_machines()
        if _has_nodes(job) and self._nodes.stop(job):
            return
        place = self._place_of(job)
        for address, machine in self._machines.items():
            if place in (None, address):  # of unknown place: no machine may start it later
                machine.stop(job.id, self._folder(job))

    def remove_experiment(self, experiment_id: str, jobs: Sequence[TrialJobDetail]) -> None:
        self._make_machines()
        still_wanted = frozenset(job.form.code.sha256 for job in self.list_trial_jobs()
                                 if job.form.experiment_id != experiment_id and job.form.code is not None
                                 and job.form.code.sha256 is not None)
        problems = []
        for machine in self._machines.values():
            machine.forget([node_name(job.id, rank) for job in jobs for rank in range(nodes_of(job.form.options))])
            try:
                connection, facts = machine.connection()
                trials = machine.path(facts, "trials", experiment_id)
                remove_folders(machine.client(), folders_in(connection, trials), monotonic=self._monotonic)
                remove_folder(connection, trials)
                machine.clean_code(still_wanted)
            except TemporaryError as error:
                problems.append(str(error))
        for job in jobs:
            self.context.gpu_book.free(job.id)
            self._forget(job.id)
        if problems:
            raise TemporaryError(f"The files of experiment {experiment_id} cannot be removed from all machines yet: "
                                 f"{' '.join(problems)}", retry_after=30)

    # --- what this platform adds -----------------------------------------------------------

    @property
    def is_multi_phase_job_supported(self) -> bool:
        return True

    def deliver_order(self, job: TrialJobDetail, order: contract.Order) -> None:
        machine = self._machines.get(self._place_of(job) or "")
        if machine is None:
            raise TemporaryError(f"It is not known yet on which machine trial {job.id} is.")
        facts = machine.connection()[1]
        machine.client().deliver(machine.path(facts, self._folder(job)), [order], timeout=10.0)

    def job_ended(self, job: TrialJobDetail) -> None:
        if _asks(job):  # the book is shared, so that opening it costs something
            self.context.gpu_book.free(job.id)
        self._forget(job.id)

    def output_folder(self, job: TrialJobDetail) -> OutputFolder:
        self._make_machines()
        place = self._place_of(job)
        if place is None:
            raise NoSuchOutput("The trial has no machine yet.")
        machine = self._machines.get(place)
        if machine is None:
            raise Unsupported(f"Its machine {place} is no longer in machineList. Add it again to see its files.")
        storage = self._settings.shared_storage
        if storage is not None:
            form = job.form
            point = storage.remote_mount_point
            trusted = posixpath.join("~", point)
            folder = posixpath.relpath(storage.trial_folder(form.experiment_id, form.trial_job_id), point)
        else:
            trusted = machine.settings.working_folder or DEFAULT_FOLDER
            folder = f"{self.cluster_folder}/{self._folder(job)}/{contract.NNI_FOLDER}"
        return self._outputs.open(machine, trusted, folder)

    def rank_folder(self, job: TrialJobDetail, rank: int) -> OutputFolder:
        self._make_machines()
        places = job.platform_state.get("places") or []
        if rank >= len(places):
            raise NoSuchOutput(f"Rank {rank} has no machine yet.")
        machine = self._machines.get(places[rank]["machine"])
        if machine is None:
            raise Unsupported(f"Its machine {places[rank]['machine']} is no longer in machineList. Add it again to see "
                              "what the rank wrote.")
        return self._outputs.open(machine, machine.settings.working_folder or DEFAULT_FOLDER,
                            f"{self.cluster_folder}/{self.folder_of_rank(job, rank)}")

    def resume_trial_jobs(self, jobs: Sequence[ResumedJob]) -> None:
        self._make_machines()
        for job in jobs:
            place = job.detail.platform_state.get("machine")
            if _has_nodes(job.detail):
                self._nodes.resume(job.detail)
            elif not job.ended and isinstance(place, str) and place:
                self._places.setdefault(job.detail.id, place)
        for machine in self._machines.values():
            machine.open()  # what is asked below needs them
        super().resume_trial_jobs(jobs)

    # --- what machines tell ----------------------------------------------------------------

    def folders_on(self, address: str) -> Mapping[str, str]:
        unfinished = [job for job in self.list_trial_jobs() if not job.status.is_end]
        folders = {job.id: self._folder(job) for job in unfinished
                   if not _has_nodes(job) and self._places.get(job.id, address) == address}
        for job in unfinished:
            if _has_nodes(job):
                folders |= self._nodes.folders_on(address, job)
        return folders

    def machine_saw(self, address: str, job_name: str, state: FolderState, asked_at: float) -> None:
        job_name, rank = job_and_rank(job_name)
        if (job := self._job_with_nodes(job_name)) is not None:
            self._saw_node(job, rank, address, state, asked_at)
            return
        with self._saw_lock:  # between the look at the job and the note of its place it must not end
            seen = self._taken(address, job_name, state, asked_at)
        if seen is not None:
            self.note(job_name, seen)

    def _job_with_nodes(self, job_name: str) -> TrialJobDetail | None:
        """The job of that name, where it has several nodes and has not ended."""
        try:
            job = self.get_trial_job(job_name)
        except TrainingServiceError:
            return None
        return job if _has_nodes(job) and not job.status.is_end else None

    def _saw_node(self, job: TrialJobDetail, rank: int, address: str, state: FolderState, asked_at: float) -> None:
        if state["state"] == "absent" and rank == 0 and not self._nodes.places_of(job):
            self._absent.setdefault(job.id, set()).add(address)
            return
        seen = self._nodes.saw(job, rank, address, state, asked_at)
        if seen is not None:
            self.note(job.id, seen)

    def _taken(self, address: str, job_name: str, state: FolderState, asked_at: float) -> Observation | None:
        """Keep what a machine said of a job; the news for the service, if any. ``_saw_lock`` is held."""
        try:
            job = self.get_trial_job(job_name)
        except TrainingServiceError:
            return None  # of a rehearsal, or of an experiment that was removed
        place = self._places.get(job_name)
        if place not in (None, address) or job.status.is_end:
            return None
        if state["state"] == "absent":
            if asked_at >= self._present_at.get(job_name, 0.0):
                self._absent.setdefault(job_name, set()).add(address)
            return None
        self._present_at[job_name] = self._monotonic()
        self._absent.pop(job_name, None)
        machine = self._machines[address]
        if place is None and state["state"] == "canceled":
            # a tombstone, laid on every machine: only the last word counts
            self._absent.setdefault(job_name, set()).add(address)
            if job.is_early_stopped is None:
                return None
        self._places[job_name] = address
        seen = observed_state(job, state, machine.name)
        if seen is not None:
            state_kept = {**(seen.platform_state or {}), "machine": address,
                          **({"mark": machine.mark} if machine.mark else {})}
            seen = replace(seen, url=machine.url_of(self._folder(job)), platform_state=state_kept)
            self._seen[job_name] = seen
        return seen

    def machine_gives_back(self, address: str, job_name: str, fault: TrainingServiceError) -> None:
        job_name, rank = job_and_rank(job_name)
        if (job := self._job_with_nodes(job_name)) is not None:
            self._nodes.given_back(job, rank, fault)
            return
        self.context.gpu_book.free(job_name)
        with self._saw_lock:
            self._places.pop(job_name, None)
            self._seen.pop(job_name, None)
        self.give_back(job_name, fault)

    def machine_says(self, job_name: str, message: str) -> None:
        said = message if isinstance(message, Reason) else of_machine("platform_prepares", message)
        job_name, rank = job_and_rank(job_name)
        if (job := self._job_with_nodes(job_name)) is not None:
            self._nodes.says(job, rank, said)
            return
        self.note(job_name, Observation(TrialJobStatus.WAITING, message=said))

    def machine_changed(self, address: str) -> None:
        self.room_may_be_free()
        self.ask_soon()

    # --- choosing --------------------------------------------------------------------------

    def room_may_be_free(self) -> None:
        self._refused.forget()
        super().room_may_be_free()

    def _booked(self, job: TrialJobDetail) -> _Booked:
        """What is held of all machines, where something is to be booked for the job."""
        identities = {machine.identity for machine in self._machines.values()} - {""}
        return self.context.gpu_book.booked_on(identities) if _asks(job) and identities else {}

    def _view(self, machine: RemoteMachine, job: TrialJobDetail, booked: _Booked) -> MachineView:
        settings, look = machine.settings, machine.look
        trials = sum(place == machine.address for name, place in list(self._places.items())
                     if job_and_rank(name)[0] != job.id)
        gpu_look = machine.gpus.recent() if job.form.gpu_number and machine.is_connected else None
        return MachineView(
            machine.address, machine.name, machine.problem(), trials, settings.max_trial_number,
            cpu_count=1 if look is None else look.cpu_count, failures=machine.failures,
            gpus=None if gpu_look is None else gpu_look.readings(),
            gpu_problem="" if gpu_look is None else gpu_look.error,
            has_gpus=look is None or look.has_nvidia_smi,
            recently_ours=() if gpu_look is None else gpu_look.ours,
            booked=booked.get(machine.identity, {}),
            room=room_on(machine),
            max_trials_per_gpu=settings.max_trial_number_per_gpu, use_active_gpu=settings.use_active_gpu,
            gpu_indices=settings.gpu_indices, has_mps=settings.mps.is_used)

    def _booked_before(self, job: TrialJobDetail, booked: _Booked) -> Any:
        """Where an earlier object of this service has booked a place for it and may have started it; None mostly."""
        from trainingservice.remote.scheduling import Placed

        for machine in self._machines.values():
            held = booked.get(machine.identity, {}).get(job.id)
            if held is not None and machine.is_connected:
                return Placed(machine.address, tuple(held) or None, memory_held(held), (2 ** 62,) * len(held))
        return None

    def _held_gpus(self, identity: str) -> frozenset[int]:
        return frozenset(index for held in self.context.gpu_book.booked(identity).values() for index in held)

    def _gpus_matter(self) -> bool:
        return any(job.form.gpu_number for job in self.list_trial_jobs() if not job.status.is_end)

    # --- places and documents --------------------------------------------------------------

    def _places_of(self, job: TrialJobDetail) -> Sequence[str | None]:
        """Where a job is; None where that is not known."""
        return (self._nodes.places_of(job) or [None]) if _has_nodes(job) else [self._place_of(job)]

    def _place_of(self, job: TrialJobDetail) -> str | None:
        """Where a job is, as was seen here or by an earlier object; noted while the job has not ended."""
        place = job.platform_state.get("machine")
        with self._saw_lock:
            if job.id in self._places:
                return self._places[job.id]
            if not isinstance(place, str) or not place:
                return None
            try:
                is_over = self.get_trial_job(job.id).status.is_end  # ``job`` may be older than that
            except TrainingServiceError:
                is_over = True
            if not is_over:
                self._places[job.id] = place
            return place

    def _forget(self, job_name: str) -> None:
        with self._saw_lock:
            self._places.pop(job_name, None)
            self._absent.pop(job_name, None)
            self._present_at.pop(job_name, None)
            self._seen.pop(job_name, None)
        self._waiting.forget(job_name)
        self._nodes.forget(job_name)

    def _unanswered(self, job: TrialJobDetail, place: str, rank: int = 0) -> Observation | None:
        """What is said of a job whose machine does not answer; None: nothing new yet."""
        machine = self._machines.get(place)
        if machine is None:
            return on_removed_machine(place)
        silent = self._monotonic() - machine.answered_at
        if silent >= self._settings.lost_after:
            machine.stop(node_name(job.id, rank), self.folder_of_rank(job, rank))  # should the machine come back
        return on_silent_machine(machine, silent, self._settings.lost_after)

    def _folder(self, job: TrialJobDetail) -> str:
        return self.folder_of_rank(job, 0)

    def folder_of_rank(self, job: TrialJobDetail, rank: int) -> str:
        return f"trials/{job.form.experiment_id}/{node_name(job.id, rank)}"

    def document_of(self, job: TrialJobDetail, machine: RemoteMachine,
                    code: contract.CodeDocument | None) -> contract.JobDocument:
        options = job.form.options
        container = None
        if isinstance(options, RemoteTrialOptions):
            # another rank than the first is not placed anew: it waits for its image in its machine's own thread
            patience = PATIENCE if job_and_rank(job.id)[1] == 0 else PULL_SECONDS
            container = machine.images.container(options, job.form.experiment_id, patience)
        document = trial_document(job, self.platform, self._settings, machine.settings, machine.connection()[1].home,
                                  code, container)
        if container is None and machine.settings.mps.is_used and job.form.gpu_number:
            held = self.context.gpu_book.booked(machine.identity).get(job_and_rank(job.id)[0], ())
            document["environment"] = {**machine.settings.mps.variables(job.form, memory_held(held)),
                                       **document["environment"]}
        return document


def _asks(job: TrialJobDetail) -> bool:
    """Whether something is booked for it."""
    return bool(job.form.gpu_number) or job.form.share != NOTHING


def _has_nodes(job: TrialJobDetail) -> bool:
    return nodes_of(job.form.options) > 1
