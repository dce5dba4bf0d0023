"""Trials that run on three machines in three networks, on a real server that is killed meanwhile."""

import importlib.util
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from random import Random

import pytest

from tests.end_to_end.running_server import RunningServer
from tests.fakes.joined_networks import JoinedNetworks
from tests.fakes.ssh_machine import SshMachine
from tests.trainingservice.ranks_of_tests import GLOO

#: The ranks add their numbers up, and wait until they may end. Arguments: a folder for what they tell.
ADDS_UP = """
import os, socket, sys, time
import nni
rank, count = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
told = os.path.join(sys.argv[1], os.environ["NNI_TRIAL_SEQ_ID"])
nni.get_next_parameter()
if rank == 0:
    with socket.create_server(("", address[1])) as server:
        peers = [server.accept()[0] for _ in range(count - 1)]
    total = sum(int(peer.makefile().readline()) for peer in peers)
    for peer in peers:
        peer.sendall(b"%d\\n" % total)
else:
    while True:
        try:
            peer = socket.create_connection(address, 5)
            break
        except OSError:
            time.sleep(0.05)
    peer.sendall(b"%d\\n" % rank)
    total = int(peer.makefile().readline())
print("rank %d knows that the sum is %d" % (rank, total), flush=True)
with open(told + "-pid%d.new" % rank, "w") as stream:
    stream.write("%d" % os.getpid())
os.rename(told + "-pid%d.new" % rank, told + "-pid%d" % rank)
while not os.path.exists(told + "-go"):
    time.sleep(0.05)
if rank == 0:
    nni.report_final_result(total)
"""


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[list[SshMachine]]:
    made: list[SshMachine] = []
    with ExitStack() as at_end:
        for name in ("ada", "bob", "cyd"):
            made.append(SshMachine(tmp_path / name, name, own_identity=True, own_network=True))
            at_end.callback(made[-1].crash)
            made[-1].start()
        networks = [machine.network for machine in made if machine.network is not None]
        joined = JoinedNetworks(networks)
        at_end.callback(joined.remove)
        for machine, address in zip(made, joined.addresses, strict=True):
            machine.node_address = address
        yield made


def launched(server: RunningServer, machines: list[SshMachine], code: Path, script: str, **more: object) -> str:
    code.mkdir(exist_ok=True)
    (code / "trial.py").write_text(script)
    told = code.parent / "told"
    told.mkdir(exist_ok=True)
    service = {"platform": "remote", "nodes": len(machines), "lostAfter": 5, "machineList": [
        machine.in_config(nodeAddress=machine.node_address, maxTrialNumber=1) for machine in machines]}
    return server.launch({
        "trialCommand": f"python3 trial.py {told}", "trialCodeDirectory": str(code), "trialConcurrency": 1,
        "maxTrialNumber": 1, "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}}, "tuner": {"name": "Random"},
        "trainingService": service, **more}, code)


def pids(server: RunningServer, folder: Path, trial: int = 0) -> list[int]:
    files = [folder / "told" / f"{trial}-pid{rank}" for rank in range(3)]
    server.wait_until(lambda: all(file.exists() for file in files), 90, "all ranks have met")
    return [int(file.read_text()) for file in files]


def nothing_runs(server: RunningServer, machines: list[SshMachine]) -> None:
    server.wait_until(lambda: not any(b"trial.py" in Path(f"/proc/{pid}/cmdline").read_bytes()
                                      for machine in machines for pid in machine.pids_with(str(machine.folder))
                                      if Path(f"/proc/{pid}").exists()), 30, "no rank is left on any machine")


