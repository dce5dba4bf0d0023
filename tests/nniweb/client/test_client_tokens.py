"""Tokens with a leash, made and ended with the client."""

from collections.abc import Callable
from typing import Any

import pytest

from nniweb.client import Client, NotFound, Refused
from nniweb.experiments.models import ApiToken, Experiment, User


def test_a_leash_is_made_obeyed_and_ended(live_server: Any, transactional_db: None, admin: User,
                                          make_experiment: Callable[..., Experiment]) -> None:
    client = Client(live_server.url, ApiToken.make(admin))
    made = client.make_token("night", roles=["read", "launch"], max_trials=2, budget={"trials": 10})
    assert (made["max_trials"], made["budgets"][0]["left"]) == (2, 10.0)
    experiment = make_experiment(token=ApiToken.objects.get(pk=made["id"]))
    by_it = Client(live_server.url, made["token"])
    assert by_it.account()["leash"]["roles"] == ["read", "launch"]
    with pytest.raises(Refused, match="needs the role steer"):
        by_it.experiment(experiment.public_id).stop()
    with pytest.raises(Refused, match="Limits need at least one role"):
        client.make_token("wrong", max_trials=2)
    assert client.end_token(made["id"], stop=True)["stopped"] == {"experiments": 1, "trials": 0}
    with pytest.raises(Refused, match="was ended"):
        by_it.account()
    assert [token["name"] for token in client.tokens(ended="true")][0] == "night"
    with pytest.raises(NotFound):
        client.end_token(10**9)
