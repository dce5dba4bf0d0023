"""The machine's agent on real pipes, with real keepers."""

import json
import os
import signal

import pytest

from tests.fakes.nvidia_smi import FakeNvidiaSmi
from tests.trialkeeper.keeper_run import KeeperRun, wait_until
from trialkeeper import contract, machine


def test_the_agent_says_hello(agent):
    assert agent.hello["event"] == "hello"
    assert (agent.hello["version"], agent.hello["pid"]) == (1, agent.process.pid)
    assert agent.hello["machine_id"] == machine.machine_id()
    assert os.path.isabs(agent.hello["home"])


def test_the_agent_tells_how_busy_the_machine_is_without_being_asked(agent):
    wait_until(lambda: agent.loads)
    told = agent.loads[0]
    assert told["cpu_total"] == os.cpu_count()
    assert 0 <= told["cpu_used"] <= told["cpu_total"]
    assert 0 < told["memory_used"] < told["memory_total"]


def test_an_attempt_is_started_and_its_changes_are_told_at_once(agent, attempt, server):
    assert agent.start(attempt, "sleep 0.2; exit 3")["state"] == "starting"
    wait_until(lambda: any(event["state"]["delivered"] for event in agent.events))
    told = agent.states_told(attempt.folder)
    assert (told[0], told[-1]) == ("running", "ended")
    last = agent.events[-1]["state"]
    assert (last["exit"]["exit_code"], last["exit"]["reason"]) == (3, "exited")
    assert last["working_directory"] == str(attempt.folder / "code")
    assert server.ended["exit_code"] == 3
    assert attempt.folder.stat().st_mode & 0o777 == 0o700
    for name in (contract.JOB_FILE, contract.ACCESS_FILE):
        assert (attempt.folder / name).stat().st_mode & 0o777 == 0o600


def test_start_may_be_repeated(agent, attempt, server, tmp_path):
    command = f"echo x >> {tmp_path}/starts; sleep 0.5"
    first = agent.start(attempt, command)
    again = agent.start(attempt, command)
    assert again["keeper_pid"] == first["keeper_pid"]
    wait_until(lambda: any(event["state"]["delivered"] for event in agent.events))
    assert agent.start(attempt, command)["state"] == "ended"
    assert (tmp_path / "starts").read_text() == "x\n"
    assert len(server.of_type("started")) == 1


@pytest.mark.parametrize(("file", "text"), [
    (contract.KEEPER_FILE, '{"pid": "x", "start_time": "y"}'),
    (contract.JOURNAL_FILE, '{"journal_id": "j"}\n' + "[" * 100_000 + "\n")], ids=["keeper", "journal"])
def test_files_that_a_trial_has_written_do_not_end_the_agent_of_all_others(agent, attempt, tmp_path, file, text):
    strange = tmp_path / "strange"
    strange.mkdir()
    agent.state(strange)
    (strange / file).write_text(text)
    agent.start(attempt, "sleep 1.5; exit 3")
    wait_until(lambda: any(event["state"]["delivered"] for event in agent.events))
    answer = agent.ask("state", folders=[str(strange), str(attempt.folder)])
    assert {folder: state["state"] for folder, state in answer["states"].items()} == {
        str(strange): "absent", str(attempt.folder): "ended"}


@pytest.mark.parametrize("put", [os.mkfifo, lambda path: os.symlink("/dev/zero", path)], ids=["pipe", "zeros"])
@pytest.mark.parametrize("file", [
    contract.EXIT_FILE, contract.JOURNAL_FILE, contract.KEEPER_FILE, contract.NODE_FILE, contract.ORDERS_FILE])
def test_what_has_no_end_in_a_file_s_place_does_not_hold_up_the_agent_of_all_others(
        agent, attempt, tmp_path, file, put):
    strange = tmp_path / "strange"
    strange.mkdir()
    put(strange / file)
    agent.ask("state", folders=[str(strange)])
    agent.ask("deliver", folder=str(strange), orders=[])
    agent.start(attempt, "exit 3")
    wait_until(lambda: any(event["state"]["delivered"] for event in agent.events))
    assert agent.state(attempt.folder)["exit"]["exit_code"] == 3


