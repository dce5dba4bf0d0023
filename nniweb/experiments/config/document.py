"""The v2 form of an experiment file, field by field, as it may be written. The reference page is made from it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BeforeValidator, Field, FiniteFloat

from nniweb.experiments.config.durations import Duration
from trainingservice.cluster_settings import SettingsModel
from trainingservice.shared_folder.shared_storage import SharedStorage

#: NNI's own upper bound for counts.
MOST = 99_999
LARGEST_COUNT = 2**31 - 1

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


class AlgorithmDocument(SettingsModel):
    """A tuner, an assessor or an advisor: a built-in by ``name``, or a class of the user's own."""

    name: str | None = Field(None, description="Name of a built-in algorithm, in any letter case.")
    class_name: str | None = Field(None, description="A class of your own, as module.Class; instead of name.")
    code_directory: Path | None = Field(None, description="Folder that the module of className is in.")
    class_args: dict[str, Any] = Field({}, description="Arguments of the algorithm.")


class ObjectiveDocument(SettingsModel):
    """A metric to search by."""

    metric: str = Field(
        min_length=1, max_length=100, description="Its name in the object that a trial reports as its final result; "
                                                  "default is what NNI calls the one metric there is.")
    optimize_mode: Literal["maximize", "minimize"] = Field(description="Whether more or less of it is better.")


class RetryDocument(SettingsModel):
    """Further attempts of a trial that failed; they do not count as trials."""

    on_platform_failure: int = Field(
        0, ge=0, le=100, description="So often where the command is not to blame: its machine was lost, its job was "
                                     "deleted by somebody else, its code did not arrive.")
    on_failure: int = Field(
        0, ge=0, le=100, description="So often where the command itself ended with an error.")


class FailedTrialsDocument(SettingsModel):
    """What failed trials mean for the experiment."""

    tell_tuner: Literal["nothing", "worst"] | FiniteFloat = Field(
        "nothing", description="What the tuner is told as the result of a trial whose command ended with an error: "
                               "nothing, as in NNI (it knows that the trial failed), worst (the worst result so far), "
                               "or this number. A trial that its platform lost never counts as a result.")
    give_up_after: int | None = Field(
        None, ge=1, le=MOST, description="The experiment ends with ERROR after so many failed trials in a row.")


#: Days; or the word that overrules the installation's own number of them.
KeptDays = Annotated[int, Field(ge=1, le=36_500)] | Literal["forever"]


class RetentionDocument(SettingsModel):
    """How many days what is not a result is kept; see docs/retention.md."""

    output: KeptDays | None = Field(
        None, description="Days, or forever, for what a trial wrote, from its end. Left out: as the server has it for "
                          "all; so for each of these.")
    readings: KeptDays | None = Field(
        None, description="... for intermediate results and for readings of the machine, from the trial's end.")
    files: KeptDays | None = Field(
        None, description="... for files that were kept (keepFiles), from the trial's end, and for checkpoints that "
                          "trials handed on, from the experiment's end.")
    code: KeptDays | None = Field(
        None, description="... for the copy of the code, from the experiment's end.")


