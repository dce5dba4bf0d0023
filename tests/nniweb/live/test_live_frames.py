"""What frames hold: what changed since a revision, no more than a frame carries, only what a person may see."""

from base64 import b64decode
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.utils import timezone

from nniweb.experiments.actions import intents
from nniweb.experiments.models import (
    Attempt,
    Cluster,
    Experiment,
    Metric,
    ResourceReading,
    Trial,
    TrialFile,
    TrialOutput,
    User,
    Worker,
)
from nniweb.experiments.pubsub.revisions import next_revision
from nniweb.live import frames

Make = Callable[..., Experiment]
MakeAttempt = Callable[..., Attempt]


def add_metric(attempt: Attempt, n: int, revision: int) -> None:
    now = timezone.now()
    Metric.objects.create(attempt=attempt, n=n, kind="PERIODICAL", sequence=n, value=str(n), number=n,
                          recorded_at=now, received_at=now, revision=revision)


def test_a_frame_holds_the_experiment_and_the_trials_changed_since(make_experiment: Make,
                                                                   make_attempt: MakeAttempt) -> None:
    experiment = make_experiment()
    old, new = make_attempt(experiment, revision=1), make_attempt(experiment, revision=2)
    Experiment.objects.filter(pk=experiment.pk).update(revision=2)
    frame = frames.experiment_frame(experiment.pk, 1)
    assert frame is not None
    assert (frame["revision"], frame["since"], frame["complete"]) == (2, 1, True)
    assert frame["experiment"]["progress"]["trials"]["WAITING"] == 2
    assert [trial["id"] for trial in frame["trials"]] == [new.trial.public_id]
    everything = frames.experiment_frame(experiment.pk, 0)
    assert everything is not None
    assert [trial["id"] for trial in everything["trials"]] == [old.trial.public_id, new.trial.public_id]


def test_a_frame_that_would_carry_too_much_says_so_and_carries_none(make_experiment: Make) -> None:
    experiment = make_experiment(revision=1)
    Trial.objects.bulk_create(Trial(experiment=experiment, sequence_id=number, created_at=timezone.now(), revision=1)
                              for number in range(frames.MOST_TRIALS + 1))
    frame = frames.experiment_frame(experiment.pk, 0)
    assert frame is not None
    assert (frame["complete"], frame["trials"], frame["revision"]) == (False, [], 1)


def test_of_a_deleted_experiment_and_its_trials_there_is_no_frame(make_attempt: MakeAttempt) -> None:
    attempt = make_attempt()
    Experiment.objects.update(deleted_at=timezone.now())
    assert frames.experiment_frame(attempt.trial.experiment_id, 0) is None
    assert frames.trial_frame(attempt.trial_id, 0) is None


def test_a_trial_frame_holds_the_metrics_and_the_bytes_since(make_attempt: MakeAttempt) -> None:
    attempt = make_attempt(revision=3)
    Experiment.objects.update(revision=3)
    add_metric(attempt, 1, revision=2)
    add_metric(attempt, 2, revision=3)
    umlaut = "ü".encode()
    TrialOutput.objects.create(attempt=attempt, stream="stdout", offset=0, data=umlaut[:1], revision=2)
    TrialOutput.objects.create(attempt=attempt, stream="stdout", offset=1, data=umlaut[1:], revision=3)
    frame = frames.trial_frame(attempt.trial_id, 2)
    assert frame is not None
    assert [metric["sequence"] for metric in frame["metrics"]] == [2]
    [piece] = frame["output"]
    assert (piece["attempt"], piece["stream"], piece["offset"]) == (1, "stdout", 1)
    assert b64decode(piece["base64"]) == umlaut[1:], "a part of a character stays what it is"


