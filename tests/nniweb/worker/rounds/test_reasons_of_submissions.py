"""Why a trial was not taken by its platform: the code that the platform gave reaches the trial's row."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest

from nniweb.experiments.models import Trial
from nniweb.storage.elsewhere import StorageFailed
from nniweb.worker.rounds import submissions
from tests.nniweb.worker.conftest import Rig, report
from trainingservice.errors import PermanentError, TemporaryError, TrainingServiceError
from trainingservice.reasons import Reason
from trainingservice.testing.misbehaving import DocileTrainingService

TOO_FEW = Reason("too_few_gpus", machine="m", asked=4, has=2)


@pytest.fixture
def only_trial(rig: Rig, monkeypatch) -> Callable[..., Trial]:
    """A function: the only trial of a new experiment, after its platform answered the submission with an error."""
    def submitted(error: TrainingServiceError) -> Trial:
        def answer(service: object, form: object) -> None:
            raise error

        monkeypatch.setattr(DocileTrainingService, "submit_trial_job", answer)
        experiment = rig.experiment(trial_concurrency=1, max_trial_number=1)
        rig.until(lambda: Trial.objects.filter(experiment=experiment).exclude(message="").exists())
        return Trial.objects.get(experiment=experiment)

    return submitted


def test_a_refusal_keeps_the_code_that_the_platform_gave(only_trial) -> None:
    trial = only_trial(PermanentError(TOO_FEW))
    assert (trial.status, trial.message, trial.reason) == ("FAILED", str(TOO_FEW), "too_few_gpus")
    assert trial.reason_arguments == {"machine": "m", "asked": 4, "has": 2}


def test_a_refusal_in_plain_words_is_refused(only_trial) -> None:
    trial = only_trial(PermanentError("No such queue."))
    assert (trial.status, trial.reason, trial.reason_arguments) == ("FAILED", "refused", {"said": "No such queue."})


def test_what_is_submitted_again_says_why_with_its_code(only_trial) -> None:
    why = Reason("gpus_not_seen", machine="m", asked=1)
    trial = only_trial(TemporaryError(why, retry_after=7))
    assert (trial.status, trial.reason) == ("WAITING", "not_submitted")
    assert trial.reason_arguments == {"said": str(why), "pause": 7, "because": {
        "code": "gpus_not_seen", "machine": "m", "asked": 1}}
    assert trial.message == f"{why} It is submitted again in 7 s."


def test_a_trial_whose_code_is_in_a_storage_that_is_away_waits_and_says_so(rig: Rig, monkeypatch) -> None:
    form = submissions.application_form

    def away(*what: object) -> object:
        raise StorageFailed("The storage of files does not answer: refused.", "does not answer")

    monkeypatch.setattr(submissions, "application_form", away)
    experiment = rig.experiment(trial_concurrency=1, max_trial_number=1)
    rig.until(lambda: Trial.objects.filter(experiment=experiment).exclude(message="").exists())
    trial = Trial.objects.get(experiment=experiment)
    assert (trial.status, trial.reason) == ("WAITING", "not_submitted")
    assert trial.reason_arguments["because"] == {"code": "file_storage", "what": "does not answer"}
    monkeypatch.setattr(submissions, "application_form", form)
    [trial] = rig.submitted(experiment, 1)
    assert trial.status == "WAITING"


def test_a_trial_that_is_tried_again_says_how_it_failed_with_its_code(rig: Rig) -> None:
    experiment = rig.experiment(trial_concurrency=1, max_trial_number=1, retry={"onFailure": 1})
    [trial] = rig.submitted(experiment, 1)
    report(trial, exit_code=3)
    trial.refresh_from_db()
    assert trial.reason == "tried_again"
    assert trial.reason_arguments["because"] == {"code": "exit_code", "exit_code": 3, "last_words": ""}


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), OSError(errno.EMFILE, "Too many"),
                                   MemoryError()])
def test_a_trial_waits_while_the_servers_machine_is_short_of_something(rig: Rig, monkeypatch, error: Exception) -> None:
    def short(*what: object) -> object:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(submissions, "application_form", short)
        experiment = rig.experiment(trial_concurrency=1, max_trial_number=1)
        rig.until(lambda: Trial.objects.filter(experiment=experiment).exclude(message="").exists())
        trial = Trial.objects.get(experiment=experiment)
        assert (trial.status, trial.reason) == ("WAITING", "not_submitted")
        assert trial.reason_arguments["because"]["code"] == "server_short"
    rig.skip(2)
    [trial] = rig.submitted(experiment, 1)
    assert trial.status == "WAITING"
