"""A keeper on another machine dies: that is noticed, and its trial is judged by what is left."""

from __future__ import annotations

import json
import os
import signal
from urllib.parse import urlsplit

from trainingservice.trial_job_status import TrialJobStatus
from trialkeeper import contract


def sequences(bench, form):
    return [entry["sequence"] for entry in bench.entries(form, "metric") if entry["kind"] == contract.PERIODICAL]


def test_a_keeper_that_was_killed_is_noticed_and_all_it_noted_is_reported(bench, machine):
    service = bench.open_service()
    form = bench.form("python3 trial.py", code=bench.code({"trial.py": """\
import nni, time
nni.get_next_parameter()
for step in range(3):
    nni.report_intermediate_result(step)
time.sleep(300)
"""}))
    service.submit_trial_job(form)
    bench.wait("its metrics come", lambda: sequences(bench, form) == [0, 1, 2])
    [file] = machine.home.rglob(f"{form.job_name}/**/{contract.KEEPER_FILE}")
    url = urlsplit(service.get_trial_job(form.job_name).url)
    assert (url.scheme, url.port, url.path) == ("ssh", machine.port, str(file.parent)), "its folder, as it is there"
    os.kill(json.loads(file.read_text())["pid"], signal.SIGKILL)
    ended = bench.wait_for_end(service, form, TrialJobStatus.FAILED)
    assert "keeper was killed" in ended.message
    bench.wait("its end is reported", lambda: bench.entries(form, "ended"))
    bench.wait("its trial is gone as well", lambda: not bench.trial_processes(form))
    assert sequences(bench, form) == [0, 1, 2], "none twice"
