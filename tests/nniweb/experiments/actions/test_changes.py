"""What is changed of an experiment is listed with who and when, from and to, and can be undone."""

import re
from collections.abc import Callable
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from nniweb.experiments.actions import change_and_undo
from nniweb.experiments.actions.changes import in_words
from nniweb.experiments.errors import Refused
from nniweb.experiments.launch.cloning import clone_of
from nniweb.experiments.models import AuditEntry, Experiment, ExperimentChange, ExperimentEvent, User
from nniweb.experiments.models.account import Role

pytestmark = pytest.mark.django_db
SPACE = {"x": {"_type": "uniform", "_value": [0, 1]}}
WIDER = {"x": {"_type": "uniform", "_value": [0, 9]}, "y": {"_type": "randint", "_value": [0, 3]}}


def words(experiment: Experiment, number: int) -> list[tuple[str, str, str]]:
    change = ExperimentChange.objects.get(experiment=experiment, number=number)
    return [(line.what, line.before, line.after) for line in in_words(change)]


def test_a_change_says_what_from_and_to(make_experiment: Callable[..., Experiment], admin: User) -> None:
    experiment = make_experiment(max_duration=None)
    change_and_undo.change(experiment, {"max_trial_number": 20, "max_duration": 5400.0}, admin)
    change_and_undo.change(experiment, {"search_space": WIDER}, admin)
    change_and_undo.change(experiment, {"max_trial_number": 20}, admin)  # is so already
    assert words(experiment, 1) == [("maxTrialNumber", "10", "20"), ("maxExperimentDuration", "none", "90m")]
    assert words(experiment, 2) == [
        ("searchSpace.x", '{"_type": "uniform", "_value": [0, 1]}', '{"_type": "uniform", "_value": [0, 9]}'),
        ("searchSpace.y", "none", '{"_type": "randint", "_value": [0, 3]}')]
    assert ExperimentChange.objects.count() == 2
    assert set(ExperimentChange.objects.values_list("actor__username", flat=True)) == {"ada"}


def test_the_history_says_a_change_in_words_too(make_experiment: Callable[..., Experiment], admin: User) -> None:
    experiment = make_experiment(max_duration=None, max_trial_duration=60.0)
    change_and_undo.change(experiment, {"tags": ["slow", "on the cluster"], "max_duration": 5400.0}, admin)
    change_and_undo.change(experiment, {"max_trial_duration": None, "search_space": WIDER, "description": "Long."},
                           admin)
    change_and_undo.undo_change(experiment, 1, admin)
    assert list(ExperimentEvent.objects.filter(experiment=experiment, kind="changed").order_by("pk")
                .values_list("message", flat=True)) == [
        "maxExperimentDuration = 90m, tags = slow, on the cluster",
        "maxTrialDuration = none, searchSpace, description",
        "Change 1 undone: maxExperimentDuration = none, tags = none"]


def test_an_undo_is_a_further_change_that_can_be_undone(
        make_experiment: Callable[..., Experiment], admin: User) -> None:
    experiment = make_experiment()
    change_and_undo.change(experiment, {"search_space": WIDER, "trial_concurrency": 5}, admin)
    after = change_and_undo.undo_change(experiment, 1, admin)
    assert (after.search_space, after.trial_concurrency, after.search_space_version) == (SPACE, 2, 2)
    assert ExperimentChange.objects.get(number=2).undoes == 1
    assert change_and_undo.undo_change(experiment, 2, admin).search_space == WIDER
    assert AuditEntry.objects.filter(action="experiment.undo-change").count() == 2


def test_what_was_changed_again_since_is_not_undone(make_experiment: Callable[..., Experiment], admin: User) -> None:
    experiment = make_experiment()
    change_and_undo.change(experiment, {"trial_concurrency": 5}, admin)
    change_and_undo.change(experiment, {"trial_concurrency": 6}, admin)
    with pytest.raises(Refused, match="trialConcurrency was changed again after change 1. Undo the later"):
        change_and_undo.undo_change(experiment, 1, admin)
    with pytest.raises(Refused, match="has no change 9"):
        change_and_undo.undo_change(experiment, 9, admin)
    experiment.refresh_from_db()
    assert experiment.trial_concurrency == 6


def test_the_sentence_says_what_keeps_it_from_being_undone(
        make_experiment: Callable[..., Experiment], admin: User) -> None:
    experiment = make_experiment()
    before = {"trial_concurrency": 5, "description": "one", "tags": ["a", "b"]}
    change_and_undo.change(experiment, before, admin)
    assert words(experiment, 1) == [("trialConcurrency", "2", "5"), ("description", "none", "one"),
                                    ("tags", "none", "a, b")]
    change_and_undo.undo_change(experiment, 1, admin)
    with pytest.raises(Refused, match="Change 1 was already undone by change 2. Undo change 2 to restore it."):
        change_and_undo.undo_change(experiment, 1, admin)
    change_and_undo.change(experiment, {"trial_concurrency": 6, "description": "two", "tags": ["c"]}, admin)
    with pytest.raises(Refused, match="trialConcurrency, description and tags were changed again after change 1"):
        change_and_undo.undo_change(experiment, 1, admin)


def test_undoing_a_lower_limit_takes_a_done_experiment_up_again(
        make_experiment: Callable[..., Experiment], admin: User) -> None:
    experiment = make_experiment(next_sequence_id=5)
    change_and_undo.change(experiment, {"max_trial_number": 5}, admin)
    Experiment.objects.filter(pk=experiment.pk).update(status="DONE")
    assert change_and_undo.undo_change(experiment, 1, admin).status == "RUNNING"


