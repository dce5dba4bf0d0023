"""The `nni` module that trials find where the official package is not installed."""

import ast
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.fakes.official_nni import official_python
from tests.trialkeeper.keeper_run import NO_OLD_PYTHON, old_python, wait_until
from trainingservice.keeper.keeper_bundle import build_keeper
from trialkeeper.metric_source import MetricsFile

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def for_trials(tmp_path):
    """A folder for PYTHONPATH that holds the module and nothing else."""
    folder = tmp_path / "for trials"
    folder.mkdir()
    (folder / "nni").symlink_to(ROOT / "trialkeeper" / "nni")
    return folder


class Trial:
    def __init__(self, folder: Path, for_trials: Path) -> None:
        self.folder, self.for_trials = folder, for_trials
        self.python = sys.executable
        self.variables = {"NNI_PLATFORM": "local", "NNI_EXP_ID": "exp", "NNI_TRIAL_JOB_ID": "trial",
                          "NNI_TRIAL_SEQ_ID": "4", "NNI_SYS_DIR": str(folder), "NNI_OUTPUT_DIR": str(folder)}

    def give(self, parameters, index=0, parameter_id=0):
        name = "parameter.cfg" if index == 0 else f"parameter_{index}.cfg"
        text = json.dumps({"parameter_id": parameter_id, "parameters": parameters})
        (self.folder / (name + ".new")).write_text(text)
        (self.folder / (name + ".new")).rename(self.folder / name)

    def run(self, code: str, check: bool = True, **variables) -> subprocess.CompletedProcess:
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(self.for_trials), **self.variables, **variables}
        done = subprocess.run([self.python, "-c", code], capture_output=True, text=True, timeout=120, cwd=self.folder,
                              env={name: value for name, value in environment.items() if value is not None})
        assert not check or done.returncode == 0, done.stderr
        return done

    def metrics(self):
        return MetricsFile(str(self.folder / ".nni" / "metrics")).read()


def interpreter(version: str) -> str:
    """This one, or one of that version. Skips where the machine has none."""
    python = sys.executable if version == "this" else old_python(version)
    if python is None:
        pytest.skip(NO_OLD_PYTHON % version)
    return python


@pytest.fixture
def trial(tmp_path, for_trials):
    (tmp_path / "sys").mkdir()
    trial = Trial(tmp_path / "sys", for_trials)
    trial.give({"lr": 0.1})
    return trial


def test_the_frames_are_those_of_the_official_package(trial):
    trial.give({}, parameter_id=7)
    trial.variables["NNI_TRIAL_JOB_ID"] = "tRiAl"
    trial.run("import nni; nni.get_next_parameter(); nni.report_intermediate_result(0.1)")
    assert (trial.folder / ".nni" / "metrics").read_bytes() == \
        b'ME000098{"parameter_id": 7, "trial_job_id": "tRiAl", "type": "PERIODICAL", "sequence": 0, "value": "0.1"}\n'


@pytest.mark.parametrize("version", ["this", "3.8", "3.6"])
def test_parameters_and_ids_are_given_and_results_are_counted(trial, version):
    trial.python = interpreter(version)
    done = trial.run("import nni\n"
                     "print(nni.get_current_parameter(), nni.get_next_parameter(), nni.get_current_parameter('lr'))\n"
                     "print(nni.get_experiment_id(), nni.get_trial_id(), nni.get_sequence_id())\n"
                     "print(nni.get_next_parameter(), nni.get_current_parameter())\n"
                     "for v in (1, 2): nni.report_intermediate_result(v)\n"
                     "nni.report_final_result({'default': 3})")
    assert done.stdout == "None {'lr': 0.1} 0.1\nexp trial 4\nNone {'lr': 0.1}\n"
    assert [(metric["kind"], metric["sequence"], metric["value"]) for metric in trial.metrics()] == \
        [("PERIODICAL", 0, "1"), ("PERIODICAL", 1, "2"), ("FINAL", 0, '{"default": 3}')]


