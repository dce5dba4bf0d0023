"""Which trials shared a warm place, on a trial's page, over REST and in the filter."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from nniweb.documents.places import place_of_trial
from nniweb.experiments.lifecycle.places import close
from nniweb.experiments.models import Attempt, Experiment, Place, User
from nniweb.experiments.trial_filter import fitting_trials
from trainingservice.reasons import Reason

pytestmark = pytest.mark.django_db


@pytest.fixture
def shared(make_experiment: Callable[..., Experiment], make_attempt: Callable[..., Attempt]) -> list[Attempt]:
    """Four attempts; the first three ran in the place of the first one, which is open."""
    experiment = make_experiment()
    now = timezone.now()
    attempts = [make_attempt(experiment, status="SUCCEEDED", ended_at=now) for _ in range(4)]
    place = Place.objects.create(experiment=experiment, cluster=experiment.cluster, job_name=attempts[0].job_name,
                                 key="k", asked_for="", attempt=attempts[2], given_at=now, asked_at=now, opened_at=now)
    for number, attempt in enumerate(attempts[:3]):
        Attempt.objects.filter(pk=attempt.pk).update(place=place, submitted_at=now + timedelta(seconds=number))
    return attempts


def test_the_page_of_a_trial_names_its_place_and_links_to_those_that_shared_it(
        page: Callable[..., str], shared: list[Attempt]) -> None:
    first, second, third, alone = shared
    text = page(f"/trials/{second.trial.public_id}/")
    assert f"Ran in the warm place <code>{first.job_name}</code>, which it shares with trials" in text
    for attempt in (first, third):
        assert f'<a href="/trials/{attempt.trial.public_id}/">{attempt.trial.sequence_id}</a>' in text
    assert 'id="place"' not in page(f"/trials/{alone.trial.public_id}/")


def test_it_says_why_the_place_was_given_back(page: Callable[..., str], shared: list[Attempt]) -> None:
    close(Place.objects.get(), Reason("place_failures"))
    assert "It was given back because two trials in a row failed in it." in page(
        f"/trials/{shared[0].trial.public_id}/")


def test_rest_has_the_place_of_a_trial(admin: User, shared: list[Attempt]) -> None:
    client = Client()
    client.force_login(admin)

    def place(attempt: Attempt) -> Any:
        return client.get(f"/api/v1/trials/{attempt.trial.public_id}/").json()["place"]

    first, second, third, alone = shared
    assert place(alone) is None
    assert place(second) == {
        "name": first.job_name, "is_open": True, "message": "", "reason": None, "trials_count": 3,
        "trials": [{"id": one.trial.public_id, "sequence_id": one.trial.sequence_id} for one in (first, third)]}
    close(Place.objects.get(), Reason("place_lost", said="The node failed."))
    assert place(second) == place_of_trial(second.trial_id)
    assert place(second)["reason"] == {"code": "place_lost", "said": "The node failed."}
    assert place(second)["message"].endswith("is gone. The node failed.")


@pytest.mark.parametrize(("text", "found"), [
    ("place = {name}", [0, 1, 2]), ("place = none", [3]), ("place != none", [0, 1, 2]), ("place = another", []),
    ("place ~ {part}", [0, 1, 2])])
def test_the_filter_finds_the_trials_of_a_place(shared: list[Attempt], text: str, found: list[int]) -> None:
    experiment, name = shared[0].trial.experiment, shared[0].job_name
    trials = fitting_trials(experiment.trials.all(), text.format(name=name, part=name[2:8]), experiment, timezone.now())
    assert [trial.sequence_id for trial in trials.order_by("sequence_id")] == found
