"""Where the trials of a tuner such as PBT hand their checkpoints on: a folder that all of them can reach."""

import shutil
from pathlib import Path
from typing import Any

from django.conf import settings as django_settings

from nniweb.experiments.config.settings import ExperimentSettings
from nniweb.experiments.errors import Refused
from nniweb.experiments.models import Cluster, Experiment
from nniweb.tuning.algorithms import find_tuner
from trainingservice.base import TrainingService
from trainingservice.cluster_settings import TrialOptions

ARGUMENT = "all_checkpoint_dir"


def check_that_trials_share_a_folder(settings: ExperimentSettings, platform: type[TrainingService],
                                     cluster: Cluster, options: TrialOptions) -> None:
    """Raises Refused where the tuner needs a shared folder and the trials would have none."""
    if not _wanted(settings):
        return
    name = settings.tuner.name
    if settings.shared_storage is not None:
        if not settings.shared_storage.remote_mount_point.startswith("/"):
            raise Refused(f"{name} tells trials by its path where checkpoints are: give remoteMountPoint as an "
                          "absolute path, such as /mnt/share.", "sharedStorage.remoteMountPoint")
        return
    if platform.pinned_to_host:
        if options.os_user() and not settings.tuner.class_args.get(ARGUMENT):  # ours is out of that user's reach
            raise Refused(f"{name} needs a folder for checkpoints that {options.os_user()} can write to. Give it as "
                          f"{ARGUMENT}.", "tuner.classArgs")
        return
    if len(cluster.settings.get("machineList", ())) != 1:
        raise Refused(f"{name} lets trials continue from each other's checkpoints, so all trials must be able to "
                      "access one folder. Describe it under sharedStorage, or use a single machine.", "sharedStorage")
    if not settings.tuner.class_args.get(ARGUMENT):
        raise Refused(f"{name} needs a folder for checkpoints on the machine. Give it as {ARGUMENT}.",
                      "tuner.classArgs")


def with_checkpoint_folder(tuner: dict[str, Any], settings: ExperimentSettings, public_id: str) -> dict[str, Any]:
    """The experiment's tuner with the folder filled in, where it needs one and none was given."""
    if not _wanted(settings) or settings.tuner.class_args.get(ARGUMENT):
        return tuner
    if settings.shared_storage is not None:
        folder = f"{settings.shared_storage.remote_mount_point.rstrip('/')}/nni/{public_id}/checkpoint"
    else:
        folder = str(_own_folder(public_id))
    return {**tuner, "class_args": {**tuner.get("class_args", {}), ARGUMENT: folder}}


def checkpoint_folder(experiment: Experiment) -> Path:
    """Where checkpoints of it are kept on this machine, in the data folder; there need be none."""
    return _own_folder(experiment.public_id)


def has_checkpoints(experiment: Experiment) -> bool:
    """Whether checkpoints of it are kept on this machine, in the data folder."""
    return checkpoint_folder(experiment).exists()


def remove_checkpoints(experiment: Experiment) -> None:
    """Remove what is kept on this machine for the experiment. Harmless where there is nothing."""
    shutil.rmtree(checkpoint_folder(experiment), ignore_errors=True)


def _wanted(settings: ExperimentSettings) -> bool:
    return settings.tuner.name is not None and find_tuner(settings.tuner.name).shares_checkpoints


def _own_folder(public_id: str) -> Path:
    return Path(django_settings.DATA_FOLDER) / "checkpoints" / public_id
