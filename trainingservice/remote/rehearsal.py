"""Tries on each machine what a trial will need, and says in sentences what is wrong and what to do."""

from __future__ import annotations

import posixpath
import shlex
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

from trainingservice.base import REHEARSAL_SECONDS, RehearsalFinding
from trainingservice.errors import TemporaryError, TrainingServiceError
from trainingservice.every_machine import every_machine
from trainingservice.gpus.gpu_slots import GpuRequest, Impossible, choose_gpus
from trainingservice.gpus.gpu_watch import reading_of
from trainingservice.keeper.agent_client import AgentClient, AgentError
from trainingservice.keeper.container_images import ContainerImages
from trainingservice.keeper.control_groups_finding import control_groups_finding
from trainingservice.keeper.keeper_bundle import KeeperBundle
from trainingservice.keeper.keeper_exit import observed_exit
from trainingservice.keeper.reach_probe import probe_arguments
from trainingservice.remote.config import RemoteMachineSettings, RemoteTrialOptions
from trainingservice.remote.first_contact import MachineFacts, look_at, put_keeper, start_agent
from trainingservice.remote.image_look import look_at_image
from trainingservice.secrets_in_use import with_secrets_of_now
from trainingservice.shared_folder.shared_storage import SharedStorage
from trainingservice.ssh.connection import Connection, connect
from trainingservice.ssh.host_keys import HostKeyStore
from trainingservice.ssh.problems import MachineProblem, as_problem
from trainingservice.trial_job import KeeperAccess
from trainingservice.trial_job_status import TrialJobStatus
from trainingservice.words.byte_size import byte_size
from trialkeeper import contract

#: Bytes of free disk below which a trial is refused, and below which a person is warned.
DISK_BLOCKS_BELOW = 100 * 1024 * 1024
DISK_WARNS_BELOW = 1024 * 1024 * 1024
#: Seconds the clocks may differ before a person is told.
CLOCK_TOLERANCE = 5.0
#: Seconds for everything before the launch of an experiment, and for each step otherwise.
QUICK, PATIENT = 2.0, 20.0
#: How long the no-op trial may take, in seconds.
TRIAL_DEADLINE = 20.0
#: How long one address of the server is tried from a machine, in seconds: a little longer than the probe does.
REACH_TIMEOUT = 12.0
#: How long mounting a share may take, in seconds.
MOUNT_TIMEOUT = 40.0
#: How long an image is waited for, in seconds. A pull that takes longer goes on.
IMAGE_PATIENCE = 60.0
#: Machines that one rehearsal looks at at a time, and in all; and how many a sentence names.
AT_ONCE, MOST_LOOKED_AT, NAMED = 16, 200, 5


@dataclass(frozen=True)
class ServerAddresses:
    """Where the server is: for keepers on other machines, and for this process, which passes reports on; and the
    authority behind its certificate, where machines do not know that.
    """

    public: Callable[[], tuple[str, ...]]
    relay: Callable[[], tuple[str, ...]]
    ca_file: Path | None = None


