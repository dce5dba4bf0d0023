"""Files of NNI 1.0 to 1.6 for OpenPAI, as they were written then, on today's clusters: from launch to results."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.end_to_end.running_server import RunningServer
from tests.fakes.openpai.cluster import OpenPaiCluster

TRIAL = """
import nni
from helper import double
parameters = nni.get_next_parameter()
for step in range(3):
    nni.report_intermediate_result(step)
nni.report_final_result(double(parameters["x"]))
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[OpenPaiCluster]:
    cluster = OpenPaiCluster(tmp_path / "cluster").start()
    yield cluster
    cluster.end()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "train.py").write_text(TRIAL)
    (folder / "helper.py").write_text("def double(x):\n    return 2 * x\n")
    (folder / "search_space.json").write_text(json.dumps({"x": {"_type": "uniform", "_value": [1, 2]}}))
    return folder


def old_file(cluster: OpenPaiCluster, server: RunningServer, platform: str, **trial: Any) -> dict[str, Any]:
    return {
        "authorName": "ada", "experimentName": "old", "trialConcurrency": 2, "maxExecDuration": "1h", "maxTrialNum": 3,
        "trainingServicePlatform": platform, "searchSpacePath": "search_space.json", "useAnnotation": False,
        "nniManagerIp": f"127.0.0.1:{server.port}",
        "tuner": {"builtinTunerName": "Random"},
        "trial": {"command": "python3 train.py", "codeDir": ".", "gpuNum": 0, "cpuNum": 1, "memoryMB": 8196,
                  "shmMB": 2048, "image": "example/trial:1", "virtualCluster": "default", **trial},
        f"{platform}Config": {"userName": cluster.user, "passWord": cluster.password, "host": cluster.address}}


def results_of(server: RunningServer, config: dict[str, Any], folder: Path) -> list[dict[str, Any]]:
    """Launch, and wait for the end: the trials."""
    launched = server.post("experiments/", {"config": yaml.safe_dump(config), "base_directory": str(folder)})
    address = f"experiments/{launched['id']}/"
    server.wait_until(lambda: server.get(address)["status"] in ("DONE", "ERROR"), 180, "the experiment ends")
    trials: list[dict[str, Any]] = server.get(f"{address}trials/")["results"]
    assert [(trial["status"], trial["message"]) for trial in trials] == [("SUCCEEDED", "")] * 3
    return trials


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("platform", ["pai", "paiYarn"])
def test_without_a_storage_the_code_comes_from_this_server(
        make_server: Callable[..., RunningServer], cluster: OpenPaiCluster, folder: Path, platform: str) -> None:
    server = make_server().start()
    trials = results_of(server, old_file(cluster, server, platform), folder)
    assert [trial["intermediate_count"] for trial in trials] == [3] * 3
    assert all(trial["final_number"] == pytest.approx(2 * trial["parameters"]["x"]) for trial in trials)
    assert [job.mounted for job in cluster.jobs.values()] == [[]] * 3
    roles = [job.document["taskRoles"]["taskrole"] for job in cluster.jobs.values()]
    assert [role["extraContainerOptions"] for role in roles] == [{"shmMB": 2048}] * 3


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_with_the_plugin_of_nni_1_4_the_accounts_default_storage_is_used(
        make_server: Callable[..., RunningServer], cluster: OpenPaiCluster, folder: Path) -> None:
    cluster.default_storages = {"shared"}
    server = make_server().start()
    trials = results_of(server, old_file(
        cluster, server, "pai", paiStoragePlugin="teamwise_storage", nniManagerNFSMountPath=str(cluster.export),
        containerNFSMountPath=str(cluster.mount)), folder)
    assert all(trial["final_number"] == pytest.approx(2 * trial["parameters"]["x"]) for trial in trials)
    assert [[one["name"] for one in job.mounted] for job in cluster.jobs.values()] == [["shared"]] * 3


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_where_the_cluster_cannot_call_the_server_the_launch_says_so(
        make_server: Callable[..., RunningServer], cluster: OpenPaiCluster, folder: Path) -> None:
    server = make_server().start()
    config = old_file(cluster, server, "pai")
    del config["nniManagerIp"]
    answer = server.request("POST", "experiments/", json={"config": yaml.safe_dump(config),
                                                          "base_directory": str(folder)})
    assert answer.status_code == 400
    [error] = answer.json()["errors"]
    assert error["field"] == "nniManagerIp"
