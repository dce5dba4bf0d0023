"""The openpai platform passes the suite that every platform passes, by both of its channels."""

import pytest

from tests.fakes.container_process import ContainerProcess
from tests.fakes.openpai_cluster import OpenPaiCluster
from trainingservice.openpai.config import OpenPaiClusterSettings, OpenPaiTrialOptions
from trainingservice.openpai.service import OpenPaiTrainingService
from trainingservice.testing.cases.returning import as_stored
from trainingservice.testing.conformance import PlatformUnderTest, TrainingServiceConformance
from trainingservice.trial_job_status import TrialJobStatus


class QuickOpenPai(OpenPaiTrainingService):
    """Asks as often as no real cluster would like."""

    poll_interval = (0.05, 0.3)


class OpenPaiUnderTest(PlatformUnderTest):
    channel = "auto"

    def __init__(self, folder):
        super().__init__(folder)
        self.cluster = OpenPaiCluster(folder).start()

    def settings(self, **more):
        return OpenPaiClusterSettings(
            host=self.cluster.address, username=self.cluster.user, storage_config_name="shared",
            local_storage_mount_point=self.cluster.export, container_storage_mount_point=str(self.cluster.mount),
            **({} if "password" in more else {"token": self.cluster.token}), **more)

    def new_service(self, context):
        return QuickOpenPai(self.settings(), context)

    def options(self):
        return OpenPaiTrialOptions(channel=self.channel)

    def left_behind(self, experiment_id):
        return [str(path) for path in self.cluster.export.rglob("*") if experiment_id in path.parts]


class ThroughStorage(OpenPaiUnderTest):
    channel = "storage"


class TestOpenPai(TrainingServiceConformance):
    @pytest.fixture
    def platform(self, tmp_path):
        platform = OpenPaiUnderTest(tmp_path / "platform")
        yield platform
        platform.cluster.end()


@pytest.mark.slow
class TestOpenPaiThroughStorage(TrainingServiceConformance):
    @pytest.fixture
    def platform(self, tmp_path):
        platform = ThroughStorage(tmp_path / "platform")
        yield platform
        platform.cluster.end()

    def test_a_second_keeper_of_one_attempt_ends_by_itself(self, bench, service):
        """Here a second container finds the first one's folder: it has no other way to the attempt."""
        starts, go = bench.witness / "starts", bench.witness / "go"
        form = bench.form(f'echo start >> "{starts}"; until [ -e "{go}" ]; do sleep 0.05; done')
        service.submit_trial_job(form)
        bench.wait_for_file(starts)
        cluster = bench.platform.cluster
        job = cluster.job(f"nni_exp_{form.experiment_id}_trial_{form.job_name}")
        ended = []
        second = ContainerProcess(["bash", str(next((cluster.folder / "containers" / job.name).glob("*/user.sh")))],
                                  cluster.folder / "second", {}, ended.append)
        bench.wait("the second keeper has ended", lambda: ended)
        assert not second.is_alive
        go.touch()
        bench.wait_for_end(service, form)
        assert starts.read_text() == "start\n"
        assert [entry["n"] for entry in bench.entries(form)] == list(range(1, len(bench.entries(form)) + 1))

    def test_an_end_while_nobody_looked_is_found(self, bench, service):
        """The journal is collected by a service: what is reported meanwhile comes with the next one."""
        form, starts, go = self.waiting_job(bench)
        service.submit_trial_job(form)
        bench.wait_for_file(starts)
        detail = bench.wait_for_status(service, form, TrialJobStatus.RUNNING)
        bench.close_service(service)
        go.touch()
        bench.wait("the job has ended", lambda: all(job.state == "SUCCEEDED"
                                                    for job in bench.platform.cluster.jobs.values()))
        assert bench.wait_for_end(bench.open_service([as_stored(detail)]), form).exit_code == 0
        assert bench.output(form) == "worked\n"
