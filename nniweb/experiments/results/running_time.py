"""How long an experiment has been running."""

from datetime import datetime

from nniweb.experiments.models import Experiment


def running_seconds(experiment: Experiment, at: datetime) -> float:
    """Seconds the experiment has spent in RUNNING, the server's absences included, pauses not."""
    since = experiment.running_since
    return experiment.running_seconds + (max(0.0, (at - since).total_seconds()) if since else 0.0)
