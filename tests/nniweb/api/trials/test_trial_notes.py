"""What people write about a trial: kept beside it, for everybody who sees the trial, and in no list."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Group
from rest_framework.test import APIClient

from nniweb.experiments.models import Attempt, AuditEntry, Trial, TrialNote, User

Api = Callable[..., APIClient]


@pytest.fixture
def trial(make_attempt: Callable[..., Attempt]) -> Trial:
    return make_attempt().trial


def address(trial: Trial) -> str:
    return f"/api/v1/trials/{trial.public_id}/"


def test_notes_are_written_changed_and_removed(with_token: Api, admin: User, trial: Trial) -> None:
    api = with_token(admin)
    assert api.get(address(trial)).json()["notes"] == ""
    for text in ("The *best* so far", "Second\n\nthoughts"):
        answer = api.patch(address(trial), {"notes": text}, format="json")
        assert (answer.status_code, answer.json()["notes"]) == (200, text)
        assert api.get(address(trial)).json()["notes"] == text
    assert TrialNote.objects.get().actor == admin
    assert AuditEntry.objects.order_by("pk").last().action == "trial.note"  # type: ignore[union-attr]
    assert api.patch(address(trial), {"notes": ""}, format="json").json()["notes"] == ""
    assert not TrialNote.objects.exists()


def test_tags_and_notes_are_changed_together_or_one_without_the_other(
        with_token: Api, admin: User, trial: Trial) -> None:
    api = with_token(admin)
    both = api.patch(address(trial), {"tags": ["a"], "notes": "n"}, format="json").json()
    assert (both["tags"], both["notes"]) == (["a"], "n")
    one = api.patch(address(trial), {"tags": ["b"]}, format="json").json()
    assert (one["tags"], one["notes"]) == (["b"], "n")


@pytest.mark.parametrize(("body", "field"), [
    ({}, ""), ({"notes": "x" * 20_001}, "notes"), ({"notes": None}, "notes"), ({"notes": ["a"]}, "notes"),
    ({"note": "a"}, "note"), ({"notes": "kept", "tags": [1, [2]]}, "tags"),
])
def test_a_wrong_change_names_its_field_and_changes_nothing(
        with_token: Api, admin: User, trial: Trial, body: dict[str, Any], field: str) -> None:
    answer = with_token(admin).patch(address(trial), body, format="json")
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"].split("[")[0].split(".")[0] == field
    assert not TrialNote.objects.exists()


def test_who_may_only_look_may_not_write(with_token: Api, vera: User, vision: Group, trial: Trial) -> None:
    api = with_token(vera)
    assert api.patch(address(trial), {"notes": "mine"}, format="json").status_code == 403
    trial.experiment.group = vision
    trial.experiment.save()
    assert api.get(address(trial)).json()["notes"] == ""
    assert api.patch(address(trial), {"notes": "mine"}, format="json").status_code == 403
    assert not TrialNote.objects.exists()


def test_lists_do_not_have_them(with_token: Api, admin: User, trial: Trial) -> None:
    api = with_token(admin)
    api.patch(address(trial), {"notes": "x" * 20_000}, format="json")
    listed = api.get(f"/api/v1/experiments/{trial.experiment.public_id}/trials/").json()["results"]
    assert "notes" not in listed[0]


def test_notes_go_with_their_trial(with_token: Api, admin: User, trial: Trial) -> None:
    with_token(admin).patch(address(trial), {"notes": "n"}, format="json")
    trial.experiment.delete()
    assert not TrialNote.objects.exists()
