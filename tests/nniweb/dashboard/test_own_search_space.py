"""Experiments whose tuner of the user's own reads a search space that nobody else understands, or none."""

import pytest
from django.test import Client

from nniweb.experiments.models import User

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(("space", "shown"), [
    ({}, "No search space: the tuner chooses parameters in its own code."),
    ({"net": {"_type": "graph"}, "note": "free text"}, "&quot;_type&quot;: &quot;graph&quot;"),
])
def test_its_pages_show_the_space_and_the_parameters_that_trials_have(admin: User, make_experiment, make_attempt, space,
                                                                      shown) -> None:
    experiment = make_experiment(search_space=space, tuner={"class_name": "mine.Mine", "code_directory": "/mine"})
    attempt = make_attempt(experiment)
    attempt.trial.parameter_sets.all().delete()
    attempt.trial.parameter_sets.create(index=0, parameter_id=0, value={"chosen": "by the tuner"})
    client = Client()
    client.force_login(admin)
    assert shown in client.get(f"/experiments/{experiment.public_id}/config/").content.decode()
    assert "by the tuner" in client.get(f"/experiments/{experiment.public_id}/trials/").content.decode()
