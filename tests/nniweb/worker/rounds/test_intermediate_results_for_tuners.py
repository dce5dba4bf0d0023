"""``includeIntermediateResults``: what the tuner hears of trials that the assessor stopped early."""

from pathlib import Path
from typing import Any

import pytest

from nniweb.experiments.lifecycle.tuner_events import tuner_history
from nniweb.experiments.models import Experiment, Trial
from tests.nniweb.worker.conftest import Rig, report

ASSESSOR = {"name": "Medianstop", "class_args": {}}
TUNER = """
from nni.tuner import Tuner

class Mine(Tuner):
    def update_search_space(self, search_space):
        pass
    def generate_parameters(self, parameter_id, **kwargs):
        return {"x": parameter_id}
    def receive_trial_result(self, parameter_id, parameters, value, **kwargs):
        with open(__file__ + ".heard", "a") as file:
            print(repr(value), file=file)
"""


def one_stopped_early(rig: Rig, experiment: Experiment, *, final: bool = False) -> Trial:
    """Of two trials the assessor gives the second one up, after results of 0.1 and 0.2."""
    good, bad = rig.submitted(experiment, 2)
    report(good, 0.9, 0.9, 0.9, 0.9)
    rig.until(lambda: Trial.objects.get(pk=good.pk).taught)
    report(bad, 0.1, 0.2, end=False)
    rig.until(lambda: Trial.objects.get(pk=bad.pk).target == "EARLY_STOPPED")
    # a keeper's entries have numbers: those that were sent before are passed over
    report(bad, 0.1, 0.2, *([0.3] if final else []), exit_code=143, reason="stopped", final=final)
    rig.until(lambda: Trial.objects.get(pk=bad.pk).taught)
    bad.refresh_from_db()
    assert bad.status == "EARLY_STOPPED"
    return bad


def heard(experiment: Experiment, name: str = "value") -> list[Any]:
    return [event[name] for event in tuner_history(experiment) if event["event"] == "tell"]


@pytest.mark.parametrize(("more", "expected"), [({"include_intermediate_results": True}, [0.9, 0.2]),
                                                ({}, [0.9, None])])
def test_the_last_one_is_told_where_the_file_wants_it(rig: Rig, more: dict[str, bool], expected: list[float]) -> None:
    experiment = rig.experiment(trial_concurrency=2, max_trial_number=2, optimize_mode="maximize", assessor=ASSESSOR,
                                tuner={"name": "Random", "class_args": {}, **more})
    bad = one_stopped_early(rig, experiment)
    assert heard(experiment) == expected
    assert bad.final_number is None, "it is no result of the trial"


def test_a_final_result_goes_before_it(rig: Rig) -> None:
    experiment = rig.experiment(trial_concurrency=2, max_trial_number=2, optimize_mode="maximize", assessor=ASSESSOR,
                                tuner={"name": "Random", "class_args": {}, "include_intermediate_results": True})
    one_stopped_early(rig, experiment, final=True)
    assert heard(experiment) == [0.9, 0.3]


def test_with_several_objectives_it_stays_off_the_front(rig: Rig) -> None:
    experiment = rig.experiment(
        trial_concurrency=2, max_trial_number=2, optimize_mode="maximize", assessor=ASSESSOR,
        objectives=[{"metric": "default", "optimize_mode": "maximize"},
                    {"metric": "size", "optimize_mode": "minimize"}],
        tuner={"name": "TPE", "class_args": {}, "include_intermediate_results": True})
    bad = one_stopped_early(rig, experiment)
    assert not bad.on_front
    assert heard(experiment) == [0.9, 0.2]


def test_a_tuner_of_ones_own_receives_it_as_a_result(rig: Rig, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(TUNER)
    experiment = rig.experiment(
        trial_concurrency=2, max_trial_number=2, optimize_mode="maximize", assessor=ASSESSOR,
        tuner={"class_name": "mine.Mine", "code_directory": str(tmp_path), "class_args": {},
               "include_intermediate_results": True})
    one_stopped_early(rig, experiment)
    file = tmp_path / "mine.py.heard"
    rig.until(lambda: file.exists() and len(file.read_text().splitlines()) == 2)
    assert file.read_text().split() == ["0.9", "0.2"]
