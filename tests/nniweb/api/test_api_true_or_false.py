"""Bodies that say true or false say it in JSON."""

from collections.abc import Callable
from typing import Any

import pytest
from rest_framework.test import APIClient

from nniweb.experiments.models import Attempt, Experiment, User


@pytest.mark.parametrize("given", ["yes", "true", "", 1, 0, None, []])
def test_neither_a_text_nor_a_number_is_true_or_false(
        given: Any, admin: User, with_token: Callable[..., APIClient], make_experiment: Callable[..., Experiment],
        make_attempt: Callable[..., Attempt]) -> None:
    experiment = make_attempt(make_experiment(tuner={"name": "External"}, trial_concurrency=5)).trial.experiment
    client, path = with_token(admin), f"/api/v1/experiments/{experiment.public_id}/"
    for method, address, field, others in (
            (client.post, f"{path}proposals/", "complete", {}), (client.patch, path, "archived", {}),
            (client.post, "/api/v1/tokens/", "everything", {"name": "agent", "roles": ["read"]})):
        answer = method(address, {**others, field: given}, format="json")
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, field), answer.content
    experiment.refresh_from_db()
    assert not experiment.archived
    assert client.get("/api/v1/tokens/").json()["results"][0]["name"] != "agent"
