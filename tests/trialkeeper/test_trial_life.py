"""How a trial is started and how it ends: processes, limits, failures, keepers that are killed."""

import json
import os
import signal

import pytest

from tests.trialkeeper.hiding_process import HIDER, hider_pid, lives
from tests.trialkeeper.keeper_run import KeeperRun, wait_until
from trialkeeper import attempt_folder, contract, machine
from trialkeeper.__main__ import run


def test_a_stop_ends_the_whole_tree_also_what_hid_and_ignores_term(keeper, server, clean_hider):
    process = keeper.start(keeper.python_command(HIDER) + "; sleep 60")
    pid = hider_pid(keeper)
    process.send_signal(signal.SIGTERM)
    assert process.wait(90) in (143, 0)
    assert not lives(pid)
    assert server.ended["reason"] == "stopped"
    assert "SIGTERM" in server.ended["message"]


def test_background_processes_do_not_outlive_their_trial(keeper, server, clean_hider):
    assert keeper.run(keeper.python_command(HIDER) + "; while [ ! -e hider.pid ]; do sleep 0.02; done; exit 5") == 5
    assert not lives(hider_pid(keeper))
    assert (server.ended["reason"], server.ended["exit_code"]) == ("exited", 5)


def test_a_stopped_process_hears_the_stop_too(keeper, server):
    process = keeper.start("trap 'echo cleaned up; exit 9' TERM; kill -STOP $$; sleep 60")
    trial = wait_until(lambda: keeper.exists(contract.TRIAL_FILE) and keeper.read(contract.TRIAL_FILE))
    wait_until(lambda: (machine.process_stat(trial["pid"]) or [b"", ["?"]])[1][0] == "T")
    process.send_signal(signal.SIGTERM)
    assert process.wait(90) == 9
    assert server.output() == "cleaned up\n"
    assert server.ended["reason"] == "stopped", "what counts is that it was stopped, not its exit code"


def test_a_signal_to_all_processes_of_a_job_is_a_stop(keeper, server):
    """As schedulers end a job: keeper and trial hear it at the same time."""
    process = keeper.start("exec sleep 60")
    trial = wait_until(lambda: keeper.exists(contract.TRIAL_FILE) and keeper.read(contract.TRIAL_FILE))
    process.send_signal(signal.SIGSTOP)  # so that it finds both signals at once
    for pid in (trial["pid"], process.pid):
        os.kill(pid, signal.SIGTERM)
    process.send_signal(signal.SIGCONT)
    assert process.wait(90) == 143
    assert (server.ended["reason"], server.ended["signal"]) == ("stopped", signal.SIGTERM)


def test_a_trial_that_its_scheduler_kills_after_it_was_cancelled_is_stopped(keeper, server):
    """The scheduler may have killed it before its keeper found that it is cancelled."""
    process = keeper.start("exec sleep 60")
    trial = wait_until(lambda: keeper.exists(contract.TRIAL_FILE) and keeper.read(contract.TRIAL_FILE))
    process.send_signal(signal.SIGSTOP)
    (keeper.folder / contract.CANCELED_FILE).touch()
    os.kill(trial["pid"], signal.SIGKILL)
    process.send_signal(signal.SIGCONT)
    assert process.wait(90) == 137
    assert (server.ended["reason"], server.ended["message"]) == ("stopped", "cancelled")


#: Notes each SIGUSR1 in a file of its name, and ends when told so in one. It has a helper that it has forked, and which
#: so has the same handler, and one without a handler, which the signal would end.
HEARS = """
import os, signal, subprocess, time
def hear(*_):
    with open(name, "a") as stream:
        stream.write("heard ")
name = "main"
signal.signal(signal.SIGUSR1, hear)
if os.fork() == 0:
    name = "forked"
plain = subprocess.Popen(["sleep", "60"])
open(name + "-works", "w").close()
while not os.path.exists("end"):
    time.sleep(0.02)
os._exit(0 if plain.poll() is None else 9)
"""


def test_a_signal_for_the_trial_reaches_what_has_a_handler_for_it_once_and_ends_nothing(keeper, server):
    """As of ``sbatch --signal=B:USR1@60``, which is sent to the process that the scheduler has started."""
    process = keeper.start(f"cd . && {keeper.python_command(HEARS)}")
    wait_until(lambda: keeper.exists("code/main-works") and keeper.exists("code/forked-works"))
    process.send_signal(signal.SIGUSR1)
    wait_until(lambda: keeper.exists("code/main"))
    (keeper.folder / "code" / "end").touch()
    assert process.wait(90) == 0
    assert (keeper.folder / "code" / "main").read_text() == "heard "
    assert not keeper.exists("code/forked")
    assert server.ended["reason"] == "exited"


