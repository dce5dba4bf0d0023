"""People, groups and tokens as administrators and their owners change them; each change is in the audit log."""

import unicodedata
from collections.abc import Collection
from datetime import datetime
from typing import Any

from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils import timezone

from nniweb.experiments.access import audit, leashes
from nniweb.experiments.access.held_row import hold
from nniweb.experiments.access.leashes import Leash
from nniweb.experiments.errors import Refused
from nniweb.experiments.models import ApiToken, Cluster, Experiment, SignInLink, Trial, User
from nniweb.experiments.models.account import LeashRole, Role, Scope
from trainingservice.words.shown_value import shown

#: The first administrator is a superuser of Django too; who is given another role is one no more.
NO_ADMINISTRATOR = {"is_superuser": False, "is_staff": False}
#: More tokens than this one person has no use for.
MOST_TOKENS = 50
#: Categories of characters: control, format (also the direction of writing), half of a pair, line and paragraph ends.
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def create_user(name: str, *, role: Role, email: str = "", groups: Collection[Group] = (), **names: Any) -> User:
    """A person without a password: a sign-in link, or single sign-on, lets them in. Raises Refused (``username``)."""
    user = User(username=User.normalize_username(name), role=role, email=email, **names)
    user.set_unusable_password()
    try:
        user.clean_fields(exclude=["password"])
    except ValidationError as error:
        raise Refused.for_fields([(field, " ".join(said)) for field, said in error.message_dict.items()]) from None
    try:
        with transaction.atomic():
            user.save()
            user.groups.set(groups)
            audit.record("user.create", user, role=role, groups=_names(groups), local_users=user.local_users,
                         names_folders=user.names_folders)
    except IntegrityError:
        raise Refused(f"There is a person named {shown(name)} already.", "username") from None
    return user


def change_user(user: User, changes: dict[str, Any]) -> None:
    """Change ``role``, ``is_active``, ``groups``, ``email``, rights, names. Raises Refused where no administrator is
    left.
    """
    changes = dict(changes)
    groups = changes.pop("groups", None)
    with transaction.atomic():
        if {"role", "is_active"} & changes.keys():
            _hold_administrators()
        user = User.objects.select_for_update().get(pk=user.pk)
        was_one = _is_administrator(user)
        if "role" in changes and changes["role"] != Role.ADMIN:
            changes |= NO_ADMINISTRATOR
        for field, value in changes.items():
            setattr(user, field, value)
        if was_one and not _is_administrator(user):
            _another_administrator(user)
        user.save(update_fields=list(changes))
        if groups is not None:
            user.groups.set(groups)
        said = {field: value for field, value in changes.items() if field not in NO_ADMINISTRATOR}
        if groups is not None:
            said["groups"] = _names(groups)
        audit.record("user.change", user, **said)


def delete_user(user: User) -> None:
    """Remove a person and their tokens. Raises Refused while experiments that go on are theirs."""
    with transaction.atomic():
        _hold_administrators()
        if _is_administrator(user):
            _another_administrator(user)
        if going_on := Experiment.objects.filter(owner=user, deleted_at=None).unfinished().count():
            raise Refused(f"{going_on} experiment{'s' * (going_on > 1)} of {user.username} have not ended. Stop them "
                          "or hand them over. To prevent the person from signing in, set is_active to false instead of "
                          "deleting the account.")
        if going_on := Trial.objects.unfinished().filter(token__user=user).count():
            raise Refused(f"{going_on} trial{'s' * (going_on > 1)} that tokens of {user.username} asked for in "
                          "experiments of others have not ended. End the tokens and stop what they run first. To "
                          "prevent the person from signing in, set is_active to false instead of deleting the account.")
        audit.record("user.delete", user)
        user.delete()


def check_administrator_is_left(user: User, *, role: str, is_active: bool) -> None:
    """Raises Refused where with this role, or without the right to sign in, nobody would administer any more. In a
    transaction.
    """
    _hold_administrators()
    stays = user.is_admin if role == user.role else role == Role.ADMIN
    if _is_administrator(user) and not (is_active and stays):
        _another_administrator(user)


def _is_administrator(user: User) -> bool:
    return user.is_active and user.is_admin


def _hold_administrators() -> None:
    """Two of them who remove each other at one moment do it one after the other."""
    everybody = User.objects.filter(Q(role=Role.ADMIN) | Q(is_superuser=True)).order_by("pk")
    list(everybody.select_for_update(no_key=True).values_list("pk"))


def _another_administrator(user: User) -> None:
    """Raises Refused unless somebody else is an administrator who can sign in."""
    others = User.objects.filter(is_active=True).exclude(pk=user.pk)
    if not any(other.is_admin for other in others.only("role", "is_superuser")):
        raise Refused("This is the installation's only administrator. Make another person an administrator first.")


def make_sign_in_link(user: User) -> str:
    """The secret of a link that signs the person in, once, within an hour. Raises Refused where they may not."""
    if not user.is_active:
        raise Refused(f"{user.username} is not active, so a sign-in link would not work. Set is_active to true first.")
    secret = SignInLink.make(user)
    audit.record("user.sign-in-link", user)
    return secret


