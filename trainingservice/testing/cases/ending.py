"""Cases: every way in which a trial ends."""

from __future__ import annotations

import json

import pytest

from trainingservice.base import TrainingService
from trainingservice.errors import PermanentError
from trainingservice.testing.bench import Bench
from trainingservice.testing.cases.fixtures import ConformanceFixtures, needs_this_machine
from trainingservice.testing.processes import is_alive
from trainingservice.trial_job import TrialCode
from trainingservice.trial_job_status import TrialJobStatus
from trialkeeper import contract

STUBBORN_FAMILY = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
pids = [os.getpid()]
for leaves_session in (False, True):
    reading, writing = os.pipe()
    if os.fork() == 0:
        if leaves_session:
            os.setsid()
        child = os.fork()
        if child:
            os.write(writing, b"%d %d " % (os.getpid(), child))
        time.sleep(120)
        os._exit(0)
    time.sleep(0.1)
    pids += [int(pid) for pid in os.read(reading, 100).split()]
with open(sys.argv[1] + ".new", "w") as stream:
    stream.write(" ".join(map(str, pids)))
os.rename(sys.argv[1] + ".new", sys.argv[1])
time.sleep(120)
"""

REPORT_WHEN_TOLD = """
import os, sys, time, nni
nni.get_next_parameter()
nni.report_intermediate_result(0.25)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.02)
nni.report_intermediate_result(0.5)
nni.report_final_result(0.75)
"""


class EndingCases(ConformanceFixtures):
    # --- by itself -------------------------------------------------------------------------

    @pytest.mark.parametrize(("command", "status", "exit_code"), [
        ("exit 0", TrialJobStatus.SUCCEEDED, 0),
        ("exit 3", TrialJobStatus.FAILED, 3),
        ("kill -9 $$", TrialJobStatus.FAILED, None),
        ("no-such-command-anywhere", TrialJobStatus.FAILED, 127),
    ])
    def test_the_exit_code_decides(self, bench: Bench, service: TrainingService, command: str,
                                   status: TrialJobStatus, exit_code: int | None) -> None:
        form = bench.form(command)
        service.submit_trial_job(form)
        detail = bench.wait_for_end(service, form, status)
        ended = bench.entries(form, contract.ENDED)
        assert [entry["reason"] for entry in ended] == [contract.EXITED]
        if exit_code is not None:
            assert detail.exit_code == ended[0]["exit_code"] == exit_code
        else:
            assert 9 in (ended[0]["signal"], (ended[0]["exit_code"] or 0) - 128)

    def test_a_job_whose_code_is_missing_fails_with_a_sentence(self, bench: Bench, service: TrainingService) -> None:
        gone = bench.folder / "gone"
        code = TrialCode(folder=gone, archive=gone.with_suffix(".tar.gz"), sha256="0" * 64)
        form = bench.form("true", code=code)
        try:
            service.submit_trial_job(form)
            sentence = bench.wait_for_status(service, form, TrialJobStatus.FAILED).message
        except PermanentError as refusal:  # a platform may know it at once
            sentence = str(refusal)
        assert sentence
        assert bench.output(form) == ""

    def test_what_a_trial_leaves_in_the_background_ends_with_it(self, bench: Bench, service: TrainingService) -> None:
        needs_this_machine(bench)
        pid = bench.witness / "pid"
        form = bench.form(f'sleep 120 & echo $! > "{pid}"; exit 0')
        service.submit_trial_job(form)
        bench.wait_for_end(service, form)
        assert not is_alive(int(pid.read_text()))

    def test_an_end_seen_before_the_last_report_loses_nothing(self, bench: Bench, service: TrainingService) -> None:
        needs_this_machine(bench)
        go = bench.witness / "go"
        form = bench.form(f'{bench.platform.python} trial.py "{go}"', script=REPORT_WHEN_TOLD)
        service.submit_trial_job(form)
        bench.wait("the first metric has come", lambda: bench.entries(form, contract.METRIC))
        bench.server.close()
        try:
            go.touch()
            # where the platform's job ends with its keeper only, the end is not to be seen yet: that is right, too
            bench.wait_if_it_comes(lambda: service.get_trial_job(form.job_name).status.is_end, patience=3)
        finally:
            bench.server.start()
        bench.wait_for_end(service, form)
        assert [(entry["kind"], entry["sequence"], entry["value"]) for entry in bench.entries(form, contract.METRIC)] \
            == [("PERIODICAL", 0, "0.25"), ("PERIODICAL", 1, "0.5"), ("FINAL", 0, "0.75")]

    # --- by a word -------------------------------------------------------------------------

    def test_a_job_canceled_at_once_does_not_do_its_work(self, bench: Bench, service: TrainingService) -> None:
        needs_this_machine(bench)
        form = bench.form(f'sleep 3; touch "{bench.witness}/worked"')
        service.submit_trial_job(form)
        service.cancel_trial_job(form.job_name)
        detail = bench.wait_for_status(service, form, TrialJobStatus.USER_CANCELED)
        assert detail.is_early_stopped is False
        assert service.submit_trial_job(form).status is TrialJobStatus.USER_CANCELED
        bench.wait("no process of the trial is left", lambda: not bench.trial_processes(form))
        assert not (bench.witness / "worked").exists()

    @pytest.mark.parametrize("early", [False, True])
    def test_a_running_job_is_canceled_and_says_by_whom(self, bench: Bench, service: TrainingService,
                                                        early: bool) -> None:
        form = bench.form("echo here; sleep 120")
        service.submit_trial_job(form)
        bench.wait("the trial runs", lambda: bench.output(form))
        service.cancel_trial_job(form.job_name, is_early_stopped=early)
        service.cancel_trial_job(form.job_name, is_early_stopped=not early)
        status = TrialJobStatus.EARLY_STOPPED if early else TrialJobStatus.USER_CANCELED
        detail = bench.wait_for_end(service, form, status)
        assert detail.is_early_stopped is early
        assert [entry["reason"] for entry in bench.entries(form, contract.ENDED)] == [contract.STOPPED]

    def test_a_cancel_after_the_end_changes_nothing(self, bench: Bench, service: TrainingService) -> None:
        form = bench.form("true")
        service.submit_trial_job(form)
        before = bench.wait_for_end(service, form)
        service.cancel_trial_job(form.job_name)
        assert service.update_trial_job(form.job_name, form) == before

    def test_the_whole_process_tree_ends_even_if_it_does_not_want_to(self, bench: Bench,
                                                                     service: TrainingService) -> None:
        needs_this_machine(bench)
        form = bench.form(f'{bench.platform.python} trial.py "{bench.witness}/pids"; true', script=STUBBORN_FAMILY)
        service.submit_trial_job(form)
        pids = [int(pid) for pid in bench.wait_for_file(bench.witness / "pids").split()]
        assert len(pids) == 5
        assert all(is_alive(pid) for pid in pids)
        service.cancel_trial_job(form.job_name)
        bench.wait_for_end(service, form, TrialJobStatus.USER_CANCELED)
        assert [pid for pid in pids if is_alive(pid)] == []

    def test_a_trial_over_its_time_limit_is_stopped_early(self, bench: Bench, service: TrainingService) -> None:
        form = bench.form("sleep 120", limits={"max_trial_duration": 0.5})
        service.submit_trial_job(form)
        bench.wait_for_end(service, form, TrialJobStatus.EARLY_STOPPED)
        ended = bench.entries(form, contract.ENDED)[0]
        assert ended["reason"] == contract.TIME_LIMIT
        assert 0.4 <= ended["duration"] < 20

    def test_an_order_of_the_server_stops_a_trial(self, bench: Bench, service: TrainingService) -> None:
        form = bench.form("echo here; sleep 120")
        service.submit_trial_job(form)
        bench.wait("the trial runs", lambda: bench.output(form))
        bench.server.order_stop(form.job_name, "the experiment was stopped")
        bench.wait("the trial has reported its end", lambda: bench.entries(form, contract.ENDED))
        ended = bench.entries(form, contract.ENDED)[0]
        assert ended["reason"] == contract.STOPPED, json.dumps(ended)
        bench.wait("the service sees the end", lambda: service.get_trial_job(form.job_name).status.is_end)
        assert service.get_trial_job(form.job_name).status is not TrialJobStatus.SUCCEEDED
