"""The v2 form of an experiment file, field by field, as it may be written. The reference page is made from it."""

from __future__ import annotations

import posixpath
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, AliasChoices, BeforeValidator, Field, FiniteFloat

from nniweb.experiments.config.callback_address import check_callback_address
from nniweb.experiments.config.trial_script.code_variants import CodeVariantsDocument
from nniweb.experiments.config.trial_script.metric_pattern import check_pattern
from nniweb.tuning.constraints.constraint import MOST_CONSTRAINTS
from trainingservice.cluster_settings import SettingsModel
from trainingservice.memory_size import Megabytes
from trainingservice.refused_values import matching
from trainingservice.shared_folder.shared_storage import SharedStorage
from trainingservice.words.durations import Duration, Grace
from trainingservice.words.shown_value import shown
from trialkeeper.kept_files import OUTPUT

#: NNI's own upper bound for counts.
MOST = 99_999
LARGEST_COUNT = 2**31 - 1
MOST_START_POINTS = 200
MOST_START_FROM = 5
MOST_PRIORITY = 100
MOST_CLUSTERS = 20

ModuleName = Annotated[str, matching(r"[^\W\d]\w*(\.[^\W\d]\w*)*", "the name of a module, such as torch or "
                                    "sklearn.svm")]
VariableName = Annotated[str, matching(r"[A-Za-z_][A-Za-z0-9_]*", "the name of a variable: letters, digits and _, not "
                                       "beginning with a digit")]
LogLevel = Literal["fatal", "error", "warning", "info", "debug", "trace"]


def parse_gpu_indices(value: Any) -> list[int]:
    """A list of numbers, one number, or numbers with commas between. Raises ValueError."""
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",")] if value.strip() else []
    elif not isinstance(value, list | tuple):
        value = [value]
    indices = []
    for part in value:
        is_digits = isinstance(part, str) and part.isascii() and part.isdigit() and len(part) < 6
        if isinstance(part, bool) or not (isinstance(part, int) or is_digits):
            raise ValueError('must be GPU numbers: 0, "0,1" or [0, 1]')
        indices.append(int(part))
    if any(index < 0 or index > MOST for index in indices):
        raise ValueError("must not hold negative or impossible GPU numbers")
    if len(set(indices)) < len(indices):
        raise ValueError("names a GPU twice")
    return indices


GpuIndices = Annotated[list[int], BeforeValidator(parse_gpu_indices, json_schema_input_type=list[int] | int | str)]


def within_its_folder(pattern: str) -> str:
    """The same pattern of files to keep. Raises ValueError where keepers would not take what it matches."""
    inner = pattern.removeprefix(OUTPUT)
    if inner.startswith("/") or posixpath.normpath(inner).split("/")[0] == "..":
        raise ValueError(f"{shown(pattern)} leaves the trial's folder, and only files within it are kept. Write a path "
                         f"from the working directory (out/*.bin), or from the output folder ({OUTPUT}*.pt)")
    return pattern


def within_output(pattern: str) -> str:
    """The same pattern of files in the output folder. Raises ValueError where it leaves it."""
    inner = pattern.removeprefix(OUTPUT)
    if inner.startswith("/") or posixpath.normpath(inner).split("/")[0] == "..":
        raise ValueError(f"{shown(pattern)} leaves the trial's output folder, and only files within it are read. Write "
                         "a path from it, such as **/metrics.csv, and have the script write to $NNI_OUTPUT_DIR")
    return inner


class AlgorithmDocument(SettingsModel):
    """A tuner, an assessor or an advisor: a built-in by ``name``, or a class of the user's own."""

    name: str | None = Field(None, description="Name of a built-in algorithm, in any letter case.")
    class_name: str | None = Field(None, description="A custom class as module.Class, instead of name.")
    code_directory: Path | None = Field(None, description="Folder that contains the module of className.")
    class_args: dict[str, Any] = Field({}, description="Arguments of the algorithm.")


