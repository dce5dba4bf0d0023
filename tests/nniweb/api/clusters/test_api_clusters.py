"""Clusters, their metadata and secrets; platforms and workers."""

import json
from datetime import timedelta

import pytest
from django.contrib.auth.models import Group
from django.db import connection
from django.utils import timezone

from nniweb.experiments.clusters.service_factory import build_service
from nniweb.experiments.models import Attempt, Cluster, Experiment, ExperimentCluster, Machine, Worker
from tests.nniweb.api.clusters.vault_platform import VaultTrainingService
from trainingservice.errors import InvalidMetadata
from trainingservice.platforms import BUILT_IN, platform_names

SETTINGS = {"address": "there", "token": "sesame",
            "doors": [{"host": "a", "password": "pw-a"}, {"host": "b", "password": "pw-b"}]}


@pytest.fixture
def cluster(api, vault) -> Cluster:
    answer = api.post("/api/v1/clusters/", {"name": "strong room", "platform": "vault", "settings": SETTINGS})
    assert answer.status_code == 201, answer.content
    return Cluster.objects.get(name="strong room")


def address(cluster: Cluster) -> str:
    return f"/api/v1/clusters/{cluster.public_id}/"


def secrets_of(cluster: Cluster) -> tuple:
    settings = build_service(Cluster.objects.get(pk=cluster.pk)).settings
    return (settings.token and settings.token.get_secret_value(),
            [door.password and door.password.get_secret_value() for door in settings.doors])


def test_secrets_are_sealed_and_never_shown(api, cluster) -> None:
    body = api.get(address(cluster)).json()
    assert body["settings"] == {"address": "there", "doors": [{"host": "a", "port": 22}, {"host": "b", "port": 22}]}
    assert body["secrets_set"] == ["doors[0].password", "doors[1].password", "token"]
    assert secrets_of(cluster) == ("sesame", ["pw-a", "pw-b"])
    with connection.cursor() as cursor:
        for table in ("cluster", "clustermetadata"):
            cursor.execute(f"SELECT * FROM experiments_{table}")
            raw = str([[bytes(cell) if isinstance(cell, memoryview) else cell for cell in row] for row in cursor])
            assert "sesame" not in raw
            assert "pw-a" not in raw


@pytest.mark.parametrize(("change", "field"), [
    ({"name": ""}, "name"), ({"name": "a/b"}, "name"), ({"name": "a\nb"}, "name"),
    ({"platform": "volt"}, "platform"),
    ({"settings": {}}, "settings.address"), ({"settings": {"address": 3}}, "settings.address"),
    ({"settings": {"address": "x", "doors": [{"host": "a", "port": 0}]}}, "settings.doors[0].port"),
    ({"settings": {"address": "x", "colour": "red"}}, "settings.colour"),
    ({"settings": {"address": "x", "image": "alpine"}}, "settings.image"),
    ({"settings": {"address": "x", "platform": "local"}}, "settings.platform"), ({"settings": []}, "settings"),
    ({"is_private": "perhaps"}, "is_private"), ({"extra": 1}, "extra")])
def test_what_is_wrong_with_a_new_cluster_is_named(api, vault, change, field) -> None:
    answer = api.post("/api/v1/clusters/", {"name": "c", "platform": "vault", "settings": SETTINGS, **change})
    assert answer.status_code == 400, answer.content
    assert field in [error["field"] for error in answer.json()["errors"]], answer.json()
    assert not Cluster.objects.exists()


def test_a_name_is_given_once(api, cluster) -> None:
    answer = api.post("/api/v1/clusters/", {"name": "strong room", "platform": "vault", "settings": SETTINGS})
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, "name")
    api.post("/api/v1/clusters/", {"name": "other", "platform": "vault", "settings": SETTINGS})
    answer = api.patch(address(cluster), {"name": "other"})
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, "name")


def test_new_settings_keep_the_secrets_they_leave_out(api, cluster) -> None:
    settings = api.get(address(cluster)).json()["settings"]
    settings["doors"].append({"host": "c"})
    body = api.patch(address(cluster), {"settings": settings}).json()
    assert (len(body["settings"]["doors"]), body["settings_revision"]) == (3, 1)
    assert secrets_of(cluster) == ("sesame", ["pw-a", "pw-b", None])


