"""All ranks of a trial with several nodes, where a scheduler's own launcher (Slurm's srun) starts them on the nodes.

``launch`` runs once, where the job's batch process does. The launcher starts ``run_rank`` on every node, which is the
keeper of one rank. All of them see the attempt's folder: what one must know of the others is in files there.

    <attempt>/             the folder of rank 0
    <attempt>/node<n>/     the folder of rank n
    <attempt>/ranks.json   what is known of each rank, a list in their order
    <attempt>/failed_rank.json   the rank that failed first: rank, machine, and its EXIT_FILE
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from typing import Any, Callable, Dict, List, Mapping, Optional, Set, Tuple

from trialkeeper import contract
from trialkeeper.attempt_folder import make_private_folder, read_object, read_text, write_file
from trialkeeper.end_record import exit_status
from trialkeeper.ranks import free_port, last_lines, meeting_variables
from trialkeeper.wakeups import FOR_TRIALS
from trialkeeper.whole_number import whole_number

RANKS_FILE, FAILED_RANK_FILE = "ranks.json", "failed_rank.json"
#: In the folder of a rank: the scheduler's name of its node.
MACHINE_FILE = "machine"
#: Seconds between two looks at the folders.
LOOK_EVERY = 0.5
#: Seconds that the other ranks have to end by themselves when rank 0 has succeeded.
OTHERS_HAVE = 10.0
#: Keepers that are started for one rank; more would mean that they fail.
MOST_KEEPERS = 3
#: Variables by which launchers tell a process its rank, and the machine it is on.
_RANK, _MACHINE, _LAUNCHED_FROM = "SLURM_PROCID", "SLURMD_NODENAME", "SLURM_LAUNCH_NODE_IPADDR"


def rank_folder(attempt: str, rank: int) -> str:
    return attempt if rank == 0 else os.path.join(attempt, "node%d" % rank)


def launch(command: List[str], environment: Mapping[str, str]) -> int:
    """Run ``command`` with the program of one rank as its further arguments, until all ranks have ended.

    The exit status of rank 0, or 1 where another one failed first.
    """
    folder = environment.get(contract.ENV_FOLDER, "")
    job = read_object(os.path.join(folder, contract.JOB_FILE))
    node = (job or {}).get("node")
    if job is None or not isinstance(node, dict):
        sys.stderr.write("keeper: %s has no job with several nodes\n" % (folder or contract.ENV_FOLDER))
        return 2
    if os.path.exists(os.path.join(folder, contract.CANCELED_FILE)):
        return 1
    rank = [sys.executable, "-I", "-S", _own_program(sys.argv[0]), "rank"]
    return _Launch(folder, int(node["count"])).run(
        [*command, *rank], {**environment, "MASTER_PORT": str(free_port())})


def run_rank(environment: Mapping[str, str], run: Callable[[Mapping[str, str]], int]) -> int:
    """Keep one rank. The status is 0 once its end is written down: a launcher ends all ranks on any other.

    A keeper that is killed is followed by another one, which ends what is left and writes the end down.
    """
    rank = whole_number(environment.get(_RANK, ""))
    attempt = environment.get(contract.ENV_FOLDER, "")
    if rank is None or not attempt:
        sys.stderr.write("keeper: the launcher has not set %s, or %s is missing\n" % (_RANK, contract.ENV_FOLDER))
        return 2
    folder = rank_folder(attempt, rank)
    job = read_object(os.path.join(attempt, contract.JOB_FILE)) or {}
    make_private_folder(folder)
    write_file(os.path.join(folder, MACHINE_FILE), environment.get(_MACHINE) or socket.gethostname())
    if rank and not os.path.exists(os.path.join(folder, contract.JOB_FILE)):
        write_file(os.path.join(folder, contract.JOB_FILE), json.dumps({**job, "node": {**job["node"], "rank": rank}}))
    # the keeper gives its own variables to the trial
    os.environ.update(meeting_variables(environment.get(_LAUNCHED_FROM) or socket.gethostname(),
                                        environment["MASTER_PORT"]))
    for number in FOR_TRIALS:
        signal.signal(number, _do_nothing)  # the launcher sends them to all processes of a rank, or has orders for it
    of_keeper = {**environment, contract.ENV_FOLDER: folder, contract.ENV_REPLICA: str(rank)}
    for _ in range(MOST_KEEPERS):
        was_killed = _in_child(lambda: run(of_keeper))
        if read_object(os.path.join(folder, contract.EXIT_FILE)) is not None:
            return 0
        if not was_killed:
            break
    return 1


def _in_child(work: Callable[[], int]) -> bool:
    """Whether something killed the child that did the work. What tells this process to end tells the child, too."""
    told: List[int] = []
    held = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, held)  # until both know what to do with them
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            for number in held:
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, held)
            status = work()
        finally:
            os._exit(status)

    def hand_on(number: int, _: Any) -> None:
        told.append(number)
        with contextlib.suppress(OSError):
            os.kill(pid, number)

    for number in held:
        signal.signal(number, hand_on)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, held)
    return os.WIFSIGNALED(os.waitpid(pid, 0)[1]) and not told


def _do_nothing(number: int, frame: Any) -> None:
    """A handler, unlike SIG_IGN, is not the trial's, too."""


def _own_program(path: str) -> str:
    """The file that a Python is given to run this program; ``path`` may lead into it."""
    while not os.path.isfile(path) and path != os.path.dirname(path):
        path = os.path.dirname(path)
    return path


