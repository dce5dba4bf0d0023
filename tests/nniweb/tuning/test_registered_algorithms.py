"""Algorithms that are registered under a name, with NNI's file and the command."""

import json
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from nniweb.experiments.config import ConfigInvalid, parse_experiment_config, resolved_document
from nniweb.experiments.errors import Refused
from nniweb.experiments.launch.launch_checks import check_own_algorithms
from nniweb.experiments.models import User
from nniweb.experiments.models.account import Role
from nniweb.tuning.process.tuner_client import TunerClient, TunerFailed
from nniweb.tuning.registered_algorithms import registrations_path
from tests.nniweb.storage.test_durable_storage import Flushes, number
from tests.nniweb.tuning.custom_algorithms.test_own_classes import result, spec

#: As NNI's demo_tuner.
MODULE = '''
from nni.assessor import Assessor, AssessResult
from nni.tuner import Tuner
from nni.utils import ClassArgsValidator

class DemoTuner(Tuner):
    def __init__(self, optimize_mode="maximize", start=0):
        self.start = start
    def update_search_space(self, search_space):
        self.space = search_space
    def generate_parameters(self, parameter_id, **kwargs):
        return {"n": self.start + parameter_id}
    def receive_trial_result(self, parameter_id, parameters, value, **kwargs):
        pass

class DemoAssessor(Assessor):
    def assess_trial(self, trial_job_id, trial_history):
        return AssessResult.Good

class Validator(ClassArgsValidator):
    def validate_class_args(self, **kwargs):
        if "optimize_mode" in kwargs:
            assert kwargs["optimize_mode"] in ("maximize", "minimize"), "optimize_mode is invalid"
'''
META = """
algoType: tuner
builtinName: demotuner
className: demo_of_nniweb.DemoTuner
classArgsValidator: demo_of_nniweb.Validator
"""
SEVERAL = """
algorithms:
- {algoType: tuner, builtinName: first, className: demo_of_nniweb.DemoTuner, classArgs: {start: 7}}
- {algoType: assessor, builtinName: second, className: demo_of_nniweb.DemoAssessor}
"""


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NNI's folder for settings, and a folder from which the server's Python can import."""
    monkeypatch.setenv("NNI_CONFIG_DIR", str(tmp_path / "nni"))
    packages = tmp_path / "packages"
    packages.mkdir()
    (packages / "demo_of_nniweb.py").write_text(MODULE)
    monkeypatch.setenv("PYTHONPATH", str(packages))


@pytest.fixture
def algo(tmp_path: Path) -> Callable[..., str]:
    def run(*arguments: str, meta: str = "") -> str:
        if meta:
            (tmp_path / "meta.yml").write_text(meta)
            arguments = (*arguments, str(tmp_path / "meta.yml"))
        out = StringIO()
        call_command("algo", *arguments, stdout=out)
        return out.getvalue()

    return run


@pytest.fixture
def client() -> Iterator[TunerClient]:
    made = TunerClient()
    yield made
    made.shutdown()


def config(**algorithms: Any) -> dict[str, Any]:
    return {"trialCommand": "true", "trialConcurrency": 1, "trainingService": {"platform": "local"}, **algorithms}


def test_what_is_registered_is_listed_shown_and_forgotten(algo: Callable[..., str]) -> None:
    assert "demotuner is registered in " in algo("register", meta=META)
    assert "demotuner" in algo("list")
    assert json.loads(algo("show", "DemoTuner"))["className"] == "demo_of_nniweb.DemoTuner"
    algo("register", "--meta_path", meta=SEVERAL)
    assert [name in algo("list") for name in ("demotuner", "first", "second")] == [True] * 3
    assert "not registered any more" in algo("unregister", "demotuner")
    assert "demotuner" not in algo("list")
    with pytest.raises(CommandError, match="No algorithm is registered as \"demotuner\". There are: first, second."):
        algo("show", "demotuner")


def test_the_file_is_the_one_that_nnictl_reads_and_writes(algo: Callable[..., str], tmp_path: Path) -> None:
    algo("register", meta=META)
    assert registrations_path() == tmp_path / "nni" / "registered_algorithms.yml"
    registrations_path().write_text("""
