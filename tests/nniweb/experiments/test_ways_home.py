"""A launch asks for an address of the server only where trials must call one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nniweb.experiments import launching
from nniweb.experiments.config import parse_experiment_config
from nniweb.experiments.intents import Refused
from nniweb.experiments.job_forms import keeper_access
from nniweb.experiments.models import Attempt, Cluster
from trainingservice.platforms import load_platform


def settings_of(folder: Path, **more: Any):
    return parse_experiment_config({
        "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}}, "trialCommand": "true", "trialConcurrency": 1,
        "tuner": {"name": "Random"}, "trainingService": {"platform": "kubernetes", **more}}, folder).settings


def test_pods_that_call_home_need_an_address(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="NNIWEB_PUBLIC_URL"):
        launching._way_home(load_platform("kubernetes"), settings_of(tmp_path), None)
    launching._way_home(load_platform("kubernetes"), settings_of(tmp_path, nniManagerIp="10.0.0.1"), None)


def test_pods_whose_logs_are_read_need_none(tmp_path: Path) -> None:
    launching._way_home(load_platform("kubernetes"), settings_of(tmp_path, wayHome="log"), None)


def test_keepers_are_given_the_authority_behind_the_servers_certificate(
        make_attempt: Callable[..., Attempt], settings: Any) -> None:
    experiment = make_attempt().trial.experiment
    settings.PUBLIC_URL, settings.CA_FILE = "https://nni.example.org", Path("/etc/our-authority.pem")
    for platform in ("local", "kubernetes"):
        access = keeper_access(experiment, load_platform(platform), "secret")
        assert (access.urls[-1], access.ca_file) == ("https://nni.example.org", Path("/etc/our-authority.pem"))
    settings.CA_FILE = None
    assert keeper_access(experiment, load_platform("kubernetes"), "secret").ca_file is None


def test_what_a_cluster_of_the_server_says_counts(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, wayHome="log")
    with pytest.raises(Refused):
        launching._way_home(load_platform("kubernetes"), settings, Cluster(platform="kubernetes", settings={}))
    launching._way_home(load_platform("kubernetes"), settings_of(tmp_path),
                        Cluster(platform="kubernetes", settings={"wayHome": "log"}))


def test_members_may_not_use_the_servers_access_to_kubernetes(tmp_path: Path) -> None:
    section = settings_of(tmp_path).training_service
    assert section is not None
    assert "Kubernetes" in section.settings.borrowed_from_the_server()
