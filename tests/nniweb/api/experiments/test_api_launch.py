"""Launching over REST: three forms, one check, and nothing created where something is wrong."""

import io
import json
import socket
import tarfile
import zipfile
from datetime import timedelta
from pathlib import Path

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.utils import timezone

from nniweb.experiments.models import Cluster, CodeArchive, Experiment, Worker


def refused(answer, status: int = 400) -> list[dict]:
    assert answer.status_code == status, answer.content
    assert not Experiment.objects.exists()
    assert not Cluster.objects.exists()
    assert not CodeArchive.objects.exists()
    return answer.json()["errors"]


def tar_of(**files: str) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, text in files.items():
            info = tarfile.TarInfo(name.replace("_dot_", "."))
            info.size = len(text.encode())
            archive.addfile(info, io.BytesIO(text.encode()))
    return out.getvalue()


def upload(client, config: str, data: bytes, name: str = "code.tar.gz"):
    return client.post("/api/v1/experiments/", {"config": config, "code": SimpleUploadedFile(name, data)},
                       format="multipart")


SPACE = '{"x": {"_type": "uniform", "_value": [0, 1]}}'


def test_a_config_file_is_launched(api, config, code_folder) -> None:
    answer = api.post("/api/v1/experiments/", {"config": config, "base_directory": str(code_folder)})
    assert answer.status_code == 201, answer.content
    body = answer.json()
    assert (body["name"], body["status"], body["trial_concurrency"], body["max_trial_number"]) == (
        "quadratic", "INITIALIZED", 2, 5)
    assert body["config_text"] == config
    assert body["config"]["trialCodeDirectory"] == body["code_folder"] == str(code_folder)
    assert (body["owner"], body["platform"]) == ("ada", "local")
    assert api.get(f"/api/v1/experiments/{body['id']}/").status_code == 200


def test_a_config_may_be_an_object(api, code_folder) -> None:
    config = {"searchSpace": json.loads(SPACE), "trialCommand": "true", "trialConcurrency": 1,
              "trialCodeDirectory": str(code_folder), "tuner": {"name": "Random"},
              "trainingService": {"platform": "local"}}
    assert api.post("/api/v1/experiments/", {"config": config}).status_code == 201


def test_a_role_whose_pods_could_not_be_named_is_refused_by_its_name(api, code_folder) -> None:
    name = "w" * 45
    errors = refused(api.post("/api/v1/experiments/", {"config": {
        "searchSpace": json.loads(SPACE), "trialCommand": "true", "trialConcurrency": 1,
        "trialCodeDirectory": str(code_folder), "tuner": {"name": "Random"}, "trainingService": {
            "platform": "frameworkcontroller", "taskRoles": [{"name": name, "taskNumber": 1}]}}}))
    assert [error["field"] for error in errors] == ["trainingService.taskRoles"]
    assert f"role {name}: its name may have" in errors[0]["message"]


def test_fields_in_snake_case_are_launched(api, code_folder) -> None:
    answer = api.post("/api/v1/experiments/", {
        "name": "by fields", "search_space": json.loads(SPACE), "trial_command": "true", "trial_concurrency": 3,
        "trial_code_directory": str(code_folder), "max_trial_number": 7, "max_duration": "10m",
        "tuner": {"name": "TPE", "class_args": {"optimize_mode": "maximize", "seed": 3}},
        "training_service": {"platform": "local", "snapshot_code": True}})
    assert answer.status_code == 201, answer.content
    body = answer.json()
    assert (body["name"], body["max_trial_number"], body["max_duration"]) == ("by fields", 7, 600)
    assert (body["optimize_mode"], body["seed"]) == ("maximize", 3)
    assert Experiment.objects.get().trial_options["snapshotCode"] is True
    assert body["code_sha256"] == CodeArchive.objects.get().sha256


@pytest.mark.parametrize(("seed", "status"), [(2**63 - 1, 201), (2**63, 400), (10**30, 400)])
def test_a_seed_that_the_database_cannot_hold_is_refused(api, code_folder, seed: int, status: int) -> None:
    config = {"searchSpace": json.loads(SPACE), "trialCommand": "true", "trialConcurrency": 1,
              "trialCodeDirectory": str(code_folder), "tuner": {"name": "Random", "classArgs": {"seed": seed}},
              "trainingService": {"platform": "local"}}
    answer = api.post("/api/v1/experiments/", {"config": config})
    assert answer.status_code == status, answer.content
    if status == 400:
        assert [error["field"] for error in refused(answer)] == ["tuner.classArgs.seed"]


