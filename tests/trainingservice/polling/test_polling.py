"""What PollingTrainingService does for a platform: queue, back-off, questions, cancels, resume. Step by step."""

import threading
from collections import defaultdict
from dataclasses import dataclass, field, replace

import pytest

from tests.fakes.hand_set_clock import HandSetClock
from trainingservice.base import ServiceContext
from trainingservice.cluster_settings import ClusterSettings
from trainingservice.errors import PermanentError, TemporaryError, UnknownTrialJob, Unsupported
from trainingservice.polling.service import MustWait, Observation, PollingTrainingService
from trainingservice.trial_job import HyperParameters, JobApplicationForm, KeeperAccess, ResumedJob
from trainingservice.trial_job_status import TrialJobStatus

WAITING, RUNNING, SUCCEEDED, FAILED = (TrialJobStatus.WAITING, TrialJobStatus.RUNNING, TrialJobStatus.SUCCEEDED,
                                       TrialJobStatus.FAILED)
USER_CANCELED, EARLY_STOPPED, SYS_CANCELED = (TrialJobStatus.USER_CANCELED, TrialJobStatus.EARLY_STOPPED,
                                              TrialJobStatus.SYS_CANCELED)


@dataclass
class Cloud:
    """The platform behind the service: outlives service objects."""

    jobs: dict[str, Observation] = field(default_factory=dict)
    calls: list[tuple] = field(default_factory=list)
    start_errors: dict[str, list[Exception]] = field(default_factory=lambda: defaultdict(list))
    stop_errors: list[Exception] = field(default_factory=list)
    question_errors: list[Exception] = field(default_factory=list)

    def count(self, verb: str, name: str | None = None) -> int:
        return sum(call[0] == verb and (name is None or name in call) for call in self.calls)


class CloudService(PollingTrainingService):
    platform = "cloud"
    settings_model = ClusterSettings
    multi_phase = False

    def __init__(self, cloud: Cloud, context: ServiceContext, monotonic) -> None:
        super().__init__(ClusterSettings(), context, monotonic=monotonic)
        self.cloud = cloud
        self.ended: list[str] = []
        self.while_starting = lambda job: None

    @property
    def is_multi_phase_job_supported(self):
        return self.multi_phase

    def start_job(self, job):
        self.cloud.calls.append(("start", job.id))
        if self.cloud.start_errors[job.id]:
            raise self.cloud.start_errors[job.id].pop(0)
        self.while_starting(job)
        return self.cloud.jobs.setdefault(job.id, Observation(WAITING))

    def observe_jobs(self, jobs):
        self.cloud.calls.append(("ask", *(job.id for job in jobs)))
        if self.cloud.question_errors:
            raise self.cloud.question_errors.pop(0)
        return {job.id: self.cloud.jobs.get(job.id) for job in jobs}

    def stop_job(self, job):
        self.cloud.calls.append(("stop", job.id, job.is_early_stopped))
        if self.cloud.stop_errors:
            raise self.cloud.stop_errors.pop(0)
        if job.id in self.cloud.jobs:
            self.cloud.jobs[job.id] = Observation(FAILED, message="ended by signal 15")

    def remove_experiment(self, experiment_id, jobs):
        self.cloud.calls.append(("remove", experiment_id, *(job.id for job in jobs)))

    def deliver_parameters(self, job, parameters):
        self.cloud.calls.append(("deliver", job.id, parameters.index))

    def job_ended(self, job):
        self.ended.append(job.id)

    def rehearse(self, quick=False, options=None):
        return []


class AtOnceService(CloudService):
    submits_at_once = True


class MultiPhaseService(CloudService):
    multi_phase = True


def form(name: str, experiment: str = "experiment01", **changes) -> JobApplicationForm:
    return JobApplicationForm(name, name, experiment, 0, HyperParameters("{}"), "true", KeeperAccess((), ""), **changes)


