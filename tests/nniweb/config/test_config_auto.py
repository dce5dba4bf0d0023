"""What a file means that NNI would not take: the tuner Auto where none is named, and with it another
default of Medianstop.
"""

from pathlib import Path
from typing import Any

import pytest

from nniweb.experiments.config import ConfigInvalid, parse_experiment_config, resolved_document

MEDIANSTOP = {"name": "Medianstop"}


def read(folder: Path, document: dict[str, Any], **fields: Any) -> Any:
    kept = {key: value for key, value in document.items() if key not in ("tuner", "assessor")}
    return parse_experiment_config(kept | fields, folder)


def test_a_v2_file_that_names_no_tuner_gets_auto_and_says_so(folder: Path, v2: dict[str, Any]) -> None:
    parsed = read(folder, v2)
    assert (parsed.settings.tuner.name, parsed.settings.optimize_mode) == ("Auto", "maximize")
    assert "tuner: not given, so Auto chooses the parameters, and the result is to be maximized." in parsed.notes
    assert parse_experiment_config(resolved_document(parsed.settings), folder).settings == parsed.settings


def test_without_a_tuner_objectives_or_the_assessor_say_the_direction(folder: Path, v2: dict[str, Any]) -> None:
    one = read(folder, v2, objectives=[{"metric": "loss", "optimizeMode": "minimize"}])
    assert (one.settings.tuner.name, one.settings.optimize_mode) == ("Auto", "minimize")
    assert any(note.endswith("is to be minimized.") for note in one.notes)
    several = [{"metric": "loss", "optimizeMode": "minimize"}, {"metric": "speed", "optimizeMode": "maximize"}]
    assert read(folder, v2, objectives=several).settings.tuner.name == "Auto"
    stopped = read(folder, v2, assessor={**MEDIANSTOP, "classArgs": {"optimize_mode": "minimize"}})
    assert stopped.settings.optimize_mode == "minimize"


def test_what_a_file_without_a_tuner_may_have_besides(folder: Path, v2: dict[str, Any]) -> None:
    assert read(folder, v2, multiPhase=True).settings.multi_phase
    assert read(folder, v2, replicates=3).settings.replicates == {"n": 3}
    assert read(folder, v2, constraints=["lr * units <= 1"]).settings.constraints == ("lr * units <= 1",)


def test_a_v1_file_that_names_no_tuner_is_refused_as_by_nni(folder: Path, v1: dict[str, Any]) -> None:
    del v1["tuner"]
    with pytest.raises(ConfigInvalid, match="tuner: is required"):
        parse_experiment_config(v1, folder)


def test_a_tuner_that_cannot_be_read_is_not_replaced(folder: Path, v2: dict[str, Any]) -> None:
    with pytest.raises(ConfigInvalid, match="tuner: must be a group of fields") as refused:
        read(folder, v2, tuner="Auto")
    assert len(refused.value.errors) == 1


@pytest.mark.parametrize("tuner", [{}, {"tuner": {"name": "auto"}}])
def test_medianstop_with_auto_judges_no_trial_from_its_first_result_on(
    folder: Path, v2: dict[str, Any], tuner: dict[str, Any]
) -> None:
    parsed = read(folder, v2, assessor=MEDIANSTOP, **tuner)
    assert parsed.settings.assessor is not None
    assert parsed.settings.assessor.class_args == {"start_step": "auto"}
    assert any("start_step is not given, so it is auto" in note for note in parsed.notes)
    assert resolved_document(parsed.settings)["assessor"]["classArgs"] == {"start_step": "auto"}


def test_medianstop_in_a_file_that_nni_takes_stays_as_nni_has_it(
    folder: Path, v1: dict[str, Any], v2: dict[str, Any]
) -> None:
    theirs = read(folder, v2, tuner=v2["tuner"], assessor=MEDIANSTOP).settings
    assert theirs.assessor is not None
    assert theirs.assessor.class_args == {}
    v1["assessor"] = {"builtinAssessorName": "Medianstop"}
    older = parse_experiment_config(v1, folder).settings.assessor
    assert older is not None
    assert older.class_args == {}
    set_by_hand = read(folder, v2, assessor={**MEDIANSTOP, "classArgs": {"start_step": 0}}).settings.assessor
    assert set_by_hand is not None
    assert set_by_hand.class_args == {"start_step": 0}
