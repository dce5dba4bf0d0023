"""Jobs that stay as warm places: which trial runs in which, and what becomes of a trial whose place is lost."""

from datetime import timedelta
from typing import Any, ClassVar

import pytest
from django.utils import timezone

from nniweb.experiments.actions.intents import submit_trial
from nniweb.experiments.ingest.place_requests import look, read_request
from nniweb.experiments.models import Attempt, Experiment, Place, Trial
from nniweb.experiments.models.account import hash_of
from nniweb.experiments.retention.removal import Pace
from nniweb.experiments.variants.stored_variants import keep_variant
from nniweb.worker.housekeeping.remove_rows import remove_rows_of
from tests.nniweb.worker.conftest import Rig, report
from trainingservice.cluster_settings import TrialOptions
from trainingservice.places.options import PlaceOptions
from trainingservice.receiver.report_reading import RefusedReport
from trainingservice.testing.misbehaving import DocileTrainingService
from trainingservice.trial_job_status import TrialJobStatus
from trainingservice.variants.code_variant import ChangedFile, variant_content


class Staying(DocileTrainingService):
    has_places: ClassVar[bool] = True
    options_model: ClassVar[type[TrialOptions]] = PlaceOptions


@pytest.fixture
def rig(make_rig) -> Rig:
    return make_rig(Staying)


def ask(host: Trial, after: Trial | None = None, *, key: str = "k0", token: str = "host-token", **said: Any
        ) -> dict[str, Any] | None:
    """What the process of the place in the host's job is answered. Its token is one of the host's first attempt."""
    first = Attempt.objects.get(trial=host, number=1)
    if token == "host-token" and hash_of(token) not in first.token_hashes:
        Attempt.objects.filter(pk=first.pk).update(token_hashes=[*first.token_hashes, hash_of(token)])
    last = Attempt.objects.filter(trial=after or host).latest("number")
    return look(first.job_name, hash_of(token), read_request({
        "place": key, "after": last.job_name, "running": False, "wait": 0, "leave": None, **said}))[0]


def begun(rig: Rig, count: int = 1, **fields: Any) -> tuple[Experiment, list[Trial]]:
    """An experiment whose first trials run, in jobs that have said that they stay."""
    experiment = rig.experiment(trial_concurrency=count, trial_options={"reuseMode": True}, **{
        "max_trial_number": 6, **fields})
    trials = rig.submitted(experiment, count)
    for number, trial in enumerate(trials):
        rig.service.say(trial.public_id, TrialJobStatus.RUNNING, machine=f"node{number}")
        report(trial, end=False, journal=f"journal-{trial.public_id}")
        assert ask(trial, key=f"k{number}", running=True) is None
    rig.rounds(1)
    return experiment, trials


def end(trial: Trial, exit_code: int = 0) -> None:
    report(trial, 0.5, exit_code=exit_code, journal=f"journal-{trial.public_id}")


def begin(trial: Trial) -> None:
    report(trial, end=False, journal=f"journal-{trial.public_id}")


def next_of(rig: Rig, experiment: Experiment, count: int) -> list[Trial]:
    return rig.submitted(experiment, count)


def submissions(rig: Rig) -> int:
    return rig.service.calls.count("submit_trial_job")


def has_ended(rig: Rig, host: Trial) -> bool:
    """Whether the job of a place has; it may be forgotten then."""
    return all(job.id != host.public_id or job.status.is_end for job in rig.service.list_trial_jobs())


def state(trial: Trial) -> tuple[str, str]:
    trial.refresh_from_db()
    return trial.status, trial.reason


def test_the_next_trial_runs_in_the_job_of_the_one_that_has_ended(rig: Rig) -> None:
    experiment, [first] = begun(rig)
    end(first)
    first, second = next_of(rig, experiment, 2)
    assert submissions(rig) == 1
    job = ask(first)
    assert job is not None
    assert (job["job_name"], job["trial_job_id"], job["sequence_id"]) == (second.public_id, second.public_id, 1)
    assert set(job) == {"job_name", "trial_job_id", "sequence_id", "parameters", "environment", "checkpoints",
                        "multi_phase", "limits", "token", "variant"}
    assert job["variant"] is None
    assert hash_of(job["token"]) in second.attempts.get().token_hashes
    assert second.attempts.get().machine_name == "node0"
    assert set(Attempt.objects.values_list("place__job_name", flat=True)) == {first.public_id}


def test_a_place_is_told_the_changes_to_the_code_of_each_trial(rig: Rig) -> None:
    experiment, [first] = begun(rig)
    variant = keep_variant(variant_content("b" * 64, [ChangedFile("trial.py", "x\n")]), timezone.now())
    changed = submit_trial(experiment, {"x": 0.5}, variant=variant)
    end(first)
    next_of(rig, experiment, 2)
    job = ask(first)
    assert job is not None
    assert (job["job_name"], job["variant"]["sha256"]) == (changed.public_id, variant.sha256)


