"""Who gets in, and what is only to look at."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import Group
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from nniweb.experiments.models import ApiToken, AuditEntry, SignInLink, Trial, User, Worker
from nniweb.experiments.models.account import Role, Scope, hash_of

MODELS = ["cluster", "experiment", "trial", "user", "apitoken", "worker", "auditentry", "singlesignonidentity"]


@pytest.mark.parametrize("model", MODELS)
def test_an_administrator_by_role_sees_every_list(browser, model) -> None:
    assert browser.get(f"/admin/experiments/{model}/").status_code == 200


def test_members_are_told_that_it_is_not_for_them(client, db) -> None:
    client.force_login(User.objects.create_user("max", role=Role.MEMBER))
    answer = client.get("/admin/", follow=True)
    assert answer.status_code == 403
    assert "not for your role" in answer.content.decode()


def test_strangers_sign_in_where_everybody_does(client, db) -> None:
    answer = client.get("/admin/experiments/cluster/", follow=True)
    assert answer.redirect_chain[-1][0].startswith("/sign-in/?next=")


def test_links_to_sign_in_are_nowhere(browser, rita) -> None:
    SignInLink.make(rita)
    assert "signinlink" not in browser.get("/admin/").content.decode().lower()
    assert browser.get("/admin/experiments/signinlink/").status_code == 404


@pytest.mark.parametrize("model", ["experiment", "trial", "worker"])
def test_rows_of_programs_are_only_to_look_at(browser, make_attempt, model) -> None:
    attempt = make_attempt()
    worker = Worker.objects.create(id="w1", host="box", pid=1, started_at=timezone.now(), heard_at=timezone.now())
    pk = {"experiment": attempt.trial.experiment_id, "trial": attempt.trial_id, "worker": worker.pk}[model]
    page = browser.get(f"/admin/experiments/{model}/{pk}/change/")
    assert page.status_code == 200
    assert 'name="_save"' not in page.content.decode()
    for what in (f"{pk}/delete/", "add/"):
        assert browser.get(f"/admin/experiments/{model}/{what}").status_code == 403
    assert browser.post(f"/admin/experiments/{model}/{pk}/change/", {"name": "x"}).status_code == 403


@pytest.mark.parametrize(("model", "most"), [("experiment", 8), ("trial", 8)])
def test_lists_ask_a_fixed_number_of_questions_without_joins_to_count(browser, make_experiment, model, most) -> None:
    experiments = [make_experiment(name=f"e{number}") for number in range(60)]
    now = timezone.now()
    Trial.objects.bulk_create(Trial(experiment=experiments[0], sequence_id=number, created_at=now + timedelta(number))
                              for number in range(3000))
    browser.get(f"/admin/experiments/{model}/")
    with CaptureQueriesContext(connection, ) as asked:
        assert browser.get(f"/admin/experiments/{model}/").status_code == 200
    texts = [query["sql"] for query in asked]
    assert len(texts) <= most, texts
    counting = [text for text in texts if "COUNT(" in text]
    assert len(counting) == 1
    assert "JOIN" not in counting[0]


def test_a_trial_is_found_by_its_id_and_by_its_experiments(browser, make_attempt) -> None:
    trial = make_attempt().trial
    for wanted in (trial.public_id, trial.experiment.public_id):
        assert trial.public_id in browser.get(f"/admin/experiments/trial/?q={wanted}").content.decode()


def test_a_token_is_shown_once_and_works(browser, rita, client) -> None:
    answer = browser.post("/admin/experiments/apitoken/add/", {"user": rita.pk, "name": "notebook",
                                                                 "scope": "change"}, follow=True)
    [message] = [str(message) for message in answer.context["messages"] if "nniweb_" in str(message)]
    secret = next(word for word in message.split() if word.startswith("nniweb_"))
    token = ApiToken.objects.get()
    assert token.scope == "change"
    assert (token.user, token.name, token.hash) == (rita, "notebook", hash_of(secret))
    client.logout()
    assert client.get("/api/v1/workers/", headers={"Authorization": f"Token {secret}"}).status_code == 200
    client.force_login(rita)
    for page in ("", f"{token.pk}/change/"):
        text = client.get(f"/admin/experiments/apitoken/{page}").content.decode()
        assert token.hash not in text
        assert secret not in text


def test_a_token_by_which_something_was_asked_for_is_ended_and_its_limits_are_shown_and_stay(
        browser, rita, make_experiment) -> None:
    token = ApiToken.make_with_row(rita, "agent", Scope.CHANGE, None, roles=["read", "launch"], max_trials=7)[1]
    make_experiment(token=token)
    page = f"/admin/experiments/apitoken/{token.pk}"
    text = browser.get(f"{page}/change/").content.decode()
    assert "launch" in text
    browser.post(f"{page}/change/", {"name": "renamed", "max_trials": "999", "roles": '["steer"]', "scope": "admin"})
    browser.post(f"{page}/delete/", {"post": "yes"})
    token.refresh_from_db()
    assert (token.name, token.roles, token.max_trials, token.scope) == ("renamed", ["read", "launch"], 7, "change")
    assert token.has_ended
    assert list(AuditEntry.objects.filter(kind="token").order_by("pk").values_list("action", flat=True)) == [
        "admin.change", "token.end"]


def test_a_person_is_made_with_a_role_and_without_a_password(browser) -> None:
    answer = browser.post("/admin/experiments/user/add/", {"username": "max", "role": "viewer",
                                                           "usable_password": "false"})
    assert answer.status_code == 302, answer.context["adminform"].form.errors
    made = User.objects.get(username="max")
    assert (made.role, made.has_usable_password(), made.is_admin) == (Role.VIEWER, False, False)
    page = browser.get(f"/admin/experiments/user/{made.pk}/change/").content.decode()
    assert "../password/" in page


def test_a_role_and_groups_are_changed(browser) -> None:
    made, group = User.objects.create_user("max"), Group.objects.create(name="vision")
    answer = browser.post(f"/admin/experiments/user/{made.pk}/change/", {
        "username": "max", "role": "admin", "is_active": "on", "groups": [group.pk]})
    assert answer.status_code == 302, answer.context["adminform"].form.errors
    made.refresh_from_db()
    assert made.is_admin
    assert list(made.groups.all()) == [group]