class TunerDocument(AlgorithmDocument):
    """A tuner or an advisor."""

    include_intermediate_results: bool | None = Field(
        None, description="Whether the tuner is told the last intermediate result of a trial that was stopped early "
                          "and reported no final result. Default: false. (NNI 1 only.)")
    multi_thread: bool = Field(
        False, description="true: each call of a class of your own is made in a thread of its own, so "
                           "generate_parameters may wait for a result. Not for an assessor. In v1 form it stands at "
                           "the top of the file.")


class ObjectiveDocument(SettingsModel):
    """A metric to search by."""

    metric: str = Field(
        min_length=1, max_length=100, description="Name of the metric in the object that a trial reports as its final "
                                                  "result. The name default is NNI's name for the only metric.")
    optimize_mode: Literal["maximize", "minimize"] = Field(description="Whether greater or smaller values are better.")


class RetryDocument(SettingsModel):
    """Further attempts of a trial that failed; they do not count as trials."""

    on_platform_failure: int = Field(
        0, ge=0, le=100, description="Maximum number of reruns if the command did not cause the failure: its machine "
                                     "was lost, somebody deleted its job, or its code did not arrive.")
    on_failure: int = Field(
        0, ge=0, le=100, description="Maximum number of reruns if the command itself ended with an error.")
    on_out_of_memory: int | None = Field(
        None, ge=0, le=100, description="Maximum number of reruns if the trial ran out of memory. If it was GPU memory "
                                        "it then has its GPUs for itself, and after that larger ones. Default: such a "
                                        "trial counts as one of the other two. See docs/gpus.md.")


#: Trials in a row that fail alike before the first success, after which an experiment that says nothing of it ends.
EQUAL_FAILURES = 5


class FailedTrialsDocument(SettingsModel):
    """What failed trials mean for the experiment."""

    tell_tuner: Literal["nothing", "worst"] | FiniteFloat = Field(
        "nothing", description="What the tuner gets as the result of a trial whose command ended with an error: "
                               "nothing (as in NNI; it knows that the trial failed), worst (the worst result so far), "
                               "or this number. A trial that its platform lost never counts as a result.")
    give_up_after: int | None = Field(
        None, ge=1, le=MOST, description="The experiment ends with ERROR after this many failed trials in a row.")
    give_up_after_equal: int | None = Field(
        None, ge=0, le=MOST, description="As long as no trial has succeeded, the experiment ends with ERROR after this "
                                         "many trials in a row that failed for the same reason. 0: it does not. "
                                         f"Default: {EQUAL_FAILURES}, or 0 if giveUpAfter is given.")


class ReplicatesDocument(SettingsModel):
    """Each proposal is run as several trials. A whole number in its place is n."""

    n: int | None = Field(
        None, ge=1, le=100, description="Trials of each proposal (replicates). Default: as many as there are seeds.")
    seeds: list[Annotated[int, Field(ge=0, lt=2**32)]] | None = Field(
        None, max_length=100, description="The seed of each replicate, in NNI_TRIAL_SEED of its environment. Default: "
                                          "seeds that follow from the experiment's seed. They are the same for each "
                                          "proposal.")
    racing: bool = Field(
        True, description="Run the first replicate alone, and the others only while the proposal may still be better "
                          "than the best one so far. false: run all of them.")


#: Days; or the word that overrules the installation's own number of them.
KeptDays = Annotated[int, Field(ge=1, le=36_500)] | Literal["forever"]


class RetentionDocument(SettingsModel):
    """How many days what is not a result is kept; see docs/retention.md."""

    output: KeptDays | None = Field(
        None, description="Days (or forever) from a trial's end for which its output is kept. Default, also for the "
                          "fields below: the server's setting.")
    readings: KeptDays | None = Field(
        None, description="Days (or forever) from a trial's end for which its intermediate results and resource "
                          "samples are kept.")
    files: KeptDays | None = Field(
        None, description="Days (or forever) for kept files (keepFiles) from the trial's end, and for checkpoints that "
                          "trials continue from, from the experiment's end.")
    code: KeptDays | None = Field(
        None, description="Days (or forever) from the experiment's end for which the copy of its code is kept.")
    jobs: KeptDays | Literal["saved"] | None = Field(
        None, description="kubernetes, kubeflow, frameworkcontroller, adl: days (or forever) from the experiment's end "
                          "for which the objects of ended trials stay on the cluster, with their pods, logs and "
                          "volumes. saved: they are removed when the experiment has ended, except those whose logs or "
                          "volumes have something that the server does not have.")


