"""Who sees and who steers which experiments: one rule for pages and REST."""

from django.db.models import Q, QuerySet

from nniweb.experiments.models import Experiment, User


def visible_experiments(user: User) -> QuerySet[Experiment]:
    """Experiments this person may see: admins all; others their own and their groups'."""
    found = Experiment.objects.filter(deleted_at=None)
    if user.is_admin:
        return found
    return found.filter(Q(owner=user) | Q(group__in=user.groups.all())).distinct()


def may_steer(user: User, experiment: Experiment) -> bool:
    """Whether this person may change an experiment they see."""
    if user.is_admin:
        return True
    if not user.may_change:
        return False
    if experiment.owner_id == user.pk:
        return True
    return experiment.group_id is not None and user.groups.filter(pk=experiment.group_id).exists()
