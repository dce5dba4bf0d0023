"""Which folders of the server may be named in a request."""

import os
import pwd
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nniweb.experiments.launch import homes_of_others
from nniweb.experiments.launch.nameable_folders import nameable_at_a_terminal, nameable_folders
from nniweb.experiments.models import AuditEntry, CodeArchive
from nniweb.storage.backup_places import note_backup


def refusal(client: Any, **fields: Any) -> str:
    answer = client.post("/api/v1/experiments/check/", fields)
    return "" if answer.status_code == 200 else f"{answer.json()['errors'][0]['field']}: " \
                                                f"{answer.json()['errors'][0]['message']}"


@pytest.fixture
def roots(settings: Any, tmp_path: Path) -> Path:
    settings.CODE_ROOTS = (tmp_path / "projects",)
    (tmp_path / "projects").mkdir()
    return tmp_path / "projects"


def test_a_code_folder_must_lie_below_a_root_also_where_a_link_leads(api: Any, roots: Path, code_folder: Path,
                                                                    config: str) -> None:
    (roots / "link").symlink_to(code_folder)
    inside = code_folder.rename(roots / "mine")
    assert refusal(api, config=config, base_directory=str(inside)) == ""
    for outside in ("/etc", str(roots.parent), str(roots / "mine" / ".." / ".."), "/"):
        assert "NNIWEB_CODE_ROOTS" in refusal(api, config=config, base_directory=outside)
    (roots / "link").unlink()
    (roots / "link").symlink_to("/etc")
    assert "NNIWEB_CODE_ROOTS" in refusal(api, config=config, base_directory=str(roots / "link"))


def test_paths_in_the_config_must_as_well(api: Any, roots: Path, code_folder: Path, config: str) -> None:
    inside = code_folder.rename(roots / "mine")
    for field in ("trialCodeDirectory: /etc", "trialCodeDirectory: ../..", "searchSpaceFile: ../../../etc/passwd"):
        text = config.replace("searchSpaceFile: search_space.json", field) if "searchSpace" in field \
            else f"{config}{field}\n"
        assert "NNIWEB_CODE_ROOTS" in refusal(api, config=text, base_directory=str(inside)), field


def test_the_data_folder_with_the_keys_is_no_code_even_below_a_root(api: Any, settings: Any, data_folder: Path,
                                                                   config: str) -> None:
    settings.CODE_ROOTS = (Path("/"),)
    (data_folder / "keys").mkdir()
    assert "contains its keys" in refusal(api, config=config, base_directory=str(data_folder / "keys"))


@pytest.mark.parametrize("above", ["", "..", "../.."])
def test_a_folder_that_holds_the_data_folder_is_no_code_and_nothing_of_it_is_packed(
        api: Any, settings: Any, tmp_path: Path, config: str, above: str) -> None:
    home = tmp_path / "home" / "share"
    settings.CODE_ROOTS = (tmp_path,)
    settings.DATA_FOLDER = home / "nniweb" / "data"
    (settings.DATA_FOLDER / "keys").mkdir(parents=True)
    (settings.DATA_FOLDER / "keys" / "secret_key").write_text("the server's own")
    named = (home / "nniweb" / above).resolve()
    text = (config.replace("searchSpaceFile: search_space.json", "searchSpace: {x: {_type: choice, _value: [1]}}")
            .replace("platform: local", "platform: local\n  snapshotCode: true"))
    answer = api.post("/api/v1/experiments/", {"config": f"{text}trialCodeDirectory: {named}\n"})
    assert [error["field"] for error in answer.json()["errors"]] == ["trialCodeDirectory"]
    assert "contains the data folder" in answer.json()["errors"][0]["message"]
    assert "contains the data folder" in refusal(api, config=text, base_directory=str(named))
    assert not CodeArchive.objects.exists()


def test_a_link_in_a_code_folder_that_leads_to_the_keys_is_refused_by_name_where_code_is_packed(
        api: Any, roots: Path, code_folder: Path, data_folder: Path, config: str) -> None:
    inside = code_folder.rename(roots / "mine")
    (data_folder / "keys").mkdir()
    (data_folder / "keys" / "secret_key").write_text("the server's own")
    (inside / "model").symlink_to(data_folder / "keys")
    copied = config.replace("platform: local", "platform: local\n  snapshotCode: true")
    found = refusal(api, config=copied, base_directory=str(inside))
    assert found.startswith("trialCodeDirectory: The link")
    assert "points out of the code folder" in found
    assert api.post("/api/v1/experiments/", {"config": copied, "base_directory": str(inside)}).status_code == 400
    assert not CodeArchive.objects.exists()
    assert refusal(api, config=config, base_directory=str(inside)) == ""  # shared, not packed: the trial's own business


