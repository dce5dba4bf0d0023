"""Who did what: one row for each thing that a person does, and none of them ever changes."""

import getpass
import json
from pathlib import Path

import pytest
from django.core.management import call_command

from nniweb.experiments.access import audit
from nniweb.experiments.actions import intents
from nniweb.experiments.models import ApiToken, AuditEntry, Cluster, User
from nniweb.experiments.models.account import Role, Scope
from nniweb.experiments.sql.append_only import AppendOnly
from trainingservice.platforms import register, unregister


def actions(**which) -> list[str]:
    return list(AuditEntry.objects.filter(**which).order_by("pk").values_list("action", flat=True))


def test_rows_are_neither_changed_nor_removed(rita) -> None:
    audit.record("sign-in", rita, rita)
    [row] = AuditEntry.objects.all()
    row.who = "nobody"
    for change in (row.save, row.delete, AuditEntry.objects.all().delete, lambda: AuditEntry.objects.update(who=""),
                   lambda: AuditEntry.objects.bulk_update([row], ["who"]),
                   lambda: AuditEntry._base_manager.all().delete(),
                   lambda: AuditEntry.objects.bulk_create([row], update_conflicts=True)):
        with pytest.raises(AppendOnly):
            change()
    assert AuditEntry.objects.get().who == "rita"


def test_a_row_outlives_whom_it_is_about(rita, max_) -> None:
    audit.record("sign-in", max_, max_)
    max_.delete()
    assert AuditEntry.objects.get().who == "max"


def test_the_admin_shows_it_and_changes_nothing(browser, rita) -> None:
    audit.record("token.create", rita, rita, scope="read")
    row = AuditEntry.objects.get()
    client = browser(rita)
    assert "token.create" in client.get("/admin/experiments/auditentry/").content.decode()
    address = f"/admin/experiments/auditentry/{row.pk}/"
    page = client.get(f"{address}change/").content.decode()
    assert "scope: read" in page
    assert 'name="_save"' not in page
    for way in (f"{address}change/", f"{address}delete/", "/admin/experiments/auditentry/add/"):
        assert client.post(way, {"who": "nobody", "post": "yes"}).status_code == 403
    client.post("/admin/experiments/auditentry/", {"action": "delete_selected", "_selected_action": [row.pk],
                                                   "post": "yes"})
    assert AuditEntry.objects.filter(pk=row.pk, who="rita").exists()


def test_a_token_is_named_with_what_it_did_and_where_from(with_token, max_, make_experiment) -> None:
    experiment = make_experiment(owner=max_)
    with_token(max_).post(f"/api/v1/experiments/{experiment.public_id}/actions/stop/", REMOTE_ADDR="192.0.2.7")
    row = AuditEntry.objects.get(action="experiment.stop")
    assert (row.who, row.who_id, row.via, row.address) == ("max", max_.pk, "token notebook", "192.0.2.7")
    assert (row.kind, row.target, row.name) == ("experiment", experiment.public_id, "quadratic")


def test_what_the_worker_does_by_itself_is_no_row(make_experiment) -> None:
    intents.stop(make_experiment())
    assert actions() == []


def test_each_control_of_an_experiment_leaves_a_row(with_token, max_, vision, make_attempt, make_experiment) -> None:
    experiment = make_experiment(owner=max_)
    trial = make_attempt(experiment).trial
    api = with_token(max_)
    base, one = f"/api/v1/experiments/{experiment.public_id}/", f"/api/v1/trials/{trial.public_id}/"
    for method, path, body, wanted in (
            ("patch", base, {"trial_concurrency": 3}, "experiment.change"),
            ("patch", base, {"group": "vision"}, "experiment.share"),
            ("post", f"{base}actions/pause/", None, "experiment.pause"),
            ("post", f"{base}actions/resume/", None, "experiment.resume"),
            ("post", f"{base}actions/import-data/", {"results": [{"parameter": {"x": 1}, "value": 2}]},
             "experiment.import-data"),
            ("post", f"{base}trials/", {"parameters": {"x": 1}}, "trial.submit"),
            ("patch", one, {"tags": ["a"]}, "trial.tag"),
            ("patch", one, {"notes": "Look here"}, "trial.note"),
            ("post", f"{base}trials/actions/tag/", {"trials": [trial.public_id], "add": ["b"]}, "trials.tag"),
            ("post", f"{one}actions/refresh/", None, "trial.refresh"),
            ("post", f"{one}actions/cancel/", None, "trial.cancel"),
            ("post", f"{base}actions/stop/", None, "experiment.stop")):
        before = AuditEntry.objects.count()
        answer = getattr(api, method)(path, body)
        assert answer.status_code in (200, 201, 202), (path, answer.json())
        assert actions()[before:] == [wanted], path
    refused = api.delete(base)
    assert (refused.status_code, actions()[-1]) == (409, "experiment.stop"), "what was refused was not done"


