"""A real server sends traces to a collector, and goes on as before when that is gone."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from tests.end_to_end.running_server import ROOT, RunningServer
from tests.fakes.otlp_receiver import OtlpReceiver

QUADRATIC = ROOT / "examples" / "quadratic"


def config(trials: int) -> dict[str, Any]:
    return {**yaml.safe_load((QUADRATIC / "config.yml").read_text()), "maxTrialNumber": trials, "trialConcurrency": 2}


@pytest.mark.slow
def test_each_trial_of_a_server_is_a_trace_and_without_the_collector_the_next_experiment_runs_as_well(
        make_server: Callable[..., RunningServer]) -> None:
    with OtlpReceiver() as collector:
        server = make_server({"NNIWEB_TRACES": "1", "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
                              "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20s3cr3t",
                              "OTEL_BSP_SCHEDULE_DELAY": "200"}).start()
        experiment = server.launch(config(3), QUADRATIC)
        server.wait_for_experiment(experiment)
        trials = [trial["id"] for trial in server.get_all(f"experiments/{experiment}/trials/")]
        server.wait_until(lambda: len(collector.named("trial")) == 3, what="all trials are traces")

        assert {span.attributes["nniweb.trial.id"] for span in collector.named("trial")} == set(trials)
        [launch] = collector.named("launch")
        for whole in collector.named("trial"):
            assert whole.links == ((launch.trace_id, launch.span_id),)
            below = {span.name for span in collector.spans if span.parent_id == whole.span_id}
            assert {"submit", "start", "report", "wait", "run"} <= below
            assert {span.trace_id for span in collector.spans if span.parent_id == whole.span_id} == {whole.trace_id}
        assert {"tell", "round"} <= {span.name for span in collector.spans}
        assert {headers["authorization"] for headers in collector.headers} == {"Bearer s3cr3t"}
        assert "s3cr3t" not in server.log_file.read_text()

    experiment = server.launch(config(3), QUADRATIC)
    server.wait_for_experiment(experiment)
    assert {trial["status"] for trial in server.get_all(f"experiments/{experiment}/trials/")} == {"SUCCEEDED"}
    began = time.monotonic()
    server.stop()
    assert time.monotonic() - began < 60
    assert server.log_file.read_text().count("Failed to export") < 10
