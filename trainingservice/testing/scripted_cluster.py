"""The cluster behind the scripted platform: folders of this machine, and nothing in memory.

Each job has a folder ``jobs/<job name>`` with ``state.json`` (what the cluster knows), a lock, and one
folder per start (``run-1``, ...), in which a keeper works. Nobody runs the cluster: whoever looks at a
job moves it on as far as its script and the clock say. So it survives the death of any process, and
several may look at once.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

from trainingservice.keeper.keeper_bundle import build_keeper
from trainingservice.keeper.keeper_exit import observed_exit
from trainingservice.local.environment import allowed_environment
from trainingservice.polling.job_record import Observation
from trainingservice.testing.behaviour import Behaviour
from trainingservice.trial_job import KeeperAccess
from trainingservice.trial_job_status import TrialJobStatus
from trialkeeper import attempt_folder, contract, machine
from trialkeeper.control_group import recorded_group
from trialkeeper.process_tree import ProcessTree

#: An address at which nobody answers: a keeper that is given it believes the server is away.
NOBODY = "http://127.0.0.1:9"
#: How the cluster answers about a job it says nothing about.
SILENCE = object()

_STATE, _LOCK, _URLS, _TOKEN = "state.json", "lock", "urls.json", "token"


def start_keeper(bundle: Path, environment: dict[str, str], run: Path, out: IO[bytes]) -> subprocess.Popen[bytes]:
    """A keeper of the run in this folder, which outlives this process."""
    return subprocess.Popen([sys.executable, "-I", "-S", str(bundle), "run"], env=environment, cwd=run,
                            stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True)


@dataclass
class JobState:
    """Content of ``state.json``. Times are seconds since 1970."""

    experiment_id: str
    behaviour: dict[str, Any] = field(default_factory=dict)
    accepted: bool = False
    canceled: bool = False
    refusals: int = 0
    #: When the present run is due, its number (0: none yet), and its keeper as (pid, start time).
    due: float = 0.0
    run: int = 0
    keeper: tuple[int, str] | None = None
    #: When the trial of the first run was first seen running, and when its end was first shown.
    running_since: float | None = None
    end_shown: bool = False
    #: What of the script has happened.
    happened: list[str] = field(default_factory=list)
    #: Set when the cluster will never say anything else again: {"status", "message"}, or {} for "no such job".
    final: dict[str, str] | None = None


class ScriptedCluster:
    """The cluster in ``folder``. All methods may be called from any thread and process."""

    def __init__(self, folder: Path, clock: Callable[[], float], on_end: Callable[[], None] = lambda: None) -> None:
        """``on_end``: a keeper that this object started has ended."""
        self.folder = folder
        self._clock = clock
        self._on_end = on_end

    def jobs(self, experiment_id: str) -> list[str]:
        """Names of the jobs of an experiment."""
        names = [path.parent.name for path in self.folder.glob(f"jobs/*/{_STATE}")]
        return sorted(name for name in names if self._read(name).experiment_id == experiment_id)

    def knows(self, job_name: str) -> bool:
        """Whether the job was accepted or canceled here."""
        with self._job(job_name) as state:
            return state is not None and (state.accepted or state.canceled)

    def refuse(self, job_name: str, experiment_id: str, times: int) -> int:
        """Count a submission that is refused. Returns how many were before it, at most ``times``."""
        with self._job(job_name, experiment_id) as state:
            assert state is not None
            state.refusals += 1
            return min(times, state.refusals - 1)

    def accept(self, job_name: str, experiment_id: str, document: contract.JobDocument, access: KeeperAccess,
               behaviour: Behaviour, *, fetches_job: bool) -> None:
        """Take a job; a known one stays as it is."""
        with self._job(job_name, experiment_id) as state:
            assert state is not None
            if state.accepted or state.canceled:
                return
            home = self._home(job_name)
            attempt_folder.write_file(str(home / _TOKEN), access.token)
            urls = {"urls": list(access.urls), "url_file": str(access.url_file or ""),
                    "ca_file": str(access.ca_file or "")}
            attempt_folder.write_file(str(home / "access.json"), json.dumps(urls))
            if not fetches_job:
                attempt_folder.write_file(str(home / contract.JOB_FILE), json.dumps(document))
            state.behaviour = behaviour.model_dump()
            state.due = self._clock() + behaviour.start_delay
            state.accepted = True

    def look(self, job_name: str) -> Observation | object | None:
        """Move the job on and say what is seen of it; None: no such job; SILENCE."""
        with self._job(job_name) as state:
            return None if state is None else self._move_on(job_name, state)

    def stop(self, job_name: str, experiment_id: str) -> None:
        """End a job; one that is not known will not start later."""
        with self._job(job_name, experiment_id) as state:
            assert state is not None
            state.canceled = True
            if state.run:
                self._terminate(job_name, state)

    def deliver(self, job_name: str, order: contract.Order) -> None:
        """Hand an order to the job's keeper."""
        with self._job(job_name) as state:
            if state is not None and state.run:
                run = str(self._run_folder(job_name, state))
                attempt_folder.write_file(os.path.join(run, contract.ORDERS_FILE), json.dumps([order]))
                attempt_folder.wake(run)

    def remove(self, job_name: str) -> bool:
        """Forget a job and its folder. False while a keeper of it still ends."""
        with self._job(job_name) as state:
            if state is None:
                return True
            if state.run:
                for run in self._home(job_name).glob("run-*"):
                    if attempt_folder.keeper_pid(str(run)) is not None:
                        self._terminate(job_name, state)
                        return False
                if self._keeper_lives(state):
                    return False
            (self._home(job_name) / _STATE).unlink()  # first: from here on the job is gone for everybody
            shutil.rmtree(self._home(job_name), ignore_errors=True)
            return True

    # --- the script ------------------------------------------------------------------------

    def _move_on(self, job_name: str, state: JobState) -> Observation | object | None:
        if state.final is None and state.canceled and not state.run:
            self._finish(state, TrialJobStatus.SYS_CANCELED, "The job was stopped before it started.")
        if state.final is not None:
            return Observation(TrialJobStatus(state.final["status"]), message=state.final["message"]) \
                if state.final else None
        if not state.accepted:
            return None
        now = self._clock()
        if state.keeper is None:
            if now < state.due:
                return Observation(TrialJobStatus.WAITING, message="The job waits in the queue of the cluster.")
            self._start_run(job_name, state)
        run = self._run_folder(job_name, state)
        seen = self._look_at_run(run, state)
        if seen.status is TrialJobStatus.RUNNING and state.running_since is None:
            state.running_since = now
        if state.running_since is not None:
            behaviour = Behaviour.model_validate(state.behaviour)
            age = now - state.running_since
            if behaviour.silent_after is not None and age >= behaviour.silent_after \
                    and not (behaviour.silent_until and Path(behaviour.silent_until).exists()):
                return SILENCE
        if state.running_since is not None and not seen.status.is_end:
            seen = self._play(job_name, state, behaviour, age, seen) or seen
            if state.final == {}:
                return None
        if seen.status.is_end and not state.end_shown:
            state.end_shown = True
            self._give_address(job_name, run)
        return seen

    def _play(self, job_name: str, state: JobState, behaviour: Behaviour, age: float,
              seen: Observation) -> Observation | None:
        """Let happen what is due; what is seen then, None where nothing else is."""
        def is_due(name: str, after: float | None) -> bool:
            if after is None or age < after or name in state.happened:
                return False
            state.happened.append(name)
            return True

        if is_due("restart", behaviour.restart_after):
            self._spawn(job_name, self._home(job_name) / f"run-{state.run}-again")
        if is_due("requeue", behaviour.requeue_after):
            self._kill(job_name, state)
            state.keeper = None
            state.due = self._clock() + behaviour.requeue_delay
            return Observation(TrialJobStatus.WAITING, message="The machine failed; the job was queued again.")
        if is_due("lost", behaviour.lost_after):
            self._kill(job_name, state)
            self._finish(state, TrialJobStatus.FAILED, "The machine of the job was lost.")
            return Observation(TrialJobStatus.FAILED, message="The machine of the job was lost.")
        if is_due("deleted", behaviour.deleted_after):
            self._terminate(job_name, state)
            state.final = {}
        return seen

    def _look_at_run(self, run: Path, state: JobState) -> Observation:
        found = attempt_folder.folder_state(str(run))
        kind, exit_document = found["state"], found["exit"]
        where = found["working_directory"]
        if kind == attempt_folder.ENDED_STATE and exit_document is not None:
            seen = observed_exit(exit_document)
        elif kind == attempt_folder.RUNNING:
            if found["keeper_pid"] is None and not self._keeper_lives(state):
                state.keeper = self._spawn(run.parent.name, run)  # it was killed: the next one finishes the attempt
            seen = Observation(TrialJobStatus.RUNNING)
        elif found["keeper_pid"] is not None or self._keeper_lives(state):
            seen = Observation(TrialJobStatus.WAITING, message="The job's keeper starts.")
        else:
            message = "The job ended before its trial began: its keeper has given up or found the attempt taken."
            self._finish(state, TrialJobStatus.FAILED, message)
            return Observation(TrialJobStatus.FAILED, message=message)
        return Observation(seen.status, message=seen.message, start_time=seen.start_time, end_time=seen.end_time,
                           exit_code=seen.exit_code, ended_by_itself=seen.ended_by_itself, machine=machine.host(),
                           working_directory=where, url=run.as_uri())

    def _finish(self, state: JobState, status: TrialJobStatus, message: str) -> None:
        state.final = {"status": str(status), "message": message}

    # --- keepers ---------------------------------------------------------------------------

    def _start_run(self, job_name: str, state: JobState) -> None:
        state.run += 1
        run = self._run_folder(job_name, state)
        run.mkdir(mode=0o700, exist_ok=True)
        holds_back = Behaviour.model_validate(state.behaviour).end_shown_before_last_report
        if holds_back and not state.end_shown:
            (run / _URLS).write_text(json.dumps({"urls": [NOBODY]}))
        else:
            self._give_address(job_name, run)
        state.keeper = self._spawn(job_name, run)

    def _give_address(self, job_name: str, run: Path) -> None:
        """Let keepers of this run reach the server from now on."""
        access = json.loads((self._home(job_name) / "access.json").read_text())
        current = attempt_folder.read_object(access["url_file"]) if access["url_file"] else None
        attempt_folder.write_file(str(run / _URLS), json.dumps({"urls": [*(current or access)["urls"],
                                                                         *access["urls"]]}))

    def _spawn(self, job_name: str, run: Path) -> tuple[int, str]:
        """Start a keeper; it outlives this process. Returns its pid and start time."""
        home = self._home(job_name)
        run.mkdir(mode=0o700, exist_ok=True)
        if (home / contract.JOB_FILE).exists():
            shutil.copyfile(home / contract.JOB_FILE, run / contract.JOB_FILE)
        if not (run / _URLS).exists():
            self._give_address(job_name, run)
        access = json.loads((home / "access.json").read_text())
        environment = allowed_environment() | {
            contract.ENV_URL_FILE: str(run / _URLS), contract.ENV_TOKEN_FILE: str(home / _TOKEN),
            contract.ENV_JOB: job_name, contract.ENV_FOLDER: str(run)}
        if access["ca_file"]:
            environment[contract.ENV_CA] = access["ca_file"]
        keeper = build_keeper(self.folder / "keepers")
        with (run / "keeper.out").open("ab") as out:
            process = start_keeper(keeper.path, environment, run, out)
        start_time = machine.process_start_time(process.pid) or ""

        def wait() -> None:
            process.wait()
            self._on_end()

        threading.Thread(target=wait, name=f"end of the keeper of {job_name}", daemon=True).start()
        return process.pid, start_time

    def _keeper_lives(self, state: JobState) -> bool:
        return state.keeper is not None and machine.process_lives(*state.keeper)

    def _terminate(self, job_name: str, state: JobState) -> None:
        """Tell all keepers of a job to end."""
        pids = {attempt_folder.keeper_pid(str(run)) for run in self._home(job_name).glob("run-*")}
        if state.keeper is not None and self._keeper_lives(state):
            pids.add(state.keeper[0])
        for run in self._home(job_name).glob("run-*"):
            (run / contract.CANCELED_FILE).touch()
        for pid in pids:
            if pid is not None:
                _send(pid, signal.SIGTERM)

    def _kill(self, job_name: str, state: JobState) -> None:
        """The machine dies: keepers and trials end without a word."""
        if state.keeper is not None and self._keeper_lives(state):
            _send(state.keeper[0], signal.SIGKILL)
        for run in self._home(job_name).glob("run-*"):
            keeper = attempt_folder.keeper_pid(str(run))
            if keeper is not None:
                _send(keeper, signal.SIGKILL)
            trial = attempt_folder.read_object(str(run / contract.TRIAL_FILE))
            journal = attempt_folder.summary_of(str(run))
            if trial is not None and journal is not None:
                tree = ProcessTree(journal.journal_id, trial["pid"], trial["start_time"], own_children=False,
                                   reaps_orphans=False, group=recorded_group(str(run), journal.journal_id))
                while members := tree.members():  # a process may fork while its family is killed
                    tree.kill_group()
                    for pid in members:
                        _send(pid, signal.SIGKILL)

    # --- storage ---------------------------------------------------------------------------

    def _home(self, job_name: str) -> Path:
        return self.folder / "jobs" / job_name

    def _run_folder(self, job_name: str, state: JobState) -> Path:
        return self._home(job_name) / f"run-{state.run}"

    def _read(self, job_name: str) -> JobState:
        document = attempt_folder.read_object(str(self._home(job_name) / _STATE)) or {"experiment_id": ""}
        document["keeper"] = tuple(document["keeper"]) if document.get("keeper") else None
        return JobState(**document)

    @contextlib.contextmanager
    def _job(self, job_name: str, experiment_id: str | None = None) -> Iterator[JobState | None]:
        """The state of a job, locked, and stored afterwards. With an ``experiment_id`` an unknown job is made."""
        home = self._home(job_name)
        if experiment_id is not None:
            home.mkdir(parents=True, exist_ok=True, mode=0o700)
        elif not (home / _STATE).exists():
            yield None
            return
        with (home / _LOCK).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            path = home / _STATE
            if path.exists():
                state = self._read(job_name)
            elif experiment_id is not None:
                state = JobState(experiment_id)
            else:
                yield None
                return
            try:
                yield state
            finally:
                if home.exists() and (path.exists() or experiment_id is not None):
                    attempt_folder.write_file(str(path), json.dumps(asdict(state)))


def _send(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
