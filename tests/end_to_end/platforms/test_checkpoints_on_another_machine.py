"""A machine is lost: its trial goes on from its last checkpoint on another machine, and its curve is one."""

from contextlib import closing
from pathlib import Path

import pytest

from tests.end_to_end.running_server import RunningServer
from tests.fakes.ssh_machine import SshMachine

TRIAL = """import os, sys, time, nni
nni.get_next_parameter()
found = nni.load_checkpoint()
first = 0 if found is None else found.step + 1
for epoch in range(first, first + 3):
    nni.report_intermediate_result(float(epoch))
    with nni.save_checkpoint(step=epoch) as path:
        with open(path, "w") as file:
            file.write(str(epoch) * 10)
while found is None:
    time.sleep(0.1)
with open(found) as file:
    nni.report_final_result(float(file.read() == str(found.step) * 10))
"""


@pytest.mark.timeout(300)
@pytest.mark.slow  # the last word of the lost machine is waited for, a minute
def test_a_trial_of_a_lost_machine_goes_on_from_its_checkpoint_on_another_one(tmp_path: Path) -> None:
    code = tmp_path / "code"
    code.mkdir()
    (code / "trial.py").write_text(TRIAL)
    with closing(RunningServer(tmp_path / "data")) as server, SshMachine(tmp_path / "ada", "ada") as ada, \
            SshMachine(tmp_path / "bob", "bob") as bob:
        server.start()
        machines = [machine.in_config(maxTrialNumber=1) for machine in (ada, bob)]
        names = [f"{machine.user}@{machine.host}:{machine.port}" for machine in (ada, bob)]
        experiment = server.launch({
            "trialCommand": "python3 trial.py", "trialCodeDirectory": str(code), "trialConcurrency": 1,
            "maxTrialNumber": 1, "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}},
            "tuner": {"name": "Random"}, "retry": {"onPlatformFailure": 1}, "checkpoints": {"keep": 2},
            "trainingService": {"platform": "remote", "machineList": machines, "lostAfter": 2}}, code)

        def trial() -> dict:
            return next(iter(server.get_all(f"experiments/{experiment}/trials/")), {})

        # its keeper tells that it runs, and the platform a moment later on which of its machines
        server.wait_until(lambda: trial().get("status") == "RUNNING" and trial()["machine"] in names, what="it runs")
        ours = trial()
        server.wait_until(lambda: any(one["step"] == 2 for one in server.get(
            f"trials/{ours['id']}/checkpoints/")["results"]), what="its last checkpoint is kept")
        (ada if str(ada.port) in ours["machine"] else bob).crash()
        server.wait_until(lambda: trial()["attempt"] == 2, 180, "it runs again")
        server.wait_for_experiment(experiment)
        assert (trial()["status"], trial()["attempt"], trial()["final_number"]) == ("SUCCEEDED", 2, 1.0)
        assert trial()["machine"] != ours["machine"]
        metrics = server.get_all(f"trials/{ours['id']}/metrics/?kind=PERIODICAL")
        assert [(one["attempt"], one["joined_sequence"], one["number"]) for one in metrics] == [
            (1, 0, 0.0), (1, 1, 1.0), (1, 2, 2.0), (2, 3, 3.0), (2, 4, 4.0), (2, 5, 5.0)]
        events = {event["kind"]: event["message"] for event in server.get(f"trials/{ours['id']}/events/")["results"]}
        assert events["resumed"] == 'It went on from the checkpoint "step-2" (step 2) of attempt 1.'