def rehearse_machines(machines: Sequence[RemoteMachineSettings], keys: HostKeyStore, bundle: KeeperBundle,
                      cluster_folder: str, addresses: ServerAddresses, clock: Callable[[], float],
                      storage: SharedStorage | None, *, quick: bool, seconds: float | None = None,
                      options: RemoteTrialOptions | None = None) -> list[RehearsalFinding]:
    """All findings, good ones too, machine by machine; AT_ONCE machines at a time, MOST_LOOKED_AT in all.

    It answers within ``seconds`` (default: REHEARSAL_SECONDS), and says which machines were not looked at. Where some
    machines are well, or were not looked at, the others' faults do not block: trials go to those that are well.
    """
    whole = (REHEARSAL_SECONDS[0] if quick else REHEARSAL_SECONDS[1]) if seconds is None else seconds
    ends = time.monotonic() + whole
    pool = ThreadPoolExecutor(min(AT_ONCE, len(machines)), thread_name_prefix="rehearsal")

    def look(machine: RemoteMachineSettings) -> list[RehearsalFinding]:
        return list(_rehearse(machine, keys, bundle, cluster_folder, addresses, clock, storage, quick, options))

    looks = [pool.submit(with_secrets_of_now(look), machine) for machine in machines[:MOST_LOOKED_AT]]
    done, _ = wait(looks, max(0.0, ends - time.monotonic()))
    # what has not begun never does; a machine that is being looked at has time limits of its own
    pool.shutdown(wait=False, cancel_futures=True)
    findings = [look.result() for look in looks if look in done]
    not_looked_at = [machine.host for number, machine in enumerate(machines)
                     if number >= len(looks) or looks[number] not in done]
    if not_looked_at:
        findings.append([_not_looked_at(not_looked_at, len(machines), whole)])
    some_may_be_well = any(not any(finding.blocks or finding.temporary for finding in of_one) for of_one in findings)
    if not some_may_be_well and not not_looked_at:
        was_reached = any(finding.ok and finding.check == "connection" for of_one in findings for finding in of_one)
        whole_cluster = [_of_all(findings)] if len(findings) > 1 and not was_reached else []
        return [*whole_cluster, *(finding for of_one in findings for finding in of_one)]
    return [finding if not finding.blocks else RehearsalFinding(finding.check, False, finding.message, finding.machine,
                                                                temporary=True)
            for of_one in findings for finding in of_one]


def _of_all(findings: Sequence[Sequence[RehearsalFinding]]) -> RehearsalFinding:
    """The one sentence of a cluster none of whose machines was reached."""
    first = [next(finding for finding in of_one if not finding.ok) for of_one in findings]
    said = every_machine([(finding.machine, finding.message) for finding in first])
    return RehearsalFinding("connection", False, said, temporary=all(finding.temporary for finding in first))


def _not_looked_at(hosts: Sequence[str], of: int, seconds: float) -> RehearsalFinding:
    names = ", ".join(hosts[:NAMED])
    more = f" and {len(hosts) - NAMED} more" if len(hosts) > NAMED else ""
    return RehearsalFinding("machines", False, (
        f"{len(hosts)} of {of} machines were not checked, or not completely: {names}{more}. A test checks at most "
        f"{MOST_LOOKED_AT} machines and takes at most {seconds:.0f} s. Trials start on the machines that "
        "work."), temporary=True)


def _rehearse(settings: RemoteMachineSettings, keys: HostKeyStore, bundle: KeeperBundle, cluster_folder: str,
              addresses: ServerAddresses, clock: Callable[[], float], storage: SharedStorage | None,
              quick: bool, options: RemoteTrialOptions | None) -> Iterator[RehearsalFinding]:
    name = settings.host
    timeout = QUICK if quick else PATIENT
    try:
        connection = connect(settings, keys, timeout)
    except Exception as error:  # a launch goes on whatever this was, and says so
        yield _finding(as_problem(error, name), name)
        return
    try:
        yield RehearsalFinding("connection", True, f"{settings.address} answers, and user {settings.user} can log "
                                                   "in.", name)
        yield RehearsalFinding("host_key", True, connection.note or "The host key is the expected one.", name)
        facts = look_at(connection, settings, bundle, clock, timeout)
        yield RehearsalFinding("interpreter", True, f"The keeper runs under {facts.python} ({facts.version}).", name)
        yield from _folder_and_disk(facts, name)
        yield _clock(facts, name)
        if storage is not None and not quick:
            yield _share(connection, storage.at_home(facts.home), name)
        if quick and options is not None and options.docker_image is not None:
            yield look_at_image(connection, options, name, timeout)
        if not quick and not facts.error:
            yield from _with_agent(connection, facts, settings, bundle, cluster_folder, addresses, name, options)
    except MachineProblem as problem:
        yield _finding(problem, name)
    except TrainingServiceError as error:
        yield RehearsalFinding("connection", False, f"The agent on {name} does not work: {error}", name, temporary=True)
    except Exception as error:
        yield _finding(as_problem(error, name), name)
    finally:
        connection.close()


def _finding(problem: MachineProblem, name: str) -> RehearsalFinding:
    return RehearsalFinding(problem.check, False, problem.reason, name, temporary=not problem.needs_person)


