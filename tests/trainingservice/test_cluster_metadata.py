"""NNI's metadata keys: their JSON is another form of a platform's settings, in the words of NNI's v1 files."""

import json
from typing import Any

import pytest
from pydantic import ValidationError

from trainingservice.base import ServiceContext
from trainingservice.cluster_metadata.keys import MetadataKey
from trainingservice.cluster_settings import without_secrets
from trainingservice.errors import InvalidMetadata
from trainingservice.local.config import LocalClusterSettings
from trainingservice.local.service import LocalTrainingService
from trainingservice.platforms import BUILT_IN, load_platform
from trainingservice.remote.config import RemoteClusterSettings
from trainingservice.remote.service import RemoteTrainingService

#: What the launcher of NNI 1.7 sent, and what of it is settings here.
PAI_STORAGE = {"storageConfigName": "team", "localStorageMountPoint": "/mnt/team", "containerStorageMountPoint": "/mnt"}
SENT: dict[str, tuple[str, str, Any, dict[str, Any], dict[str, Any]]] = {
    "remote": ("remote", "machine_list", [
        {"ip": "10.1.1.1", "port": 2222, "username": "bob", "passwd": "sesame", "gpuIndices": "0,1",
         "maxTrialNumPerGpu": 2, "useActiveGpu": True},
        {"ip": "10.1.1.2", "port": 22, "username": "bob", "sshKeyPath": "/keys/id", "passphrase": "open"}], {}, {
            "machineList": [
                {"host": "10.1.1.1", "port": 2222, "user": "bob", "useActiveGpu": True, "maxTrialNumberPerGpu": 2,
                 "gpuIndices": [0, 1], "environment": {}},
                {"host": "10.1.1.2", "port": 22, "user": "bob", "sshKeyFile": "/keys/id", "useActiveGpu": False,
                 "maxTrialNumberPerGpu": 1, "environment": {}}], "lostAfter": 3600.0}),
    "pai": ("openpai", "pai_config", {"userName": "ada", "passWord": "sesame", "host": "10.10.10.10", "reuse": False},
            PAI_STORAGE, {"username": "ada", "host": "http://10.10.10.10", **PAI_STORAGE}),
    "pai's trials": ("openpai", "trial_config", {
        "command": "python3 t.py", "codeDir": "/code", "gpuNum": 1, "cpuNum": 2, "memoryMB": 8196, "image": "nni",
        "virtualCluster": "default", "nniManagerNFSMountPath": "/mnt/own", "containerNFSMountPath": "/mnt/there",
        "paiStorageConfigName": "own"}, {"username": "ada", "host": "https://pai", "token": "t"}, {
            "username": "ada", "host": "https://pai", "storageConfigName": "own", "localStorageMountPoint": "/mnt/own",
            "containerStorageMountPoint": "/mnt/there"}),
    "kubeflow": ("kubeflow", "kubeflow_config", {
        "operator": "tf-operator", "apiVersion": "v1", "storage": "nfs", "nfs": {"server": "10.0.0.2", "path": "/nfs"}},
        {}, {"namespace": "default", "storage": {"storageType": "nfs", "server": "10.0.0.2", "path": "/nfs"},
             "wayHome": "network", "maxUnfinishedObjects": 200, "operator": "tf-operator", "apiVersion": "v1"}),
    "kubeflow on Azure": ("kubeflow", "kubeflow_config", {
        "operator": "pytorch-operator", "storage": "azureStorage", "keyVault": {"vaultName": "v", "name": "key"},
        "azureStorage": {"accountName": "acc", "azureShare": "share"}, "uploadRetryCount": 3}, {}, {
            "namespace": "default", "storage": {
                "storageType": "azureStorage", "azureAccount": "acc", "azureShare": "share", "keyVaultName": "v",
                "keyVaultKey": "key"},
            "wayHome": "network", "maxUnfinishedObjects": 200, "operator": "pytorch-operator", "apiVersion": "v1"}),
    "frameworkcontroller": ("frameworkcontroller", "frameworkcontroller_config", {
        "storage": "pvc", "pvc": {"path": "/pvc"}, "serviceAccountName": "runner", "namespace": "lab"}, {}, {
            "namespace": "lab", "storage": {"storageType": "pvc", "path": "/pvc"}, "wayHome": "network",
            "maxUnfinishedObjects": 200}),
    "dlts": ("dlts", "dlts_config", {"dashboard": "dlts.lab", "cluster": ".default", "team": "lab",
                                     "email": "ada@lab", "password": "0" * 32}, {}, {
        "dashboard": "http://dlts.lab/", "cluster": ".default", "team": "lab", "email": "ada@lab"}),
    "aml": ("azureml", "aml_config", {"subscriptionId": "s", "resourceGroup": "g", "workspaceName": "w",
                                      "computeTarget": "gpus", "maxTrialNumPerGpu": 1}, {}, {
        "subscriptionId": "s", "resourceGroup": "g", "workspaceName": "w", "computeTarget": "gpus",
        "managedIdentity": False}),
    "aml's trials": ("azureml", "trial_config", {"codeDir": "/code", "command": "c", "image": "i",
                                                 "computeTarget": "gpus"},
                     {"subscriptionId": "s", "resourceGroup": "g", "workspaceName": "w", "computeTarget": "cpus"}, {
        "subscriptionId": "s", "resourceGroup": "g", "workspaceName": "w", "computeTarget": "gpus",
        "managedIdentity": False}),
}


