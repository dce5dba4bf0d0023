"""Job documents: what OpenPAI's validator takes and refuses, and that ours are taken."""

import copy
import re

import pytest
import yaml

from tests.trainingservice.openpai.recordings import documents
from trainingservice.openpai.config import OpenPaiTrialOptions
from trainingservice.openpai.job_document import TOKEN_SECRET, KeeperStart, job_document
from trainingservice.openpai.protocol_schema import document_problems
from trainingservice.openpai.templates import problem
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


#: What the server takes and the check refuses, on purpose: a trial is a role of the document, and Kubernetes makes no
#: mount of what is no path.
STRICTER = {("taskRoles", "[]"), ("taskRoles", "5")}
RECORDED = [(path, document, status) for path, document, status in documents()]


@pytest.mark.parametrize(("document", "status"), [
    pytest.param(document, status, id=f"{number} {name}") for number, (name, document, status) in enumerate(RECORDED)
    if tuple(name.split(" ", 1)) not in STRICTER])
def test_a_document_is_found_right_or_wrong_as_the_server_found_it(document, status):
    """403 and 404 depend on what the account may use, which the rehearsal asks."""
    problems = document_problems(document)
    if status == 202:
        assert problems == []
    elif status in (400, 500):
        assert problems != []


@pytest.mark.parametrize(("path", "value"), [
    (("taskRoles",), []),
    (("taskRoles",), 5),
    (("extras",), {"storages": [{"name": "shared", "mountPath": 5}]}),
    (("extras",), {"storages": [{"name": "shared", "mountPath": ["/m"]}]}),
])
def test_what_the_server_takes_and_no_trial_can_use_is_refused(path, value):
    assert document_problems(changed(path, value)) != []


@pytest.mark.parametrize(("path", "value"), [
    (("protocolVersion",), "2"),
    (("name",), "A-b_9"),
    (("defaults",), {"virtualCluster": "research"}),
    (("extras",), {"hivedScheduler": {"jobPriorityClass": "oppo", "taskRoles": {"taskrole": {"skuType": "V100"}}}}),
    (("extras",), {"hivedScheduler": {"taskRoles": {"taskrole": {"pinnedCellId": "c", "skuType": None}}}}),
    (("extras",), {"hivedScheduler": {"taskRoles": {"taskrole": {"skuType": "a", "affinityGroupName": "g"}}}}),
    (("description",), "x" * 100_000),
])
def test_the_cluster_takes_it(path, value):
    assert document_problems(changed(path, value)) == []


TWO_ROLES = dict.fromkeys(("a", "b"), GOOD["taskRoles"]["taskrole"])


@pytest.mark.parametrize(("path", "value", "words"), [
    (("extras",), {"hivedScheduler": {"jobPriorityClass": "urgent"}}, "jobPriorityClass must be prod or test or oppo"),
    (("extras",), {"hivedScheduler": {"taskRoles": {"taskrole": {"skuType": "V100", "pinnedCellId": "c"}}}}, "both"),
    (("extras",), {"hivedScheduler": {"taskRoles": {"another": {"skuType": "V100"}}}}, "names a role"),
    (("extras",), {"hivedScheduler": {"taskRoles": {}}}, "taskRoles"),
    (("extras",), {"hivedScheduler": {"taskRoles": {"a-b": {}}}}, "a-b"),
    (("extras",), {"hivedScheduler": None}, "hivedScheduler must be a mapping, not null"),
    ((*ROLE, "commands"), ["echo <% $parameters.x"], "taskRoles.taskrole.commands has a <% without its %>"),
    ((*ROLE, "commands"), ["<%# a %>", "b"], 'opens a section "a" that is not closed'),
    ((*ROLE, "commands"), ["<%/ a %>"], "closes a section with <%/ that is not open"),
    ((*ROLE, "commands"), ["<%= | =%>"], "does not name two marks"),
    ((*ROLE, "commands"), ["<%{ a %>"], "has a <% without its %>"),
    (("prerequisites", 0, "auth"), {"password": "<% $secrets.x"}, "prerequisites[0].auth.password has a <%"),
    (("prerequisites", 0, "name"), "my image",
     'prerequisites[0].name must be 1 to 255 letters, digits, "-" or "_", not "my image"'),
    (("taskRoles",), {"a-b": GOOD["taskRoles"]["taskrole"]},
     'taskRoles has "a-b"; each name in it must be letters, digits or "_" and not begin with a digit'),
    (("extras",), {"hivedScheduler": {"taskRoles": {"a b": {}}}}, 'must be letters, digits, ".", "_" or "~"'),
    ((*ROLE, "resourcePerInstance"), {"cpu": 1}, 'resourcePerInstance must have "memoryMB" and "gpu"'),
    ((*ROLE, "image"), "i:1", 'taskRoles.taskrole has "image", which the protocol does not know; it may have '),
    ((*ROLE, "commands"), [], "taskRoles.taskrole.commands must have at least one entry"),
    (("taskRoles",), {}, "taskRoles must have at least one entry"),
    ((*ROLE, "instances"), 0, "taskRoles.taskrole.instances must be 1 or more, not 0"),
    ((*ROLE, "instances"), "2", 'taskRoles.taskrole.instances must be a whole number, not "2"'),
    ((*ROLE, "resourcePerInstance", "ports"), "ssh", 'ports must be a mapping of names to whole numbers, not "ssh"'),
    (("defaults",), {"virtualCluster": ""}, "defaults.virtualCluster must not be empty"),
    (("deployments",), [], "deployments must have at least one entry"),
    (("defaults",), {"deployment": "prod"}, 'defaults.deployment names "prod", which is not in deployments'),
    (("description",), "x" * 110_000, "the document has"),
])
def test_what_is_wrong_is_said_with_its_place(path, value, words):
    assert words in "; ".join(document_problems(changed(path, value)))


