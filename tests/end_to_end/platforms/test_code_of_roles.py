"""Roles with code of their own through the whole server: launched, failed and run again, cloned, and from Git."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.running_server import RunningServer
from tests.fakes.git_server import GitServer
from tests.fakes.kubernetes.api import KubernetesApiDouble
from tests.fakes.kubernetes.framework import FRAMEWORK_KINDS, FrameworkController
from tests.fakes.kubernetes.kubeflow import KUBEFLOW_KINDS, kubeflow_controllers

IMAGE = "example/trial:1"
#: The first attempt finds nothing to read, and fails; the server's role leaves it for the next one.
TRAIN = '''\
import os, pathlib, sys, time
said = pathlib.Path(sys.argv[1])
while not said.exists():
    time.sleep(0.05)
first = said.with_suffix(".first")
if not first.exists():
    first.touch()
    raise SystemExit(3)
print(sorted(os.listdir()), said.read_text())
'''
SERVE = '''\
import os, pathlib, sys, time
draft = pathlib.Path(sys.argv[1] + ".draft")
draft.write_text(str(sorted(os.listdir())))
draft.rename(sys.argv[1])
time.sleep(600)
'''
SAW = "['train.py'] ['serve.py']\n"


@contextmanager
def kubeflow(folder: Path, said: Path) -> Iterator[dict[str, Any]]:
    with KubernetesApiDouble(folder, controllers=kubeflow_controllers(), kinds=KUBEFLOW_KINDS) as cluster:
        yield {"platform": "kubeflow", "operator": "tf-operator", "kubeconfig": str(cluster.kubeconfig),
               "worker": {"dockerImage": IMAGE, "command": f"python3 train.py {said}", "codeDirectory": "learn"},
               "ps": {"dockerImage": IMAGE, "command": f"python3 serve.py {said}", "codeDirectory": "serve"}}


@contextmanager
def frameworkcontroller(folder: Path, said: Path) -> Iterator[dict[str, Any]]:
    with KubernetesApiDouble(folder, controllers=[FrameworkController()], kinds=FRAMEWORK_KINDS) as cluster:
        yield {"platform": "frameworkcontroller", "kubeconfig": str(cluster.kubeconfig), "taskRoles": [
            {"name": "ps", "taskNumber": 1, "dockerImage": IMAGE, "command": f"python3 serve.py {said}",
             "codeDirectory": "serve"},
            {"name": "worker", "taskNumber": 1, "dockerImage": IMAGE, "command": f"python3 train.py {said}",
             "codeDirectory": "learn"}]}


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("platform", [kubeflow, frameworkcontroller], ids=lambda make: make.__name__)
def test_each_role_runs_in_its_folder_also_again_and_as_a_clone_and_from_git(
        make_server: Callable[..., RunningServer], tmp_path: Path, platform) -> None:
    said = tmp_path / "said"
    code = {"learn/train.py": TRAIN, "serve/serve.py": SERVE, "notes.txt": "of nobody"}
    for name, content in code.items():
        (tmp_path / "code" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "code" / name).write_text(content)
    with platform(tmp_path / "cluster", said) as section, GitServer(tmp_path / "git") as git:
        git.commit("code", code)
        server = make_server()
        server.start(env={"NNIWEB_PUBLIC_URL": server.url, "NNIWEB_GIT_PRIVATE_ADDRESSES": "1",
                          "GIT_SSL_CAINFO": str(git.certificate)})
        config = {"trialConcurrency": 1, "maxTrialNumber": 1, "retry": {"onFailure": 1},
                  "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}}, "tuner": {"name": "Random"},
                  "trainingService": section}
        assert output_of(server, server.launch(config, tmp_path / "code"), said) == SAW
        launched, *_ = server.get_all("experiments/")
        cloned = server.get(f"experiments/{launched['id']}/clone/")
        assert cloned["code_of"] == launched["id"]
        again = server.post("experiments/", {"config": cloned["config"], "code_of": launched["id"]})
        assert output_of(server, again["id"], said) == SAW
        fetched = server.post("experiments/", {"config": config, "git_url": git.url("code")})
        assert output_of(server, fetched["id"], said) == SAW


def output_of(server: RunningServer, experiment: str, said: Path) -> str:
    """What the trial wrote in its second attempt; the first one failed."""
    server.wait_for_experiment(experiment, patience=120)
    [trial] = server.get_all(f"experiments/{experiment}/trials/")
    assert (trial["status"], trial["attempt"]) == ("SUCCEEDED", 2), trial
    for path in said.parent.glob("said*"):
        path.unlink()
    text: str = server.request("GET", f"trials/{trial['id']}/output/text/", params={"stream": "stdout"}).text
    return text
