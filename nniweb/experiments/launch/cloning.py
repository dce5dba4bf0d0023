"""An earlier experiment as the start of the next one: a config that can be launched, and where its code is.

The person's own text is given where it still says what the experiment is; else what the experiment was resolved to,
with what was changed since. Neither holds a secret: what needs one names the cluster, which keeps its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nniweb.experiments.access.visibility import visible_clusters
from nniweb.experiments.config import ConfigInvalid, parse_experiment_config
from nniweb.experiments.config.fields.editing import document_text
from nniweb.experiments.config.redaction import MASK
from nniweb.experiments.config.resolved import resolved_document
from nniweb.experiments.launch.current_config import COLUMNS, changed_fields, with_present_values
from nniweb.experiments.launch.git_source import GitSource
from nniweb.experiments.launch.launch_shell import note_on_copy
from nniweb.experiments.launch.stored_options import (
    document_with_options,
    stored_options,
    with_parts_as_folders,
)
from nniweb.experiments.models import Experiment, User

#: What says where an experiment runs.
_PLACE = ("cluster", "trialOptions", "trainingService")


@dataclass(frozen=True)
class Clone:
    name: str
    config: str
    #: Folder on the server; for those who may name it, where the code was not kept.
    base_directory: str = ""
    #: The experiment whose kept code it is; "" where none is kept.
    code_of: str = ""
    file_count: int | None = None
    git: GitSource | None = None
    notes: list[str] = field(default_factory=list)


def clone_of(experiment: Experiment, user: User) -> Clone:
    """What ``user``, who may see the experiment, would launch to have it again."""
    notes: list[str] = []
    document = with_present_values(experiment, {*COLUMNS, *changed_fields(experiment)})
    # where the code is kept, or fetched from, it is not a folder
    was_removed = experiment.code is None and experiment.code_removed_at is not None and experiment.code_git is None \
        and not experiment.code_folder
    from_elsewhere = experiment.code is not None or experiment.code_git is not None or was_removed
    if from_elsewhere:
        document.pop("trialCodeDirectory", None)
        base = ""
    else:
        base = experiment.code_folder if user.may_name_folders else ""
    _place(document, experiment, user, notes)
    if from_elsewhere:
        _with_folders_of_archive(document, experiment)
    _annotated(document, experiment, notes)
    if was_removed:
        notes.append(f"The copy of its code was removed by retention on {experiment.code_removed_at:%Y-%m-%d}. Provide "
                     "the code again.")
    text = _own_text(experiment, document, base)
    if text and (note := note_on_copy(experiment)):
        notes.append(note)
    text = text or document_text(document)
    if experiment.code is None and experiment.code_folder and not user.may_name_folders:
        notes.append("Its code is in a folder on the server, and you do not have the permission to name folders there. "
                     "Provide the code yourself.")
    git = None
    if experiment.code is None and experiment.code_git is not None:
        git = GitSource(**{key: experiment.code_git[key] for key in ("url", "ref", "folder")})
    return Clone(experiment.name, text, base, experiment.public_id if experiment.code is not None else "",
                 experiment.code.file_count if experiment.code is not None else None, git, notes)


def _annotated(document: dict[str, Any], experiment: Experiment, notes: list[str]) -> None:
    """Code that was kept has its annotations carried out, and they are not made again; other code has them still."""
    if not document.get("useAnnotation"):
        return
    if experiment.code is None:
        document.pop("searchSpace", None)
    else:
        del document["useAnnotation"]
        notes.append("The annotations of its code are carried out in the kept copy, so the search space is part of the "
                     "config. Other code with annotations needs useAnnotation: true and no search space.")


def _place(document: dict[str, Any], experiment: Experiment, user: User, notes: list[str]) -> None:
    cluster = experiment.cluster
    section = document.get("trainingService")
    if section is None or set(section) <= {"platform"}:
        return  # it names a cluster, or needs no settings
    if visible_clusters(user).filter(pk=cluster.pk, enabled=True).exists():
        for key in _PLACE:
            document.pop(key, None)
        document["cluster"] = cluster.name
        if experiment.trial_options:
            document["trialOptions"] = dict(experiment.trial_options)
    else:
        notes.append(f"It ran on {cluster.name}, which you may not use. The cluster's passwords and keys are not "
                     "copied. Give your own, or choose a cluster.")


def _with_folders_of_archive(document: dict[str, Any], experiment: Experiment) -> None:
    """Roles with folders of their own find them in the archive, once there is one."""
    options = stored_options(experiment)
    if experiment.code is None and experiment.code_git is not None or options is None or not options.code_parts():
        return
    for key in ("trialOptions", "trainingService"):
        if key in document:
            document[key] = document_with_options(document[key], options, with_parts_as_folders)


def _own_text(experiment: Experiment, document: dict[str, Any], base: str) -> str:
    """The text as it was written, where it comes to the same; "" where it does not, or had secrets."""
    text = experiment.config_text
    if not text.strip() or MASK in text or text.lstrip().startswith("{"):  # JSON was written by a program
        return ""
    try:
        parsed = parse_experiment_config(text, Path(base) if base else None,
                                         cluster_platform=lambda name: experiment.cluster.platform)
    except ConfigInvalid:
        return ""
    written = resolved_document(parsed.settings)
    return text if _less_place(written) == _less_place(document) else ""


def _less_place(document: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key not in _PLACE}
