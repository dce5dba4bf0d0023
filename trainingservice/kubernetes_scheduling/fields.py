"""What files may say of how Kubernetes admits and places the pods of trials: names, labels, annotations, tolerations.

The syntax is that of the API server, so that what it would refuse is told with its field before anything is sent.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints, field_validator, model_validator

from trainingservice.cluster_settings import SettingsModel, TrialOptions
from trainingservice.refused_values import matching
from trainingservice.words.shown_value import shown

_SUBDOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
#: Most entries of each field, and most bytes of all annotations: the API server has 256 KiB for an object's.
MOST_LABELS, MOST_TOLERATIONS, MOST_SECRETS, MOST_OF_ANNOTATIONS = 64, 64, 16, 32 * 1024
MOST_PERMITTED = 200

#: A name of a service account, secret, claim or priority class.
ObjectName = Annotated[str, matching(rf"(?!.{{254}}){_SUBDOMAIN}", "1 to 253 small letters, digits, - and ., which "
                                     "begin and end with a letter or digit")]
#: A LocalQueue's name is the value of a label.
QueueName = Annotated[str, matching(rf"(?!.{{64}}){_SUBDOMAIN}", "1 to 63 small letters, digits, - and ., which begin "
                                    "and end with a letter or digit")]

_KEY_NAME = re.compile(r"(?!.{64})[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_KEY_DOMAIN = re.compile(rf"(?!.{{254}}){_SUBDOMAIN}")
_VALUE = re.compile(r"(?!.{64})([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")
_KEY_WORDS = ("must be a name of 1 to 63 letters, digits, -, _ and ., which begins and ends with a letter or digit, or "
              "a domain such as lab.example, a / and a name")
_VALUE_WORDS = "must be empty or 1 to 63 letters, digits, -, _ and ., which begin and end with a letter or digit"

#: Kueue's label of an object that waits in one of its queues.
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
#: Keys that NNI Web, Kubernetes, Kueue and the operators write themselves, and domains all of whose keys are such.
_OWN_KEYS = frozenset({
    "controller-uid", "job-name", "job-role", "group-name", "controller-name", "replica-type", "replica-index",
    "tf-job-name", "pytorch-job-name", "mpi-job-name", "pytorch-replica-type", "pytorch-replica-index", "adaptdl",
    QUEUE_LABEL, "kueue.x-k8s.io/pod-group-name", "kueue.x-k8s.io/pod-group-total-count", "kueue.x-k8s.io/managed",
    "kueue.x-k8s.io/prebuilt-workload-name"})
_OWN_DOMAINS = frozenset({"nniweb", "batch.kubernetes.io", "training.kubeflow.org", "trainer.kubeflow.org",
                          "jobset.sigs.k8s.io", "adaptdl", "petuum.com"})


def _key_problem(key: str) -> str:
    """What is wrong with a label's or annotation's key; "" for nothing."""
    domain, slash, name = key.rpartition("/")
    if not _KEY_NAME.fullmatch(name) or slash and not _KEY_DOMAIN.fullmatch(domain):
        return _KEY_WORDS
    return ""


def _own_problem(key: str) -> str:
    """Why a key may not be given; "" where it may."""
    if key == QUEUE_LABEL:
        return "is written by the server; give the queue in kueueQueueName"
    if key in _OWN_KEYS or key.partition("/")[0] in _OWN_DOMAINS and "/" in key or key.startswith("FC_"):
        return "is written by NNI Web, Kubernetes or the operator; choose another key"
    return ""


def _checked_keys(given: dict[str, str], what: str, *, are_ours: bool) -> dict[str, str]:
    if len(given) > MOST_LABELS:
        raise ValueError(f"must have at most {MOST_LABELS} entries, not {len(given)}")
    for key in given:
        if problem := _key_problem(key) or (_own_problem(key) if are_ours else ""):
            raise ValueError(f"the {what} {shown(key)} {problem}")
    return given


def _label_map(what: str, *, are_ours: bool) -> AfterValidator:
    """``are_ours``: of objects that the server makes, where some keys are taken."""
    def check(given: dict[str, str]) -> dict[str, str]:
        for key, value in _checked_keys(given, f"key {what}", are_ours=are_ours).items():
            if not _VALUE.fullmatch(value):
                raise ValueError(f"the value of {shown(key)} {_VALUE_WORDS}, not {shown(value)}")
        return given

    return AfterValidator(check)


def _annotation_map(given: dict[str, str]) -> dict[str, str]:
    for key, value in _checked_keys(given, "key", are_ours=True).items():
        if _UNPRINTABLE.search(value):
            raise ValueError(f"the value of {shown(key)} has a character that cannot be printed; leave it out")
    size = sum(len(key.encode()) + len(value.encode()) for key, value in given.items())
    if size > MOST_OF_ANNOTATIONS:
        raise ValueError(f"must have at most {MOST_OF_ANNOTATIONS} bytes in all, not {size}")
    return given


Labels = Annotated[dict[str, str], _label_map("", are_ours=True)]
NodeLabels = Annotated[dict[str, str], _label_map("", are_ours=False)]
Annotations = Annotated[dict[str, str], AfterValidator(_annotation_map)]


class Toleration(SettingsModel):
    """A taint of nodes that does not keep the pods away, in Kubernetes' words."""

    key: str | None = Field(default=None, description="Key of the taint. Default: every key, with operator Exists.")
    operator: Literal["Exists", "Equal"] = Field(
        default="Equal", description="Exists: any value of the taint. Equal: the value below.")
    value: str | None = Field(default=None, description="Value of the taint, with operator Equal.")
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = Field(
        default=None, description="Effect of the taint. Default: every effect.")
    toleration_seconds: int | None = Field(
        default=None, ge=0, le=2**31 - 1, description="With effect NoExecute: the pods are evicted after this many "
                                                      "seconds. Default: they stay.")

    @field_validator("key")
    @classmethod
    def _is_key(cls, value: str | None) -> str | None:
        if value and (problem := _key_problem(value)):
            raise ValueError(f"{problem}, not {shown(value)}")
        return value or None

    @field_validator("value")
    @classmethod
    def _is_value(cls, value: str | None) -> str | None:
        if value is not None and not _VALUE.fullmatch(value):
            raise ValueError(f"{_VALUE_WORDS}, not {shown(value)}")
        return value or None

    @model_validator(mode="after")
    def _fits_together(self) -> Toleration:
        if self.key is None and self.operator != "Exists":
            raise ValueError("needs a key, or operator: Exists, which tolerates the taints of every key")
        if self.operator == "Exists" and self.value is not None:
            raise ValueError("has operator Exists, which takes no value; remove value, or write operator: Equal")
        if self.toleration_seconds is not None and self.effect != "NoExecute":
            raise ValueError("has tolerationSeconds, which only counts with effect: NoExecute")
        return self