@pytest.fixture
def cloud():
    return Cloud()


@pytest.fixture
def clock():
    return HandSetClock()


@pytest.fixture
def news():
    return []


@pytest.fixture
def make(cloud, clock, news, tmp_path):
    def make_service(kind=CloudService):
        context = ServiceContext("cluster", tmp_path, on_change=news.append, clock=clock)
        return kind(cloud, context, clock)
    return make_service


@pytest.fixture
def service(make):
    return make()


def status(service, name="a"):
    return service.get_trial_job(name).status


def step_at(service, clock, seconds):
    """Let time pass, then do what is due."""
    clock.now += seconds
    return service.step()


# --- what is over ---------------------------------------------------------------------------


def test_a_job_whose_end_the_host_has_taken_is_forgotten(service, cloud, clock):
    service.submit_trial_job(form("a"))
    service.submit_trial_job(form("b"))
    service.step()
    cloud.jobs["a"] = Observation(SUCCEEDED)
    step_at(service, clock, 100)
    service.forget_trial_jobs(["a", "b", "unheard of"])
    assert [job.id for job in service.list_trial_jobs()] == ["b"]
    with pytest.raises(UnknownTrialJob):
        service.get_trial_job("a")
    assert service.ended == ["a"]
    cloud.jobs["b"] = Observation(SUCCEEDED)
    step_at(service, clock, 100)
    assert status(service, "b") is SUCCEEDED


def test_an_ended_job_is_remembered_until_the_host_says_otherwise(service, cloud, clock):
    service.submit_trial_job(form("a"))
    service.step()
    cloud.jobs["a"] = Observation(SUCCEEDED)
    for _ in range(50):
        step_at(service, clock, 3600)
    assert status(service) is SUCCEEDED


def test_a_thousand_jobs_leave_nothing_behind(make, cloud, clock):
    service = make(AtOnceService)
    cloud.start_errors |= {f"job{number}": [MustWait("no room")] for number in range(0, 1000, 3)}
    for number in range(1000):
        name = f"job{number}"
        service.submit_trial_job(form(name))
        if number % 3 == 0:
            service.cancel_trial_job(name)
        service.note(name, Observation(RUNNING), untold_for=1.0)
        cloud.jobs[name] = Observation(SUCCEEDED)
        step_at(service, clock, 100)
        assert status(service, name).is_end
        service.forget_trial_jobs([name])
    kept = {name: len(value) for name, value in vars(service).items() if isinstance(value, (dict, set, list))}
    assert kept.pop("ended") == 1000  # this test's own note
    assert set(kept.values()) == {0}


def test_a_job_that_has_still_to_be_stopped_is_not_forgotten(service, cloud, clock):
    cloud.stop_errors = [TemporaryError("away")]
    service.submit_trial_job(form("a"))
    service.cancel_trial_job("a")
    service.step()  # the tombstone could not be laid
    service.forget_trial_jobs(["a"])
    assert status(service) is USER_CANCELED
    step_at(service, clock, 100)
    assert cloud.count("stop") == 2
    service.forget_trial_jobs(["a"])
    assert service.list_trial_jobs() == []


def test_what_a_platform_still_does_for_a_job_keeps_it(make, cloud, clock):
    class Fetching(CloudService):
        fetches = True

        def is_done_with(self, job):
            return not self.fetches

    service = make(Fetching)
    service.submit_trial_job(form("a"))
    service.step()
    cloud.jobs["a"] = Observation(SUCCEEDED)
    step_at(service, clock, 100)
    service.forget_trial_jobs(["a"])
    assert status(service) is SUCCEEDED
    service.fetches = False
    service.forget_trial_jobs(["a"])
    assert service.list_trial_jobs() == []


# --- submissions ----------------------------------------------------------------------------


