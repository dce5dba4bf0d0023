"""A trial job: what is asked of a platform (the form) and what is known of it (the detail)."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from trainingservice.cluster_settings import TrialOptions
from trainingservice.machine_shares.shares import MachineShare
from trainingservice.nodes.options import nodes_of
from trainingservice.trial_job_status import TrialJobStatus
from trainingservice.variants.code_variant import CodeVariant, variant_document
from trialkeeper import contract

#: Times are seconds since 1970 (UTC) as float throughout this package.
Timestamp = float


@dataclass(frozen=True)
class HyperParameters:
    """One set of parameters: ``value`` is the text of NNI's parameter file, ``index`` its phase (from 0)."""

    value: str
    index: int = 0


@dataclass(frozen=True)
class TrialCode:
    """The code of a trial. At least one of ``folder`` and ``archive`` is set.

    ``folder`` is the user's folder on this machine (None where the code was uploaded);
    ``archive`` the tar.gz of it less ignored files, ``sha256`` (hex) its hash.
    """

    folder: Path | None = None
    archive: Path | None = None
    sha256: str | None = None


@dataclass(frozen=True)
class KeeperAccess:
    """How the keeper of one attempt reaches the server. ``token`` is a secret: no log, no command line."""

    urls: tuple[str, ...]
    token: str = field(repr=False)
    #: JSON file with the current addresses, for keepers on the server's own machine.
    url_file: Path | None = None
    #: PEM file of a private certificate authority.
    ca_file: Path | None = None
    #: On the trial machine: the file that says where the machine's agent passes requests on (set by platforms).
    relay_file: str | None = None


#: Seconds that a keeper is given to send the last checkpoint of a trial that was told to end.
TIME_TO_SEND = 30.0


@dataclass(frozen=True)
class TrialLimits:
    """Durations in seconds. ``max_trial_duration`` None: no limit."""

    max_trial_duration: float | None = None
    grace_period: float = 5.0
    report_interval: float = 10.0
    give_up_after: float = 24 * 3600.0
    output_head_bytes: int = 256 * 1024
    output_tail_bytes: int = 256 * 1024


@dataclass(frozen=True)
class GpuDemand:
    """What is known of the GPUs that an attempt needs, beside their number."""

    #: No other job of the installation is put on its GPUs: an earlier attempt ran out of their memory.
    alone: bool = False
    #: An earlier attempt had a GPU of so many bytes for itself, and ran out of its memory: it needs a larger one.
    memory_above: int = 0
    #: Bytes that it needs on each of its GPUs, so that other jobs may have the rest. 0: it has them as a whole, or
    #: shares them by number, as ``maxTrialNumPerGpu`` says.
    memory: int = 0
    #: ``memory`` is learnt from other trials: what is known of it grows (``GpuBook.demand``).
    learns: bool = False


@dataclass(frozen=True)
class JobApplicationForm:
    """Everything a platform needs to start one attempt of a trial.

    ``job_name`` is unique over all attempts and the same for every submission of this attempt:
    12 to 15 characters [a-z0-9], the first a letter. ``trial_job_id`` is what the trial itself
    sees; the two differ for retries only.
    """

    job_name: str
    trial_job_id: str
    experiment_id: str
    sequence_id: int
    hyper_parameters: HyperParameters
    command: str
    keeper: KeeperAccess
    code: TrialCode | None = None
    #: None: GPUs are not looked at; 0: the trial shall see none; n: it shall have n of its own. Of a trial with several
    #: nodes: on each of them.
    gpu_number: int | None = None
    gpu_demand: GpuDemand = GpuDemand()
    #: What the platform limits it to where no scheduler of its own does; of a trial with several nodes each of them.
    #: None: no limit.
    cpu_number: float | None = None
    memory_bytes: int | None = None
    image: str | None = None
    environment: dict[str, str] = field(default_factory=dict)
    options: TrialOptions = field(default_factory=TrialOptions)
    limits: TrialLimits = field(default_factory=TrialLimits)
    multi_phase: bool = False
    keep_files: tuple[str, ...] = ()
    #: Of its experiment: where there is no room for all, jobs of a higher one go first.
    priority: int = 0
    #: How checkpoints are dealt with, and those from which the trial can go on. None: it has no folder for them. A
    #: platform whose keepers do not call the server leaves it out of the job.
    checkpoints: contract.CheckpointsDocument | None = None
    #: Where a machine has an agent: the trial is forked from a process that has imported these modules; True: those
    #: that the experiment's first trials load.
    warm_start: bool | tuple[str, ...] = False
    #: Names of parameters, flat, of which a trial may lack some; in its command they are empty.
    parameter_names: tuple[str, ...] = ()
    #: Where the keeper reads metrics that the trial does not report itself.
    metrics: contract.MetricsDocument | None = None
    #: Seconds for which the job waits for another trial of its experiment when its trial has ended, as a warm place.
    #: None: it ends with its trial. For platforms with ``has_places``; keepers that call nobody end as well.
    stays_for: float | None = None
    #: Files that the trial has instead of those of its code; for platforms with ``takes_variants``. The keeper lays
    #: them over the trial's own copy of the code, which such a trial needs: never its folder itself.
    variant: CodeVariant | None = None

    @property
    def share(self) -> MachineShare:
        """CPUs and memory that one node of it asks for."""
        return MachineShare(self.cpu_number or 0.0, self.memory_bytes or 0)

    @property
    def longest_end(self) -> float:
        """Seconds that a trial may take to end, and its keeper to send its last checkpoint, when the platform tells the
        job to end.
        """
        if self.checkpoints is None:
            return self.limits.grace_period
        return max(self.limits.grace_period, self.checkpoints.get("grace", 0.0) + TIME_TO_SEND)

    def without_checkpoints(self) -> JobApplicationForm:
        """The same form for a keeper that cannot call the server, and so can neither send nor fetch checkpoints."""
        return self if self.checkpoints is None else replace(self, checkpoints=None)

    def with_parameters(self, parameters: HyperParameters) -> JobApplicationForm:
        """The same form with another set of parameters (``update_trial_job``)."""
        return replace(self, hyper_parameters=parameters)