def test_where_a_tombstone_stands_nothing_is_started(agent, attempt, server):
    assert agent.ask("stop", folder=str(attempt.folder))["state"]["state"] == "canceled"
    assert agent.start(attempt, "true")["state"] == "canceled"
    assert agent.state(attempt.folder)["state"] == "canceled"
    assert server.calls == []


def test_an_unknown_folder_is_absent(agent, tmp_path):
    assert agent.state(tmp_path / "nothing") == {"state": "absent", "exit": None, "keeper_pid": None, "pid": None,
                                                 "working_directory": "", "delivered": False, "way_home": ""}


def test_keepers_outlive_the_agent_and_hold_none_of_its_pipes(agents, attempt, server):
    first = agents()
    first.start(attempt, "sleep 60")
    wait_until(lambda: attempt.exists(contract.TRIAL_FILE))
    first.process.kill()
    assert first.closed.wait(90), "the pipe to the agent's client must end with the agent"
    heard = len(server.reports)
    server.wait_for(lambda: len(server.reports) > heard + 1)
    second = agents()
    state = second.state(attempt.folder)
    assert state["state"] == "running"
    second.ask("stop", folder=str(attempt.folder))
    wait_until(lambda: "ended" in second.states_told(attempt.folder), what="the end")
    wait_until(lambda: second.state(attempt.folder)["delivered"])
    assert server.ended["reason"] == "stopped"


def test_end_of_input_ends_the_agent_and_nothing_else(agent, attempt, server):
    state = agent.start(attempt, "sleep 60")
    wait_until(lambda: attempt.exists(contract.TRIAL_FILE))
    agent.process.stdin.close()
    assert agent.process.wait(90) == 0
    assert machine.process_start_time(state["keeper_pid"]) is not None
    server.orders = [{"order": "stop"}]
    server.wait_for(lambda: server.ended)


def test_a_killed_keeper_is_replaced_by_one_that_finishes_the_attempt(agent, attempt, server):
    agent.start(attempt, "sleep 60")
    trial = wait_until(lambda: attempt.exists(contract.TRIAL_FILE) and attempt.read(contract.TRIAL_FILE))
    os.kill(attempt.read(contract.KEEPER_FILE)["pid"], signal.SIGKILL)
    wait_until(lambda: any(event["state"]["delivered"] for event in agent.events))
    assert server.ended["reason"] == "lost"
    assert machine.process_start_time(trial["pid"]) is None


def test_a_keeper_that_died_without_an_agent_is_replaced_when_an_agent_is_asked(agents, attempt, server):
    first = agents()
    first.start(attempt, "sleep 60")
    wait_until(lambda: attempt.exists(contract.TRIAL_FILE))
    first.kill()
    os.kill(attempt.read(contract.KEEPER_FILE)["pid"], signal.SIGKILL)
    second = agents()
    assert second.state(attempt.folder)["state"] in ("running", "ended")
    server.wait_for(lambda: server.ended)
    assert server.ended["reason"] == "lost"
    assert len(server.of_type("started")) == 1


@pytest.fixture
def after_a_power_cut(agents, attempt):
    """An attempt that had begun when the power failed: its processes are gone, the machine is up again."""
    agent = agents()
    agent.start(attempt, "sleep 60")
    trial = wait_until(lambda: attempt.exists(contract.TRIAL_FILE) and attempt.read(contract.TRIAL_FILE))
    attempt.server.wait_for(lambda: attempt.server.of_type("started"))
    agent.kill()
    os.kill(attempt.read(contract.KEEPER_FILE)["pid"], signal.SIGKILL)
    os.kill(trial["pid"], signal.SIGKILL)
    journal = attempt.folder / contract.JOURNAL_FILE
    journal.write_text(journal.read_text().replace(machine.boot_id(), "of-the-start-before"))
    return attempt


def test_after_a_power_cut_it_is_told_that_the_machine_was_switched_off(agents, after_a_power_cut, server):
    agents().state(after_a_power_cut.folder)
    server.wait_for(lambda: server.ended)
    assert server.ended["reason"] == "lost"
    assert "was switched off or started anew while the trial ran" in server.ended["message"]


