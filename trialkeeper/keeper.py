"""The keeper of one attempt: starts the trial, journals what happens, reports, obeys, finishes.

The main thread does everything but talking to the server (reporter.py) and preparing the code. Killing the
keeper between any two lines leaves a folder from which the next keeper finishes the attempt:

    journal without ``started``            nothing has begun: it is run
    ``started``, no EXIT_FILE              what is left of the trial is ended, files are drained: reason "lost"
    EXIT_FILE, no ``ended`` in the journal ``ended`` is written from the file
    ``ended``                              the rest is delivered

Where the platform runs the job again and again (ENV_LASTING) a journal that has begun is that of an earlier run, in
another container. Unless the trial has ended by itself there, or in another way of its own, it is run once more, and
its results follow those of before.
"""

import contextlib
import fcntl
import json
import os
import random
import signal
import sys
import threading
import time
import traceback
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Sequence, Tuple, cast

from trialkeeper import contract, machine
from trialkeeper.access import Access, save_access
from trialkeeper.attempt_folder import make_private_folder, modified_at, read_object, summary_of, write_file
from trialkeeper.checkpoints import Checkpoints
from trialkeeper.child_process import LOOK_INTERVAL, CannotStart, ChildProcess, NoRoom, TreeEnding
from trialkeeper.code_folder import prepare_code, runs_in_users_folder, working_directory_of
from trialkeeper.command_template import Given, given_without_nni
from trialkeeper.container_tree import ContainerTree
from trialkeeper.container_trial import ContainerTrial, container_of
from trialkeeper.control_group import Gathering, recorded_group
from trialkeeper.delivery import deliver
from trialkeeper.durable_files import flush_file, flush_folder
from trialkeeper.end_record import TrialEnd, ended_entry, exit_status, trial_end
from trialkeeper.file_mode import file_mode
from trialkeeper.folder_removal import remove_unless_plain
from trialkeeper.gpu_usage import GpuWatch, gpus_of_slurm, names_for_cuda
from trialkeeper.group_limits import limits_of
from trialkeeper.inbox import Inbox
from trialkeeper.job_source import fetch_job
from trialkeeper.journal import EarlierRuns, Journal
from trialkeeper.kept_files import find_kept_files
from trialkeeper.memory_watch import MemoryWatch
from trialkeeper.nni_for_trials import folder_for_trials
from trialkeeper.out_of_memory import KernelKills, out_of_memory, over_its_limit
from trialkeeper.process_tree import ProcessTree, become_reaper_of_orphans
from trialkeeper.ranks import free_port, last_lines
from trialkeeper.recorder import Recorder
from trialkeeper.reporter import Reporter
from trialkeeper.resources import TrialResources
from trialkeeper.server_connection import ServerAway, ServerConnection
from trialkeeper.smi_program import NoGpuReading
from trialkeeper.starting_threads import Room, pause_after
from trialkeeper.trial_environment import trial_environment
from trialkeeper.trial_parameters import is_printable
from trialkeeper.trial_watch import LOOK_EVERY, TrialWatch
from trialkeeper.wakeups import Wakeups
from trialkeeper.warm_child import WarmTree
from trialkeeper.warm_start import WarmStart

if TYPE_CHECKING:
    from trialkeeper.checkpoint_restore import Restored
    from trialkeeper.mlflow_endpoint import MlflowEndpoint
    from trialkeeper.script_metrics import ScriptMetrics

#: Exit status of a keeper that had nothing to do: the attempt is another keeper's, or was cancelled before.
NOTHING_TO_DO = 82
#: Seconds between TERM and KILL where a job does not say.
DEFAULT_GRACE = 5.0
#: Seconds for which a final result waits for the trial's end, which mostly follows at once: one report less.
HOLD_FINAL_RESULT = 0.05
#: Seconds a keeper that may be started again waits for its threads, and at most as many more by chance: those who hold
#: half of what they need must not wait for each other for ever.
ROOM_PATIENCE = 20.0

#: Seconds without progress after which a trial's last checkpoint is given up: of one that ended by itself, and of one
#: that something ended.
SEND_AFTER_EXIT, SEND_BEFORE_END = 300.0, 30.0

#: What the trial's stderr shows where a later run begins.
RUN_BEGINS = "\n[The platform ended the trial here and runs it again.]\n"

_PREPARED, _JOB = "prepared", "job"


def _may_be_gathered(entry: contract.Entry) -> bool:
    """Whether nobody but those who look at curves and output waits for it."""
    return entry["type"] == contract.OUTPUT or entry.get("kind") == contract.PERIODICAL


