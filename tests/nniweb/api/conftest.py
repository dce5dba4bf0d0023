"""Alice is a member, Bob is in her group, Charlie is a stranger, Vera a viewer in the group, Ada the administrator."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group
from rest_framework.test import APIClient

from nniweb.experiments.models import User
from nniweb.experiments.models.account import Role
from trainingservice.platforms import register, unregister


@pytest.fixture(autouse=True)
def data_folder(settings: Any, tmp_path: Path) -> Path:
    """A data folder of the test's own."""
    folder = tmp_path / "data"
    folder.mkdir()
    settings.DATA_FOLDER = folder
    default = {**settings.STORAGES["default"], "OPTIONS": {"location": str(folder / "files")}}
    settings.STORAGES = {**settings.STORAGES, "default": default}
    return folder


@pytest.fixture
def group(vision: Group) -> Group:
    return vision


@pytest.fixture
def alice(group: Group) -> User:
    user = User.objects.create_user("alice", role=Role.MEMBER)
    user.groups.add(group)
    return user


@pytest.fixture
def bob(group: Group) -> User:
    user = User.objects.create_user("bob", role=Role.MEMBER)
    user.groups.add(group)
    return user


@pytest.fixture
def charlie(db: None) -> User:
    return User.objects.create_user("charlie", role=Role.MEMBER)


@pytest.fixture
def ada(admin: User) -> User:
    return admin


@pytest.fixture
def as_user(with_token: Callable[..., APIClient]) -> Callable[[User], APIClient]:
    """A client that sends the person's token."""
    return with_token


@pytest.fixture
def api(as_user: Callable[[User], APIClient], ada: User) -> APIClient:
    """Ada's client."""
    return as_user(ada)


@pytest.fixture
def vault() -> Iterator[None]:
    """A platform whose settings and metadata have secrets."""
    register("vault", "tests.nniweb.api.clusters.vault_platform:VaultTrainingService")
    yield
    unregister("vault")


@pytest.fixture
def code_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "search_space.json").write_text('{"x": {"_type": "uniform", "_value": [0, 1]}}')
    (folder / "trial.py").write_text("print('hello')\n")
    return folder


CONFIG = """\
experimentName: quadratic
trialCommand: python3 trial.py
searchSpaceFile: search_space.json
trialConcurrency: 2
maxTrialNumber: 5
tuner:
  name: Random
trainingService:
  platform: local
"""


@pytest.fixture
def config() -> str:
    return CONFIG