def test_an_attempt_whose_job_a_power_cut_left_empty_is_told_and_ended(agents, after_a_power_cut, server):
    (after_a_power_cut.folder / contract.JOB_FILE).write_bytes(b"")
    agents().state(after_a_power_cut.folder)
    server.wait_for(lambda: server.ended)
    assert (server.ended["reason"], len(server.of_type("started"))) == ("lost", 1)
    assert "was switched off" in server.ended["message"]


def test_an_attempt_of_which_a_power_cut_left_only_the_journal_ends(agents, after_a_power_cut):
    for name in (contract.JOB_FILE, contract.ACCESS_FILE, contract.KEEPER_FILE, contract.TRIAL_FILE):
        (after_a_power_cut.folder / name).write_bytes(b"")
    agent = agents()
    agent.state(after_a_power_cut.folder)
    wait_until(lambda: agent.state(after_a_power_cut.folder)["state"] == "ended", what="the end")
    assert "was switched off" in agent.state(after_a_power_cut.folder)["exit"]["message"]


def test_an_attempt_whose_files_are_damaged_can_be_cancelled(agents, after_a_power_cut):
    for name in (contract.JOB_FILE, contract.ACCESS_FILE):
        (after_a_power_cut.folder / name).unlink()
    agent = agents()
    agent.ask("stop", folder=str(after_a_power_cut.folder))
    wait_until(lambda: agent.state(after_a_power_cut.folder)["state"] == "ended", what="the end")
    assert agent.state(after_a_power_cut.folder)["exit"]["reason"] == "stopped"


def test_a_folder_with_a_damaged_journal_holds_up_no_other(agents, after_a_power_cut, tmp_path):
    (after_a_power_cut.folder / contract.JOURNAL_FILE).write_bytes(b"\0" * 5000)
    states = agents().ask("state", folders=[str(after_a_power_cut.folder), str(tmp_path / "other")])["states"]
    assert {state["state"] for state in states.values()} == {"absent"}


def test_a_job_that_a_power_cut_left_empty_before_it_began_is_written_again(agent, attempt, server):
    attempt.folder.mkdir()
    (attempt.folder / contract.JOB_FILE).write_bytes(b"")
    (attempt.folder / contract.ACCESS_FILE).write_bytes(b"")
    agent.start(attempt, "exit 5")
    server.wait_for(lambda: server.ended)
    assert server.ended["exit_code"] == 5


def test_orders_are_handed_over(agent, attempt, server):
    agent.start(attempt, "sleep 60")
    wait_until(lambda: attempt.exists(contract.TRIAL_FILE))
    assert agent.ask("deliver", folder=str(attempt.folder), orders=[{"order": "stop", "reason": "by hand"}])["ok"]
    server.wait_for(lambda: server.ended)
    assert server.ended["message"] == "by hand"


def test_a_folder_is_removed_only_when_its_keeper_is_gone(agent, attempt, server, tmp_path):
    agent.start(attempt, "sleep 60")
    wait_until(lambda: attempt.exists(contract.TRIAL_FILE))
    refused = agent.ask("remove", folder=str(attempt.folder))
    assert not refused["ok"]
    assert "stop it first" in refused["error"]
    agent.ask("stop", folder=str(attempt.folder))
    wait_until(lambda: agent.ask("remove", folder=str(attempt.folder))["ok"])
    assert not attempt.folder.exists()
    assert agent.ask("remove", folder=str(attempt.folder))["ok"]
    (tmp_path / "precious").mkdir()
    assert "holds no attempt" in agent.ask("remove", folder=str(tmp_path / "precious"))["error"]


def test_gpus_are_read_or_the_reason_is_told(monkeypatch, tmp_path, agents):
    fake = FakeNvidiaSmi(tmp_path, monkeypatch)
    fake.state["gpus"][1].update(utilization=50, memory_used=100)
    fake.set_processes(1, 4711, 4712)
    agent = agents()
    gpus = agent.ask("gpus")["gpus"]
    assert [(gpu["index"], gpu["name"], gpu["utilization"], gpu["processes"]) for gpu in gpus] == \
        [(0, "Fake H0", 0, 0), (1, "Fake H0", 50, 2)]
    assert (gpus[1]["memory_used"], gpus[1]["memory_total"]) == (100 * 2**20, 16384 * 2**20)
    fake.fail(9)
    answer = agent.ask("gpus")
    assert answer["ok"]
    assert answer["gpus"] == []
    assert "exit code 9" in answer["error"]
    assert "could not talk to the driver" in answer["error"]
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "no nvidia-smi" in agents().ask("gpus")["error"]