class _Launch:
    def __init__(self, folder: str, count: int) -> None:
        self._folder, self._count = folder, count
        self._told: List[Dict[str, Any]] = []
        self._failed: Optional[int] = None
        self._rank_0_ended_at: Optional[float] = None
        self._is_told_to_end = False
        self._signal: Optional[int] = None
        #: Ranks that were told to end because a signal said so.
        self._handed_on: Set[int] = set()
        self._signals_for_trial: List[int] = []
        self._stopped = False

    def run(self, command: List[str], environment: Mapping[str, str]) -> int:
        """Until the launcher ends. It is not handed TERM: srun kills all ranks at once then (its "forcing job
        termination"), and they would have no time to save and to tell anything. Files tell them.
        """
        process = subprocess.Popen(command, env=dict(environment))

        def note(number: int, _: Any) -> None:
            self._is_told_to_end, self._signal = True, number

        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, note)
        for number in FOR_TRIALS:
            signal.signal(number, lambda number, _: self._signals_for_trial.append(number))
        while process.poll() is None:
            self._look()
            if self._is_told_to_end and not self._have_begun():  # it may wait for nodes, and there is nothing to save
                process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(LOOK_EVERY)
        self._look()
        self._blame_who_left_no_word(process.returncode)
        end = self._end_of(0)
        if self._failed is not None:
            return 1
        return exit_status(end) if end is not None else process.returncode or 1

    def _look(self) -> None:
        signals: List[contract.Order] = []
        while self._signals_for_trial:
            signals.append({"order": contract.ORDER_SIGNAL, "number": self._signals_for_trial.pop(0)})
        for rank in self._have_begun() if signals else []:
            self._order(rank, *signals)
        rows = [self._row(rank) for rank in range(self._count)]
        if rows != self._told:
            self._told = rows
            write_file(self._path(RANKS_FILE), json.dumps(rows))
        if os.path.exists(self._path(contract.CANCELED_FILE)):
            self._is_told_to_end = True
            for rank in range(1, self._count):
                if os.path.isdir(rank_folder(self._folder, rank)):
                    write_file(os.path.join(rank_folder(self._folder, rank), contract.CANCELED_FILE), "")
            return
        if self._is_told_to_end:
            self._hand_on()
            return
        first = self._end_of(0)
        if first is not None and _is_good(first):
            if self._rank_0_ended_at is None:
                self._rank_0_ended_at = time.monotonic()
            if time.monotonic() - self._rank_0_ended_at >= OTHERS_HAVE:
                self._stop_others(0, "Rank 0 has succeeded.")
            return
        failed = [rank for rank in range(self._count) if _has_failed(self._end_of(rank))]
        if failed and self._failed is None:
            self._blame(min(failed, key=self._order_of_blame))
        if self._failed is not None:
            self._stop_others(self._failed, "Rank %d failed." % self._failed)

    def _hand_on(self) -> None:
        """Tell each rank what a signal has told this process: a scheduler may tell it alone."""
        for rank in self._have_begun():
            if rank not in self._handed_on:
                self._handed_on.add(rank)
                why = "its keeper was told to end (%s)" % signal.Signals(self._signal or signal.SIGTERM).name
                self._order(rank, {"order": contract.ORDER_END, "reason": why})

    def _have_begun(self) -> List[int]:
        return [rank for rank in range(self._count) if self._machine(rank)]

    def _order(self, rank: int, *orders: contract.Order) -> None:
        write_file(os.path.join(rank_folder(self._folder, rank), contract.ORDERS_FILE), json.dumps(orders))

    def _blame(self, rank: int, end: Optional[Dict[str, Any]] = None) -> None:
        self._failed = rank
        write_file(self._path(FAILED_RANK_FILE), json.dumps(
            {"rank": rank, "machine": self._machine(rank), "exit": end or self._end_of(rank)}), durable=True)

    def _order_of_blame(self, rank: int) -> Tuple[bool, float]:
        """One that something told to end comes after those that ended by themselves."""
        end = self._end_of(rank) or {}
        return end.get("reason") == contract.STOPPED, end.get("at") or 0.0

    def _blame_who_left_no_word(self, status: int) -> None:
        """The launcher ended, and a keeper did not get to write down how its rank ended: somebody killed it."""
        silent = [rank for rank in range(self._count) if self._end_of(rank) is None and self._machine(rank)]
        if self._failed is not None or self._is_told_to_end or not silent or self._rank_0_ended_at is not None:
            return
        self._blame(silent[0], {
            "reason": contract.LOST, "exit_code": None, "signal": None, "at": time.time(),
            "message": "Its keeper was killed, or its node failed (the launcher ended with status %d)." % status,
            "last_lines": last_lines(rank_folder(self._folder, silent[0]))})

    def _stop_others(self, but: int, why: str) -> None:
        if self._stopped:
            return
        self._stopped = True
        for rank in range(self._count):
            if rank != but and self._end_of(rank) is None and os.path.isdir(rank_folder(self._folder, rank)):
                self._order(rank, {"order": contract.ORDER_STOP, "reason": why})

    def _row(self, rank: int) -> Dict[str, Any]:
        end = self._end_of(rank)
        return {"rank": rank, "machine": self._machine(rank), "exit": end,
                "is_running": os.path.exists(os.path.join(rank_folder(self._folder, rank), contract.TRIAL_FILE))}

    def _machine(self, rank: int) -> str:
        return (read_text(os.path.join(rank_folder(self._folder, rank), MACHINE_FILE)) or "").strip()

    def _end_of(self, rank: int) -> Optional[Dict[str, Any]]:
        return read_object(os.path.join(rank_folder(self._folder, rank), contract.EXIT_FILE))

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, name)


def _is_good(end: Mapping[str, Any]) -> bool:
    return end.get("reason") == contract.TIME_LIMIT or (
        end.get("reason") == contract.EXITED and end.get("exit_code") == 0)


def _has_failed(end: Optional[Mapping[str, Any]]) -> bool:
    return end is not None and not _is_good(end)
