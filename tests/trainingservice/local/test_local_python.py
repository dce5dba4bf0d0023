"""Trials of the local platform with the Python of a real virtual environment, and what is said about it before."""

import shutil
import sys
import time
from dataclasses import replace

import pytest

from tests.fakes.python_environments import make_environment, shell_with
from trainingservice.errors import PermanentError
from trainingservice.local import interpreters
from trainingservice.local.config import LocalTrialOptions
from trainingservice.reasons import Reason
from trainingservice.testing.processes import is_alive
from trainingservice.trial_job import Interpreter
from trainingservice.trial_job_status import TrialJobStatus

VERSION = ".".join(map(str, sys.version_info[:3]))


@pytest.fixture
def environment(tmp_path):
    return make_environment(tmp_path / "my environment", "mylib")


@pytest.fixture
def active(environment):
    """Options as the launch in a shell records them in which the environment is active."""
    return LocalTrialOptions().with_shell(shell_with(environment))


def run(bench, service, command, options, **more):
    form = replace(bench.form(command, **more), options=options)
    service.submit_trial_job(form)
    return form, bench.wait_for_end(service, form)


def test_python3_is_the_one_of_the_shell_that_launched(bench, service, environment, active):
    code = bench.code({"trial.py": "import mylib, os, sys; print(mylib.name, sys.prefix, os.environ['VIRTUAL_ENV'])"})
    form, detail = run(bench, service, "python3 trial.py", active, code=code)
    assert bench.output(form).strip() == f"mylib {environment} {environment}", bench.output(form, "stderr")
    assert detail.interpreter == Interpreter(f"{environment}/bin/python3", VERSION)


def test_python3_is_the_one_with_which_the_server_was_started_and_not_the_server_s_own(bench, environment, monkeypatch):
    for name, value in shell_with(environment).items():
        monkeypatch.setenv(name, value)
    service = bench.open_service()
    form, detail = run(bench, service, "python3 -c 'import mylib, sys; print(sys.prefix)'", LocalTrialOptions())
    assert bench.output(form).strip() == str(environment), bench.output(form, "stderr")
    assert detail.interpreter == Interpreter(f"{environment}/bin/python3", VERSION)


def test_a_machine_without_any_python_on_its_path_still_has_the_server_s(bench, monkeypatch, tmp_path):
    for name in ("sh", "echo"):
        (tmp_path / "bin").mkdir(exist_ok=True)
        (tmp_path / "bin" / name).symlink_to(shutil.which(name))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    service = bench.open_service()
    form, _ = run(bench, service, "python3 -c 'import sys; print(sys.prefix)'", LocalTrialOptions())
    assert bench.output(form).strip() == sys.prefix


@pytest.mark.parametrize("field", ["venv", "condaEnv", "pythonPath", "PATH"])
def test_the_experiment_s_file_has_the_last_word(bench, service, environment, tmp_path, field):
    other = make_environment(tmp_path / "other")
    given = {"venv": str(environment), "condaEnv": str(environment), "pythonPath": f"{environment}/bin"}
    options = LocalTrialOptions.model_validate({field: given[field]} if field in given else {})
    path = {} if field in given else {"PATH": f"{environment}/bin:/usr/bin:/bin"}
    form, detail = run(bench, service, "python3 -c 'import mylib, sys; print(sys.prefix)'",
                       options.with_shell(shell_with(other)), environment=path)
    assert bench.output(form).strip() == str(environment), bench.output(form, "stderr")
    assert detail.interpreter is not None
    assert detail.interpreter.path == f"{environment}/bin/python3"


def test_the_server_s_own_python_can_be_asked_for(bench, service, active):
    options = active.model_copy(update={"server_python": True})
    form, _ = run(bench, service, "python3 -c 'import pydantic, sys; print(sys.prefix)'", options)
    assert bench.output(form).strip() == sys.prefix


def test_a_trial_whose_environment_was_deleted_says_so(bench, service, environment, active):
    run(bench, service, "python3 -c pass", active)
    shutil.rmtree(environment)
    with pytest.raises(PermanentError) as caught:
        service.submit_trial_job(replace(bench.form("python3 -c pass"), options=active))
    reason = caught.value.reason
    assert isinstance(reason, Reason)
    assert (reason.code, reason.arguments["named"]) == ("no_python", str(environment))
    assert "launch from a shell with another environment" in reason
    blocking = [finding for finding in service.rehearse(quick=True, options=active) if finding.blocks]
    assert [(finding.check, finding.message.code) for finding in blocking] == [("python", "no_python")]


def test_a_conda_environment_that_is_not_known_is_named(bench, service):
    options = LocalTrialOptions.model_validate({"condaEnv": "absent"})
    finding = next(finding for finding in service.rehearse(quick=True, options=options) if finding.blocks)
    assert "condaEnv names absent, which has no Python" in finding.message


# --- what is said of the command before anything runs ----------------------------------------


def check(service, command, code, options, environment=None):
    return [(finding.ok, finding.blocks, finding.message)
            for finding in service.check_command(command, code and code.folder, environment or {}, options)]


