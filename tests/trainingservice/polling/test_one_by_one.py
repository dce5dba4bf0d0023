"""A job that cannot be asked about holds up no other."""

from types import SimpleNamespace

import pytest

from trainingservice.errors import TemporaryError
from trainingservice.polling.job_record import Observation
from trainingservice.polling.one_by_one import OneByOne
from trainingservice.trial_job_status import TrialJobStatus

SEEN = Observation(TrialJobStatus.RUNNING, message="")


class Platform:
    def __init__(self) -> None:
        self.faulty: set[str] = set()
        self.asked: list[str] = []

    def __call__(self, job):
        self.asked.append(job.id)
        if job.id == "odd":
            raise AttributeError("'NoneType' object has no attribute 'get'")
        if job.id in self.faulty:
            raise TemporaryError("HTTP 500")
        return {} if job.id == "silent" else {job.id: SEEN}


@pytest.fixture
def platform():
    return Platform()


def jobs(*names):
    return [SimpleNamespace(id=name) for name in names]


def test_one_whose_question_fails_is_asked_about_after_the_others(platform):
    platform.faulty = {"a"}
    each = OneByOne()
    with pytest.raises(TemporaryError):
        each.ask(jobs("a", "b", "c"), platform)
    assert platform.asked == ["a"], "the platform may be away"
    for _ in range(2):
        platform.asked.clear()
        assert each.ask(jobs("a", "b", "c"), platform) == {"b": SEEN, "c": SEEN}
        assert platform.asked == ["b", "c", "a"]
    platform.faulty = set()
    each.ask(jobs("a", "b"), platform)
    platform.asked.clear()
    assert each.ask(jobs("a", "b"), platform) == {"a": SEEN, "b": SEEN}
    assert platform.asked == ["a", "b"], "it is like the others again"


def test_several_faulty_ones_come_last(platform):
    platform.faulty = {"a", "c"}
    each = OneByOne()
    with pytest.raises(TemporaryError):
        each.ask(jobs("a", "b", "c", "d"), platform)
    assert set(each.ask(jobs("a", "b", "c", "d"), platform)) == {"b"}
    assert set(each.ask(jobs("a", "b", "c", "d"), platform)) == {"b", "d"}


def test_of_a_job_that_nothing_is_said_of_there_is_no_answer(platform):
    assert OneByOne().ask(jobs("silent", "a"), platform) == {"a": SEEN}
    assert OneByOne().ask([], platform) == {}


def test_what_is_not_understood_of_one_job_hides_no_other(platform, caplog):
    each = OneByOne()
    for _ in range(2):
        assert each.ask(jobs("odd", "a"), platform) == {"a": SEEN}
    assert platform.asked == ["odd", "a", "a", "odd"]
    assert caplog.text.count("what is said of job odd is not understood") == 1
    with pytest.raises(AttributeError):
        each.ask(jobs("odd"), platform)
