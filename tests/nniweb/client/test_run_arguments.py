"""What ``run`` makes of its arguments, what it asks after Ctrl-C, and what a notebook shows."""

import io
import sys
from typing import Any

import pytest

from nniweb.client import ClientError, running
from nniweb.client.notebook import as_html, is_in_notebook

SPACE = {"x": {"_type": "uniform", "_value": [0, 1]}}
NOTHING_GIVEN: dict[str, Any] = {"space": SPACE, "platform": None, "cluster": None, "trials": 20, "concurrency": 1,
                                 "tuner": None, "optimize": "maximize", "name": None, "config": None}


def config(**given: Any) -> dict[str, Any]:
    return running._config(**{**NOTHING_GIVEN, **given})


def test_without_more_it_is_a_local_search_by_auto() -> None:
    assert config() == {"searchSpace": SPACE, "maxTrialNumber": 20, "trialConcurrency": 1,
                        "trainingService": {"platform": "local"},
                        "tuner": {"name": "Auto", "classArgs": {"optimize_mode": "maximize"}}}


def test_each_argument_has_its_field_and_config_adds_others() -> None:
    found = config(platform={"platform": "remote", "machineList": []}, trials=None, concurrency=3, optimize="minimize",
                   tuner="TPE", name="mice", config={"maxExperimentDuration": "2h"})
    assert found == {"searchSpace": SPACE, "trialConcurrency": 3, "experimentName": "mice",
                     "trainingService": {"platform": "remote", "machineList": []}, "maxExperimentDuration": "2h",
                     "tuner": {"name": "TPE", "classArgs": {"optimize_mode": "minimize"}}}
    assert config(cluster="gpus")["cluster"] == "gpus"
    assert "trainingService" not in config(cluster="gpus")
    assert config(tuner={"className": "mine.Tuner"})["tuner"] == {"className": "mine.Tuner"}
    assert "tuner" not in config(config={"objectives": [{"metric": "loss", "optimizeMode": "minimize"}]})
    assert "trainingService" not in config(config={"clusters": [{"name": "a"}]})


@pytest.mark.parametrize(("given", "words"), [
    ({"optimize": "max"}, "optimize must be \"maximize\" or \"minimize\", not \"max\""),
    ({"space": "a.json"}, "space must be a mapping such as .*, not \"a.json\". A command may have it in a file"),
    ({"space": [SPACE]}, "space must be a mapping"),
    ({"space": {1: SPACE["x"]}}, "space: the name of a parameter must be text, not 1"),
    ({"space": {"x": {"_type": "choice", "_value": {1, 2}}}}, "space: Object of type set is not JSON"),
    ({"config": {"tuner": {"name": object}}}, "config: Object of type type is not JSON"),
    ({"platform": "local", "cluster": "gpus"}, "platform and cluster cannot be given together"),
    ({"config": {"max_trial_number": 3}}, "maxTrialNumber is given by the argument trials"),
    ({"config": {"trialCommand": "true"}}, "trialCommand is given by the argument function_or_command"),
    ({"tuner": "TPE", "config": {"tuner": {"name": "Random"}}}, "tuner is given by the argument tuner"),
    ({"platform": "local", "config": {"training_service": {}}}, "trainingService is given by the argument platform"),
])
def test_what_is_said_twice_is_refused_with_its_name(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ClientError, match=words):
        config(**given)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Steered:
    url = "http://127.0.0.1:1/experiments/abc/"

    def __init__(self) -> None:
        self.was_stopped = False

    def stop(self) -> None:
        self.was_stopped = True


@pytest.mark.parametrize(("typed", "goes_on", "is_stopped"), [
    ("s\n", True, True), ("g\n", True, False), ("l\n", False, False), ("what\n\ng\n", True, False), ("", False, False)])
def test_ctrl_c_asks_on_a_terminal(typed: str, goes_on: bool, is_stopped: bool,
                                   monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(typed))
    out, steered = Terminal(), Steered()
    assert running._asked_to_go_on(steered, out) is goes_on  # type: ignore[arg-type]  # what it uses of one
    assert steered.was_stopped is is_stopped
    assert "Stop the experiment (s), leave it running (l), or go on following it (g)?" in out.getvalue()
    assert ("The experiment continues: http://127.0.0.1:1/experiments/abc/" in out.getvalue()) is not goes_on


def test_nobody_is_asked_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("s\n"))
    out, steered = io.StringIO(), Steered()
    assert not running._asked_to_go_on(steered, out)  # type: ignore[arg-type]  # what it uses of one
    assert out.getvalue() == "\nThe experiment continues: http://127.0.0.1:1/experiments/abc/\n"
    assert not steered.was_stopped


class Looked:
    """An experiment that has ended, as a follower sees it."""

    id, name, url, status = "abc", "search", "http://127.0.0.1:1/experiments/abc/", "DONE"
    document: dict[str, Any] = {"revision": 1, "status": "DONE", "message": "", "outcome": "", "max_trial_number": 1,
                                "progress": {"fraction": 1.0, "ended": 1, "best_value": None, "best_trial_id": None,
                                             "eta": None, "trials": {"SUCCEEDED": 1}}}

    def refresh(self, patience: float) -> None:
        """It is as it was."""

    def best_trial(self) -> None:
        return None


def closed() -> io.StringIO:
    stream = io.StringIO()
    stream.close()
    return stream


class NobodyReads(io.StringIO):
    def write(self, text: str) -> int:
        raise BrokenPipeError


@pytest.mark.parametrize("stream", [None, closed(), NobodyReads()], ids=["none", "closed", "broken"])
def test_a_search_is_followed_to_its_end_whatever_became_of_the_output(
        stream: io.StringIO | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", stream)
    experiment: Any = Looked()
    assert running.follow(None, experiment) is experiment  # type: ignore[arg-type]  # the server is not asked


def test_the_table_of_a_notebook_escapes_what_people_wrote() -> None:
    assert not is_in_notebook()
    trials = [{"sequence_id": 1, "id": "t1", "status": "RUNNING", "final_number": None, "duration": 3.0,
               "parameters": {"x": "<b>"}, "message": ""},
              {"sequence_id": 0, "id": "t0", "status": "SUCCEEDED", "final_number": 0.5, "duration": 3.0,
               "parameters": {"x": 1}, "message": ""}]
    document = {"name": "<script>", "status": "RUNNING", "max_trial_number": 4, "progress": {
        "fraction": 0.25, "ended": 1, "best_value": 0.5, "best_trial_id": "t0", "eta": None,
        "trials": {"SUCCEEDED": 1, "RUNNING": 1, "FAILED": 0}}}
    page = as_html(document, "http://127.0.0.1:1/experiments/abc/", trials)
    assert "<script>" not in page
    assert "<b>" not in page
    assert "<progress max='1' value='0.2500'>" in page
    assert "1/4 ended (1 succeeded, 1 running)  best 0.5" in page
    assert page.index("<td>t1</td>") < page.index("<tr style='font-weight:bold'><td>0</td>")
    assert "<table>" not in as_html(document, "", [])
