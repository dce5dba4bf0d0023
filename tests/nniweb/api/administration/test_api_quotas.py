"""Quotas over REST: set by administrators, met by whoever launches."""

from __future__ import annotations

from typing import Any

import pytest

from nniweb.experiments.models import AuditEntry, Cluster, Experiment, Quota
from tests.nniweb.api.experiments.test_api_launch import refused

QUOTAS = "/api/v1/quotas/"


def test_an_administrator_sets_changes_lists_and_removes_quotas_and_the_audit_log_has_each(api, alice, group) -> None:
    made = api.post(QUOTAS, {"user": "alice", "max_trials": 4, "max_gpus": 2})
    assert made.status_code == 201, made.content
    assert made.json() == {"id": made.json()["id"], "user": "alice", "group": None, "max_trials": 4, "max_gpus": 2,
                           "max_experiments": None, "max_checkpoint_gb": None, "max_priority": None}
    assert api.post(QUOTAS, {"group": "vision", "max_experiments": 3}).status_code == 201
    assert api.post(QUOTAS, {"max_trials": 1}).json()["user"] is None
    changed = api.patch(f"{QUOTAS}{made.json()['id']}/", {"max_gpus": None, "max_trials": 0})
    assert (changed.json()["max_gpus"], changed.json()["max_trials"]) == (None, 0)
    assert [(row["user"], row["group"]) for row in api.get(QUOTAS).json()["results"]] == [
        ("alice", None), (None, "vision"), (None, None)]
    assert api.delete(f"{QUOTAS}{made.json()['id']}/").status_code == 204
    assert Quota.objects.count() == 2
    assert sorted(AuditEntry.objects.filter(action__startswith="quota.").values_list("action", flat=True)) == [
        "quota.change", "quota.create", "quota.create", "quota.create", "quota.delete"]


@pytest.mark.parametrize(("body", "field"), [
    ({"user": "alice", "group": "vision"}, ""), ({"user": "nobody"}, "user"), ({"max_trials": -1}, "max_trials"),
    ({"max_trials": 2**40}, "max_trials"), ({"max_cpus": 1}, "max_cpus")], ids=lambda value: str(value)[:20])
def test_what_is_wrong_is_said_at_its_field(api, alice, body: dict[str, Any], field: str) -> None:
    answer = api.post(QUOTAS, body)
    assert answer.status_code == (400 if field else 409), answer.content
    assert answer.json()["errors"][0]["field"] == field
    assert not Quota.objects.exists()


def test_a_second_quota_of_the_same_is_refused(api, alice) -> None:
    for body, status in (({"user": "alice"}, 400), ({}, 409)):
        assert api.post(QUOTAS, body).status_code == 201
        assert api.post(QUOTAS, body).status_code == status
    assert Quota.objects.count() == 2


def test_a_launch_beyond_the_quota_is_refused_with_a_sentence_and_so_is_its_check(api, config, code_folder,
                                                                                  ada) -> None:
    Quota.objects.create(user=ada, max_experiments=1)
    body = {"config": config, "base_directory": str(code_folder)}
    assert api.post("/api/v1/experiments/", body).status_code == 201
    for address in ("/api/v1/experiments/", "/api/v1/experiments/check/"):
        answer = api.post(address, body)
        assert answer.status_code in (400, 409), answer.content
        [error] = answer.json()["errors"]
        assert error["message"].startswith("The quota of ada allows 1 experiment at a time, and 1 has not ended.")
    assert Experiment.objects.count() == 1


def test_a_trial_that_asks_for_more_gpus_than_the_quota_has_is_refused_at_the_launch(api, config, code_folder) -> None:
    Quota.objects.create(max_gpus=1)
    body = {"config": config + "trialGpuNumber: 2\n", "base_directory": str(code_folder)}
    [error] = refused(api.post("/api/v1/experiments/check/", body))
    assert (error["field"], "allows 1 GPU at a time, but one trial asks for 2" in error["message"]) == (
        "trialGpuNumber", True)


def test_the_limit_of_a_cluster_is_set_and_shown(api, make_experiment) -> None:
    cluster = make_experiment().cluster
    address = f"/api/v1/clusters/{cluster.public_id}/"
    assert api.get(address).json()["max_trials"] is None
    assert api.patch(address, {"max_trials": 8}).json()["max_trials"] == 8
    assert Cluster.objects.get().max_trials == 8
