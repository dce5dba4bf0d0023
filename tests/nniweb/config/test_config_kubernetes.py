"""Experiment files for Kubernetes: both forms of NNI, commands in roles, sizes with units."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nniweb.experiments.config import ConfigInvalid, parse_experiment_config
from nniweb.experiments.config.code_roots import Closed, CodeRoots
from nniweb.experiments.config.platform_section import parse_stored_section
from nniweb.experiments.config.resolved import resolved_document


@pytest.fixture
def kubeflow_v2(v2: dict[str, Any]) -> dict[str, Any]:
    del v2["trialCommand"], v2["trialGpuNumber"]
    role = {"replicas": 1, "command": "python3 train.py", "gpuNumber": 1, "cpuNumber": 2, "memorySize": "8gb",
            "dockerImage": "example/trial:1"}
    return v2 | {"trainingService": {
        "platform": "kubeflow", "operator": "tf-operator", "apiVersion": "v1",
        "worker": role, "ps": {**role, "command": "python3 serve.py", "gpuNumber": 0},
        "storage": {"storageType": "nfs", "server": "10.10.10.10", "path": "/exports"}}}


def options_of(config: dict[str, Any], folder: Path):
    section = parse_experiment_config(config, folder).settings.training_service
    assert section is not None
    return section.options


def test_the_first_form_says_the_same(folder: Path, kubeflow_v2: dict[str, Any], v1: dict[str, Any]) -> None:
    role = {"replicas": 1, "command": "python3 train.py", "gpuNum": 1, "cpuNum": 2, "memoryMB": 8192,
            "image": "example/trial:1"}
    del v1["localConfig"]
    v1["trainingServicePlatform"] = "kubeflow"
    v1["trial"] = {"codeDir": "code", "worker": role, "ps": {**role, "command": "python3 serve.py", "gpuNum": 0}}
    v1["kubeflowConfig"] = {"operator": "tf-operator", "apiVersion": "v1", "storage": "nfs", "uploadRetryCount": 2,
                            "nfs": {"server": "10.10.10.10", "path": "/exports"}}
    first = parse_experiment_config(v1, folder)
    assert first.settings.training_service == parse_experiment_config(kubeflow_v2, folder).settings.training_service
    assert any("uploadRetryCount" in note for note in first.notes)


def test_the_command_of_the_role_that_reports_is_the_trials(folder: Path, kubeflow_v2: dict[str, Any]) -> None:
    assert parse_experiment_config(kubeflow_v2, folder).settings.trial_command == "python3 train.py"
    del kubeflow_v2["trainingService"]["worker"]["command"]
    with pytest.raises(ConfigInvalid) as refusal:
        parse_experiment_config(kubeflow_v2, folder)
    assert "trialCommand" in str(refusal.value)


@pytest.mark.parametrize(("written", "mebibytes"), [("4gb", 4096), ("512 MB", 512), ("1.5g", 1536), (2048, 2048),
                                                    ("2048", 2048), ("1tb", 1048576), ("4Gi", 4096), ("100kb", 1)])
def test_sizes_of_memory_have_units_or_are_megabytes(folder: Path, kubeflow_v2: dict[str, Any], written: object,
                                                     mebibytes: int) -> None:
    kubeflow_v2["trainingService"]["worker"]["memorySize"] = written
    assert options_of(kubeflow_v2, folder).worker.memory_size == mebibytes


@pytest.mark.parametrize(("path", "value", "sentence"), [
    (("worker", "memorySize"), "lots", "megabytes"),
    (("worker", "replicas"), 0, "must be at least 1"),
    (("operator",), "mxnet-operator", "tf-operator"),
    (("namespace",), "Not_A_Name", "namespace"),
    (("storage", "storageType"), "floppy", "nfs"),
    (("storage", "server"), None, "server is required for nfs"),
    (("apiVersion",), "v2beta1", "only for mpi-operator"),
])
def test_only_what_is_wrong_is_told_and_at_its_field(folder: Path, kubeflow_v2: dict[str, Any], path: tuple[str, ...],
                                             value: object, sentence: str) -> None:
    place = kubeflow_v2["trainingService"]
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(ConfigInvalid) as refusal:
        parse_experiment_config(kubeflow_v2, folder)
    [error] = refusal.value.errors
    assert error.field.startswith(f"trainingService.{path[0]}") or error.field == "trainingService"
    assert sentence in str(refusal.value)


@pytest.mark.parametrize("spelling", ["minSucceedTaskCount", "minSucceededTaskCount"])
def test_both_spellings_of_the_completion_policy_are_understood(folder: Path, v2: dict[str, Any],
                                                                spelling: str) -> None:
    v2["trainingService"] = {"platform": "frameworkcontroller", "serviceAccountName": "barrier", "taskRoles": [
        {"name": "worker", "taskNumber": 2, "dockerImage": "example/trial:1",
         "frameworkAttemptCompletionPolicy": {"minFailedTaskCount": 2, spelling: 2}}]}
    [role] = options_of(v2, folder).task_roles
    assert role.replicas == 2
    assert role.framework_attempt_completion_policy.min_succeed_task_count == 2


def test_files_of_nni_2_0_to_2_3_say_the_same_of_kubeflow(folder: Path, kubeflow_v2: dict[str, Any]) -> None:
    section = kubeflow_v2["trainingService"]
    azure = {"azureAccount": "account", "azureShare": "share"}
    section["storage"] = {"storageType": "azureStorage", **azure, "keyVaultName": "vault", "keyVaultKey": "key"}
    today = parse_experiment_config(kubeflow_v2, folder).settings
    older = {key: value for key, value in section.items() if key not in ("ps", "storage")} | {
        "parameterServer": section["ps"],
        "storage": {"storage": "azureStorage", **azure, "keyVault": "vault", "keyVaultSecret": "key"}}
    assert parse_experiment_config(kubeflow_v2 | {"trainingService": older}, folder).settings == today


def test_nnis_own_classes_name_the_kind_of_storage_twice(folder: Path, kubeflow_v2: dict[str, Any]) -> None:
    storage = kubeflow_v2["trainingService"]["storage"] | {"storage": "nfs", "azureAccount": None}
    expected = parse_experiment_config(kubeflow_v2, folder).settings
    kubeflow_v2["trainingService"]["storage"] = storage
    assert parse_experiment_config(kubeflow_v2, folder).settings == expected
    storage["storage"] = "pvc"
    with pytest.raises(ConfigInvalid, match="is the same field as trainingService.storage.storageType"):
        parse_experiment_config(kubeflow_v2, folder)


@pytest.mark.parametrize("succeeded", ["attemptCompletionMinSucceededTasks", "attemptCompletionMinSucceedTasks"])
def test_files_of_nni_2_0_to_2_4_say_the_same_of_frameworks(folder: Path, v2: dict[str, Any], succeeded: str) -> None:
    role = {"name": "worker", "taskNumber": 2, "command": "python3 train.py", "dockerImage": "example/trial:1",
            "attemptCompletionMinFailedTasks": 2, succeeded: 1}
    v2["trainingService"] = {"platform": "frameworkcontroller", "taskRoles": [role]}
    [older] = options_of(v2, folder).task_roles
    assert (older.completion_policy.min_failed_task_count, older.completion_policy.min_succeed_task_count) == (2, 1)
    role["frameworkAttemptCompletionPolicy"] = {"minFailedTaskCount": 1}
    with pytest.raises(ConfigInvalid, match="not both"):
        parse_experiment_config(v2, folder)


@pytest.mark.parametrize("platform", ["kubeflow", "frameworkcontroller"])
def test_what_only_nnis_manager_knows_is_accepted_and_general_fields_may_be_empty(
        folder: Path, kubeflow_v2: dict[str, Any], platform: str) -> None:
    section = kubeflow_v2["trainingService"]
    if platform == "frameworkcontroller":
        role = {**section["worker"], "name": "worker", "taskNumber": 1}
        del role["replicas"]
        section = {"platform": platform, "apiVersion": "v1", "storage": section["storage"],
                   "serviceAccountName": None, "taskRoles": [role]}
    kubeflow_v2["trainingService"] = {**section, "maxTrialNumberPerGpu": 1, "reuseMode": True,
                                      "trialCommand": "", "trialCodeDirectory": ""}
    settings = parse_experiment_config(kubeflow_v2, folder).settings
    assert settings.trial_command == "python3 train.py"
    assert settings.trial_code_directory == (folder / "code").resolve()


def test_a_role_whose_pods_could_not_be_named_is_refused_by_name(folder: Path, v2: dict[str, Any]) -> None:
    v2["trainingService"] = {"platform": "frameworkcontroller",
                             "taskRoles": [{"name": "w" * 45, "taskNumber": 1}]}
    with pytest.raises(ConfigInvalid) as refusal:
        parse_experiment_config(v2, folder)
    assert f"role {'w' * 45}" in str(refusal.value)
    assert "63" in str(refusal.value)


def test_the_keys_of_an_account_are_secrets(folder: Path, v2: dict[str, Any]) -> None:
    v2["trainingService"] = {"platform": "kubernetes", "storage": {
        "storageType": "azureStorage", "azureAccount": "account", "azureShare": "share", "azureAccountKey": "s3cret"}}
    parsed = parse_experiment_config(v2, folder)
    section = parsed.settings.training_service
    assert section is not None
    assert section.secrets == {"storage.azureAccountKey": "s3cret"}
    assert "s3cret" not in parsed.original_text + repr(parsed) + str(section.document())


def test_reuse_mode_is_accepted_and_explained(folder: Path, v2: dict[str, Any]) -> None:
    v2["trainingService"] = {"platform": "kubernetes", "reuseMode": True}
    notes = parse_experiment_config(v2, folder).notes
    assert any("reuseMode" in note and "pods of its own" in note for note in notes)


@pytest.mark.parametrize(("platform", "more"), [
    ("kubeflow", {}), ("kubernetes", {}),
    ("azureml", {"subscriptionId": "s", "resourceGroup": "g", "workspaceName": "w", "computeTarget": "c"})])
def test_several_trials_on_a_gpu_are_refused_where_a_job_has_its_gpus_alone(
        folder: Path, kubeflow_v2: dict[str, Any], platform: str, more: dict[str, str]) -> None:
    section = {"platform": platform, **more} if platform != "kubeflow" else kubeflow_v2["trainingService"]
    kubeflow_v2 |= {"trialCommand": "true", "trainingService": {**section, "maxTrialNumberPerGpu": 1}}
    parse_experiment_config(kubeflow_v2, folder)
    kubeflow_v2["trainingService"]["maxTrialNumberPerGpu"] = 2
    with pytest.raises(ConfigInvalid) as refusal:
        parse_experiment_config(kubeflow_v2, folder)
    assert refusal.value.errors[0].field == "trainingService.maxTrialNumberPerGpu"
    assert refusal.value.errors[0].message.startswith("must be 1 here, because ")
    assert ("gpuResource" in str(refusal.value)) == (platform != "azureml")
    assert parse_stored_section(kubeflow_v2["trainingService"], {}).platform == platform, "a stored one stays readable"


def test_the_folder_that_all_roles_name_is_the_trials(folder: Path, kubeflow_v2: dict[str, Any]) -> None:
    section = kubeflow_v2["trainingService"]
    del kubeflow_v2["trialCodeDirectory"]
    section["worker"]["codeDirectory"], section["ps"]["codeDirectory"] = "code", "./code/"
    settings = parse_experiment_config(kubeflow_v2, folder).settings
    assert settings.trial_code_directory == folder / "code"
    assert settings.training_service is not None
    assert "codeDirectory" not in str(settings.training_service.document())


@pytest.mark.parametrize("place", ["file", "roles"])
def test_roles_with_folders_of_their_own_keep_them(folder: Path, kubeflow_v2: dict[str, Any], place: str) -> None:
    (folder / "other").mkdir()
    section = kubeflow_v2["trainingService"]
    section["ps"]["codeDirectory"] = "other"
    if place == "roles":
        del kubeflow_v2["trialCodeDirectory"]
        section["worker"]["codeDirectory"] = "code"
    settings = parse_experiment_config(kubeflow_v2, folder).settings
    assert settings.trial_code_directory == folder / "code", "where the role that reports works"
    assert settings.training_service is not None
    assert [(part.name, part.folder, part.commands) for part in settings.training_service.options.code_parts()] == [
        ("worker", str(folder / "code"), ("python3 train.py",)), ("ps", str(folder / "other"), ("python3 serve.py",))]
    again = parse_experiment_config(resolved_document(settings)).settings
    assert resolved_document(again) == resolved_document(settings)


def test_roles_that_name_the_same_folder_share_one_copy_of_it(folder: Path, kubeflow_v2: dict[str, Any]) -> None:
    (folder / "other").mkdir()
    section = kubeflow_v2["trainingService"]
    section["chief"] = {**section["worker"], "codeDirectory": "other"}
    section["ps"]["codeDirectory"] = "./other/"
    [first, second] = options_of(kubeflow_v2, folder).code_parts()
    assert (first.name, first.commands) == ("chief", ("python3 train.py", "python3 serve.py"))
    assert (second.name, second.folder) == ("worker", str(folder / "code"))


def test_the_roles_of_a_framework_keep_their_folders(folder: Path, v2: dict[str, Any]) -> None:
    (folder / "code" / "inner").mkdir()
    v2["trainingService"] = {"platform": "frameworkcontroller", "taskRoles": [
        {"name": "ps", "taskNumber": 1, "codeDirectory": "code/inner"},
        {"name": "worker", "taskNumber": 1, "codeDirectory": "code"}]}
    assert [(part.name, part.folder) for part in options_of(v2, folder).code_parts()] == [
        ("worker", str(folder / "code")), ("ps", str(folder / "code" / "inner"))]


def test_a_folder_that_is_not_there_is_an_error_at_its_role(folder: Path, v2: dict[str, Any]) -> None:
    v2["trainingService"] = {"platform": "frameworkcontroller", "taskRoles": [
        {"name": "worker", "taskNumber": 1, "codeDirectory": "code"},
        {"name": "ps", "taskNumber": 1, "codeDirectory": "nowhere"}]}
    with pytest.raises(ConfigInvalid) as refusal:
        parse_experiment_config(v2, folder)
    [error] = refusal.value.errors
    assert error.field == "trainingService.taskRoles[1].codeDirectory"
    assert f"there is no folder {folder / 'nowhere'}" in error.message


def test_the_folder_of_a_role_must_be_one_that_the_person_may_name(folder: Path, kubeflow_v2: dict[str, Any]) -> None:
    (folder / "secrets").mkdir()
    kubeflow_v2["trainingService"]["ps"]["codeDirectory"] = "secrets"
    roots = CodeRoots((folder,), (Closed(folder / "secrets", "the server's keys"),))
    with pytest.raises(ConfigInvalid) as refusal:
        parse_experiment_config(kubeflow_v2, folder, roots=roots)
    assert [error.field for error in refusal.value.errors] == ["trainingService.ps.codeDirectory"]


def test_a_role_without_a_folder_between_roles_with_different_ones_needs_trial_code_directory(
        folder: Path, kubeflow_v2: dict[str, Any]) -> None:
    (folder / "other").mkdir()
    section = kubeflow_v2["trainingService"]
    section["chief"] = dict(section["worker"])
    section["worker"]["codeDirectory"], section["ps"]["codeDirectory"] = "code", "other"
    parts = options_of(kubeflow_v2, folder).code_parts()
    assert [(part.name, Path(part.folder).name) for part in parts] == [("chief", "code"), ("ps", "other")]
    del kubeflow_v2["trialCodeDirectory"]
    with pytest.raises(ConfigInvalid) as refusal:
        parse_experiment_config(kubeflow_v2, folder)
    [error] = refusal.value.errors
    assert error.field == "trainingService.chief.codeDirectory"
    assert "is required" in error.message


def test_a_file_whose_roles_all_name_a_folder_is_told_that_the_general_one_is_not_used(
        folder: Path, kubeflow_v2: dict[str, Any]) -> None:
    (folder / "other").mkdir()
    (folder / "third").mkdir()
    section = kubeflow_v2["trainingService"]
    section["worker"]["codeDirectory"], section["ps"]["codeDirectory"] = "other", "third"
    parsed = parse_experiment_config(kubeflow_v2, folder)
    assert parsed.settings.trial_code_directory == folder / "other"
    assert any(note.startswith("trialCodeDirectory: not used") for note in parsed.notes)


def test_the_workers_of_mpi_get_no_code_and_so_no_folder(folder: Path, kubeflow_v2: dict[str, Any]) -> None:
    (folder / "other").mkdir()
    section = kubeflow_v2["trainingService"]
    section["operator"], section["launcher"] = "mpi-operator", section["worker"]
    del section["ps"]
    section["worker"] = {"replicas": 2, "dockerImage": "example/trial:1"}
    section["launcher"]["codeDirectory"] = "other"
    settings = parse_experiment_config(kubeflow_v2, folder).settings
    assert settings.trial_code_directory == folder / "other"
    assert settings.training_service is not None
    assert not settings.training_service.options.code_parts()
    section["worker"]["codeDirectory"] = "code"
    with pytest.raises(ConfigInvalid, match="worker.codeDirectory"):
        parse_experiment_config(kubeflow_v2, folder)


def test_annotations_are_read_from_the_folders_of_all_roles(folder: Path, kubeflow_v2: dict[str, Any]) -> None:
    (folder / "other").mkdir()
    del kubeflow_v2["searchSpaceFile"]
    kubeflow_v2["useAnnotation"] = True
    kubeflow_v2["trainingService"]["ps"]["codeDirectory"] = "other"
    (folder / "code" / "train.py").write_text('"""@nni.variable(nni.choice(1, 2), name=x)"""\nx = 1\n')
    (folder / "other" / "serve.py").write_text('"""@nni.variable(nni.choice(3, 4), name=y)"""\ny = 3\n')
    settings = parse_experiment_config(kubeflow_v2, folder).settings
    assert set(settings.search_space) == {"worker.train/x/choice", "ps.serve/y/choice"}


def test_an_azure_share_without_its_kind_is_told_to_name_it(folder: Path, v1: dict[str, Any]) -> None:
    del v1["localConfig"]
    v1 |= {"trainingServicePlatform": "kubeflow",
           "trial": {"codeDir": "code", "worker": {"replicas": 1, "command": "true", "cpuNum": 1, "memoryMB": 1024}},
           "kubeflowConfig": {"operator": "tf-operator", "apiVersion": "v1",
                              "keyVault": {"vaultName": "vault", "name": "key"},
                              "azureStorage": {"accountName": "account", "azureShare": "share"}}}
    with pytest.raises(ConfigInvalid) as refusal:
        parse_experiment_config(v1, folder)
    assert [error.field for error in refusal.value.errors] == ["kubeflowConfig"]
    assert "write storage: azureStorage" in str(refusal.value)
    v1["kubeflowConfig"]["storage"] = "azureStorage"
    parse_experiment_config(v1, folder)
    del v1["kubeflowConfig"]["azureStorage"]
    with pytest.raises(ConfigInvalid, match=r"azureAccount is required .* azureStorage.accountName"):
        parse_experiment_config(v1, folder)