class PullSecret(SettingsModel):
    """A Secret of the namespace with a registry's login."""

    name: ObjectName = Field(description="Name of the Secret.")


class OfAllTrials(SettingsModel):
    """What all trials of a cluster have. Experiments add to it and cannot change it."""

    labels: Labels = Field(default={}, description="Labels of every trial's object and pods.")
    annotations: Annotations = Field(default={}, description="Annotations of every trial's object and pods.")
    node_selector: NodeLabels = Field(default={}, description="Labels that the nodes of all trials must have.")
    tolerations: tuple[Toleration, ...] = Field(
        default=(), max_length=MOST_TOLERATIONS, description="Taints of nodes that keep no trial away.")


#: Names that are permitted: each whole, or its beginning and a star.
Permitted = Annotated[tuple[Annotated[str, StringConstraints(min_length=1, max_length=317)], ...],
                      Field(max_length=MOST_PERMITTED)]


def _permits(entries: tuple[str, ...], name: str) -> bool:
    return any(name == entry or entry.endswith("*") and name.startswith(entry[:-1]) for entry in entries)


class MembersMayUse(SettingsModel):
    """What experiments of people who are no administrators may name. A star at the end stands for any ending."""

    service_accounts: Permitted = Field(default=(), description="Names for serviceAccountName.")
    priority_classes: Permitted = Field(default=(), description="Names for priorityClassName.")
    queues: Permitted = Field(default=(), description="Names for kueueQueueName.")
    image_pull_secrets: Permitted = Field(default=(), description="Names for imagePullSecrets.")
    tolerations: Permitted = Field(default=(), description=(
        "Keys of taints for tolerations. Only * permits a toleration of every key."))
    labels: Permitted = Field(default=(), description="Keys for labels.")
    annotations: Permitted = Field(default=(), description="Keys for annotations.")
    templates: bool = Field(default=False, description="frameworkcontroller: whether they may use configPath. Such a "
                                                       "file may ask for anything in the namespace.")


