"""Job documents: what OpenPAI's validator takes and refuses, and that ours are taken."""

import copy

import pytest
import yaml

from tests.fakes.openpai_protocol import refusals
from trainingservice.openpai.config import OpenPaiTrialOptions
from trainingservice.openpai.job_document import TOKEN_SECRET, KeeperStart, job_document
from trainingservice.openpai.protocol_schema import document_problems
from trainingservice.trial_job import HyperParameters, JobApplicationForm, KeeperAccess

GOOD = yaml.safe_load("""
protocolVersion: 2
name: nni_exp_a_trial_b
type: job
jobRetryCount: 0
prerequisites:
  - {type: dockerimage, name: docker_image_0, uri: "python:3.11"}
taskRoles:
  taskrole:
    instances: 1
    completion: {minFailedInstances: 1, minSucceededInstances: -1}
    taskRetryCount: 0
    dockerImage: docker_image_0
    resourcePerInstance: {gpu: 0, cpu: 1, memoryMB: 8192}
    extraContainerOptions: {shmMB: 512}
    commands: ["true"]
defaults: {virtualCluster: default}
extras: {storages: [{name: shared}], submitFrom: submit-job-v2}
""")
REMOVE = object()


def changed(path, value):
    document = copy.deepcopy(GOOD)
    *parents, last = path
    place = document
    for part in parents:
        place = place[part]
    if value is REMOVE:
        del place[last]
    else:
        place[last] = value
    return document


ROLE = ("taskRoles", "taskrole")
RESOURCES = (*ROLE, "resourcePerInstance")


@pytest.mark.parametrize(("path", "value"), [
    (("protocolVersion",), "2"),
    (("name",), "A-b_9"),
    (("name",), "x" * 255),
    (("defaults",), REMOVE),
    (("extras",), REMOVE),
    (("description",), "words"),
    (("contributor",), "me"),
    (("version",), "1.0"),
    (("parameters",), {"x": 1}),
    (("secrets",), {"x": "y"}),
    (("deployments",), []),
    (("jobRetryCount",), 3),
    ((*RESOURCES, "gpu"), -1),
    ((*RESOURCES, "cpu"), 0),
    ((*RESOURCES, "ports"), {"web": 1}),
    ((*ROLE, "instances"), REMOVE),
    ((*ROLE, "completion"), {"minFailedInstances": None}),
    ((*ROLE, "completion"), REMOVE),
    ((*ROLE, "extraContainerOptions"), REMOVE),
    ((*ROLE, "commands"), ["echo <% $parameters.x %>", "true"]),
    ((*ROLE, "commands"), ["echo %> and <% $parameters.x %>"]),
    (("defaults",), {"virtualCluster": "research"}),
    (("extras",), {"hivedScheduler": {"jobPriorityClass": "oppo", "taskRoles": {"taskrole": {"skuType": "V100"}}}}),
    (("extras",), {"hivedScheduler": {"taskRoles": {"taskrole": {"pinnedCellId": "c", "skuType": None}}}}),
    (("description",), "x" * 100_000),
    (("prerequisites", 0, "auth"), {"username": "u", "password": "p", "registryuri": "r"}),
    (("taskRoles", "_role2"), {**GOOD["taskRoles"]["taskrole"]}),
])
def test_the_cluster_takes_it(path, value):
    assert document_problems(changed(path, value)) == []
    assert refusals(changed(path, value)) == [], "the double agrees"


@pytest.mark.parametrize(("path", "value"), [
    (("protocolVersion",), REMOVE),
    (("protocolVersion",), 1),
    (("name",), REMOVE),
    (("name",), ""),
    (("name",), "a~b"),
    (("name",), "a.b"),
    (("name",), "x" * 256),
    (("type",), REMOVE),
    (("type",), "dockerimage"),
    (("taskRoles",), REMOVE),
    (("taskRoles",), {}),
    (("unknown",), 1),
    (("jobRetryCount",), -1),
    (("taskRoles",), {"2role": GOOD["taskRoles"]["taskrole"]}),
    (("taskRoles",), {"task-role": GOOD["taskRoles"]["taskrole"]}),
    ((*ROLE, "unknown"), 1),
    ((*ROLE, "dockerImage"), REMOVE),
    ((*ROLE, "dockerImage"), "another"),
    ((*ROLE, "data"), "missing"),
    ((*ROLE, "prerequisites"), ["missing"]),
    ((*ROLE, "instances"), 0),
    ((*ROLE, "instances"), "1"),
    ((*ROLE, "completion"), {"unknown": 1}),
    ((*ROLE, "completion"), {"minFailedInstances": "1"}),
    ((*ROLE, "commands"), REMOVE),
    ((*ROLE, "commands"), []),
    ((*ROLE, "commands"), "true"),
    ((*ROLE, "commands"), ["echo <% $parameters.x"]),
    ((*ROLE, "resourcePerInstance"), REMOVE),
    ((*RESOURCES, "gpu"), REMOVE),
    ((*RESOURCES, "cpu"), 1.5),
    ((*RESOURCES, "memoryMB"), "8GB"),
    ((*RESOURCES, "disk"), 1),
    (("prerequisites",), []),
    (("prerequisites",), REMOVE),
    (("prerequisites", 0, "uri"), REMOVE),
    (("prerequisites", 0, "name"), REMOVE),
    (("prerequisites", 0, "unknown"), 1),
    (("prerequisites",), [GOOD["prerequisites"][0]] * 2),
    (("extras",), []),
    (("extras",), {"storages": "shared"}),
    (("extras",), {"storages": ["shared"]}),
    (("extras",), {"storages": [{"mountPath": "/mnt"}]}),
    (("extras",), {"hivedScheduler": {"jobPriorityClass": "urgent"}}),
    (("extras",), {"hivedScheduler": {"taskRoles": {"taskrole": {"skuType": "V100", "pinnedCellId": "c"}}}}),
    (("extras",), {"hivedScheduler": {"taskRoles": {"another": {"skuType": "V100"}}}}),
    (("secrets",), "text"),
    (("defaults",), "research"),
    (("parameters",), {"x": "<% $secrets.y"}),
    (("secrets",), {"x": "a <% b"}),
    (("description",), "100 <% of it"),
    ((*ROLE, "commands"), ["echo %> $parameters.x <%"]),
    ((*ROLE, "commands"), ["echo <% <% $parameters.x %>"]),
    (("description",), "x" * 110_000),
])
def test_the_cluster_refuses_it(path, value):
    assert document_problems(changed(path, value)) != []


