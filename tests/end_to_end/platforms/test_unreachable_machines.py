"""A cluster none of whose machines can be reached says so at once; NNI's metadata give it machines that can be."""

import json
from contextlib import closing
from pathlib import Path

import pytest

from tests.end_to_end.running_server import RunningServer, free_port
from tests.fakes.ssh_machine import SshMachine


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_machines_that_refuse_connections_are_told_of_and_replaced_in_the_json_that_nni_sent(tmp_path: Path) -> None:
    code, go = tmp_path / "code", tmp_path / "go"
    code.mkdir()
    (code / "trial.py").write_text(f"import os, time, nni\nx = nni.get_next_parameter()['x']\n"
                                   f"while not os.path.exists({str(go)!r}):\n    time.sleep(0.05)\n"
                                   "nni.report_final_result(x)\n")
    with closing(RunningServer(tmp_path / "data")) as server, SshMachine(tmp_path / "ada", "ada") as ada:
        server.start()
        nowhere = [{"host": "127.0.0.1", "port": free_port(), "user": name, "password": "no matter"}
                   for name in ("ada", "bob")]
        cluster = server.post("clusters/", {"name": "lab", "platform": "remote", "settings": {"machineList": nowhere}})
        metadata = f"clusters/{cluster['id']}/metadata"
        for key, value in (("trial_config", {"command": "python3 trial.py", "gpuNum": 0}),
                           ("nni_manager_ip", {"nniManagerIp": "127.0.0.1"})):
            assert server.request("PUT", f"{metadata}/{key}/", json={"value": json.dumps(value)}).status_code == 200
        file = code / "config.yml"
        file.write_text("searchSpace: {x: {_type: uniform, _value: [0, 1]}}\ntrialConcurrency: 1\nmaxTrialNumber: 2\n"
                        "tuner: {name: Random}\ncluster: lab\n")

        # the command line, before a worker has looked
        said = server.manage("launch", str(file)).stdout
        assert "Note: The check before the launch: Every machine refuses connections (127.0.0.1: 127.0.0.1:" in said
        [experiment] = server.get_all("experiments/")
        # REST, and the page
        document = server.get(f"experiments/{experiment['id']}/")
        assert any("Every machine refuses connections" in note for note in document["notes"])
        assert server.get(f"clusters/{cluster['id']}/")["health"] == "away"

        # what the worker finds does not turn it good
        def seen_by_the_worker() -> bool:
            told = server.get(f"clusters/{cluster['id']}/")
            assert told["health"] != "good", told
            return [machine["reason"] and machine["reason"]["code"] for machine in told["machines"]] == [
                "connection_refused"] * 2 and told["reason"]["common"] == "connection_refused"

        server.wait_until(seen_by_the_worker, what="the worker has tried the machines")
        server.wait_until(lambda: (server.get(f"experiments/{experiment['id']}/")["reason"] or {}).get("code") in (
            "cluster_away", "no_trial_runs"), what="the experiment says why")

        # NNI's launcher would have sent this to cluster-metadata
        sent = [{"ip": ada.host, "port": ada.port, "username": ada.user, "sshKeyPath": str(ada.key),
                 "hostKey": ada.fingerprint}]
        answer = server.request("PUT", f"{metadata}/machine_list/", json={"value": json.dumps(sent)})
        assert answer.status_code == 200, answer.text
        server.wait_until(lambda: server.get(f"clusters/{cluster['id']}/")["health"] == "good", what="it is good again")
        go.touch()
        server.wait_for_experiment(experiment["id"])
        trials = server.get_all(f"experiments/{experiment['id']}/trials/")
        assert [trial["status"] for trial in trials] == ["SUCCEEDED"] * 2