def create_group(name: str, members: Collection[User] = ()) -> Group:
    """Raises Refused (``name``) where there is one of this name."""
    try:
        with transaction.atomic():
            group = Group.objects.create(name=name)
            group.user_set.set(members)
            audit.record("group.create", group, members=[member.username for member in members])
    except IntegrityError:
        raise Refused(f"There is a group named {shown(name)} already.", "name") from None
    return group


def change_group(group: Group, *, name: str | None = None, members: Collection[User] | None = None) -> None:
    """Rename it, replace its members. Raises Refused (``name``)."""
    try:
        with transaction.atomic():
            said: dict[str, Any] = {}
            if name is not None and name != group.name:
                said["before"], group.name = group.name, name
                group.save(update_fields=["name"])
            if members is not None:
                group.user_set.set(members)
                said["members"] = [member.username for member in members]
            audit.record("group.change", group, **said)
    except IntegrityError:
        raise Refused(f"There is a group named {shown(name)} already.", "name") from None


def delete_group(group: Group) -> None:
    """What was shared with it is its owners' alone from then on. Raises Refused while a cluster is the group's:
    without the group it would be everybody's.
    """
    with transaction.atomic():
        clusters = ", ".join(Cluster.objects.filter(group=group).values_list("name", flat=True)[:5])
        if clusters:
            raise Refused(f"The group has clusters ({clusters}). Without the group, everybody could use them. Move "
                          "them to another group, or delete them, first.")
        audit.record("group.delete", group)
        group.delete()


def check_token_name(name: str) -> None:
    """Raises Refused (field ``name``) for characters that hide or move what stands beside the name in lists and logs:
    line ends, control characters, and those that change the direction of writing.
    """
    if any(unicodedata.category(character) in _UNSEEN for character in name):
        raise Refused("must be one line without control characters and characters that cannot be seen.", "name")


def make_token(user: User, by: User, *, name: str, scope: Scope, expires_at: datetime | None,
               until: datetime | None = None, leash: Leash | None = None) -> tuple[str, ApiToken]:
    """A token for a person, made by themselves or by an administrator: the secret, seen this once, and its row.

    Raises Refused (``name``, ``scope``, ``expires_at``): it may do no more than its person, nor than whoever makes it;
    and where that is a token which expires (``until``), it lives no longer. ``leash``: it has roles in place of the
    scope.
    """
    leashes.must_not("make tokens")
    check_token_name(name)
    scope = leash.scope if leash is not None else scope
    allowed = [scope for scope in user.scopes if scope in by.scopes]
    if scope not in allowed:
        if leash is not None:
            raise Refused(f"A token of {user.username} made by you may have the role {LeashRole.READ} only.", "roles")
        raise Refused(f"A token of {user.username} made by you may have the scope {' or '.join(allowed)}, not {scope}.",
                      "scope")
    if expires_at is not None and expires_at <= timezone.now():
        raise Refused("This time is in the past. Choose a later time.", "expires_at")
    if until is not None and (expires_at is None or expires_at > until):
        raise Refused(f"The token of this request expires at {until.isoformat()}. A token that it makes cannot expire "
                      "later.",
                      "expires_at")
    with transaction.atomic():
        hold(user)  # so that two at one moment are counted one after the other
        if ApiToken.objects.filter(user=user, ended_at=None).count() >= MOST_TOKENS:
            raise Refused(f"{user.username} has {MOST_TOKENS} tokens already, which is the maximum. Remove tokens that "
                          "are no longer used.")
        secret, token = ApiToken.make_with_row(user, name, scope, expires_at, **(leash.fields if leash else {}))
        said = {} if leash is None else {**leash.fields, "clusters": [cluster.name for cluster in leash.clusters]}
        audit.record("token.create", token, of=user.username, scope=scope,
                     expires=expires_at.isoformat() if expires_at else None, **said)
    return secret, token


def remove_token(token: ApiToken, by: User | None = None) -> None:
    """Nothing gets in with it from then on. One by which something was asked for is ended and stays as a row, so that
    its limits hold for what goes on.
    """
    with transaction.atomic():
        if has_asked(token):
            end_token(token, by)
            return
        leashes.must_not("remove tokens")
        audit.record("token.remove", token, of=token.user.username)
        token.delete()


def has_asked(token: ApiToken) -> bool:
    """Whether there is an experiment or a trial that was asked for by the token."""
    return Experiment.objects.filter(token=token).exists() or Trial.objects.filter(token=token).exists()


def end_token(token: ApiToken, by: User | None = None) -> bool:
    """Nothing gets in with it from then on; what it has asked for goes on. False where it was ended before.

    A change by the token that is under way is waited for: whoever stops what it runs afterwards misses nothing.
    """
    leashes.must_not("end tokens")
    with transaction.atomic():
        row = ApiToken.objects.select_for_update(no_key=True).get(pk=token.pk)
        if row.has_ended:
            return False
        token.ended_at, token.ended_by = timezone.now(), by
        token.save(update_fields=["ended_at", "ended_by"])
        audit.record("token.end", token, by, of=token.user.username)
        return True


def _names(groups: Collection[Group]) -> list[str]:
    return sorted(group.name for group in groups)
