"""What configuration files may say about the local platform, and what trials see of the environment."""

import pytest
from pydantic import ValidationError

from trainingservice.local.config import LocalClusterSettings, LocalTrialOptions
from trainingservice.local.environment import allowed_environment


@pytest.mark.parametrize(("given", "meant"), [([0, 2], (0, 2)), (1, (1,)), ("0,2", (0, 2)), ("3", (3,)),
                                              (" 0 , 1 ", (0, 1)), (None, None)])
def test_gpu_indices_are_a_list_a_number_or_text(given, meant):
    assert LocalTrialOptions.model_validate({"gpuIndices": given}).gpu_indices == meant


@pytest.mark.parametrize(("given", "message"), [([0, 0], "named twice"), ([-1], "0 or more"), ("0,x", 'such as "0,1"'),
                                                ([], "at least one"), (True, "such as"), ("", "such as"),
                                                ([0.5], "int")])
def test_wrong_gpu_indices_are_refused_with_a_reason(given, message):
    with pytest.raises(ValidationError, match=message):
        LocalTrialOptions.model_validate({"gpuIndices": given})


def test_defaults_leave_everything_open():
    options = LocalTrialOptions()
    assert options.canonical() == {"snapshotCode": False, "nodes": 1}
    assert LocalTrialOptions.model_validate({"reuseMode": True}).reuse_mode is True


def test_a_gpu_takes_at_least_one_trial():
    with pytest.raises(ValidationError):
        LocalTrialOptions.model_validate({"maxTrialNumberPerGpu": 0})


def test_unknown_fields_are_refused():
    with pytest.raises(ValidationError):
        LocalTrialOptions.model_validate({"gpuIndexes": "0"})


def test_whatever_a_file_says_the_machine_is_one_cluster():
    assert LocalClusterSettings().canonical() == {}
    assert LocalClusterSettings.platform_name == "local"


def test_secrets_of_the_server_are_not_handed_on():
    server = {"PATH": "/bin", "HOME": "/root", "LC_ALL": "C.UTF-8", "CUDA_HOME": "/cuda", "NNIWEB_SECRET_KEY": "s",
              "DJANGO_SETTINGS_MODULE": "x", "DATABASE_URL": "postgres://u:p@h/d", "AWS_SECRET_ACCESS_KEY": "s",
              "NNI_KEEPER_TOKEN": "t", "TERM": "xterm", "LD_LIBRARY_PATH": "/lib", "VIRTUAL_ENV": "/venv"}
    assert set(allowed_environment(server)) == {"CUDA_HOME", "HOME", "LC_ALL", "LD_LIBRARY_PATH", "PATH", "VIRTUAL_ENV"}


@pytest.mark.parametrize(("given", "message"), [
    ({"venv": "venv"}, "absolute path"), ({"pythonPath": "bin"}, "absolute path"),
    ({"venv": "/a\nb"}, "printable"), ({"condaEnv": "a/b"}, "name of a conda environment"),
    ({"venv": "/" + "a" * 5000}, "at most 4096"),
    ({"venv": "/a", "condaEnv": "torch"}, "venv and condaEnv cannot be given together"),
    ({"condaEnv": "torch", "runAs": "alice"}, "must be the folder of the environment"),
    ({"shellEnvironment": {"path": "/bin" * 10000}}, "at most 32768"),
    ({"shellEnvironment": {"HOME": "/root"}}, "Extra inputs"),
])
def test_a_python_that_cannot_be_meant_is_refused_with_a_reason(given, message):
    with pytest.raises(ValidationError, match=message):
        LocalTrialOptions.model_validate(given)


def test_of_a_shell_three_variables_are_recorded_and_a_file_that_gives_them_has_the_last_word():
    shell = {"PATH": "/v/bin:/bin", "VIRTUAL_ENV": "/v", "CONDA_PREFIX": "/c", "HOME": "/root", "AWS_SECRET": "s"}
    recorded = LocalTrialOptions().with_shell(shell).canonical()
    assert recorded["shellEnvironment"] == {"path": "/v/bin:/bin", "virtualEnv": "/v", "condaPrefix": "/c"}
    given = LocalTrialOptions.model_validate({"shellEnvironment": {"path": "/usr/bin"}})
    assert given.with_shell(shell) == given


@pytest.mark.parametrize(("given", "cpus", "memory"), [({}, None, None), ({"trialCpuNumber": 0.5}, 0.5, None),
                                                       ({"trialMemorySize": "1.5gb"}, None, 1536 * 1024 ** 2),
                                                       ({"trialMemorySize": 100}, None, 100 * 1024 ** 2)])
def test_a_trial_may_be_limited_to_cpus_and_memory(given, cpus, memory):
    options = LocalTrialOptions.model_validate({"nodes": 2, **given})
    assert (options.cpus_of_a_node(), options.memory_of_a_node()) == (cpus, memory)
    assert options.cpus_of_a_trial() == 2 * (cpus or 1.0)


@pytest.mark.parametrize("given", [{"trialCpuNumber": 0}, {"trialCpuNumber": float("inf")}, {"trialMemorySize": 0},
                                   {"trialMemorySize": "much"}])
def test_limits_of_nothing_are_refused(given):
    with pytest.raises(ValidationError):
        LocalTrialOptions.model_validate(given)