def _folder_and_disk(facts: MachineFacts, name: str) -> Iterator[RehearsalFinding]:
    if facts.error:
        yield RehearsalFinding("folder", False, f"The folder {facts.folder} cannot be written on {name} "
                                                f"({facts.error}). Free disk space, correct the permissions, or choose "
                                                "another workingFolder.", name)
    else:
        yield RehearsalFinding("folder", True, f"Trials keep their files in {facts.folder}.", name)
    if facts.free_bytes is None:
        return
    there_is = f"{byte_size(facts.free_bytes)} are free on the disk of {facts.folder} on {name}"
    if facts.free_bytes < DISK_BLOCKS_BELOW:
        yield RehearsalFinding("disk", False, f"Only {there_is}. A trial needs space for its code, files and output. "
                                              "Free disk space, or choose a workingFolder on another disk.", name)
    elif facts.free_bytes < DISK_WARNS_BELOW:
        yield RehearsalFinding("disk", False, f"Only {there_is}. Trials that write large files will fail. Free disk "
                                              "space soon.", name,
                               temporary=True)
    else:
        yield RehearsalFinding("disk", True, f"{there_is}.", name)


def _share(connection: Connection, storage: SharedStorage, name: str) -> RehearsalFinding:
    # the key goes with the text, on the shell's input, where nobody else on the machine can read it
    variables = "".join(f"{key}={shlex.quote(value)}; export {key}\n" for key, value in storage.variables.items())
    script = variables + storage.mount_script(storage.remote_mount_point)
    status, _, errors = connection.run("sh -s", script, MOUNT_TIMEOUT)
    if status:
        said = errors.strip().splitlines() or [f"mounting ended with status {status}"]
        return RehearsalFinding("storage", False, f"On {name}: {said[-1]}", name)
    return RehearsalFinding("storage", True, f"The share is mounted at {storage.remote_mount_point}.", name)


def _clock(facts: MachineFacts, name: str) -> RehearsalFinding:
    ahead = facts.clock_ahead
    if abs(ahead) <= CLOCK_TOLERANCE:
        return RehearsalFinding("clock", True, "The machine's clock agrees with the server's.", name)
    return RehearsalFinding("clock", True, f"The clock of {name} is {abs(ahead):.0f} s "
                                           f"{'ahead of' if ahead > 0 else 'behind'} the server's. Reported times are "
                                           "corrected, but programs that compare the times of files may fail. Enable "
                                           "time synchronization on the machine.", name)


def _with_agent(connection: Connection, facts: MachineFacts, settings: RemoteMachineSettings, bundle: KeeperBundle,
                cluster_folder: str, addresses: ServerAddresses, name: str,
                options: RemoteTrialOptions | None) -> Iterator[RehearsalFinding]:
    client = start_agent(connection, facts, put_keeper(connection, facts, bundle), on_event=lambda folder, state: None,
                         on_closed=lambda: None)
    try:
        yield _gpus(client, settings, name)
        yield control_groups_finding(client, name)
        if options is not None and options.docker_image is not None:
            yield ContainerImages(name, "remote", lambda: client, time.monotonic, lambda: None).finding(
                options, IMAGE_PATIENCE)
        yield _way_home(connection, facts, addresses, name)
        of_cluster = posixpath.join(facts.folder, cluster_folder)
        rehearsal = posixpath.join(of_cluster, "rehearsal")
        was_there = connection.run(f"test -e {shlex.quote(of_cluster)}")[0] == 0
        yield from _trial(client, posixpath.join(rehearsal, uuid.uuid4().hex[:12]), settings, name)
        if not was_there:  # of a cluster that is only tried, each time another
            connection.run(f"rmdir {shlex.quote(rehearsal)} {shlex.quote(of_cluster)}")
    finally:
        client.close()


