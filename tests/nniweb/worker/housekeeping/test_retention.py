"""What retention removes and what it leaves, looked at with a clock that the test holds."""

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from nniweb.experiments.actions import intents
from nniweb.experiments.actions.change_and_undo import change, undo_change
from nniweb.experiments.errors import Refused
from nniweb.experiments.launch import code_archives
from nniweb.experiments.models import (
    Attempt,
    Cluster,
    CodeArchive,
    Experiment,
    Metric,
    ResourceReading,
    Trial,
    TrialFile,
    TrialOutput,
)
from nniweb.experiments.retention import removal
from nniweb.experiments.retention.policy import NOTHING_THERE
from nniweb.worker.housekeeping.keep_to_retention import due_trials
from nniweb.worker.housekeeping.upkeep import Upkeep, due_experiments

NOW = datetime(2030, 6, 1, tzinfo=timezone.get_default_timezone())


class Clock:
    """What time it is, for the upkeep and for the rows that a test makes."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now

    def pass_days(self, days: float) -> None:
        self.now += timedelta(days=days)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def upkeep(clock: Clock) -> Upkeep:
    return Upkeep(now=clock, sleep=lambda seconds: None)


@pytest.fixture
def make_trial(make_experiment: Callable[..., Experiment], clock: Clock) -> Callable[..., Trial]:
    """A trial that ended just now, with output, two intermediate results and a final one, a reading, a kept file."""

    def make(experiment: Experiment, size: int = 100, **fields: Any) -> Trial:
        number = Trial.objects.filter(experiment=experiment).count()
        trial = Trial.objects.create(**{
            "experiment": experiment, "sequence_id": number, "status": "SUCCEEDED", "taught": True,
            "final_value": "0.5", "final_number": 0.5, "intermediate_count": 2, "created_at": clock.now,
            "ended_at": clock.now, **fields})
        attempt = Attempt.objects.create(trial=trial, job_name=trial.public_id, created_at=clock.now,
                                         stage="ended" if trial.ended_at else "submitted", ended_at=trial.ended_at,
                                         end_received_at=trial.ended_at)
        for n, kind in enumerate(("PERIODICAL", "PERIODICAL", "FINAL")):
            Metric.objects.create(attempt=attempt, n=n, kind=kind, sequence=n, value="0.5", number=0.5,
                                  recorded_at=clock.now, received_at=clock.now)
        TrialOutput.objects.create(attempt=attempt, stream="stdout", offset=0, data=b"x" * size)
        ResourceReading.objects.create(attempt=attempt, at=clock.now, data={"cpu_percent": 1.0})
        path = f"trials/{attempt.job_name}/model"
        default_storage.save(path, ContentFile(b"weights"))
        TrialFile.objects.create(attempt=attempt, name="model.pt", size=7, storage_path=path)
        return trial

    return make


def kept(trial: Trial) -> dict[str, int]:
    of = {"attempt__trial": trial}
    return {"output": TrialOutput.objects.filter(**of).count(),
            "intermediate": Metric.objects.filter(**of, kind="PERIODICAL").count(),
            "final": Metric.objects.filter(**of, kind="FINAL").count(),
            "readings": ResourceReading.objects.filter(**of).count(), "files": TrialFile.objects.filter(**of).count()}


ALL = {"output": 1, "intermediate": 2, "final": 1, "readings": 1, "files": 1}


def file_of(trial: Trial) -> Path:
    return Path(default_storage.path(f"trials/{trial.public_id}/model"))


def test_each_kind_goes_after_its_own_days_and_results_stay(
        upkeep: Upkeep, clock: Clock, make_experiment: Callable[..., Experiment], make_trial: Callable[..., Trial]
        ) -> None:
    trial = make_trial(make_experiment(retention={"output": 3, "readings": 10, "files": 20}))
    left = dict(ALL)
    for days, gone in ((2, ()), (2, ("output",)), (7, ("intermediate", "readings")), (10, ("files",))):
        clock.pass_days(days)
        assert upkeep.look()
        left |= dict.fromkeys(gone, 0)
        assert kept(trial) == left
        assert file_of(trial).exists() == bool(left["files"])
    assert not file_of(trial).parent.exists()
    trial.refresh_from_db()
    assert (trial.status, trial.final_number, trial.intermediate_count) == ("SUCCEEDED", 0.5, 2)
    assert trial.output_removed_at == NOW + timedelta(days=4)
    said = list(trial.experiment.events.filter(kind="retention").order_by("pk").values_list("message", flat=True))
    assert [text.partition(" ")[0] for text in said] == ["Output", "Intermediate", "Kept"]
    assert said[0] == "Output of 1 trial (0.0 MB) removed after 3 days."


def test_nothing_goes_unless_it_is_asked_for(
        upkeep: Upkeep, clock: Clock, make_experiment: Callable[..., Experiment], make_trial: Callable[..., Trial]
        ) -> None:
    trial = make_trial(make_experiment())
    clock.pass_days(10_000)
    assert upkeep.look()
    assert kept(trial) == ALL


def test_the_servers_days_hold_where_the_experiment_says_nothing_and_forever_overrules_them(
        upkeep: Upkeep, clock: Clock, make_experiment: Callable[..., Experiment], make_trial: Callable[..., Trial],
        monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(settings.KEEP_DAYS, "output", 5)
    usual, longer = make_trial(make_experiment()), make_trial(make_experiment(retention={"output": "forever"}))
    clock.pass_days(6)
    while upkeep.look():
        pass
    assert kept(usual)["output"] == 0
    assert kept(longer) == ALL


def test_what_has_not_ended_is_left_alone_and_so_is_what_a_keeper_may_still_send(
        upkeep: Upkeep, clock: Clock, make_experiment: Callable[..., Experiment], make_trial: Callable[..., Trial]
        ) -> None:
    experiment = make_experiment(retention={"output": 1, "readings": 1, "files": 1})
    running = make_trial(experiment, status="RUNNING", ended_at=None)
    late = make_trial(experiment)
    clock.pass_days(40)
    # the server was away: it heard of the end just now
    Attempt.objects.filter(trial=late).update(end_received_at=clock.now)
    assert upkeep.look()
    assert (kept(running), kept(late)) == (ALL, ALL)
    clock.pass_days(2)
    assert upkeep.look()
    assert kept(running) == ALL
    assert kept(late) == {**dict.fromkeys(ALL, 0), "final": 1}


def test_an_assessors_results_stay_until_its_experiment_has_ended(
        upkeep: Upkeep, clock: Clock, make_experiment: Callable[..., Experiment], make_trial: Callable[..., Trial]
        ) -> None:
    experiment = make_experiment(retention={"readings": 1}, assessor={"name": "Medianstop"})
    trial = make_trial(experiment)
    clock.pass_days(3)
    assert upkeep.look()
    assert kept(trial) == ALL
    Experiment.objects.update(status="DONE", ended_at=clock.now)
    clock.pass_days(1)
    assert upkeep.look()
    assert kept(trial)["intermediate"] == 0


def test_a_trial_that_had_nothing_is_looked_at_once_and_not_said_to_have_lost_anything(
        upkeep: Upkeep, clock: Clock, make_experiment: Callable[..., Experiment], make_trial: Callable[..., Trial]
        ) -> None:
    experiment = make_experiment(retention={"output": 1})
    trial = make_trial(experiment)
    TrialOutput.objects.all().delete()
    clock.pass_days(2)
    assert upkeep.look()
    trial.refresh_from_db()
    assert trial.output_removed_at == NOTHING_THERE
    assert not due_trials(experiment, "output", clock.now, 1).exists()
    assert not experiment.events.filter(kind="retention").exists()


def test_it_stops_after_any_transaction_and_goes_on_from_there(
        clock: Clock, make_experiment: Callable[..., Experiment], make_trial: Callable[..., Trial],
        monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(removal, "FEWEST_ROWS", 1)
    monkeypatch.setattr(removal, "MOST_ROWS", 1)
    experiment = make_experiment(retention={"output": 1, "readings": 1, "files": 1})
    trials = [make_trial(experiment) for _ in range(3)]
    clock.pass_days(2)
    before = None
    for _ in range(40):
        upkeep = Upkeep(now=clock, sleep=_Killed())  # as after a KILL: nothing is remembered
        upkeep.pace.rows = 1
        Experiment.objects.update(look_after_at=None)
        try:
            upkeep.look()
            break
        except KilledHere:
            now = sum(sum(kept(trial).values()) for trial in trials)
            assert before is None or now <= before
            before = now
    assert [kept(trial) for trial in trials] == [{**dict.fromkeys(ALL, 0), "final": 1}] * 3
    assert not any(file_of(trial).exists() for trial in trials)
    assert not Trial.objects.filter(output_removed_at=NOTHING_THERE).exists()


class KilledHere(BaseException):
    """In place of the KILL that ends a process between two transactions."""


class _Killed:
    def __call__(self, seconds: float) -> None:
        raise KilledHere


def test_what_is_left_to_look_at_is_found_by_an_index(make_experiment: Callable[..., Experiment], clock: Clock) -> None:
    experiment = make_experiment(look_after_at=clock.now)
    never, again = due_experiments(clock.now)
    assert (list(never), list(again)) == ([], [experiment])
    if connection.vendor == "sqlite":
        for kind in ("output", "readings", "files"):
            assert f"INDEX trials_with_{kind} " in due_trials(experiment, kind, clock.now, 3).explain()
        for due in (never, again):
            assert "INDEX experiments_to_look_after (cluster_id=? AND look_after_at" in due.explain()


def test_where_nothing_is_due_a_look_asks_two_questions_of_that_index(
        upkeep: Upkeep, make_experiment: Callable[..., Experiment], clock: Clock) -> None:
    make_experiment(look_after_at=clock.now + timedelta(seconds=1))
    with CaptureQueriesContext(connection) as asked:
        assert not upkeep.look()
    assert len(asked) == 2
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            for query in asked:
                cursor.execute(f"EXPLAIN QUERY PLAN {query['sql']}")
                assert "INDEX experiments_to_look_after (cluster_id=? AND look_after_at" in str(cursor.fetchall())
    clock.now += timedelta(seconds=1)
    assert upkeep.look()


def test_code_of_an_ended_experiment_goes_and_then_it_cannot_go_on(
        upkeep: Upkeep, clock: Clock, make_experiment: Callable[..., Experiment], tmp_path: Path) -> None:
    (tmp_path / "trial.py").write_text("print(1)")
    archive = code_archives.keep_folder(tmp_path, clock.now)
    ended = make_experiment(retention={"code": 5}, status="STOPPED", ended_at=clock.now, code=archive)
    other = make_experiment(retention={"code": 5}, status="RUNNING", code=archive)
    clock.pass_days(6)
    while upkeep.look():
        pass
    ended.refresh_from_db()
    other.refresh_from_db()
    assert (ended.code, ended.code_removed_at, other.code) == (None, clock.now, archive)
    assert code_archives.remove_unused(clock.now + timedelta(days=9)) == 0  # the other one has it
    with pytest.raises(Refused, match="copy of the experiment's code was removed by retention on 2030-06-07, 6 days"):
        intents.resume(ended)
    Experiment.objects.filter(pk=ended.pk).update(status="DONE", next_sequence_id=10)
    with pytest.raises(Refused, match="Clone the experiment"):
        change(ended, {"max_trial_number": 20})
    change(ended, {"description": "of last spring"})
    Experiment.objects.filter(pk=other.pk).update(status="STOPPED", ended_at=clock.now)
    clock.pass_days(6)
    while upkeep.look():
        pass
    assert code_archives.remove_unused(clock.now + timedelta(days=2)) == 1
    assert not CodeArchive.objects.exists()


def test_checkpoints_go_when_their_experiment_has_ended_and_no_trial_waits(
        upkeep: Upkeep, clock: Clock, make_experiment: Callable[..., Experiment], make_trial: Callable[..., Trial]
        ) -> None:
    experiment = make_experiment(retention={"files": 5})
    folder = Path(settings.DATA_FOLDER) / "checkpoints" / experiment.public_id
    folder.mkdir(parents=True)
    (folder / "0").write_text("weights")
    waiting = make_trial(experiment, status="WAITING", ended_at=None)
    clock.pass_days(6)
    assert upkeep.look()
    assert folder.exists()
    Experiment.objects.update(status="ERROR", ended_at=clock.now - timedelta(days=6))  # its trials end by themselves
    clock.pass_days(1)
    assert upkeep.look()
    assert folder.exists()
    Trial.objects.filter(pk=waiting.pk).update(status="FAILED", ended_at=clock.now)
    clock.pass_days(1.5)
    assert upkeep.look()
    assert not folder.exists()
    experiment.refresh_from_db()
    with pytest.raises(Refused, match="checkpoints that its trials continue from were removed"):
        intents.resume(experiment)


def test_another_retention_counts_at_once_and_can_be_undone(
        upkeep: Upkeep, clock: Clock, make_experiment: Callable[..., Experiment], make_trial: Callable[..., Trial]
        ) -> None:
    experiment = make_experiment(status="DONE", ended_at=clock.now)
    trial = make_trial(experiment)
    clock.pass_days(3)
    assert upkeep.look()
    assert not upkeep.look()
    change(experiment, {"retention": {"output": 5}})
    undo_change(experiment, 1)
    change(experiment, {"retention": {"output": 2}})
    assert upkeep.look()
    assert kept(trial) == {**ALL, "output": 0}


def test_experiments_of_clusters_on_other_hosts_are_left_to_workers_there(
        upkeep: Upkeep, make_experiment: Callable[..., Experiment]) -> None:
    make_experiment(retention={"output": 1})
    Cluster.objects.update(pinned_host="elsewhere")
    assert not upkeep.look()


def test_the_rows_of_a_deleted_experiment_go_in_pieces_and_its_own_stays_for_the_platform(
        clock: Clock, make_experiment: Callable[..., Experiment], make_trial: Callable[..., Trial],
        monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(removal, "FEWEST_ROWS", 2)
    monkeypatch.setattr(removal, "MOST_ROWS", 2)
    experiment, other = make_experiment(status="DONE", ended_at=clock.now), make_experiment()
    trials = [make_trial(experiment) for _ in range(3)]
    stays = make_trial(other)
    intents.delete(experiment)
    for _ in range(200):
        upkeep = Upkeep(now=clock, sleep=_Killed())
        Experiment.objects.filter(pk=experiment.pk).update(look_after_at=None)
        try:
            upkeep.look()
        except KilledHere:
            continue
        if Experiment.objects.get(pk=experiment.pk).rows_removed_at is not None:
            break
    assert list(Trial.objects.all()) == [stays]
    assert kept(stays) == ALL
    assert not any(file_of(trial).exists() for trial in trials)
    assert not experiment.events.exists()
