"""Constraint, reservation, account and lines of an experiment's own, on a real Slurm."""

from __future__ import annotations

import re

import pytest
from pydantic import ValidationError

from trainingservice.slurm.config import SlurmTrialOptions
from trainingservice.trial_job_status import TrialJobStatus

SLURM = {"node": "Feature=a100,ib", "partitions": ("PartitionName=main Default=YES", "PartitionName=fast")}


def shown_job(cluster, job_id: str) -> dict[str, str]:
    """Fields of scontrol's description."""
    return dict(re.findall(r"(\S+?)=(\S*)", cluster.command("scontrol", "show", "job", job_id)))


def test_a_job_has_what_its_experiment_asks_for(bench, cluster):
    cluster.command("scontrol", "create", "reservation", "ReservationName=lab", "StartTime=now", "Duration=60",
                    "Nodes=ALL", "Users=root", "Flags=OVERLAP")
    try:
        bench.platform.more_options = {
            "partition": "fast", "account": "lab17", "constraint": "a100&ib", "reservation": "lab",
            "time_limit": "1:00", "sbatch_lines": ("--nice=7 --mail-type=NONE", "-H")}
        service = bench.open_service()
        form = bench.form("sleep 600")
        service.submit_trial_job(form)
        job_id = bench.wait("it is there", lambda: service.get_trial_job(form.job_name).platform_state.get("slurm_id"))
        job = shown_job(cluster, job_id)
        assert (job["Partition"], job["Account"], job["Features"], job["Reservation"], job["Nice"], job["TimeLimit"],
                job["JobState"]) == ("fast", "lab17", "a100&ib", "lab", "7", "00:01:00", "PENDING")
        assert job["JobName"] == f"nniweb-{form.job_name}"
        cluster.command("scontrol", "release", job_id)
        bench.wait_for_status(service, form, TrialJobStatus.RUNNING)
        service.cancel_trial_job(form.job_name)
        bench.wait_for_status(service, form, TrialJobStatus.USER_CANCELED)
    finally:
        bench.wait("it has ended", bench.platform.jobs_have_ended)
        cluster.command("scontrol", "delete", "ReservationName=lab")


@pytest.mark.parametrize(("options", "said"), [
    ({"constraint": "quantum"}, "Invalid feature specification"),
    ({"reservation": "moon"}, "Requested reservation is invalid")])
def test_what_the_cluster_does_not_have_is_refused_in_its_words(bench, options, said):
    bench.platform.more_options = options
    service = bench.open_service()
    form = bench.form("true")
    service.submit_trial_job(form)
    detail = bench.wait_for_status(service, form, TrialJobStatus.FAILED)
    assert said in detail.message


@pytest.mark.parametrize("line", ["--arr=1-2", "-Ha1-2", "--exclusive --array=1-2", '--ar"ray"=1-2', "-C ib -a 1-2",
                                  "--ar\\ray=1-2"])
def test_lines_are_refused_that_this_slurm_reads_as_an_array_of_jobs(cluster, monkeypatch, tmp_path, line):
    monkeypatch.setenv("SLURM_CONF", str(cluster.config))
    script = tmp_path / "script.sh"
    script.write_text(f"#!/bin/sh\n#SBATCH {line}\ntrue\n")
    job_id = cluster.command("sbatch", "--parsable", "--hold", "--output=/dev/null", str(script)).strip()
    try:
        assert "ArrayTaskId=1-2" in cluster.command("scontrol", "show", "job", job_id)
    finally:
        cluster.command("scancel", job_id)
    with pytest.raises(ValidationError):
        SlurmTrialOptions(sbatch_lines=(line,))
