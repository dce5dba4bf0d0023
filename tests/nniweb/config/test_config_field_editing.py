"""Fields of a config's text are read and written, and the rest stays as its author wrote it."""

import json

import pytest
import yaml

from nniweb.experiments.config import ConfigInvalid
from nniweb.experiments.config.fields.editing import EDITABLE, document_text, read_fields, write_fields
from nniweb.experiments.config.yaml_positions import read_text

TEXT = """\
# my search
experimentName: digits   # a word for people
trialConcurrency: 2

tuner:
  # by hand
  name: TPE
  classArgs: {optimize_mode: maximize}

# where
trainingService:
  platform: local
"""


def test_a_plain_value_is_changed_where_it_stands() -> None:
    changed = write_fields(TEXT, {"trialConcurrency": 8, "tuner.name": "Random", "experimentName": "my: name"})
    assert changed == TEXT.replace("trialConcurrency: 2", "trialConcurrency: 8").replace("name: TPE", "name: Random") \
        .replace("Name: digits ", "Name: 'my: name' ")
    assert read_fields(changed)["experimentName"] == "my: name"


def test_fields_come_and_go() -> None:
    space = {"lr": {"_type": "loguniform", "_value": [0.0001, 0.1]}}
    changed = write_fields(TEXT, {"maxTrialNumber": 5, "searchSpace": space, "trainingService": None,
                                  "cluster": "ours"})
    assert changed == TEXT.replace("# where\ntrainingService:\n  platform: local\n", "# where\n") + (
        "maxTrialNumber: 5\nsearchSpace:\n  lr: {_type: loguniform, _value: [0.0001, 0.1]}\ncluster: ours\n")
    without = write_fields(changed, {"tuner.name": None, "tuner.classArgs": None, "searchSpace": None})
    assert "tuner" not in yaml.safe_load(without)
    assert "# my search" in without


def test_long_lists_have_a_line_for_each_entry() -> None:
    points = [{"learning_rate": 10.0 ** -power, "layers": power} for power in range(1, 5)]
    changed = write_fields(TEXT, {"startPoints": points, "constraints": ["layers < 4"]})
    assert changed.startswith(TEXT)
    assert "\nstartPoints:\n  - {learning_rate: 0.1, layers: 1}\n  - {learning_rate: 0.01, layers: 2}\n" in changed
    assert changed.endswith("\nconstraints: [layers < 4]\n")
    assert read_fields(changed)["startPoints"] == points
    assert write_fields(changed, {"startPoints": None, "constraints": None}) == TEXT


def test_other_spellings_are_the_same_field() -> None:
    text = "trial_concurrency: 1\nTuner: {Name: TPE}\n"
    assert read_fields(text) == {"trialConcurrency": 1, "tuner.name": "TPE"}
    changed = write_fields(text, {"trialConcurrency": 3, "tuner.name": "GP"})
    assert changed == "trial_concurrency: 3\nTuner: {Name: GP}\n"


@pytest.mark.parametrize("text", [
    '{"trialConcurrency": 1, "tuner": {"name": "TPE"}}', "{trialConcurrency: 1}\n",
    "base: &b {name: TPE}\ntuner: *b\ntrialConcurrency: 1\n", "x: &n 1\ntrialConcurrency: *n\n",
    "trialConcurrency: 1\ntrialCommand: |\n  python3 a.py\n\n  # not a comment\n", "", "# only words\n",
    "trialConcurrency: 1", "trialConcurrency:\n  1\ntuner:\n", "defaults: &d {tuner: {name: GP}}\n<<: *d\n"])
def test_however_the_text_is_written_the_outcome_says_what_was_asked_for(text) -> None:
    changes = {"trialConcurrency": 7, "tuner.name": "Random", "tuner.classArgs": {"seed": 3}, "trialCommand": "a\nb: c"}
    try:
        changed = write_fields(text, changes)
    except ConfigInvalid:
        assert text == "# only words\n", "an empty document has nothing to stand in"
        return
    values = read_fields(changed)
    assert {name: values[name] for name in changes} == changes