def key_of(platform: str, key: str) -> MetadataKey:
    return load_platform(platform).nni_metadata()[key]


@pytest.mark.parametrize("name", sorted(SENT))
def test_what_nni_sent_is_settings_and_the_settings_say_it_again(name: str) -> None:
    platform, key, sent, before, settings = SENT[name]
    known, model = key_of(platform, key), load_platform(platform).settings_model
    parts = known.read(json.dumps(sent))
    made = model.model_validate(known.changed(before, parts))
    assert without_secrets(made) == settings
    again, rest = known.applied(made, known.shown(without_secrets(made), parts.rest))
    assert again == made, "secrets that are left out stay"
    assert rest == parts.rest


def test_the_words_shown_are_nnis_and_hold_no_secret() -> None:
    known = key_of("remote", "machine_list")
    platform, _, sent, _, settings = SENT["remote"]
    shown = json.loads(known.shown(settings, {}))
    assert shown[0] == {"ip": "10.1.1.1", "port": 2222, "username": "bob", "useActiveGpu": True, "maxTrialNumPerGpu": 2,
                        "gpuIndices": [0, 1], "environment": {}}
    assert shown[1]["sshKeyPath"] == "/keys/id"
    assert "sesame" not in str(shown)
    storage = key_of("kubeflow", "kubeflow_config")
    shown = json.loads(storage.shown(SENT["kubeflow"][4], {}))
    assert (shown["storage"], shown["nfs"]) == ("nfs", {"server": "10.0.0.2", "path": "/nfs"})
    # what NNI has no words for is shown in the settings' own
    mounted = {"storage": {"storageType": "nfs", "server": "s", "path": "/p", "localMountPoint": "/mnt"}}
    assert json.loads(storage.shown(mounted, {})) == mounted


def test_what_is_meant_for_experiments_is_kept_apart_in_their_own_words() -> None:
    parts = key_of("openpai", "trial_config").read(json.dumps(SENT["pai's trials"][2]))
    assert parts.experiment == {"trialCommand": "python3 t.py", "trialCodeDirectory": "/code", "trialGpuNumber": 1}
    assert parts.options == {"trialCpuNumber": 2, "trialMemorySize": 8196, "dockerImage": "nni",
                             "virtualCluster": "default"}
    parts = key_of("kubeflow", "trial_config").read(json.dumps({"codeDir": "/c", "worker": {
        "replicas": 2, "command": "w", "gpuNum": 1, "cpuNum": 1, "memoryMB": 100, "image": "i"}}))
    assert parts.options["worker"]["gpuNumber"] == 1
    parts = key_of("frameworkcontroller", "trial_config").read(json.dumps({"codeDir": "/c", "taskRoles": [{
        "name": "worker", "taskNum": 1, "command": "w", "gpuNum": 0, "cpuNum": 1, "memoryMB": 100, "image": "i",
        "frameworkAttemptCompletionPolicy": {"minFailedTaskCount": 1, "minSucceededTaskCount": 1}}]}))
    assert parts.options["taskRoles"][0]["frameworkAttemptCompletionPolicy"] == {
        "minFailedTaskCount": 1, "minSucceedTaskCount": 1}
    assert key_of("local", "nni_manager_ip").read('{"nniManagerIp": "10.0.0.5"}').experiment == {
        "nniManagerIp": "10.0.0.5"}


