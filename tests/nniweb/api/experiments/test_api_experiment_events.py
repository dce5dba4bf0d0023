"""The history over REST: of the experiment, of its trials too, filtered by what and by whom."""

from collections.abc import Callable

from django.utils import timezone
from rest_framework.test import APIClient

from nniweb.experiments.models import Attempt, Experiment, ExperimentEvent, TrialEvent, User


def test_events_of_an_experiment_and_of_its_trials(
        make_experiment: Callable[..., Experiment], make_attempt: Callable[..., Attempt], alice: User,
        as_user: Callable[[User], APIClient]) -> None:
    experiment = make_experiment(owner=alice)
    trial = make_attempt(experiment).trial
    first, second, third = (timezone.now() for _ in range(3))
    ExperimentEvent.objects.create(experiment=experiment, at=first, kind="launched", actor=alice)
    TrialEvent.objects.create(trial=trial, at=second, kind="created")
    ExperimentEvent.objects.create(experiment=experiment, at=third, kind="RUNNING", message="Go.")
    client, path = as_user(alice), f"/api/v1/experiments/{experiment.public_id}/events/"

    def kinds(**query: str) -> list[str]:
        return [event["kind"] for event in client.get(path, query).json()["results"]]

    assert kinds() == ["launched", "RUNNING"]
    assert kinds(trials="true") == ["launched", "created", "RUNNING"]
    assert kinds(trials="true", order="-at") == ["RUNNING", "created", "launched"]
    assert kinds(trials="true", by="alice") == ["launched"]
    assert kinds(trials="true", by="-") == ["created", "RUNNING"]
    assert kinds(trials="true", kind="created") == ["created"]
    of_trial = client.get(path, {"trials": "true", "kind": "created"}).json()["results"][0]
    assert (of_trial["trial"], of_trial["sequence_id"], of_trial["actor"]) == (trial.public_id, 0, None)
    assert client.get(path).json()["results"][0]["sequence_id"] is None


def test_a_search_space_as_text_is_refused_with_the_line(make_experiment: Callable[..., Experiment], alice: User,
                                                         as_user: Callable[[User], APIClient]) -> None:
    experiment = make_experiment(owner=alice)
    client, path = as_user(alice), f"/api/v1/experiments/{experiment.public_id}/"
    wrong = client.patch(path, {"search_space_text": '{\n "x": {"_type": "unifrom", "_value": [0, 1]}\n}'})
    assert wrong.status_code == 400
    assert wrong.json()["errors"][0]["line"] == 2
    cut = client.patch(path, {"search_space_text": '{\n "x": {"_type"\n}'})
    assert (cut.status_code, cut.json()["errors"][0]["line"]) == (400, 3)
    good = client.patch(path, {"search_space_text": '{"y": {"_type": "uniform", "_value": [0, 1]}}'})
    assert good.json()["search_space"] == {"y": {"_type": "uniform", "_value": [0, 1]}}
