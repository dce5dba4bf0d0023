"""Cases: what a trial saved goes with it."""

from __future__ import annotations

import json

from trainingservice.base import TrainingService
from trainingservice.testing.bench import Bench
from trainingservice.testing.cases.fixtures import ConformanceFixtures
from trainingservice.trial_job_status import TrialJobStatus
from trialkeeper import contract

#: Without a checkpoint: reports, and saves one when it is told to end. With one: reports what is in it.
SAVES_WHEN_TOLD = """
import nni, os, signal, sys, time
nni.get_next_parameter()
if "NNI_CHECKPOINT_DIR" not in os.environ:
    nni.report_final_result(-1)
    sys.exit()
found = nni.load_checkpoint()
if found is not None:
    with open(found) as stream:
        nni.report_final_result(float(stream.read()))
    sys.exit()
def save(number, frame):
    with nni.save_checkpoint(step=7) as path, open(path, "w") as stream:
        stream.write("0.25")
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
nni.report_intermediate_result(0)
time.sleep(120)
"""


def no_resume() -> contract.CheckpointsDocument:
    return {"max_bytes": 2 ** 20, "bytes_per_second": None, "grace": 30.0, "signal": "TERM", "resume": []}


class CheckpointCases(ConformanceFixtures):
    def test_a_frozen_job_saves_a_checkpoint_and_the_next_job_goes_on_with_it(self, bench: Bench,
                                                                             service: TrainingService) -> None:
        form = bench.form(script=SAVES_WHEN_TOLD, checkpoints=no_resume())
        service.submit_trial_job(form)
        bench.wait("it has reported", lambda: bench.entries(form, contract.METRIC))
        first = bench.entries(form, contract.METRIC)[0]
        if first["kind"] == contract.FINAL:  # it has no folder for them
            assert not (service.settings.keepers_call_home() and form.options.keepers_may_call()), \
                "its keeper calls the server, so it can send checkpoints"
            bench.wait_for_end(service, form)
            return
        order: contract.Order = {"order": contract.ORDER_FREEZE, "reason": "frozen by the suite"}
        bench.server.order_freeze(form.job_name, order["reason"])
        service.give_order(form.job_name, order)
        bench.wait("it has reported its end", lambda: bench.entries(form, contract.ENDED))
        [ended] = bench.entries(form, contract.ENDED)
        assert (ended["reason"], ended["exit_code"]) == (contract.FROZEN, 0)
        [saved] = [entry for entry in bench.entries(form, contract.CHECKPOINT) if entry["event"] == contract.SAVED]
        assert saved["step"] == 7
        bench.wait("the platform says that it is over", lambda: service.get_trial_job(form.job_name).status.is_end)

        known: contract.KnownCheckpoint = {"id": saved["id"], "name": saved["name"], "step": 7, "size": saved["size"]}
        again = bench.form(script=SAVES_WHEN_TOLD, trial=form.trial_job_id,
                           checkpoints={**no_resume(), "resume": [known]})
        service.submit_trial_job(again)
        bench.wait("what became of the checkpoint", lambda: bench.entries(again, contract.CHECKPOINT))
        assert [(entry["event"], entry["problem"]) for entry in bench.entries(again, contract.CHECKPOINT)] == [
            (contract.RESTORED, None)]
        bench.wait_for_end(service, again, TrialJobStatus.SUCCEEDED)
        [result] = bench.entries(again, contract.METRIC)
        assert (result["kind"], json.loads(result["value"])) == (contract.FINAL, 0.25)