def test_a_submitted_job_waits_and_is_handed_over_in_the_next_step(service, cloud):
    detail = service.submit_trial_job(form("a"))
    assert (detail.status, detail.submit_time) == (WAITING, 1000.0)
    assert cloud.calls == []
    service.step()
    assert cloud.count("start") == 1
    service.step()
    assert cloud.count("start") == 1


def test_with_nothing_to_do_it_sleeps(service, cloud, clock):
    assert service.step() == 60
    service.submit_trial_job(form("a"))
    service.step()
    cloud.jobs["a"] = Observation(SUCCEEDED)
    step_at(service, clock, 100)
    assert status(service) is SUCCEEDED
    assert service.step() == 60


def test_a_platform_may_hand_over_at_once(make, cloud):
    service = make(AtOnceService)
    service.submit_trial_job(form("a"))
    assert cloud.count("start") == 1


def test_the_same_name_twice_is_one_job(service, cloud):
    first = service.submit_trial_job(form("a"))
    assert service.submit_trial_job(form("a")) == first
    service.step()
    service.submit_trial_job(form("a"))
    service.step()
    assert cloud.count("start") == 1
    assert len(service.list_trial_jobs()) == 1


def test_a_job_that_can_never_run_fails_with_the_sentence(service, cloud, news):
    cloud.start_errors["a"] = [PermanentError("no such image")]
    service.submit_trial_job(form("a"))
    service.step()
    detail = service.get_trial_job("a")
    assert (detail.status, detail.message, detail.end_time) == (FAILED, "no such image", 1000.0)
    assert service.ended == ["a"]
    assert news[-1] == "a"


def test_at_once_a_job_that_can_never_run_is_refused_to_the_caller(make, cloud):
    service = make(AtOnceService)
    cloud.start_errors["a"] = [PermanentError("no such image")]
    with pytest.raises(PermanentError, match="no such image"):
        service.submit_trial_job(form("a"))
    assert service.list_trial_jobs() == []


def test_at_once_a_job_that_cannot_run_now_is_kept_and_tried_again(make, cloud, clock):
    service = make(AtOnceService)
    cloud.start_errors["a"] = [TemporaryError("away")]
    assert service.submit_trial_job(form("a")).message == "away"
    step_at(service, clock, 1)
    assert cloud.count("start", "a") == 2


@pytest.mark.parametrize("error", [TemporaryError("busy"), TemporaryError("busy", 30), MustWait("needs a GPU"),
                                   ValueError("a defect")])
def test_one_job_that_cannot_start_never_blocks_those_behind_it(service, cloud, error):
    cloud.start_errors["a"] = [error] * 10
    service.submit_trial_job(form("a"))
    service.submit_trial_job(form("b"))
    service.step()
    assert set(cloud.jobs) == {"b"}
    assert service.get_trial_job("a").status is WAITING
    assert str(error) in service.get_trial_job("a").message


def test_a_temporary_error_is_tried_again_at_growing_intervals(service, cloud, clock):
    cloud.start_errors["a"] = [TemporaryError("away")] * 3
    service.submit_trial_job(form("a"))
    pauses = []
    for _ in range(3):
        pauses.append(service.step())
        clock.now += pauses[-1]
    assert pauses == [0.5, 1.0, 2.0]
    service.step()
    assert "a" in cloud.jobs
    assert service.get_trial_job("a").message == ""


def test_the_pause_the_platform_asked_for_is_kept(service, cloud, clock):
    cloud.start_errors["a"] = [TemporaryError("slow down", retry_after=30)]
    service.submit_trial_job(form("a"))
    assert service.step() == 30
    step_at(service, clock, 29)
    assert cloud.count("start") == 1
    step_at(service, clock, 1)
    assert cloud.count("start") == 2