def test_a_signal_for_a_trial_without_a_handler_is_lost_on_it(keeper, server):
    process = keeper.start("while [ ! -e end ]; do sleep 0.02; done")
    wait_until(lambda: keeper.exists(contract.TRIAL_FILE))
    process.send_signal(signal.SIGUSR2)
    process.send_signal(signal.SIGUSR1)
    wait_until(lambda: keeper.exists("code"))
    (keeper.folder / "code" / "end").touch()
    assert process.wait(90) == 0


def test_an_order_with_a_signal_that_is_none_is_passed_over(keeper, server):
    process = keeper.start("while [ ! -e end ]; do sleep 0.02; done")
    wait_until(lambda: keeper.exists(contract.TRIAL_FILE))
    orders = [{"order": "signal", "number": number} for number in (10.0, "10", None, [10], 9, -1)]
    (keeper.folder / "new").write_text(json.dumps(orders))
    (keeper.folder / "new").rename(keeper.folder / contract.ORDERS_FILE)
    wait_until(lambda: keeper.log().count("an order is not understood") == 6)
    (keeper.folder / "code" / "end").touch()
    assert process.wait(90) == 0
    assert server.ended["reason"] == "exited"


def test_a_trial_that_alone_is_told_to_end_was_not_stopped(keeper, server):
    assert keeper.run("kill -TERM $$") == 143
    assert (server.ended["reason"], server.ended["signal"]) == ("exited", signal.SIGTERM)


def test_the_time_limit_ends_the_trial(keeper, server):
    assert keeper.run("sleep 60", limits={"max_trial_duration": 0.4}) == 143
    assert server.ended["reason"] == "time_limit"
    assert server.ended["message"] == "it ran longer than 0.4 s"
    assert 0.4 <= server.ended["duration"] < 60, "it would have ended by itself"


@pytest.mark.parametrize(("command", "code"), [
    ("false && echo not reached", 1), ("exit 3", 3), ("(exit 7) && true; ", 7), ("false; true", 0),
    ("echo 'it''s' \"quoted $((1 + 1))\" | cat", 0), ("[ \"$WORD\" = 'two words' ] && exit 11", 11)])
def test_the_command_is_shell_text_and_its_exit_code_is_told(keeper, server, command, code):
    assert keeper.run(command, environment={"WORD": "two words"}) == code
    assert (server.ended["exit_code"], server.ended["signal"], server.ended["reason"]) == (code, None, "exited")


def test_a_command_that_is_not_found_is_explained(keeper, server):
    assert keeper.run("no-such-program --x") == 127
    assert "did not find the command" in server.ended["message"]
    assert "no-such-program" in server.output("stderr")


def test_a_trial_killed_from_outside_is_told_with_its_signal(keeper, server):
    assert keeper.run("kill -KILL $$") == 137
    assert (server.ended["signal"], server.ended["exit_code"], server.ended["reason"]) == (9, None, "exited")
    assert "SIGKILL" in server.ended["message"]


def test_a_folder_that_does_not_exist_is_named(keeper, server):
    assert keeper.run("true", code={"folder": "/no/such/folder"}) == 1
    assert server.ended["reason"] == "not_started"
    assert "/no/such/folder does not exist" in server.ended["message"]
    assert [entry["type"] for entry in server.entries] == ["started", "ended"]


def test_a_cancelled_attempt_is_not_started(keeper, server, tmp_path):
    (keeper.folder / contract.CANCELED_FILE).touch()
    assert keeper.run(f"touch {tmp_path}/started") == 82
    assert not (tmp_path / "started").exists()
    assert server.entries == []


def test_a_tombstone_put_beside_a_running_trial_stops_it(keeper, server):
    process = keeper.start("sleep 60")
    wait_until(lambda: keeper.exists(contract.TRIAL_FILE))
    (keeper.folder / contract.CANCELED_FILE).touch()
    assert process.wait(90) == 143
    assert server.ended["reason"] == "stopped"


