"""Running trials are given further parameter sets on each platform that can, also over a kill of the server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.end_to_end.platforms.platform_doubles import Platform, dlts, openpai, openpai_without_storage, remote, slurm
from tests.end_to_end.running_server import RunningServer
from tests.end_to_end.witnessed_parameter_sets import nothing_is_lost, witnessed
from tests.fakes.unkind_http_proxy import UnkindHttpProxy

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture
def ends() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def given(server: RunningServer, experiment: str) -> int:
    return sum(trial["parameter_set_count"] for trial in server.get_all(f"experiments/{experiment}/trials/"))


@pytest.mark.parametrize("has_way", [True, False], ids=["keepers call", "files carry"])
@pytest.mark.parametrize("platform", [remote, openpai, dlts, slurm], ids=lambda make: make.__name__)
def test_no_parameter_set_is_lost_or_given_twice(
        make_server: Callable[..., RunningServer], tmp_path: Path, ends: ExitStack,
        platform: Callable[[Path, ExitStack], Platform], has_way: bool) -> None:
    section, env = platform(tmp_path / "platform", ends)
    way = ends.enter_context(UnkindHttpProxy(lambda: server.url))  # of keepers to the server
    server = make_server({**env, "NNIWEB_PUBLIC_URL": way.url}).start()
    if not has_way:
        way.target = lambda: "http://127.0.0.1:9"  # nobody listens there: the platform carries files
        if platform in (openpai, dlts):
            section["channel"] = "storage"
    (tmp_path / "experiment").mkdir()
    sets = 6 if has_way else 4
    experiment = witnessed(server, tmp_path / "experiment", sets, trials=1, platform=section)
    server.wait_until(lambda: given(server, experiment) > 2, 240, "the trial was given further sets")
    server.kill()
    server.start()
    nothing_is_lost(server, experiment, tmp_path / "experiment", sets)


def test_on_openpai_without_storage_it_is_refused_before_the_launch(
        make_server: Callable[..., RunningServer], tmp_path: Path, ends: ExitStack) -> None:
    section, env = openpai_without_storage(tmp_path / "platform", ends)
    server = make_server({**env, "NNIWEB_PUBLIC_URL": "http://127.0.0.1:9"}).start()
    (tmp_path / "code").mkdir()
    refused = server.request("POST", "experiments/", json={"base_directory": str(tmp_path / "code"), "config": {
        "trialCommand": "true", "trialConcurrency": 1, "multiPhase": True, "tuner": {"name": "Random"},
        "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}}, "trainingService": section}})
    assert refused.status_code == 400
    assert [(error["field"], error["reason"]["code"]) for error in refused.json()["errors"]] == [
        ("multiPhase", "one_set_only")]
    assert server.get("experiments/")["results"] == []