def test_many_failures_in_a_row_pause_the_cluster_and_then_others_go_first(service, cloud, clock):
    names = [f"job{index}" for index in range(6)]
    for name in names[:5]:
        cloud.start_errors[name] = [TemporaryError("away")] * 9
    for name in names:
        service.submit_trial_job(form(name))
    service.step()
    assert cloud.count("start") == 3
    step_at(service, clock, 0.4)
    assert cloud.count("start") == 3
    step_at(service, clock, 0.1)
    assert [call[1] for call in cloud.calls[3:]] == ["job3"]
    step_at(service, clock, 1)
    step_at(service, clock, 2)
    assert "job5" in cloud.jobs


class OfTheJob(TemporaryError):
    of_the_cluster = False


def test_faults_of_jobs_alone_say_nothing_of_the_cluster_and_hold_up_no_other(service, cloud):
    names = [f"job{index}" for index in range(6)]
    for name in names[:5]:
        cloud.start_errors[name] = [OfTheJob("there is no user ada")] * 9
    for name in names:
        service.submit_trial_job(form(name))
    service.step()
    assert "job5" in cloud.jobs
    assert service.trouble == ""
    assert service.get_trial_job("job0").message == "there is no user ada"


def test_a_job_that_waits_for_room_is_tried_again_as_soon_as_another_ends(service, cloud, clock):
    service.submit_trial_job(form("a"))
    service.step()
    cloud.start_errors["b"] = [MustWait("GPU 0 is held by a")]
    service.submit_trial_job(form("b"))
    service.step()
    assert service.get_trial_job("b").message == "GPU 0 is held by a"
    service.note("a", Observation(SUCCEEDED))
    service.step()
    assert "b" in cloud.jobs


# --- questions ------------------------------------------------------------------------------


def test_all_unfinished_jobs_are_asked_about_in_one_question_and_ended_ones_no_more(service, cloud, clock):
    for name in "abc":
        service.submit_trial_job(form(name))
    service.step()
    cloud.jobs["a"] = Observation(SUCCEEDED, exit_code=0, end_time=1234.0)
    step_at(service, clock, 1)
    assert cloud.calls[-1] == ("ask", "a", "b", "c")
    assert service.get_trial_job("a").end_time == 1234.0
    step_at(service, clock, 1)
    assert cloud.calls[-1] == ("ask", "b", "c")


def test_questions_become_rarer_while_nothing_changes_and_frequent_again_when_something_does(service, cloud, clock):
    service.submit_trial_job(form("a"))
    clock.now += service.step()
    pauses = []
    for _ in range(9):
        pauses.append(service.step())
        clock.now += pauses[-1]
    assert pauses[:3] == [1.5, 2.25, 3.375]
    assert pauses[-1] == 15
    cloud.jobs["a"] = Observation(RUNNING)
    assert service.step() == 1.0


def test_an_event_makes_it_ask_at_once(service, cloud, clock):
    service.submit_trial_job(form("a"))
    clock.now += service.step()
    service.step()
    cloud.jobs["a"] = Observation(RUNNING)
    service.step()
    assert status(service) is WAITING
    service.ask_soon()
    service.step()
    assert status(service) is RUNNING


def test_what_cannot_be_asked_keeps_its_last_answer(service, cloud, clock):
    service.submit_trial_job(form("a"))
    cloud.jobs["a"] = Observation(RUNNING)
    service.step()
    assert status(service) is RUNNING
    cloud.question_errors = [TemporaryError("away"), ValueError("a defect"), TemporaryError("away", 20)]
    cloud.jobs["a"] = Observation(SUCCEEDED)
    assert step_at(service, clock, 1) == 0.5
    assert service.unanswered_since == 1001.0
    assert step_at(service, clock, 0.5) == 1.0
    assert step_at(service, clock, 1) == 20
    assert status(service) is RUNNING
    step_at(service, clock, 20)
    assert status(service) is SUCCEEDED
    assert service.unanswered_since is None