class SchedulingOptions(TrialOptions):
    """What one experiment says of how its pods are admitted and placed."""

    service_account_name: ObjectName | None = Field(
        default=None, description="Service account of the pods. Default: the namespace's own.")
    labels: Labels = Field(default={}, description="Labels of each trial's object and pods. (Not in NNI.)")
    annotations: Annotations = Field(
        default={}, description="Annotations of each trial's object and pods. (Not in NNI.)")
    node_selector: NodeLabels = Field(
        default={}, description="Labels that the pods' nodes must have. (Not in NNI.)")
    tolerations: tuple[Toleration, ...] = Field(
        default=(), max_length=MOST_TOLERATIONS,
        description="Taints of nodes that do not keep the pods away. (Not in NNI.)")
    priority_class_name: ObjectName | None = Field(
        default=None, description="PriorityClass of the pods. Default: the cluster's default. (Not in NNI.)")
    kueue_queue_name: QueueName | None = Field(
        default=None, description="LocalQueue of Kueue in the namespace. Trials are created suspended, and Kueue "
                                  "starts them. Default: they do not wait in a queue. (Not in NNI.)")
    image_pull_secrets: tuple[PullSecret, ...] = Field(
        default=(), max_length=MOST_SECRETS,
        description="Secrets of the namespace with logins of the images' registries.")

    def asked(self) -> Mapping[str, list[str]]:
        """What it names that a cluster's owner decides on: field, as files have it -> names."""
        return {
            "serviceAccountName": [self.service_account_name] if self.service_account_name else [],
            "priorityClassName": [self.priority_class_name] if self.priority_class_name else [],
            "kueueQueueName": [self.kueue_queue_name] if self.kueue_queue_name else [],
            "imagePullSecrets": [secret.name for secret in self.image_pull_secrets],
            "tolerations": [toleration.key or "*" for toleration in self.tolerations],
            "labels": list(self.labels), "annotations": list(self.annotations)}


#: Field of an experiment -> field of ``membersMayUse``, in code and in files.
_LISTS = {"serviceAccountName": ("service_accounts", "serviceAccounts"),
          "priorityClassName": ("priority_classes", "priorityClasses"), "kueueQueueName": ("queues", "queues"),
          "imagePullSecrets": ("image_pull_secrets", "imagePullSecrets"),
          "tolerations": ("tolerations", "tolerations"), "labels": ("labels", "labels"),
          "annotations": ("annotations", "annotations")}


def not_permitted(asked: Mapping[str, list[str]], permitted: MembersMayUse) -> list[tuple[str, str]]:
    """Fields, and sentences that tell what of them somebody who is no administrator may not use."""
    found = []
    for field, names in asked.items():
        attribute, in_files = _LISTS[field]
        entries: tuple[str, ...] = getattr(permitted, attribute)
        lacking = [name for name in dict.fromkeys(names) if not _permits(entries, name)]
        if lacking:
            may = f"It permits {', '.join(shown(entry) for entry in entries[:20])}" if entries else "It permits none"
            found.append((field, f"The cluster does not permit {', '.join(shown(name) for name in lacking[:5])} here. "
                          f"{may}. Choose another, or ask an administrator to add it to membersMayUse.{in_files} in "
                          "the cluster's settings."))
    return found