def test_a_lost_answer_gives_the_same_trial_once_more(rig: Rig) -> None:
    experiment, [first] = begun(rig)
    end(first)
    next_of(rig, experiment, 2)
    one, two = ask(first), ask(first)
    assert one is not None
    assert two is not None
    assert one["job_name"] == two["job_name"]
    assert one["token"] != two["token"]
    [attempt] = Attempt.objects.filter(job_name=one["job_name"])
    assert {hash_of(one["token"]), hash_of(two["token"])} <= set(attempt.token_hashes)


def test_two_places_get_two_trials(rig: Rig) -> None:
    experiment, [first, second] = begun(rig, 2)
    end(first)
    end(second)
    next_of(rig, experiment, 4)
    given = [ask(first, key="k0"), ask(second, key="k1")]
    assert len({job["job_name"] for job in given if job is not None}) == 2
    assert submissions(rig) == 2


def test_trials_of_another_experiment_do_not_share_a_place(rig: Rig) -> None:
    _, [first] = begun(rig, max_trial_number=1)
    end(first)
    other = rig.experiment(trial_concurrency=1, max_trial_number=1, trial_options={"reuseMode": True})
    [theirs] = rig.submitted(other, 1)
    assert submissions(rig) == 2
    assert theirs.attempts.get().place is None


def test_a_place_is_not_opened_where_the_experiment_did_not_ask_for_it(rig: Rig) -> None:
    [trial] = rig.submitted(rig.experiment(trial_concurrency=1, max_trial_number=1), 1)
    with pytest.raises(RefusedReport) as refused:
        ask(trial, running=True)
    assert (refused.value.status, Place.objects.count()) == (410, 0)


def test_only_the_token_of_the_first_trial_opens_the_place_and_it_does_as_long_as_the_place_is_there(rig: Rig) -> None:
    experiment, [first] = begun(rig)
    with pytest.raises(RefusedReport) as refused:
        ask(first, token="another")
    assert refused.value.status == 401
    end(first)
    next_of(rig, experiment, 2)
    Attempt.objects.filter(trial=first).update(end_received_at="2020-01-01T00:00:00Z")
    assert ask(first) is not None


def test_a_second_process_in_the_same_job_is_refused(rig: Rig) -> None:
    experiment, [first] = begun(rig)
    end(first)
    next_of(rig, experiment, 2)
    with pytest.raises(RefusedReport) as refused:
        ask(first, key="k9")
    assert refused.value.status == 409


def test_a_trial_that_was_given_to_a_place_that_ends_is_placed_anew_and_loses_nothing(rig: Rig) -> None:
    experiment, [first] = begun(rig)
    end(first)
    first, second = next_of(rig, experiment, 2)
    rig.service.say(first.public_id, TrialJobStatus.SUCCEEDED)
    rig.until(lambda: submissions(rig) == 2)
    attempt = second.attempts.get()
    assert (attempt.number, attempt.place) == (1, None)
    place = Place.objects.get()
    assert place.closed_at is not None
    assert place.reason["reason"]["code"] == "place_lost"


@pytest.mark.parametrize(("status", "expected"), [("SYS_CANCELED", "SYS_CANCELED"), ("SUCCEEDED", "FAILED"),
                                                  ("FAILED", "FAILED")])
def test_a_trial_that_runs_in_a_place_that_is_lost_ends_after_the_drain_time(
        rig: Rig, status: str, expected: str) -> None:
    experiment, [first] = begun(rig, max_trial_number=2)
    end(first)
    first, second = next_of(rig, experiment, 2)
    begin(second)
    rig.service.say(first.public_id, TrialJobStatus(status))
    rig.rounds()
    assert state(second)[0] == "RUNNING", "its keeper's last word may be on its way"
    rig.skip(61)
    rig.until(lambda: state(second)[0] != "RUNNING")
    assert state(second) == (expected, "place_lost")
    assert state(first)[0] == "SUCCEEDED"


def test_a_trial_whose_place_was_lost_is_run_again_where_the_experiment_retries(rig: Rig) -> None:
    experiment, [first] = begun(rig, max_trial_number=2, retry={"onPlatformFailure": 1})
    end(first)
    first, second = next_of(rig, experiment, 2)
    begin(second)
    rig.service.say(first.public_id, TrialJobStatus.FAILED)
    rig.rounds()
    rig.skip(61)
    rig.until(lambda: submissions(rig) == 2)
    assert [attempt.job_name for attempt in second.attempts.order_by("number")] == [
        second.public_id, f"{second.public_id}r2"]


def test_a_place_that_does_not_take_its_trial_is_given_up_and_its_job_removed(rig: Rig) -> None:
    experiment, [first] = begun(rig)
    end(first)
    first, second = next_of(rig, experiment, 2)
    rig.skip(6)
    rig.rounds()
    rig.skip(31)
    rig.until(lambda: submissions(rig) == 2)
    rig.until(lambda: "cancel_trial_job" in rig.service.calls)
    rig.until(lambda: has_ended(rig, first))
    with pytest.raises(RefusedReport) as refused:
        ask(first)
    assert refused.value.status == 410


def test_a_place_that_is_given_back_hands_on_what_it_was_given(rig: Rig) -> None:
    experiment, [first] = begun(rig)
    end(first)
    first, second = next_of(rig, experiment, 2)
    assert ask(first, leave="failures") is None
    rig.until(lambda: submissions(rig) == 2)
    assert second.attempts.get().place is None
    assert Place.objects.get().reason["reason"]["code"] == "place_failures"


