"""Tries on this machine what a local trial will need, and says in sentences what is wrong and what to do."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

from trainingservice.base import RehearsalFinding
from trainingservice.containers.options import PermittedContainers, image_of
from trainingservice.errors import TrainingServiceError
from trainingservice.gpus.gpu_slots import GpuRequest, Impossible, choose_gpus
from trainingservice.gpus.gpu_watch import reading_of
from trainingservice.keeper.agent_client import AgentClient, AgentError, AgentGone
from trainingservice.keeper.container_images import ContainerImages
from trainingservice.keeper.control_groups_finding import control_groups_finding
from trainingservice.keeper.keeper_exit import observed_exit
from trainingservice.local.agents import LocalAgents
from trainingservice.local.config import LocalTrialOptions
from trainingservice.local.os_user import CannotRunAs
from trainingservice.local.pythons import LocalPythons
from trainingservice.trial_job import KeeperAccess
from trainingservice.trial_job_status import TrialJobStatus
from trainingservice.words.byte_size import byte_size
from trialkeeper import contract

#: Bytes of free disk below which a trial is refused, and below which a person is warned.
DISK_BLOCKS_BELOW = 100 * 1024 * 1024
DISK_WARNS_BELOW = 1024 * 1024 * 1024
#: How long the agent is waited for, in seconds: before a launch, and otherwise.
QUICK, PATIENT = 1.5, 30.0
#: How long the no-op trial may take, in seconds.
TRIAL_DEADLINE = 15.0
#: How long an image is waited for, in seconds: before a launch, and otherwise. A pull that takes longer goes on.
IMAGE_PATIENCE = (10.0, 120.0)


def rehearse_local(folder: Path, agents: LocalAgents, options: LocalTrialOptions, pythons: LocalPythons,
                   request: GpuRequest, machine: str, *, quick: bool, wants_gpus: bool,
                   images: Callable[[str], ContainerImages], permitted: PermittedContainers | None
                   ) -> list[RehearsalFinding]:
    """All findings, good ones too. ``folder`` is the service's state folder; ``quick`` leaves the no-op trial out, and
    the agent where nothing is asked of it: the server's own is our program under our interpreter.

    ``options`` say as whom trials will run, and with which Python.
    ``request`` says which GPUs trials may use; GPUs are looked at where ``wants_gpus`` or not ``quick``.
    ``images``: those of a user of this machine; ``permitted``: what may be said of them, None for everything.
    """
    if permitted is not None and (problem := permitted.why_not(options)) is not None:
        return [RehearsalFinding("image", False, problem, machine)]
    findings = [*_interpreter(machine), *_folder(folder, machine), *_disk(folder, machine)]
    if any(finding.blocks for finding in findings):
        return findings  # the rest would fail for the same reasons
    user_folder, os_user = None, options.os_user()
    if os_user:
        try:
            user_folder = agents.user_folder(os_user)
            assert user_folder is not None
            user_folder.check()
        except CannotRunAs as error:
            return [*findings, RehearsalFinding("run_as", False, f"runAs: {error}", machine)]
        findings.append(RehearsalFinding("run_as", True,
                                         f"Programs can be started as user {os_user}, who cannot read the server's "
                                         "folder.", machine))
    has_image = image_of(options) is not None
    findings += [] if has_image else pythons.findings(options)
    if any(finding.blocks for finding in findings) or (quick and not (wants_gpus or os_user or has_image)):
        return findings
    if has_image:
        findings.append(images(os_user).finding(options, IMAGE_PATIENCE[0 if quick else 1]))
        if not findings[-1].ok:
            return findings
    try:
        client = agents.of(os_user).client()
        if wants_gpus or not quick:
            findings += _gpus(client, request, machine, wants_gpus, timeout=QUICK if quick else PATIENT)
        if not quick:
            findings.append(control_groups_finding(client, machine))
            scratch = folder if user_folder is None else user_folder.path
            findings += _trial(client, scratch / "rehearsal" / uuid.uuid4().hex[:12], machine, options, pythons)
    except TrainingServiceError as error:
        findings.append(RehearsalFinding("connection", False, f"The agent of this machine does not work: {error}",
                                         machine, temporary=True))
    else:
        findings.append(RehearsalFinding("connection", True, "The agent of this machine answers.", machine))
    return findings


def _interpreter(machine: str) -> Iterator[RehearsalFinding]:
    if os.access("/bin/bash", os.X_OK):
        yield RehearsalFinding("interpreter", True, "Commands are run by /bin/bash.", machine)
    elif shutil.which("sh"):
        yield RehearsalFinding("interpreter", True, "There is no /bin/bash. Commands are run by sh and must not use "
                                                    "features of bash.", machine)
    else:
        yield RehearsalFinding("interpreter", False, "There is neither /bin/bash nor sh to run commands. Install the "
                                                     "package bash.", machine)


def _folder(folder: Path, machine: str) -> Iterator[RehearsalFinding]:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(b"probe")
    except OSError as error:
        yield RehearsalFinding("folder", False, f"Trials cannot keep their files in {folder} ({error.strerror}); make "
                                                "it writable for the server's user or choose another data folder.",
                               machine)
    else:
        yield RehearsalFinding("folder", True, f"Trials keep their files in {folder}.", machine)


def _disk(folder: Path, machine: str) -> Iterator[RehearsalFinding]:
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    try:
        free = shutil.disk_usage(folder).free
    except OSError as error:
        yield RehearsalFinding("disk", False, f"The free space of {folder} cannot be read ({error.strerror}).", machine,
                               temporary=True)
        return
    there_is = f"{byte_size(free)} are free on the disk of {folder}"
    if free < DISK_BLOCKS_BELOW:
        yield RehearsalFinding("disk", False, f"Only {there_is}. A trial needs space for its files and output. Free "
                                              "disk space, or choose a data folder on another disk.", machine)
    elif free < DISK_WARNS_BELOW:
        yield RehearsalFinding("disk", False, f"Only {there_is}. Trials that write large files will fail. Free disk "
                                              "space soon.",
                               machine, temporary=True)
    else:
        yield RehearsalFinding("disk", True, f"{there_is}.", machine)


def _gpus(client: AgentClient, request: GpuRequest, machine: str, wanted: bool,
          timeout: float) -> Iterator[RehearsalFinding]:
    try:
        gpus, error = client.gpus(timeout)
    except AgentGone as problem:
        yield RehearsalFinding("gpus", False, f"nvidia-smi did not answer: {problem}. Trials with GPUs wait until it "
                                              "answers.", machine, temporary=True)
        return
    if not gpus:
        missing = not client.machine().get("nvidia_smi")
        reason = "there is no nvidia-smi on the PATH" if missing else error or "nvidia-smi lists none"
        if wanted:
            yield RehearsalFinding("gpus", False, f"The experiment asks for GPUs, but no GPU was found: {reason}. "
                                   "Install NVIDIA's driver, or set trialGpuNumber to 0 and leave out GPU options.",
                                   machine, temporary=not missing)
        else:
            yield RehearsalFinding("gpus", True, f"No GPU was found ({reason}). Trials that ask for GPUs cannot run "
                                                 "here.", machine)
        return
    choice = choose_gpus(request, [reading_of(gpu) for gpu in gpus], {}, machine)
    if isinstance(choice, Impossible):
        yield RehearsalFinding("gpus", False, choice.reason, machine)
    else:
        names = ", ".join(f"{gpu['index']}: {gpu.get('name') or 'GPU'}" for gpu in gpus)
        yield RehearsalFinding("gpus", True, f"{len(gpus)} GPU(s) were found ({names}).", machine)


def _trial(client: AgentClient, folder: Path, machine: str, options: LocalTrialOptions, pythons: LocalPythons
           ) -> Iterator[RehearsalFinding]:
    """Run ``true`` under a keeper that reports to nobody."""
    choice = pythons.choose(options, {})
    own, inherited = pythons.surroundings(options.os_user(), choice)
    job: contract.JobDocument = {
        "version": contract.PROTOCOL_VERSION, "job_name": folder.name, "trial_job_id": folder.name,
        "experiment_id": "rehearsal", "sequence_id": 0, "platform": "local", "command": "true", "parameters": [],
        "multi_phase": False, "environment": {**own, **choice.variables}, "inherit_environment": inherited,
        "path": [], "gpu_indices": None, "code": None, "keep_files": [],
        "limits": {"max_trial_duration": TRIAL_DEADLINE, "grace_period": 1.0, "give_up_after": 0.0,
                   "claim_timeout": 0.0}}
    try:
        deadline = time.monotonic() + TRIAL_DEADLINE
        state = client.start(str(folder), job, KeeperAccess(urls=(), token=""))
        while state["state"] != "ended" and time.monotonic() < deadline:
            time.sleep(0.05)
            state = client.state([str(folder)])[str(folder)]
        exit_document = state.get("exit")
        if exit_document is None:
            yield RehearsalFinding("trial", False, f"An empty test trial did not end within {TRIAL_DEADLINE:.0f} s. "
                                                   f"See {folder / contract.KEEPER_LOG_FILE}.",
                                   machine, temporary=True)
            client.stop(str(folder))
            return
        seen = observed_exit(exit_document)
        if seen.status is TrialJobStatus.SUCCEEDED:
            yield RehearsalFinding("trial", True, "An empty test trial succeeded.", machine)
        else:
            yield RehearsalFinding("trial", False, f"An empty test trial failed: {seen.message} See "
                                                   f"{folder / contract.STDERR_FILE}.", machine)
            return
        while time.monotonic() < deadline:  # its keeper ends within moments
            try:
                client.remove(str(folder))
                return
            except AgentError:
                time.sleep(0.05)
    except (OSError, TrainingServiceError) as error:
        yield RehearsalFinding("trial", False, f"An empty test trial could not be started: {error}", machine,
                               temporary=True)
