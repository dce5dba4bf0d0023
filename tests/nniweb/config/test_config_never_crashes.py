"""Whatever a person sends, the answer is settings or ConfigInvalid."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nniweb.experiments.config import ConfigInvalid, ParsedConfig, parse_experiment_config

pytestmark = pytest.mark.usefixtures("farm")
RELAXED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])

SCALARS = (st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
           | st.sampled_from(["local", "farm", "TPE", "1h", "0,1", "choice", "~", "~x/y", "/", "0x1", "1e5",
                              "__class__"]))
KEYS = st.text(max_size=6) | st.sampled_from(
    ["trial", "command", "tuner", "name", "classArgs", "tpe_args", "className", "classFileName", "codeDir", "platform",
     "trainingService", "trainingServicePlatform", "machineList", "machineList[]", "host", "ip", "localConfig",
     "advisor", "searchSpace", "_type", "_value", "_name", "cluster", "trialOptions", "sharedStorage", "gpuIndices",
     "assessor", "farmConfig", "labels", "searchSpaceFile", "searchSpacePath", "reuseMode", "multiPhase", "seed",
     "tags"])
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
                      max_leaves=12)


def outcome(source: Any, folder: Path | None) -> list[str]:
    try:
        parsed = parse_experiment_config(source, folder, cluster_platform={"ours": "farm"}.get)
    except ConfigInvalid as invalid:
        errors = invalid.errors
    else:
        assert isinstance(parsed, ParsedConfig)
        return []
    assert errors
    assert all(error.message for error in errors)
    return [error.field for error in errors]


@RELAXED
@given(st.text())
def test_any_text(text: str) -> None:
    assert outcome(text, None)


@RELAXED
@given(st.text(alphabet=" \n-:{}[]&*!|>'\"%#<a1,.?~\t\\", max_size=60))
def test_any_text_that_looks_like_yaml(text: str) -> None:
    assert outcome("a: 1\n" + text, None)
    assert outcome("{" + text, None)


@RELAXED
@given(st.dictionaries(KEYS, VALUES, max_size=8))
def test_any_values(values: dict) -> None:
    outcome(values, None)
    outcome(yaml.safe_dump(values), None)


def places_in(value: Any, path: tuple = ()) -> list[tuple]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, item in items for place in places_in(item, (*path, key)))]


@pytest.mark.parametrize("form", ["v1", "v2", "farm"])
@RELAXED
@given(data=st.data())
def test_any_change_of_a_valid_file(form: str, data: st.DataObject, v1: dict, v2: dict, folder: Path) -> None:
    config = copy.deepcopy({"v1": v1, "v2": v2, "farm": v2 | {"trainingService": {
        "platform": "farm", "machineList": [{"host": "a", "password": "b"}], "labels": {"x": "y"}}}}[form])
    if form != "v1":
        config["searchSpace"] = {"x": {"_type": "choice", "_value": [{"_name": "a"}, 1]}}
    for _ in range(data.draw(st.integers(1, 3))):
        *groups, key = data.draw(st.sampled_from([place for place in places_in(config) if place]))
        place = config
        for group in groups:
            place = place[group]
        if data.draw(st.booleans()) or not isinstance(place, dict):
            place[key] = data.draw(VALUES)
        else:
            place[data.draw(KEYS)] = data.draw(VALUES)
    as_values = outcome(config, folder)
    try:
        text = json.dumps(config)
    except ValueError:
        return
    assert sorted(outcome(text, folder)) == sorted(as_values) or "\\ud" in text or "NaN" in text or "Infinity" in text
