"""The interface of a platform: the twelve members of NNI's TrainingService and some additions."""

from __future__ import annotations

import abc
import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from trainingservice.cluster_metadata.keys import MetadataKey, keys_of
from trainingservice.cluster_settings import ClusterSettings, TrialOptions, without_secrets
from trainingservice.errors import InvalidMetadata, Unsupported
from trainingservice.files.output_folder import OutputFolder
from trainingservice.gpus.gpu_slots import GpuBook, MemoryGpuBook
from trainingservice.machine_load import MachineLoad
from trainingservice.trial_job import JobApplicationForm, ResumedJob, TrialJobDetail, TrialJobMetric
from trialkeeper import contract

logger = logging.getLogger(__name__)

#: A quick rehearsal answers within the first, in seconds, and a full one within the second.
REHEARSAL_SECONDS = (25.0, 280.0)

MetricListener = Callable[[TrialJobMetric], None]


@dataclass(frozen=True)
class ServiceContext:
    """What the host gives a service object: nothing here is specific to a platform."""

    #: Names the cluster on the platform (labels, folder names): [a-z0-9], at most 12 characters.
    cluster_id: str
    #: A folder for the service's own files on this machine; created with mode 0700.
    state_folder: Path
    #: A folder of the host's that no other user of this machine may look into (keys, a database). None: there is none.
    private_folder: Path | None = None
    #: Id of the installation; platforms label what they make with it.
    installation: str = "standalone"
    #: Bookings of GPUs on machines, shared by all services of the installation.
    gpu_book: GpuBook = field(default_factory=MemoryGpuBook)
    #: Called (with the job name, from any thread) when the detail of a job has changed. Must not block.
    on_change: Callable[[str], None] = lambda job_name: None
    #: Seconds since 1970.
    clock: Callable[[], float] = time.time
    #: Addresses at which this process itself reaches the server of the keepers, for platforms that pass keepers'
    #: reports on. () where there is none.
    relay_urls: Callable[[], tuple[str, ...]] = lambda: ()
    #: Addresses that keepers on other machines are given, for rehearsals. () where only loopback is known.
    public_urls: Callable[[], tuple[str, ...]] = lambda: ()
    #: PEM file with the authority behind the server's certificate, for rehearsals. None: one that machines know.
    ca_file: Path | None = None


@dataclass(frozen=True)
class RehearsalFinding:
    """One sentence of a rehearsal. ``blocks`` means: no trial can succeed before this is mended.

    ``temporary`` marks a finding that may pass by itself (the platform is away).
    """

    check: str  #: short stable name: "connection", "interpreter", "folder", "disk", "gpus", "way_home", "trial"
    ok: bool
    message: str
    machine: str = ""
    temporary: bool = False
    #: Path of the field of the settings that it is about, as files have it (``machineList[0].host``). "": the settings'
    #: ``fields_of_checks`` says it, or there is none.
    field: str = ""

    @property
    def blocks(self) -> bool:
        return not self.ok and not self.temporary


@dataclass(frozen=True)
class MachineDetail:
    """One machine of a cluster as the service sees it now."""

    name: str
    #: The same for the same machine in every cluster (machine-id); "" while unknown.
    identity: str
    #: One entry per GPU: {"index", "name", "utilization" (percent), "memory_used", "memory_total" (bytes),
    #: "processes" (int)}
    gpus: tuple[dict[str, object], ...] = ()
    healthy: bool = True
    message: str = ""
    agent_state: str = ""
    way_home: str = ""
    #: How busy it is. None: not known. It may change with each call, and is written down every ten seconds at most.
    load: MachineLoad | None = None


@dataclass(frozen=True)
class RemovedJobs:
    """What a call of ``remove_ended_jobs`` did: how many jobs it removed, and how many it left."""

    removed: int = 0
    left: int = 0
    is_through: bool = True


