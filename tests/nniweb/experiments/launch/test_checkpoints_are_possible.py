"""Checkpoints that a config asks for are refused where no keeper could send them; which the job is told of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nniweb.experiments.checkpoints.checkpoint_settings import checkpoints_of
from nniweb.experiments.config import parse_experiment_config
from nniweb.experiments.config.resolved import resolved_document
from nniweb.experiments.errors import Refused
from nniweb.experiments.launch.launch_checks import check_checkpoints
from nniweb.experiments.launch.launch_cluster import options_of
from nniweb.experiments.models import Experiment
from trainingservice.platforms import load_platform


def settings_of(folder: Path, section: dict[str, Any], **more: Any) -> Any:
    return parse_experiment_config({
        "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}}, "trialCommand": "true", "trialConcurrency": 1,
        "tuner": {"name": "Random"}, "trainingService": section, **more}, folder).settings


def refused(folder: Path, section: dict[str, Any], asked: Any, **more: Any) -> str:
    settings = settings_of(folder, section, checkpoints=asked, **more)
    platform = load_platform(section["platform"])
    try:
        check_checkpoints(platform, settings, None, options_of(settings, platform))
    except Refused as refusal:
        return " ".join(f"{field}: {message}" for field, message in refusal.errors)
    return ""


def test_where_keepers_call_the_server_they_are_possible(tmp_path: Path) -> None:
    assert refused(tmp_path, {"platform": "local"}, True) == ""
    assert refused(tmp_path, {"platform": "kubernetes"}, {"keep": 3}, nniManagerIp="10.0.0.1") == ""


@pytest.mark.parametrize("section", [{"platform": "kubernetes", "wayHome": "log"}], ids=["by logs alone"])
def test_where_keepers_do_not_call_they_are_refused_if_asked_for(tmp_path: Path, section: dict[str, Any]) -> None:
    assert refused(tmp_path, section, True).startswith("checkpoints: On kubernetes the keepers of trials do not call")
    assert refused(tmp_path, section, False) == refused(tmp_path, section, None) == ""


@pytest.mark.parametrize(("asked", "resolved"), [
    (None, None), (True, True), (False, False), ({}, True), ({"keep": 2}, True),
    ({"keep": 5, "keepBest": True}, {"keep": 5, "keepBest": True}),
    ({"maxSize": "10gb", "rate": "50 mb"}, {"maxSize": 10240, "rate": 50})])
def test_the_section_means_the_same_however_it_is_written(tmp_path: Path, asked: Any, resolved: Any) -> None:
    settings = settings_of(tmp_path, {"platform": "local"}, checkpoints=asked)
    document = resolved_document(settings)
    assert document.get("checkpoints") == resolved
    assert parse_experiment_config(document, tmp_path).settings.checkpoints == settings.checkpoints


def test_sizes_are_given_to_keepers_in_bytes() -> None:
    settings = checkpoints_of(Experiment(config={"checkpoints": {"maxSize": "3gb", "rate": "50mb"}}))
    assert settings is not None
    assert (settings.max_bytes, settings.bytes_per_second) == (3 * 2**30, 50 * 2**20)
    assert checkpoints_of(Experiment(config={"checkpoints": False})) is None
    default = checkpoints_of(Experiment(config={}))
    assert default is not None
    assert (default.keep, default.keep_best, default.max_bytes, default.bytes_per_second) == (2, False, 2**31, None)
