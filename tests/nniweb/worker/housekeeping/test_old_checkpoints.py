"""Of a trial's checkpoints the last ones stay, and chunks stay as long as one of those needs them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.core.files.storage import default_storage
from django.utils import timezone

from nniweb.experiments.checkpoints.chunk_files import FOLDER
from nniweb.experiments.models import Attempt, Checkpoint, CheckpointChunk, Experiment, Trial
from nniweb.experiments.retention import checkpoint_removal
from nniweb.experiments.retention.disk_usage import measure
from nniweb.keeperapi.application import KeeperApplication
from nniweb.worker.housekeeping.upkeep import Upkeep
from tests.nniweb.keeperapi.test_checkpoint_calls import STARTED, report, retry_of, send
from trainingservice.testing.keeper_protocol import metric, saved

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def application() -> Any:
    application = KeeperApplication()
    yield application
    application.group_commit.close()


@pytest.fixture
def upkeep() -> Callable[[timedelta], Upkeep]:
    def make(later: timedelta = timedelta()) -> Upkeep:
        return Upkeep(now=lambda: timezone.now() + later, sleep=lambda seconds: None)

    return make


def save_some(application: KeeperApplication, attempt: Attempt, *contents: tuple[bytes, ...], first: int = 1,
              journal_id: str = "j1") -> list[str]:
    ids = []
    for k, content in enumerate(contents, first):
        ids.append(send(application, attempt, *content, name=f"step-{k}"))
        report(application, attempt, *([STARTED] if k == first else []), saved(k - first + 2, ids[-1], k=k, step=k),
               journal_id=journal_id)
    return ids


def files(experiment: Experiment, kind: str) -> set[str]:
    folder = f"{FOLDER}/{experiment.public_id}/{kind}"
    if kind == "manifests":
        return set(default_storage.listdir(folder)[1])
    parts = default_storage.listdir(folder)[0]
    return {name for part in parts for name in default_storage.listdir(f"{folder}/{part}")[1]}


def test_the_last_two_stay_with_the_chunks_that_they_share(application, make_attempt, upkeep) -> None:
    attempt = make_attempt()
    ids = save_some(application, attempt, (b"base", b"one"), (b"base", b"two"), (b"base", b"three"))
    assert upkeep().remove_old_checkpoints()
    assert set(Checkpoint.objects.values_list("manifest", flat=True)) == set(ids[1:])
    assert files(attempt.trial.experiment, "manifests") == set(ids[1:])
    assert CheckpointChunk.objects.count() == len(files(attempt.trial.experiment, "chunks")) == 3, "base, two, three"
    assert not upkeep().remove_old_checkpoints()


def test_a_transaction_removes_few_large_files_since_reports_wait_for_it(application, make_attempt, monkeypatch
                                                                          ) -> None:
    attempt = make_attempt()
    save_some(application, attempt, *[tuple(b"%d of %d" % (n, k) for n in range(9)) for k in range(3)])
    CheckpointChunk.objects.update(size=8 * 1024 * 1024)
    removed: list[str] = []
    after_each: list[int] = []
    monkeypatch.setattr(checkpoint_removal, "remove_file", removed.append)
    Upkeep(now=timezone.now, sleep=lambda seconds: after_each.append(len(removed))).remove_old_checkpoints()
    assert after_each == [4, 8, 9, 10], "four chunks of 8 MiB, four more, the last one, the manifest"
    assert CheckpointChunk.objects.count() == 18


def test_the_best_by_the_metric_stays_if_that_is_asked_for(application, make_attempt, make_experiment, upkeep) -> None:
    attempt = make_attempt(make_experiment(config={"checkpoints": {"keep": 1, "keepBest": True}}))
    report(application, attempt, STARTED)
    ids = []
    for k, value in enumerate(("0.9", "0.1", "0.5", "0.6")):  # minimized
        ids.append(send(application, attempt, value.encode(), name=f"step-{k}"))
        report(application, attempt, {**metric(2 * k + 2, value), "sequence": k})
        report(application, attempt, saved(2 * k + 3, ids[-1], k=k + 1, sequence=k + 1))
    upkeep().remove_old_checkpoints()
    assert set(Checkpoint.objects.values_list("manifest", flat=True)) == {ids[1], ids[3]}


def test_one_from_which_an_attempt_went_on_stays_in_the_history(application, make_attempt, make_experiment, upkeep
                                                                ) -> None:
    attempt = make_attempt(make_experiment(config={"checkpoints": {"keep": 1}}))
    [old] = save_some(application, attempt, (b"one",))
    again = retry_of(attempt)
    report(application, again, STARTED, {"n": 2, "at": 1.0, "type": "checkpoint", "event": "restored", "id": old,
                                         "k": 0, "name": "step-1", "step": 1, "size": 3}, journal_id="j2")
    new = send(application, again, b"two")
    report(application, again, saved(3, new), journal_id="j2")
    upkeep().remove_old_checkpoints()
    again.refresh_from_db()
    assert again.resumed_from.manifest == old
    assert again.resumed_from.removed_at is not None
    assert files(attempt.trial.experiment, "manifests") == {new}
    assert CheckpointChunk.objects.count() == 1
    assert not upkeep().remove_old_checkpoints()


def test_what_became_no_checkpoint_goes_after_a_day(application, make_attempt, upkeep) -> None:
    attempt = make_attempt()
    send(application, attempt, b"never confirmed")
    for later, left in ((timedelta(hours=23), 1), (timedelta(hours=25), 0)):
        Experiment.objects.update(look_after_at=None)
        work = upkeep(later)
        work.look()
        work.remove_old_checkpoints()
        Experiment.objects.update(look_after_at=None)
        work.look()
        assert (Checkpoint.objects.count(), CheckpointChunk.objects.count()) == (left, left)
    assert files(attempt.trial.experiment, "chunks") == set()


def test_retention_of_files_removes_those_of_ended_trials(application, make_attempt, make_experiment, upkeep) -> None:
    attempt = make_attempt(make_experiment(retention={"files": 3}))
    save_some(application, attempt, (b"one",))
    Attempt.objects.update(stage="ended", end_received_at=timezone.now())
    Trial.objects.update(status="SUCCEEDED", ended_at=timezone.now())
    for later, left in ((timedelta(days=2), 1), (timedelta(days=4), 0)):
        Experiment.objects.update(look_after_at=None)
        work = upkeep(later)
        work.look()
        work.remove_old_checkpoints()
        assert Checkpoint.objects.count() == left


@pytest.mark.parametrize("tuner", ["Hyperband", "BOHB", "ASHA", "PBT"])
def test_those_that_a_trial_may_yet_continue_stay_until_the_experiment_has_ended(
        application, make_attempt, make_experiment, upkeep, tuner: str) -> None:
    attempt = make_attempt(make_experiment(retention={"files": 3}, tuner={"name": tuner}, status="RUNNING"))
    save_some(application, attempt, (b"one",))
    Attempt.objects.update(stage="ended", end_received_at=timezone.now())
    Trial.objects.update(status="SUCCEEDED", ended_at=timezone.now())
    for status, left in (("RUNNING", 1), ("TUNER_NO_MORE_TRIAL", 1), ("DONE", 0)):
        Experiment.objects.update(look_after_at=None, status=status)
        work = upkeep(timedelta(days=4))
        work.look()
        work.remove_old_checkpoints()
        assert Checkpoint.objects.count() == left, status
        assert Trial.objects.get().files_removed_at is not None


def test_a_deleted_experiment_takes_all_of_them_with_it(application, make_attempt, upkeep) -> None:
    attempt = make_attempt()
    experiment = attempt.trial.experiment
    save_some(application, attempt, (b"one", b"two"), (b"three",))
    Experiment.objects.filter(pk=experiment.pk).update(deleted_at=timezone.now(), look_after_at=None)
    upkeep().look()
    assert (Checkpoint.objects.count(), CheckpointChunk.objects.count(), Trial.objects.count()) == (0, 0, 0)
    assert not default_storage.exists(f"{FOLDER}/{experiment.public_id}")


def test_disk_usage_counts_chunks_once(application, make_attempt) -> None:
    attempt = make_attempt()
    save_some(application, attempt, (b"base", b"one"), (b"base", b"two"))
    experiment = attempt.trial.experiment
    measure(experiment, timezone.now(), lambda seconds: None)
    assert experiment.disk_usage.checkpoints_bytes == len(b"base" + b"one" + b"two")
