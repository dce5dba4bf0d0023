"""The timeline: rows by machine and GPU, waits with their reasons, and what is drawn as one."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from nniweb.experiments.charts import timeline as timeline_module
from nniweb.experiments.charts.timeline import Timeline, timeline_of
from nniweb.experiments.models import Attempt, Experiment, Machine, Trial

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
Adder = Callable[..., Trial]


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


@pytest.fixture
def experiment(db: None, make_experiment: Callable[..., Experiment]) -> Experiment:
    return make_experiment(created_at=at(-1000), started_at=at(-1000), trial_concurrency=1)


@pytest.fixture
def add(experiment: Experiment) -> Adder:
    """Adds a trial that waited from ``since`` and ran from ``begin`` to ``end``, in seconds from now."""

    def made(begin: float | None, end: float | None = None, *, since: float | None = None, status: str = "SUCCEEDED",
             machine: str = "box", gpus: list[int] | None = None, **fields: Any) -> Trial:
        created = at(begin if since is None and begin is not None else since or 0)
        times = {"started_at": None if begin is None else at(begin), "ended_at": None if end is None else at(end)}
        trial = Trial.objects.create(experiment=experiment, sequence_id=experiment.trials.count(), status=status,
                                     created_at=created, **times, **fields)
        if begin is not None:
            Attempt.objects.create(trial=trial, job_name=trial.public_id, created_at=at(begin - 2),
                                   submitted_at=at(begin - 1), machine_name=machine, gpu_indices=gpus, **times)
        return trial

    return made


def rows(timeline: Timeline) -> list[tuple[str, int | None, int, list[int]]]:
    return [(row.machine, row.gpu, row.lane, [bar.first.sequence_id for bar in row.bars]) for row in timeline.rows]


def test_trials_at_the_same_time_have_slots_of_their_own(experiment: Experiment, add: Adder) -> None:
    add(-100, -50)
    add(-90, -80)
    add(-70, None, status="RUNNING")
    add(-40, -10)
    experiment.trial_concurrency = 3
    assert rows(timeline_of(experiment, NOW, width=1000)) == [
        ("box", None, 0, [0, 3]), ("box", None, 1, [1, 2]), ("box", None, 2, [])]


def test_gpus_have_rows_also_those_that_idle(experiment: Experiment, add: Adder) -> None:
    Machine.objects.create(cluster=experiment.cluster, name="box-10", gpu_summary=[{"index": 0}])
    Machine.objects.create(cluster=experiment.cluster, name="box-9", gpu_summary=[{"index": 0}, {"index": 1}])
    add(-100, -50, machine="box-9", gpus=[0, 1])
    add(-40, -20, machine="box-9", gpus=[1])
    found = timeline_of(experiment, NOW, width=1000, begin=at(-100).timestamp(), end=NOW.timestamp())
    assert rows(found) == [("box-9", 0, 0, [0]), ("box-9", 1, 0, [0, 1]), ("box-10", 0, 0, [])]
    assert [round(row.busy, 2) for row in found.rows] == [0.5, 0.7, 0.0]


def test_waits_say_what_they_were_for(experiment: Experiment, add: Adder) -> None:
    add(-50, -10, since=-100)
    add(None, since=-30, status="WAITING", message="The trial waits for a free slot.")
    [[past, present]] = timeline_of(experiment, NOW, width=1000).waits
    assert past.reason == "48.0 s for a free slot, 1.0 s to be submitted, 1.0 s for the platform"
    assert (present.end, present.reason) == (None, "The trial waits for a free slot.")


def test_an_attempt_before_the_last_one_has_failed(experiment: Experiment, add: Adder) -> None:
    trial = add(-100, -60)
    Attempt.objects.create(trial=trial, number=2, job_name="again", created_at=at(-60), started_at=at(-50),
                           ended_at=at(-10), machine_name="box")
    [row] = timeline_of(experiment, NOW, width=1000).rows
    assert [(bar.first.attempt, bar.status) for bar in row.bars] == [(1, "FAILED"), (2, "SUCCEEDED")]


def test_what_cannot_be_told_apart_is_drawn_as_one_until_the_window_is_smaller(experiment: Experiment,
                                                                               add: Adder) -> None:
    for number in range(100):
        add(-1000 + number * 10, -1000 + number * 10 + 9.5, status="FAILED" if number % 10 == 0 else "SUCCEEDED")
    whole = timeline_of(experiment, NOW, width=100)
    [row] = whole.rows
    assert len(row.bars) < 20
    assert sum(bar.count for bar in row.bars) == 100
    assert whole.merged >= 90
    assert sum(bar.statuses["FAILED"] for bar in row.bars) == 10
    part = timeline_of(experiment, NOW, width=100, begin=at(-500).timestamp(), end=at(-480.2).timestamp())
    assert (part.merged, part.rows[0].runs) == (0, 2)
    assert part.extent == whole.extent


def test_without_any_trial_there_is_nothing_to_draw(experiment: Experiment) -> None:
    found = timeline_of(experiment, NOW, width=1000)
    assert (found.rows, found.waits, found.extent) == ([], [], (at(-1000).timestamp(), NOW.timestamp()))


def test_of_very_many_rows_and_waits_the_first_are_drawn_and_the_others_counted(
        experiment: Experiment, add: Adder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline_module, "MOST_ROWS", 3)
    monkeypatch.setattr(timeline_module, "MOST_WAITS", 2)
    for machine in ("a", "b"):
        for _ in range(4):
            add(-50, -10, since=-100, machine=machine)
    add(None, since=-30, status="WAITING", message="The trial waits for a free slot.")
    found = timeline_of(experiment, NOW, width=1000)
    assert [(row.machine, row.lane) for row in found.rows] == [("a", 0), ("a", 1), ("a", 2)]
    assert (found.rows_left_out, found.waits_left_out) == (5, 7)
    assert [wait.sequence_id for lane in found.waits for wait in lane] == [0, 8], "what waits now is among them"


def test_of_waits_that_began_together_those_that_go_on_are_drawn_first(
        experiment: Experiment, add: Adder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline_module, "MOST_WAITS", 3)
    for begin in (-50, -60, -70):
        add(begin, -10, since=-100)
    for _ in range(2):
        add(None, since=-100, status="WAITING", message="The trial waits for a free slot.")
    found = timeline_of(experiment, NOW, width=1000)
    assert sorted(wait.sequence_id for lane in found.waits for wait in lane) == [0, 3, 4]
    assert found.waits_left_out == 2


@pytest.mark.parametrize(("begin", "window"), [(5, (-100, 10)), (-50, (100, 200)), (-50, (100, None))])
def test_what_has_not_begun_or_is_to_come_is_not_busy(experiment: Experiment, add: Adder, begin: float,
                                                      window: tuple[float, float | None]) -> None:
    """Clocks differ, and a window may be of any time."""
    add(begin, None, status="RUNNING")
    first, last = window
    found = timeline_of(experiment, NOW, width=1000, begin=at(first).timestamp(),
                        end=None if last is None else at(last).timestamp())
    assert [row.busy for row in found.rows] == [0.0]


def test_a_trial_that_comes_while_it_is_read_is_drawn_the_next_time(experiment: Experiment, add: Adder,
                                                                    monkeypatch: pytest.MonkeyPatch) -> None:
    """Not as one that ran nobody knows where."""
    add(-100, -50)
    real = timeline_module.trial_ids

    def then_one_comes(*args: Any, **more: Any) -> dict[str, Any]:
        found = real(*args, **more)
        add(-40, None, status="RUNNING")
        return found

    monkeypatch.setattr(timeline_module, "trial_ids", then_one_comes)
    assert rows(timeline_of(experiment, NOW, width=1000)) == [("box", None, 0, [0])]
    monkeypatch.undo()
    assert rows(timeline_of(experiment, NOW, width=1000)) == [("box", None, 0, [0, 1])]