def test_a_secret_is_given_again_or_removed_when_it_would_be_sent_elsewhere(api, cluster) -> None:
    settings = {**api.get(address(cluster)).json()["settings"], "address": "elsewhere"}
    answer = api.patch(address(cluster), {"settings": settings})
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, "settings.token")
    assert "was given for another address" in answer.json()["errors"][0]["message"]
    answer = api.put(f"{address(cluster)}metadata/vault_config/", {"value": json.dumps({"address": "elsewhere"})})
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, "value")
    assert "token: was given for another address" in answer.json()["errors"][0]["message"]
    assert api.get(address(cluster)).json()["settings"]["address"] == "there"
    assert secrets_of(cluster) == ("sesame", ["pw-a", "pw-b"])
    assert api.patch(address(cluster), {"settings": {**settings, "token": "simsim"}}).status_code == 200
    assert secrets_of(cluster) == ("simsim", ["pw-a", "pw-b"])
    assert api.patch(address(cluster), {"settings": {**settings, "address": "third", "token": None}}).status_code == 200
    assert secrets_of(cluster) == (None, ["pw-a", "pw-b"])


NODE = {"host": "a", "user": "ada", "password": "sesame"}
AZURE = {"storageType": "azureStorage", "azureAccount": "acc", "azureShare": "s", "azureAccountKey": "c2VzYW1l"}
BLOB = {"storageType": "AzureBlob", "localMountPoint": "/mnt/x", "remoteMountPoint": "/mnt/x",
        "localMounted": "nomount", "storageAccountName": "acc", "storageAccountKey": "c2VzYW1l", "containerName": "c"}


@pytest.mark.parametrize(("platform", "given", "free", "elsewhere", "field"), [
    ("openpai", {"host": "a", "username": "ada", "token": "sesame"},
     {"storageConfigName": "x", "localStorageMountPoint": "/x", "containerStorageMountPoint": "/x"}, {"host": "b"},
     "token"),
    ("openpai", {"host": "a", "username": "ada", "password": "sesame"}, {}, {"username": "bob"}, "password"),
    ("dlts", {"dashboard": "a", "email": "a@x.example", "team": "t", "password": "sesame"}, {"team": "u"},
     {"dashboard": "b"}, "password"),
    ("ray", {"address": "a", "token": "sesame"}, {}, {"address": "b"}, "token"),
    ("ray", {"address": "a", "headers": "X: sesame"}, {}, {"address": "b"}, "headers"),
    ("slurm", {"workingFolder": "/x", "loginNode": NODE}, {"workingFolder": "/y"},
     {"loginNode": {"host": "b", "user": "ada"}}, "loginNode.password"),
    ("slurm", {"workingFolder": "/x", "loginNode": NODE}, {}, {"loginNode": {"host": "a", "user": "bob"}},
     "loginNode.password"),
    ("kubernetes", {"storage": AZURE, "context": "a"}, {"wayHome": "log"}, {"context": "b"}, "storage.azureAccountKey"),
    ("remote", {"machineList": [NODE], "sharedStorage": BLOB}, {"lostAfter": 10.0},
     {"machineList": [{"host": "b", "user": "ada", "password": "other"}]}, "sharedStorage.storageAccountKey"),
])
def test_no_platform_sends_a_secret_to_another_address_or_for_another_user(
        api, platform, given, free, elsewhere, field) -> None:
    answer = api.post("/api/v1/clusters/", {"name": "lab", "platform": platform, "settings": given})
    assert answer.status_code == 201, answer.content
    cluster = Cluster.objects.get()
    shown = api.get(address(cluster)).json()
    assert field in shown["secrets_set"]
    answer = api.patch(address(cluster), {"settings": {**shown["settings"], **free}})
    assert answer.status_code == 200, answer.content
    assert field in answer.json()["secrets_set"]
    answer = api.patch(address(cluster), {"settings": {**shown["settings"], **elsewhere}})
    assert answer.status_code == 400, answer.content
    assert f"settings.{field}" in [error["field"] for error in answer.json()["errors"]]


def test_no_machine_gets_another_machines_password(api, cluster) -> None:
    settings = api.get(address(cluster)).json()["settings"]
    settings["doors"].reverse()
    api.patch(address(cluster), {"settings": settings})
    assert secrets_of(cluster) == ("sesame", ["pw-b", "pw-a"]), "each goes along with its machine"
    api.patch(address(cluster), {"settings": {**settings, "doors": settings["doors"][1:]}})
    assert secrets_of(cluster) == ("sesame", ["pw-a"])