class CheckpointsDocument(SettingsModel):
    """Checkpoints that trials leave in $NNI_CHECKPOINT_DIR. true in its place: with these defaults; false: none."""

    keep: int = Field(2, ge=1, le=100, description="How many checkpoints of each trial are kept: the latest ones.")
    keep_best: bool = Field(
        False, description="Keep the one with the best intermediate result as well. true needs trials that report "
                           "intermediate results.")
    max_size: Annotated[Megabytes, Field(ge=1)] = Field(
        2048, description="A larger checkpoint is not kept: megabytes, or with a unit (2gb, 500mb).")
    rate: Annotated[Megabytes, Field(ge=1)] | None = Field(
        None, description="The most that each trial sends per second, on average: megabytes, or with a unit. Default: "
                          "no limit.")


class MetricsDocument(SettingsModel):
    """Where the metrics of a script that does not import nni are read; see docs/your-script.md."""

    stdout: Annotated[str, AfterValidator(check_pattern)] | None = Field(
        None, description="A regular expression for lines of stdout, whose named groups are metrics: value, or any "
                          "other name; step counts, and name is the name of the metric in value. The word json: lines "
                          "that are JSON objects.")
    stderr: Annotated[str, AfterValidator(check_pattern)] | None = Field(
        None, description="The same for lines of stderr.")
    files: list[Annotated[str, Field(min_length=1, max_length=255), AfterValidator(within_output)]] = Field(
        [], max_length=20, description="Patterns of files in the trial's output folder ($NNI_OUTPUT_DIR) with a row "
                                       "for each step: **/metrics.csv. Files that do not end in .csv or .tsv have JSON "
                                       "objects, one a line.")
    tensorboard: list[Annotated[str, Field(min_length=1, max_length=200)]] | Annotated[
        str, Field(min_length=1, max_length=200)] | None = Field(
            None, description="The tag of a scalar in TensorBoard's event files in the trial's output folder, or "
                              "several tags. If files in different folders have the tag, write the folder before it: "
                              "validation/epoch_loss.")
    mlflow: bool = Field(
        False, description="Give each trial an MLflow tracking server of its own on its machine (MLFLOW_TRACKING_URI), "
                           "whose metrics are read.")
    result: str | None = Field(
        None, min_length=1, max_length=200, description=(
            "The metric that is the trial's result. Default: the first of objectives, or value, or the only metric "
            "that the patterns and tags name."))
    final: Literal["last", "best", "at exit"] = Field(
        "last", description="Which value of it is the final result of a trial that ends with exit code 0: the last "
                            "one, the best one, or the last one with no intermediate results before (at exit).")


#: As a budget keeps it, with four decimal places: a smaller one would be 0, which allows nothing.
Limit = Annotated[FiniteFloat, Field(ge=0.0001, le=1_000_000_000)]


class BudgetDocument(SettingsModel):
    """What the trials of the experiment may use in total. When a limit is reached no further trial starts."""

    gpu_hours: Limit | None = Field(None, description="Hours that trials run, times their GPUs.")
    cpu_hours: Limit | None = Field(None, description="Hours that trials run, times their CPUs.")
    trials: int | None = Field(None, gt=0, le=LARGEST_COUNT, description=(
        "Trials that begin. The experiment then waits and does not end, in contrast to maxTrialNumber."))
    wall_hours: Limit | None = Field(None, description="Hours that trials run, added up.")
    money: Limit | None = Field(None, description="What the hours cost, by the prices that administrators have set.")