def test_a_budget_is_written_in_its_group_and_leaves_nothing_when_it_is_taken_out() -> None:
    text = "trialConcurrency: 1\n"
    changed = write_fields(text, {"budget.gpuHours": 2.5, "budget.money": 10, "gpuMemory": "6GB"})
    assert yaml.safe_load(changed) == {"trialConcurrency": 1, "budget": {"gpuHours": 2.5, "money": 10},
                                       "gpuMemory": "6GB"}
    assert write_fields(changed, {"budget.gpuHours": None, "budget.money": None, "gpuMemory": None}) == text


def test_the_v1_form_is_not_edited() -> None:
    with pytest.raises(ConfigInvalid, match="v1 form"):
        read_fields("trainingServicePlatform: local\ntrialConcurrency: 1\n")


def test_a_document_is_written_so_that_people_can_read_it() -> None:
    space = {f"p{index}": {"_type": "uniform", "_value": [0, 1]} for index in range(5)}
    document = {"searchSpace": space, "trialCommand": "python3 a.py", "tags": ["a"], "tuner": {"classArgs": space}}
    text = document_text(document)
    assert yaml.safe_load(text) == document
    assert "  p0: {_type: uniform, _value: [0, 1]}\n" in text
    assert max(len(line) for line in text.splitlines()) <= 110
    assert set(document) - {"tags"} <= {name.partition(".")[0] for name in EDITABLE}


@pytest.mark.parametrize("text", ["1e5", "12e4567", "1.e-3", "a\nb", "x\x85y", "\u2028x"])
def test_a_document_keeps_texts_that_another_reader_may_take_for_numbers_or_lines(text: str) -> None:
    document = {"searchSpace": {"tag": {"_type": "choice", "_value": [text, "x" * 120]}, text: {"_value": [text]}},
                "trialCommand": text, "tuner": {"classArgs": {"a": {"b": {"c": [text, "y" * 120]}}}}, text: 1}
    assert read_text(document_text(document)).data == document
    assert read_fields(write_fields("x: &a 1\ny: *a\n", {"trialCommand": text}))["trialCommand"] == text


def test_numbers_that_a_form_gives_back_as_javascript_has_them_stay_as_they_are_written() -> None:
    seed, other = 2**53 + 1, 2**60 + 1
    space = {"seed": {"_type": "choice", "_value": [seed, 1.0, other, {"_name": "a", "rate": {"_value": [2.0]}}]},
             "lr": {"_type": "uniform", "_value": [0.0, 1.0]}}
    text = document_text({"searchSpace": space, "tuner": {"name": "Random", "classArgs": {"seed": seed, "a": True}}})
    as_javascript = json.loads(json.dumps(space), parse_int=lambda digits: int(float(digits)),
                               parse_float=lambda digits: int(float(digits)))
    assert as_javascript != space
    assert write_fields(text, {"searchSpace": as_javascript}) == text, "nothing was changed"
    as_javascript["renamed"] = as_javascript.pop("seed")
    text = write_fields(text, {"searchSpace": as_javascript})
    as_javascript["lr"]["_value"][1] = 3
    as_javascript["renamed"]["_value"].insert(1, 7)
    changed = read_fields(write_fields(text, {"searchSpace": as_javascript}))["searchSpace"]
    assert repr(changed) == repr({"lr": {"_type": "uniform", "_value": [0.0, 3]}, "renamed": {
        "_type": "choice", "_value": [seed, 7, 1.0, other, {"_name": "a", "rate": {"_value": [2.0]}}]}})
    args = read_fields(write_fields(text, {"tuner.classArgs": {"seed": int(float(seed)), "a": 1}}))["tuner.classArgs"]
    assert repr(args) == repr({"seed": seed, "a": 1})
