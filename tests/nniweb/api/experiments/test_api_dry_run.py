"""With ``?dry_run=true`` a change is answered as if it were done, and nothing of it is left."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.urls import resolve
from rest_framework.test import APIClient

from nniweb.experiments.models import Attempt, AuditEntry, Experiment, ExperimentEvent, Trial, TunerEvent, User
from nniweb.experiments.pubsub import doorbell


@pytest.fixture
def client(admin: User, with_token: Callable[..., APIClient]) -> APIClient:
    return with_token(admin)


@pytest.fixture
def trial(make_experiment: Callable[..., Experiment], make_attempt: Callable[..., Attempt]) -> Trial:
    return make_attempt(make_experiment(tuner={"name": "External"}, trial_concurrency=5)).trial


def everything() -> list[Any]:
    return [list(model.objects.order_by("pk").values())  # type: ignore[attr-defined]  # models have one
            for model in (Experiment, Trial, ExperimentEvent, TunerEvent, AuditEntry)]


@pytest.mark.parametrize(("method", "path"), [
    ("DELETE", ""), ("PATCH", ""), ("POST", "trials/"), ("POST", "trials/actions/rerun/"),
    ("POST", "actions/import-data/"), ("POST", "trials/actions/tag/")])
def test_a_change_that_cannot_be_tried_is_not_made_either(method: str, path: str, client: APIClient, trial: Trial
                                                          ) -> None:
    before = everything()
    address = f"/api/v1/experiments/{trial.experiment.public_id}/{path}?dry_run=true"
    answer = client.generic(method, address, '{"parameters": {"x": 0.5}}', content_type="application/json")
    assert answer.status_code == 400, answer.content
    assert answer.json()["errors"][0]["field"] == "dry_run"
    assert everything() == before


@pytest.mark.parametrize(("method", "path", "body"), [
    ("POST", "trials/TRIAL/actions/cancel/", "{}"), ("POST", "trials/TRIAL/actions/freeze/", "{}"),
    ("DELETE", "experiments/EXPERIMENT/", "{}"), ("PATCH", "experiments/EXPERIMENT/", '{"name": "other"}'),
    ("POST", "experiments/EXPERIMENT/actions/import-data/", '{"results": [{"parameter": {"x": 0.5}, "value": 1}]}'),
    ("POST", "experiments/EXPERIMENT/trials/actions/rerun/", '{"fitting": {}}'), ("POST", "tokens/", '{"name": "t"}')])
def test_a_change_that_cannot_be_tried_is_not_made_where_the_body_asks_for_that(
        method: str, path: str, body: str, client: APIClient, trial: Trial) -> None:
    before = everything()
    address = "/api/v1/" + path.replace("TRIAL", trial.public_id).replace("EXPERIMENT", trial.experiment.public_id)
    for name in ("dry_run", "dryRun", "DRY-RUN", "dr\\u0079_run"):
        asked = body[:-1] + (", " if body != "{}" else "") + f'"{name}": true}}'
        answer = client.generic(method, address, asked, content_type="application/json")
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (
            400, name.replace("\\u0079", "y")), answer.content
    assert everything() == before
    done = client.generic(method, address, body, content_type="application/json")
    assert b"dry" not in done.content


def test_the_schema_names_the_parameter_where_a_view_has_a_dry_run(client: APIClient) -> None:
    named = {(path, method) for path, operations in client.get("/api/schema/?format=json").json()["paths"].items()
             for method, operation in operations.items()
             if any(one["name"] == "dry_run" for one in operation.get("parameters", []))}
    have = set()
    for path, method in {(path, "post") for path, _ in named}:
        view = resolve(re.sub(r"\{[^}]*\}", "abcdefgh1234", path)).func
        assert view.cls.has_dry_run, path  # type: ignore[attr-defined]  # DRF sets it
        have.add((path, method))
    assert have == named
    assert len(named) >= 9


@pytest.mark.parametrize(("action", "body"), [
    ("actions/stop/", None), ("actions/pause/", None), ("trials/actions/stop/", {"fitting": {}}),
    ("proposals/", {"proposals": [{"parameters": {"x": 0.25}, "key": "a"}]})])
def test_nothing_is_left_of_a_dry_run(action: str, body: Any, client: APIClient, trial: Trial,
                                      django_capture_on_commit_callbacks: Any) -> None:
    before = everything()
    path = f"/api/v1/experiments/{trial.experiment.public_id}/{action}"
    with doorbell.listening() as listener, django_capture_on_commit_callbacks(execute=True):
        tried = client.post(f"{path}?dry_run=true", body, format="json")
    assert everything() == before
    assert listener.take() == set()
    done = client.post(path, body, format="json")
    assert tried.status_code == done.status_code
    assert tried.json().keys() == done.json().keys()
    assert everything() != before


def test_a_dry_run_of_a_proposal_tells_its_trial_and_its_errors(client: APIClient, trial: Trial) -> None:
    path = f"/api/v1/experiments/{trial.experiment.public_id}/proposals/?dry_run=true"
    answer = client.post(path, {"proposals": [{"parameters": {"x": 0.25}}]}, format="json").json()
    assert (answer["trials"][0]["is_new"], answer["trials"][0]["trial"]["parameters"]) == (True, {"x": 0.25})
    wrong = client.post(path, {"proposals": [{"parameters": {"x": 7}}]}, format="json")
    assert (wrong.status_code, wrong.json()["errors"][0]["field"]) == (400, "proposals[0].parameters.x")


def test_a_dry_run_is_refused_as_the_change_itself(client: APIClient, trial: Trial, vera: User,
                                                   with_token: Callable[..., APIClient]) -> None:
    path = f"/api/v1/experiments/{trial.experiment.public_id}/actions"
    assert with_token(vera).post(f"{path}/stop/?dry_run=true").status_code == 403
    unclear = client.post(f"{path}/stop/?dry_run=perhaps")
    assert unclear.status_code == 400
    assert unclear.json()["errors"] == [{"field": "dry_run", "message": 'must be true or false, not "perhaps".'}]
    assert client.post(f"{path}/stop/").status_code == 200
    assert client.post(f"{path}/pause/?dry_run=true").json() == client.post(f"{path}/pause/").json()
    assert client.post(f"{path}/pause/").status_code == 409


@pytest.mark.parametrize("action", ["actions/pause/", "actions/freeze/", "actions/resume/", "actions/stop/",
                                    "actions/rerun-failed/", "trials/actions/stop/", "proposals/"])
def test_a_dry_run_that_is_asked_for_in_the_body_changes_nothing(action: str, client: APIClient, trial: Trial) -> None:
    before = everything()
    path = f"/api/v1/experiments/{trial.experiment.public_id}/{action}"
    for body in ({"dry_run": True}, {"dry_run": False}, {"dryRun": True}):
        answer = client.post(path, body, format="json")
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, next(iter(body))), answer.content
    assert everything() == before
    if action == "actions/pause/":
        said = client.post(path, {"dry_run": "true"}).json()["errors"]
        assert said == [{"field": "dry_run", "message": "belongs in the address, as ?dry_run=true. Nothing was done."}]


@pytest.mark.parametrize("name", ["DRY_RUN", "dry-run", "dry_run[]", "dryRun"])
def test_other_spellings_of_dry_run_are_refused_where_something_would_change(name: str, client: APIClient, trial: Trial
                                                                             ) -> None:
    before, path = everything(), f"/api/v1/experiments/{trial.experiment.public_id}/"
    for answer in (client.post(f"{path}actions/pause/?{name}=true"), client.delete(f"{path}?{name}=true")):
        assert answer.status_code == 400
        assert answer.json()["errors"] == [{"field": name, "message": (
            "is not known, so nothing was done. Write dry_run=true to try a change.")}]
    assert everything() == before
    assert client.get(f"{path}?{name}=true").status_code == 200


def test_who_is_nobody_is_told_to_sign_in(trial: Trial) -> None:
    path = f"/api/v1/experiments/{trial.experiment.public_id}/?dry_run=true"
    assert APIClient().delete(path).status_code == 401
    assert Experiment.objects.filter(deleted_at=None).exists()
