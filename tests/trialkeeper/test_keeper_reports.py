"""What a keeper reports, through outages, cut connections and strangers."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.trialkeeper.keeper_run import NO_OLD_PYTHON, KeeperRun, old_python, wait_until
from trainingservice.keeper.keeper_bundle import build_keeper
from trialkeeper import contract
from trialkeeper.access import Access
from trialkeeper.journal import Journal
from trialkeeper.keeper import HOLD_FINAL_RESULT
from trialkeeper.kept_files import find_kept_files
from trialkeeper.reporter import Reporter
from trialkeeper.server_connection import ServerAway

TRIAL = """
import nni, sys
parameters = nni.get_next_parameter()
for step in range(%d):
    nni.report_intermediate_result(step * parameters["x"])
nni.report_final_result(0.5)
print("trained with", parameters, nni.get_experiment_id(), nni.get_trial_id(), nni.get_sequence_id())
print("warned", file=sys.stderr)
"""


def check_whole_run(server, steps):
    assert [entry["n"] for entry in server.entries] == list(range(1, len(server.entries) + 1))
    assert server.entries[0]["type"] == "started"
    assert server.entries[-1]["type"] == "ended"
    assert server.values() == [*(str(step) for step in range(steps)), "0.5"]
    kinds = [(entry["kind"], entry["parameter_id"], entry["sequence"]) for entry in server.of_type("metric")]
    assert kinds == [*(("PERIODICAL", 7, step) for step in range(steps)), ("FINAL", 7, 0)]
    assert "trained with {'x': 1} expaaaaaaaaa trialaaaaaaa 3" in server.output()
    assert "warned" in server.output("stderr")
    assert server.ended["reason"] == "exited"
    assert server.ended["exit_code"] == 0
    assert server.ended["duration"] > 0


@pytest.mark.parametrize("version", ["this", "3.8"])
def test_a_trial_is_run_from_the_zipapp_and_reported_whole(version, tmp_path, server):
    python = sys.executable if version == "this" else old_python()
    if python is None:
        pytest.skip(NO_OLD_PYTHON % "3.8")
    run = KeeperRun(tmp_path / "attempt", server, python)
    server.job = run.job(run.python_command(TRIAL % 5))  # no file: it is fetched
    bundle = build_keeper(tmp_path / "bundle").path
    environment = {contract.ENV_URLS: server.url, contract.ENV_TOKEN: server.token, contract.ENV_JOB: server.job_name,
                   contract.ENV_FOLDER: str(run.folder), "PATH": os.environ["PATH"]}
    done = subprocess.run([python, str(bundle), "run"], env=environment, timeout=60, capture_output=True)
    assert done.returncode == 0, done.stderr
    check_whole_run(server, 5)
    assert (run.folder / contract.JOB_FILE).stat().st_mode & 0o777 == 0o600
    assert not any(server.token in line for line in run.log().splitlines())


def test_each_metric_arrives_exactly_once_through_outages_and_cut_connections(keeper, server):
    server.then(cut="after").then(status=503, headers={"Retry-After": "1"})
    trial = TRIAL.replace("    nni.report_inter", "    import time; time.sleep(0.01)\n    nni.report_inter") % 150
    process = keeper.start(keeper.python_command(trial))
    server.wait_for(lambda: len(server.values()) > 5)
    server.stop()
    accepted = server.accepted
    wait_until(lambda: len(keeper.journal_lines()) > accepted + 20, what="a journal that grows without a server")
    server.start()
    server.then(cut="after").then(cut="before")
    assert process.wait(60) == 0
    check_whole_run(server, 150)


def test_an_answer_that_was_lost_makes_no_double(keeper, server):
    server.then(cut="after", times=3)
    assert keeper.run(keeper.python_command(TRIAL % 3), seconds=60) == 0
    check_whole_run(server, 3)
    sent = [entry["n"] for report in server.reports for entry in report["entries"]]
    assert len(sent) > len(set(sent)), "the script must have made the keeper send something twice"


def test_the_trial_ends_while_the_server_is_away_and_all_is_delivered_later(keeper, server):
    server.stop()
    process = keeper.start(keeper.python_command(TRIAL % 3), limits={"claim_timeout": 0.2})
    wait_until(lambda: keeper.exists(contract.EXIT_FILE), what="the end of the trial")
    assert process.poll() is None
    server.start()
    assert process.wait(90) == 0
    check_whole_run(server, 3)


def test_a_gap_named_by_the_server_is_filled_from_the_journal(keeper, server):
    process = keeper.start("sleep 0.5; echo late")
    server.wait_for(lambda: server.entries)
    server.entries.clear()  # a server that was restored from a backup
    assert process.wait(90) == 0
    assert [entry["type"] for entry in server.entries] == ["started", "output", "ended"]


def test_a_stranger_on_the_port_counts_as_no_answer_and_the_trial_goes_on(keeper, server):
    process = keeper.start("while [ ! -e go ]; do sleep 0.02; done; exit 4")
    server.wait_for(lambda: server.entries)
    server.gone = True
    server.then(installation="somebody else", times=200)
    calls = len(server.calls)
    assert server.wait_for(lambda: len(server.calls) > calls + 1)
    (keeper.folder / contract.CODE_FOLDER / "go").touch()
    wait_until(lambda: keeper.exists(contract.EXIT_FILE))
    assert keeper.read(contract.EXIT_FILE)["reason"] == "exited", "a 410 of a stranger must not stop a trial"
    server.gone = False
    server._script.clear()
    assert process.wait(60) == 4
    assert server.ended["exit_code"] == 4
    assert "another installation" in keeper.log()


@pytest.mark.parametrize("status", [401, 404, 500, 302])
def test_answers_that_mean_nothing_do_not_stop_the_trial(keeper, server, status):
    process = keeper.start("while [ ! -e go ]; do sleep 0.02; done")
    server.wait_for(lambda: server.entries)
    server.then(status=status, times=2)
    server.wait_for(lambda: not server._script)
    (keeper.folder / contract.CODE_FOLDER / "go").touch()
    assert process.wait(60) == 0
    assert server.ended["reason"] == "exited"


def test_a_keeper_that_sends_too_much_for_its_server_waits_as_it_is_told_and_loses_nothing(keeper, server):
    process = keeper.start("for i in 1 2 3 4 5 6; do echo line $i; sleep 0.3; done; "
                           "while [ ! -e go ]; do sleep 0.02; done; exit 3")
    server.wait_for(lambda: server.entries)
    asked = time.monotonic()
    server.then(status=429, document={"installation": server.installation, "error": "busy", "message": "slower"},
                headers={"Retry-After": "1"}, times=2)
    server.wait_for(lambda: not server._script)
    assert time.monotonic() - asked >= 1.0, "it came at once the second time, in spite of what it was told"
    (keeper.folder / contract.CODE_FOLDER / "go").touch()
    assert process.wait(60) == 3
    text = "".join(entry["data"] for entry in server.of_type("output"))
    assert text == "".join(f"line {number}\n" for number in range(1, 7))
    assert server.ended["exit_code"] == 3
    assert keeper.log().count("asks for fewer reports") == 1
    assert "server is away" not in keeper.log()


def test_410_from_the_own_installation_stops_the_trial(keeper, server):
    process = keeper.start("sleep 60")
    server.wait_for(lambda: server.entries)
    server.gone = True
    assert process.wait(90) == 143
    assert keeper.read(contract.EXIT_FILE)["reason"] == "stopped"
    assert keeper.trial_processes() == []
    assert (keeper.folder / contract.ACCEPTED_FILE).read_text() == str(len(keeper.journal_lines()) - 1)


def test_a_stop_order_in_the_answer_stops_the_trial_with_its_reason(keeper, server):
    process = keeper.start("sleep 60")
    server.wait_for(lambda: server.entries)
    server.orders = [{"order": "stop", "reason": "not promising"}]
    assert process.wait(90) == 143
    assert (server.ended["reason"], server.ended["message"]) == ("stopped", "not promising")
    assert server.ended["signal"] == 15


def test_a_second_keeper_of_one_attempt_ends_by_itself_and_starts_nothing(keeper, server, tmp_path):
    first = keeper.start("sleep 60")
    server.wait_for(lambda: server.entries)
    other = KeeperRun(tmp_path / "other", server)
    assert other.run(f"touch {tmp_path}/started") == 82
    assert not (tmp_path / "started").exists()
    assert keeper.run() == 82, "a second keeper in the same folder"
    assert first.poll() is None
    assert len(server.of_type("started")) == 1
    server.orders = [{"order": "stop"}]
    first.wait(90)


def test_a_keeper_that_learns_late_of_another_owner_ends_its_trial(keeper, server):
    server.stop()
    process = keeper.start("sleep 60", limits={"claim_timeout": 0.1})
    wait_until(lambda: keeper.exists(contract.TRIAL_FILE))
    server.journal_id = "somebody else's"
    server.start()
    assert process.wait(90) == 82
    assert server.entries == []
    assert keeper.trial_processes() == []


def test_without_a_claim_timeout_nothing_starts_before_a_server_has_answered(keeper, server, tmp_path):
    server.then(status=503, times=3)
    process = keeper.start(f"touch {tmp_path}/started", limits={"claim_timeout": None})
    server.wait_for(lambda: len(server.calls) >= 2)
    assert not (tmp_path / "started").exists()
    assert process.wait(90) == 0
    assert (tmp_path / "started").exists()


def test_other_replicas_report_nothing_and_hear_stop(keeper, server):
    process = keeper.start("echo hello; sleep 60", variables={contract.ENV_REPLICA: "1"})
    server.wait_for(lambda: len(server.reports) >= 3)
    assert server.entries == []
    assert {report["keeper"]["replica"] for report in server.reports} == {1}
    assert all(report["entries"] == [] for report in server.reports)
    server.orders = [{"order": "stop"}]
    assert process.wait(90) == 143
    assert (keeper.folder / "stdout").read_text() == "hello\n"


def test_other_replicas_leave_the_time_limit_to_the_one_that_reports(keeper, server):
    process = keeper.start("sleep 60", variables={contract.ENV_REPLICA: "1"}, limits={"max_trial_duration": 0.1})
    server.wait_for(lambda: len(server.reports) >= 4)
    server.orders = [{"order": "stop"}]
    assert process.wait(90) == 143
    assert json.loads((keeper.folder / contract.EXIT_FILE).read_text())["reason"] == contract.STOPPED


def test_the_second_address_serves_when_the_first_does_not(keeper, server):
    keeper.variables[contract.ENV_URLS] = f"http://127.0.0.1:9,{server.url}"
    assert keeper.run("true") == 0
    assert server.ended


def test_a_new_address_in_the_url_file_is_used_at_once(keeper, server, tmp_path):
    url_file = tmp_path / "server.json"
    url_file.write_text(json.dumps({"urls": ["http://127.0.0.1:9"]}))
    keeper.variables.update({contract.ENV_URLS: "", contract.ENV_URL_FILE: str(url_file)})
    process = keeper.start("true", limits={"claim_timeout": 0.1})
    wait_until(lambda: keeper.exists(contract.EXIT_FILE))
    url_file.write_text(json.dumps({"urls": [server.url]}))
    assert process.wait(90) == 0
    assert server.ended


def test_an_address_that_is_written_while_the_old_one_is_asked_is_used_at_once(keeper, server, tmp_path):
    url_file = tmp_path / "server.json"
    with socket.create_server(("127.0.0.1", 0)) as old:
        url_file.write_text(json.dumps({"urls": [f"http://127.0.0.1:{old.getsockname()[1]}"]}))
        keeper.variables.update({contract.ENV_URLS: "", contract.ENV_URL_FILE: str(url_file)})
        process = keeper.start("true", limits={"claim_timeout": 0.1})
        old.settimeout(20)
        asked, _ = old.accept()
        with asked:
            asked.recv(65536)
            url_file.write_text(json.dumps({"urls": [server.url]}))
            asked.sendall(b"HTTP/1.1 503 moved\r\nRetry-After: 600\r\nContent-Length: 0\r\n\r\n")
    assert process.wait(90) == 0
    assert server.ended


def test_a_keeper_gives_up_after_its_time_and_leaves_the_journal(keeper, server):
    server.stop()
    assert keeper.run("echo hello", limits={"claim_timeout": 0.1, "give_up_after": 0.6}) == 0
    assert [line.get("type") for line in keeper.journal_lines()] == [None, "started", "output", "ended"]
    assert "giving up" in keeper.log()
    server.start()
    assert keeper.run() == 0, "the next keeper in this folder delivers"
    assert [entry["type"] for entry in server.entries] == ["started", "output", "ended"]


def test_what_a_platform_collected_as_a_file_is_not_waited_for(keeper, server):
    server.then(status=503, headers={"Retry-After": "600"}, times=10)
    process = keeper.start("true", limits={"claim_timeout": 0.1})
    wait_until(lambda: keeper.exists(contract.EXIT_FILE))
    wait_until(lambda: len(keeper.journal_lines()) == 3)
    (keeper.folder / contract.ACCEPTED_FILE).write_text("2")
    assert process.wait(90) == 0


def test_large_reports_are_compressed_and_cut_into_batches(keeper, server):
    code = TRIAL % 3 + "\nfor step in range(40): nni.report_intermediate_result('x' * 50000)\n"
    assert keeper.run(keeper.python_command(code), seconds=60) == 0
    assert len(server.values()) == 44
    assert "gzip" in server.encodings
    assert max(len(json.dumps(report)) for report in server.reports) < contract.REPORT_BATCH_BYTES + 60_000


def test_an_entry_the_server_will_not_take_is_replaced_and_holds_up_nothing(keeper, server):
    server.longest_body = 6000  # compressed; random text does not shrink
    code = ("import nni, random; nni.get_next_parameter(); nni.report_intermediate_result(1)\n"
            "nni.report_intermediate_result(''.join(chr(random.randrange(35, 90)) for _ in range(40000)))\n"
            "nni.report_final_result(2)")
    assert keeper.run(keeper.python_command(code), seconds=60) == 0
    assert server.values() == ["1", "2"]
    assert len(server.rejected) == 1


def test_heartbeats_carry_what_the_trial_uses(keeper, server):
    process = keeper.start("while true; do :; done")
    reading = server.wait_for(lambda: next(
        (report["resources"] for report in server.reports[3:] if report.get("resources", {}).get("cpu_percent")), None))
    assert reading["cpu_percent"] > 1
    assert reading["memory_bytes"] > 100_000
    server.orders = [{"order": "stop"}]
    process.wait(90)


def test_of_a_short_trial_nobody_reads_what_it_uses(keeper, server):
    assert keeper.run("true", limits={"report_interval": 10.0}) == 0
    assert [report["resources"] for report in server.reports if "resources" in report] == []
    assert server.ended["exit_code"] == 0


def test_kept_files_are_sent_before_the_end_is_told(keeper, server, tmp_path):
    (tmp_path / "secret").write_text("no")
    command = (f"mkdir -p 'out/deep dir'; echo one > out/a.txt; echo two > 'out/deep dir/\u00e4.txt'; echo no > b.log;"
               f" ln -s {tmp_path}/secret out/leak.txt")
    assert keeper.run(command, keep_files=["out/**/*.txt", "../*"]) == 0
    assert server.files == {"out/a.txt": b"one\n", "out/deep%20dir/%C3%A4.txt": b"two\n"}
    assert max(index for index, call in enumerate(server.calls) if call.startswith("PUT")) \
        < max(index for index, call in enumerate(server.calls) if call.startswith("POST"))
    assert server.ended


@pytest.mark.parametrize(("change", "kept"), [
    ("open('code/a.log', 'a').write('GET /evil HTTP/1.1\\r\\n\\r\\n')", b"one\n"),
    ("open('code/a.log', 'w').write('1')", b"1")], ids=["longer", "shorter"])
def test_of_a_kept_file_that_changes_while_it_is_sent_the_announced_bytes_are_sent(keeper, server, change, kept):
    keeper.before = ("from trialkeeper import reporter\ncall = reporter.ServerConnection.call\n"
                     "def change(self, method, *rest, **more):\n"
                     f"    if method == 'PUT': {change}\n"
                     "    return call(self, method, *rest, **more)\n"
                     "reporter.ServerConnection.call = change")
    assert keeper.run("echo one > a.log", seconds=20, keep_files=["*.log"]) == 0
    assert server.files == {"a.log": kept}
    assert [one for one in server.calls if "evil" in one] == []
    assert server.ended["exit_code"] == 0


def test_kept_files_of_the_output_folder_are_named_after_it_and_nothing_beside_it_is_sent(keeper, server):
    command = ('mkdir "$NNI_OUTPUT_DIR/best"; echo one > "$NNI_OUTPUT_DIR/best/a.pt"; echo two > b.pt;'
               ' ln -s ../../job.json "$NNI_OUTPUT_DIR/best/leak.pt"')
    assert keeper.run(command, keep_files=["$NNI_OUTPUT_DIR/**/*.pt", "$NNI_OUTPUT_DIR/../job.json", "*.pt"]) == 0
    assert server.files == {"NNI_OUTPUT_DIR/best/a.pt": b"one\n", "b.pt": b"two\n"}


def test_a_kept_file_whose_folder_becomes_a_link_before_it_is_sent_is_not_read(tmp_path):
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "a.pt").write_text("no")
    out = tmp_path / "work" / "out"
    out.mkdir(parents=True)
    (out / "a.pt").write_text("yes")
    (out / "best.pt").symlink_to("a.pt")  # a link that stays inside is kept as what it leads to
    files = find_kept_files(str(tmp_path / "work"), str(tmp_path), ["out/*.pt"], lambda text: None)
    assert [(file.name, file.open().read()) for file in files] == [("out/a.pt", b"yes"), ("out/best.pt", b"yes")]
    out.rename(tmp_path / "aside")
    out.symlink_to(tmp_path / "secrets")
    with pytest.raises(OSError, match="out|Not a directory"):
        files[0].open()
    out.unlink()
    out.mkdir()
    (out / "a.pt").symlink_to(tmp_path / "secrets" / "a.pt")
    with pytest.raises(OSError, match="no plain file"):
        files[0].open()


def test_orders_and_the_end_can_travel_as_files_alone(lone_keeper):
    process = lone_keeper.start("sleep 60")
    wait_until(lambda: lone_keeper.exists(contract.TRIAL_FILE))
    (lone_keeper.folder / contract.ORDERS_FILE).write_text(json.dumps([{"order": "stop", "reason": "by file"}]))
    assert process.wait(90) == 143
    assert lone_keeper.journal_lines()[-1]["message"] == "by file"


def test_a_metric_of_our_module_is_on_its_way_at_once_and_so_is_the_end(keeper, server):
    code = ("import nni, time; nni.get_next_parameter(); nni.report_intermediate_result(0); time.sleep(0.5)\n"
            "for _ in range(10):\n    nni.report_intermediate_result(time.monotonic()); time.sleep(0.13)\n"
            "print(time.monotonic(), end='', flush=True)\nimport os; os._exit(0)")
    server.next_report_within = 600
    keeper.before = "from trialkeeper import trial_watch\ntrial_watch.LOOK_EVERY = 600.0"
    # what is not told by the trial and by its end is not seen
    process = keeper.start(keeper.python_command(code))
    assert process.wait(60) == 0
    delays = []
    for report, arrived in zip(server.reports, server.arrivals, strict=True):
        delays += [arrived - float(entry["value"]) for entry in report["entries"]
                   if entry["type"] == "metric" and entry["value"] != "0"]
    assert len(delays) == 10
    assert max(delays) < 30, delays  # 3 ms on an idle machine; this one may be busy
    ended_at = float((keeper.folder / "stdout").read_text())
    assert server.arrivals[-1] - ended_at < 30


def test_a_final_result_waits_for_the_end_a_moment_and_no_longer(tmp_path):
    now = [100.0]
    journal = Journal(str(tmp_path / "journal"))
    reporter = Reporter(
        access=Access(), job_name="job", folder=str(tmp_path), journal=journal, keeper={"replica": 0}, limits={},
        tell=lambda word, detail: None, log=lambda line: None, now=lambda: now[0], resources=lambda: None,
        clock=lambda: now[0])
    reporter._next_heartbeat_at = 1000.0
    journal.append([{"at": 0.0, "type": contract.METRIC, "kind": contract.FINAL, "value": "1"}])
    reporter.notify(may_wait=HOLD_FINAL_RESULT)
    assert not reporter._is_due()
    assert reporter._seconds_to_wait() == pytest.approx(HOLD_FINAL_RESULT)
    now[0] += HOLD_FINAL_RESULT
    assert reporter._is_due()
    reporter.notify(may_wait=HOLD_FINAL_RESULT)
    assert not reporter._is_due()
    reporter.notify()  # something else has come, which does not wait
    assert reporter._is_due()
    reporter.notify(may_wait=HOLD_FINAL_RESULT)
    reporter.finish()
    assert reporter._is_due()


def gathering_reporter(tmp_path, server, now):
    """One that the server has asked to gather, when it had sent the start."""
    journal = Journal(str(tmp_path / "journal"))
    reporter = Reporter(
        access=Access([server.url], server.token), job_name=server.job_name, folder=str(tmp_path), journal=journal,
        keeper={"replica": 0, "journal_id": journal.journal_id}, limits={}, tell=lambda word, detail: None,
        log=lambda line: None, now=lambda: now[0], resources=lambda: None, clock=lambda: now[0])
    reporter._send_report()  # it learns what the server has
    journal.append([{"at": 0.0, "type": contract.STARTED}])
    reporter._send_report()
    reporter._next_heartbeat_at = 1000.0
    return reporter, journal


@pytest.mark.parametrize(("asked", "waited"), [(4, 4), (0, 0), (-1, 0), (3600, 10), ("4", 0), (None, 0)])
def test_metrics_wait_for_others_as_long_as_the_server_asks_for_and_ten_seconds_at_most(
        tmp_path, server, asked, waited):
    now = [100.0]
    server.gather_for = asked
    reporter, journal = gathering_reporter(tmp_path, server, now)
    journal.append([{"at": 0.0, "type": contract.METRIC, "kind": contract.PERIODICAL, "parameter_id": 0, "sequence": 0,
                     "value": "1"}])
    reporter.notify(is_urgent=False)
    assert reporter._seconds_to_wait() == waited
    assert reporter._is_due() == (waited == 0)
    now[0] += waited
    assert reporter._is_due()


def test_what_is_urgent_is_sent_at_once_and_takes_along_what_was_gathered(tmp_path, server):
    now = [100.0]
    server.gather_for = 5
    reporter, journal = gathering_reporter(tmp_path, server, now)
    for kind, is_urgent in ((contract.PERIODICAL, False), (contract.REQUEST_PARAMETER, True)):
        journal.append([{"at": 0.0, "type": contract.METRIC, "kind": kind, "parameter_id": 0, "sequence": 0,
                         "value": "1"}])
        reporter.notify(is_urgent=is_urgent)
    reporter.notify(is_urgent=False)  # a value more does not make it wait
    assert reporter._is_due()
    reporter._send_report()
    assert [entry["kind"] for entry in server.reports[-1]["entries"]] == ["PERIODICAL", "REQUEST_PARAMETER"]
    journal.append([{"at": 0.0, "type": contract.OUTPUT, "stream": "stdout", "offset": 0, "data": "x"}])
    reporter.notify(is_urgent=False)
    assert not reporter._is_due()
    reporter.finish()
    assert reporter._is_due()


def test_a_report_that_fails_is_sent_again_without_waiting_for_more(tmp_path, server):
    now = [100.0]
    server.gather_for = 5
    reporter, journal = gathering_reporter(tmp_path, server, now)
    journal.append([{"at": 0.0, "type": contract.OUTPUT, "stream": "stdout", "offset": 0, "data": "x"}])
    reporter.notify(is_urgent=False)
    now[0] += 5
    server.then(status=503)
    with pytest.raises(ServerAway):
        reporter._send_report()
    assert reporter._is_due()


def test_a_trial_that_is_asked_to_gather_sends_its_final_result_and_its_end_at_once(keeper, server, tmp_path):
    server.gather_for, server.next_report_within = 3600, 3600
    code = f"""
