"""The options of an experiment's trials as they are stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nniweb.experiments.models import Experiment
from trainingservice.cluster_settings import CodePart, TrialOptions, without_secrets
from trainingservice.errors import TrainingServiceError
from trainingservice.platforms import load_platform


def stored_options(experiment: Experiment) -> TrialOptions | None:
    """None where they cannot be read: the platform is gone, or takes them no more."""
    try:
        return load_platform(experiment.cluster.platform).options_model.model_validate(experiment.trial_options or {})
    except (TrainingServiceError, ValueError):
        return None


def code_parts_of(experiment: Experiment) -> Sequence[CodePart]:
    """The folders of its code where roles have different ones; their paths start where the code came from."""
    options = stored_options(experiment)
    return options.code_parts() if options is not None else ()


def with_parts_as_folders(options: TrialOptions) -> TrialOptions:
    """The options for whoever starts at the code archive: each part is a folder at its top."""
    names: dict[str | None, str] = {part.folder: part.name for part in options.code_parts()}
    return options.with_code_directories(names.get) if names else options


def document_with_options(document: dict[str, Any], options: TrialOptions,
                          change: Callable[[TrialOptions], TrialOptions]) -> dict[str, Any]:
    """A config's group of options, or one that holds them among other fields, after a change of the options."""
    changed = without_secrets(change(options))
    return {key: changed.get(key, value) for key, value in document.items()}
