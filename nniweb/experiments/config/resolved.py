"""Settings written as a config file again: the canonical v2 form."""

from __future__ import annotations

from typing import Any

from nniweb.experiments.config.settings import AlgorithmSettings, ClusterEntry, ExperimentSettings
from trainingservice.cluster_settings import TrialOptions, without_secrets
from trainingservice.words.durations import format_duration


def resolved_document(settings: ExperimentSettings) -> dict[str, Any]:
    """The v2 document, JSON-able, camelCase, without empty fields and without secrets.

    Parsing it again gives equal settings, less the secrets.
    """
    document: dict[str, Any] = {
        "experimentName": settings.experiment_name or None,
        "description": settings.description or None,
        "tags": list(settings.tags) or None,
        "searchSpace": None if settings.use_annotation else settings.search_space,
        "useAnnotation": settings.use_annotation or None,
        "trialCommand": settings.trial_command,
        "trialCodeDirectory": None if settings.trial_code_directory is None else str(settings.trial_code_directory),
        "environment": settings.environment or None,
        "keepFiles": list(settings.keep_files) or None,
        "retry": settings.retry or None,
        "failedTrials": settings.failed_trials or None,
        "retention": settings.retention or None,
        "checkpoints": settings.checkpoints,
        "checkpointGrace": _duration(settings.checkpoint_grace),
        "checkpointSignal": settings.checkpoint_signal,
        "pause": settings.pause,
        "budget": settings.budget or None,
        "priority": settings.priority or None,
        "preemptible": settings.preemptible,
        "warmStart": _warm_start(settings.warm_start),
        "codeVariants": settings.code_variants or None,
        "metrics": settings.metrics or None,
        "replicates": settings.replicates or None,
        "multiPhase": settings.multi_phase or None,
        "trialConcurrency": settings.trial_concurrency,
        "trialGpuNumber": settings.trial_gpu_number,
        "gpuMemory": settings.gpu_memory,
        "maxExperimentDuration": _duration(settings.max_experiment_duration),
        "maxTrialNumber": settings.max_trial_number,
        "maxTrialDuration": _duration(settings.max_trial_duration),
        "nniManagerIp": settings.nni_manager_ip,
        "debug": settings.debug,
        "logLevel": settings.log_level,
        "tunerGpuIndices": None if settings.tuner_gpu_indices is None else list(settings.tuner_gpu_indices),
        "tuner": _algorithm(settings.tuner),
        "assessor": None if settings.assessor is None else _algorithm(settings.assessor),
        "objectives": [{"metric": one["metric"], "optimizeMode": one["optimize_mode"]}
                       for one in settings.objectives] or None,
        "constraints": list(settings.constraints) or None,
        "outcomeConstraints": list(settings.outcome_constraints) or None,
        "startPoints": [dict(one) for one in settings.start_points] or None,
        "startFrom": list(settings.start_from) or None,
        "seed": settings.seed,
        "sharedStorage": None if settings.shared_storage is None else without_secrets(settings.shared_storage),
        "cluster": settings.cluster,
        "trialOptions": None if settings.trial_options is None else without_secrets(settings.trial_options),
        "trainingService": None if settings.training_service is None else settings.training_service.document(),
    }
    if settings.clusters:
        document |= {"cluster": None, "trialOptions": None, **_clusters(settings)}
    return {key: value for key, value in document.items() if value is not None}


def _clusters(settings: ExperimentSettings) -> dict[str, Any]:
    """A list of clusters, or NNI's list of platforms. The home's options are those of the experiment."""
    if settings.training_service is not None:
        sections = [settings.training_service, *(one.training_service for one in settings.clusters[1:])]
        return {"trainingService": [
            {**section.document(), **({} if entry.trial_gpu_number is None else
                                      {"trialGpuNumber": entry.trial_gpu_number})}
            for section, entry in zip(sections, settings.clusters, strict=True) if section is not None]}
    return {"clusters": [cluster_document(entry, settings.trial_options if index == 0 else entry.trial_options)
                         for index, entry in enumerate(settings.clusters)]}


def cluster_document(entry: ClusterEntry, options: TrialOptions | None) -> dict[str, Any]:
    """An entry of ``clusters``, without what is as by default."""
    document = {"name": entry.name, "upTo": entry.up_to, "weight": None if entry.weight == 1.0 else entry.weight,
                "cost": entry.cost, "after": list(entry.after) or None, "drained": entry.drained or None,
                "trialGpuNumber": entry.trial_gpu_number,
                "trialOptions": (without_secrets(options) or None) if options is not None else None}
    return {key: value for key, value in document.items() if value is not None}


def _warm_start(asked: bool | tuple[str, ...]) -> bool | list[str] | None:
    return list(asked) if isinstance(asked, tuple) else asked or None


def _duration(seconds: int | None) -> str | None:
    return None if seconds is None else format_duration(seconds)


def _algorithm(algorithm: AlgorithmSettings) -> dict[str, Any]:
    document = {"name": algorithm.name or algorithm.registered_as,
                "className": None if algorithm.registered_as else algorithm.class_name,
                "codeDirectory": None if algorithm.code_directory is None else str(algorithm.code_directory),
                "classArgs": algorithm.class_args or None, "multiThread": algorithm.multi_thread or None,
                "includeIntermediateResults": algorithm.include_intermediate_results}
    return {key: value for key, value in document.items() if value is not None}