@pytest.mark.parametrize("kind", ["metrics", "output"])
def test_a_trial_frame_with_too_much_says_so(make_attempt: MakeAttempt, kind: str) -> None:
    attempt = make_attempt(revision=1)
    Experiment.objects.update(revision=1)
    now = timezone.now()
    if kind == "metrics":
        Metric.objects.bulk_create(Metric(attempt=attempt, n=n, kind="PERIODICAL", sequence=n, value="1", number=1,
                                          recorded_at=now, received_at=now, revision=1)
                                   for n in range(frames.MOST_METRICS + 1))
    else:
        size = 64 * 1024
        TrialOutput.objects.bulk_create(
            TrialOutput(attempt=attempt, stream="stdout", offset=number * size, data=b"x" * size, revision=1)
            for number in range(frames.MOST_OUTPUT // size + 1))
    frame = frames.trial_frame(attempt.trial_id, 0)
    assert frame is not None
    assert (frame["complete"], frame["metrics"], frame["output"]) == (False, [], [])


def test_the_list_shows_a_person_only_what_they_may_see(make_experiment: Make) -> None:
    member = User.objects.create_user("mia")
    own, other = make_experiment(owner=member), make_experiment()
    frame = frames.list_frame(member, [own.pk, other.pk], {own.public_id})
    assert ([row["id"] for row in frame["experiments"]], frame["gone"]) == ([own.public_id], [])
    assert frames.may_watch_experiment(member, other.public_id) is None
    assert frames.may_watch_experiment(member, own.public_id) == (own.pk, (own.owner_id, own.group_id))


def test_a_list_is_told_what_changed_since_it_was_made(make_experiment: Make, admin: User) -> None:
    same, changed, gone = make_experiment(revision=1), make_experiment(revision=2), make_experiment(revision=1)
    Experiment.objects.filter(pk=gone.pk).update(deleted_at=timezone.now())
    shown = {experiment.public_id: 1 for experiment in (same, changed, gone)}
    assert frames.changed_since(admin, {**shown, "never": 1}) == ({changed.pk}, {gone.public_id, "never"})
    assert frames.list_frame(admin, [gone.pk], set(shown))["gone"] == [gone.public_id]
    assert frames.list_frame(admin, [gone.pk], ())["gone"] == [], "whoever did not see it is not told that it was there"


def test_why_nothing_runs_is_said_where_no_worker_is(make_experiment: Make) -> None:
    experiment = make_experiment(revision=1)

    def message() -> str:
        frame = frames.experiment_frame(experiment.pk, 0)
        assert frame is not None
        return str(frame["experiment"]["message"])

    assert "No worker is alive" in message()
    now = timezone.now()
    Worker.objects.create(id="w", host="here", pid=1, started_at=now, heard_at=now + timedelta(hours=1))
    assert message() == ""
    Cluster.objects.update(pinned_host="there")
    assert "The worker on host there is not running" in message()
    Cluster.objects.update(lease_holder="other", lease_expires_at=now + timedelta(hours=1))
    assert message() == "", "its lease is held"
    intents.pause(experiment)
    assert "No new trial is started" in message()
    Worker.objects.all().delete()
    Experiment.objects.update(status="DONE", message="All done.")
    assert message() == "All done."


def test_revisions_of_what_is_gone_are_not_known(make_experiment: Make) -> None:
    kept, gone = make_experiment(), make_experiment()
    revision = next_revision(kept.pk)
    Experiment.objects.filter(pk=gone.pk).update(deleted_at=timezone.now())
    assert frames.revisions_of([kept.pk, gone.pk]) == {kept.pk: revision}
    assert revision > 0


def test_a_trial_frame_says_what_to_do_what_was_read_last_and_which_files_were_kept(make_attempt: MakeAttempt) -> None:
    attempt = make_attempt(status="FAILED", revision=1)
    Attempt.objects.filter(pk=attempt.pk).update(stage=Attempt.Stage.ENDED, end_reason="exited")
    before = frames.beats_of([attempt.trial_id])
    frame = frames.trial_frame(attempt.trial_id, 0)
    assert frame is not None
    assert (frame["reading"], frame["files"], frame["next"]) == (None, [], None)
    later = make_attempt(attempt.trial.experiment).trial
    assert frame["advice"][0]["look_at"] == "output"
    now = timezone.now()
    ResourceReading.objects.create(attempt=attempt, at=now - timedelta(seconds=10), data={"cpu_percent": 1.0})
    with_reading = frames.beats_of([attempt.trial_id])
    ResourceReading.objects.create(attempt=attempt, at=now, data={"cpu_percent": 50.0, "gpus": [{"index": 0}]})
    TrialFile.objects.create(attempt=attempt, name="model.pt", size=3, storage_path="x")
    frame = frames.trial_frame(attempt.trial_id, 1)
    assert frame is not None
    assert (frame["reading"]["attempt"], frame["reading"]["at"], frame["reading"]["cpu_percent"]) == (1, now, 50.0)
    assert frame["next"] == later.public_id
    assert frame["reading"]["gpus"] == [{"index": 0, "utilization": None, "memory_bytes": None,
                                         "own_bytes": None}]
    assert [file["name"] for file in frame["files"]] == ["model.pt"]
    seen = [before, with_reading, frames.beats_of([attempt.trial_id])]
    assert len({beats[attempt.trial_id] for beats in seen}) == 3, "each is told from the others"


@pytest.mark.parametrize("change", [
    {"health": "bad"}, {"enabled": False}, {"message": "gone"}, {"rehearsed_at": timezone.now()}, {"name": "other"}])
def test_what_a_page_shows_of_a_cluster_changes_its_state(make_experiment: Make, change: dict[str, object]) -> None:
    cluster = make_experiment().cluster
    before = frames.state_of_clusters()
    assert frames.state_of_clusters() == before
    Cluster.objects.filter(pk=cluster.pk).update(**change)
    assert frames.state_of_clusters() != before
