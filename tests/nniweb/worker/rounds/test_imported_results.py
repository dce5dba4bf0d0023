"""Results that people bring from elsewhere while an experiment goes on reach its tuner."""

import pytest

from nniweb.experiments.actions.imported_results import import_results
from nniweb.experiments.errors import Refused
from nniweb.experiments.models import ExperimentEvent, TunerEvent
from tests.nniweb.worker.conftest import report

LIST = {"all": {"_type": "choice", "_value": [{"x": number} for number in range(5)]}}
TUNER = """
from nni.tuner import Tuner

class Mine(Tuner):
    known = []
    def update_search_space(self, search_space):
        pass
    def generate_parameters(self, parameter_id, **kwargs):
        return {"known": list(self.known)}
    def receive_trial_result(self, parameter_id, parameters, value, **kwargs):
        pass
    def import_data(self, data):
        self.known += [[entry["parameter"], entry["value"]] for entry in data]
"""


def test_the_running_tuner_is_told_of_them(rig, tmp_path) -> None:
    (tmp_path / "mine.py").write_text(TUNER)
    experiment = rig.experiment(tuner={"class_name": "mine.Mine", "code_directory": str(tmp_path), "class_args": {}},
                                trial_concurrency=1)
    [first] = rig.submitted(experiment, 1)
    assert import_results(experiment, [{"parameter": {"x": 0.5}, "value": 3, "trialJobId": "aBcDe"},
                                       {"parameter": {"x": 0.25}, "value": '{"default": 0.75, "loss": 1}'}]) == 2
    report(first, 1.0)
    [_, second] = rig.submitted(experiment, 2)
    assert second.parameter_sets.get().value == {"known": [[{"x": 0.5}, 3.0], [{"x": 0.25}, 0.75]]}
    assert ExperimentEvent.objects.get(experiment=experiment, kind="imported").message.startswith("2 results")
    opened = rig.runner.work.tuners._opened[experiment.pk]
    rig.rounds()
    assert rig.runner.work.tuners._opened[experiment.pk] is opened  # it is made anew once, not in each round


def test_a_list_leaves_out_what_was_run_elsewhere(rig) -> None:
    experiment = rig.experiment(tuner={"name": "BatchTuner"}, search_space=LIST, trial_concurrency=1)
    [first] = rig.submitted(experiment, 1)
    import_results(experiment, [{"parameter": {"x": number}, "value": 1.0} for number in (1, 2, 3)])
    report(first, 1.0)
    assert [trial.parameter_sets.get().value for trial in rig.submitted(experiment, 2)] == [{"x": 0}, {"x": 4}]


@pytest.mark.parametrize(("fields", "words"), [
    ({"status": "DONE"}, "The experiment is DONE"), ({"status": "STOPPING"}, "The experiment is STOPPING"),
    ({"tuner": {"name": "Hyperband"}}, "Hyperband cannot use imported results"),
    ({"tuner": {"name": "PBT"}}, "PBT cannot use imported results"),
])
def test_it_is_refused_where_the_tuner_could_do_nothing_with_them(make_experiment, fields, words) -> None:
    experiment = make_experiment(**fields)
    with pytest.raises(Refused, match=words):
        import_results(experiment, [{"parameter": {"x": 1}, "value": 1}])
    assert not TunerEvent.objects.exists()


@pytest.mark.parametrize(("data", "field", "words"), [
    ({"parameter": {}}, "results", "Give a list"), ([], "results", "Give a list"),
    ([{"parameter": {}, "value": 0.5}, {"value": 1}], "results[1].parameter", "Must be an object"),
    ([{"parameter": {"x": 1}, "value": "NaN"}], "results[0].value", "Must be a finite number"),
    ([{"parameter": {"x": 1}, "value": {"loss": 1}}], "results[0].value", "whose default is one"),
    ([{"parameter": {"x": 1}, "value": True}], "results[0].value", "not true"),
    ([{"parameter": {}, "value": 1}] * 10_001, "results", "too many"),
])
def test_what_is_no_result_is_named(make_experiment, data, field, words) -> None:
    with pytest.raises(Refused) as caught:
        import_results(make_experiment(), data)
    [(where, message)] = caught.value.errors
    assert where == field
    assert words in message
    assert not TunerEvent.objects.exists()
