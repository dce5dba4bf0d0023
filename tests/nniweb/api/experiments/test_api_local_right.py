"""Who may run trials on the server's own machine, and as whom."""

from __future__ import annotations

import os
import uuid

import pytest
from django.core.exceptions import ValidationError
from rest_framework.test import APIClient

from nniweb.experiments.access import accounts
from nniweb.experiments.models import ApiToken, AuditEntry, Experiment
from nniweb.experiments.models.account import Role, Scope
from tests.nniweb.api.experiments.test_api_launch import SPACE, refused, tar_of, upload


@pytest.fixture
def launch_as(as_user, config):
    """Sends a file with the given options of the platform local as a person who uploads the code."""
    def launch(user, *options: str):
        text = config + "".join(f"  {option}\n" for option in options)
        return upload(as_user(user), text, tar_of(search_space_dot_json=SPACE))
    return launch


def test_a_member_without_the_right_is_told_which_field_is_at_fault(launch_as, alice) -> None:
    for options in ((), ("runAs: alice",)):
        [error] = refused(launch_as(alice, *options))
        assert error["field"] == "trainingService.platform"
        assert "you do not have the permission" in error["message"]
    assert not Experiment.objects.exists()


def test_who_may_run_trials_as_some_users_runs_none_as_another_nor_as_the_server_s(launch_as, alice) -> None:
    alice.local_users = "ml-alice, ml-shared"
    alice.save()
    [error] = refused(launch_as(alice))
    assert (error["field"], error["message"]) == (
        "trainingService.runAs", "On this server's own machine you may not run trials as the server's user, only as "
                                 "ml-alice or ml-shared. Write runAs: ml-alice.")
    [error] = refused(launch_as(alice, "runAs: ml-bob"))
    assert error["field"] == "trainingService.runAs"
    assert 'may not run trials as "ml-bob"' in error["message"]


def test_the_right_opens_the_way_to_the_checks_of_the_machine(launch_as, alice) -> None:
    name = f"nu{uuid.uuid4().hex[:8]}"
    alice.local_users = name
    alice.save()
    [error] = refused(launch_as(alice, f"runAs: {name}"))
    assert (error["field"], error["message"]) == (
        "trainingService", f"runAs: There is no user \"{name}\" on this machine. Correct runAs, or create the user.")


def test_a_star_is_the_right_to_all_and_a_viewer_has_none_whatever_is_written(launch_as, alice, vera) -> None:
    for user in (alice, vera):
        user.local_users = "*"
        user.save()
    answer = launch_as(alice)
    assert answer.status_code == 201, answer.content
    assert launch_as(vera).status_code == 403


@pytest.mark.parametrize("written", ["-u root", "a;b", "alice bob", "*, alice", "al/ice"])
def test_the_right_names_users_and_nothing_else(alice, written) -> None:
    alice.local_users = written
    with pytest.raises(ValidationError):
        alice.full_clean()


def test_the_first_user_may_all_without_any_setting(ada) -> None:
    assert ada.role == Role.ADMIN
    assert ada.may_run_here_as("")
    assert ada.may_run_here_as("anybody")


def test_a_tuner_with_checkpoints_needs_a_folder_the_other_user_can_write_where_no_keeper_carries_them(
        api, config, code_folder) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root: machines of their own, other users, small disks")
    text = config.replace("name: Random", "name: PBT\n  classArgs: {optimize_mode: maximize}") + "  runAs: daemon\n"
    body = {"config": text, "base_directory": str(code_folder)}
    assert "tuner.classArgs" not in api.post("/api/v1/experiments/check/", body).content.decode()
    [error] = refused(api.post("/api/v1/experiments/check/", {**body, "config": f"checkpoints: false\n{text}"}))
    assert error["field"] == "tuner.classArgs"
    assert "a folder for checkpoints that daemon can write" in error["message"]


def test_administrators_give_the_right_over_rest_and_it_is_in_the_audit_log(api, alice) -> None:
    address = f"/api/v1/users/{alice.pk}/"
    assert api.patch(address, {"local_users": "root; rm"}).status_code == 400
    assert api.patch(address, {"local_users": "ml-alice"}).json()["local_users"] == "ml-alice"
    alice.refresh_from_db()
    assert alice.may_run_here_as("ml-alice")
    assert AuditEntry.objects.filter(action="user.change", target=str(alice.pk),
                                     details__local_users="ml-alice").exists()


def test_an_administrator_whose_token_is_too_narrow_is_told_the_scope_that_is_needed(config, ada) -> None:
    secret, _ = accounts.make_token(ada, ada, name="notebook", scope=Scope.CHANGE, expires_at=None)
    narrow = APIClient()
    narrow.credentials(HTTP_AUTHORIZATION=f"Token {secret}")
    [error] = refused(upload(narrow, config, tar_of(search_space_dot_json=SPACE)))
    assert error["field"] == "trainingService.platform"
    assert "with the scope change may not run them there. Make a token with the scope admin" in error["message"]
    assert "ask an administrator" not in error["message"]
    assert f'Or give ada the right "may run trials on the server as" (local_users). Administrators give it, also to ' \
           f"themselves: on the page of ada in the admin, or with PATCH /api/v1/users/{ada.pk}/." in error["message"]


def test_a_leash_is_told_the_right_that_its_person_needs_and_never_a_token_without_one(api, config, ada, alice) -> None:
    archive = tar_of(search_space_dot_json=SPACE)
    clients = {}
    for person in (ada, alice):
        secret, _ = ApiToken.make_with_row(person, "agent", Scope.CHANGE, None, roles=["read", "launch"])
        clients[person] = leashed = APIClient(headers={"Authorization": f"Token {secret}"})
        [error] = refused(upload(leashed, config, archive))
        assert (error["field"], error["message"]) == (
            "trainingService.platform",
            f"Trials of the platform \"local\" run on this server's own machine, and a token with a leash may run them "
            f'there only if {person.username} has the right "may run trials on the server as" (local_users). '
            f"Administrators give it, also to themselves: on the page of {person.username} in the admin, or with PATCH "
            f"/api/v1/users/{person.pk}/. Or choose another platform.")
        assert "scope" not in leashed.get("/api/v1/audit/").content.decode()
    for person, leashed in clients.items():
        assert api.patch(f"/api/v1/users/{person.pk}/", {"local_users": "*"}).status_code == 200
        assert upload(leashed, config, archive).status_code == 201


def test_a_token_that_only_looks_is_told_the_scope_that_launches(config, alice) -> None:
    secret, _ = accounts.make_token(alice, alice, name="notebook", scope=Scope.READ, expires_at=None)
    narrow = APIClient()
    narrow.credentials(HTTP_AUTHORIZATION=f"Token {secret}")
    answer = upload(narrow, config, tar_of(search_space_dot_json=SPACE))
    assert answer.status_code == 403
    said = answer.content.decode()
    assert "has the scope read, which does not allow this. Make a token with the scope change" in said
