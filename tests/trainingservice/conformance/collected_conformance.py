"""The suite for channels by which the service fetches what trials report: from a storage, or from a job's log.

Two of its cases mean something else there. The platform under test says ``jobs_have_ended()``, and by a storage
``second_container(form, folder, ended)``: a container with the same job once more.
"""

from trainingservice.testing.cases.returning import as_stored
from trainingservice.testing.conformance import TrainingServiceConformance
from trainingservice.trial_job_status import TrialJobStatus


class CollectedConformance(TrainingServiceConformance):
    def test_an_end_while_nobody_looked_is_found(self, bench, service):
        """The journal is collected by a service: what is reported meanwhile comes with the next one."""
        form, starts, go = self.waiting_job(bench)
        service.submit_trial_job(form)
        bench.wait_for_file(starts)
        detail = bench.wait_for_status(service, form, TrialJobStatus.RUNNING)
        bench.close_service(service)
        go.touch()
        bench.wait("the job has ended", bench.platform.jobs_have_ended)
        assert bench.wait_for_end(bench.open_service([as_stored(detail)]), form).exit_code == 0
        assert bench.output(form) == "worked\n"


class StorageConformance(CollectedConformance):
    def test_a_second_keeper_of_one_attempt_ends_by_itself(self, bench, service):
        """Here a second container finds the first one's folder: it has no other way to the attempt."""
        starts, go = bench.witness / "starts", bench.witness / "go"
        form = bench.form(f'echo start >> "{starts}"; until [ -e "{go}" ]; do sleep 0.05; done')
        service.submit_trial_job(form)
        bench.wait_for_file(starts)
        ended = []
        second = bench.platform.second_container(form, bench.witness / "second", ended.append)
        bench.wait("the second keeper has ended", lambda: ended)
        assert not second.is_alive
        go.touch()
        bench.wait_for_end(service, form)
        assert starts.read_text() == "start\n"
        assert [entry["n"] for entry in bench.entries(form)] == list(range(1, len(bench.entries(form)) + 1))
