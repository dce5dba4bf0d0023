"""Rows that many tests begin with, and people: Ada the superuser, Rita the administrator by role, Vera a viewer."""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.utils import timezone
from rest_framework.test import APIClient

from nniweb.experiments.models import ApiToken, Attempt, Cluster, Experiment, Trial, TrialParameters, User
from nniweb.experiments.models.account import Role, Scope, hash_of
from nniweb.experiments.sql import database_health
from nniweb.tuning.process import tuner_child
from tests.forking.tuners import start_or_fork
from tests.nniweb.migrated_once import django_db_modify_db_settings, django_db_setup
from tests.patient_looks import patient_looks
from tests.quick_flush import quick_flush

__all__ = ["django_db_modify_db_settings", "django_db_setup", "patient_looks", "quick_flush"]


@pytest.fixture(autouse=True)
def no_trouble_of_other_tests() -> None:
    """What this process was refused in an earlier test says nothing of this one."""
    database_health.note_written()


@pytest.fixture(scope="session", autouse=True)
def forked_tuners() -> Iterator[None]:
    """Tuner processes are forked from one that has loaded what they need."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tuner_child, "start_process", functools.partial(start_or_fork, tuner_child.start_process))
        yield


@pytest.fixture
def tuners_by_their_command(monkeypatch: pytest.MonkeyPatch, forked_tuners: None) -> None:
    """For tests of the start: the command is run by a new interpreter."""
    started: functools.partial[Any] = tuner_child.start_process  # type: ignore[assignment]
    monkeypatch.setattr(tuner_child, "start_process", started.args[0])


@pytest.fixture
def admin(db: None) -> User:
    return User.objects.create_superuser("ada", role=Role.ADMIN)


@pytest.fixture
def rita(db: None) -> User:
    """No superuser, no staff."""
    return User.objects.create_user("rita", role=Role.ADMIN)


@pytest.fixture
def vision(db: None) -> Group:
    return Group.objects.create(name="vision")


@pytest.fixture
def vera(vision: Group) -> User:
    user = User.objects.create_user("vera", role=Role.VIEWER)
    user.groups.add(vision)
    return user


@pytest.fixture
def with_token() -> Callable[..., APIClient]:
    """A client with a new token of this person."""

    def with_token(user: User, scope: Scope = Scope.ADMIN, **fields: Any) -> APIClient:
        client = APIClient()
        client.credentials(HTTP_AUTHORIZATION=f"Token {ApiToken.make(user, 'notebook', scope, **fields)}")
        return client

    return with_token


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
        experiment.save(update_fields=["next_sequence_id"])
        TrialParameters.objects.create(trial=trial, parameter_id=trial.ask_number, value={"x": 0.5})
        return Attempt.objects.create(trial=trial, cluster=experiment.cluster, job_name=trial.public_id,
                                      created_at=timezone.now(), stage=Attempt.Stage.SUBMITTED,
                                      token_hashes=[hash_of("token")])

    return make
