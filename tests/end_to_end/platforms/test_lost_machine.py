"""A machine is lost while trials run: those that the experiment wants tried again go to another one."""

from contextlib import closing
from pathlib import Path

import pytest

from tests.end_to_end.running_server import RunningServer
from tests.fakes.ssh_machine import SshMachine

WAITS = """import os, sys, time, nni
nni.get_next_parameter()
while not os.path.exists(sys.argv[1]):
    time.sleep(0.05)
nni.report_final_result(1.0)
"""


@pytest.mark.timeout(300)
@pytest.mark.slow  # the last word of the lost machine is waited for, a minute
def test_trials_of_a_lost_machine_are_tried_again_on_another_one(tmp_path: Path) -> None:
    go, code = tmp_path / "go", tmp_path / "code"
    code.mkdir()
    (code / "wait.py").write_text(WAITS)
    with closing(RunningServer(tmp_path / "data")) as server, SshMachine(tmp_path / "ada", "ada") as ada, \
            SshMachine(tmp_path / "bob", "bob") as bob:
        server.start()
        machines = [machine.in_config(maxTrialNumber=1) for machine in (ada, bob)]
        experiment = server.launch({
            "trialCommand": f"python3 wait.py {go}$NNI_TRIAL_SEQ_ID", "trialCodeDirectory": str(code),
            "trialConcurrency": 2, "maxTrialNumber": 2, "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}},
            "tuner": {"name": "Random"}, "retry": {"onPlatformFailure": 1},
            "trainingService": {"platform": "remote", "machineList": machines, "lostAfter": 2}}, code)

        def trials() -> list[dict]:
            return server.get_all(f"experiments/{experiment}/trials/")

        # their keepers tell that they run, and the platform a moment later on which of its machines
        names = {f"{machine.user}@{machine.host}:{machine.port}" for machine in (ada, bob)}
        server.wait_until(lambda: {trial["machine"] for trial in trials() if trial["status"] == "RUNNING"} == names,
                          what="both run")
        lost, other = sorted(trials(), key=lambda trial: str(ada.port) not in trial["machine"])
        ada.crash()
        Path(f"{go}{other['sequence_id']}").touch()
        server.wait_until(lambda: [(trial["status"], trial["attempt"], trial["machine"]) for trial in trials()
                                   if trial["id"] == lost["id"]] == [("RUNNING", 2, other["machine"])], 180,
                          "the lost one runs again")
        Path(f"{go}{lost['sequence_id']}").touch()
        server.wait_for_experiment(experiment)
        assert [trial["status"] for trial in trials()] == ["SUCCEEDED"] * 2
        assert {trial["machine"] for trial in trials()} == {other["machine"]}
        [again] = [event for event in server.get(f"trials/{lost['id']}/events/")["results"]
                   if event["kind"] == "tried again"]
        assert "could not be reached" in again["message"]
