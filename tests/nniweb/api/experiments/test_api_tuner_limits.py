"""A tuner that cannot search a space is refused at launch, by REST too, with what it wants instead."""

import json

import pytest

from nniweb.experiments.models import Experiment

CONDITIONAL = {"layer": {"_type": "choice", "_value": [
    {"_name": "empty"}, {"_name": "conv", "size": {"_type": "randint", "_value": [1, 9]}}]}}
UNIFORM = {"x": {"_type": "uniform", "_value": [0, 1]}}
WORDS = "BatchTuner needs a choice whose options are objects, each a whole parameter set"


@pytest.mark.parametrize(("space", "field", "words"), [
    (CONDITIONAL, "searchSpace.layer", WORDS), (UNIFORM, "searchSpace.x", WORDS),
    ({**UNIFORM, "y": UNIFORM["x"]}, "searchSpace", "BatchTuner needs exactly one parameter"),
    ({"all": {"_type": "choice", "_value": [1, {"x": 2}]}}, "searchSpace.all", WORDS)])
def test_a_list_of_parameter_sets_is_all_that_the_batch_tuner_takes(api, config, code_folder, space, field, words):
    text = config.replace("searchSpaceFile: search_space.json", f"searchSpace: {json.dumps(space)}").replace(
        "name: Random", "name: BatchTuner")
    for address in ("/api/v1/experiments/", "/api/v1/experiments/check/"):
        answer = api.post(address, {"config": text, "base_directory": str(code_folder)})
        assert answer.status_code == 400, answer.content
        [error] = answer.json()["errors"]
        assert error["field"].rstrip(".") == field
        assert words in error["message"]
    assert not Experiment.objects.exists()


@pytest.mark.parametrize("name", ["TPE", "Random", "GridSearch", "Anneal", "Evolution", "SMAC", "GP", "Metis", "DNGO",
                                  "Hyperband", "BOHB"])
def test_all_others_take_a_conditional_space(api, config, code_folder, name):
    text = config.replace("searchSpaceFile: search_space.json", f"searchSpace: {json.dumps(CONDITIONAL)}").replace(
        "name: Random", f"name: {name}")
    answer = api.post("/api/v1/experiments/check/", {"config": text, "base_directory": str(code_folder)})
    assert answer.status_code == 200, answer.content