def test_errors_repeat_the_callers_spelling(api) -> None:
    errors = refused(api.post("/api/v1/experiments/", {
        "name": "x", "max_duration": "soon", "search_space": {"x": {"_type": "uniform", "_value": [2, 1]}},
        "trial_command": "true", "trial_concurrency": 0, "tuner": {"name": "TPE", "class_args": {"optimise_mode": 1}},
        "training_service": {"platform": "local", "gpu_indexes": 3}}))
    fields = {error["field"] for error in errors}
    assert {"max_duration", "trial_concurrency", "training_service.gpu_indexes"} <= fields
    assert any(field.startswith("search_space.x") for field in fields)
    assert any(field.startswith("tuner.class_args") for field in fields)


@pytest.mark.parametrize(("old", "new", "field"), [
    ("trialConcurrency: 2", "trialConcurrency: [", "config"),
    ("trialConcurrency: 2", "trialConcurency: 2", "trialConcurency"),
    ("trialConcurrency: 2", "trialConcurrency: two", "trialConcurrency"),
    ("searchSpaceFile: search_space.json", "", "searchSpace"),
    ("searchSpaceFile: search_space.json", "searchSpaceFile: nothing.json", "searchSpaceFile"),
    ("searchSpaceFile: search_space.json", "searchSpace: {x: {_type: choice, _value: []}}", "searchSpace.x"),
    ("searchSpaceFile: search_space.json", "searchSpace: {x: {_type: uniform, _value: [1, 0]}}", "searchSpace.x"),
    ("trialCommand: python3 trial.py", "trialCommand: ''", "trialCommand"),
    ("trialCommand: python3 trial.py", "trialCommand: a\ntrialCodeDirectory: nowhere", "trialCodeDirectory"),
    ("platform: local", "platform: locl", "trainingService.platform"),
    ("name: Random", "name: Randm", "tuner.name")])
def test_what_is_wrong_in_a_config_is_named_and_nothing_is_created(api, config, code_folder, old, new, field) -> None:
    answer = api.post("/api/v1/experiments/", {"config": config.replace(old, new), "base_directory": str(code_folder)})
    errors = refused(answer)
    assert any(error["field"].startswith(field) for error in errors), errors
    if new and "concurency" not in new.lower():  # what is missing has no place
        assert all(error["line"] is not None for error in errors), errors


@pytest.mark.parametrize("body", [
    {}, [], {"config": 3}, {"config": None}, {"config": ""}, {"config": []}, {"config": "a", "extra": 1},
    {"config": "- a\n- b"}, {"config": 'experimentName: "a\\0b"\n'}, {"config": 'experimentName: "\\ud800"\n'},
    {"config": "a: &a [*a]"}, {"config": "{}", "base_directory": "relative"},
    {"config": "{}", "base_directory": "/nowhere"}, {"config": "{}", "base_directory": 3}])
def test_a_body_that_is_no_config_is_refused(api, body) -> None:
    refused(api.post("/api/v1/experiments/", body))


def test_text_that_no_database_takes_is_refused_inside_a_config_too(api, config, code_folder) -> None:
    for bad in ('"a\\0b"', '"a\\ud800b"'):
        text = config.replace("experimentName: quadratic", f"experimentName: {bad}")
        refused(api.post("/api/v1/experiments/", {"config": text, "base_directory": str(code_folder)}))


def test_members_may_not_use_the_servers_own_machine(as_user, alice, config) -> None:
    errors = refused(upload(as_user(alice), config, tar_of(trial_dot_py="1", search_space_dot_json=SPACE)))
    assert errors[0]["field"] == "trainingService.platform"
    assert "ask an administrator" in errors[0]["message"]


@pytest.fixture
def vault_config(config: str, vault: None) -> str:
    return config.replace("platform: local", "platform: vault\n  address: there\n  token: sesame")


@pytest.mark.parametrize("login", ["", ", sshKeyFile: id_rsa", ", password: p, proxyJump: me@gate"])
def test_members_may_not_log_in_with_the_servers_own_keys(as_user, alice, config, login: str) -> None:
    machine = f"platform: remote\n  machineList: [{{host: box.example, user: me{login}}}]"
    data = tar_of(trial_dot_py="1", search_space_dot_json=SPACE, id_rsa="a key")
    errors = refused(upload(as_user(alice), config.replace("platform: local", machine), data))
    assert errors[0]["field"] == "trainingService"
    assert "server's own user" in errors[0]["message"]
    assert not Cluster.objects.exists()