def test_a_trial_waits_for_parameters_that_are_late_and_asks_for_them(trial):
    (trial.folder / "parameter.cfg").unlink()
    asked = threading.Event()

    def answer():
        wait_until(trial.metrics)
        asked.set()
        trial.give({"late": True})
    thread = threading.Thread(target=answer)
    thread.start()
    assert trial.run("import nni; print(nni.get_next_parameters())").stdout == "{'late': True}\n"
    thread.join()
    request = trial.metrics()[0]
    assert (request["kind"], request["value"], request["parameter_id"]) == ("REQUEST_PARAMETER", "0", None)


def test_in_a_multi_phase_trial_each_call_gives_the_next_parameters(trial):
    trial.give({"lr": 0.2}, index=1)
    trial.give(None, index=2)
    code = "import nni; print([nni.get_next_parameter() for _ in range(3)])"
    assert trial.run(code, MULTI_PHASE="true").stdout == "[{'lr': 0.1}, {'lr': 0.2}, None]\n"


def test_reporting_before_asking_for_parameters_is_an_error(trial):
    done = trial.run("import nni; nni.report_final_result(1)", check=False)
    assert "AssertionError" in done.stderr
    assert "get_next_parameter() needs to be called before" in done.stderr


def test_a_metric_that_is_too_long_is_refused_in_the_trial(trial):
    code = "import nni; nni.get_next_parameter(); nni.report_final_result('x' * %d)"
    assert "Metric too long" in trial.run(code % 1_000_000, check=False).stderr
    trial.run(code % 900_000)
    assert len(trial.metrics()[0]["value"]) == 900_002


def test_a_descriptor_that_the_trial_has_closed_is_not_written_to_when_it_is_another_file_s(trial):
    os.mkfifo(trial.folder / "wake")
    wake = os.open(trial.folder / "wake", os.O_RDWR | os.O_NONBLOCK)
    trial.run("import nni, os\nnni.get_next_parameter()\nnni.report_intermediate_result(1)\n"
              "os.closerange(3, 256)\n"
              "files = [open(name, 'wb') for name in ('one', 'other')]\n"
              "nni.report_intermediate_result(2)\nnni.report_final_result(3)",
              NNI_KEEPER_WAKE=str(trial.folder / "wake"))
    assert [metric["value"] for metric in trial.metrics()] == ["1", "2", "3"]
    assert os.read(wake, 10) == b"!!!"
    os.close(wake)
    assert [(trial.folder / name).read_bytes() for name in ("one", "other")] == [b"", b""]


def test_what_is_reported_after_the_trial_has_emptied_its_output_folder_arrives(trial):
    trial.run("import nni, os, shutil\nnni.get_next_parameter()\nnni.report_intermediate_result(1)\n"
              "before = len(os.listdir('/dev/fd'))\n"
              "for _ in range(3):\n"
              "    shutil.rmtree(os.environ['NNI_OUTPUT_DIR'])\n    nni.report_intermediate_result(2)\n"
              "nni.report_final_result(3)\nassert len(os.listdir('/dev/fd')) == before")
    assert [(metric["sequence"], metric["value"]) for metric in trial.metrics()] == [(3, "2"), (0, "3")]


def test_what_is_reported_from_where_the_path_leads_nowhere_arrives(trial):
    trial.run("import nni, os\nnni.get_next_parameter()\nnni.report_intermediate_result(1)\n"
              "here, away = [os.path.join(os.environ['NNI_SYS_DIR'], name) for name in ('.nni', 'away')]\n"
              "os.rename(here, away)\n"  # as it looks to who has another root
              "nni.report_final_result(2)\nos.rename(away, here)")
    assert [metric["value"] for metric in trial.metrics()] == ["1", "2"]


