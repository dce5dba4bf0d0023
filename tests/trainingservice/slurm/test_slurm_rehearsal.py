"""The rehearsal says in sentences what a trial on Slurm would stumble over; on a real Slurm."""

from __future__ import annotations

import pytest

from tests.fakes.ssh_machine import SshMachine
from trainingservice.base import ServiceContext
from trainingservice.slurm import rehearsal
from trainingservice.slurm.config import SlurmClusterSettings, SlurmTrialOptions
from trainingservice.slurm.service import SlurmTrainingService


@pytest.fixture
def rehearse(bench, monkeypatch):
    monkeypatch.setattr(rehearsal, "JOB_DEADLINE", 120.0)

    def rehearse(quick=True, options=None, **settings):
        """The findings by their check; of several with one name the last."""
        changed = bench.platform.settings().model_copy(update=settings)
        service = SlurmTrainingService(changed, bench.context())
        try:
            return {finding.check: finding for finding in service.rehearse(quick, options)}
        finally:
            service.close()
    return rehearse


def test_before_a_launch_nothing_is_started_and_all_is_well(rehearse, cluster):
    before = cluster.command("squeue", "-h", "--states=all", "-o", "%A")
    found = rehearse()
    assert all(finding.ok for finding in found.values())
    assert {"connection", "rights", "folder"} <= set(found)
    assert "user root" in found["connection"].message
    assert cluster.command("squeue", "-h", "--states=all", "-o", "%A") == before


def test_what_slurm_would_not_take_is_told_in_its_words(rehearse):
    finding = rehearse(options=SlurmTrialOptions(partition="moon"))["rights"]
    assert finding.blocks
    assert "Invalid partition name specified" in finding.message


def test_a_folder_that_is_not_there_is_named(rehearse):
    finding = rehearse(working_folder="/no/such/folder")["folder"]
    assert finding.blocks
    assert "There is no folder /no/such/folder on this machine" in finding.message


def test_programs_that_are_not_there_are_named(rehearse):
    finding = rehearse(program_folder="/opt/no-slurm")["connection"]
    assert finding.blocks
    assert "There is no command sbatch in /opt/no-slurm" in finding.message


def test_a_login_node_that_is_not_the_one_that_was_meant_blocks_a_launch(tmp_path):
    with SshMachine(tmp_path / "login") as machine:
        login = machine.login().model_copy(update={"host_key": f"SHA256:{'A' * 43}"})
        service = SlurmTrainingService(SlurmClusterSettings(working_folder="/home/ada/nniweb", login_node=login),
                                       ServiceContext(cluster_id="test", state_folder=tmp_path / "state"))
        try:
            [finding] = service.rehearse()
        finally:
            service.close()
    assert (finding.check, finding.blocks) == ("host_key", True)


@pytest.mark.slow
def test_on_demand_a_job_tells_what_a_node_has(rehearse, bench, cluster):
    bench.server_urls = bench.form().keeper.urls
    found = rehearse(quick=False)
    assert all(finding.ok for finding in found.values()), found
    assert f"on {cluster.name}" in found["trial"].message
    assert f"Keepers can call the server: the node has reached {bench.server_urls[0]}" in found["way_home"].message
    assert "has no accounting database" in found["accounts"].message
    assert [path.name for path in (bench.platform.shared / "nniweb").iterdir()] == []


@pytest.mark.slow
def test_a_node_that_cannot_do_it_says_what_went_wrong(rehearse):
    options = SlurmTrialOptions(prepare_command="echo module is no command here >&2; (exit 1)")
    finding = rehearse(quick=False, options=options)["trial"]
    assert finding.blocks
    assert "module is no command here" in finding.message
