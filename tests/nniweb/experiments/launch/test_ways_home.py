"""A launch asks for an address of the server only where trials must call one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nniweb.experiments.clusters import addresses
from nniweb.experiments.config import parse_experiment_config
from nniweb.experiments.config.errors import ConfigInvalid
from nniweb.experiments.errors import Refused
from nniweb.experiments.launch import launch_checks, launching
from nniweb.experiments.launch.job_forms import keeper_access
from nniweb.experiments.models import Attempt, Cluster, User
from nniweb.experiments.models.account import Role
from trainingservice.platforms import load_platform


def settings_of(folder: Path, **more: Any):
    return parse_experiment_config({
        "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}}, "trialCommand": "true", "trialConcurrency": 1,
        "tuner": {"name": "Random"}, "trainingService": {"platform": "kubernetes", **more}}, folder).settings


def refused_fields(check: Callable[..., None], *given: Any) -> list[str]:
    """The fields for which ``check`` refuses what is given; none where it accepts it."""
    try:
        check(*given)
    except Refused as refusal:
        return [field for field, _ in refusal.errors]
    return []


def test_pods_that_call_home_need_an_address(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="NNIWEB_PUBLIC_URL"):
        launch_checks.check_way_home(load_platform("kubernetes"), settings_of(tmp_path), None)
    settings = settings_of(tmp_path, nniManagerIp="10.0.0.1")
    assert refused_fields(launch_checks.check_way_home, load_platform("kubernetes"), settings, None) == []


@pytest.mark.parametrize(("given", "told"), [
    ("10.0.0.1", "http://10.0.0.1:8123"), ("nni.example.org", "http://nni.example.org:8123"),
    ("fd00::5", "http://[fd00::5]:8123"), ("[fd00::5]", "http://[fd00::5]:8123"),
    ("[fd00::5]:99", "http://[fd00::5]:99"), ("10.0.0.1:99", "http://10.0.0.1:99"),
    ("https://nni.example.org/", "https://nni.example.org")])
def test_an_address_without_a_port_means_that_of_the_server_as_it_runs(tmp_path: Path, settings: Any, given: str,
                                                                       told: str) -> None:
    settings.DATA_FOLDER, settings.PORT = tmp_path, 9999
    (tmp_path / "server.json").write_text(json.dumps({"urls": ["http://127.0.0.1:8123"]}))
    assert addresses.keeper_urls(given) == (told,)


def test_without_a_server_that_ever_ran_the_port_of_the_settings_counts(tmp_path: Path, settings: Any) -> None:
    settings.DATA_FOLDER, settings.PORT = tmp_path, 9999
    assert addresses.keeper_urls("10.0.0.1") == ("http://10.0.0.1:9999",)


@pytest.mark.parametrize("given", ["two words", "http://", "ftp://nni.example.org", "10.0.0.1:notaport",
                                   "10.0.0.1:99999", "me@nni.example.org", "nni.example.org/path", "[fd00::5"])
def test_what_is_no_address_is_refused_and_named(tmp_path: Path, given: str) -> None:
    with pytest.raises(ConfigInvalid, match="is not an address") as refusal:
        settings_of(tmp_path, nniManagerIp=given)
    assert [error.field for error in refusal.value.errors] == ["trainingService.nniManagerIp"]


@pytest.mark.parametrize(("more", "refused"), [({"wayHome": "log"}, []), ({}, ["nniManagerIp"])])
def test_pods_whose_logs_are_read_need_none(tmp_path: Path, more: dict[str, str], refused: list[str]) -> None:
    settings = settings_of(tmp_path, **more)
    assert refused_fields(launch_checks.check_way_home, load_platform("kubernetes"), settings, None) == refused


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
    called, read = (Cluster(platform="kubernetes", settings=settings) for settings in ({}, {"wayHome": "log"}))
    for settings in (settings_of(tmp_path, wayHome="log"), settings_of(tmp_path)):
        assert refused_fields(launch_checks.check_way_home, load_platform("kubernetes"), settings, called) == [
            "nniManagerIp"]
        assert refused_fields(launch_checks.check_way_home, load_platform("kubernetes"), settings, read) == []


def test_members_may_not_use_the_servers_access_to_kubernetes(tmp_path: Path) -> None:
    section = settings_of(tmp_path).training_service
    assert section is not None
    assert "Kubernetes" in section.settings.borrowed_from_the_server()


@pytest.mark.parametrize("storage", [None, {"storageType": "nfs", "server": "files", "path": "/nni"}])
def test_code_for_pods_that_cannot_call_the_server_needs_a_storage_that_is_mounted_here(db, tmp_path: Path,
                                                                                       storage) -> None:
    platform = {"platform": "kubernetes", "wayHome": "log", **({"storage": storage} if storage else {})}
    parsed = parse_experiment_config({
        "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}}, "trialCommand": "true", "trialConcurrency": 1,
        "tuner": {"name": "Random"}, "trainingService": platform}, tmp_path)
    owner = User.objects.create_superuser("grace", role=Role.ADMIN)
    with pytest.raises(Refused, match="localMountPoint") as refusal:
        launching.check(parsed, owner)
    assert [field for field, _ in refusal.value.errors] == ["trialCodeDirectory"]
    reachable = {"storageType": "nfs", "server": "files", "path": "/nni", "localMountPoint": str(tmp_path)}
    with_storage = settings_of(tmp_path, wayHome="log", storage=reachable)
    assert refused_fields(launch_checks.check_way_for_code, with_storage, None, None) == []
    without_code = settings_of(tmp_path, wayHome="log").model_copy(update={"trial_code_directory": None})
    assert refused_fields(launch_checks.check_way_for_code, without_code, None, None) == []
