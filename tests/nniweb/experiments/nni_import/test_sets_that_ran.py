"""NNI 3.0 hands parameter sets to whichever trial asks first, and keeps the planned ones with its trials."""

from datetime import UTC, datetime

from nniweb.experiments.nni_import.archived_trial import ArchivedMetric, ArchivedTrial
from nniweb.experiments.nni_import.sets_that_ran import give_sets_that_ran

NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)


def trial(name: str, planned: object, *reported: object, final: object = None, customized: bool = False
          ) -> ArchivedTrial:
    """``reported``: the parameter ids of its intermediate results; ``final``: that of its result."""
    kinds = [("PERIODICAL", given) for given in reported] + ([] if final is None else [("FINAL", final)])
    return ArchivedTrial(
        name, parameters=[(planned, {"x": planned})], is_customized=customized,
        metrics=[ArchivedMetric(NOON, kind, n, "0.5", str(given)) for n, (kind, given) in enumerate(kinds)])


def shown(*trials: ArchivedTrial) -> list[object]:
    give_sets_that_ran(trials)
    return [one.parameters[0][1]["x"] for one in trials]


def test_a_trial_has_the_set_that_its_metrics_name() -> None:
    trials = trial("a", 0, final=1), trial("b", 1, final=2), trial("c", 2, 0, final=0)
    assert shown(*trials) == [1, 2, 0]
    assert [one.parameters[0][0] for one in trials] == [1, 2, 0]
    assert trials[0].about_parameters == (
        "NNI planned parameter set 0 for it. Its metrics show that it ran with set 1, shown here.")


def test_trials_that_ran_with_what_was_planned_say_nothing() -> None:
    trials = trial("a", 0, final=0), trial("b", 1, 1), trial("c", 2)
    assert shown(*trials) == [0, 1, 2]
    assert [one.about_parameters for one in trials] == ["", "", ""]


def test_a_trial_without_metrics_gets_the_set_that_is_left_and_says_so() -> None:
    trials = trial("a", 0), trial("b", 1, final=0), trial("c", 2, final=1), trial("d", 3)
    assert shown(*trials) == [2, 0, 1, 3]
    assert trials[0].about_parameters == (
        "NNI planned parameter set 0 for it, with which trial b ran. It reported no metrics, so NNI has not kept its "
        "own set. Set 2 is shown, with which no other trial ran.")
    assert trials[3].about_parameters == ""


def test_parameters_that_a_person_picked_are_picked_where_they_ran() -> None:
    trials = trial("a", 0, final=1), trial("b", 1, final=0, customized=True)
    assert shown(*trials) == [1, 0]
    assert [one.is_customized for one in trials] == [True, False]


def test_the_result_decides_for_a_trial_that_was_resumed_with_its_planned_set() -> None:
    assert shown(trial("a", 0, 1, 0, final=0), trial("b", 1, 0, 1)) == [0, 1]


def test_a_trial_that_was_not_resumed_to_its_end_has_the_set_of_its_last_metric() -> None:
    assert shown(trial("a", 0, 1, 0), trial("b", 1, 0)) == [0, 0]


def test_ids_that_are_text_no_id_or_the_id_of_several_sets_prove_nothing_wrong() -> None:
    by_text = [trial("a", "0_0_0", final='"0_0_1"'), trial("b", "0_0_1", final='"0_0_0"')]
    assert shown(*by_text) == ["0_0_1", "0_0_0"]
    assert shown(trial("a", 0, final="null"), trial("b", 1, final=7)) == [0, 1]
    twice = [trial("a", 0, final=1), trial("b", 0, final=0), trial("c", 1, final=1)]
    assert shown(*twice) == [0, 0, 1]


def test_several_sets_of_a_trial_stay_as_they_were_kept() -> None:
    of_phases = trial("a", 0, final=1)
    of_phases.parameters.append((1, {"x": 1}))
    assert shown(of_phases, trial("b", 2, final=0)) == [0, 2]
