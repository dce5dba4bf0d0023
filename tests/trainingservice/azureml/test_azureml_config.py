"""Config files for the azureml platform, and what is said where the vendor's library is missing."""

import sys

import pytest

from nniweb.experiments.config import parse_experiment_config
from nniweb.experiments.config.errors import ConfigInvalid
from trainingservice.azureml.config import AzureMlClusterSettings, AzureMlTrialOptions
from trainingservice.azureml.service import AzureMlTrainingService
from trainingservice.base import ServiceContext

V2 = """
trialCommand: python3 t.py
trialConcurrency: 1
searchSpace: {x: {_type: uniform, _value: [0, 1]}}
tuner: {name: Random}
trainingService:
  platform: aml
  subscriptionId: s
  resourceGroup: g
  workspaceName: w
  computeTarget: c
"""
V1 = """
authorName: me
experimentName: v1
trialConcurrency: 1
trainingServicePlatform: aml
searchSpacePath: space.json
useAnnotation: false
tuner: {builtinTunerName: Random}
trial: {command: python3 t.py, codeDir: ., image: "i:1", gpuNum: 1}
amlConfig: {subscriptionId: s, resourceGroup: g, workspaceName: w, computeTarget: c, maxTrialNumPerGpu: 1,
            useActiveGpu: true}
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "space.json").write_text('{"x": {"_type": "uniform", "_value": [0, 1]}}')
    return tmp_path


def section(text, folder):
    return parse_experiment_config(text, folder).settings.training_service


def test_a_file_of_the_first_form_means_the_same(folder):
    found = section(V1, folder)
    assert found.platform == "azureml"
    settings = found.settings
    assert (settings.subscription_id, settings.resource_group, settings.workspace_name, settings.compute_target) == \
        ("s", "g", "w", "c")
    assert (found.options.docker_image, found.options.max_trial_number_per_gpu) == ("i:1", 1)
    assert any("useActiveGpu" in note for note in parse_experiment_config(V1, folder).notes)


def test_the_compute_stood_elsewhere_in_the_oldest_files(folder):
    old = V1.replace("computeTarget: c, ", "").replace("gpuNum: 1}", "gpuNum: 1, computeTarget: old}")
    assert section(old, folder).settings.compute_target == "old"


def test_a_service_principal_is_sealed_and_no_other_log_in_is_for_everybody(folder):
    found = section(V2 + "  tenantId: t\n  clientId: c\n  clientSecret: geheim\n", folder)
    assert found.secrets == {"clientSecret": "geheim"}
    assert found.settings.borrowed_from_the_server() == ""
    assert "geheim" not in repr(found) + str(found.document())
    assert section(V2, folder).settings.borrowed_from_the_server() != ""


@pytest.mark.parametrize(("more", "words"), [
    ("  clientSecret: x\n", "tenantId"),
    ("  tenantId: t\n  clientId: c\n  clientSecret: x\n  managedIdentity: true\n", "cannot be given together"),
    ("  environment: torch\n", "environment"),
    ("  writableMounts: {relative: 'azureml://x'}\n", "writableMounts"),
    ("  writableMounts: {/mnt/x: 'https://x'}\n", "writableMounts"),
    ("  dataMounts: {'a-b': 'azureml://x'}\n", "dataMounts"),
    ("  resourceManager: http://x\n", "resourceManager"),
    ("  channel: mlflow\n", "auto"),
])
def test_what_is_wrong_is_named(folder, more, words):
    with pytest.raises(ConfigInvalid) as caught:
        parse_experiment_config(V2 + more, folder)
    assert words in str(caught.value.errors)


def test_without_the_library_the_rehearsal_says_how_to_install_it(tmp_path, monkeypatch):
    for name in [name for name in sys.modules if name == "azure.ai" or name.startswith("azure.ai.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "azure.ai", None)
    monkeypatch.setitem(sys.modules, "azure.ai.ml", None)
    settings = AzureMlClusterSettings(subscription_id="s", resource_group="g", workspace_name="w", compute_target="c")
    service = AzureMlTrainingService(settings, ServiceContext(cluster_id="c", state_folder=tmp_path))
    findings = service.rehearse(quick=True)
    assert [finding.blocks for finding in findings] == [True]
    assert "pip install 'nniweb[azure]'" in findings[0].message


@pytest.mark.parametrize(("mounts", "is_there"), [
    ({}, False), ({"/mnt/there": "azureml://datastores/lab/paths/nni/"}, True),
    ({"/mnt": "azureml://datastores/lab/paths/nni/"}, True),
    ({"/mnt/th": "azureml://datastores/lab/paths/nni/"}, False)])
def test_what_shared_storage_describes_must_be_a_writable_mount(mounts, is_there) -> None:
    options = AzureMlTrialOptions(writable_mounts=mounts)
    said = options.lacks_share("/mnt/there", AzureMlClusterSettings(
        subscription_id="s", resource_group="g", workspace_name="w", compute_target="c"))
    assert (said == "") is is_there
    assert is_there or "writableMounts: {/mnt/there: azureml://" in said