def test_a_machine_at_a_new_address_does_not_get_the_kept_password_and_is_named(api, cluster) -> None:
    settings = api.get(address(cluster)).json()["settings"]
    doors = [settings["doors"][0], {**settings["doors"][1], "host": "elsewhere"}]
    sentence = 'was given for another host (it was "b" and is "elsewhere" now), and is not sent elsewhere. Give it'
    refused = api.patch(address(cluster), {"settings": {**settings, "doors": doors}})
    assert refused.status_code == 400, refused.content
    assert [error["field"] for error in refused.json()["errors"]] == ["settings.doors[1].password"]
    assert refused.json()["errors"][0]["message"].startswith(sentence)
    base = f"{address(cluster)}metadata/vault_config/"
    refused = api.put(base, {"value": json.dumps({"address": "there", "doors": doors})})
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (400, "value"), refused.content
    assert refused.json()["errors"][0]["message"].startswith(f"vault_config.doors[1].password: {sentence}")
    assert secrets_of(cluster) == ("sesame", ["pw-a", "pw-b"])
    doors[1]["password"] = None
    assert api.put(base, {"value": json.dumps({"address": "there", "doors": doors})}).status_code == 200
    assert secrets_of(cluster) == ("sesame", ["pw-a", None])


def test_a_machine_list_with_another_address_does_not_drop_the_kept_password(api) -> None:
    machines = [{"host": "10.0.0.5", "user": "ada", "password": "sesame"}]
    api.post("/api/v1/clusters/", {"name": "lab", "platform": "remote", "settings": {"machineList": machines}})
    cluster = Cluster.objects.get()

    def put(**machine: object):
        return api.put(f"{address(cluster)}metadata/machine_list/", {"value": json.dumps([machine])})

    def is_set() -> list[str]:
        return api.get(address(cluster)).json()["secrets_set"]

    for machine, changed in (({"ip": "10.0.0.9", "username": "ada"}, 'host (it was "10.0.0.5" and is "10.0.0.9" now)'),
                             ({"ip": "10.0.0.5", "username": "bob"}, 'user (it was "ada" and is "bob" now)'),
                             ({"ip": "10.0.0.5", "username": "ada", "port": 2222},
                              "port (it was not given and is 2222 now)")):
        refused = put(**machine)
        assert (refused.status_code, refused.json()["errors"][0]["message"]) == (400, (
            f"machine_list[0].passwd: was given for another {changed}, and is not sent elsewhere. Give it again, or "
            "null to remove it."))
        assert is_set() == ["machineList[0].password"]
    assert put(ip="10.0.0.5", username="ada", gpuIndices="0,1", preCommand="true").status_code == 200
    assert is_set() == ["machineList[0].password"], "nothing of this says where it is sent"
    assert put(ip="10.0.0.9", username="ada", passwd="simsim").status_code == 200
    assert is_set() == ["machineList[0].password"]
    assert put(ip="10.0.0.5", username="ada", passwd=None).status_code == 200
    assert is_set() == []


def test_a_machine_with_a_key_of_its_own_takes_the_place_of_one_with_a_password(api, tmp_path) -> None:
    key = tmp_path / "id_ed25519"
    key.write_text("a key")
    api.post("/api/v1/clusters/", {"name": "lab", "platform": "remote", "settings": {"machineList": [
        {"host": "10.0.0.5", "user": "ada", "password": "sesame"}]}})
    cluster = Cluster.objects.get()
    answer = api.put(f"{address(cluster)}metadata/machine_list/", {"value": json.dumps(
        [{"ip": "10.0.0.5", "username": "bob", "sshKeyPath": str(key)}])})
    assert answer.status_code == 200, answer.content
    found = api.get(address(cluster)).json()
    assert (found["settings"]["machineList"][0]["user"], found["secrets_set"]) == ("bob", [])


def test_a_secret_of_the_platforms_own_metadata_is_not_sent_to_a_new_address(api, cluster) -> None:
    key = f"{address(cluster)}metadata/key_file/"
    assert api.put(key, {"value": "open please"}).status_code == 200
    change = {"settings": {"address": "elsewhere", "token": None, "doors": []}}
    refused = api.patch(address(cluster), change)
    assert [(error["field"], error["message"]) for error in refused.json()["errors"]] == [("settings.address", (
        "does not change while key_file of the metadata is set, which was given for the settings as they are. Remove "
        "it, change the settings, and set it again."))]
    assert api.patch(address(cluster), {"settings": {"address": "there", "doors": []}}).status_code == 200
    assert api.delete(key).status_code == 204
    assert api.patch(address(cluster), change).status_code == 200