@pytest.mark.filterwarnings("ignore:Overriding setting DATABASES")
def test_files_with_the_servers_secrets_its_database_and_its_backups_are_closed_wherever_they_lie(
        admin: Any, settings: Any, tmp_path: Path) -> None:
    settings.CODE_ROOTS = (tmp_path,)
    for name in ("etc/seal_keys", "srv/db.sqlite3", "mnt/nightly/b.tar.gz", "code/train.py"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).touch()
    settings.SECRET_FILES = (tmp_path / "etc" / "seal_keys",)
    settings.DATABASES = {"default": {"ENGINE": "nniweb.database.sqlite", "NAME": tmp_path / "srv" / "db.sqlite3"}}
    note_backup(tmp_path / "mnt" / "nightly" / "b.tar.gz")
    for found in (nameable_folders(admin), nameable_at_a_terminal()):
        for inside, words in (("etc", "a file with a secret"), ("srv", "database"), ("mnt", "a backup")):
            assert f"contains {words}" in found.problem(tmp_path / inside, "it").replace("the server's ", "")
        assert "contains" in found.problem(tmp_path, "it")
        assert "is in a file with a secret" in found.problem(tmp_path / "etc" / "seal_keys", "it")
        assert "is in the server's database" in found.problem(tmp_path / "srv" / "db.sqlite3-wal", "it")
        assert found.problem(tmp_path / "code", "it") == ""


def test_a_backup_is_known_until_it_is_gone_and_one_in_the_data_folder_need_not_be(
        admin: Any, settings: Any, tmp_path: Path, data_folder: Path) -> None:
    settings.CODE_ROOTS = (tmp_path / "mine",)
    (tmp_path / "mine").mkdir()
    (data_folder / "b.tar.gz").touch()
    note_backup(data_folder / "b.tar.gz")
    assert not (data_folder / "backups.txt").exists()
    for number in range(3):
        (tmp_path / "mine" / f"{number}\n.tar.gz").touch()
        note_backup(tmp_path / "mine" / f"{number}\n.tar.gz")
    assert "a backup" in nameable_folders(admin).problem(tmp_path / "mine", "it")
    for number in range(3):
        assert "a backup" in nameable_folders(admin).problem(tmp_path / "mine", "it")
        (tmp_path / "mine" / f"{number}\n.tar.gz").unlink()
    assert nameable_folders(admin).problem(tmp_path / "mine", "it") == ""


def test_what_is_hidden_in_the_servers_home_is_closed_unless_a_root_lies_there(
        admin: Any, alice: Any, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "id_ed25519").touch()
    (home / ".local" / "code").mkdir(parents=True)
    (home / "project" / ".git").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    settings.CODE_ROOTS = (home,)
    alice.names_folders = True
    for person in (admin, alice):
        found = nameable_folders(person)
        assert "which contains keys and settings" in found.problem(home / ".ssh", "it")
        assert "contains the home folder of the server's user" in found.problem(home, "it")
        assert "contains keys" in found.problem(home / ".local" / "code", "it")
        assert found.problem(home / "project", "it") == found.problem(home / "project" / ".git", "it") == ""
    # an administrator names a key to log in with; nobody else borrows the server's
    assert nameable_folders(admin).problem(home / ".ssh" / "id_ed25519", "it") == ""
    assert "contains keys" in nameable_folders(alice).problem(home / ".ssh" / "id_ed25519", "it")
    settings.CODE_ROOTS = (home, home / ".local" / "code")
    assert nameable_folders(alice).problem(home / ".local" / "code", "it") == ""
    assert "contains keys" in nameable_folders(alice).problem(home / ".local", "it")


