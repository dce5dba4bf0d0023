"""The process that stands for an experiment on a port for NNI's clients, and its entry in NNI's registry."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nniweb.experiments.models import Experiment
from nniweb.nniapi.stand_in import StandIn

PORT, OLD_PORT = 8081, 8082


@pytest.fixture
def experiment(make_experiment: Any) -> Experiment:
    return make_experiment()


@pytest.fixture
def stand_in(experiment: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    """Begun for a running experiment; looks only when it is told to."""
    monkeypatch.setenv("HOME", str(tmp_path))
    made = StandIn(experiment.public_id, PORT, OLD_PORT)
    made.begin()
    yield made
    made.close()
    assert experiment.public_id not in registry(tmp_path)


def registry(home: Path) -> dict[str, Any]:
    return json.loads((home / "nni-experiments" / ".experiment").read_text())


def becomes(experiment: Experiment, stand_in: StandIn, status: str) -> None:
    Experiment.objects.filter(pk=experiment.pk).update(status=status)
    stand_in.look()


def test_it_ends_when_the_experiment_is_stopped_and_comes_back_when_it_goes_on(
    experiment: Experiment, stand_in: StandIn, tmp_path: Path
) -> None:
    first = stand_in.pid
    assert first is not None
    entry = registry(tmp_path)[experiment.public_id]
    assert (entry["status"], entry["pid"], entry["port"]) == ("RUNNING", first, PORT)
    becomes(experiment, stand_in, "STOPPING")
    assert stand_in.pid == first
    becomes(experiment, stand_in, "STOPPED")
    assert stand_in.pid is None
    with pytest.raises(ProcessLookupError):
        os.kill(first, 0)
    entry = registry(tmp_path)[experiment.public_id]
    assert (entry["status"], entry["pid"], entry["port"]) == ("STOPPED", None, PORT)
    becomes(experiment, stand_in, "RUNNING")
    assert stand_in.pid not in (None, first)
    entry = registry(tmp_path)[experiment.public_id]
    assert (entry["status"], entry["pid"]) == ("RUNNING", stand_in.pid)


def test_one_that_is_done_can_be_looked_at_until_a_client_stops_it(
    experiment: Experiment, stand_in: StandIn, tmp_path: Path
) -> None:
    becomes(experiment, stand_in, "DONE")
    assert stand_in.pid is not None
    assert registry(tmp_path)[experiment.public_id]["status"] == "DONE"
    stand_in.end_with_experiment()
    becomes(experiment, stand_in, "DONE")
    assert stand_in.pid is None
    assert registry(tmp_path)[experiment.public_id]["status"] == "STOPPED"
    becomes(experiment, stand_in, "DONE")
    assert stand_in.pid is None
    becomes(experiment, stand_in, "RUNNING")
    assert stand_in.pid is not None


def test_a_client_that_waits_for_the_end_gets_it_also_when_the_experiment_goes_on_at_once(
    experiment: Experiment, stand_in: StandIn
) -> None:
    first = stand_in.pid
    stand_in.end_with_experiment()
    becomes(experiment, stand_in, "STOPPING")
    assert stand_in.pid == first
    becomes(experiment, stand_in, "RUNNING")  # stopped and resumed between two looks
    assert stand_in.pid not in (None, first)


def test_an_experiment_that_was_stopped_before_can_be_looked_at(
    experiment: Experiment, stand_in: StandIn, tmp_path: Path
) -> None:
    stand_in.close()
    Experiment.objects.update(status="STOPPED")
    later = StandIn(experiment.public_id, PORT, OLD_PORT)
    later.begin()
    later.look()
    try:
        assert later.pid is not None
        assert registry(tmp_path)[experiment.public_id]["pid"] == later.pid
    finally:
        later.close()


def test_its_end_by_nnictl_stops_the_experiment(experiment: Experiment, stand_in: StandIn) -> None:
    pid = stand_in.pid
    assert pid is not None
    os.kill(pid, signal.SIGTERM)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    stand_in.look()
    experiment.refresh_from_db()
    assert (experiment.status, experiment.target) == ("STOPPING", "STOP")
    assert stand_in.pid is None
    becomes(experiment, stand_in, "STOPPED")
    assert stand_in.pid is None


def test_a_deleted_experiment_has_none(experiment: Experiment, stand_in: StandIn, tmp_path: Path) -> None:
    Experiment.objects.update(status="STOPPED", deleted_at=experiment.created_at)
    stand_in.look()
    assert stand_in.pid is None
    assert registry(tmp_path) == {}
