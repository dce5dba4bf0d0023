"""Launching trials whose roles have code of their own, from folders, uploads and repositories, and again as clones."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from nniweb.client.code_upload import prepare
from nniweb.experiments.launch import code_archives
from nniweb.experiments.models import CodeArchive, Experiment
from tests.fakes.kubernetes.api import KubernetesApiDouble
from tests.fakes.kubernetes.kubeflow import KUBEFLOW_KINDS, kubeflow_controllers
from tests.nniweb.api.experiments.test_api_clone import again, clone
from tests.nniweb.api.experiments.test_api_launch import SPACE, refused, tar_of, upload
from tests.nniweb.api.experiments.test_api_launch_from_git import launch as launch_from_git

FILES = {"learn/train.py": "print('worker')", "serve/serve.py": "print('ps')", "serve/.nniignore": "*.bin\n",
         "serve/large.bin": "0" * 1000, "notes.txt": "of nobody"}
KEPT = ["ps/.nniignore", "ps/serve.py", "worker/train.py"]


@pytest.fixture
def cluster(tmp_path: Path):
    with KubernetesApiDouble(tmp_path / "cluster", controllers=kubeflow_controllers(), kinds=KUBEFLOW_KINDS) as cluster:
        yield cluster


@pytest.fixture
def text(cluster: KubernetesApiDouble) -> str:
    return f"""experimentName: roles
searchSpace: {SPACE}
trialConcurrency: 1
tuner: {{name: TPE, classArgs: {{optimize_mode: maximize}}}}
trainingService:
  platform: kubeflow
  operator: tf-operator
  kubeconfig: {cluster.kubeconfig}
  nniManagerIp: 127.0.0.1
  worker:
    dockerImage: example/trial:1
    command: python3 train.py
    codeDirectory: learn
  ps:
    dockerImage: example/trial:1
    command: python3 serve.py
    codeDirectory: serve
