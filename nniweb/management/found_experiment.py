"""The experiment that a command names."""

from django.core.management.base import CommandError
from django.db.models import Q

from nniweb.client.words import printable
from nniweb.experiments.models import Experiment
from nniweb.storage.own_files import COMMAND
from trainingservice.words.shown_value import shown


def found_experiment(start: str) -> Experiment:
    """The experiment whose id begins so, or that has this name; of one that was imported, the id that it had with NNI
    counts too, after those of here. Raises CommandError unless there is exactly one.
    """
    found = list(Experiment.objects.filter(Q(public_id__startswith=start) | Q(foreign_id__startswith=start)
                                           | Q(name=start), deleted_at=None)
                 .select_related("cluster").order_by("public_id")[:6])
    exact = [experiment for experiment in found if experiment.public_id == start] or [
        experiment for experiment in found if experiment.foreign_id == start]
    if len(found) == 1 or len(exact) == 1:
        return (exact or found)[0]
    if not found:
        raise CommandError(f"There is no experiment whose id begins with {shown(start)}, and none of this name. "
                           f"`{COMMAND} experiments list --all` lists all experiments.")
    raise CommandError(f"Several experiments have this name or an id that begins with {shown(start)}: "
                       f"{', '.join(printable(str(experiment)) for experiment in found)}.")
