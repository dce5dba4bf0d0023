"""Which role of a leash each address needs that changes something. What is not in the table, no leash may ask for.

It is asked where a token becomes the person of a request (``authentication``, beside it), which each view passes, so
that a new view need not think of it. Pages and websockets know people by their session alone: no token opens them.
"""

from __future__ import annotations

import re

from django.urls import ResolverMatch

from nniweb.experiments.access import leashes
from nniweb.experiments.models import ApiToken
from nniweb.experiments.models.account import LeashRole

_API, _NNI = "/api/v1", "/nni/<experiment_id>/api/v1/nni"
_EXPERIMENT, _TRIAL = f"{_API}/experiments/<experiment_id>", f"{_API}/trials/<trial_id>"
_CLUSTER, _RULE = f"{_API}/clusters/<cluster_id>", f"{_API}/notifications/<rule_id>"

#: Method and address, as ``docs/access.md`` writes it.
Address = tuple[str, str]

_BY_ROLE: dict[LeashRole | None, tuple[str, ...]] = {
    LeashRole.LAUNCH: (
        f"POST {_API}/experiments/", f"POST {_API}/experiments/check/", f"POST {_API}/experiments/config-fields/",
        f"POST {_API}/experiments/sampled-points/"),
    LeashRole.PROPOSE: (
        f"POST {_EXPERIMENT}/proposals/", f"POST {_EXPERIMENT}/trials/", f"POST {_EXPERIMENT}/actions/rerun-failed/",
        f"POST {_EXPERIMENT}/trials/actions/rerun/", f"POST {_TRIAL}/actions/rerun/",
        f"POST {_TRIAL}/actions/check-parameters/", f"POST {_NNI}/trial-jobs"),
    LeashRole.STEER: (
        f"PATCH {_EXPERIMENT}/", f"POST {_EXPERIMENT}/actions/pause/", f"POST {_EXPERIMENT}/actions/freeze/",
        f"POST {_EXPERIMENT}/actions/resume/", f"POST {_EXPERIMENT}/actions/stop/",
        f"POST {_EXPERIMENT}/actions/import-data/", f"POST {_EXPERIMENT}/changes/<number>/actions/undo/",
        f"POST {_EXPERIMENT}/trials/actions/stop/", f"POST {_EXPERIMENT}/trials/actions/freeze/",
        f"POST {_EXPERIMENT}/trials/actions/thaw/", f"POST {_EXPERIMENT}/trials/actions/tag/",
        f"PATCH {_TRIAL}/", f"POST {_TRIAL}/actions/cancel/", f"POST {_TRIAL}/actions/freeze/",
        f"POST {_TRIAL}/actions/thaw/", f"POST {_TRIAL}/actions/refresh/",
        f"PUT {_NNI}/experiment", f"DELETE {_NNI}/experiment", f"POST {_NNI}/experiment/import-data",
        f"DELETE {_NNI}/trial-jobs/<trial_id>"),
    # for people: what widens rights, removes what others need, runs uncounted work or sends data elsewhere
    None: (
        f"DELETE {_EXPERIMENT}/", f"POST {_EXPERIMENT}/tensorboards/",
        f"DELETE {_EXPERIMENT}/tensorboards/<board_id>/",
        f"POST {_API}/clusters/", f"POST {_API}/clusters/check/", f"PATCH {_CLUSTER}/", f"DELETE {_CLUSTER}/",
        f"POST {_CLUSTER}/actions/rehearse/", f"PUT {_CLUSTER}/metadata/<key>/", f"DELETE {_CLUSTER}/metadata/<key>/",
        f"POST {_API}/notifications/", f"PATCH {_RULE}/", f"DELETE {_RULE}/", f"POST {_RULE}/actions/test/",
        f"POST {_RULE}/deliveries/<delivery_id>/actions/send-again/",
        f"POST {_API}/tokens/", f"DELETE {_API}/tokens/<token_id>/", f"POST {_API}/tokens/<token_id>/end/",
        f"POST {_API}/users/", f"PATCH {_API}/users/<user_id>/", f"DELETE {_API}/users/<user_id>/",
        f"POST {_API}/users/<user_id>/actions/sign-in-link/",
        f"POST {_API}/groups/", f"PATCH {_API}/groups/<group_id>/", f"DELETE {_API}/groups/<group_id>/",
        f"POST {_API}/quotas/", f"PATCH {_API}/quotas/<quota_id>/", f"DELETE {_API}/quotas/<quota_id>/",
        f"POST {_API}/budgets/", f"PATCH {_API}/budgets/<budget_id>/", f"DELETE {_API}/budgets/<budget_id>/",
        f"POST {_API}/prices/", f"PATCH {_API}/prices/<price_id>/", f"DELETE {_API}/prices/<price_id>/",
        # NNI's clients may call these, which do nothing here
        f"POST {_NNI}/experiment",
        *(f"{method} {_NNI}/{rest}" for method in ("POST", "PUT", "DELETE") for rest in (
            "experiment/cluster-metadata", "tensorboard", "tensorboard/<task>", "tensorboard-tasks", "<path>"))),
}


def _table() -> dict[Address, LeashRole | None]:
    found: dict[Address, LeashRole | None] = {}
    for role, addresses in _BY_ROLE.items():
        for text in addresses:
            method, _, address = text.partition(" ")
            assert (method, address) not in found, f"{text} stands twice in the table"
            found[method, address] = role
    return found


#: None: no leash may.
TABLE = _table()
#: A token with any leash may ask who it is and what its limits are.
OPEN_TO_ALL = f"{_API}/account/"
_LOOKING = frozenset({"GET", "HEAD", "OPTIONS"})


def why_refused(token: ApiToken, method: str, match: ResolverMatch | None) -> str:
    """Why the token's leash does not allow the request, a sentence; "" where it does. ``match``: what answers it."""
    if match is None:
        return "The leash of this token allows only REST addresses."
    address = _address_of(match)
    if method in _LOOKING:
        return "" if address == OPEN_TO_ALL else _without(token, LeashRole.READ)
    role = TABLE.get((method, address))
    if role is None:
        return "A token with a leash cannot do this. Do it yourself, or with a token without a leash."
    return _without(token, role) or (leashes.why_not_on(
        token, match.kwargs.get("experiment_id"), match.kwargs.get("trial_id"))
        if match.kwargs.keys() & {"experiment_id", "trial_id"} else "")


def _without(token: ApiToken, role: LeashRole) -> str:
    if role.value in token.roles:
        return ""
    return (f"This needs the role {role.value}, and the leash of this token has only {', '.join(token.roles)}. Make a "
            "token with the role, or ask its owner to do it.")


def _address_of(match: ResolverMatch) -> str:
    return "/" + re.sub(r"<(?:\w+:)?(\w+)>", r"<\1>", match.route)