def test_a_secret_is_replaced_and_removed(api, cluster) -> None:
    settings = api.get(address(cluster)).json()["settings"]
    settings["doors"][0]["password"] = "new"
    api.patch(address(cluster), {"settings": {**settings, "token": None}})
    assert secrets_of(cluster) == (None, ["new", "pw-b"])


def test_wrong_new_settings_change_nothing(api, cluster) -> None:
    answer = api.patch(address(cluster), {"name": "new", "settings": {"address": "x", "bad": 1}})
    assert answer.status_code == 400
    cluster.refresh_from_db()
    assert (cluster.name, cluster.settings_revision) == ("strong room", 0)


def test_a_cluster_with_experiments_is_not_deleted_and_they_are_named(api, cluster, make_experiment) -> None:
    experiment = make_experiment(cluster=cluster)
    answer = api.delete(address(cluster))
    assert answer.status_code == 409
    assert experiment.public_id in answer.json()["errors"][0]["message"]
    experiment.status = "DONE"
    experiment.save()
    ended = api.delete(address(cluster))
    assert ended.status_code == 409
    assert "disable" in ended.json()["errors"][0]["message"]
    experiment.delete()
    assert api.delete(address(cluster)).status_code == 204
    assert api.get(address(cluster)).status_code == 404


def test_a_cluster_of_an_experiment_on_several_is_not_deleted_while_the_experiment_is_there(
        api, cluster, make_experiment) -> None:
    home = Cluster.objects.create(name="home", platform="vault")
    experiment = make_experiment(cluster=home, several_clusters=True)
    row = ExperimentCluster.objects.create(experiment=experiment, cluster=cluster, position=1)
    for is_listed, status, words in ((True, "RUNNING", "Experiments use the cluster"),
                                     (False, "RUNNING", "Experiments use the cluster"),
                                     (True, "DONE", "Delete them first"), (False, "DONE", "Delete them first")):
        ExperimentCluster.objects.filter(pk=row.pk).update(is_listed=is_listed)
        Experiment.objects.update(status=status)
        answer = api.delete(address(cluster))
        assert answer.status_code == 409, answer.content
        assert words in (said := answer.json()["errors"][0]["message"])
        assert said.count(experiment.public_id) == 1
    experiment.delete()
    assert api.delete(address(cluster)).status_code == 204


def test_only_administrators_set_up_and_change_shared_clusters(as_user, alice, cluster) -> None:
    client = as_user(alice)
    assert client.get(address(cluster)).status_code == 200
    for answer in (client.post("/api/v1/clusters/", {"name": "c", "platform": "vault", "settings": SETTINGS}),
                   client.patch(address(cluster), {"enabled": False}), client.delete(address(cluster)),
                   client.put(f"{address(cluster)}metadata/note/", {"value": "a"}),
                   client.delete(f"{address(cluster)}metadata/note/")):
        assert answer.status_code == 403


def test_a_private_cluster_is_its_owners(as_user, alice, bob, cluster) -> None:
    Cluster.objects.update(is_private=True, owner=alice)
    assert as_user(bob).get(address(cluster)).status_code == 404
    assert as_user(alice).patch(address(cluster), {"name": "mine"}).json()["name"] == "mine"
    # settings may name the server's files
    assert as_user(alice).patch(address(cluster), {"settings": {"address": "x"}}).status_code == 403
    assert as_user(alice).delete(address(cluster)).status_code == 204


def test_a_groups_cluster_is_the_groups(as_user, alice, charlie, cluster, api) -> None:
    assert api.patch(address(cluster), {"group": "vision"}).json()["group"] == "vision"
    assert as_user(alice).get("/api/v1/clusters/").json()["count"] == 1
    assert as_user(charlie).get("/api/v1/clusters/").json()["count"] == 0


