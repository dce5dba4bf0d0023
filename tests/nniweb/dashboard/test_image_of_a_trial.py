"""A trial's page names the image that its command runs in."""

from __future__ import annotations

from typing import Any

from django.test import Client
from django.utils import timezone

from nniweb.experiments.models import Trial


def test_a_trials_page_names_its_image(make_experiment: Any, client: Client, admin: Any) -> None:
    client.force_login(admin)
    for options in ({"dockerImage": "localhost/train:1"}, {}):
        trial = Trial.objects.create(experiment=make_experiment(trial_options=options), sequence_id=0,
                                     created_at=timezone.now())
        page = client.get(f"/trials/{trial.public_id}/").content.decode()
        assert ("Image: <code>localhost/train:1</code>" in page) == bool(options)
