"""The slurm platform for benches: a folder that stands for the cluster's shared one, and Slurm's commands."""

from __future__ import annotations

from pathlib import Path

from tests.fakes.slurm_cluster import SlurmCluster
from trainingservice.slurm.config import SlurmClusterSettings, SlurmTrialOptions
from trainingservice.slurm.service import SlurmTrainingService, name_on_cluster
from trainingservice.testing.conformance import PlatformUnderTest


class QuickSlurm(SlurmTrainingService):
    """Asks as often as no real cluster would like."""

    poll_interval = (0.2, 0.5)
    search_time = 2.0


class SlurmUnderTest(PlatformUnderTest):
    def __init__(self, folder: Path, cluster: SlurmCluster | None = None, *, login_node=None, **options) -> None:
        super().__init__(folder)
        self.cluster, self.login_node = cluster, login_node
        self.more_options = options
        self.shared = folder / "shared"
        self.shared.mkdir(parents=True)

    @property
    def most_nodes(self) -> int:  # type: ignore[override]
        return 1 if self.cluster is None else len(self.cluster.nodes)

    def settings(self) -> SlurmClusterSettings:
        return SlurmClusterSettings(working_folder=str(self.shared), login_node=self.login_node)

    def new_service(self, context):
        return QuickSlurm(self.settings(), context)

    def options(self):
        return SlurmTrialOptions(**self.more_options)

    def left_behind(self, experiment_id):
        return [str(path) for path in self.shared.rglob("*") if experiment_id in path.parts]

    def jobs_have_ended(self) -> bool:
        return self.cluster is not None and not self.cluster.job_names()

    def job_of(self, form) -> str:
        """The number of a form's job on the cluster."""
        assert self.cluster is not None
        return self.cluster.job_id(name_on_cluster(form.job_name))