def test_a_job_deleted_by_somebody_else_is_canceled_by_the_system(service, cloud, clock):
    service.submit_trial_job(form("a"))
    service.step()
    del cloud.jobs["a"]
    step_at(service, clock, 1)
    assert status(service) is SYS_CANCELED
    assert "deleted on the cloud platform by somebody else" in service.get_trial_job("a").message


def test_an_end_is_final_and_told_once(service, cloud, news):
    service.submit_trial_job(form("a"))
    service.step()
    service.note("a", Observation(SUCCEEDED))
    told = len(news)
    service.note("a", Observation(RUNNING))
    service.note("a", Observation(FAILED))
    assert status(service) is SUCCEEDED
    assert len(news) == told
    assert service.ended == ["a"]


def test_what_a_keeper_tells_too_is_told_to_the_host_later_if_the_job_has_not_ended(service, cloud, clock, news):
    for name in ("a", "b"):
        service.submit_trial_job(form(name))
    service.step()
    del news[:]
    for name in ("a", "b"):
        service.note(name, Observation(RUNNING), untold_for=1.0)
        cloud.jobs[name] = Observation(RUNNING)
    assert (status(service), news) == (RUNNING, [])
    service.note("b", Observation(SUCCEEDED))
    assert news == ["b"]
    step_at(service, clock, 0.9)
    assert news == ["b"]
    step_at(service, clock, 0.2)
    assert news == ["b", "a"]
    step_at(service, clock, 60)
    assert news == ["b", "a"]


def test_what_the_platform_tells_while_a_job_is_being_started_is_not_lost(service):
    service.while_starting = lambda job: service.note(job.id, Observation(RUNNING))
    service.submit_trial_job(form("a"))
    service.step()
    assert status(service) is RUNNING


def test_details_are_snapshots(service, cloud):
    service.submit_trial_job(form("a"))
    service.step()
    before = service.get_trial_job("a")
    service.note("a", Observation(RUNNING, url="http://cloud/a", platform_state={"id": 7}))
    after = service.get_trial_job("a")
    assert (before.status, before.start_time) == (WAITING, None)
    assert (after.status, after.start_time, after.url, after.platform_state) == (RUNNING, 1000.0, "http://cloud/a",
                                                                                 {"id": 7})


def test_a_requeued_job_goes_back_to_waiting(service):
    service.submit_trial_job(form("a"))
    service.step()
    service.note("a", Observation(RUNNING))
    service.note("a", Observation(WAITING, message="preempted"))
    assert (status(service), service.get_trial_job("a").message) == (WAITING, "preempted")


# --- cancel ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("early", "end"), [(False, USER_CANCELED), (True, EARLY_STOPPED)])
def test_cancel_before_the_start_starts_nothing_and_leaves_a_tombstone(service, cloud, early, end):
    service.submit_trial_job(form("a"))
    service.cancel_trial_job("a", early)
    assert status(service) is end
    service.step()
    assert cloud.calls == [("stop", "a", early)]
    assert service.ended == ["a"]


@pytest.mark.parametrize(("early", "end"), [(False, USER_CANCELED), (True, EARLY_STOPPED)])
def test_cancel_while_running_ends_with_the_status_that_was_asked_for(service, cloud, clock, early, end):
    service.submit_trial_job(form("a"))
    service.step()
    service.cancel_trial_job("a", early)
    assert cloud.count("stop") == 1
    assert status(service) is WAITING
    step_at(service, clock, 1)
    assert status(service) is end


def test_the_first_cancel_decides_and_later_ones_are_harmless(service, cloud, clock):
    service.submit_trial_job(form("a"))
    service.step()
    service.cancel_trial_job("a", True)
    service.cancel_trial_job("a", False)
    step_at(service, clock, 1)
    service.cancel_trial_job("a", False)
    assert status(service) is EARLY_STOPPED
    assert service.get_trial_job("a").is_early_stopped is True


