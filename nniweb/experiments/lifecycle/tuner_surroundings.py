"""The folder and the environment of a process that runs a tuner or an assessor of the user's own, as NNI gives them."""

import shutil
from pathlib import Path

from django.conf import settings

from nniweb.experiments.models import Experiment
from nniweb.tuning.process.tuner_child import Surroundings


def surroundings_of(experiment: Experiment) -> Surroundings:
    """NNI's variables. The GPUs are those of ``tunerGpuIndices``: none unless it is given.

    ``NNI_MODE`` never says ``resume``: NNI's classes then load what they have saved, and here they get the whole
    history again.
    """
    folder = _folder(experiment)
    logs, checkpoints = folder / "log", folder / "checkpoint"
    gpus = experiment.config.get("tunerGpuIndices") or []
    return Surroundings(logs, {
        "SDK_PROCESS": "dispatcher", "NNI_MODE": "start", "NNI_LOG_DIRECTORY": str(logs),
        "NNI_CHECKPOINT_DIRECTORY": str(checkpoints), "NNI_LOG_LEVEL": str(experiment.config.get("logLevel") or "info"),
        "NNI_INCLUDE_INTERMEDIATE_RESULTS": str(bool(experiment.tuner.get("include_intermediate_results"))).lower(),
        "CUDA_VISIBLE_DEVICES": ",".join(map(str, gpus))}, [checkpoints])


def remove_tuner_folder(experiment: Experiment) -> None:
    """Remove what a tuner of the user's own has written there. Harmless where there is nothing."""
    shutil.rmtree(_folder(experiment), ignore_errors=True)


def _folder(experiment: Experiment) -> Path:
    return Path(settings.DATA_FOLDER).absolute() / "tuners" / experiment.public_id
