"""A data folder of the test's own, an experiment of a member's, and event files as the package writes them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group

from nniweb.experiments.clusters.service_factory import state_folder
from nniweb.experiments.models import Attempt, Experiment, User
from nniweb.experiments.models.account import Role
from nniweb.tensorboard import runner


@pytest.fixture(autouse=True)
def data_folder(settings: Any, tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    settings.DATA_FOLDER = folder
    return folder


@pytest.fixture(autouse=True)
def nothing_is_started(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What would have been started: ids of TensorBoards."""
    started: list[str] = []
    monkeypatch.setattr(runner, "_run_unless_it_runs", lambda board, folder: started.append(board.public_id))
    return started


@pytest.fixture
def alice(vision: Group) -> User:
    user = User.objects.create_user("alice", role=Role.MEMBER)
    user.groups.add(vision)
    return user


@pytest.fixture
def charlie(db: None) -> User:
    return User.objects.create_user("charlie", role=Role.MEMBER)


@pytest.fixture
def experiment(make_experiment: Callable[..., Experiment], alice: User, vision: Group) -> Experiment:
    return make_experiment(owner=alice, group=vision)


@pytest.fixture
def output_of() -> Callable[[Attempt], Path]:
    """The output folder of an attempt of the local platform, made if need be."""
    def output_of(attempt: Attempt) -> Path:
        experiment = attempt.trial.experiment
        folder = state_folder(experiment.cluster) / "trials" / experiment.public_id / attempt.job_name / "nni"
        folder.mkdir(parents=True, exist_ok=True)
        return folder
    return output_of
