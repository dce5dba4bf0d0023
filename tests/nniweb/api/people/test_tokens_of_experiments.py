"""Experiments and trials know by which token they were asked for."""

from nniweb.experiments.access.request_actor import asked_by
from nniweb.experiments.actions.intents import submit_trial
from nniweb.experiments.models import ApiToken, Experiment, Trial


def test_what_a_token_asks_for_has_the_token(api, config, code_folder) -> None:
    answer = api.post("/api/v1/experiments/", {"config": config, "base_directory": str(code_folder)})
    experiment = Experiment.objects.get(public_id=answer.json()["id"])
    path = f"/api/v1/experiments/{experiment.public_id}/trials/"
    first = api.post(path, {"parameters": {"x": 0.5}}).json()["id"]
    Trial.objects.filter(public_id=first).update(status="FAILED")
    assert api.post(f"/api/v1/experiments/{experiment.public_id}/actions/rerun-failed/").status_code == 200
    assert api.post(f"/api/v1/trials/{first}/actions/rerun/").status_code == 201
    token = ApiToken.objects.get()
    assert experiment.token == token
    assert list(Trial.objects.values_list("token", flat=True)) == [token.pk] * 3


def test_what_a_proposal_asks_for_has_the_token(api, make_experiment) -> None:
    experiment = make_experiment(tuner={"name": "External"}, optimize_mode="maximize")
    answer = api.post(f"/api/v1/experiments/{experiment.public_id}/proposals/",
                      {"proposals": [{"parameters": {"x": 0.5}}]})
    assert answer.status_code in (200, 201), answer.content
    assert Trial.objects.get().token == ApiToken.objects.get()


def test_what_a_command_asks_for_has_none(make_experiment) -> None:
    with asked_by("command"):
        submit_trial(make_experiment(), {"x": 0.5})
    assert Trial.objects.get().token is None


def test_an_experiment_outlives_its_token(api, make_experiment) -> None:
    experiment = make_experiment()
    api.post(f"/api/v1/experiments/{experiment.public_id}/trials/", {"parameters": {"x": 0.5}})
    ApiToken.objects.all().delete()
    assert Trial.objects.get().token is None
