"""The local platform: trials are processes of this machine, each under a keeper that outlives the server."""

from __future__ import annotations

import logging
import shutil
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from pydantic import ValidationError

from trainingservice.base import MachineDetail, RehearsalFinding, ServiceContext
from trainingservice.cluster_settings import ClusterSettings, TrialOptions
from trainingservice.code.code_archive import archive_of
from trainingservice.containers.options import image_of
from trainingservice.errors import InvalidMetadata, PermanentError, TemporaryError, TrainingServiceError
from trainingservice.files.output_folder import FolderElsewhere, FolderHere, OutputFolder
from trainingservice.gpus.gpu_slots import (
    Assigned,
    GpuBooking,
    GpuRequest,
    Impossible,
    choose_gpus,
    memory_held,
    share_held,
)
from trainingservice.gpus.gpu_watch import GpuWatch
from trainingservice.keeper.agent_client import AgentClient, AgentError, FolderState
from trainingservice.keeper.attempt_states import observed_state, remove_folders
from trainingservice.keeper.container_images import ContainerImages, put_container
from trainingservice.keeper.trial_of_ranks import TrialOfRanks
from trainingservice.local.agents import LocalAgents
from trainingservice.local.config import LocalClusterSettings, LocalConfigMetadata, LocalTrialOptions
from trainingservice.local.node_jobs import LocalNodes
from trainingservice.local.pythons import LocalPythons
from trainingservice.local.rehearsal import rehearse_local
from trainingservice.machine_shares.shares import NOTHING, MachineShare, room_of, why_never, why_not_now
from trainingservice.nodes.node_names import job_and_rank, node_name
from trainingservice.nodes.options import nodes_of
from trainingservice.polling.service import MustWait, Observation, PollingTrainingService
from trainingservice.reasons import Reason
from trainingservice.refused_values import refusals
from trainingservice.trial_job import ResumedJob, TrialJobDetail, job_document
from trainingservice.trial_job_status import TrialJobStatus
from trialkeeper import contract, machine
from trialkeeper.attempt_folder import ENDED_STATE
from trialkeeper.code_folder import file_sha256

logger = logging.getLogger(__name__)

LOCAL_CONFIG = "local_config"
#: What its keeper has not told of a trial, its start or its end, after so many seconds is told for it.
KEEPER_TELLS_WITHIN = 1.0
#: Seconds for which the report that a trial has started waits for what follows it: a short trial is told in one.
HOLD_STARTED = 0.5


def _folder_itself(code: contract.CodeDocument | None) -> str:
    """The folder that the command runs in, where it is there before the trial begins; "/" else."""
    return "/" if code is None else code.get("folder", "/")


def _asks(job: TrialJobDetail) -> bool:
    """Whether something is booked for it."""
    return bool(job.form.gpu_number) or job.form.share != NOTHING


def _share_of_all_nodes(job: TrialJobDetail) -> MachineShare:
    """All nodes of a job are on this machine."""
    return job.form.share.times(nodes_of(job.form.options))


