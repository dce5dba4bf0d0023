"""Budgets, prices and the ledger over REST: set by administrators, seen by those whom they concern."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.utils import timezone

from nniweb.experiments.budgets.budget_settings import set_budget, set_price
from nniweb.experiments.errors import Refused
from nniweb.experiments.lifecycle.transitions import end_attempt
from nniweb.experiments.lifecycle.trial_end import TrialEnd
from nniweb.experiments.models import ApiToken, Attempt, AuditEntry, Budget, Experiment, LedgerEntry, Price, Quota
from nniweb.experiments.quotas.quota_settings import set_quota
from tests.nniweb.api.experiments.test_api_launch import refused
from trainingservice.trial_job_status import TrialJobStatus

BUDGETS, PRICES, LEDGER = "/api/v1/budgets/", "/api/v1/prices/", "/api/v1/ledger/"


@async_to_sync
async def streamed(answer: Any) -> bytes:
    return b"".join([piece async for piece in answer.streaming_content])


def ended(attempt: Attempt, seconds: float = 3600.0) -> Attempt:
    Attempt.objects.filter(pk=attempt.pk).update(started_at=timezone.now())
    assert end_attempt(attempt, TrialEnd(TrialJobStatus.SUCCEEDED, "", "exited", 0, seconds, by_keeper=True),
                       timezone.now(), revision=1)
    return attempt


def test_an_administrator_sets_changes_lists_and_removes_budgets_and_the_audit_log_has_each(
        api, alice, group, ada) -> None:
    token = ApiToken.make_with_row(alice, "agent", "admin", None)[1]
    made = api.post(BUDGETS, {"user": "alice", "gpu_hours": 4.5, "trials": 2})
    assert made.status_code == 201, made.content
    document = made.json()
    zero = {"gpu_hours": 0, "cpu_hours": 0, "trials": 0, "wall_hours": 0, "money": 0}
    assert document == {
        "id": document["id"], "user": "alice", "group": None, "token": None, "token_name": None, "experiment": None,
        "period": "month", "is_own": False, "gpu_hours": 4.5, "cpu_hours": None, "trials": 2, "wall_hours": None,
        "money": None, "month": f"{timezone.now():%Y-%m}", "begins_anew": document["begins_anew"], "used": zero,
        "running": zero, "left": {"gpu_hours": 4.5, "trials": 2}, "used_up": []}
    assert api.post(BUDGETS, {"group": "vision", "period": "total", "money": 3}).status_code == 201
    assert api.post(BUDGETS, {"token": token.pk, "trials": 1}).json()["token_name"] == "agent"
    assert api.post(BUDGETS, {"trials": 0}).json()["used_up"] == ["trials"]
    address = f"{BUDGETS}{document['id']}/"
    changed = api.patch(address, {"gpu_hours": None, "money": 0.0001})
    assert (changed.json()["gpu_hours"], changed.json()["money"]) == (None, 0.0001)
    assert [(row["user"], row["group"], row["token"]) for row in api.get(BUDGETS).json()["results"]] == [
        ("alice", None, None), (None, "vision", None), (None, None, token.pk), (None, None, None)]
    assert api.get(address).json()["trials"] == 2
    assert api.delete(address).status_code == 204
    assert sorted(AuditEntry.objects.filter(action__startswith="budget.").values_list("action", flat=True)) == [
        "budget.change", *["budget.create"] * 4, "budget.delete"]


@pytest.mark.parametrize(("body", "field"), [
    ({"user": "alice", "group": "vision", "trials": 1}, ""), ({"user": "nobody", "trials": 1}, "user"),
    ({"trials": -1}, "trials"), ({"trials": 2**40}, "trials"), ({"money": "NaN"}, "money"),
    ({"gpu_hours": 1e12}, "gpu_hours"), ({"hours": 1}, "hours"), ({"period": "week", "trials": 1}, "period"),
    ({"user": "alice"}, ""), ({"token": 99, "trials": 1}, "token")], ids=lambda value: str(value)[:30])
def test_what_is_wrong_is_said_at_its_field(api, alice, group, body: dict[str, Any], field: str) -> None:
    answer = api.post(BUDGETS, body)
    assert answer.status_code == (400 if field else 409), answer.content
    assert answer.json()["errors"][0]["field"] == field
    assert not Budget.objects.exists()


@pytest.mark.parametrize("value", [1e30, "1e30", -1e30, 10**400, 1e-7, "1e-7"], ids=lambda value: str(value)[:9])
def test_an_amount_that_cannot_be_kept_is_refused_and_changes_nothing(api, alice, make_experiment, value: Any) -> None:
    cluster = make_experiment().cluster
    budget = Budget.objects.create(user=alice, money=Decimal(3))
    price = Price.objects.create(cluster=cluster, gpu_hour=Decimal(2))
    for answer, field in ((api.post(BUDGETS, {"gpu_hours": value}), "gpu_hours"),
                          (api.patch(f"{BUDGETS}{budget.pk}/", {"money": value}), "money"),
                          (api.post(PRICES, {"cluster": cluster.name, "machine": "gpu1", "cpu_hour": value}),
                           "cpu_hour"),
                          (api.patch(f"{PRICES}{price.pk}/", {"gpu_hour": value}), "gpu_hour")):
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, field), answer.content
    assert list(Budget.objects.values_list("money", flat=True)) == [3]
    assert list(Price.objects.values_list("gpu_hour", flat=True)) == [2]
    assert api.patch(f"{BUDGETS}{budget.pk}/", {"money": 0}).json()["money"] == 0


def test_a_second_budget_of_the_same_for_the_same_period_is_refused(api, alice) -> None:
    for body in ({"user": "alice", "trials": 1}, {"trials": 1}):
        assert api.post(BUDGETS, body).status_code == 201
        assert api.post(BUDGETS, body).status_code == 409
        assert api.post(BUDGETS, {**body, "period": "total"}).status_code == 201
    assert Budget.objects.count() == 4


def test_people_see_the_budgets_that_concern_them_and_change_those_of_their_experiments_files_only(
        as_user, api, alice, bob, group, make_experiment) -> None:
    mine = make_experiment(owner=alice)
    own = Budget.objects.create(experiment=mine, is_own=True, period="total", trials=3)
    by_admin = Budget.objects.create(experiment=mine, period="total", trials=2)
    each = Budget.objects.create(money=Decimal(4))
    theirs = Budget.objects.create(user=bob, trials=1)
    hers = as_user(alice)
    assert [row["id"] for row in hers.get(BUDGETS).json()["results"]] == [own.pk, by_admin.pk, each.pk]
    assert [row["id"] for row in as_user(bob).get(BUDGETS).json()["results"]] == [each.pk, theirs.pk]
    assert hers.get(f"{BUDGETS}{theirs.pk}/").status_code == 404
    assert hers.patch(f"{BUDGETS}{own.pk}/", {"trials": 9}).json()["trials"] == 9
    for budget in (by_admin, each):
        assert hers.patch(f"{BUDGETS}{budget.pk}/", {"trials": 9}).status_code == 403
        assert hers.delete(f"{BUDGETS}{budget.pk}/").status_code == 403
    assert hers.post(BUDGETS, {"user": "alice", "trials": 9}).status_code == 403
    assert hers.get(PRICES).status_code == 403
    of_mine = hers.get(f"{BUDGETS}?experiment={mine.public_id}").json()["results"]
    assert [row["id"] for row in of_mine] == [own.pk, by_admin.pk, each.pk]
    assert as_user(bob).get(f"{BUDGETS}?experiment={mine.public_id}").status_code == 404


def test_prices_are_set_for_clusters_and_machines_and_count_in_the_ledger_from_then_on(
        api, make_experiment, make_attempt) -> None:
    experiment = make_experiment(gpus_of_a_trial=2)
    cluster = experiment.cluster.name
    made = api.post(PRICES, {"cluster": cluster, "gpu_hour": 1.25})
    assert made.json() == {"id": made.json()["id"], "cluster": cluster, "machine": "", "gpu_hour": 1.25, "cpu_hour": 0}
    assert api.post(PRICES, {"cluster": cluster, "gpu_hour": 2}).status_code == 409
    assert api.post(PRICES, {"cluster": cluster, "machine": "gpu1", "cpu_hour": -1}).status_code == 400
    assert api.post(PRICES, {"cluster": cluster, "machine": "gpu1", "cpu_hour": "0.1"}).status_code == 201
    ended(make_attempt(experiment))
    assert api.patch(f"{PRICES}{made.json()['id']}/", {"gpu_hour": 10}).json()["gpu_hour"] == 10
    assert len(api.get(PRICES).json()["results"]) == 2
    [row] = api.get(LEDGER).json()["results"]
    assert (row["gpu_hours"], row["gpu_hour_price"], row["money"], row["seconds"]) == (2, 1.25, 2.5, 3600)
    assert api.delete(f"{PRICES}{made.json()['id']}/").status_code == 204
    assert Price.objects.count() == 1


def test_the_ledger_shows_what_concerns_whoever_asks_also_of_deleted_experiments_as_a_file_too(
        api, as_user, alice, bob, make_experiment, make_attempt) -> None:
    hers, his = make_experiment(owner=alice, name="=hers"), make_experiment(owner=bob)
    ended(make_attempt(hers))
    ended(make_attempt(his))
    budget = Budget.objects.create(user=alice, trials=9)
    hers.delete()
    assert {row["owner"] for row in api.get(LEDGER).json()["results"]} == {"alice", "bob"}
    [row] = as_user(alice).get(LEDGER).json()["results"]
    assert (row["owner"], row["experiment"], row["attempt"], row["measured_by"]) == (
        "alice", hers.public_id, 1, "keeper")
    for wish, count in ((f"experiment={his.public_id}", 1), ("month=1999-01", 0), (f"budget={budget.pk}", 1)):
        assert api.get(f"{LEDGER}?{wish}").json()["count"] == count
    assert as_user(bob).get(f"{LEDGER}?budget={budget.pk}").status_code == 404
    assert api.get(f"{LEDGER}?month=now").status_code == 400
    text = streamed(as_user(alice).get(f"{LEDGER}export/")).decode()
    names, line = text.splitlines()
    assert names.startswith("id,at,month,experiment,experiment_name,trial")
    assert "'=hers" in line
    assert LedgerEntry.objects.count() == 2


def test_a_launch_that_no_budget_would_ever_let_start_is_refused_and_one_that_may_wait_is_not(
        api, config, code_folder, ada) -> None:
    body = {"config": config + "budget: {trials: 7, gpuHours: 1.5}\n", "base_directory": str(code_folder)}
    nothing = Budget.objects.create(user=ada, trials=0, period="total")
    for address in ("/api/v1/experiments/", "/api/v1/experiments/check/"):
        answer = api.post(address, body)
        [error] = answer.json()["errors"]
        assert error["message"] == ("The budget of ada allows no trials, so no trial could ever start. Ask an "
                                    "administrator to raise it.")
    Budget.objects.filter(pk=nothing.pk).update(trials=None, gpu_hours=0)  # its trials have no GPUs
    answer = api.post("/api/v1/experiments/", body)
    assert answer.status_code == 201, refused(answer)
    own = Budget.objects.get(experiment__public_id=answer.json()["id"])
    assert (own.is_own, own.period, own.trials, own.gpu_hours) == (True, "total", 7, Decimal("1.5"))
    assert Experiment.objects.get().config["budget"] == {"trials": 7, "gpuHours": 1.5}


def test_of_two_changes_at_the_same_time_none_takes_the_other_back_and_none_brings_back_what_was_removed(
        admin, make_experiment) -> None:
    rows: list[tuple[Any, Any, dict[str, int], dict[str, int]]] = [
        (set_budget, Budget.objects.create(user=admin, wall_hours=1), {"trials": 2}, {"gpu_hours": 3}),
        (set_quota, Quota.objects.create(user=admin), {"max_trials": 2}, {"max_gpus": 3}),
        (set_price, Price.objects.create(cluster=make_experiment().cluster), {"gpu_hour": 2}, {"cpu_hour": 3})]
    for change, row, first, second in rows:
        seen_by_both = [type(row).objects.get(pk=row.pk) for _ in range(2)]
        for seen, fields in zip(seen_by_both, (first, second), strict=True):
            change(seen, fields)
        row.refresh_from_db()
        assert {name: getattr(row, name) for name in first | second} == first | second
        type(row).objects.filter(pk=row.pk).delete()
        with pytest.raises(Refused, match="was removed meanwhile"):
            change(seen_by_both[0], first)
        assert not type(row).objects.exists()
