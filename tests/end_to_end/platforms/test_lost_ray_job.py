"""The process that Ray runs a trial under is killed: a trial that is to be tried again gets another job."""

from contextlib import closing
from pathlib import Path

import pytest

from tests.end_to_end.running_server import RunningServer
from tests.fakes.ray_dashboard import RayDashboard

WAITS = """import os, sys, time, nni
nni.get_next_parameter()
while not os.path.exists(sys.argv[1]):
    time.sleep(0.05)
nni.report_final_result(1.0)
"""


@pytest.mark.timeout(300)
@pytest.mark.slow  # the last word of the killed keeper is waited for, a minute
def test_a_trial_whose_job_was_killed_is_tried_again_in_another_job(tmp_path: Path) -> None:
    go, code = tmp_path / "go", tmp_path / "code"
    code.mkdir()
    (code / "wait.py").write_text(WAITS)
    head = RayDashboard(tmp_path / "head").start()
    try:
        with closing(RunningServer(tmp_path / "data")) as server:
            server.start()
            experiment = server.launch({
                "trialCommand": f"python3 wait.py {go}", "trialCodeDirectory": str(code), "trialConcurrency": 1,
                "maxTrialNumber": 1, "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}},
                "tuner": {"name": "Random"}, "retry": {"onPlatformFailure": 1}, "nniManagerIp": "127.0.0.1",
                "trainingService": {"platform": "ray", "address": head.address, "resources": {"special": 1}}}, code)

            def attempt() -> list[tuple[str, int]]:
                return [(trial["status"], trial["attempt"])
                        for trial in server.get_all(f"experiments/{experiment}/trials/")]

            server.wait_until(lambda: attempt() == [("RUNNING", 1)], what="the trial runs")
            [first] = head.jobs.values()
            head.kill_supervisor(first)
            server.wait_until(lambda: attempt() == [("RUNNING", 2)], 180, "it runs again")
            go.touch()
            server.wait_for_experiment(experiment)
            assert attempt() == [("SUCCEEDED", 2)]
            [trial] = server.get_all(f"experiments/{experiment}/trials/")
            [again] = [event for event in server.get(f"trials/{trial['id']}/events/")["results"]
                       if event["kind"] == "tried again"]
            assert "The process that Ray ran the job under died" in again["message"]
            # the log of the first one is the only record of its end
            server.wait_until(lambda: list(head.jobs) == [first.id], 120, "the job that told its end is removed")
    finally:
        head.end()
