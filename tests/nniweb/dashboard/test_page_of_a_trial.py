"""A trial's page: why it waits or failed and what to do, its attempts, what it used of its machine."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import ClassVar

import pytest
from django.utils import timezone

from nniweb.experiments.models import (
    ApiToken,
    Attempt,
    Cluster,
    Experiment,
    Metric,
    ResourceReading,
    Trial,
    TrialEvent,
    TrialFile,
    TrialOutput,
    User,
    Worker,
)
from nniweb.experiments.models.experiment import CodeArchive
from nniweb.experiments.queries.trial_advice import advice_for
from trainingservice import platforms
from trainingservice.errors import Unsupported
from trainingservice.testing.misbehaving import DocileTrainingService
from trainingservice.trial_job import HyperParameters, JobApplicationForm, KeeperAccess, TrialJobDetail
from trainingservice.trial_job_status import TrialJobStatus

MakeAttempt = Callable[..., Attempt]
Page = Callable[..., str]


def add_output(attempt: Attempt, text: str) -> None:
    TrialOutput.objects.create(attempt=attempt, stream="stdout", offset=0, data=text.encode())


def add_metric(attempt: Attempt, n: int) -> None:
    now = timezone.now()
    Metric.objects.create(attempt=attempt, n=n, kind="PERIODICAL", sequence=n, value=str(n), number=n,
                          recorded_at=now, received_at=now)


def test_more_of_everything_takes_no_more_queries(queries, make_attempt: MakeAttempt) -> None:
    attempt = make_attempt(status="RUNNING")
    address = f"/trials/{attempt.trial.public_id}/"
    now = timezone.now()

    def more(count: int) -> None:
        for number in range(count):
            n = Metric.objects.count() + 1
            add_metric(attempt, n)
            TrialEvent.objects.create(trial=attempt.trial, at=now, kind="RUNNING", message=str(number))
            TrialFile.objects.create(attempt=attempt, name=f"file {n}", size=1, storage_path="x")
            ResourceReading.objects.create(attempt=attempt, at=now, data={"cpu_percent": 1.0})
            TrialOutput.objects.create(attempt=attempt, stream="stdout", offset=n, data=b"x")

    more(1)
    queries(address)
    few = queries(address)
    more(10)
    assert queries(address) == few <= 34


def test_an_earlier_attempt_is_shown_by_its_number(page: Page, make_attempt: MakeAttempt) -> None:
    first = make_attempt(status="RUNNING")
    Attempt.objects.filter(pk=first.pk).update(stage=Attempt.Stage.ENDED, exit_code=3, end_reason="exited")
    second = Attempt.objects.create(trial=first.trial, number=2, job_name="second", created_at=timezone.now(),
                                    stage=Attempt.Stage.SUBMITTED)
    add_output(first, "of the first")
    add_output(second, "of the second")
    address = f"/trials/{first.trial.public_id}/"
    html = page(address)
    assert "of the second" in html
    assert "of the first" not in html
    assert 'href="?attempt=1"' in html
    earlier = page(address, attempt="1")
    assert "of the first" in earlier
    assert "This is attempt 1, which is not the latest." in earlier
    assert "stream=stdout&amp;attempt=1" in earlier
    assert "of the second" in page(address, attempt="7"), "there is no such one"


def test_it_names_the_token_that_asked_for_it(page: Page, make_attempt: MakeAttempt) -> None:
    trial = make_attempt(status="RUNNING").trial
    address = f"/trials/{trial.public_id}/"
    assert "Asked for with" not in page(address)
    user = User.objects.create_user("carol")
    launched, asked = (ApiToken.objects.create(user=user, name=name, hash=name) for name in ("nightly", "an agent"))
    Experiment.objects.update(token=launched)
    html = page(address)
    assert "Its experiment was launched with a token of carol, named “nightly”." in html
    assert "Asked for with" not in html
    ApiToken.objects.filter(pk=asked.pk).update(ended_at=timezone.now())
    Trial.objects.update(token=asked)
    assert "Asked for with a token of carol, named “an agent”, which was ended." in page(address)


def test_later_parameter_sets_are_listed(page: Page, make_attempt: MakeAttempt) -> None:
    trial = make_attempt(status="RUNNING", parameter_set_count=2).trial
    trial.parameter_sets.create(index=1, parameter_id=1, value={"x": 0.75}, final_value="0.125", final_number=0.125)
    html = page(f"/trials/{trial.public_id}/")
    assert "Parameter sets</h2>" in html
    assert "0.75" in html
    assert 'title="0.125"' in html


# --- what to do ------------------------------------------------------------------------------


@pytest.fixture
def worker(db: None) -> Worker:
    return Worker.objects.create(id="w", host="here", pid=1, started_at=timezone.now(), heard_at=timezone.now())


def first_advice(trial: Trial) -> tuple[str, str]:
    advice = advice_for(trial.pk, timezone.now())[0]
    return advice.message, advice.look_at


def test_without_a_worker_it_says_how_to_start_one(make_attempt: MakeAttempt) -> None:
    message, look_at = first_advice(make_attempt(status="WAITING").trial)
    assert "No worker is alive" in message
    assert "make run" in message
    assert look_at == "cluster"


def test_in_a_paused_experiment_it_says_resume(make_attempt: MakeAttempt, worker: Worker) -> None:
    trial = make_attempt(status="WAITING").trial
    Experiment.objects.update(status="PAUSED", target="PAUSE")
    assert first_advice(trial) == ("The experiment is paused and starts no trials. Resume it.", "experiment")


def test_without_a_free_slot_it_says_how_many_there_are(make_attempt: MakeAttempt, make_experiment,
                                                        worker: Worker) -> None:
    experiment = make_experiment(trial_concurrency=1)
    make_attempt(experiment, status="RUNNING")
    trial = make_attempt(experiment, status="WAITING").trial
    trial.attempts.all().delete()
    message, look_at = first_advice(trial)
    assert "the one slot of the experiment is taken" in message
    assert look_at == "experiment"


def test_on_a_cluster_in_trouble_it_says_what_the_cluster_said(make_attempt: MakeAttempt, worker: Worker) -> None:
    trial = make_attempt(status="WAITING").trial
    Cluster.objects.update(health="away", message="The door is closed.")
    message, look_at = first_advice(trial)
    assert "cannot be asked at the moment" in message
    assert "The door is closed." in message
    assert look_at == "cluster"


def test_a_submitted_one_waits_for_room(make_attempt: MakeAttempt, worker: Worker) -> None:
    message, look_at = first_advice(make_attempt(status="WAITING").trial)
    assert "when machines and GPUs are free" in message
    assert look_at == "cluster"


@pytest.mark.parametrize(("reason", "where", "words"), [
    ("exited", "output", "The last lines of its output"), ("lost", "cluster", "code did not cause this"),
    ("refused", "cluster", "did not accept the trial")])
def test_a_failed_one_says_where_to_look(make_attempt: MakeAttempt, reason, where, words) -> None:
    attempt = make_attempt(status="FAILED")
    Attempt.objects.filter(pk=attempt.pk).update(stage=Attempt.Stage.ENDED, end_reason=reason)
    message, look_at = first_advice(attempt.trial)
    assert words in message
    assert look_at == where


def test_code_that_was_packed_is_mended_by_a_new_experiment(page: Page, make_attempt: MakeAttempt) -> None:
    attempt = make_attempt(status="FAILED")
    Attempt.objects.filter(pk=attempt.pk).update(stage=Attempt.Stage.ENDED, end_reason="exited")
    Experiment.objects.update(code_folder="/home/me/project")
    assert "/home/me/project. Correct it there" in page(f"/trials/{attempt.trial.public_id}/")
    archive = CodeArchive.objects.create(sha256="0", size=1, storage_path="x", last_used=timezone.now())
    Experiment.objects.update(code=archive)
    html = page(f"/trials/{attempt.trial.public_id}/")
    assert "launch a new experiment" in html
    assert f'href="/new/?from={attempt.trial.experiment.public_id}"' in html


@pytest.mark.parametrize(("status", "words"), [
    ("UNKNOWN", "No result is lost yet"), ("SYS_CANCELED", "Run the trial again"),
    ("EARLY_STOPPED", "Stopped early. The assessor")])
def test_other_ends_say_what_they_mean(make_attempt: MakeAttempt, status, words) -> None:
    assert words in first_advice(make_attempt(status=status).trial)[0]


def test_a_time_limit_is_raised_in_the_experiment(make_attempt: MakeAttempt) -> None:
    attempt = make_attempt(status="EARLY_STOPPED")
    Attempt.objects.filter(pk=attempt.pk).update(end_reason="time_limit")
    assert "maxTrialDuration" in first_advice(attempt.trial)[0]


def test_a_silent_one_is_remarked_upon_and_a_good_one_is_not(make_attempt: MakeAttempt) -> None:
    attempt = make_attempt(status="RUNNING")
    now = timezone.now()
    Attempt.objects.filter(pk=attempt.pk).update(heard_at=now)
    assert advice_for(attempt.trial_id, now) == []
    assert "has not called the server" in advice_for(attempt.trial_id, now + timedelta(minutes=2))[0].message
    Trial.objects.filter(pk=attempt.trial_id).update(status="SUCCEEDED")
    assert advice_for(attempt.trial_id, now + timedelta(minutes=2)) == []
    Trial.objects.filter(pk=attempt.trial_id).update(status="RUNNING", target="USER_CANCELED")
    assert "being stopped" in advice_for(attempt.trial_id, now)[0].message


class KeeperlessService(DocileTrainingService):
    platform: ClassVar[str] = "keeperless"
    keepers_report: ClassVar[bool] = False


@pytest.fixture
def keeperless() -> Iterator[None]:
    platforms.register("keeperless", f"{__name__}:KeeperlessService")
    yield
    platforms.unregister("keeperless")


@pytest.mark.usefixtures("keeperless")
def test_a_trial_without_a_keeper_is_not_said_to_have_printed_nothing(page: Page, make_experiment,
                                                                      make_attempt: MakeAttempt) -> None:
    cluster = Cluster.objects.create(name="mine", platform="keeperless")
    ran = make_attempt(make_experiment(cluster=cluster), status="FAILED").trial
    html = page(f"/trials/{ran.public_id}/")
    assert html.count("Not stored. The trial runs without a keeper, which would send what it prints.") >= 2
    assert "Nothing written." not in html
    assert "Not measured. The trial runs without a keeper, which would measure what it uses." in html
    assert "They are not stored here" in first_advice(ran)[0]
    html = page(f"/trials/{make_attempt(make_experiment(), status='FAILED').trial.public_id}/")
    assert "without a keeper" not in html
    assert html.count("Nothing written.") == 2


@pytest.mark.usefixtures("keeperless")
def test_no_keeper_is_spoken_of_where_there_is_none(make_experiment, make_attempt: MakeAttempt) -> None:
    cluster = Cluster.objects.create(name="mine", platform="keeperless")
    lost = make_attempt(make_experiment(cluster=cluster), status="UNKNOWN")
    assert "keeper" not in first_advice(lost.trial)[0]
    Trial.objects.filter(pk=lost.trial_id).update(status="RUNNING")
    now = timezone.now()
    Attempt.objects.filter(pk=lost.pk).update(heard_at=now)
    assert advice_for(lost.trial_id, now + timedelta(minutes=2)) == []


def test_a_platform_whose_files_cannot_be_read_says_what_keeps_them() -> None:
    service = object.__new__(KeeperlessService)
    form = JobApplicationForm("x", "x", "e", 0, HyperParameters("{}"), "true", KeeperAccess((), ""))
    job = TrialJobDetail("x", TrialJobStatus.SUCCEEDED, form, 0.0)
    with pytest.raises(Unsupported, match="Let the trial's command copy what is to be kept"):
        service.output_folder(job)
    with pytest.raises(Unsupported, match="Files that keepFiles of the experiment names are uploaded"):
        object.__new__(DocileTrainingService).output_folder(job)
