"""Cases: trials that run on two nodes at the same time, on platforms that can."""

from __future__ import annotations

from dataclasses import replace

import pytest

from trainingservice.base import TrainingService
from trainingservice.nodes.options import NodeOptions, rank_rows
from trainingservice.reasons import arguments_of, code_of
from trainingservice.testing.bench import Bench
from trainingservice.testing.cases.fixtures import ConformanceFixtures, needs_this_machine
from trainingservice.trial_job import JobApplicationForm
from trainingservice.trial_job_status import TrialJobStatus
from trainingservice.variants.code_variant import ChangedFile
from trialkeeper import contract

#: Rank 0 is told a number, which rank 1 has in its code, where the two were to meet, and reports it.
_MEETING = """
import os, socket, time
import nni
address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
if os.environ["RANK"] == "0":
    with socket.create_server(("", address[1])) as server:
        number = int(server.accept()[0].makefile().readline())
    nni.get_next_parameter()
    nni.report_final_result(number)
else:
    while True:
        try:
            with socket.create_connection(address, 5) as peer:
                peer.sendall(open("number", "rb").read())
            break
        except OSError:
            time.sleep(0.05)
"""
#: Each rank notes that it works, and rank 1 fails when both do.
_FAILING = """
import os, sys, time
rank = os.environ["RANK"]
open(os.path.join(sys.argv[1], "rank" + rank), "w").close()
while not all(os.path.exists(os.path.join(sys.argv[1], "rank" + other)) for other in "01"):
    time.sleep(0.05)
if rank == "1":
    sys.exit("rank 1 has had enough")
time.sleep(600)
"""


def _on_two_nodes(bench: Bench, form: JobApplicationForm) -> JobApplicationForm:
    if not isinstance(form.options, NodeOptions) or bench.platform.most_nodes < 2:
        pytest.skip("trials of this platform run on one node")
    return replace(form, options=form.options.model_copy(update={"nodes": 2}))


class NodeCases(ConformanceFixtures):
    def test_two_nodes_of_a_trial_meet_and_rank_0_alone_reports(self, bench: Bench, service: TrainingService) -> None:
        code = bench.code({"trial.py": _MEETING, "number": "40\n" if service.takes_variants else "41\n"})
        variant = bench.variant(code, ChangedFile("number", "41\n", "40\n")) if service.takes_variants else None
        form = _on_two_nodes(bench, bench.form(f"{bench.platform.python} trial.py", code=code, variant=variant))
        service.submit_trial_job(form)
        detail = bench.wait_for_end(service, form)
        assert [entry["value"] for entry in bench.entries(form, contract.METRIC)] == ["41"]
        assert len(bench.entries(form, contract.STARTED)) == 1
        rows = rank_rows(detail.platform_state)
        assert [(row["rank"], row["status"]) for row in rows] == [(0, "SUCCEEDED"), (1, "SUCCEEDED")]

    def test_a_rank_that_fails_ends_the_trial_and_is_named(self, bench: Bench, service: TrainingService) -> None:
        needs_this_machine(bench)
        form = _on_two_nodes(bench, bench.form(f'python3 trial.py "{bench.witness}"', script=_FAILING))
        service.submit_trial_job(form)
        detail = bench.wait_for_status(service, form, TrialJobStatus.FAILED)
        reason = arguments_of(detail.message)
        assert (code_of(detail.message), reason["rank"], reason["last_lines"]) == (
            "rank_failed", 1, "rank 1 has had enough")
        bench.wait("no rank runs any more", lambda: not bench.trial_processes(form))

    def test_a_trial_on_two_nodes_that_is_stopped_leaves_nothing(self, bench: Bench, service: TrainingService) -> None:
        form = _on_two_nodes(bench, bench.form("sleep 600"))
        service.submit_trial_job(form)
        bench.wait("both ranks run", lambda: [row["status"] for row in rank_rows(
            service.get_trial_job(form.job_name).platform_state)] == ["RUNNING"] * 2)
        service.cancel_trial_job(form.job_name)
        bench.wait_for_status(service, form, TrialJobStatus.USER_CANCELED)
        if bench.platform.runs_here:
            bench.wait("no rank runs any more", lambda: not bench.trial_processes(form))
