"""Leashes on pages: the form of one's account makes them, the page of tokens shows what they run and ends them."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client

from nniweb.experiments.actions import intents
from nniweb.experiments.models import ApiToken, AuditEntry, Budget, Cluster, Experiment, Trial, User
from nniweb.experiments.models.account import Scope


def text_of(client: Client, page: str = "/tokens/") -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", client.get(page).content.decode()))


def leash(person: User, name: str = "agent", **fields: Any) -> ApiToken:
    return ApiToken.make_with_row(person, name, Scope.CHANGE, None, roles=["read", "launch"], **fields)[1]


FORM = {"make-token": "1", "name": "night", "scope": "leash", "lives": "0.5", "roles": ["read", "launch"],
        "period": "total"}


def test_the_form_makes_a_leash_with_a_budget(browser, max_) -> None:
    lab = Cluster.objects.create(name="lab", platform="local")
    client = browser(max_)
    assert 'value="leash"' in client.get("/account/").content.decode()
    answer = client.post("/account/", {**FORM, "clusters": ["lab"], "max_trials": "4", "gpu_hours": "2.5",
                                       "trials": "100"}, follow=True)
    token = ApiToken.objects.get()
    assert (token.roles, token.clusters, token.max_trials, token.scope) == (
        ["read", "launch"], [lab.public_id], 4, "change")
    budget = Budget.objects.get(token=token)
    assert (budget.period, float(budget.gpu_hours), budget.trials, budget.money) == ("total", 2.5, 100, None)
    assert "nniweb_" in answer.content.decode()
    text = text_of(client)
    for said in ("read, launch", "only on lab", "4 trials at a time", "2.50 of 2.50 GPU-hours left",
                 "100 of 100 trials", "Runs now", "nothing"):
        assert said in text, said


@pytest.mark.parametrize(("wrong", "said"), [
    ({"roles": []}, "Choose at least one role."), ({"scope": "read"}, "Choose leash here, or leave them out."),
    ({"roles": ["steer"]}, "Without the role launch the token would have nothing of its own"),
    ({"max_trials": "0"}, "greater than or equal to 1"), ({"gpu_hours": "-1"}, "greater than or equal to 0"),
    ({"clusters": ["nowhere"]}, "nowhere is not one of the available choices")])
def test_a_wrong_leash_is_said_at_its_field_and_what_was_typed_stays(browser, max_, wrong, said) -> None:
    Cluster.objects.create(name="lab", platform="local")
    answer = browser(max_).post("/account/", {**FORM, "trials": "77", **wrong})
    assert answer.status_code == 400
    text = answer.content.decode()
    assert said in text
    assert '<details class="leash" open>' in text
    assert 'name="trials" min="0" step="any" value="77"' in text
    assert not ApiToken.objects.exists()


def test_a_viewer_is_offered_the_role_read_alone(browser, vera) -> None:
    text = browser(vera).get("/account/").content.decode()
    assert re.findall(r'name="roles" value="(\w+)"', text) == ["read"]


def test_people_see_their_own_tokens_and_administrators_all(browser, max_, rita, vera, make_experiment) -> None:
    token = leash(max_, max_trials=1)
    make_experiment(owner=max_, token=token)
    ApiToken.make(vera, "notebook", Scope.READ)
    of_max, of_vera, of_rita = (text_of(browser(person)) for person in (max_, vera, rita))
    assert "1 experiment, 0 trials" in of_max
    assert "notebook" not in of_max
    assert "agent" not in of_vera
    assert "agent" in of_rita
    assert "notebook" in of_rita
    assert f"/admin/experiments/auditentry/?token_id={token.pk}" in browser(rita).get("/tokens/").content.decode()
    for number in (token.pk, token.pk + 1):
        AuditEntry.objects.create(action=f"by {number}", token_id=number)
    listed = browser(rita).get(f"/admin/experiments/auditentry/?token_id={token.pk}").content.decode()
    assert f"by {token.pk}" in listed
    assert f"by {token.pk + 1}" not in listed
    assert "auditentry" not in browser(max_).get("/tokens/").content.decode()


def test_it_is_ended_with_a_click_and_what_it_runs_where_that_is_ticked(browser, max_, rita, vera, make_experiment
                                                                        ) -> None:
    token, other = leash(max_), leash(max_, "other")
    experiment = make_experiment(owner=max_, token=token)
    trial = intents.submit_trial(make_experiment(owner=max_), {"x": 0.5})
    Trial.objects.filter(pk=trial.pk).update(token=token)
    assert browser(vera).post("/tokens/", {"end-token": token.pk}).status_code == 404
    for no_number in ("x", "", "9" * 19):
        assert browser(rita).post("/tokens/", {"end-token": no_number}).status_code == 404
    answer = browser(max_).post("/tokens/", {"end-token": token.pk}, follow=True)
    assert "was ended and can no longer be used. What it runs goes on." in answer.content.decode()
    assert Experiment.objects.get(pk=experiment.pk).target == "RUN"
    text = text_of(browser(rita))
    assert "Ended by max" in text, "it is listed as long as something of it runs"
    answer = browser(rita).post("/tokens/", {"end-token": token.pk, "stop": "on"}, follow=True)
    assert "1 experiment and 1 further trial are being stopped." in answer.content.decode()
    assert Experiment.objects.get(pk=experiment.pk).target == "STOP"
    assert Trial.objects.get(pk=trial.pk).status == "USER_CANCELED"
    Experiment.objects.filter(pk=experiment.pk).update(status="STOPPED")
    assert "Ended by max" not in text_of(browser(max_))
    assert "Ended by max" in text_of(browser(max_), "/tokens/?ended=1")
    other.refresh_from_db()
    assert not other.has_ended


def test_the_questions_of_the_page_do_not_grow_with_what_was_asked_for(browser, max_, make_experiment,
                                                                      django_assert_max_num_queries) -> None:
    for number in range(8):
        make_experiment(owner=max_, token=leash(max_, f"agent {number}"))
    client = browser(max_)
    client.get("/tokens/")
    with django_assert_max_num_queries(12):
        client.get("/tokens/")


def test_roles_that_are_ticked_make_a_leash_where_the_scope_is_as_the_page_showed_it(browser, max_, rita) -> None:
    for person, shown in ((max_, "change"), (rita, "admin")):
        client = browser(person)
        assert f'<option value="{shown}" selected>' in client.get("/account/").content.decode()
        wrong = client.post("/account/", {**FORM, "scope": shown, "max_trials": "0"}).content.decode()
        assert '<option value="leash" selected>' in wrong
        assert f'<option value="{shown}" selected>' not in wrong
        assert client.post("/account/", {**FORM, "scope": shown, "max_trials": "4"}).status_code == 302
        token = ApiToken.objects.get(user=person)
        assert (token.roles, token.max_trials, token.scope) == (["read", "launch"], 4, "change")
