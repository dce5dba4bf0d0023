"""Following an experiment on a terminal: every step is taken by the test, no clock runs."""

import io
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from django.utils import timezone

from nniweb.client import CannotReach, following
from nniweb.client.words import readable_seconds
from nniweb.experiments.lifecycle.reason_columns import failed_because
from nniweb.experiments.models import Experiment, Trial, TrialParameters, Worker
from nniweb.management.following import Follower


class Stage:
    """A stream and a clock. Each wait of the follower plays the next scene, or lets half a second pass."""

    def __init__(self, *scenes: Callable[[], None]) -> None:
        self.out = io.StringIO()
        self.time = 0.0
        self._scenes: Iterator[Callable[[], None]] = iter(scenes)

    def wait(self, seconds: float) -> None:
        self.time += seconds
        assert self.time < 100, "the follower does not come to an end"
        next(self._scenes, lambda: None)()

    def follow(self, experiment: Experiment) -> int:
        return Follower(experiment, self.out, monotonic=lambda: self.time, wait=self.wait).follow()


@pytest.fixture
def worker(db) -> Worker:
    return Worker.objects.create(id="w", host="box", pid=1, started_at=timezone.now(),
                                 heard_at=timezone.now() + timedelta(hours=1))


def ends(experiment: Experiment, status: str, message: str = "") -> Callable[[], None]:
    def scene() -> None:
        Experiment.objects.filter(pk=experiment.pk).update(status=status, message=message,
                                                           revision=experiment.revision + 1)
    return scene


def test_done_is_status_0_and_shows_the_best_trial_with_its_parameters(make_experiment, worker) -> None:
    experiment = make_experiment()
    trial = Trial.objects.create(experiment=experiment, sequence_id=3, status="SUCCEEDED", final_number=0.25,
                                 final_value="0.25", created_at=timezone.now())
    TrialParameters.objects.create(trial=trial, value={"x": 0.5, "name": "é"})
    stage = Stage(ends(experiment, "DONE"))
    assert stage.follow(experiment) == 0
    text = stage.out.getvalue()
    assert "1/10 ended (1 succeeded)  best 0.25" in text
    assert f"Best trial: 3 ({trial.public_id}), final value 0.25" in text
    assert "  x = 0.5" in text


def test_an_error_is_status_1_and_says_why(make_experiment, worker) -> None:
    experiment = make_experiment()
    stage = Stage(ends(experiment, "ERROR", "The tuner raised KeyError."))
    assert stage.follow(experiment) == 1
    assert "The tuner raised KeyError." in stage.out.getvalue()
    assert "No trial reported a result." in stage.out.getvalue()


def test_done_is_status_1_where_every_trial_failed_and_says_so(make_experiment, worker) -> None:
    experiment = make_experiment(max_trial_number=2)
    for number in range(2):
        Trial.objects.create(experiment=experiment, sequence_id=number, status="FAILED", created_at=timezone.now(),
                             **failed_because("The command ended with exit code 2."))
    stage = Stage(ends(experiment, "DONE"))
    assert stage.follow(experiment) == 1
    assert ("2 of 2 trials failed.\n  2 trials, the first is 0: The command ended with exit code 2.\n"
            ) in stage.out.getvalue()


def test_causes_of_failures_are_told_the_most_frequent_first(make_experiment, worker) -> None:
    experiment = make_experiment(max_trial_number=6)
    for number, why in enumerate(["b", "a", "a", "c", "d", "e"]):
        Trial.objects.create(experiment=experiment, sequence_id=number, status="FAILED", created_at=timezone.now(),
                             **failed_because(f"It failed: {why}."))
    stage = Stage(ends(experiment, "DONE"))
    assert stage.follow(experiment) == 1
    assert ("  2 trials, the first is 1: It failed: a.\n  trial 0: It failed: b.\n  trial 3: It failed: c.\n"
            "  and 2 more causes; the experiment's page shows them.\n") in stage.out.getvalue()


def test_done_is_status_0_where_only_some_trials_failed(make_experiment, worker) -> None:
    experiment = make_experiment(max_trial_number=2)
    Trial.objects.create(experiment=experiment, sequence_id=0, status="FAILED", created_at=timezone.now())
    Trial.objects.create(experiment=experiment, sequence_id=1, status="SUCCEEDED", final_number=0.25,
                         final_value="0.25", created_at=timezone.now())
    stage = Stage(ends(experiment, "DONE"))
    assert stage.follow(experiment) == 0
    assert "1 of 2 trials failed." in stage.out.getvalue()