@pytest.mark.parametrize("text", ["<%a{}b", "<%{{a{}}}b%>", "<%=a{}b", "<%= ={}b", "<%#a{}%><%/a %>b<%"])
def test_white_space_in_a_template_is_looked_at_once(text):
    assert "without its %>" in problem(text.format(" \ufeff\n" * 200_000))


@pytest.mark.parametrize("text", ["<%a  %>", "<% {a\t}%>", "<%=\ufeff| | =  %>|a|", "<%#  a%><%/ a\n%>", "<%=a=%%>%>a"])
def test_white_space_before_the_end_of_a_tag_does_not_count(text):
    assert problem(text) in ("", "has a <%= that does not name two marks")


@pytest.mark.parametrize(("path", "value"), [
    (("secrets",), "4711"), (("prerequisites", 0, "auth"), 4711),
    (("prerequisites", 0, "auth"), {"password": 4711})])
def test_a_secret_of_the_wrong_kind_is_not_shown(path, value):
    said = "; ".join(document_problems(changed(path, value)))
    assert "must be" in said
    assert "4711" not in said


@pytest.mark.parametrize("document", [
    pytest.param(document, id=name) for name, document, status in RECORDED if status != 202])
def test_no_refusal_shows_a_pattern_or_the_words_of_a_library(document):
    said = "; ".join(document_problems(document))
    assert not re.search(r"\[A-Za-z|\\Z|regex|pattern|propert|is not valid under|non-empty|is too short|object|array",
                         said), said


def test_an_affinity_group_has_one_kind_of_sku():
    wishes = {"a": {"skuType": "V100", "affinityGroupName": "g"}, "b": {"skuType": "K80", "affinityGroupName": "g"}}
    document = {**GOOD, "taskRoles": TWO_ROLES, "extras": {"hivedScheduler": {"taskRoles": wishes}}}
    assert 'affinity group "g"' in "; ".join(document_problems(document))
    wishes["b"]["skuType"] = "V100"
    assert document_problems(document) == []


@pytest.mark.parametrize("document", [None, [], "text", 3])
def test_what_is_no_document_at_all_is_refused(document):
    assert document_problems(document) != []


def form(command="python3 t.py --x '$HOME' \"<% %>\"", **more):
    return JobApplicationForm(
        job_name="tabc", trial_job_id="tabc", experiment_id="eabc", sequence_id=3,
        hyper_parameters=HyperParameters("{}"), command=command,
        keeper=KeeperAccess(urls=("http://10.0.0.1:8080",), token="very-secret"), **more)


def made(form, options=None, urls=("http://10.0.0.1:8080",)):
    return job_document(form, options or OpenPaiTrialOptions(), KeeperStart("/mnt/k.pyz", "/mnt/a b", urls),
                        mounts={"shared": "/mnt"}, installation="here")


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


@pytest.mark.parametrize(("extras", "mounted"), [
    ({"storages": None}, []), ({"storages": "lab"}, []), ({"storages": ["lab", {"mountPath": "/m"}]}, []),
    ({"storages": [{"name": "data", "mountPath": "/d"}]}, [{"name": "data", "mountPath": "/d"}]),
    ({"com.microsoft.pai.runtimeplugin": [{"plugin": "ssh"}, {"plugin": "teamwise_storage", "parameters": {
        "storageConfigNames": ["data", "more"]}}]}, [{"name": "data"}, {"name": "more"}]),
    ({"storages": [], "com.microsoft.pai.runtimeplugin": [{"plugin": "teamwise_storage", "parameters": {
        "storageConfigNames": ["data"]}}]}, []),
    ({"com.microsoft.pai.runtimeplugin": "none"}, [])])
def test_storages_of_the_users_own_are_those_that_the_server_would_mount(extras, mounted):
    own = {key: part for key, part in GOOD.items() if key != "name"} | {"extras": extras}
    assert document_problems({**own, "name": "x"}) == []
    assert made(form(), OpenPaiTrialOptions(openpai_config=own))["extras"]["storages"] == [
        *mounted, {"name": "shared", "mountPath": "/mnt"}]


def test_commands_of_the_default_deployment_run_under_the_keeper():
    own = {**GOOD, "defaults": {"deployment": "prod", "virtualCluster": "research"}, "deployments": [
        {"name": "prod", "taskRoles": {"taskrole": {"preCommands": ["first"], "postCommands": ["last"]}}}]}
    document = made(form(), OpenPaiTrialOptions(openpai_config=own))
    assert document_problems(document) == []
    lines = document["taskRoles"]["taskrole"]["commands"]
    place = lines.index("first")
    assert lines[place:place + 4] == ["first", "true", "last", "END_OF_THE_COMMANDS"]
    assert document["defaults"] == {"virtualCluster": "research"}


@pytest.mark.parametrize(("size", "asked"), [("2gb", {"shmMB": 2048}), (25000, {"shmMB": 25000}), (None, None)])
def test_shared_memory_is_asked_for_where_the_file_says_so(size, asked):
    options = OpenPaiTrialOptions.model_validate({"shmSize": size})
    document = made(form(), options)
    assert document["taskRoles"]["taskrole"].get("extraContainerOptions") == asked
    assert document_problems(document) == []
