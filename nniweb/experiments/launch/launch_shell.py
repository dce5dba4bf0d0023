"""The environment of the shell that launches an experiment, recorded where its trials can use it."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import replace

from pydantic import ValidationError

from nniweb.experiments.access.visibility import visible_clusters
from nniweb.experiments.config.parsing import ParsedConfig
from nniweb.experiments.errors import Refused
from nniweb.experiments.models import Experiment, User
from trainingservice.platforms import load_platform
from trainingservice.refused_values import refusals

#: Where a platform's options have it.
_OPTION = "shellEnvironment"
_FIELD = f"trainingService.{_OPTION}"


def with_shell(parsed: ParsedConfig, owner: User, variables: Mapping[str, str]) -> ParsedConfig:
    """The experiment with these variables of a shell on this machine, where its trials run on this machine too and this
    person may run them here; else as it is. Raises Refused for values that are out of bounds.
    """
    settings = parsed.settings
    if not variables.get("PATH") or "PATH" in settings.environment or not owner.may_run_here:
        return parsed
    if (section := settings.training_service) is not None:
        if not load_platform(section.platform).pinned_to_host:
            return parsed
        try:
            options = section.options.with_shell(variables)
        except ValidationError as error:
            raise _refused(error) from None
        return replace(parsed, settings=settings.model_copy(
            update={"training_service": section.model_copy(update={"options": options})}))
    cluster = visible_clusters(owner).filter(enabled=True, name=settings.cluster).first()
    platform = load_platform(cluster.platform) if cluster is not None else None
    if cluster is None or platform is None or not platform.pinned_to_host:
        return parsed
    if cluster.pinned_host != (here := socket.gethostname()):
        note = (f"Its trials run on {cluster.pinned_host}, so they do not get the environment of this shell on {here}.")
        return replace(parsed, notes=[*parsed.notes, note])
    try:
        options = (settings.trial_options or platform.options_model()).with_shell(variables)
    except ValidationError as error:
        raise _refused(error) from None
    return replace(parsed, settings=settings.model_copy(update={"trial_options": options}))


def note_on_copy(experiment: Experiment) -> str:
    """What a person should know who launches the text of an experiment again elsewhere; "" for nothing."""
    recorded = experiment.trial_options.get(_OPTION)
    if not recorded:
        return ""
    if recorded.get("virtualEnv"):
        named = f"venv: {recorded['virtualEnv']}"
    elif recorded.get("condaPrefix"):
        named = f"condaEnv: {recorded['condaPrefix']}"
    else:
        named = "venv, condaEnv or pythonPath"
    return ("It was launched from a shell, and its trials use that shell's Python. A clone uses that environment only "
            f"if trainingService names it ({named}).")


def _refused(error: ValidationError) -> Refused:
    place, said = refusals(error)[0]
    return Refused(f"The environment of the shell cannot be recorded: {place} {said}. Launch from a shell with "
                   "another environment.", _FIELD)
