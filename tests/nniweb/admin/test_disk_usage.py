"""What takes room: measured by the worker, shown to administrators without looking at a file."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from nniweb.experiments.actions import intents
from nniweb.experiments.models import (
    Attempt,
    DiskUsage,
    Experiment,
    FolderUsage,
    Metric,
    Trial,
    TrialFile,
    TrialOutput,
)
from nniweb.experiments.retention.disk_usage import measure, measure_data_folder
from nniweb.worker.housekeeping.upkeep import Upkeep


def no_rest(seconds: float) -> None:
    """No time is to be left to others here."""


@pytest.fixture
def measured(make_attempt: Callable[..., Attempt]) -> Experiment:
    """An experiment of one trial with 10 metrics, 5,000 bytes of output and a kept file of 70."""
    attempt = make_attempt()
    now = timezone.now()
    Metric.objects.bulk_create(Metric(attempt=attempt, n=n, kind="PERIODICAL", sequence=n, value="0.5",
                                      recorded_at=now, received_at=now) for n in range(10))
    TrialOutput.objects.create(attempt=attempt, stream="stdout", offset=0, data=b"x" * 5000)
    TrialFile.objects.create(attempt=attempt, name="m", size=70, storage_path="trials/m")
    return attempt.trial.experiment


def test_upkeep_measures_an_experiment_and_again_when_it_has_changed(measured: Experiment) -> None:
    now = timezone.now()
    upkeep = Upkeep(now=lambda: now, sleep=no_rest)
    assert upkeep.look()
    usage = DiskUsage.objects.get()
    assert (usage.trials, usage.files_bytes, usage.code_bytes, usage.checkpoints_bytes) == (1, 70, 0, 0)
    assert usage.rows >= 13
    assert 5000 < usage.output_bytes < 5500
    assert 1900 < usage.rows_bytes < 10_000
    assert usage.total_bytes == usage.rows_bytes + usage.output_bytes + 70
    TrialOutput.objects.all().delete()
    now += timedelta(hours=2)
    assert upkeep.look()
    usage.refresh_from_db()
    assert usage.output_bytes > 5000, "nothing says that it has changed"
    Experiment.objects.update(changed_at=now)
    now += timedelta(hours=2)
    assert upkeep.look()
    usage.refresh_from_db()
    assert usage.output_bytes == 0


def test_the_data_folder_is_added_up_by_parts(db: None, settings: Any, tmp_path: Path) -> None:
    settings.DATA_FOLDER = tmp_path
    for path, size in (("files/code/a.tar.gz", 50_000), ("files/trials/t/x", 9_000), ("nniweb.sqlite3", 100_000),
                       ("clusters/c/trials/t/out", 20_000), ("keys/secret_key", 50)):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(b"x" * size)
    (tmp_path / "clusters/c/loop").symlink_to(tmp_path)
    measure_data_folder("box", timezone.now(), no_rest)
    found = {row.part: (row.bytes, row.files) for row in FolderUsage.objects.filter(host="box")}
    assert found["code"][0] >= 50_000
    assert found["trial folders"][0] >= 20_000
    assert found["database"][0] >= 100_000
    assert {part: files for part, (_, files) in found.items()} == {
        "code": 1, "kept files": 1, "checkpoints": 0, "trial folders": 2, "database": 1, "other": 1}


def test_administrators_see_it_sorted_and_with_what_is_being_removed(
        browser: Any, measured: Experiment, make_experiment: Callable[..., Experiment]) -> None:
    small = make_experiment(name="small", status="DONE", retention={"output": 30})
    for experiment in (measured, small):
        measure(experiment, timezone.now(), no_rest)
    measure_data_folder("box", timezone.now(), no_rest)
    intents.delete(small)
    Experiment.objects.filter(pk=small.pk).update(cleanup_tries=1, message="What it left cannot be removed yet: away")
    page = browser.get("/admin/experiments/diskusage/").content.decode()
    assert f"/experiments/{measured.public_id}/config/" in page
    assert page.index("quadratic</a>") < page.index(f"small ({small.public_id}, deleted)")
    assert "What it left cannot be removed yet: away" in page
    assert str(settings.DATA_FOLDER) in page
    assert "In the data folder on box" in page
    for column in range(1, 13):
        assert browser.get(f"/admin/experiments/diskusage/?o={column}").status_code == 200
    answer = browser.get("/api/v1/disk-usage/").json()["results"]
    assert [one["name"] for one in answer] == ["quadratic", "small"]
    assert answer[1]["days_kept"] == {"output": 30, "readings": None, "files": None, "code": None}
    assert browser.get("/api/v1/disk-usage/?order=total").json()["results"][0]["name"] == "small"
    folder = browser.get("/api/v1/disk-usage/data-folder/").json()
    assert folder["database"] > 0
    assert folder["disk_free"] > 0
    assert [host["host"] for host in folder["hosts"]] == ["box"]


def test_a_thousand_experiments_take_a_fixed_number_of_questions(browser: Any, make_experiment: Any) -> None:
    one = make_experiment()
    now = timezone.now()
    Experiment.objects.bulk_create(Experiment(
        name=f"number {number}", owner=one.owner, cluster=one.cluster, seed=1, search_space={},
        tuner={"name": "Random"}, optimize_mode="minimize", trial_command="true", trial_concurrency=1, created_at=now)
        for number in range(300))
    DiskUsage.objects.bulk_create(DiskUsage(experiment=experiment, measured_at=now, total_bytes=experiment.pk)
                                  for experiment in Experiment.objects.all())
    browser.get("/admin/experiments/diskusage/")
    with CaptureQueriesContext(connection) as asked:
        assert browser.get("/admin/experiments/diskusage/").status_code == 200
    assert len(asked) <= 10
    assert not Trial.objects.exists()
