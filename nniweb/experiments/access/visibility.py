"""Who sees and who changes what: one rule for pages, REST and commands.

A person sees and steers their own experiments and those of their groups; a viewer only sees; an
administrator does everything. Deleting an experiment, sharing it and handing it over are its owner's and
administrators'. Clusters set up for everybody are seen by all (or by their group)
and changed by administrators; a private one belongs to its owner.
"""

from collections.abc import Collection
from dataclasses import dataclass

from django.contrib.auth.models import Group
from django.db.models import Q, QuerySet

from nniweb.experiments.errors import Refused
from nniweb.experiments.models import Cluster, Experiment, Trial, User
from nniweb.experiments.models.account import Role
from trainingservice.words.shown_value import shown


@dataclass(frozen=True)
class VisibleTo:
    """Who sees an experiment besides its owner and administrators, and may steer it unless their role is viewer."""

    #: Its members; None: nobody.
    group: Group | None


def default_visibility(owner: User) -> VisibleTo:
    """Of a launch that does not say: the group of a person who is in exactly one, else nobody."""
    groups = list(owner.groups.all()[:2])
    return VisibleTo(groups[0] if len(groups) == 1 else None)


def visible_to_group(owner: User, name: str) -> VisibleTo:
    """The group of this name; "": nobody. Raises Refused (field ``group``): which others there are is not theirs to
    learn.
    """
    if not name:
        return VisibleTo(None)
    group = groups_to_share_with(owner).filter(name=name).first()
    if group is None:
        raise Refused(f"You are not in a group named {shown(name)}. Choose a group of your own, or nobody.", "group")
    return VisibleTo(group)


def visible_experiments(user: User) -> QuerySet[Experiment]:
    """Experiments this person may see: admins all; others their own and their groups'."""
    found = Experiment.objects.filter(deleted_at=None)
    if user.is_admin:
        return found
    return found.filter(Q(owner=user) | Q(group__in=user.groups.all()))


def may_steer(user: User, experiment: Experiment, groups: Collection[int] | None = None) -> bool:
    """Whether this person may change an experiment they see.

    ``groups``: primary keys of the person's groups, for those who ask for many experiments; else they are looked up.
    """
    if user.is_admin:
        return True
    if not user.may_change:
        return False
    if experiment.owner_id == user.pk:
        return True
    if experiment.group_id is None:
        return False
    return user.groups.filter(pk=experiment.group_id).exists() if groups is None else experiment.group_id in groups


def may_dispose(user: User, experiment: Experiment) -> bool:
    """Whether this person may delete it, share it, and make it somebody else's: its owner and administrators."""
    return user.is_admin or (user.may_change and experiment.owner_id == user.pk)


def groups_to_share_with(user: User) -> QuerySet[Group]:
    """Groups that this person may share an experiment with."""
    return (Group.objects.all() if user.is_admin else user.groups.all()).order_by("name")


def people_to_hand_to(user: User) -> QuerySet[User]:
    """People whom this person may hand an experiment to: who may steer, and (unless for an administrator) shares a
    group with them.
    """
    able = User.objects.filter(is_active=True).exclude(Q(role=Role.VIEWER, is_superuser=False))
    found = able if user.is_admin else able.filter(groups__in=user.groups.all()).distinct()
    return found.order_by("username")


def visible_trials(user: User) -> QuerySet[Trial]:
    """Trials of the experiments this person may see."""
    found = Trial.objects.filter(experiment__deleted_at=None)
    if user.is_admin:
        return found
    return found.filter(Q(experiment__owner=user) | Q(experiment__group__in=user.groups.all()))


def visible_clusters(user: User) -> QuerySet[Cluster]:
    """Clusters this person may see, and launch on (where they are enabled)."""
    if user.is_admin:
        return Cluster.objects.all()
    shared = Q(is_private=False) & (Q(group=None) | Q(group__in=user.groups.all()))
    return Cluster.objects.filter(shared | Q(is_private=True, owner=user))


def may_change_cluster(user: User, cluster: Cluster) -> bool:
    """Administrators; and the owner of a private one."""
    return user.is_admin or (user.may_change and cluster.is_private and cluster.owner_id == user.pk)
