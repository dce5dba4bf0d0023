"""The experiment that a command names."""

from django.core.management.base import CommandError

from nniweb.experiments.models import Experiment
from nniweb.storage.own_files import COMMAND


def found_experiment(start: str) -> Experiment:
    """The experiment whose id begins so. Raises CommandError unless there is exactly one."""
    found = list(Experiment.objects.filter(deleted_at=None, public_id__startswith=start)
                 .select_related("cluster").order_by("public_id")[:6])
    exact = [experiment for experiment in found if experiment.public_id == start]
    if len(found) == 1 or exact:
        return (exact or found)[0]
    if not found:
        raise CommandError(f"There is no experiment whose id begins with {start!r}. "
                           f"`{COMMAND} experiments list --all` lists all experiments.")
    raise CommandError(f"Several ids begin with {start!r}: {', '.join(str(experiment) for experiment in found)}.")