def test_outside_of_an_experiment_results_are_printed(trial):
    done = trial.run("import nni; print(nni.get_next_parameter(), nni.get_trial_id(), nni.get_sequence_id())\n"
                     "nni.report_intermediate_result(0.1); nni.report_final_result(0.2)", NNI_PLATFORM=None)
    lines = done.stdout.splitlines()
    assert lines[0] == "{} STANDALONE 0"
    assert "Intermediate result: 0.1  (Index 0)" in lines[1]
    assert "Final result: 0.2" in lines[2]
    assert "RuntimeWarning" in done.stderr
    assert not (trial.folder / ".nni").exists()


@pytest.mark.parametrize("variables", [{"NNI_PLATFORM": "pai"}, {"REUSE_MODE": "true"}])
def test_elsewhere_metrics_are_marked_lines_on_stdout(trial, variables):
    done = trial.run("import nni; nni.get_next_parameter(); nni.report_final_result(\"it's\")", **variables)
    assert done.stdout == ("NNISDK_MEb'{\"parameter_id\": 0, \"trial_job_id\": \"trial\", \"type\": \"FINAL\", "
                           "\"sequence\": 0, \"value\": \"\\\"it's\\\"\"}'\n")


@pytest.mark.parametrize(("value", "text"), [
    ("float('nan')", "NaN"), ("[1, (2, None, True)]", "[1, [2, null, true]]"), ("'\u20ac'", '"\\u20ac"'),
    ("1 + 2j", '{"__complex__": [1.0, 2.0]}'), ("{3, 1}", '{"__set__": [1, 3]}')])
def test_values_are_encoded_as_nni_does(trial, value, text):
    trial.run(f"import nni; nni.get_next_parameter(); nni.report_final_result({value})")
    assert trial.metrics()[0]["value"] == text


def test_numpy_values_are_encoded_without_importing_numpy_for_others(trial):
    pytest.importorskip("numpy", reason="numpy is not installed")
    values = "[np.float32(0.5), np.int64(3), np.bool_(True), np.float64(0.1), np.array([1, 2])]"
    trial.run(f"import nni, numpy as np; nni.get_next_parameter(); nni.report_final_result({values})")
    assert json.loads(trial.metrics()[0]["value"]) == \
        [0.5, 3, True, 0.1, {"__ndarray__": [1, 2], "dtype": "int64", "shape": [2]}]
    assert trial.run("import nni, sys; nni.get_next_parameter(); nni.report_final_result(1)\n"
                     "print('numpy' in sys.modules, 'typing' in sys.modules)").stdout == "False False\n"


def test_an_object_goes_as_its_pickle_unless_it_is_large(trial):
    code = "import nni, pathlib; nni.get_next_parameter(); nni.report_final_result(pathlib.PurePosixPath('x' * %d))"
    trial.run(code % 3)
    assert list(json.loads(trial.metrics()[0]["value"])) == ["__nni_obj__"]
    assert "too large to be reported" in trial.run(code % 5000, check=False).stderr


@pytest.mark.parametrize("version", ["this", "3.6"])
def test_it_steps_aside_for_another_nni(trial, tmp_path, version):
    trial.python = interpreter(version)
    other = tmp_path / "other"
    (other / "nni").mkdir(parents=True)
    (other / "nni" / "__init__.py").write_text("from nni.deep import get_next_parameter\nname = 'official'\n")
    (other / "nni" / "deep.py").write_text("def get_next_parameter(): return 'from the official package'\n")
    done = trial.run("import nni, nni.deep; print(nni.name, nni.get_next_parameter(), nni.deep.__file__)",
                     PYTHONPATH=f"{trial.for_trials}{os.pathsep}{other}")
    assert done.stdout.startswith("official from the official package " + str(other))


def test_an_error_of_the_other_nni_is_its_own(trial, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "nni.py").write_text("raise ImportError('the official package is broken')\n")
    done = trial.run("import nni", check=False, PYTHONPATH=f"{trial.for_trials}{os.pathsep}{other}")
    assert "the official package is broken" in done.stderr


def test_a_folder_that_is_only_called_nni_is_not_taken_for_the_package(trial):
    (trial.folder / "nni").mkdir()
    assert trial.run("import nni; print(nni.get_next_parameter())").stdout == "{'lr': 0.1}\n"