advisors: []
tuners:
- {builtinName: PPOTuner, className: nni.algorithms.hpo.ppo_tuner.PPOTuner, source: nni}
- {builtinName: theirs, className: demo_of_nniweb.DemoTuner, nniVersion: '2.10', source: user}
""")
    assert "theirs" in algo("list")
    assert "PPOTuner" not in algo("list")
    algo("register", meta=META)
    assert {"theirs", "demotuner"} <= set(algo("list").split())


def test_an_experiment_names_it_as_it_names_a_built_in_one(
        algo: Callable[..., str], client: TunerClient, tmp_path: Path) -> None:
    algo("register", meta=SEVERAL)
    parsed = parse_experiment_config(config(tuner={"name": "FIRST", "classArgs": {"optimize_mode": "minimize"}},
                                            assessor={"name": "second"}), tmp_path).settings
    assert (parsed.tuner.class_name, parsed.tuner.registered_as) == ("demo_of_nniweb.DemoTuner", "first")
    assert parsed.tuner.class_args == {"start": 7, "optimize_mode": "minimize"}
    assert parsed.optimize_mode == "minimize"
    assert parsed.assessor is not None
    written = resolved_document(parsed)
    assert written["tuner"] == {"name": "first", "classArgs": {"start": 7, "optimize_mode": "minimize"}}
    assert parse_experiment_config(written, tmp_path).settings.tuner == parsed.tuner
    tuner, assessor = (one.model_dump(mode="json", exclude_none=True) for one in (parsed.tuner, parsed.assessor))
    assert result(client.open("e", spec(tuner, assessor), [])) == {"stop": []}
    assert result(client.ask("e", 0, 2))["parameters"] == [{"n": 7}, {"n": 8}]


def test_its_validator_is_asked_first(algo: Callable[..., str], client: TunerClient, tmp_path: Path) -> None:
    algo("register", meta=META)
    tuner = parse_experiment_config(config(tuner={"name": "demotuner", "classArgs": {"optimize_mode": "up"}}),
                                    tmp_path).settings.tuner.model_dump(mode="json", exclude_none=True)
    error = client.open("e", spec(tuner), []).exception(60)
    assert isinstance(error, TunerFailed)
    assert error.message == "classArgs: optimize_mode is invalid"


def test_who_is_no_administrator_may_use_it(algo: Callable[..., str], tmp_path: Path) -> None:
    algo("register", meta=META)
    member = User(username="max", role=Role.MEMBER)
    check_own_algorithms(parse_experiment_config(config(tuner={"name": "demotuner"}), tmp_path).settings, member)
    own = parse_experiment_config(config(tuner={"className": "demo_of_nniweb.DemoTuner"}), tmp_path).settings
    with pytest.raises(Refused, match="only administrators may use one"):
        check_own_algorithms(own, member)


@pytest.mark.parametrize(("meta", "words"), [
    ("algoType: tuner\nbuiltinName: TPE\nclassName: demo_of_nniweb.DemoTuner", "TPE is a built-in algorithm"),
    ("algoType: advice\nbuiltinName: a\nclassName: b.C", "algoType must be tuner, assessor or advisor"),
    ("algoType: tuner\nbuiltinName: a\nclassName: C", "className and classArgsValidator of a must be a module and a"),
    ("algoType: tuner\nclassName: b.C", "builtinName must be a name of at most 100 characters"),
    ("algoType: tuner\nbuiltinName: ../x\nclassName: demo_of_nniweb.DemoTuner", "builtinName must begin with a letter"),
    ("algoType: tuner\nbuiltinName: a b\nclassName: demo_of_nniweb.DemoTuner", "builtinName must begin with a letter"),
    ("algoType: tuner\nbuiltinName: a\nclassName: nowhere.C", "there is no module nowhere in the server's Python"),
    ("algoType: assessor\nbuiltinName: a\nclassName: demo_of_nniweb.DemoTuner", "is not an assessor"),
    ("algoType: tuner\nbuiltinName: a\nclassName: demo_of_nniweb.DemoTuner\nclassArgsValidator: demo_of_nniweb.No",
     "the module demo_of_nniweb has no class No"),
    ("[1, 2]", "must be a group of fields"), ("a: [", "meta.yml: "), ("algorithms: 7", "algorithms must be a list"),
])
def test_what_cannot_be_registered_is_refused_and_changes_nothing(
        algo: Callable[..., str], meta: str, words: str) -> None:
    with pytest.raises(CommandError) as refused:
        algo("register", meta=meta)
    assert words in str(refused.value)
    assert not registrations_path().exists()


def test_a_list_that_cannot_be_read_is_named(algo: Callable[..., str], tmp_path: Path) -> None:
    registrations_path().parent.mkdir()
    registrations_path().write_text("tuners: 7")
    with pytest.raises(ConfigInvalid) as refused:
        parse_experiment_config(config(tuner={"name": "demotuner"}), tmp_path)
    assert "registered_algorithms.yml: tuners must be a list" in str(refused.value)
    space = {"x": {"_type": "uniform", "_value": [0, 1]}}
    built_in = parse_experiment_config(config(tuner={"name": "TPE"}, searchSpace=space), tmp_path).settings
    assert built_in.tuner.name == "TPE"


def test_a_name_that_nobody_has_registered_is_unknown(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid) as refused:
        parse_experiment_config(config(tuner={"name": "demotuner"}), tmp_path)
    assert 'there is no tuner named "demotuner"' in str(refused.value)
    assert "must be registered on the server (algo register, see docs/tuners.md)" in str(refused.value)


def test_the_file_is_flushed_before_it_has_its_name_and_its_folders_after_it(
        algo: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    flushes = Flushes(monkeypatch)
    algo("register", meta=META)
    path = registrations_path()
    assert flushes.order == [("flush", number(path)), ("name", number(path)), ("flush", number(path.parent)),
                             ("flush", number(path.parent.parent))]
