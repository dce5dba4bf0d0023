"""What rounds record for traces: each trial has a trace of its own, with what was done for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from nniweb.experiments.models import Attempt, Trial
from tests.nniweb.worker.conftest import Rig, end, report
from tests.recorded_spans import RecordedSpans, attributes_of, ids_of, recorded
from trainingservice.errors import PermanentError
from trainingservice.testing.misbehaving import DocileTrainingService


@pytest.fixture
def spans() -> Iterator[RecordedSpans]:
    with recorded() as spans:
        yield spans


def ended_trial(rig: Rig, **fields: object) -> Trial:
    """The first trial of an experiment that goes on, of which the tuner was told."""
    experiment = rig.experiment(max_trial_number=2, trial_concurrency=1, **fields)
    [trial] = rig.submitted(experiment, 1)
    report(trial, 0.5, 0.25)
    end(rig, trial)
    rig.until(lambda: Trial.objects.get(pk=trial.pk).taught)
    trial.refresh_from_db()
    return trial


def test_a_trial_is_one_trace_from_its_submission_until_the_tuner_is_told(rig: Rig, spans: RecordedSpans) -> None:
    trial = ended_trial(rig)
    rig.until(lambda: spans.named("tell"))

    [whole] = spans.named("trial")
    assert whole.parent is None
    assert attributes_of(whole) == {
        "nniweb.experiment.id": trial.experiment.public_id, "nniweb.trial.id": trial.public_id,
        "nniweb.platform": rig.cluster.platform, "nniweb.outcome": "SUCCEEDED", "nniweb.attempts": 1}
    trial_trace, whole_id = ids_of(whole)
    for name in ("submit", "wait", "run", "tell"):
        span = spans.named(name)[0]  # the next trial is on its way
        assert ids_of(span)[0] == trial_trace, name
        assert span.parent is not None
        assert span.parent.span_id == whole_id, name
        found = attributes_of(span)
        assert found["nniweb.trial.id"] == trial.public_id, name
        assert found["nniweb.experiment.id"] == trial.experiment.public_id, name
        assert found["nniweb.platform"] == rig.cluster.platform, name
        assert span.status.is_ok or span.status.is_unset
    assert trial.ended_at is not None
    assert whole.start_time == int(trial.created_at.timestamp() * 1e6) * 1000
    # a trial machine whose clock is decades behind (it says 0) ends no trial before it was made
    assert trial.ended_at < trial.created_at
    assert whole.end_time == whole.start_time


def test_rounds_with_something_to_do_are_traces_of_their_own(rig: Rig, spans: RecordedSpans) -> None:
    rig.rounds(2)
    assert spans.named("round") == []
    ended_trial(rig)
    rounds = spans.named("round")
    assert rounds
    for span in rounds:
        assert span.parent is None
        assert attributes_of(span) == {"nniweb.cluster": rig.cluster.pk, "nniweb.platform": rig.cluster.platform,
                                       "nniweb.experiments": 1}
    assert len({ids_of(span)[0] for span in rounds}) == len(rounds)


class Refusing(DocileTrainingService):
    """Refuses each job with a sentence that quotes a password."""

    def submit_trial_job(self, form):  # type: ignore[no-untyped-def]
        raise PermanentError("The platform says: password hunter2 is wrong.")


def test_a_refused_submission_is_an_error_without_the_words_of_the_platform(make_rig, spans: RecordedSpans  # type: ignore[no-untyped-def]
                                                                           ) -> None:
    rig = make_rig(Refusing)
    experiment = rig.experiment(max_trial_number=1, trial_concurrency=1)
    rig.until(lambda: Trial.objects.filter(experiment=experiment, status="FAILED", taught=True).exists())
    [span] = spans.named("submit")
    assert not span.status.is_ok
    assert attributes_of(span)["error.type"] == "PermanentError"
    assert "hunter2" not in "".join(each.to_json() for each in spans.all())
    assert all(not each.events for each in spans.all())


def test_texts_of_people_are_in_no_span(rig: Rig, spans: RecordedSpans) -> None:
    words = {"name": "Experiment of Ada", "description": "a secret plan", "tags": ["for Bob"],
             "trial_command": "python train.py --key s3cr3t",
             "search_space": {"learning rate": {"_type": "choice", "_value": ["fast one"]}}}
    trial = ended_trial(rig, **words)
    rig.until(lambda: spans.named("tell"))
    said = "".join(span.to_json() for span in spans.all())
    for word in ("Ada", "secret", "train.py", "Bob", "learning rate", "fast one", "0.25"):
        assert word not in said
    assert trial.public_id in said
    assert Attempt.objects.get(trial=trial).job_name in said
