"""The experiment that a person's wish is about, as it is now, and nobody else's to change meanwhile."""

from nniweb.experiments.access import leashes
from nniweb.experiments.errors import Refused
from nniweb.experiments.models import Experiment
from nniweb.experiments.pubsub.revisions import next_revision


def locked(experiment: Experiment) -> tuple[Experiment, int]:
    """The experiment's row as it is now, with the next revision taken (which also takes the row's lock).

    Raises Refused where it was deleted meanwhile, or the request comes by a token with a leash that was ended.
    """
    revision = next_revision(experiment.pk)
    leashes.must_hold()
    now = Experiment.objects.select_related("cluster").filter(pk=experiment.pk, deleted_at=None).first()
    if now is None:
        raise Refused("The experiment was deleted.")
    return now, revision