@pytest.mark.parametrize("own", [
    "platform: dlts\n  dashboard: http://127.0.0.1:1/\n  team: t\n  email: root@x\n  password: k",
    "platform: openpai\n  host: http://127.0.0.1:1\n  username: u\n  token: t\n  storageConfigName: s\n"
    "  localStorageMountPoint: .\n  containerStorageMountPoint: /mnt"], ids=["dlts", "openpai"])
def test_members_set_up_no_platform_that_writes_to_the_servers_file_system(as_user, alice, config, own: str) -> None:
    data = tar_of(search_space_dot_json=SPACE)
    errors = refused(upload(as_user(alice), config.replace("platform: local", own), data))
    assert (errors[0]["field"], "its file system" in errors[0]["message"]) == ("trainingService", True), errors
    assert not Cluster.objects.exists()


BOMB = "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(
    f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]\n" for level in range(1, 12))


def test_who_may_not_use_a_platform_is_told_so_before_any_file_of_theirs_is_read(as_user, alice, config, admin) -> None:
    own = ("platform: openpai\n  host: http://127.0.0.1:1\n  username: u\n  token: t\n  storageConfigName: s\n"
           "  localStorageMountPoint: .\n  containerStorageMountPoint: /mnt\n  openpaiConfigFile: job.yml")
    data = tar_of(search_space_dot_json="{", job_dot_yml=BOMB)
    errors = refused(upload(as_user(alice), config.replace("platform: local", own), data))
    assert [error["field"] for error in errors] == ["trainingService"]
    assert "which only administrators may do" in errors[0]["message"]
    # who may is told what is wrong with the files
    messages = " ".join(error["message"] for error in refused(upload(
        as_user(admin), config.replace("platform: local", own), data)))
    assert "openpaiConfigFile" in messages
    assert "more than 50000 keys and values" in messages
    assert "search_space.json" in messages


def test_files_of_a_section_that_a_chosen_cluster_replaces_are_read_only_where_it_is_of_that_platform(
        as_user, alice, vault_config, group) -> None:
    own = ("platform: openpai\n  host: http://127.0.0.1:1\n  username: u\n  token: t\n  storageConfigName: s\n"
           "  localStorageMountPoint: .\n  containerStorageMountPoint: /mnt\n  openpaiConfigFile: job.yml")
    cluster = Cluster.objects.create(name="ours", platform="vault", settings={"address": "there"}, owner=alice)
    text = vault_config.split("trainingService:")[0] + f"trainingService:\n  {own}\n"
    data = tar_of(trial_dot_py="print(1)", search_space_dot_json=SPACE, job_dot_yml=BOMB)
    answer = as_user(alice).post("/api/v1/experiments/", {
        "config": text, "code": SimpleUploadedFile("code.tar.gz", data), "cluster": cluster.name}, format="multipart")
    assert "The token is refused" in answer.content.decode()  # of the vault: all that was read before was right
    assert "openpaiConfigFile" not in answer.content.decode()


def test_members_may_not_name_the_servers_files(as_user, alice, vault_config, code_folder) -> None:
    client = as_user(alice)
    errors = refused(client.post("/api/v1/experiments/", {"config": vault_config, "base_directory": str(code_folder)}))
    assert (errors[0]["field"], "Upload the code" in errors[0]["message"]) == ("base_directory", True)
    for line in (f"trialCodeDirectory: {code_folder}", "searchSpaceFile: /etc/passwd", "trialCodeDirectory: .."):
        key = line.partition(":")[0]
        text = "".join(row for row in vault_config.splitlines(True) if not row.startswith(key)) + line + "\n"
        data = tar_of(search_space_dot_json=SPACE)
        fields = {error["field"]: error["message"] for error in refused(upload(client, text, data))}
        assert "you do not have the permission" in fields[key], fields


def test_members_may_not_run_classes_of_their_own_in_the_server(as_user, alice, vault_config) -> None:
    text = vault_config.replace("name: Random", "className: os.path")
    assert refused(upload(as_user(alice), text, tar_of(search_space_dot_json=SPACE)))[0]["field"] == "tuner.className"