@pytest.mark.parametrize("document", [None, [], "text", 3])
def test_what_is_no_document_at_all_is_refused(document):
    assert document_problems(document) != []
    assert refusals(document) != []


@pytest.mark.parametrize(("path", "value"), [
    (("name",), "a~b"), (("unknown",), 1), (("prerequisites",), []), (("prerequisites",), REMOVE),
    (("prerequisites", 0, "unknown"), 1), (("taskRoles",), {}), ((*ROLE, "instances"), 0), ((*ROLE, "commands"), []),
    ((*ROLE, "dockerImage"), "another"), ((*RESOURCES, "cpu"), 1.5), ((*RESOURCES, "disk"), 1), (("secrets",), "text")])
def test_the_double_refuses_by_rules_of_its_own(path, value):
    assert refusals(changed(path, value)) != []


def form(command="python3 t.py --x '$HOME' \"<% %>\"", **more):
    return JobApplicationForm(
        job_name="tabc", trial_job_id="tabc", experiment_id="eabc", sequence_id=3,
        hyper_parameters=HyperParameters("{}"), command=command,
        keeper=KeeperAccess(urls=("http://10.0.0.1:8080",), token="very-secret"), **more)


def made(form, options=None, urls=("http://10.0.0.1:8080",)):
    return job_document(form, options or OpenPaiTrialOptions(), KeeperStart("/mnt/k.pyz", "/mnt/a b", urls),
                        storage="shared", storage_mount="/mnt", installation="here")


def test_a_document_of_ours_is_right_and_says_what_was_asked():
    document = made(form(gpu_number=2), OpenPaiTrialOptions(trial_cpu_number=4, trial_memory_size="1.5 GB",
                                                           docker_image="i:1", virtual_cluster="research"))
    assert document_problems(document) == []
    role = document["taskRoles"]["taskrole"]
    assert document["name"] == "nni_exp_eabc_trial_tabc"
    assert role["resourcePerInstance"] == {"gpu": 2, "cpu": 4, "memoryMB": 1536}
    assert document["prerequisites"][0]["uri"] == "i:1"
    assert document["defaults"] == {"virtualCluster": "research"}
    assert document["extras"]["storages"] == [{"name": "shared", "mountPath": "/mnt"}]


def test_the_queue_is_left_out_where_nobody_named_one():
    assert "defaults" not in made(form())


def test_the_token_stands_in_secrets_alone():
    document = made(form())
    assert document["secrets"] == {TOKEN_SECRET: "very-secret"}
    del document["secrets"]
    assert "very-secret" not in yaml.safe_dump(document)
    assert "secrets" not in made(form(), urls=())


def test_the_trials_command_is_no_part_of_the_document():
    assert "<%" not in "".join(made(form(), urls=())["taskRoles"]["taskrole"]["commands"])


def test_a_document_of_the_users_own_keeps_what_it_says():
    own = {"protocolVersion": 2, "name": "mine", "type": "job", "jobRetryCount": 2,
           "prerequisites": [{"type": "dockerimage", "name": "d", "uri": "i"}],
           "taskRoles": {name: {"instances": 2, "dockerImage": "d",
                                "commands": [f"echo {name} <% $parameters.x %>"],
                                "resourcePerInstance": {"gpu": 1, "cpu": 2, "memoryMB": 3}}
                         for name in ("chief", "ps")},
           "extras": {"storages": [{"name": "data"}], "hivedScheduler": {"jobPriorityClass": "prod"}}}
    document = made(form(), OpenPaiTrialOptions(openpai_config=own))
    assert document_problems(document) == []
    assert (document["name"], document["jobRetryCount"]) == ("nni_exp_eabc_trial_tabc", 2)
    assert document["extras"]["hivedScheduler"] == {"jobPriorityClass": "prod"}
    assert [entry["name"] for entry in document["extras"]["storages"]] == ["data", "shared"]
    for name in ("chief", "ps"):
        assert f"echo {name} <% $parameters.x %>" in document["taskRoles"][name]["commands"]
    assert own["name"] == "mine", "what the experiment said is not changed"