"""


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    folder = tmp_path / "sources"
    for name, content in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    return folder


def kept() -> list[str]:
    """The files of the only archive."""
    with tarfile.open(code_archives.local_path(CodeArchive.objects.get())) as archive:
        return sorted(member.name for member in archive if member.isreg())


def folders_of(experiment: dict) -> tuple[str, str]:
    section = experiment["config"].get("trainingService") or experiment["config"]["trialOptions"]
    return section["worker"]["codeDirectory"], section["ps"]["codeDirectory"]


def test_folders_of_the_server_are_packed_each_below_its_roles_name(api, text, sources) -> None:
    body = {"config": text, "base_directory": str(sources)}
    checked = api.post("/api/v1/experiments/check/", body).json()
    assert checked["code_size"]["file_count"] == 3
    assert checked["code_folders"] == {"worker": str(sources / "learn"), "ps": str(sources / "serve")}
    said = [finding["message"] for finding in checked["findings"] if finding["check"] == "command"]
    assert said == ["Role worker: The command runs train.py, which is in the code.",
                    "Role ps: The command runs serve.py, which is in the code."]
    launched = api.post("/api/v1/experiments/", body).json()
    assert kept() == KEPT
    assert folders_of(launched) == (str(sources / "learn"), str(sources / "serve"))
    second = again(api, clone(api, launched))
    assert second.status_code == 201, second.content
    assert folders_of(second.json()) == ("worker", "ps")
    assert second.json()["code_sha256"] == launched["code_sha256"]


def test_a_script_is_looked_for_in_the_folder_of_its_role(api, text, sources) -> None:
    body = {"config": text.replace("serve.py", "train.py"), "base_directory": str(sources)}
    checked = api.post("/api/v1/experiments/check/", body).json()
    [missing] = [finding["message"] for finding in checked["findings"] if not finding["ok"]]
    assert missing == ("Role ps: The command runs train.py, which is not in the code. Add it, or correct the role's "
                       "command.")


def test_uploaded_folders_are_found_again_in_a_clone(api, text) -> None:
    launched = upload(api, text, tar_of(**FILES))
    assert launched.status_code == 201, launched.content
    assert kept() == KEPT
    assert folders_of(launched.json()) == ("worker", "ps")
    cloned = clone(api, launched.json())
    assert "codeDirectory: worker" in cloned["config"]
    second = again(api, cloned)
    assert second.status_code == 201, second.content
    assert (second.json()["code_sha256"], kept()) == (launched.json()["code_sha256"], KEPT)


def test_what_the_client_sends_of_a_file_comes_to_the_same_code(api, text, sources) -> None:
    (sources / "away").mkdir()
    prepared = prepare(text.replace("learn", "../learn").replace("serve\n", "../serve\n"), sources / "away")
    packed = io.BytesIO()
    prepared.write(packed)
    launched = upload(api, prepared.config, packed.getvalue())
    assert launched.status_code == 201, launched.content
    assert kept() == KEPT
    assert launched.json()["code_folders"] == {"worker": "worker", "ps": "ps"}


def test_the_page_shows_the_folders_of_the_roles(api, text, sources, admin, client) -> None:
    launched = api.post("/api/v1/experiments/", {"config": text, "base_directory": str(sources)}).json()
    assert launched["code_folders"] == {"worker": str(sources / "learn"), "ps": str(sources / "serve")}
    client.force_login(admin)
    page = client.get(f"/experiments/{launched['id']}/config/").content.decode()
    assert f"worker: <code>{sources / 'learn'}</code>" in page
    assert f"ps: <code>{sources / 'serve'}</code>" in page


def test_a_folder_outside_of_what_was_uploaded_is_an_error_at_its_role(api, text, sources) -> None:
    [error] = refused(upload(api, text.replace("codeDirectory: serve", f"codeDirectory: {sources}/serve"),
                             tar_of(**FILES)))
    assert error["field"] == "trainingService.ps.codeDirectory"
    assert "names a folder on the server" in error["message"]


@pytest.mark.parametrize("folder", ["leak", "leak/in", "serve/up"])
def test_no_link_leads_a_role_out_of_what_was_uploaded(api, text, tmp_path, folder) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, content in FILES.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content.encode()))
        for name, goal in (("leak", str(tmp_path)), ("serve/up", "../..")):
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, goal
            archive.addfile(link)
    errors = refused(upload(api, text.replace("codeDirectory: serve", f"codeDirectory: {folder}"), packed.getvalue()))
    assert errors[0]["field"] in ("trainingService.ps.codeDirectory", "code")
    assert not Experiment.objects.exists()


@pytest.mark.parametrize("folder", ["..", "../learn", "learn/../..", "./serve/../../x", "learn/..//../etc"])
def test_a_folder_above_what_was_uploaded_is_an_error_at_its_role(api, text, folder) -> None:
    [error] = refused(upload(api, text.replace("codeDirectory: serve", f"codeDirectory: {folder}"), tar_of(**FILES)))
    assert error["field"] == "trainingService.ps.codeDirectory"
    [error] = refused(launch_from_git(api, text.replace("codeDirectory: serve", f"codeDirectory: {folder}")))
    assert error["field"] == "trainingService.ps.codeDirectory"


def test_a_person_who_may_not_name_folders_names_none_for_a_role(as_user, alice, text, sources) -> None:
    answer = upload(as_user(alice), text.replace("codeDirectory: serve", f"codeDirectory: {sources}/serve"),
                    tar_of(**FILES))
    assert answer.status_code in (400, 403), answer.content
    assert not Experiment.objects.exists()


def test_what_cannot_be_packed_is_said_at_its_role(api, text, sources) -> None:
    (sources / "serve" / "away").symlink_to("/etc")
    [error] = refused(api.post("/api/v1/experiments/", {"config": text, "base_directory": str(sources)}))
    assert error["field"] == "trainingService.ps.codeDirectory"
    assert "points out of the code folder" in error["message"]


def test_folders_of_a_repository_are_noted_relative_to_it(api, text) -> None:
    answer = launch_from_git(api, text, git_folder="deep")
    assert answer.status_code == 201, answer.content
    assert answer.json()["code_git"]["folder"] == "deep"
    assert folders_of(answer.json()) == ("learn", "serve")
    second = again(api, clone(api, answer.json()))
    assert second.status_code == 201, second.content
    assert folders_of(second.json()) == ("learn", "serve")
    assert second.json()["code_git"] == answer.json()["code_git"]


def test_an_archive_that_was_damaged_is_packed_again_from_all_folders(api, text, sources) -> None:
    api.post("/api/v1/experiments/", {"config": text, "base_directory": str(sources)})
    archive = CodeArchive.objects.get()
    code_archives.local_path(archive).write_bytes(b"")
    assert code_archives.local_path(archive).stat().st_size == archive.size
    assert kept() == KEPT