def test_cancel_after_the_end_changes_nothing(service, cloud):
    service.submit_trial_job(form("a"))
    service.step()
    service.note("a", Observation(SUCCEEDED))
    service.cancel_trial_job("a")
    assert status(service) is SUCCEEDED
    assert service.get_trial_job("a").is_early_stopped is None
    assert cloud.count("stop") == 0


def test_a_trial_that_had_ended_by_itself_before_the_stop_reached_it_keeps_its_status(service):
    service.submit_trial_job(form("a"))
    service.step()
    service.cancel_trial_job("a")
    service.note("a", Observation(SUCCEEDED, ended_by_itself=True))
    assert status(service) is SUCCEEDED


def test_a_trial_that_traps_the_stop_and_ends_well_is_canceled_all_the_same(service):
    service.submit_trial_job(form("a"))
    service.step()
    service.cancel_trial_job("a")
    service.note("a", Observation(SUCCEEDED))
    assert status(service) is USER_CANCELED


def test_a_cancel_that_comes_while_the_job_is_handed_over_is_carried_out_after(service, cloud, clock):
    service.while_starting = lambda job: service.cancel_trial_job(job.id)
    service.submit_trial_job(form("a"))
    service.step()
    service.step()
    assert cloud.count("stop") == 1
    step_at(service, clock, 1)
    assert status(service) is USER_CANCELED


def test_a_stop_that_fails_is_repeated(service, cloud, clock):
    service.submit_trial_job(form("a"))
    service.step()
    cloud.stop_errors = [TemporaryError("away"), ValueError("a defect")]
    service.cancel_trial_job("a")
    step_at(service, clock, 0.5)
    step_at(service, clock, 1)
    assert cloud.count("stop") == 3
    step_at(service, clock, 1)
    assert status(service) is USER_CANCELED


def test_a_stop_that_is_not_obeyed_is_said_again_after_a_minute(service, cloud, clock):
    service.submit_trial_job(form("a"))
    service.step()
    service.cancel_trial_job("a")
    cloud.jobs["a"] = Observation(RUNNING)
    step_at(service, clock, 59)
    assert cloud.count("stop") == 1
    step_at(service, clock, 1)
    assert cloud.count("stop") == 2


def test_unknown_jobs_are_said_to_be_unknown(service):
    with pytest.raises(UnknownTrialJob):
        service.get_trial_job("nobody")
    with pytest.raises(UnknownTrialJob):
        service.cancel_trial_job("nobody")
    with pytest.raises(UnknownTrialJob):
        service.update_trial_job("nobody", form("nobody"))


# --- update ---------------------------------------------------------------------------------


def test_update_asks_the_platform_again_and_returns_what_it_says(service, cloud):
    service.submit_trial_job(form("a"))
    service.step()
    cloud.jobs["a"] = Observation(RUNNING)
    assert service.update_trial_job("a", form("a")).status is RUNNING


def test_new_parameters_are_refused_where_the_platform_cannot_deliver_them(service):
    service.submit_trial_job(form("a"))
    service.step()
    with pytest.raises(Unsupported):
        service.update_trial_job("a", form("a").with_parameters(HyperParameters("{}", 1)))


def test_new_parameters_are_delivered_once(make, cloud):
    service = make(MultiPhaseService)
    service.submit_trial_job(form("a"))
    service.step()
    for _ in range(2):
        service.update_trial_job("a", form("a").with_parameters(HyperParameters("{}", 1)))
    assert cloud.count("deliver") == 1


def test_parameters_that_come_before_the_start_are_delivered_after_it(make, cloud):
    service = make(MultiPhaseService)
    service.submit_trial_job(form("a"))
    service.update_trial_job("a", form("a").with_parameters(HyperParameters("{}", 1)))
    assert cloud.count("deliver") == 0
    service.step()
    assert [call[0] for call in cloud.calls[:2]] == ["start", "deliver"]


# --- resume ---------------------------------------------------------------------------------


