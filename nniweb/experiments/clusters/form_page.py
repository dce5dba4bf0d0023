"""What the page with the form of a cluster needs; the dashboard and the admin have the same one."""

from typing import Any

from nniweb.experiments.access.visibility import groups_to_share_with
from nniweb.experiments.models import Cluster, User
from trainingservice.platforms import platform_names

#: User names that are proposed as owners; others can be typed.
MOST_PROPOSED = 200


def form_context(user: User, cluster: Cluster | None, *, after: str, back: str, every: str) -> dict[str, Any]:
    """For the template ``dashboard/cluster_form.html``.

    Addresses: ``after`` is where saving leads, with CLUSTER in place of the id, ``back`` where Cancel leads, ``every``
    that of the list.
    """
    people = User.objects.filter(is_active=True).order_by("username").values_list("username", flat=True) \
        if user.is_admin else User.objects.none()
    return {"cluster": cluster, "may_set": user.is_admin, "platforms": platform_names(), "after": after, "back": back,
            "list": every, "groups": [group.name for group in groups_to_share_with(user)] if user.is_admin else [],
            "people": list(people[:MOST_PROPOSED])}
