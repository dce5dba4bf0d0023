"""What pages say of experiments that started from the results of others, and the way to start such a one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.test import Client
from django.urls import reverse
from django.utils import timezone

from nniweb.experiments.models import EarlierExperiment, Experiment, User
from nniweb.experiments.models.account import Role

Make = Callable[..., Experiment]
Page = Callable[..., str]


def started(make: Make, earlier: Experiment, **fields: Any) -> Experiment:
    made = make(name="today", config={"startFrom": [earlier.public_id]})
    EarlierExperiment.objects.create(experiment=made, place=0, source_id=earlier.public_id, available=70, taken=60,
                                     **fields)
    return made


def test_the_overview_says_what_it_started_from_and_how_well_that_agrees(page: Page, make_experiment: Make) -> None:
    earlier = make_experiment(name="last week")
    made = started(make_experiment, earlier, compared=23, correlation=0.714, weight=0.9)
    html = page(f"/experiments/{made.public_id}/")
    assert f'<a href="/experiments/{earlier.public_id}/">last week</a>: 60 of its 70 results. They agree with the 23 ' \
           "results of this experiment (rank correlation 0.71)" in html
    assert "Started from" not in page(f"/experiments/{earlier.public_id}/")


def test_the_name_is_for_those_who_may_see_the_earlier_experiment(make_experiment: Make, db: None) -> None:
    reader = User.objects.create_user("reader", role=Role.VIEWER)
    earlier = make_experiment(name="secret")
    made = started(make_experiment, earlier, compared=23, correlation=-0.5)
    Experiment.objects.filter(pk=made.pk).update(owner=reader)
    client = Client()
    client.force_login(reader)
    html = client.get(f"/experiments/{made.public_id}/").content.decode()
    assert f"experiment {earlier.public_id}: 60 of its 70 results. They do not agree" in html
    assert "secret" not in html


def test_a_deleted_one_is_named_by_its_id(page: Page, make_experiment: Make) -> None:
    earlier = make_experiment(name="last week", deleted_at=timezone.now())
    html = page(f"/experiments/{started(make_experiment, earlier).public_id}/")
    assert f"experiment {earlier.public_id}: 60 of its 70 results. There are too few results yet" in html


def test_an_experiment_with_results_has_the_link_that_starts_from_them(
        page: Page, make_experiment: Make, make_attempt: Callable[..., Any]) -> None:
    without = make_experiment()
    assert "Run again from these results" not in page(f"/experiments/{without.public_id}/")
    found = make_attempt(status="SUCCEEDED", final_number=0.5).trial.experiment
    address = f"{reverse('new-experiment')}?clone={found.public_id}&amp;start_from={found.public_id}"
    assert f'href="{address}">Run again from these results</a>' in page(f"/experiments/{found.public_id}/")
    assert f"startFrom: [{found.public_id}]" in page(address.replace("&amp;", "&"))
    assert "startFrom: [" not in page(f"{reverse('new-experiment')}?clone={found.public_id}")