class ExperimentDocument(SettingsModel):
    """The whole file, less the platform's own section."""

    experiment_name: str | None = Field(None, max_length=255, description="A name for people.")
    experiment_type: Literal["hpo"] = Field(
        "hpo", description="Always hpo: neural architecture search is not done here.")
    description: str | None = Field(None, description="Free text for people.")
    tags: list[Annotated[str, Field(min_length=1, max_length=64)]] = Field(
        [], description="Words to find the experiment by. (Not in NNI.)")
    search_space: dict[str, Any] | None = Field(
        None, description="The parameters to try. This or searchSpaceFile is needed, but not beside a tuner of "
                          "your own (className), which is given whatever stands here, unread.")
    search_space_file: Path | None = Field(
        None, description="A file with the search space, JSON or YAML. It wins over searchSpace.")
    trial_command: str | None = Field(
        None, description="What a trial runs, as shell text. Required here or in the trainingService section.")
    trial_code_directory: Path | None = Field(
        None, description="Folder of the trial's code; the file's own folder if left out. Where it is packed (on all "
                          "platforms but local), links in it that lead out of it are refused.")
    environment: dict[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], str] = Field(
        {}, description="Variables that each trial finds in its environment: names and texts. (Not in NNI.)")
    keep_files: list[Annotated[str, Field(min_length=1, max_length=255)]] = Field(
        [], max_length=100, description="Patterns, such as out/*.bin, of files in the trial's working directory, or "
                                        "$NNI_OUTPUT_DIR/*.pt of those in its output folder, that the server keeps "
                                        "when the trial has ended. (Not in NNI.)")
    retry: RetryDocument | None = Field(
        None, description="How often a trial that failed is tried again. (Not in NNI.)")
    failed_trials: FailedTrialsDocument | None = Field(
        None, description="What the tuner is told of failed trials, and how many end the experiment. (Not in NNI.)")
    retention: RetentionDocument | None = Field(
        None, description="For how long output, readings, files and code are kept. Parameters, final results and "
                          "histories always are. (Not in NNI.)")
    multi_phase: bool = Field(
        False, description="A running trial may ask for further parameter sets. Each call of nni.get_next_parameter() "
                           "returns another set, which has its own result, and None when the tuner has no more. (Only "
                           "in NNI 1.)")
    trial_concurrency: int = Field(gt=0, le=MOST, description="How many trials run at the same time.")
    trial_gpu_number: int | None = Field(
        None, ge=0, le=MOST, description="GPUs for each trial. Left out: GPUs are not looked at; 0: it sees none.")
    max_experiment_duration: Duration | None = Field(
        None, description="The experiment ends after this time: 30s, 10m, 1.5h, 1h30m, 2d, or whole seconds.")
    max_trial_number: int | None = Field(
        None, gt=0, le=LARGEST_COUNT, description="The experiment ends after this many trials, whatever their ends.")
    max_trial_duration: Duration | None = Field(
        None, description="A trial that runs longer is stopped and counts as early stopped.")
    nni_manager_ip: str | None = Field(
        None, description="Name or address at which trial machines reach this server. Without a port "
                          "it is the server's own; 10.0.0.5:8080 and https://nni.example.org are possible, too.")
    use_annotation: bool = Field(
        False, description="Make the search space from the annotations in the trials' code, which is then always "
                           "copied; searchSpace and searchSpaceFile must be left out. See docs/annotation.md.")
    debug: bool = Field(False, description="More messages in the logs.")
    log_level: LogLevel | None = Field(None, description="debug if debug is true, else info.")
    experiment_working_directory: Path | None = Field(
        None, description="Accepted and not used: everything is kept in the server's data folder.")
    tuner_gpu_indices: GpuIndices | None = Field(
        None, description="GPUs that the tuner may see: a number, a list, or numbers with commas.")
    tuner: AlgorithmDocument | None = Field(None, description="The algorithm that chooses parameters. Required.")
    assessor: AlgorithmDocument | None = Field(  # NNI 2.0 misspelt it
        None, validation_alias=AliasChoices("assessor", "accessor"),
        description="The algorithm that stops hopeless trials early.")
    advisor: AlgorithmDocument | None = Field(None, description="Deprecated: the same as tuner, which it excludes.")
    objectives: list[ObjectiveDocument] = Field(
        [], max_length=8, description="The metrics to search by, the main one first: it is the trial's result, and "
                                      "what assessors judge by. Left out: default, by the tuner's optimize_mode. With "
                                      "several the best trials are a Pareto front. (Not in NNI.)")
    seed: int | None = Field(
        None, ge=0, lt=2**32, description="Makes the tuner's choices repeatable. (Not in NNI.)")
    shared_storage: SharedStorage | None = Field(
        None, description="A file store that trials on several machines share.")
    cluster: str | None = Field(
        None, min_length=1, max_length=255,
        description="Name of a cluster set up on this server; instead of trainingService. (Not in NNI.)")
    trial_options: dict[str, Any] | None = Field(
        None, description="With cluster: the trial options of its platform, as in a trainingService section. "
                          "(Not in NNI.)")


#: Fields that NNI also reads from within the trainingService section, where they win.
INHERITABLE = ("trialCommand", "trialCodeDirectory", "trialGpuNumber", "nniManagerIp", "debug")
