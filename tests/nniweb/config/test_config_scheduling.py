"""How experiment files say where and when Kubernetes and Slurm run their trials, and what is said of slips in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nniweb.experiments.config import ConfigInvalid, parse_experiment_config
from trainingservice.cluster_settings import without_secrets

HEAD = "searchSpace: {x: {_type: uniform, _value: [0, 1]}}\ntrialCommand: 'true'\ntrialConcurrency: 1\n" \
       "tuner: {name: Random}\n"
KUBERNETES = HEAD + "trainingService:\n  platform: kubernetes\n"
SLURM = HEAD + "trainingService:\n  platform: slurm\n  workingFolder: /w\n"


def options(text: str, folder: Path) -> Any:
    section = parse_experiment_config(text, folder).settings.training_service
    assert section is not None
    return section.options


def errors(text: str, folder: Path) -> list[tuple[str, str]]:
    with pytest.raises(ConfigInvalid) as refused:
        parse_experiment_config(text, folder)
    return [(error.field, error.message) for error in refused.value.errors]


@pytest.mark.parametrize(("line", "field", "said"), [
    ("labels: {a b: c}", "labels", "must be a name of 1 to 63"),
    ("labels: {a: 5}", "labels.a", "must be text, not 5; put it in quotes"),
    ("labels: [a]", "labels", "must be a group of fields"),
    ("labels: text", "labels", "must be a group of fields"),
    ("labels: {nniweb/trial: x}", "labels", "is written by NNI Web"),
    ('annotations: {a: "x\\0"}', "annotations.a", ""), ('annotations: {a: "x\\e"}', "annotations", "cannot be printed"),
    ("nodeSelector: {a: 'b c'}", "nodeSelector", 'the value of "a" must be empty or'),
    ("tolerations: [{operator: Equal}]", "tolerations[0]", "needs a key"),
    ("tolerations: [{key: a, tolerationSeconds: x, effect: NoExecute}]", "tolerations[0].tolerationSeconds",
     "must be a whole number"),
    ("tolerations: {key: a}", "tolerations", "must be a list"),
    ("priorityClassName: 'a\n\n  b'", "priorityClassName", "small letters"),
    ("priorityClassName: $(id)", "priorityClassName", "small letters"),
    ("kueueQueueName: Team", "kueueQueueName", "small letters"),
    ("serviceAccountName: 7", "serviceAccountName", "must be text"),
    ("imagePullSecrets: [lab]", "imagePullSecrets[0]", "must be a group of fields"),
    ("imagePullSecrets: [{name: A}]", "imagePullSecrets[0].name", "small letters"),
    ("priorityClass: low", "priorityClass", "did you mean priorityClassName?"),
    ("membersMayUse: {queues: team}", "membersMayUse.queues", "must be a list"),
    ("forAllTrials: {labels: {a: 'b c'}}", "forAllTrials.labels", 'the value of "a" must be')])
def test_a_slip_on_kubernetes_is_told_at_its_field(tmp_path: Path, line: str, field: str, said: str) -> None:
    [(place, message)] = errors(f"{KUBERNETES}  {line}\n", tmp_path)
    assert place == f"trainingService.{field}"
    assert said in message


@pytest.mark.parametrize(("line", "field", "said"), [
    ("account: 'a b'", "account", "a name of letters"), ("constraint: $(id)", "constraint", "features of nodes"),
    ("reservation: [a]", "reservation", "must be text"), ("sbatchLines: --exclusive", "sbatchLines", "must be a list"),
    ("sbatchLines: [--array=1-9]", "sbatchLines", "cannot be used here"),
    ('sbatchLines: ["--nice\\nid"]', "sbatchLines", "cannot be printed")])
def test_a_slip_on_slurm_is_told_at_its_field(tmp_path: Path, line: str, field: str, said: str) -> None:
    [(place, message)] = errors(f"{SLURM}  {line}\n", tmp_path)
    assert place == f"trainingService.{field}"
    assert said in message


def test_anchors_and_spellings_of_yaml_give_the_same(tmp_path: Path) -> None:
    text = KUBERNETES + ("  labels: &these {team: vision}\n  node_selector: *these\n  TOLERATIONS:\n"
                         "    - &taint {key: gpu, operator: Exists}\n    - {<<: *taint, key: spot}\n")
    found = options(text, tmp_path)
    assert found.labels == found.node_selector == {"team": "vision"}
    assert [(one.key, one.operator) for one in found.tolerations] == [("gpu", "Exists"), ("spot", "Exists")]


def test_a_key_of_a_map_keeps_its_spelling(tmp_path: Path) -> None:
    found = options(KUBERNETES + "  labels: {App_Name: A, app-name: b}\n", tmp_path)
    assert found.labels == {"App_Name": "A", "app-name": "b"}


def test_what_is_written_is_found_again_in_what_is_stored(tmp_path: Path) -> None:
    found = options(KUBERNETES + "  tolerations: [{key: a, effect: NoExecute, tolerationSeconds: 0}]\n"
                                 "  annotations: {lab.example/a: 'ü \"x\"'}\n  imagePullSecrets: [{name: lab}]\n",
                    tmp_path)
    assert type(found).model_validate(without_secrets(found)) == found


def test_options_of_nni_s_files_are_still_what_they_were(tmp_path: Path) -> None:
    text = HEAD + "trainingService:\n  platform: adl\n  imagePullSecrets: [{name: staging}]\n"
    assert [secret.name for secret in options(text, tmp_path).image_pull_secrets] == ["staging"]