def test_an_idle_place_takes_what_came_meanwhile_and_is_closed_else(rig: Rig) -> None:
    experiment, [first] = begun(rig)
    end(first)
    _, second = next_of(rig, experiment, 2)
    job = ask(first, leave="idle")
    assert job is not None
    assert job["job_name"] == second.public_id
    begin(second)
    Experiment.objects.update(status="PAUSED", target="PAUSE")
    end(second)
    rig.rounds(1)
    assert ask(first, second, leave="idle") is None
    place = Place.objects.get()
    assert (place.closed_at is not None, place.reason["reason"]["code"]) == (True, "place_idle")


def test_the_places_of_an_experiment_that_is_over_are_not_needed(rig: Rig) -> None:
    experiment, [first] = begun(rig, max_trial_number=1)
    end(first)
    rig.until(lambda: Experiment.objects.get().status == "DONE")
    with pytest.raises(RefusedReport) as refused:
        ask(first)
    assert refused.value.status == 410
    assert Place.objects.get().reason["reason"]["code"] == "place_not_needed"


def test_a_place_is_given_back_where_the_experiment_asks_for_something_else_now(rig: Rig) -> None:
    experiment, [first] = begun(rig)
    Experiment.objects.update(trial_options={"reuseMode": True, "reuseIdle": 30})
    end(first)
    first, second = next_of(rig, experiment, 2)
    assert (submissions(rig), second.attempts.get().place) == (2, None)
    with pytest.raises(RefusedReport) as refused:
        ask(first)
    assert refused.value.status == 410


def test_a_place_whose_trial_was_frozen_does_not_keep_the_room(rig: Rig) -> None:
    experiment, [first] = begun(rig)
    Trial.objects.filter(pk=first.pk).update(target="PREEMPTED")
    report(first, exit_code=0, reason="frozen", journal=f"journal-{first.public_id}")
    with pytest.raises(RefusedReport) as refused:
        ask(first)
    assert refused.value.status == 410
    assert Place.objects.get().reason["reason"]["code"] == "place_not_needed"


def test_a_stop_is_an_order_and_the_job_is_removed_only_where_that_comes_to_nothing(rig: Rig) -> None:
    experiment, [first] = begun(rig)
    end(first)
    first, second = next_of(rig, experiment, 2)
    begin(second)
    Trial.objects.filter(pk=second.pk).update(target="USER_CANCELED")
    rig.rounds()
    assert "cancel_trial_job" not in rig.service.calls
    answer = report(second, end=False, journal=f"journal-{second.public_id}")
    assert [order["order"] for order in answer.body["orders"]] == ["stop"]
    rig.skip(61)
    rig.until(lambda: "cancel_trial_job" in rig.service.calls)
    rig.until(lambda: has_ended(rig, first))


def test_a_trial_that_is_stopped_before_its_place_has_taken_it_never_starts(rig: Rig) -> None:
    experiment, [first] = begun(rig, max_trial_number=2)
    end(first)
    first, second = next_of(rig, experiment, 2)
    Trial.objects.filter(pk=second.pk).update(target="USER_CANCELED")
    rig.until(lambda: state(second)[0] == "USER_CANCELED")
    assert not has_ended(rig, first)


def test_a_stop_of_the_experiment_removes_the_jobs_of_its_places(rig: Rig) -> None:
    experiment, [first] = begun(rig)
    end(first)
    first, second = next_of(rig, experiment, 2)
    begin(second)
    Experiment.objects.update(target="STOP", status="STOPPING")
    rig.until(lambda: has_ended(rig, first))


def test_a_new_worker_finds_the_jobs_of_places_again(rig: Rig) -> None:
    experiment, [first] = begun(rig, max_trial_number=2)
    end(first)
    first, second = next_of(rig, experiment, 2)
    begin(second)
    rig.close()
    rig.runner = rig.new_runner("worker-2")
    rig.until(lambda: rig.runner.work.service is not None)
    assert [(job.id, job.status) for job in rig.service.list_trial_jobs()] == [
        (first.public_id, TrialJobStatus.RUNNING)]
    rig.service.say(first.public_id, TrialJobStatus.FAILED)
    rig.rounds()
    rig.skip(61)
    rig.until(lambda: state(second)[0] == "FAILED")


def test_rows_of_places_go_with_their_experiment(rig: Rig) -> None:
    experiment, [first] = begun(rig)
    end(first)
    next_of(rig, experiment, 2)
    assert remove_rows_of(experiment, rig.runner.work.now(), Pace(sleep=lambda seconds: None), lambda: False)
    assert not Place.objects.exists()
    assert not Attempt.objects.exists()


def test_a_place_that_asks_is_noted_though_the_clock_was_put_back(rig: Rig) -> None:
    _, [first] = begun(rig)
    Place.objects.update(asked_at=timezone.now() + timedelta(hours=1))
    assert ask(first, running=True) is None
    assert Place.objects.get().asked_at <= timezone.now()
