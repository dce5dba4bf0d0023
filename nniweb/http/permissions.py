"""Who may do what over REST: by role first, then by the rules of ``nniweb.experiments.access.visibility``.

What a person may not see is not found (404), what they may see but not change is forbidden (403).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request

from nniweb.experiments.access.visibility import may_change_cluster, may_steer
from nniweb.experiments.models import ApiToken, Cluster, Experiment, NotificationRule, Trial, User

if TYPE_CHECKING:  # when running, views import the permissions
    from rest_framework.views import APIView


NOT_BY_THIS_TOKEN = ("This token has the scope {}, which does not allow this. Make a token with the scope {} on the "
                     "page Account, and use that one.")


class RolePermission(BasePermission):
    """Everybody who is signed in may look; viewers change nothing; members change what is theirs or their groups'."""

    message = "Your role is viewer, which cannot change anything. Ask an administrator for another role."

    def has_permission(self, request: Request, view: APIView) -> bool:
        user = request.user
        if user.is_authenticated and user.needs_scope is not None:
            self.message = NOT_BY_THIS_TOKEN.format(user.scope, user.needs_scope)
        return user.is_authenticated and (request.method in SAFE_METHODS or user.may_change)

    def has_object_permission(self, request: Request, view: APIView, obj: Any) -> bool:
        user = request.user
        if request.method in SAFE_METHODS or not user.is_authenticated:
            return user.is_authenticated
        self.message = "It belongs to somebody else; only its owner, the group it is shared with and administrators " \
                       "may change it."
        if isinstance(obj, Trial):
            obj = obj.experiment
        if isinstance(obj, Experiment):
            return may_steer(user, obj)
        if isinstance(obj, Cluster):
            self.message = "The cluster belongs to somebody else; only its owner and administrators may change it."
            return may_change_cluster(user, obj)
        if isinstance(obj, NotificationRule):
            return bool(obj.owner_id == user.pk)
        return user.is_admin


class AdminOnly(BasePermission):
    """Only administrators, with their session or with a token of the scope "admin"."""

    message = "Only administrators may do this. A token needs the scope admin."

    def has_permission(self, request: Request, view: APIView) -> bool:
        if isinstance(request.auth, ApiToken) and request.auth.has_leash:
            self.message = "Only administrators may do this, and no token with a leash."
        return bool(request.user.is_authenticated and request.user.is_admin)


class AdminToChange(BasePermission):
    """Everybody who is signed in may look, only administrators change."""

    message = "Only administrators may do this."

    def has_permission(self, request: Request, view: APIView) -> bool:
        user = request.user
        return user.is_authenticated and (request.method in SAFE_METHODS or user.is_admin)


def signed_in_user(request: Request) -> User:
    """Who asks; the permission classes have let nobody in who is not signed in."""
    assert isinstance(request.user, User)
    return request.user