class TrainingService(abc.ABC):
    """Runs the trial jobs of one cluster. One object serves all experiments that use the cluster.

    *Order of calls*, held by the host: every ``set_cluster_metadata``, then
    ``add_trial_job_metric_listener``, then ``resume_trial_jobs`` once (also with an empty list),
    then ``run`` in a thread of its own, then anything else, at last
    ``remove_trial_job_metric_listener`` and ``clean_up``. ``rehearse`` may also be called on an
    object that was never run.

    *What to write*: the members of NNI's interface. The additions to it have defaults, which suit a
    service whose jobs do not outlive its object.

    *Threads*: all methods are synchronous, may block, and may be called from several threads at
    once after ``run`` has begun.

    *Errors*: those of ``trainingservice.errors``. Anything else is taken for a defect of the
    platform: it is logged with its traceback and handled like ``TemporaryError``.
    """

    #: Name in experiment files and in the registry.
    platform: ClassVar[str]
    #: Model of the platform's settings (``config.py``). By default it has none.
    settings_model: ClassVar[type[ClusterSettings]] = ClusterSettings
    #: Model of an experiment's options for its trials (``config.py``).
    options_model: ClassVar[type[TrialOptions]] = TrialOptions
    #: True where trials run in the user's own code folder (local alone); False: each has a copy.
    shares_code_folder: ClassVar[bool] = False
    #: True where code is shipped as an archive, so that its size limits apply.
    ships_code: ClassVar[bool] = True
    #: True where a trial may have files of its own instead of those of the experiment's code (``variant`` of the form):
    #: the platform then gives it a copy of the code archive, and its keeper ``job_document``.
    takes_variants: ClassVar[bool] = False
    #: True where each trial runs under a keeper that reports to the host, as all do that ``PollingTrainingService``
    #: starts. False: the service runs the commands itself, tells metrics to its listeners only, and what it says of a
    #: job decides how the trial ends. The host then waits for no keeper, and stores nothing of what a trial prints.
    keepers_report: ClassVar[bool] = False
    #: True where the keeper must be able to call an address that other machines can reach.
    needs_public_url: ClassVar[bool] = True
    #: True where the cluster belongs to the host the worker runs on.
    pinned_to_host: ClassVar[bool] = False
    #: True where a job that runs may be suspended on the platform, and run anew later: then a keeper that something
    #: outside of the server stopped is no end before the platform has spoken.
    suspends_jobs: ClassVar[bool] = False
    #: True where such a job is run again by the platform itself, whose next run goes on with the journal of the last:
    #: a keeper that something else stopped is then no end as long as the platform has the job.
    continues_jobs: ClassVar[bool] = False
    #: True where the platform keeps ended jobs, with their logs, until somebody removes them: the host then calls
    #: ``remove_ended_jobs`` when an experiment has ended.
    keeps_ended_jobs: ClassVar[bool] = False
    #: True where a job may stay when its trial has ended and take further trials of the experiment (``stays_for`` of
    #: the form): the platform gives the keeper the variables of a place. The service hears of the job's first trial
    #: alone: what it tells of that job counts for each trial that runs in it.
    has_places: ClassVar[bool] = False
    #: Metadata keys of the platform's own: key -> what its value means (one sentence, shown to people). NNI's keys are
    #: there without being named (``cluster_metadata.py``); one that is named here is the platform's own business.
    metadata_keys: ClassVar[dict[str, str]] = {}
    #: Those of ``metadata_keys`` whose values are secrets.
    secret_metadata_keys: ClassVar[frozenset[str]] = frozenset()
    #: Those of ``metadata_keys`` that may be set while ``run`` is running.
    metadata_changeable_while_running: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, settings: ClusterSettings, context: ServiceContext) -> None:
        self.settings = settings
        self.context = context
        self._listeners: list[MetricListener] = []
        #: What metadata said besides settings, by its key.
        self._said_besides: dict[str, dict[str, Any]] = {}

    # --- jobs ------------------------------------------------------------------------------

    @abc.abstractmethod
    def list_trial_jobs(self) -> list[TrialJobDetail]:
        """One detail per job that this object was given (submitted, resumed), ended ones too, until it is forgotten.

        Answers from memory: the host asks each round.
        """

    @abc.abstractmethod
    def get_trial_job(self, job_name: str) -> TrialJobDetail:
        """The detail of one job, from memory. Raises UnknownTrialJob."""

    @abc.abstractmethod
    def submit_trial_job(self, form: JobApplicationForm) -> TrialJobDetail:
        """Accept a job. It may be queued (``run`` starts it) or started before this returns.

        Idempotent: a known ``job_name`` returns the existing job, also when the job was submitted
        by an earlier object and is found on the platform. Raises PermanentError when this job can
        never run (the text says why), TemporaryError when it should be tried again.
        """

    @abc.abstractmethod
    def update_trial_job(self, job_name: str, form: JobApplicationForm) -> TrialJobDetail:
        """Ask the platform again and return the fresh detail.

        A form whose ``hyper_parameters.index`` is new is delivered to the running trial; raises
        Unsupported where ``is_multi_phase_job_supported`` is False, UnknownTrialJob.
        """

    @abc.abstractmethod
    def cancel_trial_job(self, job_name: str, is_early_stopped: bool = False) -> None:
        """Stop a job: its whole process tree ends, its status becomes USER_CANCELED or EARLY_STOPPED.

        Returns when the request is on its way. Harmless on an ended job and when repeated (the
        first call decides between the two statuses). Leaves a tombstone, so that a late
        submission under the same name starts nothing. Raises UnknownTrialJob.
        """

    def give_order(self, job_name: str, order: contract.Order) -> None:
        """Bring an order to the keeper of a running job, sooner than the answer to its next report.

        A platform need not: then the keeper gets it with that answer alone, ten seconds later, or up to two
        minutes in an installation with very many trials.
        """

    def last_lines(self, job_name: str) -> str | None:
        """The end of a running job's own log as the platform has it, in one line of at most 500 characters; "" where
        it cannot tell (the default); None where the keeper that reports has not begun, because only other parts of the
        job run.

        Asked of a job whose keeper has not called: once, after None again. May ask the platform, and block.
        """
        return ""

    def forget_trial_jobs(self, job_names: Collection[str]) -> None:
        """The host has written down how these jobs ended and asks for them no more (default: nothing).

        Memory only, and at once: the host calls it in its rounds. They are not listed and not known any more. What they
        left on the platform stays until ``clean_up_experiment``. One of which something is still due is listed again,
        and the host says it again; unknown names are harmless.
        """

    @property
    @abc.abstractmethod
    def is_multi_phase_job_supported(self) -> bool:
        """Whether a running trial can be given further parameters."""

    # --- metrics ---------------------------------------------------------------------------

    def add_trial_job_metric_listener(self, listener: MetricListener) -> None:
        """Call ``listener`` once for each new metric, from any thread. Adding it twice is adding it once.

        The host adds one to each service and stores what it is told, as it stores what keepers report. It may block
        for a moment while very much waits to be stored, so do not hold a lock that your other methods need.
        Emit a job's metrics in their order, and before the job is shown as ended: a trial ends with the results that
        its service has emitted by then. A metric whose ``sequence`` is the trial's own may be emitted again, after a
        restart, say: it is recognized, also where a keeper reports it, too.
        """
        if listener not in self._listeners:
            first = not self._listeners
            self._listeners = [*self._listeners, listener]
            if first:
                self.open_metric_emitter()

    def remove_trial_job_metric_listener(self, listener: MetricListener) -> None:
        """Never call ``listener`` again. Removing an unknown one is harmless."""
        had_any = bool(self._listeners)
        self._listeners = [known for known in self._listeners if known != listener]
        if had_any and not self._listeners:
            self.close_metric_emitter()

    def open_metric_emitter(self) -> None:
        """The first listener was added: begin reading what only this service can read (default: nothing)."""

    def close_metric_emitter(self) -> None:
        """The last listener was removed: stop reading (default: nothing)."""

    def hear(self, job_name: str, entries: Iterable[contract.Entry]) -> None:
        """Entries of a keeper's journal that a receiver committed for the first time.

        Called by ``keeper_receiver``; nniweb, to which keepers report themselves, has no need to. Passes metrics
        on to the listeners; one that raises is logged and does not stop the others.
        """
        for entry in entries:
            if entry["type"] == contract.METRIC:
                self.emit(TrialJobMetric(job_name, metric_text(job_name, entry)))

    def emit(self, metric: TrialJobMetric) -> None:
        """Tell all listeners of a metric that this service has read itself. One that raises is logged. Any thread."""
        for listener in self._listeners:
            if listener not in self._listeners:  # removed by an earlier listener of this very metric
                continue
            try:
                listener(metric)
            except Exception:
                logger.exception("a metric listener failed on a metric of job %s", metric.id)

    # --- cluster ---------------------------------------------------------------------------

    @classmethod
    def nni_metadata(cls) -> Mapping[str, MetadataKey]:
        """NNI's metadata keys that this class takes by itself: they say what the settings say."""
        return {name: key for name, key in keys_of(cls.platform, cls.settings_model, cls.options_model).items()
                if name not in cls.metadata_keys}

    @classmethod
    def metadata_meanings(cls) -> dict[str, str]:
        """Every metadata key, by its name -> what its value means."""
        return dict(sorted({**{name: key.meaning for name, key in cls.nni_metadata().items()},
                            **cls.metadata_keys}.items()))

    def set_cluster_metadata(self, key: str, value: str) -> None:
        """Take one piece of metadata (text, often JSON). Raises InvalidMetadata for an unknown key or wrong value.

        The default takes NNI's keys: what they say of the settings replaces it (``use_settings``), the rest is for the
        host. A platform with keys of its own calls this for others.
        """
        known = self.nni_metadata().get(key)
        if known is None:
            raise InvalidMetadata(key, f"the {self.platform} platform has no metadata of this name. Its metadata: "
                                       f"{', '.join(self.metadata_meanings())}")
        settings, besides = known.applied(self.settings, value)
        if settings != self.settings:
            self.use_settings(settings)
        self._said_besides[key] = besides

    def get_cluster_metadata(self, key: str) -> str:
        """The text that was set, "" where nothing was set and for unknown keys.

        Of NNI's keys it is what the settings say now, in NNI's words and without secrets.
        """
        known = self.nni_metadata().get(key)
        return "" if known is None else known.shown(without_secrets(self.settings), self._said_besides.get(key, {}))

    def use_settings(self, settings: ClusterSettings) -> None:
        """Go on with other settings. It is called before ``resume_trial_jobs``, when metadata have changed them.

        The default calls ``clean_up`` and the constructor, and sets the metadata again.
        """
        own = {key: value for key in type(self).metadata_keys if (value := self.get_cluster_metadata(key))}
        listeners, besides = self._listeners, self._said_besides
        self.clean_up()
        type(self).__init__(self, settings, self.context)
        self._listeners, self._said_besides = listeners, besides
        for key, value in own.items():
            self.set_cluster_metadata(key, value)

    @abc.abstractmethod
    def run(self) -> None:
        """Work until ``clean_up`` is called: drain the queue of submissions, watch the platform."""

    @abc.abstractmethod
    def clean_up(self) -> None:
        """Close the service: ``run`` returns, threads and connections end. Trials go on. May be called twice."""

    # --- additions to NNI's interface ------------------------------------------------------

    def resume_trial_jobs(self, jobs: Sequence[ResumedJob]) -> None:
        """Take over the jobs an earlier object knew, before ``run``. Default: none are taken over.

        A job that was submitted is found again on the platform; one whose submission had only
        begun is looked for and, where it is not there, listed as WAITING so that the host submits
        it again. Never starts a second copy of a job. One that had begun and is not listed afterwards has ended
        where no keeper reports: the host ends its trial.
        """

    def rehearse(self, quick: bool = False, options: TrialOptions | None = None) -> list[RehearsalFinding]:
        """Try everything a trial will need, and say in sentences what is wrong and what to do.

        ``quick`` (before each launch): at most about two seconds for each machine or server, nothing is started.
        Answers within REHEARSAL_SECONDS, with what it has found by then; hosts give it up soon afterwards. Never raises
        for what it finds. Default: nothing is tried.
        """
        return []

    def check_command(self, command: str, code: Path | None, environment: Mapping[str, str],
                      options: TrialOptions | None = None) -> list[RehearsalFinding]:
        """What can be said of a trial's command before anything of it runs (default: nothing).

        Asked before each launch, of an object that was never run. ``code``: a folder on the server with the code, None
        where there is none yet. ``environment``: the experiment's variables. Answers within REHEARSAL_SECONDS[0].
        """
        return []

    def clean_up_experiment(self, experiment_id: str) -> None:
        """Remove what an experiment left on the platform (jobs, folders, copies of code); forget its jobs.

        Running jobs of it are stopped first. Other experiments are untouched. May be called twice. Default: its jobs
        are canceled.
        """
        for job in self.list_trial_jobs():
            if job.form.experiment_id == experiment_id and not job.status.is_end:
                self.cancel_trial_job(job.id)

    def remove_ended_jobs(self, job_names: Collection[str], *, keep_unsaved: bool) -> RemovedJobs:
        """Remove what the platform still has of these ended jobs, with their logs (default: nothing).

        Folders and copies of code stay. ``keep_unsaved``: leave jobs of which other parts than the reporting one have
        logs too, and those whose removal would remove files of the trial: the host has neither. May be called again,
        and of jobs that are gone or not known to this object. Takes no longer than some 20 seconds: ``is_through`` is
        False where there is more to remove. Raises TemporaryError where something of one of them still runs; others are
        removed then.
        """
        return RemovedJobs()

    def output_folder(self, job: TrialJobDetail) -> OutputFolder:
        """What the job's trial wrote into NNI_OUTPUT_DIR, while it runs and afterwards, for as long as it is there.

        Made of ``job`` alone: it is also asked of an object that was never run, and of jobs this object was never
        told of. Asks nobody yet; whoever gets it closes it. Raises Unsupported where the server cannot look into the
        folders of trials (the default), NoSuchOutput where the job has none.
        """
        kept = "Files that keepFiles of the experiment names are uploaded when a trial ends." if self.keepers_report \
            else "Let the trial's command copy what is to be kept to a place that you can read."
        raise Unsupported(f"Trials of the platform {self.platform} store their files where the server cannot read "
                          f"them. {kept}")

    def rank_folder(self, job: TrialJobDetail, rank: int) -> OutputFolder:
        """Of a trial with several nodes: the folder of one rank's keeper, with the files stdout and stderr.

        As ``output_folder``; there are other files in it, some of them secret, so hand out these two alone.
        """
        raise Unsupported(f"What the ranks of a trial write cannot be read on the platform {self.platform}.")

    @property
    def trouble(self) -> str:
        """What keeps the platform as a whole from working now (away, a log-in that ran out): one sentence, or ""."""
        return ""

    def list_machines(self) -> list[MachineDetail]:
        """The machines as last seen, from memory; [] where the platform does not know machines."""
        return []


def metric_text(job_name: str, entry: contract.Entry) -> str:
    """NNI's metric object as JSON text, made of a journal entry of type ``metric``."""
    import json

    return json.dumps({"parameter_id": entry.get("parameter_id"), "trial_job_id": job_name, "type": entry["kind"],
                       "sequence": entry["sequence"], "value": entry["value"]})