def test_metadata_are_set_shown_and_forgotten(api, cluster) -> None:
    base = f"{address(cluster)}metadata/"
    assert [row["key"] for row in api.get(base).json()] == [
        "key_file", "nni_manager_ip", "note", "trial_config", "vault_config"]
    assert api.get(f"{base}note/").json() == {"key": "note", "meaning": "any text", "is_secret": False,
                                              "is_set": False, "value": "", "says_settings": []}
    assert api.put(f"{base}note/", {"value": " hello "}).json()["value"] == " hello "
    secret = api.put(f"{base}key_file/", {"value": "very secret"}).json()
    assert (secret["is_set"], secret["value"]) == (True, "set")
    assert api.get(address(cluster)).json()["metadata_set"] == ["key_file", "note", "vault_config"]
    assert api.get(address(cluster)).json()["settings_revision"] == 2
    assert "very secret" not in json.dumps(api.get(base).json())
    assert api.delete(f"{base}note/").status_code == 204
    assert api.get(f"{base}note/").json()["is_set"] is False
    assert secrets_of(cluster)[0] == "sesame"


def test_wrong_metadata_are_refused_by_name(api, cluster) -> None:
    base = f"{address(cluster)}metadata/"
    wrong = api.put(f"{base}note/", {"value": "wrong"})
    assert (wrong.status_code, wrong.json()["errors"][0]["field"]) == (400, "value")
    assert api.put(f"{base}note/", {}).json()["errors"][0]["field"] == "value"
    for method in ("get", "put", "delete"):
        unknown = getattr(api, method)(f"{base}nothing/", {"value": "a"})
        assert unknown.status_code == 404
        assert "key_file, nni_manager_ip, note, trial_config, vault_config" in unknown.json()["errors"][0]["message"]
    # the secrets of the settings are no metadata
    assert api.get(f"{base}token/").status_code == 404


def test_metadata_that_cannot_change_while_running_are_refused_naming_the_experiments(api, cluster, make_experiment
                                                                                      ) -> None:
    experiment = make_experiment(cluster=cluster)
    base = f"{address(cluster)}metadata/"
    assert api.put(f"{base}note/", {"value": "a"}).status_code == 200
    for answer in (api.put(f"{base}key_file/", {"value": "a"}), api.delete(f"{base}key_file/")):
        assert answer.status_code == 409
        assert experiment.public_id in answer.json()["errors"][0]["message"]


def test_a_key_of_nni_shows_what_the_settings_say_and_the_other_way_round(api, cluster) -> None:
    base = f"{address(cluster)}metadata/vault_config/"
    seen = api.get(base).json()
    assert (seen["is_set"], seen["is_secret"]) == (True, False)
    doors = [{"host": "a", "port": 22}, {"host": "b", "port": 22}]
    assert json.loads(seen["value"]) == {"address": "there", "doors": doors}
    changed = api.put(base, {"value": json.dumps({"address": "there", "doors": [*doors, {"host": "c"}]})})
    assert changed.status_code == 200, changed.content
    assert api.get(address(cluster)).json()["settings"] == {
        "address": "there", "doors": [*doors, {"host": "c", "port": 22}]}
    assert secrets_of(cluster) == ("sesame", ["pw-a", "pw-b", None]), "secrets that are left out stay"
    revision = api.get(address(cluster)).json()["settings_revision"]
    assert api.put(base, {"value": changed.json()["value"]}).status_code == 200
    assert api.get(address(cluster)).json()["settings_revision"] == revision, "nothing was changed"
    sealed = api.put(base, {"value": json.dumps({"address": "here", "token": "simsim"})})
    assert "simsim" not in json.dumps([sealed.json(), api.get(address(cluster)).json()])
    assert secrets_of(cluster) == ("simsim", [])
    api.patch(address(cluster), {"settings": {"address": "elsewhere", "token": None}})
    assert json.loads(api.get(base).json()["value"])["address"] == "elsewhere"


