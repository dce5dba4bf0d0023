"""Config files for the openpai platform: both forms, all fields, and what is refused."""

import json

import pytest

from nniweb.experiments.config import parse_experiment_config
from nniweb.experiments.config.errors import ConfigInvalid

V2 = """
trialCommand: python3 t.py
trialConcurrency: 1
searchSpace: {x: {_type: uniform, _value: [0, 1]}}
tuner: {name: Random}
trainingService:
  platform: openpai
  username: ada
  storageConfigName: shared
  localStorageMountPoint: mounted
  containerStorageMountPoint: /mnt/nni
"""
V1 = """
authorName: me
experimentName: v1
trialConcurrency: 1
trainingServicePlatform: pai
searchSpacePath: space.json
useAnnotation: false
tuner: {builtinTunerName: Random}
trial:
  command: python3 t.py
  codeDir: .
  gpuNum: 1
  cpuNum: 2
  memoryMB: 4096
  image: i:1
  virtualCluster: research
  nniManagerNFSMountPath: mounted
  containerNFSMountPath: /mnt/nni
  paiStorageConfigName: shared
"""
PAI = """
paiConfig: {userName: ada, host: pai.lab.example, token: geheim, reuse: true, gpuNum: 3, cpuNum: 5, memoryMB: 999,
            maxTrialNumPerGpu: 1, useActiveGpu: true}
"""
DOCUMENT = """
protocolVersion: 2
name: x
type: job
prerequisites: [{type: dockerimage, name: d, uri: i}]
taskRoles: {worker: {dockerImage: d, resourcePerInstance: {gpu: 0, cpu: 1, memoryMB: 1}, commands: ["true"]}}
"""


def wrong(commands=("true",), **more):
    """A job document with something wrong in it, as JSON, which is YAML too."""
    role = {"dockerImage": "d", "resourcePerInstance": {"gpu": 0, "cpu": 1, "memoryMB": 1},
            "commands": list(commands) if isinstance(commands, tuple) else commands}
    return json.dumps({"protocolVersion": 2, "type": "job", "taskRoles": {"a": role}, **more,
                       "prerequisites": [{"type": "dockerimage", "name": "d", "uri": "i"}]})


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "mounted").mkdir()
    (tmp_path / "job.yml").write_text(DOCUMENT)
    (tmp_path / "space.json").write_text('{"x": {"_type": "uniform", "_value": [0, 1]}}')
    return tmp_path


def parsed(text, folder):
    return parse_experiment_config(text, folder)


def section(text, folder):
    return parsed(text, folder).settings.training_service


def test_a_file_of_the_first_form_means_the_same(folder):
    settings = parsed(V1 + PAI, folder).settings
    found = settings.training_service
    assert found.platform == "openpai"
    assert (found.settings.host, found.settings.username) == ("http://pai.lab.example", "ada")
    assert found.settings.local_storage_mount_point == folder / "mounted"
    assert (found.settings.storage_config_name, found.settings.container_storage_mount_point) == ("shared", "/mnt/nni")
    options = found.options
    assert (options.docker_image, options.virtual_cluster, options.reuse_mode) == ("i:1", "research", True)
    assert (settings.trial_gpu_number, options.trial_cpu_number, options.trial_memory_size) == (3, 5, 999), \
        "numbers of paiConfig win"


def test_what_has_no_meaning_here_is_explained(folder):
    notes = " ".join(parsed(V1 + PAI, folder).notes)
    assert "paiConfig.maxTrialNumPerGpu" in notes
    assert "paiConfig.useActiveGpu" in notes
    assert "each trial is a job of its own" in notes


def test_a_password_of_the_first_form_is_taken(folder):
    found = section(V1 + "paiConfig: {userName: ada, host: 'https://pai', passWord: geheim}\n", folder)
    assert found.settings.host == "https://pai"
    assert found.secrets == {"password": "geheim"}


def test_a_document_is_read_from_its_file_when_the_experiment_is_launched(folder):
    found = section(V1 + "  paiConfigPath: job.yml\n" + PAI, folder)
    assert list(found.options.openpai_config["taskRoles"]) == ["worker"]
    assert found.options.openpai_config_file is None
    again = section(V2 + "  host: h\n  token: t\n  openpaiConfigFile: job.yml\n", folder)
    assert again.options.openpai_config == found.options.openpai_config


def test_secrets_show_nowhere(folder):
    found = section(V1 + PAI, folder)
    assert found.secrets == {"token": "geheim"}
    for text in (repr(found), str(found.document()), str(found.settings.canonical())):
        assert "geheim" not in text


@pytest.mark.parametrize(("host", "address"), [
    ("pai.lab.example", "https://pai.lab.example"), ("http://10.0.0.1:80/", "http://10.0.0.1:80"),
    ("https://pai/", "https://pai")])
def test_a_bare_host_means_https_in_the_second_form(folder, host, address):
    assert section(V2 + f"  host: {host}\n  token: t\n", folder).settings.host == address


@pytest.mark.parametrize(("size", "megabytes"), [(4096, 4096), ("8gb", 8192), ("1.5 GB", 1536), ("1tb", 1024 ** 2),
                                                 ("200000 KB", 196), ("104857601b", 101), ("512", 512)])
def test_memory_may_have_a_unit_and_is_rounded_up(folder, size, megabytes):
    found = section(V2 + f"  host: h\n  token: t\n  trialMemorySize: {size}\n", folder)
    assert found.options.trial_memory_size == megabytes


