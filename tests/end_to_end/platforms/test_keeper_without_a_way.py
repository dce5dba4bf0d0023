"""A trial whose keeper was given a wrong address says so on its page, and is stopped without long waits."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nniweb.experiments.checkpoints.checkpoint_settings import DEFAULT_GRACE
from tests.end_to_end.running_server import RunningServer, free_port
from tests.fakes.kubernetes.api import KubernetesApiDouble
from trainingservice.kubernetes_base.pod_template import TIME_TO_DELIVER
from trainingservice.trial_job import TIME_TO_SEND


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_its_trial_says_which_address_it_was_given_and_stops_soon(make_server: Callable[..., RunningServer],
                                                                  tmp_path: Path) -> None:
    code = tmp_path / "code"
    code.mkdir()
    with KubernetesApiDouble(tmp_path / "cluster") as cluster:
        wrong = f"http://127.0.0.1:{free_port()}"
        server = make_server().start(env={"NNIWEB_PUBLIC_URL": wrong})
        experiment = server.launch({
            "trialCommand": "sleep 600", "trialConcurrency": 1, "maxTrialNumber": 1,
            "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}}, "tuner": {"name": "Random"},
            "trainingService": {"platform": "kubernetes", "kubeconfig": str(cluster.kubeconfig),
                                "worker": {"dockerImage": "example/trial:1"}}}, code)

        def trials() -> list[dict[str, Any]]:
            return server.get_all(f"experiments/{experiment}/trials/")

        server.wait_until(lambda: trials() and trials()[0]["status"] == "RUNNING", 120, "the platform runs it")
        trial = trials()[0]["id"]
        advice = server.wait_until(lambda: server.get(f"trials/{trial}/")["advice"], 60, "it says what is wrong")
        assert [(piece["code"], piece["arguments"]["addresses"]) for piece in advice] == [("keeper_not_heard", [wrong])]
        assert "Connection refused" in advice[0]["arguments"]["last_lines"]
        begin = time.monotonic()
        server.post(f"trials/{trial}/actions/cancel/")
        server.wait_until(lambda: trials()[0]["status"] == "USER_CANCELED", 120, "it is stopped")
        # the pod may send a last checkpoint until then: checkpoints are kept unless the experiment says otherwise
        longest = DEFAULT_GRACE + TIME_TO_SEND + TIME_TO_DELIVER
        assert time.monotonic() - begin < longest + 20
