"""What a form asks while a config is written: sampled points of a search space, fields of a text."""

import pytest

from nniweb.experiments.models import Experiment

SAMPLE, FIELDS = "/api/v1/experiments/sampled-points/", "/api/v1/experiments/config-fields/"
SPACE = {"lr": {"_type": "loguniform", "_value": [0.001, 0.1]}, "units": {"_type": "randint", "_value": [1, 4]},
         "opt": {"_type": "choice", "_value": [{"_name": "sgd", "m": {"_type": "uniform", "_value": [0, 1]}},
                                               {"_name": "adam"}]}}


def test_the_same_seed_gives_the_same_points_of_the_space(api) -> None:
    first, second, other = (api.post(SAMPLE, {"search_space": SPACE, "count": 50, "seed": seed}).json()
                            for seed in (3, 3, 4))
    assert first == second != other
    assert len(first["points"]) == 50
    for point in first["points"]:
        assert 0.001 <= point["lr"] <= 0.1
        assert point["units"] in (1, 2, 3)
        assert point["opt"]["_name"] == "adam" or 0 <= point["opt"]["m"] <= 1


@pytest.mark.parametrize(("body", "field"), [
    ({"search_space": {"lr": {"_type": "unifrom", "_value": [0, 1]}}}, "search_space.lr._type"),
    ({"search_space": {}}, "search_space"), ({}, "search_space"), ({"search_space": SPACE, "count": 501}, "count"),
    ({"search_space": SPACE, "seed": -1}, "seed"), ({"search_space": [1]}, "search_space"),
    ({"search_space": SPACE, "extra": 1}, "extra")])
def test_what_cannot_be_sampled_is_said_at_its_place(api, body, field) -> None:
    answer = api.post(SAMPLE, body)
    assert answer.status_code == 400
    assert [error["field"] for error in answer.json()["errors"]] == [field]


def test_what_would_be_too_much_to_draw_is_refused(api) -> None:
    large = {f"p{index}": {"_type": "choice", "_value": ["x" * 100]} for index in range(500)}
    assert api.post(SAMPLE, {"search_space": large, "count": 500}).status_code == 413
    assert api.post(SAMPLE, {"search_space": large, "count": 5}).status_code == 200


def test_viewers_are_told_to_ask(as_user, vera, db) -> None:
    for address, body in ((SAMPLE, {"search_space": SPACE}), (FIELDS, {"config": ""})):
        answer = as_user(vera).post(address, body)
        assert answer.status_code == 403
        assert "viewer" in answer.json()["errors"][0]["message"]


def test_fields_of_a_text_are_read_and_changed(api, config) -> None:
    read = api.post(FIELDS, {"config": config}).json()
    assert read["config"] == config
    assert (read["values"]["trialCommand"], read["values"]["tuner.name"]) == ("python3 trial.py", "Random")
    changes = {"maxTrialNumber": None, "trialCommand": "sh run.sh"}
    changed = api.post(FIELDS, {"config": config, "changes": changes}).json()
    assert changed["config"] == config.replace("maxTrialNumber: 5\n", "").replace("python3 trial.py", "sh run.sh")
    assert not Experiment.objects.exists()


@pytest.mark.parametrize("number", [10**400, -10**400], ids=["large", "small"])
def test_a_number_that_no_float_holds_is_refused_as_in_a_text(api, config, number: int) -> None:
    refused = api.post(FIELDS, {"config": config, "changes": {"maxTrialNumber": number}})
    assert refused.status_code == 400
    assert "number" in refused.json()["errors"][0]["message"]


def test_the_v1_form_is_converted_when_asked_to(api) -> None:
    old = ("authorName: me\ntrainingServicePlatform: local\ntrialConcurrency: 1\nsearchSpacePath: s.json\n"
           "useAnnotation: false\ntuner: {builtinTunerName: TPE}\ntrial: {command: true, codeDir: ., gpuNum: 0}\n")
    refused = api.post(FIELDS, {"config": old})
    assert "v1 form" in refused.json()["errors"][0]["message"]
    converted = api.post(FIELDS, {"config": old, "convert": True}).json()
    assert converted["values"]["tuner.name"] == "TPE"
    assert converted["values"]["searchSpaceFile"] == "s.json"


@pytest.mark.parametrize(("body", "place"), [
    ({"config": "a: [", "changes": {}}, 1), ({"config": "", "changes": {"nonsense": 1}}, None),
    ({"config": "", "changes": [1]}, None), ({"config": "a: 1 #" + 100_000 * "x"}, None)],
    ids=["no YAML", "no such field", "no object", "too long"])
def test_what_cannot_be_edited_is_said_with_its_line(api, body, place) -> None:
    [error] = api.post(FIELDS, body).json()["errors"]
    assert error.get("line") in (place, place and place + 1)
