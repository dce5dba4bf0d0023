"""How each kind of end is told by the accounts of a real Slurm, when its controller has forgotten the job."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fakes.slurm_cluster import MEMORY_GROUPS, SlurmCluster
from trainingservice.polling.job_record import Observation
from trainingservice.reasons import code_of
from trainingservice.slurm.commands import SlurmCommands
from trainingservice.slurm.states import observed
from trainingservice.submit_host.host import ThisMachine
from trainingservice.trial_job_status import TrialJobStatus

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

HAS_MEMORY_GROUPS = os.access(MEMORY_GROUPS, os.W_OK)
#: The second node fails, on the third one is preempted.
SLURM = {
    "accounts": True, "nodes": 3, "MinJobAge": "2", "KillWait": "2", "JobRequeue": "0",
    "SelectTypeParameters": "CR_CPU_Memory", "DefMemPerNode": "100", "PreemptType": "preempt/partition_prio",
    "PreemptMode": "CANCEL", "memory_groups": HAS_MEMORY_GROUPS,
    "partitions": ("PartitionName=main Default=YES PriorityTier=1", "PartitionName=urgent PriorityTier=9"),
}
SLEEP = "sleep 600"
HUNGRY = f"{sys.executable} -c 'import time; held = b\"x\" * 500_000_000; time.sleep(600)'"
#: Name -> options of sbatch and what the job does.
JOBS = {
    "completed": ("-w node1", "true"),
    "failed": ("-w node1", "exit 7"),
    "killed": ("-w node1", "kill -9 $$"),
    "canceled": ("-w node1", SLEEP),
    "hungry": ("-w node1 --mem=50", HUNGRY),
    "too-long": ("-w node1 --time=1", SLEEP),
    "node-failed": ("-w node2", SLEEP),
    "preempted": ("-w node3 --exclusive", SLEEP),
}
#: Name -> status, exit code, and what is said: its reason's code and a part of the sentence.
ENDS: dict[str, tuple[TrialJobStatus, int | None, str, str]] = {
    "completed": (TrialJobStatus.SUCCEEDED, 0, "", ""),
    "failed": (TrialJobStatus.FAILED, 7, "platform_failed", "exit code 7"),
    "killed": (TrialJobStatus.FAILED, None, "platform_failed", "signal 9"),
    "canceled": (TrialJobStatus.SYS_CANCELED, None, "stopped_on_platform", "scancel"),
    "hungry": (TrialJobStatus.FAILED, None, "out_of_memory", "trialMemorySize"),
    "too-long": (TrialJobStatus.FAILED, None, "platform_time_limit", "timeLimit"),
    "node-failed": (TrialJobStatus.FAILED, None, "node_failed", "node failed"),
    "preempted": (TrialJobStatus.SYS_CANCELED, None, "preempted", "preemption"),
}


@pytest.fixture(scope="module")
def ids(cluster: SlurmCluster, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Numbers of jobs that have ended, each in its way, and that the controller has forgotten."""
    folder: Path = tmp_path_factory.mktemp("jobs")

    def submit(name: str, options: str, text: str) -> str:
        script = folder / f"{name}.sh"
        script.write_text(f"#!/bin/sh\n{text}\n")
        return cluster.command("sbatch", "--parsable", f"--job-name={name}", "--output=/dev/null", *options.split(),
                               str(script)).strip()

    def runs(job_id: str) -> bool:
        return cluster.command("squeue", "-h", f"--jobs={job_id}", "-o", "%T", check=False).strip() == "RUNNING"

    found = {name: submit(name, *job) for name, job in JOBS.items() if name != "hungry" or HAS_MEMORY_GROUPS}
    for name, then in (("canceled", lambda: cluster.command("scancel", found["canceled"])),
                       ("node-failed", lambda: cluster.command("scontrol", "update", "nodename=node2", "state=down",
                                                               "reason=test")),
                       ("preempted", lambda: submit("urgent", "-w node3 --exclusive -p urgent", "true"))):
        cluster.wait(f"the job {name} runs", _of(runs, found[name]))
        then()
    cluster.wait("the controller has forgotten all jobs", lambda: not cluster.command("squeue", "-h", "--states=all"),
                 patience=300)
    return found


def _of(question: Callable[[str], bool], job_id: str) -> Callable[[], bool]:
    return lambda: question(job_id)


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.skipif(
    name == "hungry" and not HAS_MEMORY_GROUPS, reason=f"no control groups can be made here: {MEMORY_GROUPS}"))
    for name in JOBS])
def test_an_end_that_only_the_accounts_know_is_told_as_the_queue_told_it(
        cluster: SlurmCluster, ids: dict[str, str], name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_CONF", str(cluster.config))
    commands = SlurmCommands(ThisMachine())
    assert ids[name] not in {row.job_id for row in commands.queue()}
    [row] = commands.accounts([ids[name]])
    assert commands.accounts(names=[name]) == [row]
    assert (row.job_id, row.name) == (ids[name], name)
    seen: Observation = observed(row)
    said = seen.message or ""
    assert (seen.status, seen.exit_code, code_of(said)) == ENDS[name][:3]
    assert ENDS[name][3] in said
    assert seen.start_time is not None
    assert seen.end_time is not None
    assert seen.end_time >= seen.start_time
    assert seen.machine == JOBS[name][0].split()[1]


def test_all_ends_come_with_one_question(cluster: SlurmCluster, ids: dict[str, str],
                                         monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_CONF", str(cluster.config))
    rows = SlurmCommands(ThisMachine()).accounts(ids.values())
    assert {row.name: observed(row).status for row in rows} == {name: ENDS[name][0] for name in ids}