class ClusterEntryDocument(SettingsModel):
    """One of the clusters of an experiment that runs on several."""

    name: str = Field(min_length=1, max_length=255, description="Name of a cluster of this server.")
    up_to: int | None = Field(
        None, ge=1, le=MOST, description="The most trials of the experiment on the cluster at a time. Default: as many "
                                         "as trialConcurrency.")
    weight: FiniteFloat = Field(
        1.0, ge=0, le=1_000_000, description="The cluster's share of the trials, compared with the other clusters. 0: "
                                             "no new trials.")
    cost: FiniteFloat | None = Field(
        None, ge=0, description="What an hour of a trial costs there, in any unit. The cheapest cluster with room goes "
                                "first; without a cost it is 0.")
    after: str | Annotated[list[str], Field(max_length=MOST_CLUSTERS)] | None = Field(
        None, description="Names of clusters of the list that get trials first. The cluster gets trials only when they "
                          "have no room.")
    drained: bool = Field(
        False, description="The cluster gets no new trials. What runs there continues.")
    trial_gpu_number: int | None = Field(
        None, ge=0, le=MOST, description="GPUs for each trial there. Default: the experiment's trialGpuNumber.")
    trial_options: dict[str, Any] | None = Field(
        None, description="The trial options of the cluster's platform, as in a trainingService section.")