def test_what_is_wrong_in_a_key_of_nni_is_named_in_its_words_and_changes_nothing(api) -> None:
    here = {"host": "127.0.0.1", "user": "ada", "password": "sesame"}
    api.post("/api/v1/clusters/", {"name": "lab", "platform": "remote", "settings": {"machineList": [here]}})
    cluster = Cluster.objects.get()
    base = f"{address(cluster)}metadata/machine_list/"
    for value, place in (("[{]", "must be JSON; line 1, column 3: the name of a field in double quotes is missing"),
                         ('[{"username": "ada"}]', "machine_list[0].ip: is required"),
                         ('[{"ip": "a", "username": "ada", "passwrd": 1}]', "machine_list[0].passwrd: is not a known"),
                         ('[{"ip": "a", "username": "ada", "port": "22"}]', "machine_list[0].port: must be a whole")):
        answer = api.put(base, {"value": value})
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, "value"), answer.content
        assert place in answer.json()["errors"][0]["message"]
    assert api.delete(base).status_code == 400
    assert [row["settings"]["machineList"][0]["host"] for row in api.get("/api/v1/clusters/").json()["results"]] == [
        "127.0.0.1"]
    sent = [{"ip": "127.0.0.1", "port": 2222, "username": "ada", "passwd": "simsim", "gpuIndices": "0,1"}]
    assert api.put(base, {"value": json.dumps(sent)}).status_code == 200
    machine = api.get(address(cluster)).json()["settings"]["machineList"][0]
    assert (machine["host"], machine["port"], machine["user"], machine["gpuIndices"]) == (
        "127.0.0.1", 2222, "ada", [0, 1])
    assert api.get(address(cluster)).json()["secrets_set"] == ["machineList[0].password"]
    assert build_service(Cluster.objects.get()).settings.machine_list[0].password.get_secret_value() == "simsim"


def test_a_service_in_nni_s_style_gets_what_nni_s_keys_say_and_may_refuse_it(api, cluster, monkeypatch) -> None:
    got: list[tuple[str, str]] = []

    def take(service, key, value):
        got.append((key, value))
        if "sleep" in value:
            raise InvalidMetadata(key, "must not sleep.")

    monkeypatch.setattr(VaultTrainingService, "set_cluster_metadata", take)
    base = f"{address(cluster)}metadata/trial_config/"
    refused = api.put(base, {"value": '{"command": "sleep 1"}'})
    assert (refused.status_code, refused.json()["errors"][0]["message"]) == (400, "must not sleep.")
    assert api.get(base).json()["is_set"] is False
    assert api.put(base, {"value": '{"command": "true"}'}).status_code == 200
    got.clear()
    build_service(Cluster.objects.get())
    assert got == [("trial_config", '{"command": "true"}')]


def test_settings_are_changed_by_nnis_keys_while_experiments_run_as_they_are_otherwise(api, cluster, make_experiment
                                                                                      ) -> None:
    make_experiment(cluster=cluster)
    base = f"{address(cluster)}metadata/vault_config/"
    assert api.put(base, {"value": '{"address": "here", "token": "simsim"}'}).status_code == 200
    assert api.get(address(cluster)).json()["settings"] == {"address": "here", "doors": []}


def test_a_rehearsal_answers_in_sentences(api, cluster) -> None:
    found = api.post(f"{address(cluster)}actions/rehearse/").json()
    assert found == [{"check": "connection", "ok": True, "message": "It opens.", "machine": "", "temporary": False,
                      "field": "token"}]
    api.patch(address(cluster), {"settings": {"address": "away", "token": "sesame"}})
    found = api.post(f"{address(cluster)}actions/rehearse/").json()
    assert (found[0]["ok"], found[0]["temporary"], found[0]["message"]) == (False, True, "The vault does not answer.")
    Cluster.objects.update(settings={"address": 3})
    assert api.post(f"{address(cluster)}actions/rehearse/").json()[0]["check"] == "settings"
    Cluster.objects.update(pinned_host="elsewhere")
    assert api.post(f"{address(cluster)}actions/rehearse/").status_code == 409


def test_the_local_machine_is_rehearsed_with_a_real_trial(api, settings) -> None:
    api.post("/api/v1/clusters/", {"name": "here", "platform": "local"})
    found = api.post(f"{address(Cluster.objects.get())}actions/rehearse/").json()
    assert {"interpreter", "folder", "disk"} <= {finding["check"] for finding in found}
    assert all(finding["ok"] for finding in found if finding["check"] == "trial"), found