class Keeper:
    """Call ``run`` once, on the main thread. ``changed`` is called when the trial starts, ends, and was delivered."""

    def __init__(self, folder: str, job_name: str, access: Optional[Access], *, replica: int = 0,
                 changed: Callable[[], None] = lambda: None, echo: bool = False, is_started_again: bool = False,
                 is_run_again: bool = False,
                 orphans: Sequence[Tuple[int, Optional[str]]] = (), warm_socket: Optional[str] = None,
                 clock: Callable[[], float] = time.monotonic) -> None:
        """``access`` None: nobody is called, the journal is collected as a file. ``echo``: log to stderr too.

        ``is_started_again``: by who started it, where it ends while WAITS_FILE is there. ``is_run_again``: the platform
        may end the trial at any time and run it once more with this journal. ``orphans``: (pid, start time)
        of processes that a killed keeper of this attempt left. ``warm_socket``: where the machine's agent takes
        requests for warm trials; None without an agent.
        """
        self._orphans = orphans
        self._warm = WarmStart(warm_socket)
        self._folder, self._job_name, self._replica = os.path.abspath(folder), job_name, replica
        self._access = access or Access()
        self._changed, self._echo, self._clock = changed, echo, clock
        self._time_offset = time.time() - clock()  # once: the clock of the machine may jump
        self._reporter: Optional[Reporter] = None
        self._is_started_again, self._is_run_again = is_started_again, is_run_again
        self._earlier: Optional[EarlierRuns] = None
        self._room = Room()
        self._tree: Optional[ProcessTree] = None
        self._gpus: Optional[GpuWatch] = None
        self._usage: Optional[TrialResources] = None
        self._checkpoints: Optional[Checkpoints] = None
        self._mlflow: Optional[MlflowEndpoint] = None
        self._kernel_kills: Optional[KernelKills] = None
        self._container: Optional[ContainerTrial] = None
        self._memory: Optional[MemoryWatch] = None

    def run(self) -> int:
        """Exit status: that of the trial (128 + number for a signal), or NOTHING_TO_DO."""
        make_private_folder(self._folder)
        self._wakeups = Wakeups(self._folder)
        self._inbox = Inbox(self._folder, self._wakeups, write_parameters=self._write_parameters, log=self._log,
                            clock=self._clock)
        lock = self._lock()
        if lock is None:
            self._log("another keeper lives in %s" % self._folder)
            return NOTHING_TO_DO
        job = self._get_job()
        if job is None:
            return NOTHING_TO_DO
        self._job = job
        # a damaged job does not tell it; what another rank than 0 has to say must not count as the trial's word
        self._node = job.get("node") or cast(Optional[contract.NodeDocument],
                                             read_object(self._path(contract.NODE_FILE)))
        if self._node is not None:
            self._replica = self._node["rank"]
        self._limits: contract.LimitsDocument = job.get("limits") or {}
        self._working_directory = working_directory_of(job, self._folder)
        self._journal = Journal(self._path(contract.JOURNAL_FILE), self._job_name)
        self._make_reporter()
        if self._is_run_again and self._journal.is_of_a_run_that_was_stopped():
            self._earlier = self._journal.begin_run()
        self._recorder = Recorder(
            self._folder, self._journal, self._limits, now=self._now, clock=self._clock, log=self._log,
            notify=self._notify_reporter, earlier=self._earlier, script=self._script_metrics())
        self._make_checkpoints()
        container = container_of(job)
        if container is not None:
            self._container = ContainerTrial(container, self._folder, self._journal.journal_id, self._log)
        if not self._journal.started and self._inbox.is_canceled():
            self._log("the attempt was cancelled before it began")
            return NOTHING_TO_DO
        end = read_object(self._path(contract.EXIT_FILE))
        if end is not None and end.get("claimed"):
            return NOTHING_TO_DO
        signals = 0  # those that were meant for the trial
        if self._journal.ended:
            end = end or self._end_of_an_earlier_run()
            self._start_reporter()
        else:
            end = self._end_of_trial(end)
            signals = len(self._wakeups.stop_signals)
            if self._container is not None:
                self._container.remove()
            self._remove_group()
            if end is None:
                return NOTHING_TO_DO
            self._conclude_metrics(end)
            self._send_last_checkpoint(end)
            self._hand_over_kept_files()
            self._record_end(end)
        self._deliver(signals)
        return self._exit_status(end or {})

    def _end_of_an_earlier_run(self) -> Optional[TrialEnd]:
        """The trial's end where another container's keeper has written it."""
        end = self._journal.end if self._is_run_again else None
        if end is not None:
            write_file(self._path(contract.EXIT_FILE), json.dumps(end), durable=True)
        return end

    def _end_of_trial(self, end: Optional[TrialEnd]) -> Optional[TrialEnd]:
        """Run the trial, or finish what an earlier keeper began. ``end``: as EXIT_FILE tells it, None without one.

        None where the attempt is another keeper's, or nothing was begun.
        """
        try:
            if end is not None:
                self._start_reporter()
                self._recorder.drain(self._is_stopped)
                return end
            return self._finish_for_another() if self._journal.started else self._run_trial()
        except Exception as error:  # a bug of ours: nothing of the trial may be left, and the end must be told
            self._log("the keeper failed:\n" + traceback.format_exc())
            return self._end_after_failure(error)

    # --- before the trial ------------------------------------------------------------------

    def _lock(self) -> Optional[int]:
        path = self._path(contract.KEEPER_FILE)
        remove_unless_plain(path)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, file_mode())
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        except OSError as error:
            self._log("%s cannot be locked on this file system: %s" % (contract.KEEPER_FILE, error))
        text = json.dumps({"pid": os.getpid(), "start_time": machine.process_start_time(os.getpid()),
                           "machine_id": machine.machine_id(), "host": machine.host()}).encode()
        os.pwrite(descriptor, text, 0)
        os.ftruncate(descriptor, len(text))
        return descriptor

    def _get_job(self) -> Optional[contract.JobDocument]:
        document = read_object(self._path(contract.JOB_FILE))
        if document is None and self._has_begun():
            # asking for it would help nothing: it is not run again, and what is known of its end can be told without it
            self._log("%s is missing or damaged, as after a power cut" % self._path(contract.JOB_FILE))
            return {"job_name": self._job_name}
        if document is None and self._access.has_server:
            self._wakeups.in_background(
                _JOB, lambda: fetch_job(self._access, self._folder, self._job_name, self._log))
            while _JOB not in self._inbox.results and self._inbox.stop is None:
                self._inbox.wait(LOOK_EVERY * 10)
            document = self._inbox.results.get(_JOB)
            if isinstance(document, Exception):
                self._log("what to run could not be fetched: %s" % document)
                document = None
            elif document is not None:
                write_file(self._path(contract.JOB_FILE), json.dumps(document))
        elif document is None:
            self._log("there is neither %s nor a server address: nothing to run" % self._path(contract.JOB_FILE))
        if document is not None and not isinstance(document.get("command"), str):
            self._log("%s says no command" % contract.JOB_FILE)
            document = None
        return cast(Optional[contract.JobDocument], document)

    def _has_begun(self) -> bool:
        summary = summary_of(self._folder)
        return summary is not None and summary.started

    def _make_reporter(self) -> None:
        parameters = [parameter["index"] for parameter in self._job.get("parameters") or []]
        self._document: contract.KeeperDocument = {
            "version": contract.PROTOCOL_VERSION, "host": machine.host(), "pid": os.getpid(),
            "journal_id": self._journal.journal_id, "replica": self._replica,
            "parameter_index": max(parameters, default=-1)}
        if self._access.has_server and self._job_name:
            save_access(self._folder, self._access)
            self._reporter = Reporter(
                access=self._access, job_name=self._job_name, folder=self._folder, journal=self._journal,
                keeper=self._document, limits=self._limits, tell=self._wakeups.tell, log=self._log, now=self._now,
                resources=self._read_resources, clock=self._clock, prepare=self._flush_what_the_next_keeper_needs)

    def _make_checkpoints(self) -> None:
        document = self._job.get("checkpoints")
        if document is None or not self._access.has_server or not self._job_name:
            return
        self._checkpoints = self._recorder.checkpoints = Checkpoints(
            self._folder, document, self._journal, access=self._access, job_name=self._job_name,
            is_listener=self._replica != 0, record=self._recorder.record, start_thread=self._wakeups.threads.start,
            tell=self._wakeups.tell, log=self._log, now=self._now, clock=self._clock)

    def _notify_reporter(self, entries: List[contract.Entry]) -> None:
        if self._reporter is not None:
            self._reporter.notify(may_wait=min(self._may_wait(entry) for entry in entries),
                                  is_urgent=not all(_may_be_gathered(entry) for entry in entries))

    def _may_wait(self, entry: contract.Entry) -> float:
        """Seconds for which the server need not hear of it, because more may follow at once."""
        if entry["type"] == contract.STARTED:
            return self._limits.get("hold_started", 0.0)
        return HOLD_FINAL_RESULT if entry.get("kind") == contract.FINAL else 0.0

    def _start_reporter(self) -> None:
        if self._reporter is not None:
            self._reporter.start(self._wakeups.threads.start)

    def _gets_threads(self, may_prepare: threading.Event) -> bool:
        """Start what the trial needs threads for, and wait until there is room for them; False where there is not.

        Nothing has begun before: a machine that is short of threads keeps the trial waiting, and does not fail it. One
        thread more holds room for the trial's process.
        """
        threads = self._wakeups.threads
        if self._reporter is not None:
            self._reporter.start(threads.start, begins=False)
        if self._has_to_prepare():
            self._wakeups.in_background(_PREPARED, lambda: self._prepare(may_prepare))
        threads.start("room", self._room.hold)
        if threads.is_short and not self._waits_for_threads():
            return False
        self._wait_is_over()
        return True

    def _wait_is_over(self) -> None:
        with contextlib.suppress(FileNotFoundError):  # as nearly always
            os.remove(self._path(contract.WAITS_FILE))

    def _has_to_prepare(self) -> bool:
        """Whether the trial needs something that has to be fetched, or unpacked, before it starts."""
        goes_on = self._checkpoints is not None and self._checkpoints.has_to_restore
        return goes_on or not runs_in_users_folder(self._job)

    def _prepare(self, may_prepare: threading.Event) -> "List[Restored]":
        """What the trial goes on with, and loads. Raises CannotStart."""
        may_prepare.wait()
        if not runs_in_users_folder(self._job):
            connection = ServerConnection(self._access) if self._access.has_server else None
            prepare_code(self._job, self._folder, connection, log=self._log,
                         give_up_after=self._limits.get("give_up_after", 86400.0))
        if self._checkpoints is None or not self._checkpoints.has_to_restore:
            return []
        try:
            return self._checkpoints.restore(lambda: self._inbox.stop is not None)
        except (OSError, ServerAway) as error:
            raise CannotStart("the checkpoint it goes on with could not be put back: %s" % error) from error

    def _waits_for_threads(self) -> bool:
        """Wait for room for all threads; False where the attempt is to end, or to be begun again later."""
        self._log("there is no room for a thread now (a limit on processes, threads or memory): waiting for it")
        try:
            write_file(self._path(contract.WAITS_FILE), "Machine %s has no thread or process to spare for it now (a "
                       "limit such as ulimit -u or TasksMax=); it begins when there is room." % machine.host())
            self._changed()
        except OSError as error:
            self._log("%s cannot be written: %s" % (contract.WAITS_FILE, error))
        give_way_at = self._clock() + ROOM_PATIENCE * (1.0 + random.random())
        while self._wakeups.threads.is_short:
            if not self._inbox.may_go_on:
                self._wait_is_over()
                return False
            if self._is_started_again and self._clock() >= give_way_at:
                self._log("giving way to others: the attempt is begun again later")
                return False
            self._inbox.wait(1.0)
        self._log("there is room")
        return True

    # --- the trial -------------------------------------------------------------------------

    def _run_trial(self) -> Optional[TrialEnd]:
        """The end of the trial, None where it is another keeper's, or nothing was begun."""
        may_prepare = threading.Event()
        if not self._gets_threads(may_prepare):
            if self._inbox.stop is None or self._inbox.is_canceled():
                return None
            return self._end(self._inbox.end_reason, self._inbox.stop)
        if not self._record_start():  # a trial that is not on record could be started twice
            return self._end(contract.NOT_STARTED, "%s on %s cannot be written: is the disk full?"
                             % (self._path(contract.JOURNAL_FILE), machine.host()))
        self._wait_for_claim()
        self._wait_for_code(may_prepare)
        if self._inbox.claimed is not None:
            self._leave_to_another(None)
            return None
        if self._inbox.stop is None and isinstance(self._inbox.results[_PREPARED], Exception):
            return self._end(contract.NOT_STARTED, str(self._inbox.results[_PREPARED]))
        if self._inbox.stop is not None or self._inbox.is_canceled():
            return self._end(self._inbox.end_reason, self._inbox.stop or "cancelled before it was started")
        if self._checkpoints is not None:
            for restored in self._inbox.results[_PREPARED]:
                self._checkpoints.note_restored(restored)
        try:
            child = self._start_when_there_is_room()
        except CannotStart as error:
            return self._end(contract.NOT_STARTED, str(error))
        if child is None and self._inbox.claimed is not None:
            self._leave_to_another(None)
            return None
        if child is None:
            return self._end(self._inbox.end_reason, self._inbox.stop or "cancelled before it was started")
        return self._watch(child)

    def _record_start(self) -> bool:
        """Whether the journal has it; from then on the attempt is not run again."""
        written = self._recorder.record([{
            "type": contract.STARTED, "pid": os.getpid(), "host": machine.host(), "machine_id": machine.machine_id(),
            "gpu_indices": self._job.get("gpu_indices"), "working_directory": self._working_directory},
            *self._remark_on_earlier_runs()])
        if self._reporter is not None:
            self._reporter.begin()
        return written

    def _remark_on_earlier_runs(self) -> List[contract.Entry]:
        """For who reads the output: where this run begins in it."""
        if self._earlier is None:
            return []
        offset = self._earlier.ends_of_output.get("stderr", 0)
        self._earlier.ends_of_output["stderr"] = offset + len(RUN_BEGINS)
        return [{"type": contract.OUTPUT, "stream": "stderr", "offset": offset, "data": RUN_BEGINS}]

    def _wait_for_code(self, may_prepare: threading.Event) -> None:
        """Until the code is there or could not be brought (``_inbox.results``), or the attempt is to end."""
        if not self._has_to_prepare():
            self._inbox.results[_PREPARED] = []
        elif self._inbox.may_go_on:
            may_prepare.set()
        while self._inbox.may_go_on and _PREPARED not in self._inbox.results:
            self._inbox.wait(1.0)

    def _start_when_there_is_room(self) -> Optional[ChildProcess]:
        """The trial's process; None where the attempt is to end before there was room for one. Raises CannotStart."""
        failures = 0
        while True:
            self._room.give_up()
            try:
                return self._start_trial()
            except NoRoom as error:
                if not failures:
                    self._log("the command cannot be started now, it is tried again: %s" % error)
            until = self._clock() + pause_after(failures)
            failures += 1
            while self._inbox.may_go_on and self._clock() < until:
                self._inbox.wait(until - self._clock())
            if not self._inbox.may_go_on:
                return None

    def _wait_for_claim(self) -> None:
        timeout = self._limits.get("claim_timeout", 2.0)
        if self._reporter is None or self._replica or timeout == 0.0:
            return
        until = None if timeout is None else self._clock() + timeout
        while not self._inbox.answered and self._inbox.may_go_on:
            left = 1.0 if until is None else until - self._clock()
            if left <= 0:
                self._log("no server has answered within %.1f s: starting the trial all the same" % (timeout or 0))
                return
            self._inbox.wait(min(left, 1.0))

    def _start_trial(self) -> ChildProcess:
        nni_folder = self._path(contract.NNI_FOLDER)
        try:
            os.makedirs(nni_folder, exist_ok=True)
            for parameter in self._job.get("parameters") or []:
                self._write_parameters(parameter["index"], parameter["text"])
            given = self._parameters_without_nni(nni_folder)
        except OSError as error:
            raise CannotStart("the parameters could not be written to %s: %s" % (nni_folder, error)) from error
        try:
            if self._checkpoints is not None:
                self._checkpoints.make_folder()
        except OSError as error:
            raise CannotStart("the folder for checkpoints cannot be made: %s" % error) from error
        self._choose_port()
        reaps = become_reaper_of_orphans()
        named_gpus = self._names_of_gpus()
        environment = trial_environment(
            self._job if self._container is None else self._container.job_inside(self._job),
            os.environ if self._container is None else {}, nni_folder=nni_folder,
            working_directory=self._working_directory, wake=self._wakeups.pipe, for_trials=self._folders_for_trials(),
            mark=self._journal.journal_id,
            checkpoints=None if self._checkpoints is None else self._checkpoints.path, further=given.variables,
            gpus=named_gpus if self._container is None else self._container.gpus_inside(named_gpus))
        self._kernel_kills = KernelKills(of_machine=self._container is not None)
        child = self._start_process(given.command, environment, reaps, named_gpus)
        assert self._tree is not None
        if self._reporter is None:
            self._flush_what_the_next_keeper_needs()
        try:
            write_file(self._path(contract.TRIAL_FILE), json.dumps(
                {"pid": child.pid, "start_time": child.start_time, "working_directory": self._working_directory}))
        except OSError as error:  # a keeper that had to finish this would go by the mark alone
            self._log("%s cannot be written: %s" % (contract.TRIAL_FILE, error))
        gpus = self._job.get("gpu_indices")
        if gpus is None:
            gpus = gpus_of_slurm(os.environ)
        if gpus:
            self._gpus = GpuWatch(gpus, self._limits.get("report_interval", 10.0), self._wakeups.threads.start,
                                  self._tree.members_for_readings)
        self._usage = TrialResources(self._tree, self._gpus, self._clock)
        self._changed()
        return child

    def _start_process(self, command: str, environment: Dict[str, str], reaps: bool, gpus: Optional[List[str]]
                       ) -> ChildProcess:
        """In a container, forked by a parent that has imported its modules, or plainly; ``_tree`` is made for it."""
        mark = self._journal.journal_id
        stdout, stderr = self._path(contract.STDOUT_FILE), self._path(contract.STDERR_FILE)
        if self._container is not None:
            child: ChildProcess = self._container.start(
                self._job, command, environment, working_directory=self._working_directory,
                nni_folder=self._path(contract.NNI_FOLDER), wake=self._wakeups.pipe,
                checkpoints=None if self._checkpoints is None else self._checkpoints.path,
                for_trials=self._folders_for_trials(), gpus=gpus, stdout=stdout, stderr=stderr)
            self._tree = ContainerTree(mark, child.pid, child.start_time, own_children=True, reaps_orphans=reaps,
                                       clock=self._clock)
            return child
        warm = self._warm.start(self._job, command, environment, self._working_directory, self._folder,
                                (stdout, stderr), self._wakeups, self._wait_and_go_on, self._clock)
        if warm is not None:
            self._tree = WarmTree(mark, warm)
            return warm
        child = ChildProcess(command, self._working_directory, environment, stdout, stderr)
        self._tree = ProcessTree(mark, child.pid, child.start_time, own_children=True, reaps_orphans=reaps)
        return child

    def _script_metrics(self) -> "Optional[ScriptMetrics]":
        """None where the trial reports its metrics itself, as most do: then nothing is loaded for it."""
        if not self._job.get("metrics"):
            return None
        from trialkeeper.script_metrics import script_metrics
        return script_metrics(self._job, self._folder, self._journal, self._clock, self._log)

    def _parameters_without_nni(self, nni_folder: str) -> Given:
        """The first parameters, for a script that does not import ``nni``. Raises CannotStart, OSError."""
        first = (self._job.get("parameters") or [{"index": 0, "text": ""}])[0]["text"]
        text = first if self._checkpoints is None else self._checkpoints.told(first)
        given = given_without_nni(self._job, text, nni_folder)
        if not is_printable(given.command):
            raise CannotStart("a parameter in the command has a character that no program can be given (NUL)")
        if (self._job.get("metrics") or {}).get("mlflow"):
            if self._mlflow is None:
                from trialkeeper.mlflow_endpoint import MlflowEndpoint
                self._mlflow = MlflowEndpoint(nni_folder)
                self._wakeups.threads.start("mlflow", self._mlflow.serve)
            given.variables.update(self._mlflow.variables())
        return given

    def _names_of_gpus(self) -> Optional[List[str]]:
        """How CUDA is given the trial's GPUs; None where the job does not say which it has. Raises CannotStart."""
        indices = self._job.get("gpu_indices")
        try:
            return None if indices is None else names_for_cuda(indices)
        except NoGpuReading as error:
            raise CannotStart("its GPU on %s cannot be found: %s" % (machine.host(), error)) from error

    def _folders_for_trials(self) -> Optional[str]:
        """What PYTHONPATH gets."""
        folders = [folder_for_trials(self._folder)]
        if self._mlflow is not None:
            folders.append(self._mlflow.folder_for_trials(self._folder))
        return os.pathsep.join(folder for folder in folders if folder is not None) or None

    def _choose_port(self) -> None:
        """Where the ranks of a trial with several nodes meet: as late as can be, so that no other program takes it."""
        node = self._node
        if node is None or self._replica or "address" not in node:
            return
        try:
            node["port"] = free_port()
            write_file(self._path(contract.NODE_FILE), json.dumps(node))
        except OSError as error:
            raise CannotStart("no port for the ranks of the trial can be had on %s: %s" % (machine.host(), error)
                              ) from error

    def _wait_and_go_on(self, seconds: float) -> bool:
        self._inbox.wait(seconds)
        return self._inbox.may_go_on

    def _flush_what_the_next_keeper_needs(self) -> None:
        """Before anything is reported. A power cut before that costs the trial, and nothing that anybody knows of it.

        The trial runs meanwhile, and what starts and ends beside it does not wait for the disk either: a reporter does
        this on its own thread.
        """
        try:
            for name in (contract.JOB_FILE, contract.ACCESS_FILE):
                if os.path.exists(self._path(name)):
                    flush_file(self._path(name))
            flush_folder(self._folder)
        except OSError as error:
            self._log("%s cannot be flushed: %s" % (self._folder, error))

    def _watch(self, child: ChildProcess) -> Optional[TrialEnd]:
        assert self._tree is not None
        # of a trial in several places the one that reports keeps the time: else another one may fail the trial first
        limit = self._limits.get("max_trial_duration") if self._replica == 0 else None
        ran_before = 0.0 if self._earlier is None else self._earlier.seconds
        if limit is not None:
            limit = max(0.0, limit - ran_before)
        limits = limits_of(self._limits)
        # what is in a container has the engine's limits, and a group of its own
        gathering = Gathering(self._folder, self._journal.journal_id, child.beside,
                              limits if self._container is None else limits_of({}))
        if limits.memory_bytes is not None:
            self._memory = MemoryWatch(self._tree, limits.memory_bytes, self._clock)
        watch = TrialWatch(
            child, self._tree, self._inbox, gathering, self._recorder.pump,
            time_limit=limit, grace_period=self._grace(), saving_grace=self._saving_grace(),
            freeze_signal=self._freeze_signal(), clock=self._clock, memory=self._memory)
        watch.run()
        if self._kernel_kills is not None and gathering.group is not None and self._container is None:
            self._kernel_kills.group = gathering.group.path
        if self._gpus is not None:
            self._gpus.close()
        self._recorder.drain(self._is_stopped)
        if self._inbox.claimed is not None:
            self._leave_to_another(child)
            return None
        reason, message = watch.reason_and_message()
        if child.failure is not None and reason == contract.EXITED:
            reason, message = child.failure
        if child.is_lost and reason == contract.EXITED:
            reason, message = contract.LOST, "The process that stands beside a warm trial was killed while the trial " \
                                             "ran, so the trial was ended."
        if self._is_run_again and reason == contract.EXITED and child.exit_code == contract.TOLD_TO_END:
            reason, message = contract.STOPPED, "the trial ended because it was told to end (exit code 143)"
        return {**self._end(reason, message, child, ran_before + watch.duration), **self._warm.document(),
                **self._out_of_memory(reason, child), **self._gpu_peak()}

    def _gpu_peak(self) -> TrialEnd:
        return {} if self._gpus is None or self._gpus.peak is None else {"gpu_peak": self._gpus.peak}

    def _out_of_memory(self, reason: str, child: ChildProcess) -> TrialEnd:
        """Of a trial that ended by itself, where it ran out of memory."""
        if reason != contract.EXITED or self._kernel_kills is None:
            return {}
        limit = self._limits.get("memory_bytes")
        if limit is not None and self._memory is not None and self._memory.taken is not None:
            return {"out_of_memory": over_its_limit(limit, self._memory.taken)}
        found = out_of_memory(self._folder, child.exit_code, child.signal, self._kernel_kills,
                              self._job.get("gpu_indices"), [] if self._gpus is None else self._gpus.last(), limit)
        return {} if found is None else {"out_of_memory": found}

    def _finish_for_another(self) -> TrialEnd:
        """The keeper before us was killed: end what is left, tell what can be told."""
        self._log("finishing an attempt whose keeper is gone")
        last_sign = self._last_sign_of_trial()
        self._start_reporter()
        trial = read_object(self._path(contract.TRIAL_FILE)) or {}
        tree_class = ProcessTree if self._container is None else ContainerTree
        tree = tree_class(self._journal.journal_id, trial.get("pid") or 0, trial.get("start_time"),
                          own_children=False, reaps_orphans=False,
                          group=recorded_group(self._folder, self._journal.journal_id), orphans=self._orphans)
        was_alive = not tree.is_empty()
        ending = TreeEnding(tree, self._grace(), self._clock)
        while not ending.step():
            self._recorder.pump()
            self._inbox.wait(LOOK_INTERVAL)
        self._recorder.drain(self._is_stopped)
        began = modified_at(self._path(contract.TRIAL_FILE))
        ran = 0.0 if began is None else max(0.0, (self._now() if was_alive else last_sign) - began)
        if self._inbox.is_canceled() or self._inbox.stop is not None:
            return self._end(self._inbox.end_reason, self._inbox.stop or "cancelled after its keeper was killed", None,
                             ran)
        if was_alive:
            message = "The trial's keeper was killed while the trial ran, so the trial was ended."
        elif self._journal.machine_was_off:
            message = ("%s was switched off or started anew while the trial ran (a power cut, for instance), which "
                       "ended the trial." % machine.host())
        else:
            message = "The trial's keeper was killed. How the trial ended is not known."
        return self._end(contract.LOST, message, None, ran)

    def _last_sign_of_trial(self) -> float:
        """When a trial whose keeper is gone wrote last, or a server was told of it, in seconds since 1970."""
        names = (contract.TRIAL_FILE, contract.STDOUT_FILE, contract.STDERR_FILE, contract.ACCEPTED_FILE,
                 os.path.join(contract.NNI_FOLDER, contract.METRICS_FILE))
        return max([at for at in (modified_at(self._path(name)) for name in names) if at is not None] or [self._now()])

    def _end_after_failure(self, error: Exception) -> TrialEnd:
        if self._tree is not None:
            ending = TreeEnding(self._tree, self._grace(), self._clock)
            while not ending.step():
                self._wakeups.wait(LOOK_INTERVAL)
        return self._end(contract.LOST, "the trial's keeper failed (%s: %s), see %s"
                         % (type(error).__name__, error, self._path(contract.KEEPER_LOG_FILE)))

    def _remove_group(self) -> None:
        group = recorded_group(self._folder, self._journal.journal_id)
        if group is not None and not group.remove():
            self._log("%s is still in use: what is in it did not end even when killed" % group.path)

    def _leave_to_another(self, child: Optional[ChildProcess]) -> None:
        self._log("leaving the attempt to its owner: %s" % self._inbox.claimed)
        document = self._end(contract.NOT_STARTED if child is None else contract.STOPPED,
                             "another keeper runs this attempt")
        document["claimed"] = True
        write_file(self._path(contract.EXIT_FILE), json.dumps(document), durable=True)
        self._changed()

    # --- journal and delivery --------------------------------------------------------------

    def _end(self, reason: str, message: str, child: Optional[ChildProcess] = None, duration: float = 0.0) -> TrialEnd:
        return trial_end(self._now(), reason, message, child, duration)

    def _record_end(self, end: TrialEnd) -> None:
        if self._node is not None:
            end.setdefault("last_lines", last_lines(self._folder))
        give_up_at = self._clock() + self._limits.get("give_up_after", 86400.0)
        while True:
            try:
                if read_object(self._path(contract.EXIT_FILE)) is None:
                    write_file(self._path(contract.EXIT_FILE), json.dumps(end), durable=True)
                    self._changed()
                break
            except OSError as error:
                self._log("%s cannot be written: %s" % (contract.EXIT_FILE, error))
                if self._clock() >= give_up_at:
                    break
                self._inbox.wait(5.0)
        written = self._recorder.record([ended_entry(end)])
        while not written and self._clock() < give_up_at:
            self._inbox.wait(5.0)
            written = self._recorder.record([])

    def _send_last_checkpoint(self, end: TrialEnd) -> None:
        """Before the end is told, whose acknowledgement ends the token."""
        if self._checkpoints is None or not self._journal.started:
            return

        def patience() -> float:
            if self._inbox.is_stop_ordered:
                return 0.0  # nobody wants it any more
            if end.get("reason") == contract.FROZEN:
                return SEND_AFTER_EXIT
            if self._inbox.stop is not None or end.get("reason") != contract.EXITED:
                return SEND_BEFORE_END
            return SEND_AFTER_EXIT

        # by itself, or told to; one that failed or was killed may have been in the middle of writing
        has_ended_well = end.get("reason") in (contract.EXITED, contract.FROZEN) and end.get("exit_code") == 0
        try:
            self._checkpoints.finish(self._inbox.wait, patience, has_ended_well,
                                     has_ended_well and end.get("reason") == contract.EXITED)
        except Exception:  # a bug of ours: the end is told all the same
            self._log("the last checkpoint was not sent:\n" + traceback.format_exc())

    def _is_stopped(self) -> bool:
        """Whether the trial was told to end by now."""
        self._inbox.wait(0)
        return not self._inbox.may_go_on

    def _conclude_metrics(self, end: TrialEnd) -> None:
        """Of a script whose metrics are read: its final result, and what kept the keeper from finding one."""
        has_ended_well = end.get("reason") == contract.EXITED and end.get("exit_code") == 0
        problems = self._recorder.conclude_metrics(has_ended_well)
        if problems:
            end["metric_problems"] = problems

    def _hand_over_kept_files(self) -> None:
        try:
            files = find_kept_files(self._working_directory, self._path(contract.NNI_FOLDER),
                                    self._job.get("keep_files") or [], self._log)
        except (OSError, ValueError) as error:
            self._log("the files to be kept could not be found: %s" % error)
            return
        if self._reporter is not None:
            self._reporter.send_before_end(files)

    def _deliver(self, signals: int) -> None:
        if self._reporter is not None:
            deliver(self._reporter, self._wakeups, self._inbox, signals, log=self._log, clock=self._clock)
            self._changed()

    def _exit_status(self, end: TrialEnd) -> int:
        """Where the platform runs a job again that was told to end it goes by the status: TOLD_TO_END means that."""
        status = exit_status(end)
        if not self._is_run_again:
            return status
        if end.get("reason") == contract.STOPPED and not self._inbox.is_stop_ordered:
            return contract.TOLD_TO_END
        return 1 if status == contract.TOLD_TO_END else status

    # --- small things ----------------------------------------------------------------------

    def _grace(self) -> float:
        return self._limits.get("grace_period", DEFAULT_GRACE)

    def _saving_grace(self) -> float:
        document = self._job.get("checkpoints")
        return self._grace() if document is None else document.get("grace", self._grace())

    def _freeze_signal(self) -> int:
        name = (self._job.get("checkpoints") or {}).get("signal")
        return getattr(signal, "SIG" + name) if name in contract.FREEZE_SIGNALS else signal.SIGTERM

    def _write_parameters(self, index: int, text: str) -> None:
        path = self._path(contract.NNI_FOLDER, contract.parameter_file_name(index))
        write_file(path, text if self._checkpoints is None else self._checkpoints.told(text))
        if index > self._document["parameter_index"]:
            self._document["parameter_index"] = index
            if self._reporter is not None:
                self._reporter.report_soon()  # so that the order is not repeated

    def _read_resources(self) -> Optional[Dict[str, Any]]:
        return None if self._usage is None else self._usage.read()

    def _now(self) -> float:
        return self._time_offset + self._clock()

    def _path(self, *names: str) -> str:
        return os.path.join(self._folder, *names)

    def _log(self, text: str) -> None:
        line = "%s %s\n" % (time.strftime("%Y-%m-%d %H:%M:%S"), text)
        if self._echo:
            sys.stderr.write("keeper: " + line)
        try:
            with open(self._path(contract.KEEPER_LOG_FILE), "a", encoding="utf-8", errors="backslashreplace",
                      opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK, 0o666)) as stream:
                stream.write(line)
        except OSError:
            pass  # the disk is full, or the trial has put a pipe there; what matters is journaled and tried again