def _gpus(client: AgentClient, settings: RemoteMachineSettings, name: str) -> RehearsalFinding:
    gpus, error = client.gpus()
    if not gpus:
        if settings.gpu_indices is not None:
            return RehearsalFinding("gpus", False, f"gpuIndices is set for {name}, but no GPU was found: {error}. "
                                                   "Install NVIDIA's driver, or remove gpuIndices.", name)
        return RehearsalFinding("gpus", True, f"No GPU was found ({error}). Trials that ask for GPUs do not run "
                                              "here.", name)
    request = GpuRequest(0, settings.max_trial_number_per_gpu, settings.use_active_gpu, settings.gpu_indices)
    choice = choose_gpus(request, [reading_of(gpu) for gpu in gpus], {}, name)
    if isinstance(choice, Impossible):
        return RehearsalFinding("gpus", False, choice.reason, name)
    names = ", ".join(f"{gpu['index']}: {gpu.get('name') or 'GPU'}" for gpu in gpus)
    return RehearsalFinding("gpus", True, f"{len(gpus)} GPU(s) were found ({names}).", name)


def _way_home(connection: Connection, facts: MachineFacts, addresses: ServerAddresses, name: str) -> RehearsalFinding:
    """Which way reports will come: tried from the machine."""
    public, relay = addresses.public(), addresses.relay()
    reason = "no address of the server is known to other machines (NNIWEB_PUBLIC_URL)"
    if public:
        program = shlex.join([facts.python, "-I", *probe_arguments(public, addresses.ca_file)])
        status, output, errors = connection.run(program, timeout=REACH_TIMEOUT * len(public))
        if status == 0:
            return RehearsalFinding("way_home", True, f"Keepers can call the server: {name} {output.strip()}.", name)
        reason = (errors.strip().splitlines() or [f"the test ended with status {status}"])[-1]
    if relay:
        return RehearsalFinding("way_home", True, f"Reports are sent through the SSH connection: {reason}.", name)
    return RehearsalFinding("way_home", False, f"Reports cannot come from {name}: {reason}, and the server's own "
                                               "address is not known to this process, so they cannot be sent through "
                                               "the SSH connection. Start the server, or set NNIWEB_PUBLIC_URL.", name,
                            temporary=True)


def _trial(client: AgentClient, folder: str, settings: RemoteMachineSettings, name: str) -> Iterator[RehearsalFinding]:
    """Run ``true`` under a keeper that reports to nobody."""
    job: contract.JobDocument = {
        "version": contract.PROTOCOL_VERSION, "job_name": posixpath.basename(folder),
        "trial_job_id": posixpath.basename(folder), "experiment_id": "rehearsal", "sequence_id": 0,
        "platform": "remote", "command": settings.prepare_command or "true", "parameters": [], "multi_phase": False,
        "environment": dict(settings.environment), "inherit_environment": None, "path": [], "gpu_indices": None,
        "code": None, "keep_files": [],
        "limits": {"max_trial_duration": TRIAL_DEADLINE, "grace_period": 1.0, "give_up_after": 0.0,
                   "claim_timeout": 0.0}}
    what = "The preparation command" if settings.prepare_command else "An empty test trial"
    deadline = time.monotonic() + TRIAL_DEADLINE
    state = client.start(folder, job, KeeperAccess(urls=(), token=""))
    while state["state"] != "ended" and time.monotonic() < deadline:
        time.sleep(0.05)
        state = client.state([folder])[folder]
    exit_document = state.get("exit")
    if exit_document is None:
        yield RehearsalFinding("trial", False, f"{what} did not end on {name} within {TRIAL_DEADLINE:.0f} s. See "
                                               f"{posixpath.join(folder, contract.KEEPER_LOG_FILE)} there.", name,
                               temporary=True)
        client.stop(folder)
        return
    seen = observed_exit(exit_document)
    if seen.status is not TrialJobStatus.SUCCEEDED:
        yield RehearsalFinding("trial", False, f"{what} failed on {name}: {seen.message} See "
                                               f"{posixpath.join(folder, contract.STDERR_FILE)} there.", name)
        return
    yield RehearsalFinding("trial", True, f"{what} succeeded.", name)
    while time.monotonic() < deadline:  # its keeper ends within moments
        try:
            client.remove(folder)
            return
        except AgentError:
            time.sleep(0.05)
        except TemporaryError:
            return