def test_the_tuner_can_be_exchanged_and_that_undone(make_experiment: Callable[..., Experiment], admin: User) -> None:
    experiment = make_experiment()
    changed = change_and_undo.change(experiment, {"tuner": {"name": "TPE", "class_args": {"seed": 3}}}, admin)
    assert changed.tuner == {"name": "TPE", "class_args": {"seed": 3}}
    assert words(experiment, 1) == [("tuner.name", "Random", "TPE"), ("tuner.seed", "none", "3")]
    assert clone_of(changed, admin).config.count("name: TPE") == 1
    assert change_and_undo.undo_change(experiment, 1, admin).tuner == {"name": "Random"}


@pytest.mark.parametrize(("tuner", "sentence"), [
    ({"name": "Hyperband"}, "compares only trials that it proposed"),
    ({"name": "TPE", "class_args": {"optimize_mode": "maximize"}}, "must be minimize, as in the experiment"),
    ({"name": "BatchTuner"}, "BatchTuner"), ({"name": "TEP"}, "TPE"), ({"class_name": "a.B"}, "a custom tuner"),
    ({"name": "TPE", "class_args": {"sead": 1}}, "seed"),
])
def test_a_tuner_that_cannot_go_on_from_what_there_is_is_refused(
        make_experiment: Callable[..., Experiment], tuner: dict[str, Any], sentence: str) -> None:
    experiment = make_experiment()
    with pytest.raises(Refused) as refused:
        change_and_undo.change(experiment, {"tuner": tuner})
    assert any(field.startswith("tuner") and sentence in message for field, message in refused.value.errors)
    assert not ExperimentChange.objects.exists()


def test_the_page_offers_the_tuners_that_can_go_on_and_none_where_none_can(
        make_experiment: Callable[..., Experiment], admin: User, client: Any) -> None:
    client.force_login(admin)

    def offered(**fields: Any) -> list[str]:
        text = client.get(f"/experiments/{make_experiment(**fields).public_id}/config/").content.decode()
        assert ('data-open="tuner-dialog"' in text) == ('<dialog id="tuner-dialog"' in text)
        dialog = text.partition('<dialog id="tuner-dialog"')[2].partition("</dialog>")[0]
        return re.findall(r'<option data-arguments="[^"]*">(\w+)</option>', dialog)

    assert {"TPE", "Random", "Anneal"} < set(offered())
    assert not {"Hyperband", "PBT", "BatchTuner"} & set(offered())
    two = [{"metric": name, "optimize_mode": "minimize"} for name in "ab"]
    assert offered(objectives=two) == ["Auto", "TPE", "NSGAII", "Random", "GridSearch", "External"]
    assert offered(tuner={"name": "Hyperband"}) == offered(tuner={"class_name": "a.B"}) == []


def test_arguments_of_a_tuner_may_be_spelled_as_in_a_config_file(
        make_experiment: Callable[..., Experiment], admin: User, client: Any) -> None:
    experiment = make_experiment()
    client.force_login(admin)
    answer = client.patch(f"/api/v1/experiments/{experiment.public_id}/",
                          {"tuner": {"name": "TPE", "classArgs": {"seed": 4}}}, content_type="application/json")
    assert answer.json()["tuner"] == {"name": "TPE", "class_args": {"seed": 4}}


def test_rest_lists_changes_and_undoes_them_for_who_may_steer(
        make_experiment: Callable[..., Experiment], admin: User, client: Any) -> None:
    experiment = make_experiment()
    address = f"/api/v1/experiments/{experiment.public_id}/"
    client.force_login(admin)
    for body in ({"trial_concurrency": 7}, {"tuner": {"name": "anneal"}}):
        answer = client.patch(address, body, content_type="application/json")
        assert answer.status_code == 200, answer.json()
    newest, oldest = client.get(f"{address}changes/").json()["results"]
    assert (oldest["number"], oldest["who"], oldest["undoes"], oldest["values"]) == (
        1, "ada", None, [{"what": "trialConcurrency", "before": "2", "after": "7"}])
    assert newest["values"][0]["after"] == "Anneal"
    page = client.get(f"/experiments/{experiment.public_id}/config/").content.decode()
    assert page.count("data-undo=") == 2
    assert client.post(f"{address}changes/1/actions/undo/").json()["trial_concurrency"] == 2
    assert client.post(f"{address}changes/1/actions/undo/").status_code == 409
    page = client.get(f"/experiments/{experiment.public_id}/config/").content.decode()
    assert ("undoes 1" in page, page.count("data-undo=")) == (True, 2)
    viewer = User.objects.create_user("vera", role=Role.VIEWER)
    Experiment.objects.filter(pk=experiment.pk).update(owner=viewer)
    client.force_login(viewer)
    assert client.get(f"{address}changes/").status_code == 200
    assert client.post(f"{address}changes/2/actions/undo/").status_code == 403
    assert "data-undo=" not in client.get(f"/experiments/{experiment.public_id}/config/").content.decode()


def test_the_command_lists_and_undoes(make_experiment: Callable[..., Experiment], admin: User,
                                      settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nniweb.management.commands.experiments.require_served_before", lambda: None)
    experiment = make_experiment()

    def said(*arguments: Any) -> str:
        out = StringIO()
        call_command("experiments", *arguments, stdout=out)
        return out.getvalue()

    assert said("changes", experiment.public_id) == "There are no changes after the launch.\n"
    change_and_undo.change(experiment, {"trial_concurrency": 7}, admin)
    assert "   trialConcurrency: 2 -> 7\n" in said("changes", experiment.public_id)
    assert said("undo", experiment.public_id, 1) == f"Change 1 of {experiment} was undone.\n"
    assert "command experiments by" in said("changes", experiment.public_id)
    with pytest.raises(CommandError, match="Change 1 was already undone"):
        said("undo", experiment.public_id, 1)
