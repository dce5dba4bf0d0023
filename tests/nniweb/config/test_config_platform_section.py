"""The section of any platform: settings, options, secrets, lists of groups, and its v1 names."""

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from config_farm_platform import FarmOptions, FarmSettings

from nniweb.experiments.config import ConfigInvalid, parse_experiment_config, parse_stored_section, resolved_document

pytestmark = pytest.mark.usefixtures("farm")


@pytest.fixture
def farm_v2(v2: dict) -> dict:
    return v2 | {"trainingService": {
        "platform": "farm", "token": "t0ken", "image": "python", "labels": {"Some_Label": "x"},
        "machineList": [{"host": "one", "password": "pass1"}, {"host": "two", "port": 2222, "ssh_key_file": "id_rsa"}]}}


@pytest.fixture
def farm_v1(v1: dict) -> dict:
    del v1["localConfig"]
    v1["trial"]["image"] = "other"
    return v1 | {
        "trainingServicePlatform": "farm", "farmConfig": {"apiToken": "t0ken", "image": "python"},
        "machineList": [{"ip": "one", "passwd": "pass1"}, {"ip": "two", "port": 2222, "sshKeyPath": "id_rsa"}]}


def test_settings_options_and_secrets_are_told_apart(folder: Path, farm_v2: dict) -> None:
    section = parse_experiment_config(farm_v2, folder).settings.training_service
    assert section is not None
    assert isinstance(section.settings, FarmSettings)
    assert section.settings.machine_list[1].ssh_key_file == folder / "id_rsa"
    assert section.options == FarmOptions(image="python", labels={"Some_Label": "x"})
    assert section.secrets == {"token": "t0ken", "machineList[0].password": "pass1"}


def test_the_v1_names_of_a_platform_lead_to_the_same(folder: Path, farm_v1: dict, farm_v2: dict) -> None:
    del farm_v2["trainingService"]["labels"]
    assert parse_experiment_config(farm_v1, folder).settings == parse_experiment_config(farm_v2, folder).settings


def test_secrets_stand_neither_in_text_nor_in_repr_nor_in_the_resolved_document(folder: Path, farm_v1: dict,
                                                                              farm_v2: dict) -> None:
    for source in (farm_v1, farm_v2, yaml.safe_dump(farm_v1), yaml.safe_dump(farm_v2)):
        parsed = parse_experiment_config(source, folder)
        everything = repr(parsed) + str(parsed) + parsed.original_text + str(resolved_document(parsed.settings))
        assert "t0ken" not in everything
        assert "pass1" not in everything
        kept = yaml.safe_load(parsed.original_text)
        assert kept["experimentName"] == "digits"
        assert "***" in parsed.original_text


@pytest.mark.parametrize("written", [
    "&x s3cret", "'s3cret'", '"s3cret"', "|\n    s3cret", ">-\n    s3cret", "!!str s3cret"])
def test_a_secret_is_masked_however_it_is_written(folder: Path, farm_v2: dict, written: str) -> None:
    farm_v2["trainingService"]["token"] = "HERE"
    text = yaml.safe_dump(farm_v2).replace("token: HERE", f"token: {written}")
    parsed = parse_experiment_config(text, folder)
    assert parsed.settings.training_service is not None
    assert parsed.settings.training_service.secrets["token"].strip() == "s3cret"
    assert "s3cret" not in parsed.original_text
    assert yaml.safe_load(parsed.original_text)["trainingService"]["token"].strip() == "***"
    assert yaml.safe_load(parsed.original_text)["trialConcurrency"] == 2


def test_a_wrong_secret_is_not_repeated_in_the_error(farm_v2: dict, errors_of: Callable) -> None:
    farm_v2["trainingService"]["machineList"][0]["password"] = 12345678
    [error] = errors_of(farm_v2)
    assert error.field == "trainingService.machineList[0].password"
    assert "12345678" not in error.message
    assert "quotes" in error.message


@pytest.mark.parametrize("mask", ["***", "********"])
def test_a_mask_is_not_taken_for_the_secret_that_it_hides(farm_v2: dict, errors_of: Callable, mask: str) -> None:
    farm_v2["trainingService"]["token"] = farm_v2["trainingService"]["machineList"][0]["password"] = mask
    assert {error.field for error in errors_of(farm_v2)} == {
        "trainingService.token", "trainingService.machineList[0].password"}
    assert all("only stands for a secret" in error.message for error in errors_of(farm_v2))


def test_a_stored_section_is_whole_again_with_its_secrets(folder: Path, farm_v2: dict) -> None:
    section = parse_experiment_config(farm_v2, folder).settings.training_service
    assert section is not None
    assert "pass1" not in str(section.document())
    assert parse_stored_section(section.document(), section.secrets) == section


def test_a_stored_section_of_a_platform_that_is_gone_is_an_error() -> None:
    with pytest.raises(ConfigInvalid, match='no platform named "gone"'):
        parse_stored_section({"platform": "gone"}, {})


