"""What the API double refuses of pods beyond their schema: labels of nodes, tolerations, and names that must exist."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.fakes.kubernetes.validation import Cause, invalid, label_causes, subdomain_causes

Object = dict[str, Any]
#: Priority classes that every cluster has, for pods of its own namespace only.
_OF_THE_SYSTEM = ("system-cluster-critical", "system-node-critical")


def pod_causes(spec: Object, path: str = "spec") -> list[Cause]:
    """What is wrong with a pod's spec, as the API server checks pods and the templates of built-in kinds."""
    causes = label_causes(spec.get("nodeSelector") or {}, f"{path}.nodeSelector")
    for name in ("serviceAccountName", "priorityClassName"):
        if spec.get(name):
            causes += subdomain_causes(spec[name], f"{path}.{name}")
    for index, toleration in enumerate(spec.get("tolerations") or []):
        causes += _toleration_causes(toleration, f"{path}.tolerations[{index}]")
    return causes


def _toleration_causes(toleration: Object, path: str) -> list[Cause]:
    key, operator, effect = (toleration.get(name) or "" for name in ("key", "operator", "effect"))
    causes = label_causes({key: ""}, f"{path}.key") if key else []
    if not key and operator != "Exists":
        causes.append(invalid(f"{path}.operator", operator, "operator must be Exists when `key` is empty, which means "
                                                            '"match all values and all keys"'))
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        causes.append(invalid(f"{path}.effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set"))
    if operator == "Exists" and toleration.get("value"):
        causes.append(invalid(f"{path}.operator", toleration["value"],
                              "value must be empty when `operator` is 'Exists'"))
    elif operator in ("", "Equal"):
        causes += label_causes({"key": toleration.get("value") or ""}, f"{path}.value")
    elif operator != "Exists":
        causes.append((f"{path}.operator", "FieldValueNotSupported",
                       f'Unsupported value: "{operator}": supported values: "Equal", "Exists"'))
    return causes


@dataclass
class Admission:
    """The names that a namespace has."""

    priority_classes: set[str] = field(default_factory=lambda: set(_OF_THE_SYSTEM))
    service_accounts: set[str] = field(default_factory=lambda: {"default"})

    def refusal(self, name: str, namespace: str, spec: Object) -> str:
        """Why the API server would forbid a pod, in its words; "" where it would not."""
        account = spec.get("serviceAccountName") or "default"
        if account not in self.service_accounts:
            return (f'pods "{name}" is forbidden: error looking up service account {namespace}/{account}: '
                    f'serviceaccount "{account}" not found')
        priority = spec.get("priorityClassName")
        if priority and priority not in self.priority_classes:
            return f'pods "{name}" is forbidden: no PriorityClass with name {priority} was found'
        if priority in _OF_THE_SYSTEM:
            return f'pods "{name}" is forbidden: pods with {priority} priorityClass is not permitted in {namespace} ' \
                   "namespace"
        return ""