def resumed(make, service, **changes):
    """A new object that takes over the jobs of another."""
    successor = make(type(service))
    successor.resume_trial_jobs([ResumedJob(detail, **changes) for detail in service.list_trial_jobs()])
    return successor


def test_a_running_job_is_found_again_and_not_started_again(make, service, cloud):
    service.submit_trial_job(form("a"))
    service.step()
    cloud.jobs["a"] = Observation(RUNNING)
    successor = resumed(make, service)
    assert status(successor) is RUNNING
    successor.submit_trial_job(form("a"))
    successor.step()
    assert cloud.count("start") == 1


def test_a_job_that_is_submitted_again_while_it_is_sought_starts_with_the_token_that_came_then(make, service, cloud,
                                                                                               clock):
    service.submit_trial_job(form("a"))  # and its server dies before it is handed over
    cloud.question_errors = [TemporaryError("away", retry_after=0.0)]
    successor = resumed(make, service, submitted=False)
    started_with = []
    successor.while_starting = lambda job: started_with.append(job.form.keeper.token)
    assert cloud.count("ask") == 1
    successor.submit_trial_job(replace(form("a"), keeper=KeeperAccess((), "secret")))
    for _ in range(5):
        step_at(successor, clock, 60)
    assert started_with == ["secret"]


def test_an_ended_job_is_listed_and_not_asked_about(make, service, cloud):
    service.submit_trial_job(form("a"))
    service.step()
    service.note("a", Observation(SUCCEEDED))
    asked = cloud.count("ask")
    successor = resumed(make, service)
    successor.step()
    assert status(successor) is SUCCEEDED
    assert cloud.count("ask") == asked


def test_a_submission_that_had_begun_and_had_arrived_is_found(make, service, cloud):
    service.submit_trial_job(form("a"))
    service.step()
    successor = resumed(make, service, submitted=False)
    cloud.jobs["a"] = Observation(RUNNING)
    successor.ask_soon()
    successor.step()
    assert status(successor) is RUNNING


def test_a_submission_that_had_not_arrived_waits_until_the_host_makes_it_again(make, service, cloud):
    service.submit_trial_job(form("a"))
    successor = resumed(make, service, submitted=False)
    successor.step()
    assert status(successor) is WAITING
    assert cloud.count("start") == 0
    successor.submit_trial_job(form("a"))
    successor.step()
    assert cloud.count("start") == 1


def test_while_it_is_unknown_whether_a_submission_arrived_a_second_one_waits(make, service, cloud, clock):
    service.submit_trial_job(form("a"))
    service.step()
    cloud.question_errors = [TemporaryError("away")] * 2
    successor = resumed(make, service, submitted=False)
    successor.submit_trial_job(form("a"))
    step_at(successor, clock, 1)
    assert cloud.count("start") == 1
    step_at(successor, clock, 2)
    assert cloud.count("start") == 1
    assert status(successor) is WAITING


def test_where_names_do_not_prevent_doubles_the_search_takes_its_time(make, service, cloud, clock, monkeypatch):
    monkeypatch.setattr(CloudService, "search_time", 10.0)
    service.submit_trial_job(form("a"))
    successor = resumed(make, service, submitted=False)
    successor.submit_trial_job(form("a"))
    step_at(successor, clock, 5)
    assert cloud.count("start") == 0
    step_at(successor, clock, 6)
    successor.step()
    assert cloud.count("start") == 1


def test_a_cancel_that_the_platform_may_not_have_heard_is_repeated_after_a_resume(make, service, cloud, clock):
    service.submit_trial_job(form("a"))
    service.step()
    cloud.stop_errors = [TemporaryError("away")]
    service.cancel_trial_job("a", True)
    successor = resumed(make, service)
    successor.step()
    assert (cloud.count("stop"), [call for call in cloud.calls if call[0] == "stop"][-1]) == (2, ("stop", "a", True))
    step_at(successor, clock, 1)
    assert status(successor) is EARLY_STOPPED


