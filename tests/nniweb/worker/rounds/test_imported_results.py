"""Results that people bring from elsewhere reach the experiment's tuner."""

import io
import json
from datetime import UTC, datetime

import pytest

from nniweb.experiments.actions.change_and_undo import resume_with
from nniweb.experiments.actions.imported_results import import_results, imports_of
from nniweb.experiments.downloads.export import write_json
from nniweb.experiments.errors import Refused
from nniweb.experiments.models import Experiment, ExperimentEvent, TunerEvent
from nniweb.experiments.models.experiment import ExperimentStatus
from tests.nniweb.worker.conftest import report

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LIST = {"all": {"_type": "choice", "_value": [{"x": number} for number in range(5)]}}
TUNER = """
from nni.tuner import Tuner

class Mine(Tuner):
    made = 0
    def __init__(self):
        self.known = []
        Mine.made += 1
    def update_search_space(self, search_space):
        pass
    def generate_parameters(self, parameter_id, **kwargs):
        return {"known": list(self.known), "made": Mine.made}
    def receive_trial_result(self, parameter_id, parameters, value, **kwargs):
        pass
    def import_data(self, data):
        self.known.append([[entry["parameter"], entry["value"]] for entry in data])
"""


def test_the_running_tuner_is_told_of_them_in_one_call_as_they_are(rig, tmp_path) -> None:
    (tmp_path / "mine.py").write_text(TUNER)
    experiment = rig.experiment(tuner={"class_name": "mine.Mine", "code_directory": str(tmp_path), "class_args": {}},
                                trial_concurrency=1)
    [first] = rig.submitted(experiment, 1)
    opened = rig.runner.work.tuners._opened[experiment.pk]
    assert import_results(experiment, [{"parameter": {"x": 0.5}, "value": 3, "trialJobId": "aBcDe"},
                                       {"parameter": {"x": 0.25}, "value": '{"default": 0.75, "loss": 1}'}]) == 2
    import_results(experiment, [{"parameter": {"x": 0.1}, "value": {"default": 0.5, "loss": 2}}])
    report(first, 1.0)
    [_, second] = rig.submitted(experiment, 2)
    known = [[[{"x": 0.5}, 3.0], [{"x": 0.25}, {"default": 0.75, "loss": 1}]],
             [[{"x": 0.1}, {"default": 0.5, "loss": 2}]]]
    assert second.parameter_sets.get().value == {"known": known, "made": 1}
    assert ExperimentEvent.objects.filter(experiment=experiment, kind="imported").first().message.startswith(
        "2 results")
    assert rig.runner.work.tuners._opened[experiment.pk] is opened  # the object lives on
    assert imports_of(experiment) == [
        [{"parameter": {"x": 0.5}, "value": 3.0}, {"parameter": {"x": 0.25}, "value": {"default": 0.75, "loss": 1}}],
        [{"parameter": {"x": 0.1}, "value": {"default": 0.5, "loss": 2}}]]
    rig.runner.work.tuners.forget(experiment.pk)  # as after a restart
    report(second, 1.0)
    assert rig.submitted(experiment, 3)[2].parameter_sets.get().value == {"known": known, "made": 1}


def test_the_export_of_an_experiment_is_imported_into_another(rig, make_experiment) -> None:
    experiment = rig.experiment(trial_concurrency=3, max_trial_number=3)
    good, bad, _ = rig.submitted(experiment, 3)
    report(good, 0.5)
    report(bad, 0.75, exit_code=1)
    out = io.StringIO()
    write_json(experiment, out)
    exported = json.loads(out.getvalue())
    other = rig.experiment(trial_concurrency=1)
    assert import_results(other, exported) == 1
    assert imports_of(other) == [[{"parameter": good.parameter_sets.get().value, "value": 0.5}]]
    with pytest.raises(Refused, match="or the export of an experiment in JSON that has results"):
        import_results(other, {**exported, "trials": exported["trials"][1:]})
    for odd in ([1], [{"status": "SUCCEEDED", "final_value": "1"}], [{"status": "SUCCEEDED", "parameter_sets": 3}],
                [{"status": []}], [{"status": "SUCCEEDED", "parameter_sets": "abc"}]):
        with pytest.raises(Refused):
            import_results(other, {"trials": odd})


def test_a_built_in_tuner_is_made_anew_once_with_them(rig) -> None:
    experiment = rig.experiment(tuner={"name": "Random"}, trial_concurrency=1)
    [first] = rig.submitted(experiment, 1)
    before = rig.runner.work.tuners._opened[experiment.pk]
    import_results(experiment, [{"parameter": {"x": 0.5}, "value": 3}])
    report(first, 1.0)
    rig.submitted(experiment, 2)
    opened = rig.runner.work.tuners._opened[experiment.pk]
    assert opened is not before
    rig.rounds()
    assert rig.runner.work.tuners._opened[experiment.pk] is opened


def test_a_list_leaves_out_what_was_run_elsewhere(rig) -> None:
    experiment = rig.experiment(tuner={"name": "BatchTuner"}, search_space=LIST, trial_concurrency=1)
    [first] = rig.submitted(experiment, 1)
    import_results(experiment, [{"parameter": {"x": number}, "value": 1.0} for number in (1, 2, 3)])
    report(first, 1.0)
    assert [trial.parameter_sets.get().value for trial in rig.submitted(experiment, 2)] == [{"x": 0}, {"x": 4}]


def test_those_of_one_that_is_done_reach_its_tuner_when_it_is_resumed(rig, tmp_path) -> None:
    (tmp_path / "mine.py").write_text(TUNER)
    experiment = rig.experiment(tuner={"class_name": "mine.Mine", "code_directory": str(tmp_path), "class_args": {}},
                                trial_concurrency=1, max_trial_number=1)
    [first] = rig.submitted(experiment, 1)
    report(first, 1.0)
    rig.until(lambda: Experiment.objects.get().status == ExperimentStatus.DONE)
    import_results(experiment, [{"parameter": {"x": 0.5}, "value": 3}])
    assert ExperimentEvent.objects.filter(experiment=experiment, kind="imported").get().message == \
        "1 result was imported for the tuner."
    rig.rounds()
    assert Experiment.objects.get().status == ExperimentStatus.DONE
    resume_with(experiment, {"max_trial_number": 2})
    [_, second] = rig.submitted(experiment, 2)
    assert second.parameter_sets.get().value["known"] == [[[{"x": 0.5}, 3.0]]]


@pytest.mark.parametrize(("fields", "words"), [
    ({"status": "DONE", "code_removed_at": NOW}, "The copy of the experiment's code was removed"),
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
