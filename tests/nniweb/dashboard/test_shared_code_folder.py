"""People are told that local trials run in their own folder, and that no other platform does so."""

from collections.abc import Callable

import pytest
from django.test import Client

from nniweb.experiments.models import Experiment, User


@pytest.fixture
def signed_in(client: Client, admin: User) -> Client:
    client.force_login(admin)
    return client


def test_the_form_says_so(signed_in: Client) -> None:
    page = signed_in.get("/new/")
    assert "On the platform local, trials run in this folder itself" in page.content.decode()
    assert "On all other platforms each trial has a copy" in page.content.decode()


def test_the_experiments_config_says_so(signed_in: Client, make_experiment: Callable[..., Experiment]) -> None:
    experiment = make_experiment(code_folder="/home/me/project")
    page = signed_in.get(f"/experiments/{experiment.public_id}/config/").content.decode()
    assert "On the platform local, trials run in this folder itself; on other platforms each trial has a copy." in page
