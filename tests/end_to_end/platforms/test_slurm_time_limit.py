"""A real Slurm ends jobs at their time limit. A trial goes on after it if it saved a checkpoint in that attempt."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.running_server import RunningServer
from tests.fakes.slurm_cluster import SlurmCluster

#: Runs until Slurm tells it to end. argv: "saves", and it takes then 3 s to save all it has; or anything else. Further
#: attempts, which find a checkpoint, end at once.
TRIAL = """\
import signal, sys, time, nni
nni.get_next_parameter()
found = nni.load_checkpoint()
told_to_end = []
signal.signal(signal.SIGTERM, lambda *_: told_to_end.append(True))
if found is None:
    nni.report_intermediate_result(0.0)
    while not told_to_end:
        time.sleep(0.05)
    if sys.argv[1] == "saves":
        time.sleep(3)
        with nni.save_checkpoint(step=0) as path, open(path, "w") as file:
            file.write("all of it")
    sys.exit(1)
with open(found) as file:
    assert file.read() == "all of it"
nni.report_intermediate_result(1.0)
nni.report_final_result(7.0)
"""


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_trial_goes_on_after_a_time_limit_only_if_it_saved_a_checkpoint(make_server: Callable[..., RunningServer],
                                                                          tmp_path: Path) -> None:
    """Slurm's shortest limit is a minute, which it checks each half minute: both trials wait for it together."""
    code, shared = tmp_path / "code", tmp_path / "shared"
    for folder in (code, shared):
        folder.mkdir()
    (code / "trial.py").write_text(TRIAL)
    with SlurmCluster() as cluster:
        server = make_server({"SLURM_CONF": str(cluster.config)})
        server.start(env={"NNIWEB_PUBLIC_URL": server.url})

        def launch(does: str) -> str:
            return server.launch({
                "trialCommand": f"exec python3 trial.py {does}", "trialConcurrency": 1, "maxTrialNumber": 1,
                "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}}, "tuner": {"name": "Random"},
                "retry": {"onPlatformFailure": 3}, "trainingService": {
                    "platform": "slurm", "workingFolder": str(shared), "channel": "http", "timeLimit": "1"}}, code)

        def trial(experiment: str) -> dict[str, Any]:
            return next(iter(server.get_all(f"experiments/{experiment}/trials/")), {})

        saves, does_not = launch("saves"), launch("does-not")
        for experiment in (saves, does_not):
            server.wait_until(lambda one=experiment: trial(one).get("status") == "RUNNING", 120, "both run")
        assert set(cluster.command("squeue", "-h", "-o", "%l").split()) == {"1:00"}
        for experiment in (saves, does_not):
            server.wait_for_experiment(experiment, patience=240)
        gone_on, ended = trial(saves), trial(does_not)
        assert (gone_on["status"], gone_on["attempt"], gone_on["final_number"]) == ("SUCCEEDED", 2, 7.0), gone_on
        events = server.get(f"trials/{gone_on['id']}/events/")["results"]
        assert 'It went on from the checkpoint "step-0" (step 0) of attempt 1.' in [
            event["message"] for event in events], events
        series, = server.get(f"experiments/{saves}/series/", trials=gone_on["id"], points=400)["trials"]
        assert series["values"] == [0.0, 1.0]
        assert (ended["status"], ended["attempt"]) == ("FAILED", 1), ended
        assert ended["reason"]["code"] == "platform_time_limit", ended
        assert "Slurm ended the job at its time limit" in ended["message"], ended