def test_a_member_launches_with_uploaded_code(as_user, alice, vault_config, group) -> None:
    data = tar_of(trial_dot_py="print(1)", search_space_dot_json=SPACE)
    answer = upload(as_user(alice), vault_config, data)
    assert answer.status_code == 201, answer.content
    body = answer.json()
    assert (body["owner"], body["group"], body["code_folder"]) == ("alice", group.name, "")
    assert body["code_sha256"] == CodeArchive.objects.get().sha256
    assert "sesame" not in answer.content.decode()
    cluster = Cluster.objects.get()
    assert (cluster.is_private, cluster.owner, cluster.name) == (True, alice, "alice-vault")
    again = upload(as_user(alice), vault_config, data)
    assert again.json()["code_sha256"] == body["code_sha256"]
    assert Cluster.objects.count() == CodeArchive.objects.count() == 1


def test_a_zip_will_do_and_a_folder_in_it_can_be_the_code(api, config) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("search_space.json", SPACE)
        archive.writestr("src/trial.py", "print(1)")
    answer = upload(api, config + "trialCodeDirectory: src\n", out.getvalue(), "code.zip")
    assert answer.status_code == 201, answer.content
    archive = CodeArchive.objects.get()
    assert archive.file_count == 1
    assert "trialCodeDirectory" not in answer.json()["config"]


@pytest.mark.parametrize(("data", "word"), [(b"hello", "neither"), (b"", "neither"), (b"\x1f\x8bxx", "damaged"),
                                            (b"PK\x03\x04xxx", "damaged")])
def test_an_upload_that_is_no_archive_is_refused(api, config, data, word) -> None:
    errors = refused(upload(api, config, data))
    assert errors[0]["field"] == "code"


def test_an_archive_that_leads_out_of_its_folder_is_refused(api, config) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        archive.addfile(tarfile.TarInfo("../evil"), io.BytesIO())
    errors = refused(upload(api, config, out.getvalue()))
    assert (errors[0]["field"], "points outside" in errors[0]["message"]) == ("code", True)


def test_folders_that_lie_too_deep_in_an_archive_are_refused_in_words(api, config) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        archive.addfile(tarfile.TarInfo("d/" * 1500 + "f"), io.BytesIO())
    [error] = refused(upload(api, config, out.getvalue()))
    assert "lie too deep within each other" in error["message"]


@pytest.mark.parametrize("line", ["tuner: {className: os.system, codeDirectory: .}", "trialCodeDirectory: nowhere"])
def test_what_is_refused_of_uploaded_code_names_no_folder_of_the_server(api, config, data_folder, line: str) -> None:
    text = "\n".join(each for each in config.splitlines() if not each.startswith(("tuner", "  name"))) + f"\n{line}\n"
    errors = refused(upload(api, text, tar_of(trial_dot_py="1", search_space_dot_json=SPACE)))
    assert any("there is no" in error["message"] for error in errors)
    assert str(data_folder) not in str(errors)


def test_nothing_of_an_upload_stays_in_the_data_folder_but_its_archive(api, config, data_folder) -> None:
    upload(api, config, tar_of(trial_dot_py="1", search_space_dot_json=SPACE))
    assert [path.name for path in data_folder.iterdir() if path.name.startswith("tmp")] == []
    assert len(list(data_folder.glob("files/code/*.tar.gz"))) == 1


def test_a_cluster_of_the_server_is_named(api, as_user, alice, charlie, vault, group, ada) -> None:
    from nniweb.experiments.clusters import editing

    editing.create_cluster("ours", "vault", {"address": "there", "token": "sesame"}, owner=ada, is_private=False,
                            host="", group=group)
    fields = {"search_space": json.loads(SPACE), "trial_command": "true", "trial_concurrency": 1,
              "tuner": {"name": "Random"}, "cluster": "ours"}
    assert as_user(alice).post("/api/v1/experiments/", fields).json()["cluster"] == "ours"
    stranger = as_user(charlie).post("/api/v1/experiments/", fields)
    assert (stranger.status_code, stranger.json()["errors"][0]["field"]) == (400, "cluster")


@pytest.fixture
def cluster_with_defaults(api, vault, ada) -> Cluster:
    from nniweb.experiments.clusters import editing
    from nniweb.experiments.clusters.metadata import set_metadata

    cluster = editing.create_cluster("ours", "vault", {"address": "there", "token": "sesame"}, owner=ada,
                                     is_private=False, host="")
    set_metadata(cluster, "trial_config", json.dumps({"command": "python3 sent.py", "gpuNum": 2, "image": "sent"}))
    set_metadata(cluster, "nni_manager_ip", '{"nniManagerIp": "10.0.0.5"}')
    return cluster


