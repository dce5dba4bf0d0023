"""Somebody of each kind, and one of each thing to ask for."""

from pathlib import Path
from typing import Any

import pytest

from nniweb.experiments.models import User
from nniweb.tensorboard import runner
from tests.nniweb.access.roles import World, make_world


@pytest.fixture
def world(make_experiment: Any, make_attempt: Any, admin: User, settings: Any, tmp_path: Path,
          monkeypatch: pytest.MonkeyPatch) -> World:
    settings.DATA_FOLDER = tmp_path
    monkeypatch.setattr(runner, "_run_unless_it_runs", lambda board, folder: None)  # its page would start it
    experiment = make_experiment()
    return make_world(experiment, make_attempt(experiment), admin)