class ExperimentDocument(SettingsModel):
    """The whole file, less the platform's own section."""

    experiment_name: str | None = Field(None, max_length=255, description="A name for people.")
    experiment_type: Literal["hpo"] = Field(
        "hpo", description="Must be hpo. Neural architecture search is not supported.")
    description: str | None = Field(None, description="Free text for people.")
    tags: list[Annotated[str, Field(min_length=1, max_length=64)]] = Field(
        [], description="Tags to find the experiment by. (Not in NNI.)")
    search_space: dict[str, Any] | None = Field(
        None, description="The parameters to search. This or searchSpaceFile is required. With a custom tuner "
                          "(className) it is optional and is passed to the tuner unchecked.")
    search_space_file: Path | None = Field(
        None, description="A file with the search space, JSON or YAML. It takes precedence over searchSpace.")
    trial_command: str | None = Field(
        None, description="The shell command that runs a trial. Required here or in the trainingService section. {lr} "
                          "in it is the parameter lr, {args} are all of them; see docs/your-script.md.")
    trial_code_directory: Path | None = Field(
        None, description="Folder of the trial's code. Default: the folder of the file. If it is packed (on all "
                          "platforms except local), links that point out of the folder are refused.")
    environment: dict[VariableName, str] = Field(
        {}, description="Environment variables of each trial: names and values. A name and its value have at most "
                        "131,071 bytes. (Not in NNI.)")
    keep_files: list[Annotated[str, Field(min_length=1, max_length=255), AfterValidator(within_its_folder)]] = Field(
        [], max_length=100, description="Patterns of files that the server keeps when a trial has ended: out/*.bin for "
                                        "files in the trial's working directory, $NNI_OUTPUT_DIR/*.pt for files in its "
                                        "output folder. (Not in NNI.)")
    retry: RetryDocument | None = Field(
        None, description="How often a failed trial is run again. (Not in NNI.)")
    failed_trials: FailedTrialsDocument | None = Field(
        None, description="What the tuner gets for failed trials, and how many of them end the experiment. (Not in "
                          "NNI.)")
    retention: RetentionDocument | None = Field(
        None, description="How long output, resource samples, files and code are kept. Parameters, final results and "
                          "histories are always kept. (Not in NNI.)")
    checkpoints: bool | CheckpointsDocument | None = Field(
        None, description="What is kept of the checkpoints that trials leave in $NNI_CHECKPOINT_DIR, from which a "
                          "further attempt of a trial goes on. true or false, or the fields below. Default: true where "
                          "keepers call the server. See docs/checkpoints.md. (Not in NNI.)")
    checkpoint_grace: Grace | None = Field(
        None, description="How long a trial that is frozen, or whose platform ends it, may take to save a checkpoint "
                          "and end, before it is killed. Default: 10s. (Not in NNI.)")
    checkpoint_signal: Literal["TERM", "INT", "HUP", "USR1", "USR2"] | None = Field(
        None, description="The signal that asks a trial to save a checkpoint and end when it is frozen. Default: TERM. "
                          "(Not in NNI.)")
    pause: Literal["wait", "freeze"] | None = Field(
        None, description="What a pause of the experiment means for running trials. wait: they continue to their end "
                          "(default). freeze: they save a checkpoint, end, and continue when the experiment is "
                          "resumed. (Not in NNI.)")
    priority: int = Field(
        0, ge=-MOST_PRIORITY, le=MOST_PRIORITY, description=(
            "Where a cluster has no room, trials of experiments with a higher priority go first, and running trials of "
            "a lower priority are frozen for them. More than 0 needs the right to it. See docs/quotas.md. (Not in "
            "NNI.)"))
    budget: BudgetDocument | None = Field(
        None, description="What the trials may use in total: hours, trials, money. See docs/budgets.md. (Not in NNI.)")
    preemptible: Literal["checkpoints", "always", "never"] | None = Field(
        None, description="Which of its running trials may be frozen for an experiment of higher priority. "
                          "checkpoints: those that have saved a checkpoint (default). always: all; those without one "
                          "begin from the beginning. never: none. (Not in NNI.)")
    warm_start: bool | Annotated[list[ModuleName], Field(max_length=200)] | None = Field(
        None, description="Fork trials from a process that has imported their modules, on platforms whose machines "
                          "have an agent (local, remote). true: the modules that the first trials load; or the names "
                          "of modules. See docs/warm-trials.md. (Not in NNI.)")
    code_variants: bool | CodeVariantsDocument | None = Field(
        None, description="Permit trials that are submitted, proposed from outside or run again to bring a patch of "
                          "the experiment's code. true, or the fields below. See docs/code-variants.md. (Not in NNI.)")
    metrics: MetricsDocument | None = Field(
        None, description="Where the metrics of a script that does not import nni are read. (Not in NNI.)")
    replicates: ReplicatesDocument | Annotated[int, Field(ge=1, le=100)] | None = Field(
        None, description="Run each proposal of the tuner as several trials and tell the tuner their mean: a number of "
                          "trials, or the fields below. See docs/replicates.md. (Not in NNI.)")
    multi_phase: bool = Field(
        False, description="A running trial may ask for further parameter sets. Each call of nni.get_next_parameter() "
                           "returns another set, which has its own result, and None when the tuner has no more. (Only "
                           "in NNI 1.)")
    trial_concurrency: int = Field(gt=0, le=MOST, description="How many trials run at the same time.")
    trial_gpu_number: int | None = Field(
        None, ge=0, le=MOST, description="GPUs for each trial. 0: trials see no GPUs. If left out, GPUs are not "
                                         "managed.")
    gpu_memory: Literal["auto", "whole"] | Annotated[Megabytes, Field(ge=1, le=MOST)] | None = Field(
        None, description="How much memory a trial needs on each of its GPUs, so that several share one: a size such "
                          "as 6GB, auto (learnt from trials that have ended) or whole (default: trials share GPUs only "
                          "by maxTrialNumPerGpu). For local and SSH machines. See docs/gpus.md. (Not in NNI.)")
    max_experiment_duration: Duration | None = Field(
        None, description="The experiment ends after this time: 30s, 10m, 1.5h, 1h30m, 2d, or whole seconds.")
    max_trial_number: int | None = Field(
        None, gt=0, le=LARGEST_COUNT, description="The experiment ends after this many trials, whether they succeed or "
                                                  "not. With replicates each replicate is a trial.")
    max_trial_duration: Duration | None = Field(
        None, description="A trial that runs longer is stopped and counts as early stopped.")
    nni_manager_ip: Annotated[str, AfterValidator(check_callback_address)] | None = Field(
        None, description="Name or address at which trial machines reach this server, with or without a port or "
                          "https://: 10.0.0.5, 10.0.0.5:8080, https://nni.example.org. Default port: the server's own.")
    use_annotation: bool = Field(
        False, description="Make the search space from the annotations in the trials' code, which is then always "
                           "copied; searchSpace and searchSpaceFile must be left out. See docs/annotation.md.")
    debug: bool = Field(False, description="More messages in the logs.")
    log_level: LogLevel | None = Field(None, description="debug if debug is true, else info.")
    experiment_working_directory: str | None = Field(
        None, description="Accepted but not used. All files are stored in the server's data folder.")
    tuner_gpu_indices: GpuIndices | None = Field(
        None, description="GPUs that a custom tuner, advisor or assessor may see (CUDA_VISIBLE_DEVICES): a number, a "
                          "list, or numbers separated by commas. Default: none. Built-in algorithms use no GPU.")
    tuner: TunerDocument | None = Field(None, description=(
        "The algorithm that chooses parameters. Default: Auto, with optimize_mode maximize unless objectives or the "
        "assessor say otherwise. Required in the v1 form, and by NNI."))
    assessor: AlgorithmDocument | None = Field(  # NNI 2.0 misspelt it
        None, validation_alias=AliasChoices("assessor", "accessor"),
        description="The algorithm that stops unpromising trials early.")
    advisor: TunerDocument | None = Field(None, description=(
        "Deprecated name of tuner. It cannot be given together with tuner."))
    objectives: list[ObjectiveDocument] = Field(
        [], max_length=8, description="The metrics to optimize, the main metric first. The main metric is the trial's "
                                      "result, which assessors use. Default: the metric default with the tuner's "
                                      "optimize_mode. With several metrics, the best trials form a Pareto front. (Not "
                                      "in NNI.)")
    constraints: list[str] = Field(
        [], max_length=MOST_CONSTRAINTS, description="Conditions on the parameters, such as layers * units <= 4096. No "
                                                     "trial runs with parameters that break one. See "
                                                     "docs/search-space.md. (Not in NNI.)")
    outcome_constraints: list[str] = Field(
        [], max_length=MOST_CONSTRAINTS, description="Conditions on the metrics that a trial reports as its final "
                                                     "result, such as latency <= 20. Results that satisfy all of them "
                                                     "go before all others. See docs/objectives.md. (Not in NNI.)")
    start_points: list[dict[str, Any]] = Field(
        [], max_length=MOST_START_POINTS, description="Parameter sets that are tried first, in this order, before the "
                                                      "tuner's own proposals. See docs/start-from-earlier.md. (Not in "
                                                      "NNI.)")
    start_from: list[Annotated[str, Field(min_length=1, max_length=12)]] = Field(
        [], max_length=MOST_START_FROM, description="Ids of earlier experiments. Copies of their results lead the "
                                                    "search as long as they agree with its own results. See "
                                                    "docs/start-from-earlier.md. (Not in NNI.)")
    seed: int | None = Field(
        None, ge=0, lt=2**32, description="Seed of the tuner's random numbers, so that its choices are repeatable. "
                                          "(Not in NNI.)")
    shared_storage: SharedStorage | None = Field(
        None, description="A file store that trials on several machines share.")
    cluster: str | None = Field(
        None, min_length=1, max_length=255,
        description="Name of a cluster of this server, instead of trainingService. (Not in NNI.)")
    clusters: list[ClusterEntryDocument] = Field(
        [], max_length=MOST_CLUSTERS, description=(
            "Several clusters of this server, instead of cluster. The first is the home, whose worker runs the tuner. "
            "See docs/several-clusters.md. (Not in NNI, which has a list under trainingService.)"))
    trial_options: dict[str, Any] | None = Field(
        None, description="Only with cluster: the trial options of its platform, as in a trainingService section. (Not "
                          "in NNI.)")


#: Fields that NNI also reads from within the trainingService section, where they win.
INHERITABLE = ("trialCommand", "trialCodeDirectory", "trialGpuNumber", "nniManagerIp", "debug")
