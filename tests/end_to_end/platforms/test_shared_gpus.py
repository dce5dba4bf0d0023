"""Two experiments on one cluster of two machines with GPUs: the server's book lets no GPU be used twice."""

import json
from contextlib import closing
from pathlib import Path

import pytest

from tests.end_to_end.running_server import RunningServer
from tests.fakes.nvidia_smi import FakeNvidiaSmi
from tests.fakes.ssh_machine import SshMachine, needs_root
from tests.trainingservice.remote.conftest import LoginVariables

NOTES = """import json, os, sys, time, nni
nni.get_next_parameter()
def note(word):
    with open(sys.argv[1], "a") as log:
        log.write(json.dumps([word, os.environ["NNI_TRIAL_JOB_ID"], os.uname().nodename,
                              os.environ["CUDA_VISIBLE_DEVICES"]]) + "\\n")
note("begin")
time.sleep(0.5)
note("end")
nni.report_final_result(1.0)
"""


@pytest.mark.timeout(300)
@pytest.mark.slow
def test_two_experiments_share_the_gpus_of_a_cluster(tmp_path: Path) -> None:
    needs_root()
    log, code = tmp_path / "log", tmp_path / "code"
    code.mkdir()
    (code / "notes.py").write_text(NOTES)
    with closing(RunningServer(tmp_path / "data")) as server, \
            SshMachine(tmp_path / "ada", "ada", own_identity=True) as ada, \
            SshMachine(tmp_path / "bob", "bob", own_identity=True) as bob:
        for machine in (ada, bob):
            FakeNvidiaSmi(machine.folder / "nvidia", LoginVariables(machine), 4)
        server.start()
        machines = [machine.in_config() for machine in (ada, bob)]
        experiments = [server.launch({
            "trialCommand": f"python3 notes.py {log}", "trialCodeDirectory": str(code), "trialGpuNumber": gpus,
            "trialConcurrency": 8, "maxTrialNumber": number,
            "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}}, "tuner": {"name": "Random"},
            "trainingService": {"platform": "remote", "machineList": machines}}, code)
            for gpus, number in ((1, 12), (4, 3))]
        assert server.get(f"experiments/{experiments[0]}/")["cluster"] == server.get(
            f"experiments/{experiments[1]}/")["cluster"]
        for experiment in experiments:
            server.wait_for_experiment(experiment)
    held: dict[tuple[str, str], str] = {}
    seen: dict[str, int] = {}
    for word, trial, host, gpus in map(json.loads, log.read_text().splitlines()):
        seen[trial] = len(gpus.split(","))
        for gpu in gpus.split(","):
            if word == "begin":
                assert held.setdefault((host, gpu), trial) == trial
            else:
                assert held.pop((host, gpu)) == trial
    assert sorted(seen.values()) == [1] * 12 + [4] * 3