class LocalTrainingService(PollingTrainingService):
    """Runs trials on this machine.

    The command runs in the user's code folder itself, as with NNI (``snapshotCode`` gives each trial
    a copy, and a code variant gives one to its trial). All else lies in
    ``<state folder>/trials/<experiment>/<job name>``. Keepers are started
    by the machine's agent, a child process; neither ends when the server does. The agent tells of each
    start and end at once, so the intervals of questions are a safety net only.
    """

    platform: ClassVar[str] = "local"
    settings_model: ClassVar[type[ClusterSettings]] = LocalClusterSettings
    options_model: ClassVar[type[TrialOptions]] = LocalTrialOptions
    shares_code_folder: ClassVar[bool] = True
    ships_code: ClassVar[bool] = False
    takes_variants: ClassVar[bool] = True
    needs_public_url: ClassVar[bool] = False
    pinned_to_host: ClassVar[bool] = True
    metadata_keys: ClassVar[dict[str, str]] = {
        LOCAL_CONFIG: "Defaults for experiments: a JSON object with gpuIndices, maxTrialNumPerGpu and useActiveGpu, as "
                      "in NNI's localConfig. And cpuNumber and memorySize: what of this machine trials with "
                      "trialCpuNumber and trialMemorySize may have together. And mpsPipeDirectory and "
                      "mpsThreadPercentage: NVIDIA's MPS for trials that share a GPU. And "
                      "containers: which images trials may run in."}
    metadata_changeable_while_running: ClassVar[frozenset[str]] = frozenset({LOCAL_CONFIG})
    submits_at_once: ClassVar[bool] = True
    poll_interval: ClassVar[tuple[float, float]] = (2.0, 30.0)

    def __init__(self, settings: ClusterSettings, context: ServiceContext, *,
                 monotonic: Callable[[], float] = time.monotonic) -> None:
        super().__init__(settings, context, monotonic=monotonic)
        self._host = socket.gethostname()
        self._identity = machine.machine_id()
        self._agents = LocalAgents(context, on_event=self._hear_agent, on_gone=self.ask_soon, monotonic=monotonic)
        self._agent = self._agents.own
        self._gpus = GpuWatch(lambda: self._agent.client().gpus(), self._held_gpus, self._gpus_matter,
                              self.room_may_be_free, monotonic)
        self._pythons = LocalPythons(self._host, self._agents, monotonic)
        self._nodes = LocalNodes(self._host, monotonic)
        self._images: dict[str, ContainerImages] = {}
        self._about: Mapping[str, Any] | None = None  # what the agent says of this machine
        self._packing = threading.Lock()
        self._whole: set[Path] = set()
        self._has_nvidia_smi = False
        self._metadata_text = ""
        self._metadata = LocalConfigMetadata()

    # --- cluster ---------------------------------------------------------------------------

    def open(self) -> None:
        self.context.state_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._watch_gpus_if_any(self._agent.client())

    def close(self) -> None:
        self._gpus.stop()
        self._agents.close()  # a look under way ends with its agent
        self._gpus.join()

    def set_cluster_metadata(self, key: str, value: str) -> None:
        if key != LOCAL_CONFIG:
            super().set_cluster_metadata(key, value)
            return
        try:
            self._metadata = LocalConfigMetadata.model_validate_json(value or "{}")
        except ValidationError as error:
            field, said = refusals(error)[0]
            raise InvalidMetadata(f"{LOCAL_CONFIG}.{field}".rstrip("."), said) from error
        self._metadata_text = value
        self.room_may_be_free()

    def get_cluster_metadata(self, key: str) -> str:
        return self._metadata_text if key == LOCAL_CONFIG else super().get_cluster_metadata(key)

    def list_machines(self) -> list[MachineDetail]:
        look = self._gpus.latest
        alive = self._agent.pid is not None
        return [MachineDetail(name=self._host, identity=self._identity, gpus=() if look is None else look.gpus,
                              message="" if look is None or not self._has_nvidia_smi else look.message(self._host),
                              agent_state="running" if alive else "not running", way_home="direct",
                              load=self._agent.load)]

    def rehearse(self, quick: bool = False, options: TrialOptions | None = None) -> list[RehearsalFinding]:
        was_running = self._agents.any_runs()
        try:
            return rehearse_local(self.context.state_folder, self._agents, self._options(options), self._pythons,
                                  self._request(options, self._options(options).asked), self._host, quick=quick,
                                  wants_gpus=self._mentions_gpus(options), images=self._images_of,
                                  permitted=self._metadata.containers)
        finally:
            if not was_running and not self._running.locked():
                self._agents.close(for_good=False)

    def check_command(self, command: str, code: Path | None, environment: Mapping[str, str],
                      options: TrialOptions | None = None) -> list[RehearsalFinding]:
        if image_of(self._options(options)) is not None:
            return []  # it uses the Python and the programs of its image
        return self._pythons.check_command(command, code, environment, self._options(options))

    # --- the four methods ------------------------------------------------------------------

    def start_job(self, job: TrialJobDetail) -> Observation:
        form = job.form
        options = self._options(form.options)
        has_image = image_of(options) is not None
        if (problem := self._not_permitted(options)) is not None:
            raise PermanentError(problem)
        choice = self._pythons.choose(options, form.environment)
        client = self._client(job)
        self._agents.note_use(form.experiment_id, self._os_user(job))
        if not has_image and (lacking := self._pythons.lacking(choice, options)) is not None:
            raise PermanentError(lacking)
        container = self._container(job)  # before GPUs are booked: its image may take long to come
        code = self._code(job)
        gpu_indices = self._reserve(job, client) if _asks(job) else None
        folder = self._folder(job)
        try:
            state = self._start_keeper(client, replace(job, gpu_indices=gpu_indices), code, container=container)
        except AgentError:  # refused for sure; where the agent was lost on the way the trial may run on its GPUs
            self.context.gpu_book.free(job.id)
            raise
        seen = self._seen(job, state) or Observation(TrialJobStatus.WAITING)
        if nodes_of(form.options) > 1:
            seen = Observation(TrialJobStatus.WAITING)
            self.ask_soon()
        return replace(seen, gpu_indices=gpu_indices, url=folder.as_uri(), machine=self._host,
                       interpreter=None if has_image else self._pythons.interpreter(
                           form.command, choice, options, _folder_itself(code)))

    def observe_jobs(self, jobs: Sequence[TrialJobDetail]) -> Mapping[str, Observation | None]:
        answers: dict[str, Observation | None] = {}
        problem: TemporaryError | None = None
        of_user: dict[str, list[TrialJobDetail]] = {}
        for job in jobs:
            of_user.setdefault(self._os_user(job), []).append(job)
        for its_jobs in of_user.values():
            try:
                answers |= self._observe_jobs_of_a_user(its_jobs)
            except TemporaryError as error:  # nothing is said of these jobs; others are not held up by it
                problem = error
        if problem is not None:
            if not answers:
                raise problem
            logger.warning("the states of some trials of this machine cannot be read; their last states remain: "
                           "%s", problem)
        return answers

    def _observe_jobs_of_a_user(self, jobs: Sequence[TrialJobDetail]) -> Mapping[str, Observation | None]:
        client = self._client(jobs[0])
        folders = {str(self._folder(job, rank)): job for job in jobs for rank in range(nodes_of(job.form.options))}
        answers: dict[str, Observation | None] = {}
        told: dict[str, dict[int, FolderState]] = {}
        known = self.accepted_when_resumed(job.id for job in jobs)
        accepted = {str(self._folder(job)): known[job.id] for job in jobs if job.id in known}
        for folder, state in client.state(list(folders), accepted=accepted).items():
            if (job := folders.get(folder)) is None:
                continue
            rank = job_and_rank(Path(folder).name)[1]
            self.seen_again(job.id)
            seen = self._seen(job, state)
            if seen is None and rank == 0 and job.is_early_stopped is None and self._was_prepared(job):
                # its keeper was killed before it began: nothing has run, so it is simply started again
                state = self._start_keeper(client, job, self._code(job), container=self._container(job))
                seen = self._seen(job, state)
            if nodes_of(job.form.options) > 1:
                told.setdefault(job.id, {})[rank] = state
            else:
                answers[job.id] = seen
        # nothing is said of a trial while the agent leaves out one of its ranks
        return answers | {job.id: self._of_ranks(client, job, told[job.id]) for job in jobs
                          if len(told.get(job.id, {})) == nodes_of(job.form.options)}

    def _of_ranks(self, client: AgentClient, job: TrialJobDetail, states: dict[int, FolderState]) -> Observation | None:
        """What the ranks of a trial mean for it; those that are due are started, those that must not go on are ended.
        """
        if states[0]["state"] == "absent":
            return None
        for rank in self._nodes.due(job, states):
            try:
                states[rank] = self._start_keeper(client, job, self._code(job), rank, states[0].get("node"),
                                                  self._container(job))
            except (AgentError, PermanentError) as error:
                return self._ended(client, job, self._nodes.not_started(job, states, rank, str(error)))
        return self._ended(client, job, self._nodes.judged(job, states))

    def _ended(self, client: AgentClient, job: TrialJobDetail, trial: TrialOfRanks) -> Observation:
        for rank in trial.stop:
            client.stop(str(self._folder(job, rank)))
        if trial.stop or trial.waits:
            self.ask_within(KEEPER_TELLS_WITHIN)
        return trial.seen

    def _start_keeper(self, client: AgentClient, job: TrialJobDetail, code: contract.CodeDocument | None,
                      rank: int = 0, first: contract.NodeDocument | None = None,
                      container: contract.ContainerDocument | None = None) -> FolderState:
        """``first``: what rank 0 says of itself, where another rank is started."""
        user_folder = self._agents.user_folder(self._os_user(job))
        access = job.form.keeper
        if user_folder is not None and access.url_file is not None:  # the server's own is out of its reach
            access = replace(access, url_file=user_folder.url_file)
        document = self._document(job, code, self._nodes.gpus(job, rank), container)
        if "node" in document:
            self._nodes.complete(document["node"], rank, first)
        return client.start(str(self._folder(job, rank)), document, access)

    def stop_job(self, job: TrialJobDetail) -> None:
        client = self._client(job)
        if nodes_of(job.form.options) == 1:
            self._note_state(job, client.stop(str(self._folder(job))))
            return
        for rank in range(nodes_of(job.form.options)):
            client.stop(str(self._folder(job, rank)))
        self.ask_soon()

    def remove_experiment(self, experiment_id: str, jobs: Sequence[TrialJobDetail]) -> None:
        trials = self.context.state_folder / "trials" / experiment_id
        if trials.is_dir():
            remove_folders(self._agent.client(), sorted(map(str, trials.iterdir())), monotonic=self._monotonic)
            shutil.rmtree(trials, ignore_errors=True)
        shutil.rmtree(self._code_folder(experiment_id), ignore_errors=True)
        self._whole = {path for path in self._whole if path.parent != self._code_folder(experiment_id)}
        self._agents.remove_experiment(experiment_id)
        for job in jobs:
            self.context.gpu_book.free(job.id)

    # --- what this platform adds -----------------------------------------------------------

    @property
    def is_multi_phase_job_supported(self) -> bool:
        return True

    def deliver_order(self, job: TrialJobDetail, order: contract.Order) -> None:
        self._client(job).deliver(str(self._folder(job)), [order])

    def output_folder(self, job: TrialJobDetail) -> OutputFolder:
        return self._opened(job, f"trials/{job.form.experiment_id}/{job.id}/{contract.NNI_FOLDER}")

    def rank_folder(self, job: TrialJobDetail, rank: int) -> OutputFolder:
        return self._opened(job, f"trials/{job.form.experiment_id}/{node_name(job.id, rank)}")

    def _opened(self, job: TrialJobDetail, folder: str) -> OutputFolder:
        user_folder = self._agents.user_folder(self._os_user(job))
        if user_folder is None:
            return FolderHere(str(self.context.state_folder), folder)
        return FolderElsewhere(str(user_folder.path), folder, user_folder.user.run_python)

    def job_ended(self, job: TrialJobDetail) -> None:
        if _asks(job):  # the book is shared, so that opening it costs something
            self.context.gpu_book.free(job.id)
        self._nodes.forget(job.id)

    def resume_trial_jobs(self, jobs: Sequence[ResumedJob]) -> None:
        for job in jobs:
            detail = job.detail
            runs = bool(detail.gpu_indices) or detail.status != TrialJobStatus.WAITING and _asks(detail)
            if not job.ended and runs and detail.id not in self.context.gpu_book.booked(self._identity):
                # a book that does not outlive its process has forgotten it; the trial runs there whatever others do
                self.context.gpu_book.book_nodes(detail.id, [GpuBooking(
                    self._identity, detail.gpu_indices or (), 1_000_000, detail.form.gpu_demand.alone,
                    share=_share_of_all_nodes(detail))])
        super().resume_trial_jobs(jobs)

    # --- GPUs ------------------------------------------------------------------------------

    def _held_gpus(self) -> frozenset[int]:
        return frozenset(index for held in self.context.gpu_book.booked(self._identity).values() for index in held)

    def _gpus_matter(self) -> bool:
        return any(job.form.gpu_number for job in self.list_trial_jobs() if not job.status.is_end)

    def _options(self, options: TrialOptions | None) -> LocalTrialOptions:
        return options if isinstance(options, LocalTrialOptions) else LocalTrialOptions()

    def _mentions_gpus(self, options: TrialOptions | None) -> bool:
        """Whether something is asked of GPUs. NNI's defaults, written out as NNI itself does, ask for nothing."""
        mine = self._options(options)
        gpus_are_named = mine.gpu_indices is not None or self._metadata.gpu_indices is not None
        return gpus_are_named or bool(mine.use_active_gpu) or mine.max_trial_number_per_gpu not in (None, 1) \
            or mine.asked > 0

    def _request(self, options: TrialOptions | None, gpu_number: int) -> GpuRequest:
        """What the experiment says, else what ``local_config`` says, else NNI's defaults."""
        mine, ours = self._options(options), self._metadata
        active = mine.use_active_gpu if mine.use_active_gpu is not None else ours.use_active_gpu
        return GpuRequest(
            gpu_number=gpu_number,
            max_trials_per_gpu=mine.max_trial_number_per_gpu or ours.max_trial_num_per_gpu or 1,
            use_active_gpu=bool(active),
            gpu_indices=mine.gpu_indices if mine.gpu_indices is not None else ours.gpu_indices)

    def _watch_gpus_if_any(self, client: AgentClient) -> bool:
        """Begin to look at the GPUs where this machine can have any."""
        if not self._has_nvidia_smi:
            self._has_nvidia_smi = bool(client.machine().get("nvidia_smi"))
        if self._has_nvidia_smi:
            self._gpus.start()
        return self._has_nvidia_smi

    def _reserve(self, job: TrialJobDetail, client: AgentClient) -> tuple[int, ...] | None:
        """Book what a job asks for: its GPUs, None where it asks for none. Raises MustWait, or PermanentError where it
        can never have it.
        """
        booked = self.context.gpu_book.booked(self._identity)
        if job.id in booked:  # an earlier start was lost on its way: it may have reached the machine
            return booked[job.id] or None
        share, room = _share_of_all_nodes(job), self._room(client) if job.form.share != NOTHING else NOTHING
        if (too_small := why_never(share, room, self._host)) is not None:
            raise PermanentError(too_small)
        if (why := why_not_now(share, room, map(share_held, booked.values()), self._host)) is not None:
            raise MustWait(why)
        if not job.form.gpu_number:
            choice, request = Assigned(()), GpuRequest(0)
        else:
            choice, request = self._choose_gpus(job, client, booked)
        if not self.context.gpu_book.book_nodes(job.id, [
                GpuBooking(self._identity, choice.indices, request.max_trials_per_gpu, request.demand.alone,
                           choice.memory, choice.room, share, room)]):
            raise MustWait(Reason("gpu_taken", asked=request.gpu_number), retry_after=0.2)
        return choice.indices or None

    def _choose_gpus(self, job: TrialJobDetail, client: AgentClient, booked: Mapping[str, tuple[int, ...]]
                     ) -> tuple[Assigned, GpuRequest]:
        """GPUs for a job, and what it asks for. Raises as ``_reserve``."""
        if not self._watch_gpus_if_any(client):
            raise PermanentError(Reason("no_nvidia_smi", machine=self._host, asked=job.form.gpu_number))
        look = self._gpus.recent()
        if look is None:  # nvidia-smi may take seconds: nothing else waits for it
            raise MustWait(Reason("gpus_not_seen", machine=self._host, asked=job.form.gpu_number))
        if look.error:
            raise MustWait(Reason("gpus_unread", machine=self._host, asked=job.form.gpu_number, error=look.error))
        request = self._request(job.form.options, (job.form.gpu_number or 0) * nodes_of(job.form.options))
        request = replace(request, for_each=job.form.gpu_number, has_mps=self._metadata.mps.is_used,
                          demand=self.context.gpu_book.demand(job.id, job.form.gpu_demand))
        choice = choose_gpus(request, look.readings(), booked, self._host, recently_ours=look.ours)
        if isinstance(choice, Impossible):
            raise PermanentError(choice.reason)
        if not isinstance(choice, Assigned):
            raise MustWait(choice.reason)
        return choice, request

    def _room(self, client: AgentClient) -> MachineShare:
        """What trials may have of this machine together beside GPUs."""
        if self._about is None:
            self._about = client.machine()
        return room_of(self._about, self._metadata.cpu_number, self._metadata.memory_size)

    def _mps_variables(self, job: TrialJobDetail) -> Mapping[str, str]:
        mps = self._metadata.mps
        if not mps.is_used or not job.form.gpu_number:
            return {}
        return mps.variables(job.form, memory_held(self.context.gpu_book.booked(self._identity).get(job.id, ())))

    # --- images ----------------------------------------------------------------------------

    def _images_of(self, os_user: str) -> ContainerImages:
        """The images of one user of this machine: each has a store of its own where podman needs no root."""
        return self._images.setdefault(os_user, ContainerImages(
            self._host, self.platform, lambda: self._agents.of(os_user).client(), self._monotonic,
            self.room_may_be_free))

    def _container(self, job: TrialJobDetail) -> contract.ContainerDocument | None:
        """As ``ContainerImages.container``."""
        return self._images_of(self._os_user(job)).container(self._options(job.form.options), job.form.experiment_id)

    def _not_permitted(self, options: LocalTrialOptions) -> Reason | None:
        permitted = self._metadata.containers
        return None if permitted is None else permitted.why_not(options)

    # --- folders and states ----------------------------------------------------------------

    def _os_user(self, job: TrialJobDetail) -> str:
        """As whom the job runs; "" for the server's own user."""
        return self._options(job.form.options).os_user()

    def _client(self, job: TrialJobDetail) -> AgentClient:
        return self._agents.of(self._os_user(job)).client()

    def _folder(self, job: TrialJobDetail, rank: int = 0) -> Path:
        name = node_name(job.id, rank)
        user_folder = self._agents.user_folder(self._os_user(job))
        if user_folder is not None:
            return user_folder.attempt(job.form.experiment_id, name)
        return self.context.state_folder / "trials" / job.form.experiment_id / name

    def _was_prepared(self, job: TrialJobDetail) -> bool:
        """Whether the attempt's folder holds a job."""
        path, user_folder = self._folder(job) / contract.JOB_FILE, self._agents.user_folder(self._os_user(job))
        return path.is_file() if user_folder is None else user_folder.user.has_file(path)

    def _code_folder(self, experiment_id: str) -> Path:
        return self.context.state_folder / "code" / experiment_id

    def _code(self, job: TrialJobDetail) -> contract.CodeDocument | None:
        """The folder itself, or an archive of it that is made once per experiment, at its first trial."""
        code, experiment_id = job.form.code, job.form.experiment_id
        if code is None:
            return None
        user_folder = self._agents.user_folder(self._os_user(job))
        in_folder = code.folder is not None and not self._options(job.form.options).copies_code()
        if in_folder and job.form.variant is None:
            return {"folder": str(code.folder)}
        scratch = self._code_folder(experiment_id)
        with self._packing:
            packed = sorted(scratch.glob("*.tar.gz"))
            if code.archive is None and packed and self._is_whole(packed[0]):
                archive, sha256 = packed[0], packed[0].name.removesuffix(".tar.gz")
            else:
                archive, sha256 = archive_of(code, scratch)
        if user_folder is not None:
            return user_folder.deliver_code(experiment_id, archive, sha256)
        return {"sha256": sha256, "archive": str(archive)}

    def _is_whole(self, archive: Path) -> bool:
        """Whether an archive that was packed here has the content that it is named by; read once by this object."""
        if archive not in self._whole:
            if file_sha256(str(archive)) != archive.name.removesuffix(".tar.gz"):
                logger.warning("the code archive %s is damaged, possibly by a power failure, and is packed "
                               "again", archive)
                archive.unlink()
                return False
            self._whole.add(archive)
        return True

    def _document(self, job: TrialJobDetail, code: contract.CodeDocument | None,
                  gpu_indices: tuple[int, ...] | None, container: contract.ContainerDocument | None
                  ) -> contract.JobDocument:
        form, inherited = job.form, list[str]()
        if container is None:
            choice = self._pythons.choose(self._options(job.form.options), job.form.environment)
            own, inherited = self._pythons.surroundings(self._os_user(job), choice)
            form = replace(job.form, environment={**own, **self._mps_variables(job), **job.form.environment,
                                                  **choice.variables})
        document = job_document(form, platform=self.platform, code=code, gpu_indices=gpu_indices,
                                inherit_environment=inherited)
        put_container(document, container)
        # one folder on one machine: its lock and journal keep a second keeper from running the command, so nobody
        # waits for the server's word on whose the attempt is
        document["limits"]["claim_timeout"] = 0.0
        document["limits"]["hold_started"] = HOLD_STARTED
        return document

    def _seen(self, job: TrialJobDetail, state: FolderState) -> Observation | None:
        """What the state of an attempt's folder means; None where there is no attempt."""
        return observed_state(job, state, self._host)

    def _hear_agent(self, os_user: str, folder: str, state: FolderState) -> None:
        try:
            name, _ = job_and_rank(Path(folder).name)
            job = self.get_trial_job(name)
            if nodes_of(job.form.options) > 1:
                self.ask_soon()
                return
            # an agent that a trial of its user has taken over must not speak for the trials of others
            if self._os_user(job) == os_user and str(self._folder(job)) == folder:
                self._note_state(job, state)
        except TrainingServiceError:
            return  # of a rehearsal, or of an experiment that was removed

    def _note_state(self, job: TrialJobDetail, state: FolderState) -> None:
        if state["state"] == ENDED_STATE and not state.get("delivered"):
            # its keeper is telling the end this moment, and knows more of it; where it cannot, the question finds out
            self.ask_within(KEEPER_TELLS_WITHIN)
            return
        seen = self._seen(job, state)
        if seen is not None:
            self.note(job.id, seen, untold_for=KEEPER_TELLS_WITHIN)
