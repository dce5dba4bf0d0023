"""A trial that runs while its keeper never calls says so, with the address that it was given."""

import pytest
from django.utils import timezone

from nniweb.experiments.models import Attempt, Trial
from nniweb.experiments.queries.trial_advice import advice_for
from nniweb.worker.rounds.observing import unheard_keepers
from tests.nniweb.worker.conftest import Rig, end, report
from trainingservice.cluster_settings import TrialOptions
from trainingservice.trial_job_status import TrialJobStatus

ADDRESS = "http://10.9.9.9:8080"


def running_trial(rig: Rig) -> Trial:
    [trial] = rig.submitted(rig.experiment(trial_concurrency=1, max_trial_number=1, callback_url=ADDRESS), 1)
    rig.service.say(trial.public_id, TrialJobStatus.RUNNING)
    rig.until(lambda: Trial.objects.get().status == "RUNNING")
    return trial


def advice(trial: Trial) -> list[tuple[str, dict[str, object]]]:
    return [(piece.code, piece.arguments) for piece in advice_for(trial.pk, timezone.now())]


def test_after_half_a_minute_it_names_the_address_and_the_last_lines_of_the_log(rig: Rig, monkeypatch) -> None:
    trial = running_trial(rig)
    monkeypatch.setattr(rig.service, "last_lines", lambda job_name: "no route to host")
    rig.skip(25)
    rig.rounds()
    assert advice(trial) == [], "it may still come"
    revision = Trial.objects.get().revision
    rig.skip(10)
    rig.until(lambda: Attempt.objects.get().remark)
    assert advice(trial) == [("keeper_not_heard", {"addresses": [ADDRESS], "last_lines": "no route to host"})]
    [piece] = advice_for(trial.pk, timezone.now())
    assert ADDRESS in piece.message
    assert "NNIWEB_PUBLIC_URL" in piece.message
    assert piece.message.endswith("The last lines of the keeper's log: no route to host")
    assert Trial.objects.get().revision > revision, "pages hear of it"
    report(trial, 0.5, end=False)
    assert advice(trial) == [], "it has called"


def test_a_keeper_that_has_called_is_not_missed(rig: Rig, monkeypatch) -> None:
    asked: list[str] = []
    trial = running_trial(rig)
    monkeypatch.setattr(rig.service, "last_lines", lambda job_name: asked.append(job_name) or "")
    report(trial, 0.5, end=False)
    rig.skip(60)
    rig.rounds()
    assert (asked, Attempt.objects.get().remark) == ([], None)


def test_it_is_said_also_where_the_platform_fails_on_the_log(rig: Rig, monkeypatch) -> None:
    trial = running_trial(rig)
    monkeypatch.setattr(rig.service, "last_lines", lambda job_name: 1 / 0)
    rig.skip(40)
    rig.until(lambda: Attempt.objects.get().remark)
    assert advice(trial) == [("keeper_not_heard", {"addresses": [ADDRESS], "last_lines": ""})]


def test_where_reports_come_another_way_nobody_is_missed(rig: Rig, monkeypatch) -> None:
    running_trial(rig)
    monkeypatch.setattr(type(rig.service.settings), "keepers_call_home", lambda settings: False)
    rig.skip(60)
    rig.rounds()
    assert Attempt.objects.get().remark is None


def test_where_the_file_chose_another_way_no_call_is_missed(rig: Rig, monkeypatch) -> None:
    monkeypatch.setattr(TrialOptions, "channel", "storage", raising=False)
    running_trial(rig)
    rig.skip(60)
    rig.rounds()
    assert (Attempt.objects.get().keeper_urls, Attempt.objects.get().remark) == ([], None)


@pytest.mark.parametrize(("must_call", "seconds"), [(True, 6), (False, 61)])
def test_the_last_word_of_a_stopped_trial_whose_keeper_never_called_is_not_waited_for(rig: Rig, monkeypatch, must_call,
                                                                                    seconds) -> None:
    trial = running_trial(rig)
    monkeypatch.setattr(type(rig.service), "needs_public_url", must_call)
    Trial.objects.update(target="USER_CANCELED")
    end(rig, trial, TrialJobStatus.USER_CANCELED)
    rig.until(lambda: Attempt.objects.get().observed_end)
    rig.skip(seconds - 3)
    rig.rounds()
    assert Trial.objects.get().status == "RUNNING"
    rig.skip(4)
    rig.until(lambda: Trial.objects.get().status == "USER_CANCELED")


def test_many_trials_that_report_another_way_hide_none_that_should_call(rig: Rig, monkeypatch) -> None:
    monkeypatch.setattr(unheard_keepers, "CHUNK", 2)
    experiment = rig.experiment(trial_concurrency=3, max_trial_number=3, callback_url=ADDRESS)
    trials = rig.submitted(experiment, 3)
    for trial in trials:
        rig.service.say(trial.public_id, TrialJobStatus.RUNNING)
    rig.until(lambda: Trial.objects.filter(status="RUNNING").count() == 3)
    Attempt.objects.filter(trial__in=trials[:2]).update(keeper_urls=[])
    rig.skip(60)
    rig.until(lambda: Attempt.objects.get(trial=trials[2]).remark)


def test_a_keeper_that_has_not_begun_is_not_missed(rig: Rig, monkeypatch) -> None:
    trial = running_trial(rig)
    monkeypatch.setattr(rig.service, "last_lines", lambda job_name: None)  # of several pods another one runs
    rig.skip(60)
    rig.rounds()
    rig.rounds()
    assert Attempt.objects.get().remark is None
    monkeypatch.setattr(rig.service, "last_lines", lambda job_name: "refused")
    rig.skip(40)
    rig.until(lambda: Attempt.objects.get().remark)
    assert advice(trial)[0][1]["last_lines"] == "refused"
