"""Cases: metadata and rehearsal, submitting, what a trial is told, updating."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from pathlib import Path

import pytest

from trainingservice.base import RehearsalFinding, TrainingService
from trainingservice.errors import InvalidMetadata, UnknownTrialJob, Unsupported
from trainingservice.testing.bench import Bench
from trainingservice.testing.cases.fixtures import ConformanceFixtures, needs_this_machine
from trainingservice.trial_job import HyperParameters, TrialJobDetail, parameter_text
from trainingservice.trial_job_status import TrialJobStatus
from trialkeeper import contract

TELL_WHAT_I_SEE = """
import json, os, nni
names = ["NNI_PLATFORM", "NNI_EXP_ID", "NNI_TRIAL_JOB_ID", "NNI_TRIAL_SEQ_ID", "CUDA_VISIBLE_DEVICES", "MINE"]
seen = {name: os.environ.get(name) for name in names}
seen["parameters"] = nni.get_next_parameter()
seen["ids"] = [nni.get_experiment_id(), nni.get_trial_id(), nni.get_sequence_id()]
print(json.dumps(seen))
"""

ASK_TWICE = """
import nni
first, second = nni.get_next_parameter(), nni.get_next_parameter()
nni.report_final_result([first, second])
"""


#: Keys of NNI's that no platform has in its settings, with values that are right on each.
OF_NNI = (("trial_config", '{"command": "python3 trial.py", "codeDir": "/code", "gpuNum": 1}'),
          ("nni_manager_ip", '{"nniManagerIp": "10.0.0.5"}'))


class SubmittingCases(ConformanceFixtures):
    # --- before anything runs --------------------------------------------------------------

    def test_unknown_metadata_is_refused_and_reads_as_empty(self, service: TrainingService) -> None:
        with pytest.raises(InvalidMetadata) as refusal:
            service.set_cluster_metadata("no such key", "{}")
        assert refusal.value.field == "no such key"
        assert service.get_cluster_metadata("no such key") == ""

    def test_metadata_reads_as_it_was_set(self, bench: Bench) -> None:
        service = bench.platform.new_service(bench.context())
        own = [bench.platform.metadata_example] if bench.platform.metadata_example is not None else []
        of_nni = [example for example in OF_NNI if example[0] in service.nni_metadata()]
        assert own or of_nni, "a platform takes at least trial_config and nni_manager_ip"
        for key, value in (*own, *of_nni):
            before = service.get_cluster_metadata(key)
            assert before == "" or key in service.nni_metadata()
            service.set_cluster_metadata(key, value)
            seen = service.get_cluster_metadata(key)
            assert seen == value if key not in service.nni_metadata() else \
                json.loads(seen).items() >= json.loads(value).items()
        service.clean_up()

    def test_what_the_settings_say_can_be_read_and_set_as_metadata(self, bench: Bench) -> None:
        service = bench.platform.new_service(bench.context())
        try:
            before = service.settings.model_dump()
            for key in service.nni_metadata():
                if seen := service.get_cluster_metadata(key):
                    service.set_cluster_metadata(key, seen)
                    assert service.get_cluster_metadata(key) == seen
            assert service.settings.model_dump() == before
        finally:
            service.clean_up()

    def test_metadata_that_no_settings_can_have_changes_nothing(self, bench: Bench) -> None:
        service = bench.platform.new_service(bench.context())
        try:
            before = service.settings
            for key in service.nni_metadata():
                seen = service.get_cluster_metadata(key)
                for wrong in ("no JSON", "7", '{"no such field": 1}', '[{"no such field": 1}]'):
                    with pytest.raises(InvalidMetadata) as refusal:
                        service.set_cluster_metadata(key, wrong)
                    assert refusal.value.field.startswith(key)
                assert (service.settings, service.get_cluster_metadata(key)) == (before, seen)
        finally:
            service.clean_up()

    def test_a_job_runs_where_metadata_said_the_settings(self, bench: Bench) -> None:
        def set_metadata(service: TrainingService) -> None:
            said = {key: value for key in service.nni_metadata() if (value := service.get_cluster_metadata(key))}
            service.use_settings(service.settings)  # as where the metadata had changed them
            for key, value in said.items():
                service.set_cluster_metadata(key, value)

        service = bench.open_service(prepare=set_metadata)
        form = bench.form("true")
        service.submit_trial_job(form)
        bench.wait_for_end(service, form)

    def test_a_rehearsal_on_an_object_that_never_ran_finds_nothing_wrong(self, bench: Bench) -> None:
        service = bench.platform.new_service(bench.context())
        for key, value in bench.platform.metadata.items():
            service.set_cluster_metadata(key, value)
        try:
            for quick in (True, False):
                findings = service.rehearse(quick=quick, options=bench.platform.options())
                assert all(isinstance(finding, RehearsalFinding) and finding.message for finding in findings)
                assert [finding for finding in findings if finding.blocks] == []
        finally:
            service.clean_up()

    # --- submitting ------------------------------------------------------------------------

    def test_a_job_runs_to_its_end_and_its_detail_tells_so(self, bench: Bench, service: TrainingService) -> None:
        before = time.time()
        form = bench.form("echo done")
        submitted = service.submit_trial_job(form)
        assert (submitted.id, submitted.form.command, submitted.sequence_id) == \
            (form.job_name, form.command, form.sequence_id)
        detail = bench.wait_for_end(service, form)
        assert detail.exit_code == 0
        assert detail.is_early_stopped is None
        assert detail.working_directory or detail.url
        assert detail.start_time is not None
        assert detail.end_time is not None
        assert before - 2 <= detail.submit_time <= detail.start_time + 2 <= detail.end_time + 4 <= time.time() + 6
        assert detail in service.list_trial_jobs()
        bench.wait("the change is told", lambda: form.job_name in bench.changes)
        assert [entry["type"] for entry in bench.entries(form)] == ["started", "output", "ended"]

    def test_the_same_job_name_twice_is_one_job(self, bench: Bench, service: TrainingService) -> None:
        form = bench.form("echo once")
        answers: list[TrialJobDetail] = []
        threads = [threading.Thread(target=lambda: answers.append(service.submit_trial_job(form))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        bench.wait_for_end(service, form)
        again = service.submit_trial_job(form)
        assert {answer.id for answer in (*answers, again)} == {form.job_name}
        assert len(answers) == 4
        assert again.status is TrialJobStatus.SUCCEEDED
        assert len(service.list_trial_jobs()) == 1
        assert bench.output(form) == "once\n"

    def test_a_second_keeper_of_one_attempt_ends_by_itself(self, bench: Bench, service: TrainingService) -> None:
        needs_this_machine(bench)
        starts, go = bench.witness / "starts", bench.witness / "go"
        form = bench.form(f'echo start >> "{starts}"; until [ -e "{go}" ]; do sleep 0.05; done')
        service.submit_trial_job(form)
        bench.wait_for_file(starts)
        # a keeper may begin before it is heard; then the attempt is its own
        bench.wait("its keeper is heard", lambda: bench.entries(form, contract.STARTED))
        assert isinstance(bench.another_keeper(form).wait(timeout=90), int)
        bench.wait_for_status(service, form, TrialJobStatus.RUNNING)
        go.touch()
        bench.wait_for_end(service, form)
        assert starts.read_text() == "start\n"
        assert [entry["n"] for entry in bench.entries(form)] == list(range(1, len(bench.entries(form)) + 1))

    def test_many_jobs_at_once_each_run_once(self, bench: Bench, service: TrainingService) -> None:
        forms = [bench.form(f"echo {number}") for number in range(6)]
        for form in forms:
            service.submit_trial_job(form)
        for number, form in enumerate(forms):
            bench.wait_for_end(service, form)
            assert bench.output(form) == f"{number}\n"
        assert [job.id for job in service.list_trial_jobs()] == [form.job_name for form in forms]

    def test_a_job_nobody_submitted_is_unknown(self, bench: Bench, service: TrainingService) -> None:
        form = bench.form()
        with pytest.raises(UnknownTrialJob):
            service.get_trial_job(form.job_name)
        with pytest.raises(UnknownTrialJob):
            service.cancel_trial_job(form.job_name)
        with pytest.raises(UnknownTrialJob):
            service.update_trial_job(form.job_name, form)
        assert service.list_trial_jobs() == []

    # --- what the trial is told ------------------------------------------------------------

    def test_a_trial_sees_its_parameters_ids_and_variables(self, bench: Bench, service: TrainingService) -> None:
        parameters = {"x": 1e-8, "name": "ein Wort", "nested": {"_name": "a", "deep": [1, None]}}
        form = bench.form(script=TELL_WHAT_I_SEE, parameters=parameters, gpu_number=0,
                          environment={"MINE": "two words, $HOME and 'quotes'"})
        service.submit_trial_job(form)
        bench.wait_for_end(service, form)
        assert json.loads(bench.output(form)) == {
            "NNI_PLATFORM": "local", "NNI_EXP_ID": form.experiment_id, "NNI_TRIAL_JOB_ID": form.trial_job_id,
            "NNI_TRIAL_SEQ_ID": str(form.sequence_id), "CUDA_VISIBLE_DEVICES": "-1",
            "MINE": "two words, $HOME and 'quotes'", "parameters": parameters,
            "ids": [form.experiment_id, form.trial_job_id, form.sequence_id]}

    def test_the_token_is_on_no_command_line(self, bench: Bench, service: TrainingService) -> None:
        needs_this_machine(bench)
        form = bench.form(f'echo ready > "{bench.witness}/ready"; while true; do sleep 0.1; done')
        service.submit_trial_job(form)
        bench.wait_for_file(bench.witness / "ready")
        lines = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
                lines.append(path.read_bytes())
        assert not [line for line in lines if form.keeper.token.encode() in line]
        service.cancel_trial_job(form.job_name)
        bench.wait_for_end(service, form, TrialJobStatus.USER_CANCELED)

    # --- updating --------------------------------------------------------------------------

    def test_an_update_asks_the_platform_again(self, bench: Bench, service: TrainingService) -> None:
        form = bench.form("exit 3")
        service.submit_trial_job(form)
        bench.wait("the trial has reported its end", lambda: bench.entries(form, contract.ENDED))
        bench.wait("an update shows the end", lambda: service.update_trial_job(form.job_name, form).status
                   is TrialJobStatus.FAILED)
        assert service.get_trial_job(form.job_name).exit_code == 3

    def test_further_parameters_reach_the_running_trial_or_are_refused(self, bench: Bench,
                                                                       service: TrainingService) -> None:
        multi_phase = service.is_multi_phase_job_supported
        form = bench.form(script=ASK_TWICE, multi_phase=multi_phase)
        service.submit_trial_job(form)
        later = form.with_parameters(HyperParameters(parameter_text({"x": 2}, 77, index=1), 1))
        if not multi_phase:
            with pytest.raises(Unsupported):
                service.update_trial_job(form.job_name, later)
            bench.wait_for_end(service, form)
            return
        bench.wait("the trial asks for more", lambda: [entry for entry in bench.entries(form, contract.METRIC)
                                                       if entry["kind"] == contract.REQUEST_PARAMETER])
        service.update_trial_job(form.job_name, later)
        service.update_trial_job(form.job_name, later)
        bench.wait_for_end(service, form)
        finals = [entry for entry in bench.entries(form, contract.METRIC) if entry["kind"] == contract.FINAL]
        assert [json.loads(entry["value"]) for entry in finals] == [[{"x": 0.5}, {"x": 2}]]
        assert finals[0]["parameter_id"] == 77