import nni, os, time
nni.get_next_parameter()
while not os.path.exists("{tmp_path}/go"):
    time.sleep(0.01)
for step in range(5):
    nni.report_intermediate_result(step)
    time.sleep(0.05)
nni.report_final_result(9)
"""
    process = keeper.start(keeper.python_command(code), limits={"report_interval": 3600})
    server.wait_for(lambda: server.entries)
    (tmp_path / "go").touch()
    assert process.wait(60) == 0
    assert server.values() == ["0", "1", "2", "3", "4", "9"]
    [values] = [values for report in server.reports if (values := [
        entry["value"] for entry in report["entries"] if entry["type"] == contract.METRIC])]
    assert values == ["0", "1", "2", "3", "4", "9"]


def test_what_a_later_keeper_needs_is_flushed_once_before_the_first_entry_is_told(tmp_path, server):
    told_when_flushed = []
    journal = Journal(str(tmp_path / "journal"))
    reporter = Reporter(
        access=Access([server.url], server.token), job_name=server.job_name, folder=str(tmp_path), journal=journal,
        keeper={"replica": 0, "journal_id": journal.journal_id}, limits={}, tell=lambda word, detail: None,
        log=lambda line: None, now=time.time, resources=lambda: None,
        prepare=lambda: told_when_flushed.append(len(server.entries)))
    reporter._send_report()
    assert told_when_flushed == []
    for kind in (contract.STARTED, contract.ENDED):
        journal.append([{"at": 0.0, "type": kind}])
        reporter._send_report()
    assert [entry["type"] for entry in server.entries] == ["started", "ended"]
    assert told_when_flushed == [0]


def test_a_keeper_that_only_listens_flushes_before_its_first_report(tmp_path, server):
    flushed = []
    journal = Journal(str(tmp_path / "journal"))
    reporter = Reporter(
        access=Access([server.url], server.token), job_name=server.job_name, folder=str(tmp_path), journal=journal,
        keeper={"replica": 1, "journal_id": journal.journal_id}, limits={}, tell=lambda word, detail: None,
        log=lambda line: None, now=time.time, resources=lambda: None, prepare=lambda: flushed.append(server.reports[:]))
    for _ in range(2):
        reporter._send_report()
    assert flushed == [[]]
    assert len(server.reports) == 2


def test_a_short_trial_whose_start_may_wait_is_told_in_one_report(keeper, server):
    assert keeper.run("true", limits={"claim_timeout": 0.0, "hold_started": 30.0}) == 0
    assert [[entry["type"] for entry in report["entries"]] for report in server.reports if report["entries"]] == [
        ["started", "ended"]]


def test_the_start_of_a_trial_that_goes_on_waits_no_longer_than_it_may(keeper, server):
    keeper.start("sleep 600", limits={"claim_timeout": 0.0, "hold_started": 0.2})
    server.wait_for(lambda: server.reports)
    assert [entry["type"] for entry in server.reports[0]["entries"]] == ["started"]


def test_an_intermediate_result_takes_a_start_that_waits_with_it(keeper, server):
    code = "import nni, time; nni.get_next_parameter(); nni.report_intermediate_result(0.5); time.sleep(600)"
    keeper.start(keeper.python_command(code), limits={"claim_timeout": 0.0, "hold_started": 600.0})
    server.wait_for(lambda: server.values() == ["0.5"])
    assert [entry["type"] for entry in server.reports[0]["entries"]] == ["started", "metric"]


def test_a_final_result_of_a_trial_that_goes_on_is_told(keeper, server):
    code = "import nni, time; nni.get_next_parameter(); nni.report_final_result(0.5); time.sleep(600)"
    process = keeper.start(keeper.python_command(code))
    server.wait_for(lambda: server.values() == ["0.5"])
    assert process.poll() is None


def test_a_keeper_alone_needs_little_memory(keeper, server):
    process = keeper.start("sleep 60")
    server.wait_for(lambda: len(server.reports) >= 2)
    memory = next(line for line in Path(f"/proc/{process.pid}/status").read_text().splitlines() if "VmRSS" in line)
    assert int(memory.split()[1]) < 25 * 1024, memory
    server.orders = [{"order": "stop"}]
    process.wait(90)


def test_a_wrong_name_or_folder_gets_a_sentence(keeper):
    assert keeper.run("true", variables={contract.ENV_JOB: "../x"}) == 2
    assert b"NNI_TRIAL_JOB_ID" in keeper.processes[-1].stderr.read()
    shutil.rmtree(keeper.folder)
    keeper.folder.write_text("a file")
    environment = {contract.ENV_FOLDER: str(keeper.folder), contract.ENV_JOB: "trialaaaaaaa"}
    done = subprocess.run([sys.executable, "-m", "trialkeeper", "run"], env={**os.environ, **environment},
                          capture_output=True, timeout=90)
    assert done.returncode == 2
    assert b"cannot be used" in done.stderr


def test_a_clock_that_jumps_changes_no_duration(keeper, server):
    # the wall clock is asked once; everything else hangs on the monotonic one
    before = time.time()
    assert keeper.run("sleep 0.3") == 0
    assert 0.25 < server.ended["duration"] < 60
    assert before - 1 < server.entries[0]["at"] <= server.entries[-1]["at"] < time.time() + 1
