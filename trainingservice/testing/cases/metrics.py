"""Cases: what a trial reports, and who hears it."""

from __future__ import annotations

import json
from typing import Any

from trainingservice.base import TrainingService
from trainingservice.testing.bench import Bench
from trainingservice.testing.cases.fixtures import ConformanceFixtures, needs_this_machine
from trainingservice.trial_job import TrialJobMetric
from trialkeeper import contract

HARD = """[float("nan"), float("-inf"), 1e308, {"default": 0.5, "loss": float("nan")}, [0.123456789] * 8000,
          "not a number", "nul \\x00 inside", "lone \\ud800 surrogate", None, True]"""

REPORT_HARD_VALUES = f"""
import nni
nni.get_next_parameter()
values = {HARD}
for value in values:
    nni.report_intermediate_result(value)
nni.report_final_result(values[0])
"""

REPORT_IN_TWO_STEPS = """
import os, sys, time, nni
x = nni.get_next_parameter()["x"]
nni.report_intermediate_result(x)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.02)
nni.report_intermediate_result(x + 1)
nni.report_final_result({"default": x + 2, "other": "text"})
"""


class MetricCases(ConformanceFixtures):
    def test_each_metric_is_heard_once_in_order_and_as_reported(self, bench: Bench, service: TrainingService) -> None:
        heard: list[TrialJobMetric] = []
        service.add_trial_job_metric_listener(heard.append)
        form = bench.form(script=REPORT_HARD_VALUES)
        service.submit_trial_job(form)
        bench.wait_for_end(service, form)
        values = eval(HARD)  # noqa: S307  the very text that the trial runs
        bench.wait("all metrics are heard", lambda: len(heard) >= len(values) + 1)
        metrics: list[dict[str, Any]] = [json.loads(metric.data) for metric in heard]
        assert {metric.id for metric in heard} == {form.job_name}
        assert [metric["value"] for metric in metrics] == [json.dumps(value) for value in [*values, values[0]]]
        assert [metric["type"] for metric in metrics] == ["PERIODICAL"] * len(values) + ["FINAL"]
        assert [metric["sequence"] for metric in metrics] == [*range(len(values)), 0]
        assert {metric["parameter_id"] for metric in metrics} == {form.sequence_id}
        assert [entry["value"] for entry in bench.entries(form, contract.METRIC)] == [m["value"] for m in metrics]

    def test_metrics_that_a_script_prints_are_heard_as_those_that_are_reported(self, bench: Bench,
                                                                             service: TrainingService) -> None:
        heard: list[TrialJobMetric] = []
        service.add_trial_job_metric_listener(heard.append)
        form = bench.form("for i in 1 2 3; do echo step $i loss=0.$i acc={x}; done; echo '{x}' $NNI_PARAM_X", metrics={
            "stdout": r"step (?P<step>\d+) loss=(?P<loss>\S+) acc=(?P<acc>\S+)", "result": "acc", "final": "best"})
        service.submit_trial_job(form)
        bench.wait_for_end(service, form)
        bench.wait("all metrics are heard", lambda: len(heard) >= 4)
        metrics: list[dict[str, Any]] = [json.loads(metric.data) for metric in heard]
        assert [json.loads(metric["value"]) for metric in metrics] == [
            {"default": 0.5, "loss": loss} for loss in (0.1, 0.2, 0.3, 0.1)]
        assert [metric["type"] for metric in metrics] == ["PERIODICAL"] * 3 + ["FINAL"]
        assert [metric["sequence"] for metric in metrics] == [0, 1, 2, 0]
        assert {metric["parameter_id"] for metric in metrics} == {form.sequence_id}
        assert bench.output(form).endswith("0.5 0.5\n")

    def test_listeners_come_and_go_and_may_fail(self, bench: Bench, service: TrainingService) -> None:
        needs_this_machine(bench)
        first: list[str] = []
        second: list[str] = []
        broken: list[str] = []

        def listen_first(metric: TrialJobMetric) -> None:
            first.append(json.loads(metric.data)["value"])

        def listen_second(metric: TrialJobMetric) -> None:
            second.append(json.loads(metric.data)["value"])

        def listen_and_fail(metric: TrialJobMetric) -> None:
            broken.append(metric.id)
            raise ValueError("a listener that fails")

        def never_added(metric: TrialJobMetric) -> None:
            raise AssertionError(f"was never added, but hears {metric}")

        service.remove_trial_job_metric_listener(never_added)
        for listener in (listen_and_fail, listen_first, listen_first, listen_second):
            service.add_trial_job_metric_listener(listener)
        go = bench.witness / "go"
        form = bench.form(f'{bench.platform.python} trial.py "{go}"', script=REPORT_IN_TWO_STEPS)
        service.submit_trial_job(form)
        bench.wait("the first metric is heard", lambda: first and second)
        service.remove_trial_job_metric_listener(listen_second)
        service.remove_trial_job_metric_listener(listen_second)
        go.touch()
        bench.wait_for_end(service, form)
        bench.wait("the other metrics are heard", lambda: len(first) >= 3)
        assert first == ["0.5", "1.5", '{"default": 2.5, "other": "text"}']
        assert second == ["0.5"]
        assert broken == [form.job_name] * 3

    def test_output_of_both_streams_arrives(self, bench: Bench, service: TrainingService) -> None:
        form = bench.form("echo to stdout; echo to stderr >&2; printf 'no newline at the end'")
        service.submit_trial_job(form)
        bench.wait_for_end(service, form)
        assert bench.output(form) == "to stdout\nno newline at the end"
        assert bench.output(form, "stderr") == "to stderr\n"
