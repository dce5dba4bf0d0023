"""Multiruns of Hydra as experiments: the script and the command of docs/optuna-and-hydra.md, with the real Hydra."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.running_server import ROOT, RunningServer

pytestmark = [pytest.mark.slow, pytest.mark.skipif(importlib.util.find_spec("hydra") is None, reason=(
    "hydra-core is not installed, and multiruns are tried with it"))]

PAGE = (ROOT / "docs" / "optuna-and-hydra.md").read_text()
FILES = dict(re.findall(r"^<!-- (train\.py|experiment\.yml) -->\n```\w+\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
[COMMAND] = re.findall(r"^<!-- run -->\n```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def code(tmp_path: Path) -> Path:
    folder = tmp_path / "code"
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text)
    (folder / "conf.yaml").write_text("x: 0\nmodel: {name: small}\n")
    return folder


def multirun(command: str, code: Path, server: RunningServer) -> subprocess.Popen[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("NNIWEB_", "DJANGO_", "NNI_"))}
    return subprocess.Popen(["sh", "-ec", command], cwd=code, text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, start_new_session=True, env={
                                **kept, "PYTHONPATH": str(ROOT), "NNIWEB_SERVER": server.url, "HYDRA_FULL_ERROR": "1",
                                "NNIWEB_TOKEN": server.token,
                                "PATH": os.pathsep.join([str(Path(sys.executable).parent), kept["PATH"]])})


def ended(process: subprocess.Popen[str], status: int = 0) -> str:
    try:
        output, _ = process.communicate(timeout=240)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, 9)
    assert process.returncode == status, output
    return output


def the_experiment(server: RunningServer) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    [experiment] = server.get_all("experiments/")
    trials = server.get_all(f"experiments/{experiment['id']}/trials/")
    return server.get(f"experiments/{experiment['id']}/"), sorted(trials, key=lambda trial: trial["sequence_id"])


def test_the_jobs_of_a_multirun_are_trials_and_what_they_return_are_results(
        running_server: RunningServer, code: Path) -> None:
    output = ended(multirun(COMMAND, code, running_server))
    running_server.wait_until(lambda: the_experiment(running_server)[0]["status"] == "DONE")
    experiment, trials = the_experiment(running_server)
    assert experiment["name"] == "train"
    assert f"The jobs are trials of {running_server.url}/experiments/{experiment['id']}/" in output
    assert [(trial["parameters"], trial["final_number"]) for trial in trials] == [
        ({"x": x, "model.name": name}, (x - 3) ** 2 + (name == "large"))
        for x in (1, 2, 3.5) for name in ("small", "large")]
    assert experiment["search_space"] == {"x": {"_type": "uniform", "_value": [1, 3.5]},
                                          "model.name": {"_type": "choice", "_value": ["small", "large"]}}
    assert not list((code / "sweep").glob("*/.hydra")), "the jobs ran in the folders of their trials"


def test_batches_widen_the_search_space_and_a_killed_multirun_goes_on(
        running_server: RunningServer, code: Path) -> None:
    command = COMMAND.replace("hydra.sweep.dir", "hydra.sweeper.max_batch_size=2 hydra.sweep.dir")
    first = multirun(command, code, running_server)

    def some_are_done() -> bool:
        assert first.poll() is None, first.communicate()[0]
        return bool(running_server.get_all("experiments/")) and sum(
            trial["status"] == "SUCCEEDED" for trial in the_experiment(running_server)[1]) >= 3
    try:
        running_server.wait_until(some_are_done, what="the second batch runs")
    finally:
        os.killpg(first.pid, 9)
        first.communicate()
    assert "Going on with" in ended(multirun(command, code, running_server))
    running_server.wait_until(lambda: the_experiment(running_server)[0]["status"] == "DONE")
    _, trials = the_experiment(running_server)
    assert [trial["parameters"]["x"] for trial in trials] == [1, 1, 2, 2, 3.5, 3.5]
    assert {trial["status"] for trial in trials} == {"SUCCEEDED"}


def test_a_sweeper_gets_what_was_returned_and_a_job_that_fails_fails_the_multirun(
        running_server: RunningServer, code: Path) -> None:
    (code / "train.py").write_text(FILES["train.py"].replace(
        "    return (", "    if cfg.x == 2:\n        raise OSError('the disk')\n    return 7, ("))
    (code / "sweep_and_print.py").write_text(
        "import sys\nfrom hydra.core.plugins import Plugins\ninstantiate = Plugins.instantiate_launcher\n"
        "def instantiate_telling(*args, **kwargs):\n"
        "    launcher = instantiate(*args, **kwargs)\n    launch = launcher.launch\n"
        "    def told(*args, **named):\n        jobs = launch(*args, **named)\n"
        "        print([job._return_value if job.status.name == 'COMPLETED' else job.status.name for job in jobs])\n"
        "        print(jobs[0].cfg, jobs[0].overrides, jobs[0].hydra_cfg.hydra.job.num)\n        return jobs\n"
        "    launcher.launch = told\n    return launcher\n"
        "Plugins.instantiate_launcher = instantiate_telling\n"
        "sys.argv = sys.argv[1:]\nexec(open('train.py').read())\n")
    command = COMMAND.replace("python3 train.py", "python3 sweep_and_print.py train.py")
    output = ended(multirun(command, code, running_server), status=1)
    assert "[(7.0, 4.0), (7.0, 5.0), 'FAILED', 'FAILED', (7.0, 0.25), (7.0, 1.25)]" in output
    assert "{'x': 1, 'model': {'name': 'small'}} ['x=1', 'model.name=small'] 0" in output
    assert re.search(r"RuntimeError: Job 2 has no result: its trial 2 is FAILED\. See http://.*/experiments/", output)
    running_server.wait_until(lambda: the_experiment(running_server)[0]["status"] == "DONE")
    experiment, trials = the_experiment(running_server)
    assert [trial["final_number"] for trial in trials] == [7, 7, None, None, 7, 7]
    assert experiment["outcome"] == "partly_failed"
