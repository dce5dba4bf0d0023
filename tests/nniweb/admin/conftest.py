"""Rita is signed in, and there is a platform with secrets."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from nniweb.experiments.models import User
from trainingservice.platforms import register, unregister


@pytest.fixture(autouse=True)
def data_folder(settings: Any, tmp_path: Path) -> Path:
    settings.DATA_FOLDER = tmp_path
    return tmp_path


@pytest.fixture
def browser(client: Client, rita: User) -> Client:
    client.force_login(rita)
    return client


@pytest.fixture
def vault() -> Iterator[None]:
    register("vault", "tests.nniweb.api.clusters.vault_platform:VaultTrainingService")
    yield
    unregister("vault")