def test_the_trial_sees_what_nni_needs_and_no_secret(keeper, server):
    command = "env > env.txt"
    variables = {"KEPT": "yes", "NNI_TRIAL_COMMAND_CHANNEL": "http://x", "SDK_PROCESS": "dispatcher",
                 "CUDA_VISIBLE_DEVICES": "5"}
    assert keeper.start(command, variables=variables, environment={"MINE": "a b"}, path=["/first"]).wait(90) == 0
    text = (keeper.folder / contract.CODE_FOLDER / "env.txt").read_text()
    seen = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    folder = str(keeper.folder / contract.NNI_FOLDER)
    expected = {"NNI_PLATFORM": "local", "REUSE_MODE": "false", "NNI_EXP_ID": "expaaaaaaaaa",
                "NNI_TRIAL_JOB_ID": "trialaaaaaaa", "NNI_TRIAL_SEQ_ID": "3", "NNI_SYS_DIR": folder,
                "NNI_OUTPUT_DIR": folder, "NNI_CODE_DIR": str(keeper.folder / contract.CODE_FOLDER),
                "MULTI_PHASE": "false", "KEPT": "yes", "MINE": "a b", "CUDA_VISIBLE_DEVICES": "5"}
    assert {name: seen.get(name) for name in expected} == expected
    assert seen["PATH"].startswith("/first:")
    assert server.token not in text
    assert not {"NNI_TRIAL_COMMAND_CHANNEL", "SDK_PROCESS", contract.ENV_TOKEN, contract.ENV_URLS} & set(seen)


@pytest.mark.parametrize(("gpus", "seen"), [([], "-1"), ([2, 0], "2,0")])
def test_the_trial_sees_its_gpus_only(keeper, server, gpus, seen):
    command = f"[ \"$CUDA_VISIBLE_DEVICES\" = '{seen}' ] && [ -z \"$SECRET\" ]"
    process = keeper.start(command, variables={"SECRET": "x"}, gpu_indices=gpus, inherit_environment=["HOME"])
    assert process.wait(90) == 0
    assert server.entries[0]["gpu_indices"] == gpus


def test_nothing_of_the_keeper_is_in_the_working_directory(keeper, server):
    assert keeper.run("ls -A > ../seen; exit 0") == 0
    assert (keeper.folder / "seen").read_text() == ""


def test_output_is_sent_as_head_and_tail_with_what_was_left_out_between(keeper, server):
    limits = {"output_head_bytes": 1000, "output_tail_bytes": 500}
    command = "for i in $(seq 100000 100999); do echo $i; done; echo err >&2"
    assert keeper.run(command, limits=limits) == 0
    whole = (keeper.folder / "stdout").read_text()
    pieces = [entry for entry in server.of_type("output") if entry["stream"] == "stdout"]
    for piece in pieces:
        assert whole[piece["offset"]:piece["offset"] + len(piece["data"])] == piece["data"]
    tail = next(piece for piece in pieces if piece.get("skipped"))
    assert (tail["offset"], tail["skipped"]) == (len(whole) - 500, len(whole) - 1500)
    assert sum(len(piece["data"]) for piece in pieces) == 1500
    assert server.output("stderr") == "err\n"


def test_bytes_that_are_no_text_arrive_as_they_are(keeper, server):
    assert keeper.run("head -c 256 /dev/urandom | tee ../copy") == 0
    assert server.output().encode("latin-1") == (keeper.folder / "copy").read_bytes()


def test_marked_lines_are_metrics_and_not_output(keeper, server):
    metric = '{"parameter_id": 1, "trial_job_id": "t", "type": "FINAL", "sequence": 0, "value": "\\"it\'s\\""}'
    printed = f"before\nNNISDK_MEb'{metric}'\nafter"
    code = f"import sys; sys.stdout.write({printed!r})"
    assert keeper.run(keeper.python_command(code)) == 0
    assert server.values() == ['"it\'s"']
    assert server.output() == "before\nafter"
    assert "NNISDK_ME" in (keeper.folder / "stdout").read_text()


def test_awkward_values_survive_the_journey(keeper, server):
    values = ["NaN", "Infinity", "1e308", '"nul \\u0000"', "raw \x00 nul", "\ud800", "\u20ac", "not json", ""]
    metrics = [{"parameter_id": None, "trial_job_id": "t", "type": "PERIODICAL", "sequence": n, "value": value}
               for n, value in enumerate(values)]
    code = ("import os, json\nfolder = os.environ['NNI_SYS_DIR'] + '/.nni'\nos.makedirs(folder)\n"
            "with open(folder + '/metrics', 'wb') as f:\n"
            "    for m in json.load(open('../metrics.json')):\n"
            "        t = json.dumps(m).encode() + b'\\n'\n        f.write(b'ME%06d' % len(t) + t)")
    (keeper.folder / "metrics.json").write_text(json.dumps(metrics))
    assert keeper.run(keeper.python_command(code)) == 0
    assert server.values() == values