@pytest.mark.parametrize(("more", "words"), [
    ("  host: h", "token is required"),
    ("  token: t", "trainingService.host"),
    ('  host: h\n  token: "t\\n"', "must be one word of plain characters"),
    ("  host: h\n  token: “t”", "must be one word of plain characters"),
    ("  host: h\n  token: t\n  password: secret-word", "cannot be given together"),
    ("  host: 'ftp://h'\n  token: t", "https://pai.lab.example"),
    ("  host: h\n  token: t\n  trialMemorySize: much", "4gb"),
    (f"  host: h\n  token: t\n  trialMemorySize: {'9' * 400}gb", "more than any machine has"),
    ("  host: h\n  token: t\n  trialCpuNumber: 0", "at least 1"),
    ("  host: h\n  token: t\n  virtualCluster: a-b", "virtualCluster"),
    ("  host: h\n  token: t\n  openpaiConfig: {name: x}", "taskRoles"),
    *((f"  host: h\n  token: t\n  openpaiConfig: {wrong(**change)}", words) for change, words in (
        ({"commands": "python3 t.py"}, "taskRoles.a.commands must be a list"),
        ({"commands": []}, "taskRoles.a.commands"), ({"secrets": "s"}, "secrets must be a mapping"),
        ({"extras": {"storages": {}}}, "extras.storages must be a list"),
        ({"defaults": "research"}, "defaults must be a mapping"), ({"commands": ["<% x"]}, "without its %>"))),
    ("  host: h\n  token: t\n  openpaiConfigFile: nowhere.yml", "nowhere.yml"),
    ("  host: h\n  token: t\n  openpaiConfigFile: job.yml\n  openpaiConfig: {taskRoles: {}}", "be given together"),
    ("  host: h\n  token: t\n  channel: pigeon", "auto"),
])
def test_what_is_wrong_is_named(folder, more, words):
    with pytest.raises(ConfigInvalid) as caught:
        parse_experiment_config(V2 + more + "\n", folder)
    assert words in str(caught.value.errors)


def test_a_storage_that_is_not_mounted_is_named(folder):
    (folder / "mounted").rmdir()
    with pytest.raises(ConfigInvalid) as caught:
        parse_experiment_config(V2 + "  host: h\n  token: t\n", folder)
    assert "mount the storage there" in str(caught.value.errors)


YARN = """
authorName: me
experimentName: old
trialConcurrency: 1
trainingServicePlatform: paiYarn
searchSpacePath: space.json
tuner: {builtinTunerName: Random}
trial: {command: python3 t.py, codeDir: ., gpuNum: 1, cpuNum: 2, memoryMB: 4096, shmMB: 1024, image: i,
        virtualCluster: vc}
paiYarnConfig: {userName: ada, passWord: geheim, host: 10.0.0.9}
"""


@pytest.mark.parametrize("text", [YARN, YARN.replace("paiYarn", "pai")], ids=["paiYarn", "pai"])
def test_the_oldest_form_has_no_storage_and_is_todays_openpai(folder, text):
    found = section(text, folder)
    assert found.platform == "openpai"
    assert (found.settings.host, found.settings.username) == ("http://10.0.0.9", "ada")
    assert found.settings.local_storage_mount_point is None
    assert found.settings.must_call_home()
    assert found.settings.borrowed_from_the_server() == "", "it uses nothing of the server's"
    assert (found.options.shm_size, found.options.virtual_cluster) == (1024, "vc")
    assert found.secrets == {"password": "geheim"}
    notes = " ".join(parsed(text, folder).notes)
    assert ("clusters on YARN are not asked" in notes) == ("Yarn" in text)


def test_a_plugin_stands_for_the_accounts_default_storage(folder):
    text = (V1 + PAI).replace("paiStorageConfigName: shared", "paiStoragePlugin: teamwise_storage")
    found = section(text, folder)
    assert found.settings.storage_config_name is None
    assert found.settings.local_storage_mount_point == folder / "mounted"
    assert not found.settings.must_call_home()
    assert "trial.paiStoragePlugin: not needed" in " ".join(parsed(text, folder).notes)


@pytest.mark.parametrize(("left_out", "words"), [
    ("  localStorageMountPoint: mounted\n", "a storage needs localStorageMountPoint"),
    ("  containerStorageMountPoint: /mnt/nni\n", "a storage needs localStorageMountPoint")])
def test_half_of_a_storage_is_refused(folder, left_out, words):
    with pytest.raises(ConfigInvalid) as caught:
        parse_experiment_config(V2.replace(left_out, "") + "  host: h\n  token: t\n", folder)
    assert words in str(caught.value.errors)


@pytest.mark.parametrize(("field", "way"), [("authFile: auth.txt", "prerequisites"),
                                            ("portList: [{label: web, beginAt: 8080, portNumber: 1}]",
                                             "resourcePerInstance")])
def test_what_only_yarn_knew_is_refused_with_the_way(folder, field, way):
    with pytest.raises(ConfigInvalid) as caught:
        parse_experiment_config(YARN.replace("shmMB: 1024", field), folder)
    [error] = caught.value.errors
    assert error.field == f"trial.{field.partition(':')[0]}"
    assert way in error.message


def test_several_trials_on_a_gpu_are_refused(folder):
    with pytest.raises(ConfigInvalid, match="paiConfig.maxTrialNumPerGpu: must be 1 here"):
        parse_experiment_config(V1 + PAI.replace("maxTrialNumPerGpu: 1", "maxTrialNumPerGpu: 2"), folder)
