"""Wrong values in every field of every platform: each refusal is a sentence, and none is pydantic's."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from pydantic import BaseModel, ValidationError

from nniweb.experiments.config.document import ExperimentDocument
from nniweb.experiments.config.errors import ConfigInvalid
from nniweb.experiments.config.fields.description import inner_models
from nniweb.experiments.config.parsing import parse_experiment_config
from nniweb.experiments.config.platform_section import parse_stored_section
from trainingservice.base import ServiceContext, TrainingService
from trainingservice.errors import InvalidMetadata
from trainingservice.frameworkcontroller.template import roles_of_template
from trainingservice.local.config import LocalClusterSettings
from trainingservice.local.service import LocalTrainingService
from trainingservice.platforms import load_platform, platform_names
from trainingservice.refused_values import refusals
from trainingservice.remote.config import RemoteClusterSettings
from trainingservice.remote.service import RemoteTrainingService

T = TypeVar("T", bound=Exception)
WRONG: list[Any] = [5, -1, 5.5, True, "", "x y", "{host}", "99999999999999999999", [], [5], [None], [[]], {}, {"a": 5},
                    {"a": None}, {"": {"a": []}}, None, False, "it's", "'a'", ["x"], 1e400]
#: Of pydantic's messages, and of a validator that failed.
PYDANTICS = re.compile(r"(?i)input should|should have|should match|validation error|value error|assertion failed|type=|"
                       r"valid (string|integer|number|boolean|list|dictionary|tuple|date|url)|unable to parse|"
                       r"field required|extra inputs|errors\.pydantic|^input |cannot be checked", re.MULTILINE)
#: Values as Python writes them: 'a', None, b'a', <class 'int'>, [5], {5: 6}.
PYTHONS = re.compile(r"(?<!\w)b?'[^']*'(?!\w)|(?<!\w)(None|True|False|inf|nan)(?!\w)|<class|<\w+\.|object at 0x|"
                     r"\[None|\[5|\{'")
KEY = "SHA256:n4bQgYhMfWWaL+qgxVrQFaO/TxsrC4Is0V1sFbDwCgg"


def fields_of(model: type[BaseModel], depth: int = 3) -> Iterator[tuple[str, ...]]:
    """Paths of all fields as files spell them; ``[]``: in a list."""
    for name, field in model.model_fields.items():
        alias = field.alias or name
        yield (alias,)
        if depth:
            for begin, inner in inner_models(field.annotation):
                for path in fields_of(inner, depth - 1):
                    yield (alias, *([begin] if begin else []), *path)


def document_of(path: tuple[str, ...], value: Any) -> Any:
    if not path:
        return value
    inner = document_of(path[1:], value)
    return [inner] if path[0] == "[]" else {path[0]: inner}


def refusal(call: Callable[[], object], kind: type[T]) -> T | None:
    try:
        call()
    except kind as refused:
        return refused
    return None


def is_a_sentence(said: str) -> bool:
    own = said.replace("'a'", "").replace("None, Running or All", "")  # a wrong value, and words of Kubernetes
    return bool(re.match(r"\S.*\S", said)) and not PYDANTICS.search(said) and not PYTHONS.search(own)


@pytest.mark.parametrize("name", platform_names())
def test_a_wrong_value_in_a_platforms_section_is_told_in_a_sentence(name: str) -> None:
    platform = load_platform(name)
    refused = 0
    for model in (platform.settings_model, platform.options_model):
        for path in fields_of(model):
            for value in WRONG:
                document = document_of(path, value)
                in_file = refusal(lambda document=document: parse_stored_section({"platform": name, **document}, {}),
                                  ConfigInvalid)
                refused += in_file is not None
                bad = [error for error in (in_file.errors if in_file else ()) if not is_a_sentence(error.message)]
                assert bad == [], document
                in_model = refusal(lambda model=model, document=document: model.model_validate(document),
                                   ValidationError)
                assert [said for _, said in (refusals(in_model) if in_model else ()) if not is_a_sentence(said)] == []
    assert refused > 20


@pytest.mark.parametrize("field", sorted({path[0] for path in fields_of(ExperimentDocument)}))
def test_a_wrong_value_in_a_file_is_told_in_a_sentence_without_pythons_form_of_it(field: str, tmp_path: Path) -> None:
    (tmp_path / "space.json").write_text('{"x": {"_type": "uniform", "_value": [0, 1]}}')
    whole = {"trialCommand": "true", "trialConcurrency": 1, "searchSpaceFile": "space.json",
             "tuner": {"name": "Random"}, "trainingService": {"platform": "local"}}
    refused = 0
    for path in (path for path in fields_of(ExperimentDocument) if path[0] == field):
        for value in (*WRONG, b"raw", {5: 6}, (5,), {"x"}):
            document = {**whole, **document_of(path, value)}
            found = refusal(lambda document=document: parse_experiment_config(document, tmp_path), ConfigInvalid)
            refused += found is not None
            bad = [error for error in (found.errors if found else ()) if not is_a_sentence(error.message)]
            assert bad == [], document
    assert refused > 3


WRONG_PARAMETERS: list[Any] = [
    5, True, None, "", "a", "it's", [], {}, [None], {"_type": None}, {"_type": "uniform"},
    {"_type": "choice", "_value": [None, True, [5]]}, {"_type": ["x"], "_value": [1]},
    {"_type": "choice", "_value": []}, {"_type": "uniform", "_value": [None, "x"]},
    {"_type": "randint", "_value": [True, 5]}, {"_type": "quniform", "_value": ["a", "b", "c"]}]


@pytest.mark.parametrize("value", WRONG_PARAMETERS)
def test_a_wrong_parameter_of_a_search_space_is_told_without_pythons_form_of_it(value: object, tmp_path: Path) -> None:
    whole = {"trialCommand": "true", "trialConcurrency": 1, "searchSpace": {"x": value}, "tuner": {"name": "TPE"},
             "trainingService": {"platform": "local"}}
    found = refusal(lambda: parse_experiment_config(whole, tmp_path), ConfigInvalid)
    assert [error for error in (found.errors if found else ()) if not is_a_sentence(error.message)] == []


@pytest.mark.parametrize("name", platform_names())
def test_a_wrong_value_in_nnis_metadata_is_told_in_a_sentence(name: str) -> None:
    for key, known in load_platform(name).nni_metadata().items():
        for v1 in known._rows:
            path = tuple(part for step in v1.split(".")[1:] for part in (
                [step[:-2], "[]"] if step.endswith("[]") else [step]))
            path = (("[]", *path) if known._is_list else path)
            for value in WRONG:
                text = json.dumps(document_of(path, value))
                refused = refusal(lambda known=known, text=text: known.read(text), InvalidMetadata)
                assert refused is None or is_a_sentence(refused.message), (key, text)


@pytest.fixture(params=["remote", "local"])
def service(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TrainingService]:
    context = ServiceContext("c", tmp_path)
    made: TrainingService = LocalTrainingService(LocalClusterSettings(), context)
    if request.param == "remote":
        made = RemoteTrainingService(RemoteClusterSettings.model_validate(
            {"machineList": [{"host": "h", "user": "u"}]}), context)
    yield made
    made.clean_up()


@pytest.mark.parametrize("value", ["{", "[[[", *(json.dumps(value) for value in WRONG), '{"10.0.0.5": 5}',
                                   '{"10.0.0.5": "aa:bb"}', '{"10.0.0.5": null}', f'{{"a b": "{KEY}"}}',
                                   '{"gpuIndices": "x"}', '{"useActiveGpu": 3}', '{"maxTrialNumPerGpu": 0}'])
def test_a_wrong_value_of_a_platforms_own_key_is_told_in_a_sentence(service: TrainingService, value: str) -> None:
    for key in service.metadata_keys:
        before = service.get_cluster_metadata(key)
        refused = refusal(lambda key=key: service.set_cluster_metadata(key, value), InvalidMetadata)
        if refused is not None:
            assert is_a_sentence(refused.message)
            assert refused.field.startswith(key)
            assert service.get_cluster_metadata(key) == before


@pytest.mark.parametrize(("value", "field", "words"), [
    ('{"10.0.0.5": 5}', "host_keys.10.0.0.5", 'must be text, not 5; put it in quotes'),
    ('{"10.0.0.5": "aa:bb"}', "host_keys.10.0.0.5", 'must be a fingerprint such as SHA256:AbC..., which ssh-keygen -lf '
                                                     'shows on the machine, not "aa:bb"'),
    ('["10.0.0.5"]', "host_keys", 'must be a JSON object that maps host or host:port to a fingerprint, such as '
                                  '{"10.0.0.5": "SHA256:..."}'),
    ("{", "host_keys", 'must be a JSON object that maps host or host:port to a fingerprint, such as '
                       '{"10.0.0.5": "SHA256:..."}')])
def test_host_keys_say_what_to_write(tmp_path: Path, value: str, field: str, words: str) -> None:
    service = RemoteTrainingService(RemoteClusterSettings.model_validate(
        {"machineList": [{"host": "h", "user": "u"}]}), ServiceContext("c", tmp_path))
    with pytest.raises(InvalidMetadata) as refused:
        service.set_cluster_metadata("host_keys", value)
    assert (refused.value.field, refused.value.message) == (field, words)
    service.clean_up()


@pytest.mark.parametrize("number", ["x", 5.5, -1, []])
def test_a_wrong_role_in_a_template_is_told_in_a_sentence(number: object) -> None:
    container = {"name": "main", "image": "i", "command": ["run"]}
    with pytest.raises(ValueError, match="configPath: role worker: taskNumber: must be ") as refused:
        roles_of_template({"spec": {"taskRoles": [{"name": "worker", "taskNumber": number, "task": {
            "pod": {"spec": {"containers": [container]}}}}]}})
    assert is_a_sentence(str(refused.value))


SOURCES = Path(__file__).resolve().parents[3]


def test_nothing_else_shows_pydantics_messages() -> None:
    told = [str(file.relative_to(SOURCES)) for package in ("nniweb", "trainingservice", "trialkeeper")
            for file in sorted((SOURCES / package).rglob("*.py")) if '["msg"]' in file.read_text()]
    assert told == []
