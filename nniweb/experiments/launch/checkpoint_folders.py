"""Where the trials of a tuner such as PBT hand their checkpoints on: a folder that all of them can reach."""

import shutil
from pathlib import Path
from typing import Any

from django.conf import settings as django_settings

from nniweb.experiments.checkpoints.handed_on import ARGUMENT
from nniweb.experiments.config.settings import ExperimentSettings
from nniweb.experiments.errors import Refused
from nniweb.experiments.models import Cluster, Experiment
from nniweb.tuning.algorithms import find_tuner
from trainingservice.base import TrainingService
from trainingservice.cluster_settings import TrialOptions


def check_that_trials_share_a_folder(settings: ExperimentSettings, platform: type[TrainingService],
                                     cluster: Cluster, options: TrialOptions, keepers_can_carry: bool) -> None:
    """Raises Refused where the tuner needs a shared folder, the trials would have none, and keepers cannot carry what
    would be in it.
    """
    if not _wanted(settings):
        return
    name = settings.tuner.name
    if settings.shared_storage is not None and not settings.shared_storage.remote_mount_point.startswith("/"):
        raise Refused(f"{name} tells trials by its path where checkpoints are: give remoteMountPoint as an "
                      "absolute path, such as /mnt/share.", "sharedStorage.remoteMountPoint")
    if keepers_can_carry or share_a_folder(settings, platform, cluster, options):
        return
    if platform.pinned_to_host:  # ours is out of that user's reach
        raise Refused(f"{name} needs a folder for checkpoints that {options.os_user()} can write to. Give it as "
                      f"{ARGUMENT}.", "tuner.classArgs")
    if not _is_one_machine(cluster):
        raise Refused(f"{name} lets trials continue from each other's checkpoints, so all trials must be able to "
                      "access one folder. Describe it under sharedStorage, or use a single machine.", "sharedStorage")
    raise Refused(f"{name} needs a folder for checkpoints on the machine. Give it as {ARGUMENT}.",
                  "tuner.classArgs")


def share_a_folder(settings: ExperimentSettings, platform: type[TrainingService], cluster: Cluster,
                   options: TrialOptions) -> bool:
    """Whether there is a folder that all trials can reach: the named one, or one that this server knows of."""
    is_named = bool(settings.tuner.class_args.get(ARGUMENT))
    if settings.shared_storage is not None:
        return True
    if platform.pinned_to_host:
        return is_named or not options.os_user()
    return is_named and _is_one_machine(cluster)


def with_checkpoint_folder(tuner: dict[str, Any], settings: ExperimentSettings, public_id: str, *,
                           shared: bool) -> dict[str, Any]:
    """The experiment's tuner with the folder filled in, where it needs one, there is one that trials share, and none
    was given. Where there is none, without: then keepers carry what would be in it.
    """
    if not _wanted(settings):
        return tuner
    arguments = {name: value for name, value in tuner.get("class_args", {}).items() if name != ARGUMENT}
    if not shared:
        return {**tuner, "class_args": arguments}
    if settings.tuner.class_args.get(ARGUMENT):
        return tuner
    if settings.shared_storage is not None:
        folder = f"{settings.shared_storage.remote_mount_point.rstrip('/')}/nni/{public_id}/checkpoint"
    else:
        folder = str(_own_folder(public_id))
    return {**tuner, "class_args": {**arguments, ARGUMENT: folder}}


def _is_one_machine(cluster: Cluster) -> bool:
    return len(cluster.settings.get("machineList", ())) == 1


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