@pytest.mark.parametrize(("platform", "key", "value", "field"), [
    ("remote", "machine_list", "x", "machine_list"), ("remote", "machine_list", "{}", "machine_list"),
    ("remote", "machine_list", "[]", "machine_list"),
    ("remote", "machine_list", "[7]", "machine_list[0]"),
    ("remote", "machine_list", '[{"ip": "a", "username": "b", "pasword": "c"}]', "machine_list[0].pasword"),
    ("remote", "machine_list", '[{"username": "b"}]', "machine_list[0].ip"),
    ("remote", "machine_list", '[{"ip": "a", "username": "b", "port": "x"}]', "machine_list[0].port"),
    ("remote", "remote_config", '{"lostAfter": -1}', "remote_config.lostAfter"),
    ("remote", "trial_config", '{"comand": "c"}', "trial_config.comand"),
    ("remote", "trial_config", '{"codeDir": "code"}', "trial_config.codeDir"),
    ("remote", "trial_config", '{"gpuNum": "many"}', "trial_config.gpuNum"),
    ("remote", "nni_manager_ip", '{"nniManagerIp": ""}', "nni_manager_ip.nniManagerIp"),
    ("remote", "nni_manager_ip", '"10.0.0.5"', "nni_manager_ip")])
def test_what_is_wrong_is_named_in_the_words_in_which_it_was_given(tmp_path, platform, key, value, field) -> None:
    settings = RemoteClusterSettings.model_validate({"machineList": [{"host": "h", "user": "u", "password": "p"}]})
    service = RemoteTrainingService(settings, ServiceContext("c", tmp_path))
    with pytest.raises(InvalidMetadata) as refusal:
        service.set_cluster_metadata(key, value)
    assert refusal.value.field == field
    assert service.settings == settings
    service.clean_up()


MACHINE = {"ip": "10.1.1.1", "username": "bob"}


@pytest.mark.parametrize(("platform", "key", "value", "field", "words"), [
    ("remote", "machine_list", [{**MACHINE, "host": "10.1.1.2"}], "machine_list[0].host", "is ip under another name"),
    ("remote", "machine_list", [MACHINE, {**MACHINE, "passwd": "a", "password": "b"}], "machine_list[1].password",
     "is passwd under another name; give one of them"),
    ("openpai", "pai_config", {"userName": "ada", "username": "eve"}, "pai_config.username", "is userName under"),
    ("kubeflow", "kubeflow_config", '{"operator": "a", "operator": "b"}', "kubeflow_config",
     "must be JSON in which each name of an object is there once"),
])
def test_one_field_that_is_given_twice_is_not_chosen_from(platform: str, key: str, value: Any, field: str, words: str
                                                          ) -> None:
    with pytest.raises(InvalidMetadata) as refused:
        key_of(platform, key).read(value if isinstance(value, str) else json.dumps(value))
    assert refused.value.field == field
    assert words in refused.value.message


@pytest.mark.parametrize(("value", "problems"), [
    ([{}], {"machine_list[0].ip", "machine_list[0].username"}),
    ([MACHINE, {}], {"machine_list[1].ip", "machine_list[1].username"}),
    ([{}, MACHINE], {"machine_list[0].ip", "machine_list[0].username"}),
    ([{**MACHINE, "passwd": {"x": 1}}], {"machine_list[0].passwd"}),
])
def test_an_entry_that_says_nothing_is_an_entry(value: list[dict[str, Any]], problems: set[str]) -> None:
    key = key_of("remote", "machine_list")
    parts = key.read(json.dumps(value))
    assert len(parts.settings["machineList"]) == len(value)
    with pytest.raises(ValidationError) as refused:
        RemoteClusterSettings.model_validate(parts.settings)
    assert problems <= {key.place_of(error["loc"], parts) for error in refused.value.errors()}


