"""A file's sharedStorage on platforms that mount nothing for it: the check says what to write instead."""

import pytest
import yaml

from nniweb.experiments.models import Experiment

SHARE = {"storageType": "NFS", "localMountPoint": "/mnt/share", "remoteMountPoint": "/mnt/there",
         "localMounted": "usermount", "nfsServer": "files", "exportedDirectory": "/export"}


@pytest.fixture
def sections(tmp_path) -> dict[str, dict]:
    mounted = tmp_path / "mounted"  # apart from the server's own folders
    mounted.mkdir()
    return {
        "openpai": {"platform": "openpai", "host": "http://127.0.0.1:9", "username": "ann", "token": "t",
                    "storageConfigName": "shared", "localStorageMountPoint": str(mounted),
                    "containerStorageMountPoint": "/mnt/home"},
        "dlts": {"platform": "dlts", "dashboard": "http://127.0.0.1:9", "team": "vision", "email": "ann@lab.example",
                 "password": "0" * 32, "localStorageMountPoint": str(mounted)},
    }


def check(client, config: str, section: dict, share: dict, folder) -> tuple[int, list[dict]]:
    document = {**yaml.safe_load(config), "trainingService": section, "sharedStorage": share,
                "nniManagerIp": "192.0.2.7"}
    answer = client.post("/api/v1/experiments/check/", {"config": yaml.safe_dump(document),
                                                        "base_directory": str(folder)})
    return answer.status_code, answer.json().get("errors", [])


@pytest.mark.parametrize(("platform", "words"), [
    ("openpai", "storages: {lab-nfs: /mnt/there}"), ("dlts", "below /home/ann or /data")])
def test_a_share_that_jobs_would_not_have_is_refused_with_what_to_write(api, config, code_folder, sections, platform,
                                                                       words) -> None:
    status, [error] = check(api, config, sections[platform], SHARE, code_folder)
    assert (status, error["field"]) == (400, "sharedStorage")
    assert "/mnt/there" in error["message"]
    assert words in error["message"]
    assert not Experiment.objects.exists()


@pytest.mark.parametrize(("platform", "more", "path"), [
    ("openpai", {"storages": {"lab-nfs": "/mnt/there"}}, "/mnt/there"), ("openpai", {}, "/mnt/home/checkpoints"),
    ("dlts", {}, "/data/share"), ("dlts", {}, "/home/ann/share")])
def test_a_share_that_the_platform_mounts_is_taken(api, config, code_folder, sections, platform, more, path) -> None:
    _, errors = check(api, config, sections[platform] | more, SHARE | {"remoteMountPoint": path}, code_folder)
    assert [error for error in errors if error["field"] == "sharedStorage"] == []
