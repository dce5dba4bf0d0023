"""The page of one notification lists what was sent, the newest first, on several pages where there is much."""

from collections.abc import Callable

import pytest
from django.utils import timezone

from nniweb.experiments.models import NotificationDelivery, NotificationRule, User


def test_further_pages_of_deliveries(page: Callable[..., str], admin: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nniweb.dashboard.notifications.DELIVERIES_PER_PAGE", 1)
    now = timezone.now()
    rule = NotificationRule.objects.create(owner=admin, channel="webhook", created_at=now)
    for _ in range(3):
        NotificationDelivery.objects.create(rule=rule, occasion="test", body="{}", created_at=now, planned_at=now,
                                            due_at=now)
    html = page(f"/notifications/{rule.public_id}/", page=2, nonsense="left out")
    assert 'rel="prev" href="?page=1"' in html
    assert 'rel="next" href="?page=3"' in html
