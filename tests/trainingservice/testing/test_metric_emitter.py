"""A service that reads metrics itself does so only while somebody listens."""

from trainingservice.base import ServiceContext
from trainingservice.testing.misbehaving import DocileSettings, DocileTrainingService
from trainingservice.trial_job import TrialJobMetric


class ReadingService(DocileTrainingService):
    def open_metric_emitter(self) -> None:
        self.calls.append("open")

    def close_metric_emitter(self) -> None:
        self.calls.append("close")


def test_the_first_listener_starts_it_and_the_last_one_that_leaves_ends_it(tmp_path) -> None:
    service = ReadingService(DocileSettings(), ServiceContext("cluster", tmp_path))

    def one(metric: TrialJobMetric) -> None: ...

    def two(metric: TrialJobMetric) -> None: ...

    service.remove_trial_job_metric_listener(one)
    for listener in (one, two, one):
        service.add_trial_job_metric_listener(listener)
    assert service.calls == ["open"]
    service.remove_trial_job_metric_listener(one)
    assert service.calls == ["open"]
    for _ in range(2):
        service.remove_trial_job_metric_listener(two)
    assert service.calls == ["open", "close"]
    service.add_trial_job_metric_listener(one)
    assert service.calls == ["open", "close", "open"]
