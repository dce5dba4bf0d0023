"""The server is killed while trials run, and the next one finds them again: on each platform in its own way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.end_to_end.kill_table.witnessed_experiment import WitnessedExperiment
from tests.end_to_end.platforms.platform_doubles import (
    Platform,
    azureml,
    dlts,
    kubernetes,
    openpai,
    openpai_without_storage,
    ray,
    remote,
    slurm,
)
from tests.end_to_end.running_server import RunningServer
from tests.fakes.unkind_http_proxy import UnkindHttpProxy
from trainingservice.testing.processes import is_alive


@pytest.fixture
def ends(tmp_path: Path) -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.mark.timeout(400)
@pytest.mark.slow
@pytest.mark.parametrize("platform",
                         [remote, kubernetes, openpai, openpai_without_storage, dlts, azureml, ray, slurm],
                         ids=lambda make: make.__name__)
def test_running_trials_are_found_again_after_the_server_was_killed(
        make_server: Callable[..., RunningServer], tmp_path: Path, ends: ExitStack,
        platform: Callable[[Path, ExitStack], Platform]) -> None:
    section, env = platform(tmp_path / "platform", ends)
    way = ends.enter_context(UnkindHttpProxy(lambda: server.url))  # of keepers to the server
    server = make_server({**env, "NNIWEB_PUBLIC_URL": way.url}).start()
    go = tmp_path / "go"
    experiment = WitnessedExperiment(server, tmp_path / "experiment", trials=3, concurrency=2, steps=20, pause=0.1,
                                     go=go, platform=section).launch()
    server.wait_until(lambda: len(experiment.running()) == 2, 120, "two trials run")
    server.kill()
    server.start()
    server.wait_until(lambda: [row["intermediate_count"] for row in experiment.running()] == [20, 20], 120,
                      "all that both reported, then and meanwhile, is there")
    # found is what can be ended although its keeper hears nothing from the server: the platform has to know it
    victim = experiment.running()[0]
    target, way.target = way.target, lambda: "http://127.0.0.1:9"  # nobody listens there
    server.post(f"trials/{victim['id']}/actions/cancel/")
    server.wait_until(lambda: not is_alive(experiment.pid_of(victim)), 120, "its platform ends it")
    way.target = target
    server.wait_until(lambda: experiment.rows()[victim["sequence_id"]]["status"] == "USER_CANCELED", 120,
                      "its end is known")
    go.touch()
    experiment.nothing_is_lost(ended={victim["sequence_id"]: "USER_CANCELED"}, patience=240)
