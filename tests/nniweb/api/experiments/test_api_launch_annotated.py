"""Launching code with annotations: its search space is shown, its copy has them carried out, the folder stays."""

import json
import tarfile
from pathlib import Path

import pytest

from nniweb.experiments.launch import code_archives
from nniweb.experiments.models import CodeArchive, Experiment
from tests.nniweb.api.experiments.test_api_clone import again, clone
from tests.nniweb.api.experiments.test_api_launch import refused, tar_of, upload
from tests.nniweb.config.test_config_annotation import GENERATED, TRAIN


@pytest.fixture
def annotated(config: str) -> str:
    return config.replace("searchSpaceFile: search_space.json", "useAnnotation: true")


@pytest.fixture
def folder(code_folder: Path) -> Path:
    (code_folder / "train.py").write_text(TRAIN)
    return code_folder


def kept_source(experiment: Experiment, name: str = "train.py") -> str:
    assert experiment.code is not None
    with tarfile.open(code_archives.local_path(experiment.code)) as archive:
        file = archive.extractfile(name)
        assert file is not None
        return file.read().decode()


def test_a_folder_on_the_server_is_copied_with_its_annotations_carried_out(api, annotated, folder) -> None:
    answer = api.post("/api/v1/experiments/", {"config": annotated, "base_directory": str(folder)})
    assert answer.status_code == 201, answer.content
    body = answer.json()
    assert body["search_space"] == GENERATED
    assert body["config"]["useAnnotation"] is True
    assert body["config"]["searchSpace"] == GENERATED
    assert body["code_folder"] == "", "trials never run in the folder itself"
    experiment = Experiment.objects.get()
    source = kept_source(experiment)
    assert "get_current_parameter" in source
    assert source.count("\n") == TRAIN.count("\n")
    assert (folder / "train.py").read_text() == TRAIN
    assert sorted(path.name for path in folder.iterdir()) == ["search_space.json", "train.py", "trial.py"]


def test_a_check_shows_the_search_space_and_how_much_is_packed(api, annotated, folder) -> None:
    body = api.post("/api/v1/experiments/check/", {"config": annotated, "base_directory": str(folder)}).json()
    assert (body["search_space"], body["parameters"]) == (GENERATED, list(GENERATED))
    assert body["code_size"]["file_count"] == 3
    assert any("the annotations give 2 parameters" in note for note in body["notes"])
    assert not CodeArchive.objects.exists()


def test_what_is_wrong_is_said_with_the_files_line_before_anything_is_created(api, annotated, folder) -> None:
    (folder / "train.py").write_text(TRAIN.replace("name=lr", "name=rate"))
    for way in ("", "check/"):
        [error] = refused(api.post(f"/api/v1/experiments/{way}", {"config": annotated, "base_directory": str(folder)}))
        assert (error["field"], error["line"]) == ("useAnnotation", 3)
        assert error["message"].startswith("train.py, line 3: the annotation is for rate")


def test_uploaded_code_is_rewritten_too(api, annotated) -> None:
    answer = upload(api, annotated + "trialCodeDirectory: src\n", tar_of(**{"src/train.py": TRAIN, "src/data": "1"}))
    assert answer.status_code == 201, answer.content
    assert answer.json()["search_space"] == GENERATED
    assert "get_current_parameter" in kept_source(Experiment.objects.get())


def test_what_is_wrong_in_uploaded_code_has_its_line(api, annotated) -> None:
    [error] = refused(upload(api, annotated, tar_of(**{"deep/train.py": "print 1\n" + TRAIN})))
    assert error["message"].startswith("deep/train.py, line 1: this is not valid in Python 3.")


def test_code_that_changes_while_it_is_read_is_refused(api, annotated, folder, monkeypatch) -> None:
    keep = code_archives.keep_annotated_folder

    def changed(code: Path, *more):
        (code / "train.py").write_text(TRAIN.replace("16, 32", "64"))
        return keep(code, *more)

    monkeypatch.setattr(code_archives, "keep_annotated_folder", changed)
    answer = api.post("/api/v1/experiments/", {"config": annotated, "base_directory": str(folder)})
    assert answer.status_code == 400
    assert not Experiment.objects.exists()
    [error] = answer.json()["errors"]
    assert error["message"].startswith("The annotations in the code were changed while it was read")