def test_experiments_that_name_a_cluster_get_what_its_metadata_say_for_them(api, cluster_with_defaults) -> None:
    fields = {"name": "n", "search_space": json.loads(SPACE), "trial_concurrency": 1, "tuner": {"name": "Random"},
              "cluster": "ours"}
    answer = api.post("/api/v1/experiments/", fields)
    assert answer.status_code == 201, answer.content
    body, row = answer.json(), Experiment.objects.get()
    assert (row.trial_command, row.trial_gpu_number, row.trial_options, row.callback_url) == (
        "python3 sent.py", 2, {"image": "sent"}, "10.0.0.5")
    assert body["notes"] == ["Taken from the metadata of the cluster ours: nniManagerIp, trialCommand, trialGpuNumber, "
                             "image."]
    text = json.dumps({"searchSpace": json.loads(SPACE), "trialCommand": "python3 own.py", "trialConcurrency": 1,
                       "tuner": {"name": "Random"}, "cluster": "ours", "nni_manager_ip": "10.0.0.6",
                       "trialGpuNumber": 0, "trialOptions": {"image": "own"}})
    answer = api.post("/api/v1/experiments/", {"config": text})
    assert answer.json()["notes"] == [], "what a file says counts"
    row = Experiment.objects.latest("pk")
    assert (row.trial_command, row.trial_gpu_number, row.trial_options, row.callback_url) == (
        "python3 own.py", 0, {"image": "own"}, "10.0.0.6")


def test_a_file_whose_platform_is_replaced_by_a_cluster_keeps_its_options(api, cluster_with_defaults, vault_config,
                                                                         code_folder: Path) -> None:
    answer = api.post("/api/v1/experiments/", {
        "config": vault_config + "  image: own\n", "base_directory": str(code_folder), "cluster": "ours"})
    assert answer.status_code == 201, answer.content
    row = Experiment.objects.get()
    assert row.trial_options == {"image": "own"}
    assert row.code_folder == str(code_folder)
    assert row.callback_url == "10.0.0.5"


def test_that_nothing_of_the_platform_can_be_reached_is_said_at_once(api, client, vault_config, code_folder: Path,
                                                                     ada) -> None:
    config = vault_config.replace("address: there", "address: away")
    answer = api.post("/api/v1/experiments/", {"config": config, "base_directory": str(code_folder)})
    assert answer.status_code == 201, answer.content
    body, cluster = answer.json(), Cluster.objects.get()
    assert body["notes"] == ["The check before the launch: The vault does not answer."]
    assert (cluster.health, cluster.message, cluster.reason) == ("away", "The vault does not answer.", "platform")
    assert api.get(f"/api/v1/clusters/{cluster.public_id}/").json()["health"] == "away"
    now = timezone.now()
    Worker.objects.create(id="w", host=socket.gethostname(), pid=1, started_at=now, heard_at=now + timedelta(hours=1))
    client.force_login(ada)
    page = client.get(f"/experiments/{body['id']}/").content.decode()
    assert "The vault does not answer." in page
    # a worker that drives the cluster knows better than one look
    Cluster.objects.update(health="good", message="", reason="", lease_holder="w",
                           lease_expires_at=timezone.now() + timedelta(hours=1))
    api.post("/api/v1/experiments/", {"config": config, "base_directory": str(code_folder)})
    assert Cluster.objects.get().health == "good"


def test_what_the_rehearsal_finds_is_refused_and_leaves_no_cluster(api, vault_config, code_folder: Path) -> None:
    text = vault_config.replace("token: sesame", "token: wrong")
    errors = refused(api.post("/api/v1/experiments/", {"config": text, "base_directory": str(code_folder)}))
    assert (errors[0]["field"], errors[0]["message"]) == (
        "trainingService", "The token is refused at there; set another.")


def test_a_platform_that_is_away_does_not_refuse(api, vault_config, code_folder) -> None:
    text = vault_config.replace("address: there", "address: away")
    answer = api.post("/api/v1/experiments/", {"config": text, "base_directory": str(code_folder)})
    assert answer.status_code == 201


def test_a_body_of_unknown_length_is_not_mistaken_for_an_empty_one(api) -> None:
    errors = refused(api.generic("POST", "/api/v1/experiments/", b"", "multipart/form-data; boundary=x",
                                 headers={"Transfer-Encoding": "chunked"}))
    assert "Content-Length" in errors[0]["message"]


def test_only_a_launch_takes_forms(api) -> None:
    assert api.post("/api/v1/clusters/", {"name": "a"}, format="multipart").status_code == 415