def test_a_slow_question_holds_up_no_other(monkeypatch, tmp_path, agents):
    fake = FakeNvidiaSmi(tmp_path, monkeypatch)
    fake.state["delay"] = 60
    fake.write()
    agent = agents()
    agent.process.stdin.write(b'{"id": "slow", "do": "gpus"}\n')
    assert agent.ask("state", folders=[])["states"] == {}


def test_gpu_readings_go_with_the_heartbeats(monkeypatch, tmp_path, agents, attempt, server):
    FakeNvidiaSmi(tmp_path, monkeypatch)
    agents().start(attempt, "sleep 60", gpu_indices=[1])
    gpus = server.wait_for(lambda: next((report["resources"]["gpus"] for report in server.reports
                                         if report.get("resources", {}).get("gpus")), None))
    assert [(gpu["index"], gpu["utilization"]) for gpu in gpus] == [(1, 0)]
    server.orders = [{"order": "stop"}]
    server.wait_for(lambda: server.ended)


def test_what_a_trial_has_of_its_gpu_is_told_apart_from_what_others_have(
        monkeypatch, tmp_path, agents, attempt, server):
    fake = FakeNvidiaSmi(tmp_path, monkeypatch)
    agent = agents()
    agent.start(attempt, "exec sleep 60", gpu_indices=[1])
    trial = wait_until(lambda: attempt.exists(contract.TRIAL_FILE) and attempt.read(contract.TRIAL_FILE))
    fake.state["memory_of"] = {str(trial["pid"]): 3000, str(os.getpid()): 500}
    fake.set_processes(1, trial["pid"], os.getpid())
    gpus = server.wait_for(lambda: next((report["resources"]["gpus"] for report in server.reports
                                         if any("own_bytes" in gpu for gpu in
                                                report.get("resources", {}).get("gpus", []))), None))
    assert [(gpu["index"], gpu["own_bytes"]) for gpu in gpus] == [(1, 3000 << 20)]
    assert [gpu["others_bytes"] for gpu in agent.ask("gpus")["gpus"]] == [0, 500 << 20]
    fake.set_processes(1, trial["pid"], 4_000_000)  # of another container
    assert [gpu["others_bytes"] for gpu in agent.ask("gpus")["gpus"]] == [0, None]
    server.orders = [{"order": "stop"}]
    assert server.wait_for(lambda: server.ended)["gpu_peak"] == 3000 << 20


def test_the_machine_is_described(agent, tmp_path):
    answer = agent.ask("machine", paths=[str(tmp_path / "not" / "made" / "yet")])
    assert answer["machine_id"] == agent.hello["machine_id"]
    assert answer["cpu_count"] >= 1
    assert answer["disk_free"][str(tmp_path / "not" / "made" / "yet")] > 0


@pytest.mark.parametrize(("line", "why"), [
    ('{"id": 1, "do": "dance"}', "known: answer, deliver, gpus, image, machine, relay, remove, start, state, stop"),
    ('{"id": 1, "do": "start", "folder": "relative"}', "absolute path"),
    ('{"id": 1, "do": "start", "folder": "/tmp/x"}', "job_name"),
    ('{"id": 1, "do": ["x"]}', "not known"), ("[1]", "JSON object"), ("{", "line 1")])
def test_a_wrong_request_gets_a_sentence_and_harms_nothing(agent, line, why):
    agent.process.stdin.write(line.encode() + b"\n")
    agent.process.stdin.flush()
    answer = agent.answers.get(timeout=90)
    assert answer["ok"] is False
    assert why in answer["error"]
    assert agent.ask("state", folders=[])["ok"]


def test_many_attempts_at_once(agent, server, tmp_path):
    runs = [KeeperRun(tmp_path / f"many{number}", server) for number in range(12)]
    for run in runs:
        answer = agent.ask("start", folder=str(run.folder), job=run.job("exit 0", limits={"claim_timeout": 0}),
                           access={"urls": []})
        assert answer["ok"]
    wait_until(lambda: all(run.exists(contract.EXIT_FILE) for run in runs))
    assert {run.read(contract.EXIT_FILE)["exit_code"] for run in runs} == {0}