def test_the_check_names_the_modules_that_the_interpreter_does_not_have_and_imports_nothing(
        bench, service, environment, active, tmp_path):
    witness = tmp_path / "was imported"
    note = f"open({str(witness)!r}, 'w').close()\n"
    (environment / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages" /
     "mylib.py").write_text(note)
    code = bench.code({"train.py": f"{note}import json, mylib, nni, helper\nimport absent_one\n",
                       "helper.py": f"{note}from absent_two.inner import x\n", "importlib.py": note, "json.py": note})
    (ok, blocks, message), = check(service, "python3 train.py", code, active)
    assert (ok, blocks) == (False, False)
    assert f"{environment}/bin/python3 (Python {VERSION})" in message
    assert "absent_one (train.py, line 3), absent_two (helper.py, line 2)." in message
    assert not witness.exists()
    (environment / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages" /
     "absent_one.py").touch()
    (code.folder / "helper.py").write_text("")
    assert check(service, "python3 train.py", code, active) == [
        (True, False, f"Trials run with {environment}/bin/python3 (Python {VERSION}).")]


def test_modules_on_the_experiment_s_own_path_are_there(bench, service, active, tmp_path):
    (tmp_path / "libs").mkdir()
    (tmp_path / "libs" / "shared_one.py").touch()
    code = bench.code({"train.py": "import shared_one\n"})
    assert check(service, "python3 train.py", code, active)[0][0] is False
    assert check(service, "python3 train.py", code, active, {"PYTHONPATH": str(tmp_path / "libs")})[0][0] is True


def test_the_check_says_when_there_is_no_such_python(bench, service):
    (ok, blocks, message), = check(service, "python2.3 train.py", bench.code({"train.py": ""}), LocalTrialOptions())
    assert (ok, blocks) == (False, False)
    assert "There is no python2.3 on the PATH of trials" in message


def test_nothing_is_said_of_a_command_that_chooses_its_python_itself(bench, service):
    code = bench.code({"train.py": "import absent_one\n"})
    assert check(service, "source venv/bin/activate && python3 train.py", code, LocalTrialOptions()) == []


@pytest.mark.parametrize("body", ["sleep 1000 & echo $! > pid; wait", "setsid sleep 1000 & echo $! > pid; exit 3",
                                  "setsid sleep 1000 & echo $! > pid; wait",
                                  "while :; do echo aaaaaaaaaaaaaaaaaaaaaaaa; done", "exit 3"])
def test_an_interpreter_that_hangs_or_writes_for_ever_is_given_up(bench, service, tmp_path, monkeypatch, body):
    monkeypatch.setattr(interpreters, "SECONDS", 0.5)
    monkeypatch.setattr(interpreters, "SECONDS_AT_START", 0.5)
    code = bench.code({"train.py": "import absent_one\n", "bin/python3": f"#!/bin/sh\n{body}\n"})
    (code.folder / "bin" / "python3").chmod(0o755)
    options = LocalTrialOptions.model_validate({"pythonPath": str(code.folder / "bin")})
    (ok, blocks, message), = check(service, "python3 train.py", code, options)
    assert (ok, blocks) == (False, False)
    assert "does not answer" in message
    if (pid := code.folder / "pid").exists():
        bench.wait("what it started has ended", lambda: not is_alive(int(pid.read_text())))
    _, detail = run(bench, service, "echo here; exit; python3 train.py", options, code=code)
    assert (detail.status, detail.interpreter) == (TrialJobStatus.SUCCEEDED, None)


@pytest.mark.parametrize("command", ["python3 train.py", "./train.sh"])
def test_an_environment_that_is_not_there_is_said_of_any_command(bench, service, command):
    (_, _, message), = check(service, command, None, LocalTrialOptions.model_validate({"venv": "/absent"}))
    assert "venv names /absent" in message


def test_an_environment_whose_base_was_removed_is_said_although_another_python_follows_on_the_path(bench, service):
    code = bench.code({"train.py": "import absent_one\n", "bin/python3": "#!/absent/python3\n"})
    (code.folder / "bin" / "python3").chmod(0o755)
    options = LocalTrialOptions.model_validate({"pythonPath": str(code.folder / "bin")})
    started = time.monotonic()
    (ok, blocks, message), = check(service, "python3 train.py", code, options)
    assert (ok, blocks) == (False, False)
    assert "There is no python3 on the PATH of trials, or it does not answer" in message
    assert time.monotonic() - started < interpreters.SECONDS_AT_START, "it waited for what cannot start"


def test_an_interpreter_is_asked_once_for_many_trials(bench, service, environment, active, monkeypatch):
    asked = []
    ask = interpreters._ask
    monkeypatch.setattr(interpreters, "_ask", lambda *arguments: asked.append(1) or ask(*arguments))
    code = bench.code({"readme": ""})
    for _ in range(3):
        assert run(bench, service, "python3 -c pass", active, code=code)[1].interpreter is not None
    assert len(asked) == 1