def test_stopped_by_somebody_is_status_3(make_experiment, worker) -> None:
    experiment = make_experiment()
    assert Stage(ends(experiment, "STOPPED")).follow(experiment) == 3


def test_deleted_by_somebody_is_status_3(make_experiment, worker) -> None:
    experiment = make_experiment()
    stage = Stage(lambda: Experiment.objects.update(deleted_at=timezone.now()))
    assert stage.follow(experiment) == 3
    assert "deleted" in stage.out.getvalue()


def test_no_worker_for_15_seconds_is_status_2_and_says_how_to_start_one(make_experiment) -> None:
    stage = Stage()
    assert stage.follow(make_experiment()) == 2
    assert 15 <= stage.time <= 16
    assert "python manage.py worker" in stage.out.getvalue()


def test_a_worker_that_comes_in_time_is_waited_for(make_experiment) -> None:
    experiment = make_experiment()

    def worker_comes() -> None:
        Worker.objects.create(id="w", host="box", pid=1, started_at=timezone.now(),
                              heard_at=timezone.now() + timedelta(hours=1))

    nothing = [lambda: None] * 20
    stage = Stage(*nothing, worker_comes, *nothing, *nothing, ends(experiment, "DONE"))
    assert stage.follow(experiment) == 0


def test_as_long_as_nothing_changes_only_one_row_is_looked_at(make_experiment, worker, django_assert_max_num_queries
                                                              ) -> None:
    experiment = make_experiment()
    stage = Stage(*[lambda: None] * 50, ends(experiment, "DONE"))
    with django_assert_max_num_queries(51 * 2 + 12):  # the experiment's row, and whether a worker is alive
        stage.follow(experiment)


def test_on_no_terminal_lines_are_whole_and_few(make_experiment, worker) -> None:
    experiment = make_experiment()

    def changes() -> None:
        experiment.refresh_from_db()
        Experiment.objects.filter(pk=experiment.pk).update(revision=experiment.revision + 1)

    stage = Stage(*[changes] * 30, ends(experiment, "DONE"))
    stage.follow(experiment)
    text = stage.out.getvalue()
    assert "\r" not in text
    assert 3 <= text.count("ended") <= 6


def test_on_a_terminal_one_line_is_written_over(make_experiment, worker) -> None:
    experiment = make_experiment()
    stage = Stage(ends(experiment, "DONE"))
    stage.out.isatty = lambda: True  # type: ignore[method-assign]
    stage.follow(experiment)
    text = stage.out.getvalue()
    assert text.count("\r") == 2
    assert "[" + "." * 30 + "]" in text
    assert "[" + "#" * 30 + "]" in text


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0 s"), (59, "59 s"), (95, "1 min 35 s"), (3600, "1 h"),
                                               (90_061, "1 d 1 h")])
def test_times_are_readable(seconds: float, text: str) -> None:
    assert readable_seconds(seconds) == text


class Elsewhere:
    """An experiment of a server that is away at some looks."""

    look_every = 1.0
    how_to_start = ""

    def __init__(self, *looks: str | None) -> None:
        self._looks = list(looks)

    def look(self) -> tuple[object, str]:
        found = self._looks.pop(0) if len(self._looks) > 1 else self._looks[0]
        if found is None:
            raise CannotReach("https://x cannot be reached: Connection refused.")
        return len(self._looks), found

    def document(self) -> dict[str, object]:
        progress = {"trials": {}, "fraction": None, "best_value": None, "eta": None, "ended": 0}
        return {"status": "RUNNING", "message": "", "max_trial_number": None, "progress": progress}

    def best_trial(self) -> None:
        return None

    def somebody_works(self) -> bool:
        return True


def follow_elsewhere(*looks: str | None) -> tuple[int, str, float]:
    out, time = io.StringIO(), [0.0]

    def wait(seconds: float) -> None:
        time[0] += seconds

    status = following.Follower(Elsewhere(*looks), out, monotonic=lambda: time[0], wait=wait).follow()
    return status, out.getvalue(), time[0]


def test_a_server_that_is_away_for_a_while_is_waited_for() -> None:
    status, text, _ = follow_elsewhere("RUNNING", *[None] * 300, "RUNNING", *[None] * 400, "DONE")
    assert status == 0
    assert text.count("cannot be reached: Connection refused. The client tries again for 10 min.") == 2
    assert text.count("The server answers again.") == 1


def test_after_ten_minutes_without_the_server_it_is_not_known_what_became_and_the_status_is_4() -> None:
    status, text, time = follow_elsewhere("RUNNING", None)
    assert status == 4
    assert 600 <= time < 605
    assert "is not known. It may continue" in text
