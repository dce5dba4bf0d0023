"""Config files for the remote platform: both forms, all fields, and what is refused."""

import pytest
from pydantic import ValidationError

from nniweb.experiments.config import parse_experiment_config
from nniweb.experiments.config.errors import ConfigInvalid
from trainingservice.remote.config import RemoteMachineSettings

V2 = """
trialCommand: python3 t.py
trialConcurrency: 1
searchSpace: {x: {_type: uniform, _value: [0, 1]}}
tuner: {name: Random}
trainingService:
  platform: remote
  reuseMode: true
  machineList:
"""
V1 = """
authorName: me
experimentName: v1
trialConcurrency: 1
trainingServicePlatform: remote
searchSpacePath: space.json
useAnnotation: false
tuner: {builtinTunerName: Random}
trial: {command: python3 t.py, codeDir: ., gpuNum: 1}
remoteConfig: {reuse: true}
machineList:
  - {ip: 10.0.0.5, port: 2222, username: me, passwd: geheim, gpuIndices: "0,2", maxTrialNumPerGpu: 2,
     useActiveGpu: true}
  - {ip: bob, username: me, sshKeyPath: id, passphrase: sesam, preCommand: source env.sh, pythonPath: /opt/python/bin}
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "id").write_text("a key")
    (tmp_path / "space.json").write_text('{"x": {"_type": "uniform", "_value": [0, 1]}}')
    return tmp_path


def section(text, folder):
    return parse_experiment_config(text, folder).settings.training_service


def test_a_file_of_the_first_form_means_the_same(folder):
    found = section(V1, folder)
    first, second = found.settings.machine_list
    assert (first.host, first.port, first.user, first.password.get_secret_value()) == ("10.0.0.5", 2222, "me", "geheim")
    assert (first.gpu_indices, first.max_trial_number_per_gpu, first.use_active_gpu) == ((0, 2), 2, True)
    assert (second.ssh_key_file, second.ssh_passphrase.get_secret_value()) == (folder / "id", "sesam")
    assert (second.prepare_command, second.python_path) == ("source env.sh", "/opt/python/bin")
    assert found.options.reuse_mode is True


def test_secrets_are_kept_apart_and_show_nowhere(folder):
    found = section(V1, folder)
    assert found.secrets == {"machineList[0].password": "geheim", "machineList[1].sshPassphrase": "sesam"}
    for text in (repr(found), str(found.document()), str(found.settings.canonical())):
        assert "geheim" not in text
        assert "sesam" not in text


def test_reuse_mode_is_explained(folder):
    parsed = parse_experiment_config(V2 + "    - {host: ada, user: me}\n", folder)
    assert any("reuseMode" in note and "agent" in note for note in parsed.notes)


@pytest.mark.parametrize("name", ["prepareCommand", "trialPrepareCommand", "trial_prepare_command"])
def test_the_preparation_has_two_names(folder, name):
    found = section(V2 + f"    - {{host: ada, user: me, {name}: source env.sh}}\n", folder)
    assert found.settings.machine_list[0].prepare_command == "source env.sh"
    assert found.document()["machineList"][0]["prepareCommand"] == "source env.sh"


@pytest.mark.parametrize(("machines", "words"), [
    ("    - {host: ada}", "machineList[0].user"),
    ("    []", "at least 1"),
    ("    - {host: ada, user: me}\n    - {host: ada, user: me, port: 22}", "names the machine me@ada:22 twice"),
    ("    - {host: ada, user: me, port: 99999}", "machineList[0].port"),
    ("    - {host: ada, user: me, hostKey: 'aa:bb'}", "SHA256:"),
    ("    - {host: ada, user: me, sshPassphrase: x}", "sshKeyFile"),
    ("    - {host: ada, user: me, pythonPath: bin}", "absolute path"),
    ("    - {host: ada, user: me, environment: {'a b': c}}", "not a valid name of a variable"),
    ("    - {host: ada, user: me, pasword: x}", "password"),
])
def test_what_is_wrong_is_named(folder, machines, words):
    with pytest.raises(ConfigInvalid) as caught:
        parse_experiment_config(V2 + machines + "\n", folder)
    assert words in str(caught.value.errors)


def test_a_fingerprint_may_have_its_padding():
    text = "SHA256:n4bQgYhMfWWaL+qgxVrQFaO/TxsrC4Is0V1sFbDwCgg"
    assert RemoteMachineSettings(host="a", user="b", host_key=text + "=").host_key == text
    with pytest.raises(ValidationError):
        RemoteMachineSettings(host="a", user="b", host_key="SHA256:short")
