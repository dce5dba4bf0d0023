"""The quotas of a namespace: how much of each resource is used, and whether one more pod has room."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal

from kubernetes.utils.quantity import parse_quantity

from trainingservice.kubernetes_base.api import TIMEOUT, KubernetesApi, Resource
from trainingservice.reasons import Reason

RESOURCE_QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota")


@dataclass(frozen=True)
class Limit:
    """What one quota says of one resource, such as ``pods``, ``cpu`` or ``requests.nvidia.com/gpu``."""

    quota: str
    resource: str
    #: Quantities as the API writes them.
    used: str
    hard: str
    #: Whether it counts some pods only (of a priority, say).
    is_scoped: bool = False

    @property
    def is_used_up(self) -> bool:
        return 0 < amount(self.hard) <= amount(self.used)

    def has_room_for(self, asked: str) -> bool:
        return amount(self.used) + amount(asked) <= amount(self.hard)


def limits_of(api: KubernetesApi, namespace: str, timeout: tuple[float, float] = TIMEOUT) -> list[Limit]:
    """All limits of all quotas there. Raises ApiRefusal, ApiAway."""
    limits = []
    for quota in api.call("GET", RESOURCE_QUOTAS.path(namespace), timeout=timeout).get("items") or []:
        spec, status = quota.get("spec") or {}, quota.get("status") or {}
        for resource, hard in (status.get("hard") or {}).items():
            used = (status.get("used") or {}).get(resource, "0")
            limits.append(Limit(str(quota["metadata"]["name"]), resource, used, hard,
                                bool(spec.get("scopes") or spec.get("scopeSelector"))))
    return limits


def why_no_pod(limits: Iterable[Limit], resources: Mapping[str, str]) -> str:
    """Why there is no room for a pod that asks for this much (requests and limits are the same), a sentence; "" where
    there is. Quotas that count some pods only are left out: whether they count this one is not known."""
    asked = {"pods": "1", "count/pods": "1"}
    for resource, quantity in resources.items():
        asked |= dict.fromkeys((resource, f"requests.{resource}", f"limits.{resource}"), quantity)
    for limit in limits:
        if not limit.is_scoped and limit.resource in asked and not limit.has_room_for(asked[limit.resource]):
            return Reason("platform_quota", platform="Kubernetes", cause=limit.resource, said=(
                f"The namespace's quota {limit.quota} has no room for a pod of this trial: {limit.used} of "
                f"{limit.hard} {limit.resource} are used, and it asks for {asked[limit.resource]}."))
    return ""


def amount(text: object) -> Decimal:
    """A quantity ("2500m", "16Gi") as a number; 0 for one that the official client does not know."""
    try:
        found: Decimal = parse_quantity(text)  # type: ignore[no-untyped-call]
    except ValueError:
        return Decimal(0)
    return found
