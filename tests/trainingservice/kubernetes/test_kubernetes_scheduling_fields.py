"""What may stand in the fields by which Kubernetes admits and places pods: the API server's syntax, and its bounds."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from tests.fakes.kubernetes.pod_admission import pod_causes
from tests.fakes.kubernetes.validation import labels_and_annotations
from trainingservice.kubernetes.config import JobClusterSettings, JobTrialOptions
from trainingservice.kubernetes_scheduling.fields import (
    MOST_OF_ANNOTATIONS,
    MembersMayUse,
    SchedulingOptions,
    not_permitted,
)
from trainingservice.kubernetes_scheduling.objects import pod_fields, pod_metadata

LONG = "x" * 10_000
HOSTILE = ["a b", "a\nb", "'", '"', "$(id)", "`id`", "a;b", "../x", "ä", "\x00", "{{x}}", "a=b", "-a", "a-", LONG]


def refusal(**fields: Any) -> tuple[str, str]:
    """Field, and what is said of it."""
    with pytest.raises(ValidationError) as refused:
        JobTrialOptions.model_validate(fields)
    [error] = refused.value.errors()
    return ".".join(map(str, error["loc"])), error["msg"]


@pytest.mark.parametrize("field", ["serviceAccountName", "priorityClassName", "kueueQueueName"])
@pytest.mark.parametrize("text", [*HOSTILE, "", "A", "a..b", "a_b", ".a"])
def test_a_name_that_the_api_server_would_refuse_is_refused(field: str, text: str) -> None:
    place, said = refusal(**{field: text})
    assert place == field
    assert "small letters" in said


@pytest.mark.parametrize(("field", "longest"), [("serviceAccountName", 253), ("kueueQueueName", 63)])
def test_names_have_the_api_servers_lengths(field: str, longest: int) -> None:
    assert JobTrialOptions.model_validate({field: "a" * longest})
    assert refusal(**{field: "a" * (longest + 1)})[0] == field


@pytest.mark.parametrize("field", ["labels", "nodeSelector", "annotations"])
@pytest.mark.parametrize("key", [*HOSTILE, "", "/a", "a/", "a/b/c", "A/b", "a..b/c", "_a", "a" * 64, f"{'a' * 254}/b"])
def test_a_key_that_the_api_server_would_refuse_is_refused(field: str, key: str) -> None:
    place, said = refusal(**{field: {key: "x"}})
    assert place == field
    assert "must be a name of 1 to 63 letters" in said
    assert len(said) < 400


@pytest.mark.parametrize("field", ["labels", "nodeSelector"])
@pytest.mark.parametrize("value", [*HOSTILE, "a" * 64, "_a", "a."])
def test_a_labels_value_that_the_api_server_would_refuse_is_refused(field: str, value: str) -> None:
    place, said = refusal(**{field: {"a": value}})
    assert place == field
    assert 'the value of "a" must be empty or 1 to 63' in said


@pytest.mark.parametrize("value", [1, True, None, ["a"], {"a": "b"}])
@pytest.mark.parametrize("field", ["labels", "nodeSelector", "annotations"])
def test_values_are_texts(field: str, value: object) -> None:
    assert refusal(**{field: {"a": value}})[0] == f"{field}.a"


@pytest.mark.parametrize("key", [
    "nniweb/trial", "nniweb/experiment", "nniweb/anything", "batch.kubernetes.io/job-name", "job-name",
    "controller-uid", "training.kubeflow.org/replica-type", "adaptdl/job", "FC_FRAMEWORK_NAME",
    "kueue.x-k8s.io/pod-group-name"])
@pytest.mark.parametrize("field", ["labels", "annotations"])
def test_keys_that_the_server_or_an_operator_writes_are_refused(field: str, key: str) -> None:
    assert "is written by NNI Web, Kubernetes or the operator" in refusal(**{field: {key: "x"}})[1]


def test_the_label_of_a_queue_has_a_field_of_its_own() -> None:
    assert "give the queue in kueueQueueName" in refusal(labels={"kueue.x-k8s.io/queue-name": "x"})[1]


def test_annotations_are_any_text_up_to_their_size() -> None:
    text = "two lines\nwith \"quotes\", $(id) and ü\t"
    assert JobTrialOptions(annotations={"lab.example/note": text}).annotations["lab.example/note"] == text
    assert "bytes in all" in refusal(annotations={"a": "x" * MOST_OF_ANNOTATIONS})[1]
    for character in ("\x00", "\x1b", "\r", "\ud800"):
        assert "cannot be printed" in refusal(annotations={"a": f"x{character}"})[1]


def test_there_is_a_most_of_each() -> None:
    assert "at most 64 entries" in refusal(labels={f"a{number}": "" for number in range(65)})[1]
    assert refusal(tolerations=[{"operator": "Exists"}] * 65)[0] == "tolerations"
    assert refusal(imagePullSecrets=[{"name": "a"}] * 17)[0] == "imagePullSecrets"


@pytest.mark.parametrize(("toleration", "field", "said"), [
    ({}, "", "needs a key"), ({"key": "a", "operator": "Exists", "value": "b"}, "", "takes no value"),
    ({"key": "a", "tolerationSeconds": 5}, "", "only counts with effect: NoExecute"),
    ({"key": "a b"}, ".key", "must be a name"), ({"key": "a", "value": "b c"}, ".value", "must be empty or"),
    ({"key": "a", "effect": "No"}, ".effect", ""), ({"key": "a", "operator": "In"}, ".operator", ""),
    ({"key": "a", "effect": "NoExecute", "tolerationSeconds": -1}, ".tolerationSeconds", ""),
    ({"key": "a", "also": 1}, ".also", "")])
def test_a_toleration_that_the_api_server_would_refuse_is_refused_at_its_field(toleration, field, said) -> None:
    place, message = refusal(tolerations=[toleration])
    assert place == f"tolerations.0{field}"
    assert said in message


@pytest.mark.parametrize("given", [
    {"tolerations": [{"operator": "Exists"}, {"key": "a.b/c", "value": "d", "effect": "NoExecute",
                                              "tolerationSeconds": 0}]},
    {"labels": {"a": "", "lab.example/b": "A.b_c-9"}, "nodeSelector": {"kubernetes.io/arch": "arm64"}},
    {"serviceAccountName": "a.b", "priorityClassName": "low", "annotations": {"A/b" .lower(): "any ü"}}])
def test_what_is_accepted_is_accepted_by_the_api_server_too(given: dict[str, Any]) -> None:
    options = JobTrialOptions.model_validate(given)
    assert pod_causes(pod_fields(options)) == []
    assert labels_and_annotations(pod_metadata(options, {}), "metadata") == []


def test_the_servers_own_labels_stand_above_those_of_files() -> None:
    options = SchedulingOptions.model_construct(labels={"nniweb/trial": "another", "team": "a"}, annotations={})
    assert pod_metadata(options, {"nniweb/trial": "mine"})["labels"] == {"nniweb/trial": "mine", "team": "a"}


@pytest.mark.parametrize(("entries", "name", "is_permitted"), [
    ((), "low", False), (("low",), "low", True), (("low",), "lower", False), (("team-*",), "team-a", True),
    (("*",), "anything", True), (("team-*",), "a-team-a", False), (("LOW",), "low", False)])
def test_names_are_permitted_whole_or_by_their_beginning(entries, name, is_permitted) -> None:
    found = not_permitted({"priorityClassName": [name]}, MembersMayUse(priority_classes=entries))
    assert (found == []) == is_permitted


def test_a_toleration_of_every_taint_needs_the_permission_for_every_key() -> None:
    asked = JobTrialOptions.model_validate({"tolerations": [{"operator": "Exists"}]}).asked()
    assert not_permitted(asked, MembersMayUse(tolerations=("gpu", "spot")))
    assert not not_permitted(asked, MembersMayUse(tolerations=("*",)))


def test_a_cluster_without_these_settings_is_the_same_cluster_as_before() -> None:
    assert not {"forAllTrials", "membersMayUse"} & JobClusterSettings().canonical().keys()