def test_later_parameters_reach_a_waiting_trial(keeper, server):
    code = ("import nni\nwhile True:\n    p = nni.get_next_parameter()\n    if p is None: break\n"
            "    nni.report_final_result(p['x'])")
    process = keeper.start(keeper.python_command(code), multi_phase=True)
    for index, parameters in ((1, {"x": 2}), (2, None)):
        server.wait_for(lambda index=index: [
            entry for entry in server.of_type("metric")
            if (entry["kind"], entry["value"]) == ("REQUEST_PARAMETER", str(index))])
        text = json.dumps({"parameter_id": index + 7, "parameters": parameters, "parameter_index": index})
        server.orders = [{"order": "parameters", "index": index, "text": text}]
        server.next_report_within = 0.05
    assert process.wait(90) == 0
    finals = [(entry["parameter_id"], entry["value"]) for entry in server.of_type("metric") if entry["kind"] == "FINAL"]
    assert finals == [(7, "1"), (8, "2")]
    assert server.reports[-1]["keeper"]["parameter_index"] == 2


# --- keepers that are killed ---------------------------------------------------------------


def test_the_next_keeper_finishes_what_a_killed_one_left_and_doubles_nothing(keeper, server):
    code = ("import nni, time; nni.get_next_parameter(); nni.report_intermediate_result(1)\n"
            "print('one', flush=True); nni.report_intermediate_result(2); time.sleep(60)")
    process = keeper.start(keeper.python_command(code) + " & wait")
    server.wait_for(lambda: len(server.values()) == 2 and server.output())
    process.kill()
    process.wait()
    trial = keeper.read(contract.TRIAL_FILE)["pid"]
    assert lives(trial), "the trial does not notice a dead keeper"
    metrics = keeper.folder / contract.NNI_FOLDER / contract.METRICS_FILE
    text = b'{"type": "PERIODICAL", "sequence": 2, "value": "3"}\n'
    with metrics.open("ab") as stream:
        stream.write(b"ME%06d" % len(text) + text)
    assert keeper.run() == 1
    assert not lives(trial)
    assert keeper.trial_processes() == []
    assert server.values() == ["1", "2", "3"]
    assert server.output() == "one\n"
    assert (server.ended["reason"], len(server.of_type("ended"))) == ("lost", 1)
    assert "keeper was killed" in server.ended["message"]
    began, ended = (server.of_type(kind)[0]["at"] for kind in ("started", "ended"))
    assert 0 < server.ended["duration"] == pytest.approx(ended - began, abs=0.5)
    assert [entry["n"] for entry in server.entries] == list(range(1, len(server.entries) + 1))


@pytest.mark.parametrize("name", [contract.WAKE_FILE, contract.KEEPER_FILE, contract.ORDERS_FILE])
@pytest.mark.parametrize("put", ["touch {}", "mkfifo {}", "mkdir -p {}/in", "ln -s $HOME/own {}"],
                         ids=["file", "pipe", "folder", "link"])
def test_the_next_keeper_finishes_whatever_the_trial_has_put_in_a_file_s_place(keeper, server, tmp_path, name, put):
    own = tmp_path / "own"
    own.write_text("the trial's own")
    path = keeper.folder / name
    process = keeper.start(f"rm -f {path}; {put.format(path)}; touch put; sleep 60", {"HOME": str(tmp_path)})
    wait_until(lambda: keeper.exists("code/put"))
    process.kill()
    process.wait()
    assert keeper.run(seconds=20) == 1
    assert (server.ended["reason"], keeper.trial_processes()) == ("lost", [])
    assert own.read_text() == "the trial's own"


def test_a_wake_up_goes_into_a_pipe_and_into_nothing_else(tmp_path):
    own = tmp_path / "own"
    own.write_text("the trial's own")
    (tmp_path / contract.WAKE_FILE).symlink_to(own)
    attempt_folder.wake(str(tmp_path))
    assert own.read_text() == "the trial's own"


def test_a_keeper_killed_after_the_end_was_written_tells_that_end(keeper, server):
    assert keeper.run("exit 6") == 6
    lines = (keeper.folder / contract.JOURNAL_FILE).read_bytes().splitlines(keepends=True)
    (keeper.folder / contract.JOURNAL_FILE).write_bytes(b"".join(lines[:-1]))
    (keeper.folder / contract.ACCEPTED_FILE).write_text("1")
    server.entries = [entry for entry in server.entries if entry["type"] != "ended"]
    assert keeper.run() == 6
    assert (server.ended["exit_code"], server.ended["reason"]) == (6, "exited")


