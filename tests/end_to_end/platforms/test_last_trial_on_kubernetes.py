"""What the cluster says of a trial after its keeper's last word is not lost where no trial follows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.end_to_end.running_server import RunningServer
from tests.fakes.kubernetes.api import KubernetesApiDouble


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_the_last_trial_of_an_experiment_says_that_it_ran_out_of_memory(
        make_server: Callable[..., RunningServer], tmp_path: Path) -> None:
    code, go = tmp_path / "code", tmp_path / "go"
    code.mkdir()
    with KubernetesApiDouble(tmp_path / "cluster") as cluster:
        cluster.node.status_lag = 2.5  # the kubelet's word comes when the experiment has ended
        server = make_server()
        server.start(env={"NNIWEB_PUBLIC_URL": server.url})
        experiment = server.launch({
            "trialCommand": f"touch '{tmp_path}/begun'; until [ -e '{go}' ]; do sleep 0.1; done; kill -9 $$",
            "trialConcurrency": 1, "maxTrialNumber": 1,
            "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}}, "tuner": {"name": "Random"},
            "trainingService": {"platform": "kubernetes", "kubeconfig": str(cluster.kubeconfig),
                                "worker": {"dockerImage": "example/trial:1"}}}, code)
        server.wait_until(lambda: (tmp_path / "begun").exists(), 120, "the trial runs")
        [pod] = cluster.store.all("pods")
        cluster.node.out_of_memory(pod["metadata"]["name"])
        go.touch()
        server.wait_for_experiment(experiment, patience=120)

        def message() -> str:
            [trial] = server.get_all(f"experiments/{experiment}/trials/")
            return str(trial["message"])

        server.wait_until(lambda: "raise memorySize" in message(), 20, "the trial says that it had too little memory")