@dataclass(frozen=True)
class Interpreter:
    """A Python: the path of its program, and its version, such as 3.10.4."""

    path: str
    version: str


@dataclass(frozen=True)
class TrialJobDetail:
    """What the service knows of a job now. A fresh object each time; nobody changes one."""

    id: str  #: the job name
    status: TrialJobStatus
    form: JobApplicationForm
    submit_time: Timestamp
    start_time: Timestamp | None = None
    end_time: Timestamp | None = None
    tags: tuple[str, ...] = ()
    #: Page of the job on the platform, or ``file://`` address of its folder.
    url: str = ""
    working_directory: str = ""
    #: None until a cancel was asked; then whether it was an early stop.
    is_early_stopped: bool | None = None
    #: Why it waits, why it failed: one or two sentences for a person; "" where there is nothing to say.
    message: str = ""
    #: What the platform alone knows of why it ended, where its keeper cannot (out of memory, evicted): a sentence that
    #: the host puts before the keeper's own; it may stand in ``message`` as well.
    cause: str = ""
    #: Somebody suspended the job on the platform: nothing of it runs, and when it goes on it is run from its beginning,
    #: by a keeper with a journal of its own.
    suspended: bool = False
    #: The platform ended a run of the job and runs it again: nothing of it runs now, and the next run's keeper goes on
    #: with the journal of the last one.
    interrupted: bool = False
    #: With FAILED only: the platform will never take the job, and nothing of it was started. Another cluster may.
    refused: bool = False
    #: Name of the machine or node, "" while unknown.
    machine: str = ""
    #: GPUs booked for it on that machine, None where GPUs are not looked at.
    gpu_indices: tuple[int, ...] | None = None
    exit_code: int | None = None
    #: The Python that its command runs, as far as the command's text tells it; None while unknown.
    interpreter: Interpreter | None = None
    #: Opaque, JSON-able, small: what the platform wants back in ``resume_trial_jobs``.
    platform_state: dict[str, Any] = field(default_factory=dict)

    @property
    def sequence_id(self) -> int:
        return self.form.sequence_id


@dataclass(frozen=True)
class ResumedJob:
    """A job that was submitted (or was about to be) before this service object existed.

    ``submitted`` False: the submission had begun and may or may not have reached the platform.
    ``ended`` True: kept only so that it is listed; nothing is asked about it. ``accepted``: the highest entry of its
    journal that the server has, None where that is not known; less than was delivered where the server is a restored
    backup.
    """

    detail: TrialJobDetail
    submitted: bool = True
    accepted: int | None = None

    @property
    def ended(self) -> bool:
        return self.detail.status.is_end


@dataclass(frozen=True)
class TrialJobMetric:
    """One metric a trial reported; ``data`` is NNI's metric object as JSON text."""

    id: str  #: the job name
    data: str


def parameter_text(parameters: dict[str, Any] | None, parameter_id: int | str | None, *, index: int = 0,
                   source: str = "algorithm") -> str:
    """The text of NNI's parameter file (reference: NNI's trial SDK reads ``parameter_id`` and ``parameters``)."""
    return json.dumps({"parameter_id": parameter_id, "parameter_source": source, "parameters": parameters,
                       "parameter_index": index})


def job_document(form: JobApplicationForm, *, platform: str, code: contract.CodeDocument | None,
                 gpu_indices: tuple[int, ...] | None = None, inherit_environment: list[str] | None = None,
                 path: list[str] | None = None) -> contract.JobDocument:
    """What the keeper of ``form`` is told to run: the one place where a form becomes a JobDocument.

    Raises PermanentError where the trial's code variant cannot be read.
    """
    if gpu_indices is None and form.gpu_number == 0:
        gpu_indices = ()
    limits = form.limits
    document: contract.JobDocument = {
        "version": contract.PROTOCOL_VERSION,
        "job_name": form.job_name,
        "trial_job_id": form.trial_job_id,
        "experiment_id": form.experiment_id,
        "sequence_id": form.sequence_id,
        "platform": platform,
        "command": form.command,
        "parameters": [{"index": form.hyper_parameters.index, "text": form.hyper_parameters.value}],
        "parameter_names": list(form.parameter_names),
        "multi_phase": form.multi_phase,
        "environment": dict(form.environment),
        "inherit_environment": inherit_environment,
        "path": path or [],
        "gpu_indices": None if gpu_indices is None else list(gpu_indices),
        "code": code,
        "limits": {
            "max_trial_duration": limits.max_trial_duration,
            "grace_period": limits.grace_period,
            "report_interval": limits.report_interval,
            "give_up_after": limits.give_up_after,
            "output_head_bytes": limits.output_head_bytes,
            "output_tail_bytes": limits.output_tail_bytes,
            "cpu_number": form.cpu_number,
            "memory_bytes": form.memory_bytes,
        },
        "keep_files": list(form.keep_files),
        "checkpoints": form.checkpoints,
        "metrics": form.metrics,
        "warm_start": list(form.warm_start) if isinstance(form.warm_start, tuple) else form.warm_start,
        "variant": None,
    }
    if form.variant is not None:
        document["variant"] = variant_document(form.variant)
        document["warm_start"] = False  # the process that trials are forked from has imported the code as it is
    if (nodes := nodes_of(form.options)) > 1:
        document["node"] = {"rank": 0, "count": nodes, "processes": max(1, form.gpu_number or 1)}
    return document
