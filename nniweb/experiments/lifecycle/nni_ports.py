"""The port for NNI's clients of an experiment: whether it is open, and why not."""

from nniweb.experiments.lifecycle.reason_columns import from_document
from nniweb.experiments.models import Experiment


def why_nni_port_is_closed(experiment: Experiment) -> str:
    """What kept the server from opening the experiment's port when it last tried, a reason; "" for nothing."""
    return from_document("", experiment.nni_port_problem) if experiment.nni_port_problem else ""


def nni_port_words(experiment: Experiment) -> str:
    """For people: ``8081``, or ``8081. The port is not open: ...``; "" where the experiment has none."""
    if experiment.nni_port is None:
        return ""
    why_not = why_nni_port_is_closed(experiment)
    return f"{experiment.nni_port}. {why_not}" if why_not else str(experiment.nni_port)
