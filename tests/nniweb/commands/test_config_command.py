"""``manage.py config``."""

import io
from pathlib import Path

import pytest
import yaml
from django.core.management import CommandError, call_command

from nniweb.experiments.config import parse_experiment_config

V1 = """\
authorName: someone
experimentName: digits
trialConcurrency: 2
maxExecDuration: 90m
maxTrialNum: 10
trainingServicePlatform: remote
searchSpacePath: space.json
useAnnotation: false
tuner:
  builtinTunerName: TPE
  classArgs:
    optimize_mode: maximize
trial:
  command: python3 train.py
  codeDir: .
machineList:
  - ip: gpu1
    username: ada
    passwd: sesame
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "space.json").write_text('{"x": {"_type": "uniform", "_value": [0, 1]}}')
    path = tmp_path / "config.yml"
    path.write_text(V1)
    return path


def run(action: str, file: Path) -> tuple[str, str]:
    out, err = io.StringIO(), io.StringIO()
    call_command("config", action, str(file), stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


def test_check_prints_the_resolved_settings_without_secrets(db, file: Path) -> None:
    out, err = run("check", file)
    document = yaml.safe_load(out)
    assert document["searchSpace"] == {"x": {"_type": "uniform", "_value": [0, 1]}}
    assert document["maxExperimentDuration"] == "90m"
    assert document["trialCodeDirectory"] == str(file.parent)
    assert document["trainingService"]["machineList"][0]["host"] == "gpu1"
    assert "sesame" not in out + err
    assert "Note: authorName: is not stored" in err


def test_check_names_everything_that_is_wrong_with_line_and_nearest_name(db, file: Path) -> None:
    file.write_text(V1.replace("maxTrialNum:", "maxTrialNumber:").replace("concurrency", "").replace(" 90m", " soon"))
    with pytest.raises(CommandError) as caught:
        run("check", file)
    first, second = str(caught.value).splitlines()
    assert f"{file}: line 4, column 18: maxExecDuration: " in first
    assert f"{file}: line 5, column 1: maxTrialNumber: is not a known field here; did you mean maxTrialNum?" in second


def test_upgrade_prints_a_v2_file_that_means_the_same(db, file: Path) -> None:
    out, _ = run("upgrade", file)
    document = yaml.safe_load(out)
    assert list(document)[0] == "experimentName"
    assert document["searchSpaceFile"] == "space.json"
    assert document["trialCodeDirectory"] == "."
    assert document["trainingService"] == {
        "platform": "remote", "machineList": [{"host": "gpu1", "user": "ada", "password": "sesame"}]}
    assert parse_experiment_config(out, file.parent).settings == parse_experiment_config(V1, file.parent).settings


def test_upgrade_refuses_what_it_cannot_carry_over(db, file: Path) -> None:
    file.write_text(V1 + "versionCheck: perhaps\n")
    with pytest.raises(CommandError, match="line 20, column 15: versionCheck: must be true or false"):
        run("upgrade", file)
    file.write_text("trialCommand: x\n")
    with pytest.raises(CommandError, match="already in the v2 form"):
        run("upgrade", file)
    with pytest.raises(CommandError, match="cannot be read: No such file"):
        run("check", file.with_name("nowhere.yml"))


def test_check_says_which_parameters_the_annotations_give_and_changes_no_code(db, file: Path) -> None:
    code = '"""@nni.variable(nni.uniform(0, 1), name=x)"""\nx = 0\n'
    (file.parent / "train.py").write_text(code)
    file.write_text(V1.replace("searchSpacePath: space.json\nuseAnnotation: false", "useAnnotation: true"))
    out, err = run("check", file)
    assert "Note: useAnnotation: the annotations give 1 parameter: train/x/uniform." in err
    document = yaml.safe_load(out)
    assert (document["useAnnotation"], "searchSpace" in document) == (True, False)
    assert (file.parent / "train.py").read_text() == code
    (file.parent / "train.py").write_text("#\n" + code.replace("x = 0", "y = 0"))
    with pytest.raises(CommandError, match=r"line 7, column 16: useAnnotation: train\.py, line 2: the annotation"):
        run("check", file)