def test_machines_say_who_holds_their_gpus(api, as_user, alice, cluster, make_experiment, make_attempt) -> None:
    Machine.objects.create(cluster=cluster, name="box", identity="m1", gpu_summary=[{"index": 0}, {"index": 1}])
    mine, other = make_attempt(make_experiment(owner=alice)), make_attempt()
    Attempt.objects.filter(pk=mine.pk).update(machine_identity="m1", gpu_indices=[0])
    Attempt.objects.filter(pk=other.pk).update(machine_identity="m1", gpu_indices=[1])
    machine = as_user(alice).get(address(cluster)).json()["machines"][0]
    assert machine["gpus"] == [{"index": 0}, {"index": 1}]
    assert machine["gpu_holders"] == [
        {"gpu_indices": [0], "trial": mine.trial.public_id, "experiment": mine.trial.experiment.public_id},
        {"gpu_indices": [1], "trial": None, "experiment": None}]


def test_machines_say_how_busy_they_are_as_long_as_that_is_recent(api, cluster) -> None:
    load = {"cpu_used": 1.5, "cpu_total": 4.0, "memory_used": 5, "memory_total": 8}
    Machine.objects.create(cluster=cluster, name="box", load=load, seen_at=timezone.now())
    Machine.objects.create(cluster=cluster, name="old", load=load, seen_at=timezone.now() - timedelta(minutes=4))
    Machine.objects.create(cluster=cluster, name="plain", seen_at=timezone.now())
    told = {machine["name"]: machine["load"] for machine in api.get(address(cluster)).json()["machines"]}
    assert told == {"box": load, "old": None, "plain": None}


def test_platforms_say_what_they_need(api, vault) -> None:
    rows = {row["name"]: row for row in api.get("/api/v1/platforms/").json()}
    assert set(rows) == set(platform_names())
    assert rows["local"]["shares_code_folder"] is True
    assert {name: rows[name]["multi_phase"] for name in BUILT_IN} == {
        **dict.fromkeys(("command", "dlts", "local", "remote", "slurm"), True),
        **dict.fromkeys(("adl", "azureml", "frameworkcontroller", "kubeflow", "kubernetes", "ray"), False),
        "openpai": None}, "OpenPAI needs a storage for it"
    assert "gpuIndices" in rows["local"]["options_schema"]["properties"]
    vault_row = rows["vault"]
    assert vault_row["settings_schema"]["properties"]["token"]["anyOf"][0]["writeOnly"] is True
    assert vault_row["metadata"][0] == {"key": "key_file", "meaning": "content of the key", "is_secret": True,
                                        "changeable_while_running": False}
    assert vault_row["multi_phase"] is False


def test_workers_say_whether_they_are_alive(api) -> None:
    now = timezone.now()
    Worker.objects.create(id="a", host="box", pid=1, started_at=now, heard_at=now + timedelta(hours=1))
    Worker.objects.create(id="b", host="box", pid=2, started_at=now - timedelta(days=1),
                          heard_at=now - timedelta(seconds=16))
    rows = api.get("/api/v1/workers/").json()["results"]
    assert [(row["id"], row["alive"]) for row in rows] == [("a", True), ("b", False)]


@pytest.mark.parametrize(("key", "value", "words"), [
    ("machine_list", "[" * 5000 + "]" * 5000,
     "machine_list: must be JSON that is not nested more than 100 levels deep"),
    ("machine_list", '[{"ip": "a\\u0000", "username": "ada", "passwd": "x"}]',
     "machine_list[0].ip: contains a character"),
    ("trial_config", '{"command": "a\\u0000"}', "trial_config.command: contains a character"),
    ("trial_config", '{"command": "\\ud800"}', "trial_config.command: contains a character"),
    ("nni_manager_ip", '{"nniManagerIp": "x y\\n"}', 'nni_manager_ip: "x y\\n" is not an address'),
])
def test_metadata_that_cannot_be_stored_or_used_are_refused_at_once(api, key, value, words) -> None:
    here = {"host": "127.0.0.1", "user": "ada", "password": "sesame"}
    api.post("/api/v1/clusters/", {"name": "lab", "platform": "remote", "settings": {"machineList": [here]}})
    answer = api.put(f"{address(Cluster.objects.get())}metadata/{key}/", {"value": value})
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, "value"), answer.content
    assert words.partition(": ")[2] in answer.json()["errors"][0]["message"]


def test_a_member_of_a_clusters_group_is_told_who_may_change_it(api, as_user, alice, cluster) -> None:
    cluster.group = Group.objects.create(name="lab")
    cluster.save()
    alice.groups.add(cluster.group)
    answer = as_user(alice).patch(address(cluster), {"name": "x"})
    assert answer.status_code == 403
    assert "only its owner and administrators may change it" in answer.content.decode()
