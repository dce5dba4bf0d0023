"""How long an experiment has been running."""

from datetime import datetime

from nniweb.experiments.models import Experiment
from nniweb.experiments.models.experiment import ExperimentStatus

#: Statuses whose time counts towards maxExperimentDuration, as in NNI: its trials run, or could.
COUNTED = (ExperimentStatus.RUNNING, ExperimentStatus.NO_MORE_TRIAL, ExperimentStatus.TUNER_NO_MORE_TRIAL)


def running_seconds(experiment: Experiment, at: datetime) -> float:
    """Seconds the experiment has spent in COUNTED statuses, the server's absences included, pauses not."""
    since = experiment.running_since
    return experiment.running_seconds + (max(0.0, (at - since).total_seconds()) if since else 0.0)
