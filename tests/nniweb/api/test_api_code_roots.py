"""Which folders of the server may be named in a request."""

from pathlib import Path
from typing import Any

import pytest

from nniweb.experiments.models import AuditEntry


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
    assert "holds its keys" in refusal(api, config=config, base_directory=str(data_folder / "keys"))


def test_who_does_not_have_the_right_names_none_below_any_root(as_user: Any, alice: Any, roots: Path,
                                                               code_folder: Path, config: str) -> None:
    inside = code_folder.rename(roots / "mine")
    assert "a right that you do not have" in refusal(as_user(alice), config=config, base_directory=str(inside))


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
    assert "holds its keys" in refusal(as_user(alice), config=config, base_directory=str(data_folder))


def test_a_viewer_names_none_whatever_is_written_of_them(vera: Any) -> None:
    vera.names_folders = True
    assert not vera.may_name_folders


def test_administrators_give_the_right_over_rest_and_it_is_in_the_audit_log(api: Any, alice: Any) -> None:
    assert api.patch(f"/api/v1/users/{alice.pk}/", {"names_folders": True}).json()["names_folders"] is True
    alice.refresh_from_db()
    assert alice.may_name_folders
    assert AuditEntry.objects.filter(action="user.change", target=str(alice.pk), details__names_folders=True).exists()
