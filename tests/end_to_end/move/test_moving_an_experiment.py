"""The same experiment elsewhere: only its ``trainingService`` section is changed, and nothing else may change."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.end_to_end.move.platforms import PLATFORMS, Place
from tests.end_to_end.running_server import RunningServer

#: The first test waits for all the experiments of this file.
pytestmark = [pytest.mark.timeout(600), pytest.mark.slow]

EXPERIMENT = Path(__file__).parent / "experiment"
#: With one trial at a time each proposal of TPE follows from the results before it.
TUNERS: dict[str, dict[str, Any]] = {
    "random": {"name": "Random", "classArgs": {"seed": 42}},
    "tpe": {"name": "TPE", "classArgs": {"seed": 42, "optimize_mode": "minimize", "tpe_args": {"n_startup_jobs": 4}}},
}
REFERENCE = next(iter(PLATFORMS))

History = list[dict[str, Any]]


@pytest.fixture(scope="module", params=["random", "tpe"])
def tuner(request: pytest.FixtureRequest) -> str:
    """TPE needs what Random needs, and that results come back in order."""
    return str(request.param)


@pytest.fixture(scope="module")
def histories(tuner: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, History | str]]:
    """What became of the experiment on each platform, or why it cannot be brought up here. All run side by side."""
    folder = tmp_path_factory.mktemp("move")
    config = yaml.safe_load((EXPERIMENT / "config.yml").read_text())
    with ExitStack() as stack:
        places: dict[str, Place] = {}
        missing: dict[str, str] = {}
        for name, bring_up in PLATFORMS.items():
            (folder / name).mkdir()
            try:
                places[name] = stack.enter_context(bring_up(folder / name))
            except pytest.skip.Exception as reason:
                missing[name] = str(reason)
        server = RunningServer(folder / "data", {key: value for place in places.values()
                                                 for key, value in place.env.items()})
        stack.callback(server.close)
        server.start()
        ids = {platform: server.launch(
                   {**config, "tuner": TUNERS[tuner], "trainingService": dict(place.section)}, EXPERIMENT)
               for platform, place in places.items()}
        for experiment in ids.values():
            server.wait_for_experiment(experiment, patience=400)
        yield {**missing, **{key: history(server, experiment) for key, experiment in ids.items()}}


def history(server: RunningServer, experiment: str) -> History:
    """Of each trial what must be the same everywhere: not ids, times, and where it ran."""
    trials = server.get_all(f"experiments/{experiment}/trials/")
    return [{
        **{name: trial[name] for name in ("sequence_id", "status", "message", "parameters", "final_value",
                                          "final_number", "exit_code")},
        "metrics": [{name: metric[name] for name in ("kind", "sequence", "value", "number", "parameter_id")}
                    for metric in server.get_all(f"trials/{trial['id']}/metrics/")],
        "stdout": server.request("GET", f"trials/{trial['id']}/output/", params={"stream": "stdout"}).text,
    } for trial in trials]


def test_the_experiment_does_its_work(histories: dict[str, History | str]) -> None:
    trials = histories[REFERENCE]
    assert isinstance(trials, list)
    assert [trial["sequence_id"] for trial in trials] == list(range(8))
    for trial in trials:
        assert trial["status"] == "SUCCEEDED", trial["message"]
        assert [metric["kind"] for metric in trial["metrics"]] == ["PERIODICAL"] * 5 + ["FINAL"]
        assert trial["metrics"][3]["value"] == "NaN"
        final = json.loads(trial["final_value"])
        assert final == {"default": trial["final_number"], "sequence": trial["sequence_id"]}
        assert "done" in trial["stdout"]
    assert len({json.dumps(trial["parameters"]) for trial in trials}) == 8


@pytest.mark.parametrize("platform", [name for name in PLATFORMS if name != REFERENCE])
def test_an_experiment_is_the_same_elsewhere(histories: dict[str, History | str], platform: str) -> None:
    found = histories[platform]
    if isinstance(found, str):
        pytest.skip(found)
    assert found == histories[REFERENCE]
