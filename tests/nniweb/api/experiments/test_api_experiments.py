"""Lists, documents, changes and steering of experiments."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from nniweb.experiments.models import Cluster, Experiment, ExperimentEvent, Trial, TunerEvent


def add_trials(experiment, *finals: float | None, status: str = "SUCCEEDED") -> None:
    now = timezone.now()
    first = Trial.objects.filter(experiment=experiment).count()
    Trial.objects.bulk_create(
        Trial(experiment=experiment, sequence_id=first + index, status=status, created_at=now,
              final_number=final, final_value=None if final is None else str(final))
        for index, final in enumerate(finals))


def names(answer) -> list[str]:
    assert answer.status_code == 200, answer.content
    return [row["name"] for row in answer.json()["results"]]


def test_a_list_shows_progress_and_the_best_trial(api, make_experiment) -> None:
    since = timezone.now() - timedelta(seconds=100)
    experiment = make_experiment(running_since=since, started_at=since)
    add_trials(experiment, 0.5, 0.25, 0.25, None)
    add_trials(experiment, 0.1, status="FAILED")  # a failed trial's value is no result
    add_trials(experiment, None, status="RUNNING")
    row = api.get("/api/v1/experiments/").json()["results"][0]
    progress = row["progress"]
    assert progress["trials"]["SUCCEEDED"] == 4
    assert progress["trials"]["FAILED"] == progress["trials"]["RUNNING"] == 1
    assert progress["trials"]["WAITING"] == 0
    assert (progress["total"], progress["ended"], progress["fraction"]) == (6, 5, 0.5)
    assert progress["best_value"] == 0.25
    assert progress["best_trial_id"] == Trial.objects.get(sequence_id=1).public_id
    assert progress["elapsed"] == pytest.approx(100, abs=20)
    assert progress["eta"] == pytest.approx(100, abs=20)
    assert (row["id"], row["owner"], row["cluster"], row["platform"]) == (experiment.public_id, "ada", "local", "local")
    assert "config" not in row


def test_the_best_of_a_maximizing_experiment_is_its_greatest(api, make_experiment) -> None:
    experiment = make_experiment(optimize_mode="maximize")
    add_trials(experiment, 0.5, 0.75, 0.1)
    progress = api.get(f"/api/v1/experiments/{experiment.public_id}/").json()["progress"]
    assert (progress["best_value"], progress["best_trial_id"]) == (0.75, Trial.objects.get(sequence_id=1).public_id)


def test_an_experiment_without_results_has_no_best_and_no_time_left(api, make_experiment) -> None:
    make_experiment(max_trial_number=None)
    progress = api.get("/api/v1/experiments/").json()["results"][0]["progress"]
    assert (progress["best_value"], progress["best_trial_id"], progress["eta"], progress["fraction"]) == (None,) * 4


def test_the_number_of_queries_does_not_grow_with_the_list(api, make_experiment) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection, ) as found:
            api.get("/api/v1/experiments/")
        return len(found)

    add_trials(make_experiment(), 0.5)
    api.get("/api/v1/experiments/")  # the token's use is noted
    few = queries()
    for _ in range(8):
        add_trials(make_experiment(), 0.5, 0.25, None)
    assert queries() == few <= 9  # owners, groups and clusters are asked for once, not with each row


def test_a_page_has_count_and_neighbours(api, make_experiment) -> None:
    for number in range(5):
        make_experiment(name=f"e{number}", created_at=timezone.now() + timedelta(seconds=number))
    body = api.get("/api/v1/experiments/?page_size=2&page=2").json()
    assert (body["count"], [row["name"] for row in body["results"]]) == (5, ["e2", "e1"])
    assert "page=3" in body["next"]
    assert "page_size=2" in body["previous"]


def test_lists_are_filtered(api, make_experiment, alice) -> None:
    other = Cluster.objects.create(name="far", platform="local")
    make_experiment(name="one", status="DONE", tags=["a", "b"], description="About Mice")
    make_experiment(name="two", cluster=other, tags=["ab"], owner=alice)
    make_experiment(name="three", status="STOPPED", archived=True, tags=["ü'\""])

    def found(query: str) -> list[str]:
        return sorted(names(api.get(f"/api/v1/experiments/?{query}")))

    assert found("") == ["one", "two"]
    assert found("archived=true") == ["three"]
    assert found("archived=all") == ["one", "three", "two"]
    assert found("status=DONE,STOPPED&archived=all") == found("status=DONE&status=STOPPED&archived=all")
    assert found("status=DONE,STOPPED&archived=all") == ["one", "three"]
    assert found("owner=alice") == ["two"]
    assert found("cluster=far") == ["two"]
    assert found("tag=a") == ["one"]
    assert found("tag=%C3%BC%27%22&archived=all") == ["three"]
    assert found("q=MICE") == found("q=on") == ["one"]
    assert found(f"q={Experiment.objects.get(name='two').public_id[:8]}") == ["two"]


def test_lists_are_ordered_with_what_is_missing_last(api, make_experiment) -> None:
    now = timezone.now()
    make_experiment(name="b", started_at=now)
    make_experiment(name="a", started_at=None)
    make_experiment(name="c", started_at=now + timedelta(seconds=1))
    assert names(api.get("/api/v1/experiments/?order=name")) == ["a", "b", "c"]
    assert names(api.get("/api/v1/experiments/?order=started")) == ["b", "c", "a"]
    assert names(api.get("/api/v1/experiments/?order=-started")) == ["c", "b", "a"]


def test_a_document_has_everything(api, make_experiment) -> None:
    experiment = make_experiment(config={"trialCommand": "true"}, config_text="trialCommand: true", notes=["so"])
    body = api.get(f"/api/v1/experiments/{experiment.public_id}/").json()
    assert (body["config"], body["config_text"]) == ({"trialCommand": "true"}, "trialCommand: true")
    assert body["notes"] == ["so"]
    assert body["search_space"] == experiment.search_space
    assert body["tuner"] == {"name": "Random"}
    assert body["code_sha256"] is None


def test_limits_concurrency_and_words_are_changed(api, make_experiment) -> None:
    experiment = make_experiment()
    body = api.patch(f"/api/v1/experiments/{experiment.public_id}/", {
        "trial_concurrency": 4, "max_trial_number": 20, "max_duration": "90m", "max_trial_duration": 30,
        "name": "new", "description": "", "tags": ["x", "x", "y"],
        "search_space": {"y": {"_type": "choice", "_value": [1, 2]}}}).json()
    assert (body["trial_concurrency"], body["max_trial_number"]) == (4, 20)
    assert (body["max_duration"], body["max_trial_duration"]) == (5400, 30)
    assert (body["name"], body["description"], body["tags"]) == ("new", "", ["x", "y"])
    assert body["search_space"] == {"y": {"_type": "choice", "_value": [1, 2]}}
    assert body["revision"] > experiment.revision
    assert ExperimentEvent.objects.get(experiment=experiment).actor.username == "ada"
    body = api.patch(f"/api/v1/experiments/{experiment.public_id}/", {"max_trial_number": None, "max_duration": None})
    assert body.json()["max_trial_number"] is body.json()["max_duration"] is None


@pytest.mark.parametrize(("change", "field"), [
    ({"trial_concurrency": 0}, "trial_concurrency"), ({"trial_concurrency": "many"}, "trial_concurrency"),
    ({"trial_concurrency": None}, "trial_concurrency"), ({"trial_concurrency": 10**30}, "trial_concurrency"),
    ({"max_trial_number": -1}, "max_trial_number"), ({"max_trial_number": 10**20}, "max_trial_number"),
    ({"max_duration": "soon"}, "max_duration"), ({"max_duration": 0}, "max_duration"),
    ({"max_duration": True}, "max_duration"), ({"max_trial_duration": [1]}, "max_trial_duration"),
    ({"search_space": {}}, "search_space"), ({"search_space": []}, "search_space"),
    ({"search_space": {"x": {"_type": "uniform", "_value": [2, 1]}}}, "search_space.x"),
    ({"search_space": {"x": {"_type": "choice", "_value": []}}}, "search_space.x"),
    ({"name": ""}, "name"), ({"name": "x" * 300}, "name"), ({"tags": "a"}, "tags"), ({"tags": [{}]}, "tags"),
    ({"archived": "perhaps"}, "archived"), ({"status": "DONE"}, "status"), ({"group": "nobody"}, "group")])
def test_a_wrong_change_names_its_field_and_changes_nothing(api, make_experiment, change, field) -> None:
    experiment = make_experiment()
    answer = api.patch(f"/api/v1/experiments/{experiment.public_id}/", {"trial_concurrency": 7, **change})
    assert answer.status_code == 400, answer.content
    found = [error["field"] for error in answer.json()["errors"]]
    assert any(name.startswith(field) for name in found), answer.json()
    experiment.refresh_from_db()
    assert experiment.trial_concurrency == 2


def test_archiving_a_running_experiment_is_refused_with_all_that_came_with_it(api, make_experiment) -> None:
    experiment = make_experiment()
    answer = api.patch(f"/api/v1/experiments/{experiment.public_id}/", {"archived": True, "name": "other"})
    assert answer.status_code == 409
    assert "stop it" in answer.json()["errors"][0]["message"]
    experiment.refresh_from_db()
    assert experiment.name == "quadratic"
    experiment.status = "STOPPED"
    experiment.save()
    assert api.patch(f"/api/v1/experiments/{experiment.public_id}/", {"archived": True}).json()["archived"] is True


def test_pause_resume_and_stop_write_what_is_wanted(api, make_experiment) -> None:
    experiment = make_experiment(running_since=timezone.now())
    base = f"/api/v1/experiments/{experiment.public_id}/actions/"
    assert api.post(f"{base}pause/").json()["status"] == "PAUSED"
    assert api.post(f"{base}resume/").json()["status"] == "RUNNING"
    stopping = api.post(f"{base}stop/").json()
    assert (stopping["status"], stopping["target"]) == ("STOPPING", "STOP")
    refused = api.post(f"{base}pause/")
    assert refused.status_code == 409
    assert "STOPPING" in refused.json()["errors"][0]["message"]
    events = api.get(f"/api/v1/experiments/{experiment.public_id}/events/").json()["results"]
    assert [event["kind"] for event in events] == ["PAUSED", "RUNNING", "STOPPING"]


def test_one_that_is_done_at_its_limit_is_resumed_with_a_higher_one(api, make_experiment, make_attempt) -> None:
    experiment = make_experiment(status="DONE", max_trial_number=1, next_sequence_id=1, max_duration=60.0)
    make_attempt(experiment, status="SUCCEEDED")
    address = f"/api/v1/experiments/{experiment.public_id}/actions/resume/"
    for body in (None, {"max_trial_number": 1}, {"max_duration": "2h"}):
        refused = api.post(address, body, format="json")
        assert (refused.status_code, refused.json()["errors"][0]["reason"]["code"]) == (409, "limit_reached"), body
        experiment.refresh_from_db()
        assert (experiment.status, experiment.max_duration) == ("DONE", 60.0)
    wrong = api.post(address, {"max_trial_number": 0, "max_duration": "soon"}, format="json")
    assert {error["field"] for error in wrong.json()["errors"]} == {"max_trial_number", "max_duration"}
    answer = api.post(address, {"max_trial_number": 3, "max_duration": "2h"}, format="json").json()
    assert (answer["status"], answer["max_trial_number"], answer["max_duration"]) == ("RUNNING", 3, 7200)


def test_a_running_experiment_is_not_deleted_and_an_ended_one_is(api, make_experiment) -> None:
    experiment = make_experiment()
    address = f"/api/v1/experiments/{experiment.public_id}/"
    refused = api.delete(address)
    assert refused.status_code == 409
    assert "stop it before" in refused.json()["errors"][0]["message"]
    experiment.status = "DONE"
    experiment.save()
    assert api.delete(address).status_code == 204
    assert api.get(address).status_code == 404
    assert Experiment.objects.get().deleted_at is not None  # its rows go later, by the worker


def test_failed_trials_are_run_again_all_at_once(api, make_experiment, make_attempt) -> None:
    experiment = make_experiment(max_trial_number=None)
    address = f"/api/v1/experiments/{experiment.public_id}/actions/rerun-failed/"
    refused = api.post(address)
    assert refused.status_code == 409
    assert refused.json()["errors"][0]["message"] == "There is no failed trial that has not been run again."
    for status in ("FAILED", "SUCCEEDED", "FAILED"):
        make_attempt(experiment, status=status)
    answer = api.post(address)
    assert (answer.status_code, answer.json()["progress"]["trials"]["WAITING"]) == (200, 2)
    again = api.get(f"/api/v1/experiments/{experiment.public_id}/trials/?source=rerun").json()["results"]
    assert [(trial["sequence_id"], trial["parameters"]) for trial in again] == [(3, {"x": 0.5}), (4, {"x": 0.5})]


def test_results_from_elsewhere_are_for_the_tuner(api, as_user, vera, group, make_experiment) -> None:
    experiment = make_experiment(group=group)
    path = f"/api/v1/experiments/{experiment.public_id}/actions/import-data/"
    results = [{"parameter": {"x": 0.5}, "value": 0.25}]
    assert api.post(path, {"results": results}, format="json").json() == {"imported": 1}
    refused = api.post(path, {"results": [{"parameter": 1}]}, format="json")
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (400, "results[0].parameter")
    assert api.post(path, {}, format="json").status_code == 400
    assert as_user(vera).post(path, {"results": results}, format="json").status_code == 403
    Experiment.objects.update(status="DONE")
    assert api.post(path, {"results": results}, format="json").json() == {"imported": 1}
    assert TunerEvent.objects.filter(experiment=experiment).count() == 2
    Experiment.objects.update(code_removed_at=datetime(2026, 1, 1, tzinfo=UTC))
    late = api.post(path, {"results": results}, format="json")
    assert (late.status_code, late.json()["errors"][0]["message"][:40]) == (
        409, "The copy of the experiment's code was re")
