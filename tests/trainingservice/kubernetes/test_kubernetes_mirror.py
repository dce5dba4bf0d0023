"""The copy in memory of what is on a cluster."""

from __future__ import annotations

from trainingservice.kubernetes_base.api import PODS, ApiAccess, KubernetesApi
from trainingservice.kubernetes_base.mirror import Mirror


def test_an_object_whose_end_was_told_before_its_making_was_answered_stays_away() -> None:
    mirror = Mirror(KubernetesApi(ApiAccess()), PODS, "default", "", slim=lambda item: item,
                    on_event=lambda name, item: None)
    made = {"metadata": {"name": "p", "uid": "1", "resourceVersion": "5"}}
    mirror.take({"type": "ADDED", "object": made})
    mirror.take({"type": "DELETED", "object": made})
    mirror.put(made)
    assert mirror.get("p") is None
    mirror.put({"metadata": {"name": "p", "uid": "2"}})
    assert mirror.get("p") is not None
