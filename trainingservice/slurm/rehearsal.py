"""Tries what a job will need: the commands, the folder, what the experiment asks for, and with a job a compute node."""

from __future__ import annotations

import shlex
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

from trainingservice.base import RehearsalFinding
from trainingservice.errors import PermanentError, TemporaryError, TrainingServiceError
from trainingservice.keeper.reach_probe import probe_arguments
from trainingservice.shared_folder.folder import TOP, SharedFolder
from trainingservice.shared_folder.storage_rehearsal import rehearse_storage
from trainingservice.slurm.commands import NoProgram, SlurmCommands
from trainingservice.slurm.config import SlurmClusterSettings, SlurmTrialOptions
from trainingservice.slurm.job_script import lines_of_options, prepared, sbatch_options
from trainingservice.slurm.states import observed
from trainingservice.trial_job_status import TrialJobStatus

#: Seconds for each question before a launch, and otherwise.
QUICK, PATIENT = 2.0, 20.0
#: Seconds that the job of a rehearsal may wait and run.
JOB_DEADLINE = 45.0
_ASK_EVERY = 1.0
_PYTHON, _REACHED, _UNREACHED = "nniweb-python ", "nniweb-reached ", "nniweb-unreached "


def rehearse_cluster(slurm: SlurmCommands, settings: SlurmClusterSettings, storage: SharedFolder,
                     options: SlurmTrialOptions | None, public_urls: Callable[[], tuple[str, ...]],
                     ca_file: Path | None = None, *, quick: bool) -> list[RehearsalFinding]:
    """All findings, good ones too. ``options``: of the experiment that is to be launched. ``ca_file``: the authority
    behind the certificate at ``public_urls``, where machines do not know it.
    """
    findings: list[RehearsalFinding] = []
    try:
        for finding in _cluster(slurm, options or SlurmTrialOptions(), quick):
            findings.append(finding)  # noqa: PERF402  those before an error count
        findings += rehearse_storage(storage)
        if not quick and not any(finding.blocks for finding in findings):
            urls = public_urls()
            findings += _with_a_job(slurm, settings, storage, options or SlurmTrialOptions(),
                                    probe_arguments(urls, ca_file) if urls else [])
    except TrainingServiceError as error:
        # of a login node: "login" or "host_key" where that is what fails, and whether somebody has to mend it
        check = str(getattr(error.__cause__, "check", "connection"))
        lasts = isinstance(error, NoProgram) or getattr(error.__cause__, "needs_person", False)
        findings.append(RehearsalFinding(check, False, str(error),
                                         temporary=isinstance(error, TemporaryError) and not lasts))
    return findings


def _cluster(slurm: SlurmCommands, options: SlurmTrialOptions, quick: bool) -> Iterator[RehearsalFinding]:
    timeout = QUICK if quick else PATIENT
    version = slurm.version(timeout)
    slurm.ping(timeout)
    yield RehearsalFinding("connection", True, f"Slurm answers on {slurm.host.name} ({version}); jobs are those of "
                                               f"user {slurm.user()}.")
    try:
        slurm.would_take(sbatch_options(options, None), f"#!/bin/sh\n{lines_of_options(options)}:\n", timeout)
    except PermanentError as error:
        yield RehearsalFinding("rights", False, str(error))
    else:
        yield RehearsalFinding("rights", True, "Slurm accepts jobs with this experiment's options.")
    if quick:
        return
    slurm.accounts(["1"])
    wait = slurm.setting("KillWait")
    kept = ("It has an accounting database, so the ends of jobs can be read later." if slurm.keeps_accounts else
            "It has no accounting database (no slurmdbd). The end of a job is read from its folder, and from the queue "
            "while the queue shows it.")
    yield RehearsalFinding("accounts", True, f"{kept} A trial that is stopped has {wait or 'some time'} (KillWait) to "
                                             "end by itself.")


def _with_a_job(slurm: SlurmCommands, settings: SlurmClusterSettings, storage: SharedFolder,
                options: SlurmTrialOptions, probe: list[str]) -> Iterator[RehearsalFinding]:
    """Run a small job like a trial's, and look at what it left in the folder."""
    name = f"nniweb-rehearsal-{uuid.uuid4().hex[:8]}"
    output = Path(settings.working_folder) / TOP / f".{name}"
    job_id = slurm.submit([f"--job-name={name}", f"--output={output}", f"--chdir={output.parent}", "--no-requeue",
                           *sbatch_options(options, None)], _script(options, probe))
    try:
        yield from _outcome(slurm, storage, name, output)
    finally:
        slurm.cancel(job_id)
        storage.remove(output)


def _script(options: SlurmTrialOptions, probe: list[str]) -> str:
    """``probe``: what a Python is given to look for the server; none where no address is known."""
    look = ""
    if probe:
        command = shlex.join(["-I", *probe])
        look = (f'nniweb_said=$("$nniweb_python" {command} 2>&1) && echo "{_REACHED}$nniweb_said" || '
                f'echo "{_UNREACHED}$(echo "$nniweb_said" | tail -n 1)"\n')
    end = f'echo "{_PYTHON}$nniweb_python on $(uname -n)"\n'
    return f"#!/bin/sh\n{lines_of_options(options)}{prepared(options)}{look}{end}"


def _outcome(slurm: SlurmCommands, storage: SharedFolder, name: str, output: Path) -> Iterator[RehearsalFinding]:
    deadline = time.monotonic() + JOB_DEADLINE
    while True:
        rows = [row for row in slurm.queue(name) if row.name == name]
        seen = observed(rows[0]) if rows else None
        text = storage.read(output) or ""
        if _PYTHON in text or (seen is not None and seen.status.is_end and (text or time.monotonic() > deadline)):
            break
        if time.monotonic() > deadline:
            waits = seen is not None and seen.status is TrialJobStatus.WAITING
            why = seen.message if seen is not None else "Slurm does not show it."
            yield RehearsalFinding("trial", waits, f"An empty test job did not end within {JOB_DEADLINE:.0f} s, so the "
                                                   f"nodes were not checked. {why}",
                                   temporary=True)
            return
        time.sleep(_ASK_EVERY)
    lines = text.splitlines()
    ran = next((line.removeprefix(_PYTHON) for line in lines if line.startswith(_PYTHON)), "")
    if not ran:
        said = " ".join(text.split())[-300:] or (
            f"it wrote nothing to {output.parent}; check that the nodes have this folder at this path")
        yield RehearsalFinding("trial", False, f"An empty test job failed: {seen.message if seen else ''} {said}")
        return
    yield RehearsalFinding("trial", True, f"An empty test job succeeded. Keepers run under {ran}.")
    reached = next((line.removeprefix(_REACHED) for line in lines if line.startswith(_REACHED)), "")
    refused = next((line.removeprefix(_UNREACHED) for line in lines if line.startswith(_UNREACHED)), "")
    if reached:
        yield RehearsalFinding("way_home", True, f"Keepers can call the server: the node has {reached}.")
    else:
        why = refused or "no address of the server is known to other machines (NNIWEB_PUBLIC_URL)"
        yield RehearsalFinding("way_home", True, f"Reports are fetched from workingFolder: {why}.")
