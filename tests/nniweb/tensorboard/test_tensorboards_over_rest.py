"""TensorBoards over REST: started of chosen trials, listed, stopped, within limits, and forgotten when nobody looks."""

import importlib.util
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from nniweb.experiments.models import Attempt, AuditEntry, Experiment, TensorBoard, User
from nniweb.tensorboard import boards


@pytest.fixture
def trials(experiment: Experiment, make_attempt: Callable[..., Attempt]) -> list[str]:
    return [make_attempt(experiment).trial.public_id for _ in range(3)]


def address(experiment: Experiment, board: str = "") -> str:
    return f"/api/v1/experiments/{experiment.public_id}/tensorboards/{board}{'/' if board else ''}"


def message(answer: Any) -> str:
    return str(answer.json()["errors"][0]["message"])


def test_one_is_started_listed_and_stopped(with_token: Callable[..., APIClient], alice: User, experiment: Experiment,
                                           trials: list[str]) -> None:
    api = with_token(alice)
    answer = api.post(address(experiment), {"trials": [trials[2], trials[0]]})
    assert answer.status_code == 201
    board = answer.json()
    assert (board["trials"], board["created_by"]) == ([trials[0], trials[2]], "alice")
    assert board["url"] == f"/tensorboard/{board['id']}/"
    assert [row["id"] for row in api.get(address(experiment)).json()] == [board["id"]]
    assert api.delete(address(experiment, board["id"])).status_code == 204
    assert api.get(address(experiment)).json() == []
    assert api.delete(address(experiment, board["id"])).status_code == 404
    assert list(AuditEntry.objects.filter(action__startswith="tensorboard").order_by("pk").values_list(
        "action", flat=True)) == ["tensorboard.start", "tensorboard.stop"]


def test_the_same_trials_again_are_the_same_one(with_token: Callable[..., APIClient], alice: User,
                                                experiment: Experiment, trials: list[str]) -> None:
    api = with_token(alice)
    first, second, other = (api.post(address(experiment), {"trials": chosen}).json()["id"]
                            for chosen in (trials[:2], trials[1::-1], trials))
    assert first == second != other


def test_viewers_look_and_strangers_find_nothing(with_token: Callable[..., APIClient], vera: User, charlie: User,
                                                 experiment: Experiment, alice: User, trials: list[str]) -> None:
    board = boards.start(experiment, trials, alice)
    assert with_token(vera).get(address(experiment)).json()[0]["id"] == board.public_id
    assert with_token(vera).post(address(experiment), {"trials": trials}).status_code == 403
    assert with_token(vera).delete(address(experiment, board.public_id)).status_code == 403
    for method in ("get", "post"):
        assert getattr(with_token(charlie), method)(address(experiment)).status_code == 404
    assert with_token(charlie).delete(address(experiment, board.public_id)).status_code == 404


def test_trials_of_other_experiments_and_too_many_are_refused(
        with_token: Callable[..., APIClient], alice: User, experiment: Experiment, trials: list[str],
        make_attempt: Callable[..., Attempt], monkeypatch: pytest.MonkeyPatch) -> None:
    api = with_token(alice)
    foreign = make_attempt().trial.public_id
    answer = api.post(address(experiment), {"trials": [trials[0], foreign]})
    assert (answer.status_code, foreign in message(answer)) == (400, True)
    assert api.post(address(experiment), {"trials": []}).status_code == 400
    monkeypatch.setattr(boards, "MOST_TRIALS", 2)
    answer = api.post(address(experiment), {"trials": trials})
    assert (answer.status_code, "at most 2 trials" in message(answer)) == (400, True)
    assert not TensorBoard.objects.exists()


def test_no_more_are_open_than_the_server_has_and_one_that_nobody_looks_at_makes_room(
        with_token: Callable[..., APIClient], alice: User, experiment: Experiment, trials: list[str], settings: Any,
        data_folder: Any) -> None:
    settings.TENSORBOARD_MOST, settings.TENSORBOARD_IDLE_MINUTES = 1, 30
    api = with_token(alice)
    first = api.post(address(experiment), {"trials": trials[:1]}).json()["id"]
    (boards.folder() / first / "logs").mkdir(parents=True)
    answer = api.post(address(experiment), {"trials": trials})
    assert (answer.status_code, "NNIWEB_TENSORBOARD_MOST" in message(answer)) == (409, True)
    assert experiment.name in message(answer)
    TensorBoard.objects.update(used_at=timezone.now() - timedelta(minutes=31))
    assert api.get(address(experiment)).json() == []
    assert not boards.is_wanted(first)
    assert api.post(address(experiment), {"trials": trials}).status_code == 201
    assert not (boards.folder() / first).exists(), "its files went with it"


def test_looking_at_one_keeps_it_open(alice: User, experiment: Experiment, trials: list[str]) -> None:
    board = boards.start(experiment, trials, alice)
    long_ago = timezone.now() - timedelta(minutes=20)
    TensorBoard.objects.update(used_at=long_ago)
    board.refresh_from_db()
    boards.note_use(board)
    board.refresh_from_db()
    assert board.used_at > long_ago
    assert boards.is_wanted(board.public_id)


def test_one_of_a_deleted_experiment_is_not_wanted(alice: User, experiment: Experiment, trials: list[str]) -> None:
    board = boards.start(experiment, trials, alice)
    experiment.deleted_at = timezone.now()
    experiment.save()
    assert not boards.is_wanted(board.public_id)


def test_without_the_package_a_sentence_says_what_to_install(
        with_token: Callable[..., APIClient], alice: User, experiment: Experiment, trials: list[str],
        monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name == "tensorboard" else find(name))
    answer = with_token(alice).post(address(experiment), {"trials": trials})
    assert (answer.status_code, "requirements/tensorboard.txt" in message(answer)) == (409, True)