def test_a_cancel_after_the_keeper_was_killed_is_a_stop(keeper, server):
    process = keeper.start("sleep 60")
    wait_until(lambda: keeper.exists(contract.TRIAL_FILE))
    process.kill()
    process.wait()
    (keeper.folder / contract.CANCELED_FILE).touch()
    assert keeper.run() == 1
    assert server.ended["reason"] == "stopped"
    assert keeper.trial_processes() == []


def test_entries_the_disk_lost_but_the_server_has_are_not_overwritten(keeper, server):
    process = keeper.start("echo one; sleep 60")
    server.wait_for(lambda: server.output())
    process.kill()
    process.wait()
    path = keeper.folder / contract.JOURNAL_FILE
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:2]) + b'{"n": 2, "at"')  # a power cut
    known = server.accepted
    assert keeper.run() == 1
    assert server.accepted > known
    assert server.entries[-1]["type"] == "ended"
    assert [entry["n"] for entry in server.entries] == list(range(1, len(server.entries) + 1))


def test_a_process_that_got_the_number_of_a_dead_trial_is_left_alone(keeper, server):
    process = keeper.start("sleep 60")
    wait_until(lambda: keeper.exists(contract.TRIAL_FILE))
    process.kill()
    process.wait()
    for pid in keeper.trial_processes():
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not keeper.trial_processes())
    trial = keeper.read(contract.TRIAL_FILE)
    (keeper.folder / contract.TRIAL_FILE).write_text(json.dumps({**trial, "pid": os.getpid()}))
    assert keeper.run() == 1  # and this test is still there
    assert server.ended["reason"] == "lost"


def test_a_signal_between_the_end_and_its_delivery_is_not_lost(keeper: KeeperRun, server) -> None:
    server.stop()
    keeper.before = """
import os, signal
from trialkeeper import delivery
delivery.LAST_TRIES = 0.1
record = keeper.Keeper._record_end

def record_and_be_told(self, end):
    record(self, end)
    os.kill(os.getpid(), signal.SIGTERM)

keeper.Keeper._record_end = record_and_be_told
"""
    assert keeper.run("true", seconds=60, limits={"claim_timeout": 0.1}) == 0
    assert "stays in the journal" in keeper.log()


@pytest.mark.slow
def test_ctrl_c_on_a_keeper_whose_server_is_away_ends_it_after_its_last_tries(keeper: KeeperRun, server, monkeypatch):
    server.stop()
    process = keeper.start("true", limits={"claim_timeout": 0.1})
    wait_until(lambda: keeper.exists(contract.EXIT_FILE))
    wait_until(lambda: len(keeper.journal_lines()) == 3)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 0
    assert "stays in the journal" in keeper.log()


@pytest.mark.parametrize("planted", ["a folder for everybody", "a link"])
def test_without_a_folder_of_its_own_a_keeper_runs_nothing_that_others_can_have_put_there(
        tmp_path, monkeypatch, capfd, planted):
    """Everybody can make folders in the temporary folder."""
    above = tmp_path / f"nniweb-{os.getuid()}"
    there = above if planted == "a folder for everybody" else tmp_path / "elsewhere"
    (there / "job1").mkdir(parents=True)
    (there / "job1" / contract.JOB_FILE).write_text(json.dumps(
        {"job_name": "job1", "command": f"touch {tmp_path}/ran"}))
    if there == above:
        there.chmod(0o777)
    else:
        above.symlink_to(there)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert run({contract.ENV_JOB: "job1"}) == 2
    assert "is not this user's alone" in capfd.readouterr().err
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("name", [contract.STDOUT_FILE, contract.STDERR_FILE, contract.KEEPER_LOG_FILE,
                                  contract.JOB_FILE, contract.ORDERS_FILE, contract.EXIT_FILE, contract.ACCEPTED_FILE])
def test_a_trial_that_has_put_a_pipe_in_a_file_s_place_has_its_end_told(keeper, server, name):
    path = keeper.folder / name
    keeper.run(f"rm -f {path}; mkfifo {path}; sleep 0.3; exit 3", seconds=20)
    assert (server.ended["reason"], server.ended["exit_code"]) == ("exited", 3)
