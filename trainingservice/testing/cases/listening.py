"""Cases of services without keepers, as NNI's are: what their listeners hear, and what they say of their jobs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trainingservice.base import TrainingService
from trainingservice.errors import UnknownTrialJob
from trainingservice.testing.bench import Bench
from trainingservice.testing.cases.fixtures import ConformanceFixtures
from trainingservice.testing.cases.metrics import HARD, REPORT_HARD_VALUES
from trainingservice.trial_job import TrialJobMetric
from trainingservice.trial_job_status import TrialJobStatus

SUCCEEDED, FAILED = TrialJobStatus.SUCCEEDED, TrialJobStatus.FAILED


class ListeningCases(ConformanceFixtures):
    def test_each_metric_is_heard_once_in_order_and_before_its_job_is_shown_as_ended(
            self, bench: Bench, service: TrainingService) -> None:
        heard: list[tuple[TrialJobMetric, bool]] = []

        def listen(metric: TrialJobMetric) -> None:
            heard.append((metric, service.get_trial_job(metric.id).status.is_end))

        service.add_trial_job_metric_listener(listen)
        service.add_trial_job_metric_listener(listen)
        forms = [bench.form(script=REPORT_HARD_VALUES) for _ in range(2)]
        for form in forms:
            service.submit_trial_job(form)
        for form in forms:
            bench.wait_for_status(service, form, SUCCEEDED)
        values = eval(HARD)  # noqa: S307  the very text that the trial runs
        for form in forms:
            metrics: list[dict[str, Any]] = [
                json.loads(metric.data) for metric, _ in heard if metric.id == form.job_name]
            assert [metric["value"] for metric in metrics] == [json.dumps(value) for value in [*values, values[0]]]
            assert [metric["type"] for metric in metrics] == ["PERIODICAL"] * len(values) + ["FINAL"]
            assert [metric["sequence"] for metric in metrics] == [*range(len(values)), 0]
            assert {metric["parameter_id"] for metric in metrics} == {form.sequence_id}
        assert not any(had_ended for _, had_ended in heard), "a trial ends with the results that were heard by then"

    def test_a_listener_that_was_removed_hears_nothing(self, bench: Bench, service: TrainingService) -> None:
        heard: list[TrialJobMetric] = []
        removed: list[TrialJobMetric] = []
        service.remove_trial_job_metric_listener(removed.append)
        first = removed.append
        service.add_trial_job_metric_listener(first)
        service.add_trial_job_metric_listener(heard.append)
        service.remove_trial_job_metric_listener(first)
        form = bench.form(script="import nni; nni.get_next_parameter(); nni.report_final_result(1)")
        service.submit_trial_job(form)
        bench.wait_for_status(service, form, SUCCEEDED)
        assert (len(heard), removed) == (1, [])

    def test_a_job_says_when_it_began_and_ended_and_how(self, bench: Bench, service: TrainingService) -> None:
        good, bad = bench.form("sleep 0.5"), bench.form("exit 3")
        for form in (good, bad):
            assert service.submit_trial_job(form).id == form.job_name
        detail = bench.wait_for_status(service, good, SUCCEEDED)
        assert detail.start_time is not None
        assert detail.end_time is not None
        assert detail.submit_time <= detail.start_time <= detail.end_time - 0.4
        failed = bench.wait_for_status(service, bad, FAILED)
        assert failed.exit_code in (3, None), "its own exit code, where the service knows it"
        assert {job.id for job in service.list_trial_jobs()} >= {good.job_name, bad.job_name}

    @pytest.mark.parametrize("early", [False, True])
    def test_a_job_that_is_canceled_ends_with_all_its_processes(self, bench: Bench, service: TrainingService,
                                                                early: bool) -> None:
        form = bench.form("sleep 300 & sleep 300")
        service.submit_trial_job(form)
        bench.wait_for_status(service, form, TrialJobStatus.RUNNING)
        for _ in range(2):
            service.cancel_trial_job(form.job_name, early)
        bench.wait_for_status(service, form, TrialJobStatus.EARLY_STOPPED if early else TrialJobStatus.USER_CANCELED)
        if bench.platform.runs_here:
            bench.wait("its processes have ended", lambda: not bench.trial_processes(form))
        service.cancel_trial_job(form.job_name, not early)
        assert service.get_trial_job(form.job_name).status.is_end

    def test_a_job_that_nobody_submitted_is_not_known(self, service: TrainingService) -> None:
        with pytest.raises(UnknownTrialJob):
            service.get_trial_job("t00000000000")
        with pytest.raises(UnknownTrialJob):
            service.cancel_trial_job("t00000000000")

    def test_metrics_that_are_emitted_need_no_keeper(self, bench: Bench, service: TrainingService) -> None:
        assert not service.keepers_report
        form = bench.form(script="import nni; nni.get_next_parameter(); nni.report_final_result(1)")
        service.submit_trial_job(form)
        bench.wait_for_status(service, form, SUCCEEDED)
        assert bench.entries(form) == []