def test_it_can_be_imported_from_the_zipapp(trial, tmp_path):
    bundle = build_keeper(tmp_path / "bundle").path
    done = trial.run("import nni; print(nni.get_next_parameter())", PYTHONPATH=str(bundle / "for_trials"))
    assert done.stdout == "{'lr': 0.1}\n"


SOURCES = sorted((ROOT / "trialkeeper" / "nni").rglob("*.py"))
#: Names that an annotation may evaluate without importing anything.
EVALUATED = {"None", "bool", "bytes", "dict", "float", "int", "list", "object", "set", "str", "tuple"}


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_the_module_is_written_for_python_3_6_because_it_runs_in_the_interpreter_of_the_trial(source):
    tree = ast.parse(source.read_text(), str(source), feature_version=(3, 6))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            assert "annotations" not in [name.name for name in node.names], "Python 3.6 does not know it"
        assert not isinstance(node, ast.NamedExpr), f"line {node.lineno}: Python 3.6 has no :="
        for annotation in annotations_of(node):
            assert isinstance(annotation, ast.Constant) or getattr(annotation, "id", None) in EVALUATED, \
                f"line {annotation.lineno}: write the annotation as a text, which Python 3.6 does not evaluate"


def annotations_of(node: ast.AST) -> list[ast.expr]:
    """Those of a function or of a variable that the node defines."""
    if isinstance(node, ast.AnnAssign):
        return [node.annotation]
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return []
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs,
                 *filter(None, [node.args.vararg, node.args.kwarg])]
    found = [node.returns, *(argument.annotation for argument in arguments)]
    return [annotation for annotation in found if annotation is not None]


#: As NNI's examples merge: a script's own parameters, the trial's, and what comes of it (None: a ValueError).
MERGES = [
    ({"lr": 0.1, "layers": 2}, {"lr": 0.01}, {"lr": 0.01, "layers": 2}),
    ({"lr": 0.1}, {"lr": 1}, {"lr": 1.0}),
    ({"lr": None}, {"lr": "adam"}, {"lr": "adam"}),
    ({"lr": 0.1}, None, {"lr": 0.1}),
    ({"lr": 0.1}, {"momentum": 0.9}, None),
    ({"layers": 2}, {"layers": 2.5}, None),
    ({"layers": 2}, {"layers": "2"}, None),
]
MERGE = """
import json, sys
from argparse import Namespace
from nni.utils import merge_parameter
found = []
for base, override, _ in json.loads(sys.stdin.read()):
    for params in (dict(base), Namespace(**base)):
        try:
            merged = merge_parameter(params, override)
            assert merged is params
            found.append(merged if isinstance(merged, dict) else vars(merged))
        except ValueError:
            found.append(None)
print(json.dumps(found))
"""


@pytest.mark.parametrize("python", ["ours", pytest.param("3.0", marks=[pytest.mark.slow, pytest.mark.timeout(1800)])])
def test_parameters_are_merged_into_those_of_a_script(for_trials, python):
    own = python == "ours"
    done = subprocess.run([sys.executable if own else official_python(python), "-c", MERGE], input=json.dumps(MERGES),
                          capture_output=True, text=True, check=True,
                          env={"PATH": os.environ["PATH"], **({"PYTHONPATH": str(for_trials)} if own else {})})
    assert json.loads(done.stdout.splitlines()[-1]) == [expected for *_, expected in MERGES for _ in range(2)]


def test_what_cannot_be_merged_names_the_parameter(trial):
    failed = trial.run("from nni.utils import merge_parameter; merge_parameter({'lr': 1}, {'l': 2})", check=False)
    assert "the search space has the parameter 'l', which the script does not have" in failed.stderr
    failed = trial.run("from nni.utils import merge_parameter; merge_parameter({'lr': 1}, {'lr': 'a'})", check=False)
    assert "the parameter 'lr' is of type int in the script, and of type str in the search space" in failed.stderr
