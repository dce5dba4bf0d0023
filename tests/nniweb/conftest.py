"""Rows that many tests begin with."""

from collections.abc import Callable
from typing import Any

import pytest
from django.utils import timezone

from nniweb.experiments import room_to_write
from nniweb.experiments.models import Attempt, Cluster, Experiment, Trial, TrialParameters, User
from nniweb.experiments.models.account import Role, hash_of


@pytest.fixture(autouse=True)
def no_trouble_of_other_tests() -> None:
    """What this process was refused in an earlier test says nothing of this one."""
    room_to_write.note_written()


@pytest.fixture
def admin(db: None) -> User:
    return User.objects.create_superuser("ada", role=Role.ADMIN)


@pytest.fixture
def make_experiment(admin: User) -> Callable[..., Experiment]:
    """Makes an experiment on a cluster named ``local`` that no worker drives."""

    def make(**fields: Any) -> Experiment:
        cluster, _ = Cluster.objects.get_or_create(name="local", platform="local")
        return Experiment.objects.create(**{
            "name": "quadratic", "owner": admin, "cluster": cluster, "status": "RUNNING", "seed": 1,
            "search_space": {"x": {"_type": "uniform", "_value": [0, 1]}}, "tuner": {"name": "Random"},
            "optimize_mode": "minimize", "trial_command": "true", "trial_concurrency": 2, "max_trial_number": 10,
            "created_at": timezone.now(), **fields})

    return make


@pytest.fixture
def make_attempt(make_experiment: Callable[..., Experiment]) -> Callable[..., Attempt]:
    """Makes a submitted attempt of a new trial; its token is ``token``."""

    def make(experiment: Experiment | None = None, **trial_fields: Any) -> Attempt:
        experiment = experiment or make_experiment()
        experiment.refresh_from_db()
        trial = Trial.objects.create(experiment=experiment, sequence_id=experiment.next_sequence_id,
                                     created_at=timezone.now(), **trial_fields)
        experiment.next_sequence_id += 1
        experiment.save()
        TrialParameters.objects.create(trial=trial, parameter_id=trial.ask_number, value={"x": 0.5})
        return Attempt.objects.create(trial=trial, job_name=trial.public_id, created_at=timezone.now(),
                                      stage=Attempt.Stage.SUBMITTED, token_hashes=[hash_of("token")])

    return make
