"""The suites find a cluster that is named in the environment; the double stands for it here."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fakes.kubernetes.api import KubernetesApiDouble
from tests.fakes.kubernetes.framework import FRAMEWORK_KINDS, FrameworkController
from tests.fakes.kubernetes.kubeflow import KUBEFLOW_KINDS, kubeflow_controllers

REPOSITORY = Path(__file__).parents[3]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("suite", "operator"), [
    ("RealKubernetes", ""), ("RealKubeflow", "tf-operator"), ("RealKubeflow", "pytorch-operator"),
    ("RealFrameworkController", "")], ids=["jobs", "tfjobs", "pytorchjobs", "frameworks"])
def test_the_suite_runs_on_the_cluster_that_the_environment_names(tmp_path, suite: str, operator: str) -> None:
    with KubernetesApiDouble(tmp_path / "cluster", kinds={**KUBEFLOW_KINDS, **FRAMEWORK_KINDS},
                             controllers=[*kubeflow_controllers(), FrameworkController()]) as cluster:
        environment = {**os.environ, "NNIWEB_TEST_KUBECONFIG": str(cluster.kubeconfig), "NNIWEB_TEST_HOST": "127.0.0.1",
                       **({"NNIWEB_TEST_OPERATOR": operator} if operator else {})}
        result = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-n", "0", "-k", f"Test{suite} and (metric or clean)",
             "tests/trainingservice/conformance/test_conformance_kubernetes.py",
             "tests/trainingservice/conformance/test_conformance_kubeflow.py",
             "tests/trainingservice/conformance/test_conformance_frameworkcontroller.py"],
            cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=600, check=False)
        assert result.returncode == 0, result.stdout[-4000:]
        left = [item["metadata"]["name"] for plural in ("secrets", "jobs", "tfjobs", "pytorchjobs", "frameworks")
                for item in cluster.store.all(plural)]
        assert left == [], "the suite leaves a cluster that is not its own as it was"
        assert " passed" in result.stdout
        created = {path.rpartition("/")[2] for method, path, status in cluster.requests
                   if (method, status) == ("POST", 201)}
        assert {"": "jobs", "tf-operator": "tfjobs", "pytorch-operator": "pytorchjobs"}.get(
            operator if suite != "RealFrameworkController" else "-", "frameworks") in created


@pytest.mark.slow
def test_their_words_on_the_command_line_select_nothing_that_runs_on_the_double(tmp_path) -> None:
    environment = {**os.environ, "NNIWEB_TEST_HOST": "127.0.0.1",
                   "NNIWEB_TEST_KUBECONFIG": str(tmp_path / "kubeconfig")}
    suites = ["RealKubernetes", "RealKubeflow", "RealFrameworkController"]
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "0", "--collect-only", "-k", " or ".join(suites),
         "tests/trainingservice"], cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=300,
        check=False)
    selected = {line.split("::")[1] for line in result.stdout.splitlines() if "::" in line}
    assert selected == {f"Test{suite}" for suite in suites}, result.stdout[-2000:]