# --- the end --------------------------------------------------------------------------------


def test_clean_up_of_an_experiment_stops_removes_and_forgets_its_jobs_and_no_others(service, cloud):
    service.submit_trial_job(form("a", "one"))
    service.submit_trial_job(form("b", "one"))
    service.submit_trial_job(form("c", "two"))
    service.step()
    service.submit_trial_job(form("d", "one"))
    service.clean_up_experiment("one")
    assert [job.id for job in service.list_trial_jobs()] == ["c"]
    assert cloud.calls[-1] == ("remove", "one", "a", "b", "d")
    assert not cloud.count("stop", "c")
    service.clean_up_experiment("one")


def test_run_works_until_clean_up_and_wakes_up_for_a_submission(service, cloud):
    started = threading.Event()
    service.while_starting = lambda job: started.set()
    thread = threading.Thread(target=service.run)
    thread.start()
    service.submit_trial_job(form("a"))
    assert started.wait(90)
    service.clean_up()
    thread.join(60)
    assert not thread.is_alive()
    service.clean_up()
    with pytest.raises(TemporaryError):
        service.submit_trial_job(form("b"))
    assert cloud.count("stop") == 0


def test_a_host_that_fails_on_the_news_does_not_stop_the_service(cloud, clock, tmp_path):
    def fail(job_name):
        raise RuntimeError("the host has a defect")

    service = CloudService(cloud, ServiceContext("cluster", tmp_path, on_change=fail, clock=clock), clock)
    service.submit_trial_job(form("a"))
    service.step()
    service.note("a", Observation(SUCCEEDED))
    assert service.ended == ["a"]


def test_a_job_that_a_place_gives_back_is_started_again_and_holds_up_no_other(make, cloud):
    service = make()
    service.submit_trial_job(form("one"))
    service.step()
    service.give_back("one", TemporaryError("that machine is full"))
    assert service.get_trial_job("one").status is TrialJobStatus.WAITING
    assert service.get_trial_job("one").message == "that machine is full"
    assert service.get_trial_job("one").platform_state == {}
    service.submit_trial_job(form("two"))
    service.step()
    assert cloud.count("start", "two") == 1


def test_a_job_that_is_given_back_for_good_has_failed_with_the_reason(make, cloud):
    service = make()
    service.submit_trial_job(form("one"))
    service.step()
    service.give_back("one", PermanentError("its code is gone"))
    assert service.get_trial_job("one").status is TrialJobStatus.FAILED
    assert service.get_trial_job("one").message == "its code is gone"


def test_a_cancel_while_a_job_is_handed_over_at_once_lets_the_loop_rest_until_that_is_done(make, cloud, clock):
    service = make(AtOnceService)
    pauses = []

    def cancel_meanwhile(job):
        service.cancel_trial_job(job.id)
        pauses.append(service.step())

    service.while_starting = cancel_meanwhile
    service.submit_trial_job(form("a"))
    assert pauses == [60.0]
    assert cloud.count("stop") == 0
    service.step()
    assert cloud.count("stop", "a") == 1


def test_what_a_platform_says_again_makes_no_new_detail(service, cloud, clock):
    service.submit_trial_job(form("a"))
    step_at(service, clock, 0)
    cloud.jobs["a"] = Observation(RUNNING, machine="m1", platform_state={"node": 1})
    step_at(service, clock, 10)
    before = service.get_trial_job("a")
    assert before.status is RUNNING
    cloud.jobs["a"] = Observation(RUNNING, machine="m1", platform_state={"node": 1})
    step_at(service, clock, 60)
    assert service.get_trial_job("a") is before
    cloud.jobs["a"] = Observation(RUNNING, platform_state={"node": 2})
    step_at(service, clock, 120)
    assert (service.get_trial_job("a").machine, service.get_trial_job("a").platform_state) == ("m1", {"node": 2})