#: An agent that says, after the end of its input, how much it remembered.
REMEMBERING = """
import json, sys
from trialkeeper.agent import Agent
agent = Agent()
agent.run()
with open(sys.argv[1], "w") as stream:
    json.dump({name: len(value) for name, value in vars(agent).items() if isinstance(value, (dict, list, set))}, stream)
"""


def test_nothing_is_remembered_of_attempts_that_are_over(agents, server, tmp_path):
    written = tmp_path / "remembered"
    agent = agents(("-c", REMEMBERING, str(written)))
    ended = [KeeperRun(tmp_path / f"ended{number}", server) for number in range(6)]
    for run in ended:
        os.rmdir(run.folder)
        answer = agent.ask("start", folder=str(run.folder), job=run.job("exit 0"), access={"urls": [server.url],
                                                                                         "token": server.token})
        assert answer["ok"], answer

    def is_over(run: KeeperRun) -> bool:
        """By what was told unasked: a question would have the folder watched again."""
        told = [event["state"] for event in agent.events if event["folder"] == str(run.folder)]
        return bool(told) and told[-1]["state"] == "ended" and told[-1]["delivered"] and told[-1]["keeper_pid"] is None

    wait_until(lambda: all(is_over(run) for run in ended), what="the delivered ends")
    agent.ask("state", folders=[str(run.folder) for run in ended])
    never_begun = tmp_path / "never-begun"
    assert agent.ask("stop", folder=str(never_begun))["state"]["state"] == "canceled"
    going_on = KeeperRun(tmp_path / "going-on", None)
    os.rmdir(going_on.folder)
    assert agent.ask("start", folder=str(going_on.folder), access={"urls": []},
                     job=going_on.job("sleep 60", limits={"claim_timeout": 0}))["ok"]
    wait_until(lambda: going_on.exists(contract.TRIAL_FILE))
    agent.process.stdin.close()
    assert agent.process.wait(90) == 0
    remembered = json.loads(written.read_text())
    remembered.pop("_to_look_at")  # what was heard a moment ago
    assert {name: count for name, count in remembered.items() if count} == {"_told": 1, "_children": 1}
    os.kill(going_on.read(contract.KEEPER_FILE)["pid"], signal.SIGTERM)
    wait_until(lambda: going_on.exists(contract.EXIT_FILE))


def test_what_a_restored_server_has_lost_of_an_ended_attempt_is_delivered_again(agent, attempt) -> None:
    def is_over() -> bool:
        state = agent.state(attempt.folder)
        return state["delivered"] and state["keeper_pid"] is None

    agent.start(attempt, "echo hello")
    wait_until(is_over, what="the delivered end")
    everything = list(attempt.server.entries)
    assert everything[-1]["type"] == "ended"
    told = agent.ask("state", folders=[str(attempt.folder)], accepted={str(attempt.folder): len(everything)})
    assert told["states"][str(attempt.folder)]["delivered"], "a server that has all of it is not called again"
    del attempt.server.entries[1:]
    agent.ask("state", folders=[str(attempt.folder)], accepted={str(attempt.folder): 1})
    wait_until(lambda: agent.state(attempt.folder)["delivered"], what="the second delivery")
    assert attempt.server.entries == everything


def test_a_living_keeper_sends_again_what_a_restored_server_has_lost(agent, attempt) -> None:
    release = attempt.folder.parent / "release"
    agent.start(attempt, f"echo hello; while [ ! -e {release} ]; do sleep 0.05; done")
    wait_until(lambda: len(attempt.server.entries) >= 2 and attempt.server.entries, what="start and output")
    before = list(attempt.server.entries)
    del attempt.server.entries[1:]
    wait_until(lambda: attempt.server.entries[:len(before)] == before, what="what was lost")
    release.touch()
    wait_until(lambda: agent.state(attempt.folder)["delivered"], what="the end")
    numbers = [entry["n"] for entry in attempt.server.entries]
    assert numbers == list(range(1, len(numbers) + 1))