@pytest.mark.parametrize("is_uploaded", [False, True])
def test_it_is_launched_again_from_what_was_kept(api, annotated, folder, is_uploaded) -> None:
    first = (upload(api, annotated, tar_of(**{"train.py": TRAIN})) if is_uploaded else
             api.post("/api/v1/experiments/", {"config": annotated, "base_directory": str(folder)})).json()
    cloned = clone(api, first)
    assert (cloned["code_of"], cloned["base_directory"]) == (first["id"], "")
    assert any("carried out in the kept copy" in note for note in cloned["notes"])
    second = again(api, cloned)
    assert second.status_code == 201, second.content
    assert (second.json()["code_sha256"], second.json()["search_space"]) == (first["code_sha256"], GENERATED)


def test_it_is_launched_again_with_the_search_space_that_was_chosen_later(api, annotated, folder) -> None:
    first = api.post("/api/v1/experiments/", {"config": annotated, "base_directory": str(folder)}).json()
    narrower = {**GENERATED, "train/units/choice": {"_type": "choice", "_value": [16]}}
    api.patch(f"/api/v1/experiments/{first['id']}/", {"search_space": narrower})
    assert again(api, clone(api, first)).json()["search_space"] == narrower


def test_when_the_copy_is_gone_the_annotations_count_again(api, annotated, folder) -> None:
    from django.utils import timezone

    first = api.post("/api/v1/experiments/", {"config": annotated, "base_directory": str(folder)}).json()
    Experiment.objects.update(code=None, code_removed_at=timezone.now())
    cloned = clone(api, first)
    assert "useAnnotation: true" in cloned["config"]
    assert "searchSpace" not in cloned["config"]
    second = api.post("/api/v1/experiments/", {"config": cloned["config"], "base_directory": str(folder)})
    assert second.status_code == 201, second.content
    assert second.json()["search_space"] == GENERATED


def test_kept_code_that_still_has_its_annotations_is_rewritten(api, annotated, config, folder) -> None:
    plain = config + "  snapshotCode: true\n"
    first = api.post("/api/v1/experiments/", {"config": plain, "base_directory": str(folder)}).json()
    second = api.post("/api/v1/experiments/", {"config": annotated, "code_of": first["id"]})
    assert second.status_code == 201, second.content
    assert second.json()["search_space"] == GENERATED
    assert second.json()["code_sha256"] != first["code_sha256"]


def test_the_fields_of_a_config_file_have_it_too(api, folder) -> None:
    answer = api.post("/api/v1/experiments/", {
        "use_annotation": True, "trial_command": "true", "trial_concurrency": 1, "trial_code_directory": str(folder),
        "tuner": {"name": "Random"}, "training_service": {"platform": "local"}})
    assert answer.status_code == 201, answer.content
    assert answer.json()["search_space"] == GENERATED


def test_the_page_shows_the_generated_search_space(api, annotated, folder, client, ada) -> None:
    launched = api.post("/api/v1/experiments/", {"config": annotated, "base_directory": str(folder)}).json()
    client.force_login(ada)
    page = client.get(f"/experiments/{launched['id']}/config/").content.decode()
    assert "train/lr/loguniform" in page
    assert "useAnnotation: true" in page


def test_of_a_repository_the_search_space_follows_with_the_code(api, annotated) -> None:
    answer = api.post("/api/v1/experiments/", {"config": annotated, "git_url": "https://git.example/me/code.git"})
    assert answer.status_code == 201, answer.content
    body = answer.json()
    assert (body["search_space"], body["config"]["useAnnotation"]) == ({}, True)
    assert "useAnnotation: the search space is made when the code has been fetched." in body["notes"]
    cloned = clone(api, body)
    assert "useAnnotation: true" in cloned["config"]
    assert again(api, cloned).status_code == 201
    assert json.loads(json.dumps(cloned["git"]))["url"] == "https://git.example/me/code.git"