def test_each_change_of_a_cluster_leaves_a_row_without_its_secrets(with_token, rita) -> None:
    register("vault", "tests.nniweb.api.clusters.vault_platform:VaultTrainingService")
    try:
        api = with_token(rita)
        made = api.post("/api/v1/clusters/", {"name": "v", "platform": "vault", "settings": {
            "address": "a", "token": "open sesame"}})
        assert made.status_code == 201, made.json()
        address = f"/api/v1/clusters/{made.json()['id']}/"
        api.patch(address, {"settings": {"address": "b", "token": "other sesame"}})
        api.patch(address, {"enabled": False})
        cluster = Cluster.objects.get()
        set_it = api.put(f"{address}metadata/key_file/", {"value": "third sesame"})
        assert set_it.status_code == 200, set_it.json()
        api.delete(f"{address}metadata/key_file/")
        api.delete(address)
        assert actions(kind="cluster") == ["cluster.create", "cluster.settings", "cluster.change", "cluster.metadata",
                                           "cluster.metadata", "cluster.delete"]
        assert set(AuditEntry.objects.filter(kind="cluster").values_list("target", flat=True)) == {cluster.public_id}
        changed = AuditEntry.objects.get(action="cluster.settings").details
        assert changed == {"changed": ["address"], "secrets_changed": ["token"]}
        assert "sesame" not in str(list(AuditEntry.objects.values()))
    finally:
        unregister("vault")


def test_changes_of_people_groups_and_tokens_leave_rows_without_secrets(with_token, rita) -> None:
    api = with_token(rita)
    user = api.post("/api/v1/users/", {"username": "nora"}).json()["id"]
    api.patch(f"/api/v1/users/{user}/", {"role": "viewer"})
    link = api.post(f"/api/v1/users/{user}/actions/sign-in-link/").json()["url"]
    group = api.post("/api/v1/groups/", {"name": "speech"}).json()["id"]
    api.patch(f"/api/v1/groups/{group}/", {"members": ["nora"]})
    token = api.post("/api/v1/tokens/", {"name": "ci", "user": "nora", "scope": "read"}).json()
    api.delete(f"/api/v1/tokens/{token['id']}/")
    api.delete(f"/api/v1/groups/{group}/")
    api.delete(f"/api/v1/users/{user}/")
    assert actions() == ["user.create", "user.change", "user.sign-in-link", "group.create", "group.change",
                         "token.create", "token.remove", "group.delete", "user.delete"]
    assert AuditEntry.objects.get(action="user.change").details == {"role": "viewer"}
    written = str(list(AuditEntry.objects.values()))
    assert token["token"] not in written
    assert link.rstrip("/").rpartition("/")[2] not in written


def test_what_is_done_in_the_admin_leaves_rows(browser, rita, max_) -> None:
    client = browser(rita)
    client.post(f"/admin/experiments/user/{max_.pk}/change/", {"username": "max", "role": "admin", "is_active": "on"})
    client.post("/admin/auth/group/add/", {"name": "speech"})
    client.post("/admin/experiments/apitoken/add/", {"user": rita.pk, "name": "x", "scope": "read"})
    client.post(f"/admin/experiments/apitoken/{ApiToken.objects.get().pk}/delete/", {"post": "yes"})
    assert actions(via="admin", who="rita", kind="user") == ["user.change", "admin.change"]
    assert AuditEntry.objects.get(action="user.change").details["role"] == "admin"
    assert actions(via="admin", who="rita").count("admin.add") == 2
    assert actions(via="admin", who="rita")[-1] == "admin.delete"


def test_it_is_read_over_rest_by_administrators(with_token, rita, max_) -> None:
    for number, (action, who) in enumerate((("sign-in", max_), ("sign-in.failed", max_), ("token.create", rita))):
        audit.record(action, who, who, number=number)
    api = with_token(rita)

    def found(**query) -> list[str]:
        return [row["action"] for row in api.get("/api/v1/audit/", query).json()["results"]]

    assert found() == ["token.create", "sign-in.failed", "sign-in"], "the latest first"
    assert found(who="rita") == ["token.create"]
    assert found(action="sign-in") == ["sign-in.failed", "sign-in"]
    assert found(target=str(max_.pk), action="sign-in.failed") == ["sign-in.failed"]
    assert found(since="2999-01-01T00:00:00Z") == []
    assert api.get("/api/v1/audit/?nonsense=1").status_code == 400
    for method in ("post", "put", "patch", "delete"):
        assert getattr(api, method)("/api/v1/audit/").status_code == 405
    assert with_token(rita, Scope.READ).get("/api/v1/audit/").status_code == 403