@pytest.mark.parametrize(("change", "field", "words"), [
    (lambda section: section["machineList"][1].update(port=99999), "trainingService.machineList[1].port",
     "at most 65535"),
    (lambda section: section["machineList"][1].pop("host"), "trainingService.machineList[1].host", "is required"),
    (lambda section: section["machineList"][0].update(hots="x"), "trainingService.machineList[0].hots", "mean host?"),
    (lambda section: section.update(machineList=[]), "trainingService.machineList", "at least 1"),
    (lambda section: section.update(machineList="one"), "trainingService.machineList", "a list"),
    (lambda section: section.update(machineList=["one"]), "trainingService.machineList[0]", "group of fields"),
    (lambda section: section.pop("machineList"), "trainingService.machineList", "is required"),
    (lambda section: section.update(labels={"a": 1}), "trainingService.labels.a", "text"),
    (lambda section: section.update(gpuIndices=1), "trainingService.gpuIndices", "not a known field"),
])
def test_errors_inside_lists_and_groups_are_named(farm_v2: dict, errors_of: Callable, change: Callable, field: str,
                                                  words: str) -> None:
    change(farm_v2["trainingService"])
    [error] = errors_of(farm_v2)
    assert error.field == field
    assert words in error.message


@pytest.mark.parametrize(("change", "field", "words"), [
    (lambda v1: v1["machineList"][1].update(port=99999), "machineList[1].port", "at most 65535"),
    (lambda v1: v1["machineList"][1].pop("ip"), "machineList[1].ip", "is required"),
    (lambda v1: v1["machineList"][0].update(host="x"), "machineList[0].host", "not a known field"),
    (lambda v1: v1.update(machineList="one"), "machineList", "list of groups"),
    (lambda v1: v1.pop("machineList"), "machineList", "is required"),
    (lambda v1: v1["farmConfig"].update(apiToken=1), "farmConfig.apiToken", "text"),
])
def test_errors_of_a_v1_section_have_v1_names(farm_v1: dict, errors_of: Callable, change: Callable, field: str,
                                              words: str) -> None:
    change(farm_v1)
    assert [(error.field, words in error.message) for error in errors_of(farm_v1)] in (
        [(field, True)], [(field, True), (field, False)], [(field, False), (field, True)])


def test_what_a_platform_drops_of_v1_is_noted(folder: Path, farm_v1: dict) -> None:
    farm_v1["machineList"][1]["preCommand"] = "module load x"
    farm_v1["farmConfig"]["reuse"] = True
    notes = parse_experiment_config(farm_v1, folder).notes
    assert "machineList[1].preCommand: put it into the trial's command." in notes
    assert "farmConfig.reuse: the farm never sleeps." in notes


def test_a_cluster_may_be_named_instead_of_a_section(folder: Path, v2: dict) -> None:
    del v2["trainingService"]
    settings = parse_experiment_config(v2 | {"cluster": "ours"}, folder).settings
    assert (settings.cluster, settings.training_service, settings.trial_options) == ("ours", None, None)


def test_options_for_a_named_cluster_are_those_of_its_platform(folder: Path, v2: dict, errors_of: Callable) -> None:
    del v2["trainingService"]
    config = v2 | {"cluster": "ours", "trialOptions": {"image": "python"}}
    clusters = {"ours": "farm"}
    parsed = parse_experiment_config(config, folder, cluster_platform=clusters.get)
    assert parsed.settings.trial_options == FarmOptions(image="python")
    unknown = config | {"cluster": "theirs"}
    assert [error.field for error in errors_of(unknown, cluster_platform=clusters.get)] == ["cluster"]
    wrong = config | {"trialOptions": {"imgae": "x"}}
    assert [error.field for error in errors_of(wrong, cluster_platform=clusters.get)] == ["trialOptions.imgae"]
    assert [error.field for error in errors_of(config)] == ["trialOptions"]


def test_shared_storage_is_checked_and_its_key_kept_secret(folder: Path, v2: dict, errors_of: Callable) -> None:
    storage = {"storageType": "AzureBlob", "localMountPoint": "/mnt/a", "remoteMountPoint": "/mnt/b",
               "localMounted": "usermount", "storageAccountName": "acc", "storageAccountKey": "k3y",
               "containerName": "c"}
    parsed = parse_experiment_config(v2 | {"sharedStorage": storage}, folder)
    assert parsed.settings.shared_storage is not None
    assert parsed.settings.shared_storage.storage_account_key is not None
    assert parsed.settings.shared_storage.storage_account_key.get_secret_value() == "k3y"
    assert "k3y" not in parsed.original_text + str(resolved_document(parsed.settings))
    errors = errors_of(v2 | {"sharedStorage": storage | {"storageType": "NFS"}})
    assert [error.field for error in errors] == ["sharedStorage.nfsServer", "sharedStorage.exportedDirectory"]


def test_a_platform_that_mounts_the_share_has_it_among_its_settings_and_seals_the_key(folder: Path, v2: dict) -> None:
    storage = {"storageType": "AzureBlob", "localMountPoint": "/mnt/a", "remoteMountPoint": "/mnt/b",
               "localMounted": "nomount", "storageAccountName": "acc", "storageAccountKey": "k3y",
               "containerName": "c"}
    config = v2 | {"sharedStorage": storage, "trainingService": {
        "platform": "remote", "machineList": [{"host": "ada", "user": "me", "password": "s3cret"}]}}
    parsed = parse_experiment_config(config, folder)
    section = parsed.settings.training_service
    assert section is not None
    assert section.secrets == {"machineList[0].password": "s3cret", "sharedStorage.storageAccountKey": "k3y"}
    assert "k3y" not in str(section.document())
    again = parse_stored_section(section.document(), section.secrets)
    assert again.settings == section.settings
    assert again.settings.shared_storage.variables == {"AZURE_STORAGE_ACCESS_KEY": "k3y"}
    assert not any("sharedStorage" in note for note in parsed.notes)
