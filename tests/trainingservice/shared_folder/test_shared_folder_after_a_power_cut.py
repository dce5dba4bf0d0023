"""What lies on a shared storage is flushed before a job counts on it; what a power cut left empty is written again."""

import json
import os
from pathlib import Path

import pytest

from trainingservice.shared_folder.folder import SharedFolder
from trainingservice.submit_host.disk import LocalDisk
from trainingservice.trial_job import HyperParameters, JobApplicationForm, KeeperAccess, TrialCode
from trialkeeper import contract


@pytest.fixture
def storage(tmp_path: Path) -> SharedFolder:
    (tmp_path / "mount").mkdir()
    (tmp_path / "scratch").mkdir()
    return SharedFolder(tmp_path / "mount", "/mnt", tmp_path / "scratch" / "code")


@pytest.fixture
def form(tmp_path: Path) -> JobApplicationForm:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "trial.py").write_text("print('hello')\n")
    return JobApplicationForm("jobaaaaaaaaa", "trialaaaaaaa", "expaaaaaaaaa", 0, HyperParameters("{}"), "true",
                              KeeperAccess(urls=(), token=""), code=TrialCode(folder=tmp_path / "code"))


def test_a_keeper_that_a_power_cut_left_empty_is_put_there_again(storage: SharedFolder, tmp_path: Path) -> None:
    path = tmp_path / "mount" / Path(storage.put_keeper()).relative_to("/mnt")
    whole = path.read_bytes()
    path.write_bytes(b"")
    storage.put_keeper()
    assert path.read_bytes() == whole


def test_a_job_and_code_that_a_power_cut_left_empty_are_put_there_again(storage: SharedFolder,
                                                                        form: JobApplicationForm) -> None:
    folder = storage.put_job(form, "slurm", code_from_server=False)
    job = folder / contract.JOB_FILE
    whole = job.read_bytes()
    [archive] = (storage.experiment(form.experiment_id) / "code").iterdir()
    packed = archive.read_bytes()
    job.write_bytes(b"")
    archive.write_bytes(b"")
    storage.put_job(form, "slurm", code_from_server=False)
    assert job.read_bytes() == whole
    assert archive.read_bytes() == packed
    job.write_text(json.dumps({"command": "another"}))
    storage.put_job(form, "slurm", code_from_server=False)
    assert json.loads(job.read_text()) == {"command": "another"}, "one that can be read stays as it is"


def test_a_job_is_flushed_and_an_acknowledgement_costs_no_flush(storage: SharedFolder, form: JobApplicationForm,
                                                                monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: list[int] = []
    fsync = os.fsync

    def watched(descriptor: int) -> None:
        fsync(descriptor)
        flushed.append(os.fstat(descriptor).st_ino)

    monkeypatch.setattr(os, "fsync", watched)
    folder = storage.put_job(form, "slurm", code_from_server=False)
    assert {(folder / contract.JOB_FILE).stat().st_ino, folder.stat().st_ino} <= set(flushed)
    flushed.clear()
    LocalDisk().put(folder / contract.ACCEPTED_FILE, b"7", 0o600)
    assert flushed == []