#: What is posted because it is long.
CHANGES_NOTHING = {"experiments_check", "config_fields", "search_space_sample", "trials_check_parameters"}
#: Operation -> the action it leaves. A new one of these things fails until somebody has decided.
THINGS = ("experiments", "trials", "clusters", "tokens", "users", "groups", "notifications", "quotas")
ACTIONS = {
    "experiments_create": "experiment.launch", "experiments_change": "experiment.change",
    "experiments_undo_change": "experiment.undo-change",
    "experiments_delete": "experiment.delete", "experiments_pause": "experiment.pause",
    "experiments_freeze": "experiment.freeze", "experiments_trials_freeze": "trials.freeze",
    "experiments_trials_thaw": "trials.thaw", "trials_freeze": "trials.freeze", "trials_thaw": "trials.thaw",
    "experiments_resume": "experiment.resume", "experiments_stop": "experiment.stop",
    "experiments_rerun_failed": "trials.rerun", "experiments_import_data": "experiment.import-data",
    "experiments_tensorboards_create": "tensorboard.start", "experiments_tensorboards_stop": "tensorboard.stop",
    "experiments_propose": "trials.propose",
    "experiments_trials_create": "trial.submit", "experiments_trials_stop": "trials.cancel",
    "experiments_trials_rerun": "trials.rerun", "experiments_trials_tag": "trials.tag", "trials_change": "trial.tag",
    "trials_cancel": "trial.cancel",
    "trials_refresh": "trial.refresh", "trials_rerun": "trial.rerun",
    "clusters_create": "cluster.create", "clusters_change": "cluster.change",
    "clusters_delete": "cluster.delete", "clusters_rehearse": "cluster.rehearse",
    "clusters_check": "cluster.rehearse",
    "clusters_metadata_set": "cluster.metadata", "clusters_metadata_delete": "cluster.metadata",
    "tokens_create": "token.create", "tokens_delete": "token.remove", "tokens_end": "token.end",
    "users_create": "user.create",
    "users_change": "user.change", "users_delete": "user.delete", "users_sign_in_link": "user.sign-in-link",
    "groups_create": "group.create", "groups_change": "group.change", "groups_delete": "group.delete",
    "quotas_create": "quota.create", "quotas_change": "quota.change", "quotas_delete": "quota.delete",
    "notifications_create": "notification.create", "notifications_change": "notification.change",
    "notifications_delete": "notification.delete", "notifications_test": "notification.test",
    "notifications_deliveries_send_again": "notification.send-again",
}


def test_every_operation_that_changes_something_has_an_action_of_its_own(browser, rita) -> None:
    schema = json.loads(browser(rita).get("/api/schema/?format=json").content)
    operations = {operation["operationId"] for path, methods in schema["paths"].items()
                  for method, operation in methods.items() if method != "get" and path.split("/")[3] in THINGS}
    assert operations - CHANGES_NOTHING == set(ACTIONS)
    nniweb = Path(__file__).parents[3] / "nniweb"
    written = "".join(path.read_text() for folder in ("experiments", "tensorboard")
                      for path in (nniweb / folder).rglob("*.py"))
    assert {action for action in ACTIONS.values() if f'"{action}"' not in written} == set()


def test_a_command_is_put_down_to_the_account_that_gave_it(rita, make_experiment) -> None:
    experiment = make_experiment(owner=rita)
    call_command("experiments", "stop", experiment.public_id)
    row = AuditEntry.objects.get(action="experiment.stop")
    assert (row.who, row.via) == ("", f"command experiments by {getpass.getuser()}")


def test_signing_in_and_out_and_failing_leave_rows(client, max_) -> None:
    client.post("/sign-in/", {"username": "max", "password": "wrong"})
    client.post("/sign-in/", {"username": "my pass phrase", "password": "wrong"})
    client.post("/sign-in/", {"username": "max", "password": "a long pass phrase"})
    client.post("/sign-out/")
    assert actions() == ["sign-in.failed", "sign-in.failed", "sign-in", "sign-out"]
    first, second, success, _ = AuditEntry.objects.order_by("pk")
    assert (first.who, first.name, first.address) == ("", "max", "127.0.0.1")
    assert second.name == "", "what nobody is named may be a password in the wrong field"
    assert (success.who, success.via) == ("max", "page")
    assert "phrase" not in str(list(AuditEntry.objects.values()))


def test_a_launch_leaves_a_row(rita, browser, tmp_path, settings) -> None:
    settings.DATA_FOLDER, code = tmp_path / "data", tmp_path / "code"
    for folder in (settings.DATA_FOLDER, code):
        folder.mkdir()
    (code / "trial.py").write_text("")
    config = {"experimentName": "q", "trialCommand": "python3 trial.py", "trialCodeDirectory": str(code),
              "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}}, "trialConcurrency": 1,
              "maxTrialNumber": 1, "tuner": {"name": "Random"}, "trainingService": {"platform": "local"}}
    made = browser(User.objects.create_user("ada", role=Role.ADMIN)).post(
        "/api/v1/experiments/", {"config": config}, content_type="application/json")
    assert made.status_code == 201, made.json()
    row = AuditEntry.objects.get(action="experiment.launch")
    assert (row.who, row.target) == ("ada", made.json()["id"])