def test_a_password_takes_the_place_of_a_token() -> None:
    known, model = key_of("openpai", "pai_config"), load_platform("openpai").settings_model
    before = model.model_validate({"host": "h", "username": "ada", "token": "t", **PAI_STORAGE})
    after, _ = known.applied(before, '{"host": "h", "userName": "ada", "passWord": "sesame"}')
    seen = after.model_dump()
    assert (seen["token"], seen["password"].get_secret_value()) == (None, "sesame")


def test_a_machines_secret_stays_only_with_that_machine() -> None:
    known = key_of("remote", "machine_list")
    before = RemoteClusterSettings.model_validate({"machineList": [
        {"host": "a", "user": "u", "password": "pw-a"}, {"host": "b", "user": "u", "password": "pw-b"}]})
    after, _ = known.applied(before, '[{"ip": "b", "username": "u", "maxTrialNumPerGpu": 2}, '
                                     '{"ip": "c", "username": "u"}, {"ip": "a", "username": "u"}]')
    assert isinstance(after, RemoteClusterSettings)
    kept = [machine.password and machine.password.get_secret_value() for machine in after.machine_list]
    assert kept == ["pw-b", None, "pw-a"]
    with pytest.raises(InvalidMetadata, match=r"another host \(it was \"b\" and is \"c\" now\)") as refusal:
        known.applied(before, '[{"ip": "a", "username": "u"}, {"ip": "c", "username": "u"}]')
    assert refusal.value.field == "machine_list[1].passwd"


def test_a_service_does_not_send_a_token_to_another_host() -> None:
    known, model = key_of("openpai", "pai_config"), load_platform("openpai").settings_model
    before = model.model_validate({"host": "h", "username": "ada", "token": "t", **PAI_STORAGE})
    with pytest.raises(InvalidMetadata, match="was given for another host") as refusal:
        known.applied(before, json.dumps({"host": "other", "userName": "ada"}))
    assert refusal.value.field == "pai_config.token"


def test_metadata_of_a_platforms_own_outlive_the_change_of_its_settings(tmp_path) -> None:
    service = RemoteTrainingService(RemoteClusterSettings.model_validate({"machineList": [{"host": "h", "user": "u"}]}),
                                    ServiceContext("c", tmp_path))
    keys = '{"10.0.0.5": "SHA256:n4bQgYhMfWWaL+qgxVrQFaO/TxsrC4Is0V1sFbDwCgg"}'
    service.set_cluster_metadata("host_keys", keys)
    heard: list[object] = []
    service.add_trial_job_metric_listener(heard.append)
    service.set_cluster_metadata("machine_list", '[{"ip": "10.0.0.5", "username": "ada"}]')
    assert service.get_cluster_metadata("host_keys") == keys
    assert [machine.address for machine in service._settings.machine_list] == ["ada@10.0.0.5:22"]
    assert service._listeners == [heard.append]
    service.clean_up()


def test_a_key_that_the_platform_names_itself_is_its_own_business(tmp_path) -> None:
    assert "local_config" not in LocalTrainingService.nni_metadata()
    service = LocalTrainingService(LocalClusterSettings(), ServiceContext("c", tmp_path))
    service.set_cluster_metadata("local_config", '{"gpuIndices": "1"}')
    assert service.get_cluster_metadata("local_config") == '{"gpuIndices": "1"}'
    assert service.get_cluster_metadata("trial_config") == ""
    service.clean_up()


def test_each_platform_lists_its_keys_with_their_meanings() -> None:
    main = {"azureml": "aml_config", "openpai": "pai_config", "local": "local_config", "remote": "machine_list"}
    for name in BUILT_IN:
        meanings = load_platform(name).metadata_meanings()
        assert {"trial_config", "nni_manager_ip", main.get(name, f"{name}_config")} <= meanings.keys()
        assert all(meaning.endswith(".") for meaning in meanings.values())