def test_other_peoples_homes_are_closed_but_for_those_as_whom_the_person_runs_trials_and_roots_in_them(
        alice: Any, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    homes = tmp_path / "home"
    for name in ("ml-alice", "ml-bob", "program"):
        (homes / name / "code").mkdir(parents=True)
    users = [SimpleNamespace(pw_name=name, pw_uid=uid, pw_dir=str(homes / name))
             for name, uid in (("ml-alice", 20001), ("ml-bob", 20002), ("program", 120))]
    monkeypatch.setattr(homes_of_others.pwd, "getpwall", lambda: users)
    settings.CODE_ROOTS = (tmp_path,)
    alice.names_folders = True
    assert "the machine's user ml-bob" in nameable_folders(alice).problem(homes / "ml-bob" / "code", "it")
    assert "contains the home folder" in nameable_folders(alice).problem(homes, "it")
    assert nameable_folders(alice).problem(homes / "program" / "code", "it") == ""
    alice.local_users = "ml-alice"
    assert nameable_folders(alice).problem(homes / "ml-alice" / "code", "it") == ""
    assert "user ml-bob" in nameable_folders(alice).problem(homes / "ml-bob", "it")
    assert "user ml-bob" in nameable_folders(alice).problem(homes, "it")
    settings.CODE_ROOTS = (tmp_path, homes / "ml-bob" / "code")
    assert nameable_folders(alice).problem(homes / "ml-bob" / "code", "it") == ""
    assert "user ml-bob" in nameable_folders(alice).problem(homes / "ml-bob", "it")


def test_a_home_is_found_by_its_owner_where_the_machine_does_not_list_its_users(
        alice: Any, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ldap" / "code").mkdir(parents=True)
    user = SimpleNamespace(pw_name="of-ldap", pw_uid=os.geteuid() + 30000, pw_dir=str(tmp_path / "ldap"))
    monkeypatch.setattr(homes_of_others.pwd, "getpwall", list)
    real = pwd.getpwuid
    monkeypatch.setattr(homes_of_others.pwd, "getpwuid",
                        lambda uid: user if uid == (tmp_path / "ldap").stat().st_uid else real(uid))
    settings.CODE_ROOTS = (tmp_path,)
    alice.names_folders = True
    assert "user of-ldap" in nameable_folders(alice).problem(tmp_path / "ldap" / "code", "it")


def test_a_base_directory_that_becomes_a_link_after_it_was_checked_leads_nowhere(
        api: Any, roots: Path, code_folder: Path, data_folder: Path, config: str,
        monkeypatch: pytest.MonkeyPatch) -> None:
    from nniweb.api.experiments import launch_request

    inside = code_folder.rename(roots / "mine")
    (data_folder / "keys").mkdir()
    (data_folder / "keys" / "search_space.json").write_text("{}")
    real = launch_request._parse

    def swapped_before(*arguments: Any) -> Any:
        inside.rename(roots / "aside")
        inside.symlink_to(data_folder / "keys")
        try:
            return real(*arguments)
        finally:
            inside.unlink()
            (roots / "aside").rename(inside)

    monkeypatch.setattr(launch_request, "_parse", swapped_before)
    assert "NNIWEB_CODE_ROOTS" in refusal(api, config=config, base_directory=str(inside))


def test_who_does_not_have_the_right_names_none_below_any_root(as_user: Any, alice: Any, roots: Path,
                                                               code_folder: Path, config: str) -> None:
    inside = code_folder.rename(roots / "mine")
    assert "do not have the permission" in refusal(as_user(alice), config=config, base_directory=str(inside))


def test_whoever_has_the_right_names_folders_below_the_roots_and_no_others(
        as_user: Any, alice: Any, roots: Path, code_folder: Path, config: str, settings: Any,
        data_folder: Path) -> None:
    inside = code_folder.rename(roots / "mine")
    alice.names_folders, alice.local_users = True, "*"
    alice.save()
    assert refusal(as_user(alice), config=config, base_directory=str(inside)) == ""
    assert "NNIWEB_CODE_ROOTS" in refusal(as_user(alice), config=config, base_directory="/etc")
    assert "NNIWEB_CODE_ROOTS" in refusal(as_user(alice), config=f"{config}trialCodeDirectory: /etc\n",
                                          base_directory=str(inside))
    settings.CODE_ROOTS = (Path("/"),)
    assert "contains its keys" in refusal(as_user(alice), config=config, base_directory=str(data_folder))


def test_a_viewer_names_none_whatever_is_written_of_them(vera: Any) -> None:
    vera.names_folders = True
    assert not vera.may_name_folders


def test_administrators_give_the_right_over_rest_and_it_is_in_the_audit_log(api: Any, alice: Any) -> None:
    assert api.patch(f"/api/v1/users/{alice.pk}/", {"names_folders": True}).json()["names_folders"] is True
    alice.refresh_from_db()
    assert alice.may_name_folders
    assert AuditEntry.objects.filter(action="user.change", target=str(alice.pk), details__names_folders=True).exists()
