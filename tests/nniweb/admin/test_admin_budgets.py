"""Budgets that administrators set in the admin obey the rules of those set over REST."""

import pytest

from nniweb.experiments.models import Budget, User

ADD = "/admin/experiments/budget/add/"


@pytest.mark.parametrize(("fields", "said"), [
    ({}, "A budget needs a limit. Give at least one of gpu_hours, cpu_hours, trials, wall_hours and money."),
    ({"trials": str(2**31)}, "less than or equal to 2147483647"),
    ({"money": "1000000000.5"}, "less than or equal to 1000000000."),
    ({"money": "0.0000001"}, "no more than 4 decimal places")], ids=["no limit", "trials", "money", "tiny"])
def test_a_budget_that_rest_would_refuse_is_refused_by_the_form(browser, rita: User, fields: dict, said: str) -> None:
    page = browser.post(ADD, {"user": rita.pk, "period": "total", **fields})
    assert page.status_code == 200
    assert said in page.content.decode()
    assert not Budget.objects.exists()


def test_a_budget_keeps_a_limit_when_the_form_changes_it(browser, rita: User) -> None:
    assert browser.post(ADD, {"user": rita.pk, "period": "total", "trials": str(2**31 - 1)}).status_code == 302
    budget = Budget.objects.get()
    address = f"/admin/experiments/budget/{budget.pk}/change/"
    assert browser.post(address, {"user": rita.pk, "period": "total", "trials": ""}).status_code == 200
    assert browser.post(address, {"user": rita.pk, "period": "total", "trials": "0"}).status_code == 302
    assert Budget.objects.get().trials == 0
