"""A budget holds to the trial while two workers start eight trials at a time each, on PostgreSQL."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.end_to_end.kill_table.witnessed_experiment import WitnessedExperiment
from tests.end_to_end.scaled_out.several_processes import Installation, is_traceback_free
from tests.fakes.ssh_machine import SshMachine

AT_ONCE = 8


@pytest.mark.timeout(600)
@pytest.mark.slow
def test_two_workers_begin_no_trial_more_than_the_budget_has(installation: Installation, tmp_path: Path) -> None:
    web = installation.web("web").start()
    workers = [installation.worker(name).start() for name in ("one", "two")]
    budget = web.post("budgets/", {"period": "total", "trials": 37})
    with ExitStack() as stack:
        experiments = []
        for name in ("ada", "bob"):
            machine = stack.enter_context(SshMachine(tmp_path / name, name))
            experiments.append(WitnessedExperiment(
                web, tmp_path / f"experiment-{name}", trials=60, concurrency=AT_ONCE, steps=3, pause=0.02, platform={
                    "platform": "remote", "machineList": [machine.in_config(maxTrialNumber=AT_ONCE)]}).launch())

        def begun() -> int:
            return sum(experiment.begun() for experiment in experiments)

        def all_wait() -> bool:
            return not any(row["status"] == "RUNNING" for one in experiments for row in one.rows()) and all(
                any((row["reason"] or {}).get("code") == "budget" for row in one.rows()) for one in experiments)

        for limit in (37, 50):
            web.patch(f"budgets/{budget['id']}/", {"trials": limit})
            web.wait_until(lambda limit=limit: begun() == limit and all_wait(), 240, "the budget is used up")
            [found] = web.get_all("budgets/")
            assert (found["used"]["trials"], found["running"]["trials"], found["left"]) == (limit, 0, {"trials": 0})
        assert len({holder for holder in installation.holders().values() if holder}) == 2, "each worker drove one"
        for experiment in experiments:
            experiment.ledger_agrees(experiment.rows())
            web.post(f"experiments/{experiment.id}/actions/stop/")
            web.wait_for_experiment(experiment.id, "STOPPED")
        assert begun() == 50
        for process in (web, *workers):
            assert is_traceback_free(process.log()), process.log()
