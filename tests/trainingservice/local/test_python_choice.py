"""Which Python an experiment's trials find, of all that may name one."""

import os
import sys
from pathlib import Path

import pytest

from trainingservice.local.config import LocalTrialOptions
from trainingservice.local.python_choice import choose_python

OWN = str(Path(sys.executable).parent)
SERVER = {"PATH": "/server/bin:/usr/bin", "VIRTUAL_ENV": "/server", "HOME": "/root"}
SHELL = {"path": "/shell/bin:/usr/bin", "virtualEnv": "/shell"}


def choose(given=None, inherited=None, home=Path("/home/me"), **options):
    choice = choose_python(LocalTrialOptions.model_validate(options), given or {}, inherited or SERVER, home)
    return choice, choice.variables["PATH"].split(os.pathsep)


def test_without_a_word_trials_have_the_environment_of_the_server_and_its_own_python_stands_last():
    choice, path = choose()
    assert path == ["/server/bin", "/usr/bin", OWN]
    assert (choice.given_by, choice.hidden, set(choice.variables)) == ("", frozenset(), {"PATH"})
    assert choose(inherited={"PATH": f"{OWN}:/bin"})[1] == [OWN, "/bin"]
    assert choose(inherited={"HOME": "/root"})[1] == ["/usr/local/bin", "/usr/bin", "/bin", OWN]


def test_the_shell_that_launched_takes_the_place_of_the_server_s_environment():
    choice, path = choose(shellEnvironment=SHELL)
    assert path == ["/shell/bin", "/usr/bin", OWN]
    assert choice.variables["VIRTUAL_ENV"] == "/shell"
    assert (choice.given_by, choice.named, choice.programs) == ("shellEnvironment", "/shell", "/shell/bin")
    conda, _ = choose(shellEnvironment={"path": "/c/envs/t/bin:/usr/bin", "condaPrefix": "/c/envs/t"})
    assert (conda.variables["CONDA_PREFIX"], conda.named) == ("/c/envs/t", "/c/envs/t")


def test_what_is_active_at_the_server_is_not_handed_on_beside_another_environment():
    choice, path = choose(shellEnvironment={"path": "/usr/bin"})
    assert {"VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV"} <= choice.hidden
    assert "VIRTUAL_ENV" not in choice.variables
    assert choice.given_by == "", "the shell had no environment that could be missing"


def test_a_path_of_the_experiment_is_the_whole_path():
    choice, path = choose({"PATH": "/mine", "FLAG": "secret"}, shellEnvironment=SHELL)
    assert (path, choice.given_by) == (["/mine"], "")
    assert choice.variables == {"PATH": "/mine"}


@pytest.mark.parametrize(("options", "first", "named", "variables"), [
    ({"venv": "/v"}, "/v/bin", "/v", {"VIRTUAL_ENV": "/v"}),
    ({"venv": "~/v"}, "/home/me/v/bin", "~/v", {"VIRTUAL_ENV": "/home/me/v"}),
    ({"pythonPath": "/opt/py/bin"}, "/opt/py/bin", "/opt/py/bin", {}),
    ({"condaEnv": "/c/envs/t"}, "/c/envs/t/bin", "/c/envs/t", {"CONDA_PREFIX": "/c/envs/t",
                                                               "CONDA_DEFAULT_ENV": "/c/envs/t"}),
])
@pytest.mark.parametrize("given", [{}, {"PATH": "/mine"}])
def test_an_environment_that_the_experiment_names_stands_first_whatever_the_path_is(options, first, named, variables,
                                                                                    given):
    choice, path = choose(given, shellEnvironment=SHELL, **options)
    rest = [given["PATH"]] if given else ["/shell/bin", "/usr/bin", OWN]
    assert path == [first, *rest]
    assert (choice.given_by, choice.named, choice.programs) == (next(iter(options)), named, first)
    assert {name: value for name, value in choice.variables.items() if name != "PATH"} == variables


def test_the_server_s_own_python_can_be_asked_for():
    choice, path = choose(serverPython=True, shellEnvironment=SHELL)
    assert path == [OWN, "/shell/bin", "/usr/bin"]
    assert choice.variables.get("VIRTUAL_ENV") == (sys.prefix if sys.prefix != sys.base_prefix else None)


def test_a_conda_environment_is_found_by_its_name(tmp_path):
    root, home = tmp_path / "conda", tmp_path / "home"
    for folder in (root / "bin", root / "envs" / "torch" / "bin", tmp_path / "far" / "jax" / "bin"):
        folder.mkdir(parents=True)
    (home / ".conda").mkdir(parents=True)
    (home / ".conda" / "environments.txt").write_text(f"{tmp_path}/gone/jax\n{tmp_path}/far/jax\n")
    active = {"path": "/usr/bin", "condaPrefix": str(root / "envs" / "other")}

    def programs(name, **more):
        return choose(home=home, condaEnv=name, **more)[0].programs
    assert programs("torch", shellEnvironment=active) == f"{root}/envs/torch/bin"
    assert programs("torch", inherited={"CONDA_EXE": f"{root}/bin/conda"}) == f"{root}/envs/torch/bin"
    assert programs("base", shellEnvironment=active) == f"{root}/bin"
    assert programs("jax") == f"{tmp_path}/far/jax/bin"
    unknown, path = choose(home=home, condaEnv="absent", shellEnvironment=active)
    assert (unknown.programs, unknown.named) == ("", "absent")
    assert unknown.lacks_python(lambda programs: True)