@pytest.mark.slow
@pytest.mark.kill_table("the server is killed while a trial runs on three machines")
@pytest.mark.timeout(300)
def test_three_machines_run_a_trial_and_the_server_is_killed_meanwhile(tmp_path: Path, machines: list[SshMachine],
                                                                       seed: int) -> None:
    with closing(RunningServer(tmp_path / "data")) as server:
        server.start()
        experiment = launched(server, machines, tmp_path / "code", ADDS_UP)
        met = Random(seed).randint(0, 3)
        server.wait_until(lambda: len(list((tmp_path / "told").glob("0-pid?"))) >= met, 90, f"{met} ranks have met")
        known = {file: int(file.read_text()) for file in (tmp_path / "told").glob("0-pid?")}
        server.kill()
        server.start()
        before = pids(server, tmp_path)
        assert known.items() <= {tmp_path / "told" / f"0-pid{rank}": pid for rank, pid in enumerate(before)}.items()
        [trial] = server.get_all(f"experiments/{experiment}/trials/")
        server.wait_until(lambda: [rank["status"] for rank in server.get(f"trials/{trial['id']}/ranks/")["ranks"]]
                          == ["RUNNING"] * 3, 90, "the server has found all ranks again")
        assert pids(server, tmp_path) == before
        (tmp_path / "told" / "0-go").touch()
        server.wait_for_experiment(experiment)
        [trial] = server.get_all(f"experiments/{experiment}/trials/")
        assert (trial["status"], trial["final_number"], trial["attempt"]) == ("SUCCEEDED", 3.0, 1)
        ranks = server.get(f"trials/{trial['id']}/ranks/")["ranks"]
        assert len({rank["machine"] for rank in ranks}) == 3
        for rank in range(3):
            told = server.get(f"trials/{trial['id']}/ranks/output/", rank=rank, stream="stdout")
            assert told["text"] == f"rank {rank} knows that the sum is 3\n"
        assert server.request("GET", f"trials/{trial['id']}/ranks/output/", params={"rank": 3}).status_code == 404
        nothing_runs(server, machines)


@pytest.mark.slow
@pytest.mark.kill_table("one rank of a trial on three machines is killed, twice")
@pytest.mark.timeout(300)
def test_a_rank_that_is_killed_ends_the_trial_and_a_retry_runs_on_all_machines(
        tmp_path: Path, machines: list[SshMachine], seed: int) -> None:
    killed, killed_again = Random(seed).choices((1, 2), k=2)
    with closing(RunningServer(tmp_path / "data")) as server:
        server.start()
        experiment = launched(server, machines, tmp_path / "code", ADDS_UP, retry={"onFailure": 1})
        first = pids(server, tmp_path)
        [trial] = server.get_all(f"experiments/{experiment}/trials/")
        ranks = server.wait_until(lambda: [rank for rank in server.get(f"trials/{trial['id']}/ranks/")["ranks"]
                                           if rank["machine"]], 30)
        for file in (tmp_path / "told").iterdir():
            file.unlink()
        os.kill(first[killed], signal.SIGKILL)
        second = pids(server, tmp_path)
        assert not set(first) & set(second)
        [event] = [event for event in server.get(f"trials/{trial['id']}/events/")["results"]
                   if event["kind"] == "tried again"]
        assert f"Rank {killed} on machine {ranks[killed]['machine']} failed" in event["message"]
        os.kill(second[killed_again], signal.SIGKILL)
        server.wait_until(lambda: server.get(f"trials/{trial['id']}/")["status"] == "FAILED", 90, "it has failed")
        reason = server.get(f"trials/{trial['id']}/")["reason"]
        assert (reason["code"], reason["rank"], reason["ended"]) == ("rank_failed", killed_again, "exited")
        assert reason["because"]["code"] == "signal"
        nothing_runs(server, machines)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_torchrun_and_gloo_find_all_ranks(tmp_path: Path, machines: list[SshMachine]) -> None:
    with closing(RunningServer(tmp_path / "data")) as server:
        server.start()
        command = f"GLOO_SOCKET_IFNAME=cable {sys.executable} -m torch.distributed.run trial.py"
        experiment = launched(server, machines, tmp_path / "code", GLOO, trialCommand=command)
        server.wait_for_experiment(experiment, patience=300)
        [trial] = server.get_all(f"experiments/{experiment}/trials/")
        errors = [server.get(f"trials/{trial['id']}/ranks/output/", rank=rank, stream="stderr")["text"]
                  for rank in range(3)]
        assert (trial["status"], trial["final_number"]) == ("SUCCEEDED", 3.0), "\n\n".join(errors)
