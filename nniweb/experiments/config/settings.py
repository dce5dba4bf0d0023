"""What a config file comes to: one settings object, the same for every spelling of the same experiment."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from nniweb.experiments.config.document import LogLevel
from nniweb.experiments.config.platform_section import PlatformSection
from trainingservice.cluster_settings import TrialOptions
from trainingservice.shared_folder.shared_storage import SharedStorage


class AlgorithmSettings(BaseModel):
    """A tuner or an assessor: either a built-in (``name``, canonical) or a class (``class_name`` as module.Class)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str | None = None
    class_name: str | None = None
    code_directory: Path | None = None
    class_args: dict[str, Any] = {}
    #: The name that the class is registered under on this server, and what checks its arguments.
    registered_as: str | None = None
    validator: str | None = None
    #: Of a tuner's own class: whether each of its methods is called in a thread of its own; None: no.
    multi_thread: bool | None = None
    #: Of a tuner, where it hears the last intermediate results of trials that were stopped early.
    include_intermediate_results: Literal[True] | None = None


class ClusterEntry(BaseModel):
    """One of several clusters: named (``name``), or described by a platform section (``training_service``)."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    name: str | None = None
    training_service: PlatformSection | None = None
    up_to: int | None = None
    weight: float = 1.0
    cost: float | None = None
    #: Names, of entries that have one.
    after: tuple[str, ...] = ()
    drained: bool = False
    #: None: as the experiment has it.
    trial_gpu_number: int | None = None
    trial_options: TrialOptions | None = None


class ExperimentSettings(BaseModel):
    """An experiment as it shall run. Durations are whole seconds; None means no limit, or not given.

    Exactly one of ``training_service`` (the file has a platform section of its own) and ``cluster``
    (the name of one set up on this server) is set. Where the file has several clusters, these and ``trial_options`` are
    those of the first one, the home, and ``clusters`` has all of them.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    experiment_name: str = ""
    description: str = ""
    tags: tuple[str, ...] = ()
    #: Where annotations make it, the generated one; then {} as long as the code is not there.
    search_space: dict[str, Any]
    #: The annotations in the code are to be carried out.
    use_annotation: bool = False
    trial_command: str
    #: None where no folder was named and there was none to start from (the code was uploaded).
    trial_code_directory: Path | None = None
    #: Variables for each trial's environment.
    environment: dict[str, str] = {}
    #: Patterns of files to keep from each trial's working directory.
    keep_files: tuple[str, ...] = ()
    #: Kind of failure -> attempts more, as ``Experiment.retry`` has it; kinds with none are left out.
    retry: dict[str, int] = {}
    #: As ``Experiment.failed_trials`` has it; what is left as it is in NNI is left out.
    failed_trials: dict[str, Any] = {}
    #: As ``Experiment.retention`` has it; what is as the installation has it is left out.
    retention: dict[str, int | str] = {}
    #: False: none; True, or {"keep", "keepBest", "maxSize", "rate"} less what is the default: as asked for; None: as is
    #: the default where that is possible.
    checkpoints: bool | dict[str, Any] | None = None
    #: Seconds a trial has to save a checkpoint and end, and the signal that asks it to; None: the default.
    checkpoint_grace: int | None = None
    checkpoint_signal: str | None = None
    #: What a pause means for running trials: "wait", "freeze" or None, the default.
    pause: str | None = None
    #: Limits that the file has, by their names there: {"gpuHours": 10.0}.
    budget: dict[str, int | float] = {}
    #: Higher goes first; and which running trials may be frozen for a higher one: "checkpoints", "always", "never" or
    #: None, the default.
    priority: int = 0
    preemptible: str | None = None
    #: Trials are forked from a process that has imported these modules; True: those that the first ones load.
    warm_start: bool | tuple[str, ...] = False
    #: {"paths", "maxBytes"}: which changes to the code a trial may bring; {}: none.
    code_variants: dict[str, Any] = {}
    #: Where the metrics of a script are read, as the file has it; "result" is always there. {}: trials report them.
    metrics: dict[str, Any] = {}
    #: {"n", "seeds", "racing"} as the file has them, less what is left out; {} where it has none.
    replicates: dict[str, Any] = {}
    #: Whether a running trial may ask for further parameter sets.
    multi_phase: bool = False
    trial_concurrency: int
    #: None: GPUs are not looked at; 0: the trial sees none.
    trial_gpu_number: int | None = None
    #: Megabytes that a trial needs on each of its GPUs, or "auto"; None: GPUs as a whole.
    gpu_memory: int | Literal["auto"] | None = None
    max_experiment_duration: int | None = None
    max_trial_number: int | None = None
    max_trial_duration: int | None = None
    nni_manager_ip: str | None = None
    debug: bool = False
    log_level: LogLevel = "info"
    tuner: AlgorithmSettings
    assessor: AlgorithmSettings | None = None
    tuner_gpu_indices: tuple[int, ...] | None = None
    #: Of the main metric.
    optimize_mode: Literal["minimize", "maximize"]
    #: As ``Experiment.objectives`` has them; empty where the file names none.
    objectives: tuple[dict[str, str], ...] = ()
    #: Expressions over parameters, and over metrics of final results.
    constraints: tuple[str, ...] = ()
    outcome_constraints: tuple[str, ...] = ()
    #: Parameter sets that are tried first.
    start_points: tuple[dict[str, Any], ...] = ()
    #: Public ids of earlier experiments.
    start_from: tuple[str, ...] = ()
    seed: int | None = None
    training_service: PlatformSection | None = None
    cluster: str | None = None
    #: Options for the trials on ``cluster``; None where none were given or the cluster's platform is not known.
    trial_options: TrialOptions | None = None
    clusters: tuple[ClusterEntry, ...] = ()
    shared_storage: SharedStorage | None = None
