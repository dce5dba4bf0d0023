"""A place: the job of a platform that stays when its attempt has ended, and takes the experiment's next ones.

This process keeps no attempt itself. It has a child for each, one after the other, which is the attempt's keeper and
has a folder and a temporary folder of its own. Between two of them it ends what the trial before has left: each process
that lost its parent becomes a child of this one. Then it asks the server for the experiment's next attempt, and is
kept waiting for the answer until there is one. What the next attempt runs is the job of the first one, with what the
server says of the trial.

The place is given back (this process ends) when nothing came for the time that ENV_PLACE says, when two trials in a row
have failed, when the platform's time limit is near, when something of a trial is left, and when the server says so.
"""

import contextlib
import json
import os
import signal
import sys
import tempfile
import time
import traceback
from typing import Any, Callable, Dict, Mapping, NoReturn, Optional
from urllib.parse import quote

from trialkeeper import contract, machine
from trialkeeper.access import Access, access_from_environment
from trialkeeper.attempt_folder import default_folder, make_private_folder, read_object, write_file
from trialkeeper.back_off import back_off
from trialkeeper.end_record import exit_status
from trialkeeper.folder_removal import remove_tree
from trialkeeper.process_tree import become_reaper_of_orphans
from trialkeeper.server_connection import Answer, ServerAway, ServerConnection
from trialkeeper.wakeups import FOR_TRIALS

#: So many trials in a row that failed are the place's fault, perhaps.
MOST_FAILURES = 2
#: A keeper that was killed is followed by another one, which tells how the attempt ended; so often at most.
MOST_KEEPERS = 3
#: Seconds for which what a trial has left is killed, until it counts as something that cannot be ended.
CLEAN_WITHIN = 10.0
#: Seconds between two looks at what is left, or whether the keeper has ended while the server is away.
LOOK_EVERY = 0.02
#: First and longest pause after a request that was not answered, in seconds.
PAUSES = (0.1, 2.0)
#: Seconds that must be left until the platform's time limit for another trial; more where a trial here took longer.
LEAST_LEFT = 60.0
#: Seconds beside the time that the server may keep a place waiting.
ANSWER_WITHIN = 15.0

#: Variables of the first attempt that are not for the next ones.
_OF_THE_FIRST = (contract.ENV_TOKEN_FILE, contract.ENV_LASTING, "NNI_KEEPER_POD_JOB", "NNI_KEEPER_POD_END_FILE")


class _ToldToEnd(Exception):
    """SIGTERM came while the server was asked."""


class Place:
    """Call ``run`` once, on the main thread of a process without children and other threads."""

    def __init__(self, environment: Mapping[str, str], keep: Callable[[Mapping[str, str]], int],
                 clock: Callable[[], float] = time.monotonic, now: Callable[[], float] = time.time) -> None:
        """``environment``: of the keeper of the first attempt. ``keep``: keeps the attempt that an environment
        describes, on the main thread of a process of its own; returns its exit status.
        """
        self._environment, self._keep, self._clock, self._now = dict(environment), keep, clock, now
        self._host = environment.get(contract.ENV_JOB, "")
        self._host_folder = environment.get(contract.ENV_FOLDER) or default_folder(self._host)
        self._idle = _seconds(environment.get(contract.ENV_PLACE, "")) or 0.0
        self._until = _seconds(environment.get(contract.ENV_PLACE_UNTIL, ""))
        self._id = os.urandom(16).hex()
        self._child = 0
        self._asks = self._is_told_to_end = False
        self._longest = LEAST_LEFT
        self._failures = 0
        self._installation: Optional[str] = None
        self._connection: Optional[ServerConnection] = None
        self._access: Optional[Access] = None
        #: What the first attempt ran: a trial can write into its folder.
        self._job: Optional[Dict[str, Any]] = None
        #: Whether the server has said that there are more attempts for this place.
        self._is_known = False
        self._may_stay = False

    def run(self) -> int:
        """Exit status: 0 where the server knew the place, else that of the first attempt's keeper."""
        # the keepers are forked: what is loaded here they need not load
        import tarfile  # noqa: F401

        import trialkeeper.keeper  # noqa: F401
        self._may_stay = become_reaper_of_orphans() and self._reaches_a_server()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._tell_to_end)
        for number in FOR_TRIALS:
            signal.signal(number, self._hand_on)
        status = self._keep_one(self._environment, self._host_folder, is_first=True)
        if not self._may_stay or self._is_told_to_end:
            return status
        try:
            self._stay()
        except _ToldToEnd:
            self._log("the place was told to end")
        return 0 if self._is_known else status

    def _stay(self) -> None:
        after = self._host
        is_clean = self._clean_up(self._host_folder)
        while not self._is_told_to_end:
            self._asks = True
            job = self._next(after, is_clean)
            self._asks = False
            if job is None:
                return
            after = job["job_name"]
            folder = self._folder_of(after)
            environment = {name: value for name, value in self._environment.items() if name not in _OF_THE_FIRST}
            environment.update({contract.ENV_JOB: after, contract.ENV_FOLDER: folder,
                                contract.ENV_TOKEN: job.pop("token")})
            try:
                make_private_folder(folder)
                write_file(os.path.join(folder, contract.JOB_FILE), json.dumps(self._job_of(job)))
                self._forget_end_of_the_first()
            except OSError as error:  # it is placed anew: nothing of it has begun
                self._log("no folder can be made for %s: %s" % (after, error))
                is_clean = False
                continue
            self._keep_one(environment, folder)
            is_clean = self._clean_up(folder)

    # --- one attempt -----------------------------------------------------------------------

    def _keep_one(self, environment: Mapping[str, str], folder: str, is_first: bool = False) -> int:
        """Have the attempt kept, by another keeper where one was killed; the exit status of the last."""
        began = self._clock()
        temporary = _temporary_folder()
        status = 1
        for _ in range(MOST_KEEPERS):
            # the folder is said: by default it would be in the trial's own temporary folder
            self._fork({**environment, contract.ENV_FOLDER: folder, **({"TMPDIR": temporary} if temporary else {})})
            if is_first:
                self._say_that_it_stays(folder)
            _, status = os.waitpid(self._child, 0)
            self._child = 0
            if not os.WIFSIGNALED(status) or self._is_told_to_end:
                break
            self._log("the keeper of %s was killed by signal %d" % (environment[contract.ENV_JOB], os.WTERMSIG(status)))
            if not self._end_what_is_left():
                break
        if temporary:
            with contextlib.suppress(OSError):
                remove_tree(temporary)
        end = read_object(os.path.join(folder, contract.EXIT_FILE))
        if is_first:
            self._job = self._job or read_object(os.path.join(folder, contract.JOB_FILE))
            self._may_stay = self._may_stay and self._job is not None and end is not None and not end.get("claimed")
        self._longest = max(self._longest, self._clock() - began)
        if end is not None and not end.get("claimed"):
            self._failures = self._failures + 1 if _has_failed(end) else 0
        return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)

    def _fork(self, environment: Mapping[str, str]) -> None:
        # a signal must not fall between the fork and what the child does with it
        held = {signal.SIGTERM, signal.SIGINT, *FOR_TRIALS}
        signal.pthread_sigmask(signal.SIG_BLOCK, held)
        try:
            self._child = os.fork()
            if self._child == 0:
                self._become_keeper(environment, held)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, held)

    def _become_keeper(self, environment: Mapping[str, str], held: Any) -> NoReturn:
        """In the forked child. Before the keeper listens a TERM ends it, and nothing has begun."""
        status = 1
        try:
            for number in held:
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, held)
            for name in (contract.ENV_TOKEN, *_OF_THE_FIRST):
                os.environ.pop(name, None)
            os.environ.update(environment)
            tempfile.tempdir = None
            status = self._keep(environment)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)

    def _job_of(self, told: Mapping[str, Any]) -> Dict[str, Any]:
        """The first attempt's job with what the server says of this trial."""
        assert self._job is not None
        job = {**self._job, **told}
        # the server that gave it away is there; two places must never run it
        job["limits"] = {**(self._job.get("limits") or {}), **(told.get("limits") or {}), "claim_timeout": None}
        return job

    def _folder_of(self, job_name: str) -> str:
        above = self._environment.get(contract.ENV_PLACE_FOLDER) or os.path.dirname(os.path.abspath(self._host_folder))
        return os.path.join(above, job_name)

    def _forget_end_of_the_first(self) -> None:
        """From now on the end of the job is not the end of its first attempt."""
        end_file = self._environment.get("NNI_KEEPER_POD_END_FILE")
        if end_file:
            with open(end_file, "w", encoding="utf-8"):
                pass

    # --- what trials leave -----------------------------------------------------------------

    def _clean_up(self, folder: str) -> bool:
        """End and remove what the trial in this folder has left; False where something of it is left."""
        if not self._end_what_is_left():
            self._log("something that the trial has started cannot be ended")
            return False
        kept = self._environment.get(contract.ENV_PLACE_FOLDER, "")
        if not kept and self._environment.get(contract.ENV_FOLDER):
            return True  # on a storage: its files may be wanted
        try:
            if folder == self._host_folder:  # it may be a mount, and the other folders may be in it
                for name in os.listdir(folder):
                    _remove(os.path.join(folder, name), unless=kept and os.path.abspath(kept))
            else:
                remove_tree(folder)
        except FileNotFoundError:
            pass
        except OSError as error:
            self._log("the folder %s cannot be removed: %s" % (folder, error))
            return False
        return True

    def _end_what_is_left(self) -> bool:
        """KILL to all processes below this one, until there are none."""
        until = self._clock() + CLEAN_WITHIN
        while True:
            try:
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            except ChildProcessError:
                return True
            for pid in machine.descendants_of(os.getpid()):
                with contextlib.suppress(OSError):  # another user's, or gone
                    os.kill(pid, signal.SIGKILL)
            if self._clock() >= until:
                return False
            time.sleep(LOOK_EVERY)

    # --- the server ------------------------------------------------------------------------

    def _reaches_a_server(self) -> bool:
        try:
            self._access = access_from_environment(self._environment)
        except ValueError as error:
            self._log(str(error))
        if self._access is None or not self._access.has_server or not self._access.token:
            return False
        self._connection = ServerConnection(self._access, patience=contract.MOST_WAITING + ANSWER_WITHIN)
        try:
            if self._environment.get("NNI_KEEPER_POD_JOB"):
                from trialkeeper.pod import take_job
                make_private_folder(self._host_folder)
                take_job(self._environment, self._host_folder)
            self._job = read_object(os.path.join(self._host_folder, contract.JOB_FILE))
        except OSError as error:
            self._log("the folder %s cannot be used: %s" % (self._host_folder, error))
            return False
        return True

    def _say_that_it_stays(self, folder: str) -> None:
        """While the first attempt runs: then the next one can be meant for this place when this one ends."""
        failures = 0
        while self._may_stay and not self._is_known and not self._keeper_has_ended():
            try:
                answer = self._call({"running": True, "after": self._host, "wait": 0.0, "leave": None})
            except ServerAway:
                until = self._clock() + back_off(failures, PAUSES)
                while self._clock() < until and not self._keeper_has_ended():
                    time.sleep(LOOK_EVERY)
                failures += 1
                continue
            self._may_stay = self._is_known = answer.status == 200
            if not self._is_known:
                self._log("the server takes the job for no place: %d %s"
                          % (answer.status, answer.document.get("message", "")))

    def _keeper_has_ended(self) -> bool:
        return os.waitid(os.P_PID, self._child, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None

    def _next(self, after: str, is_clean: bool) -> Optional[Dict[str, Any]]:
        """The next attempt's job; None where there is none and the place is given back. Blocks."""
        leave: Optional[str] = None
        if not is_clean:
            leave = contract.LEAVES_UNCLEAN
        elif self._failures >= MOST_FAILURES:
            leave = contract.LEAVES_AFTER_FAILURES
        elif self._until is not None and self._until - self._now() < self._longest:
            leave = contract.LEAVES_AT_LIMIT
        until = self._clock() + self._idle
        failures = 0
        while True:
            left = until - self._clock()
            if self._until is not None and self._until - self._now() < self._longest:
                leave = leave or contract.LEAVES_AT_LIMIT
            if left <= 0:
                leave = leave or contract.LEAVES_IDLE
            try:
                answer = self._call({"running": False, "after": after, "leave": leave,
                                     "wait": 0.0 if leave else min(contract.MOST_WAITING, left)})
            except ServerAway as away:
                if leave is not None:
                    self._log("the place is given back (%s), and no server hears it: %s" % (leave, away))
                    return None
                time.sleep(min(max(back_off(failures, PAUSES), away.retry_after), max(0.0, left)))
                failures += 1
                continue
            failures = 0
            job = answer.document.get("job")
            self._is_known = self._is_known or answer.status == 200
            if answer.status != 200 or leave is not None and job is None:
                self._log("the place is given back: %s" % (leave or answer.document.get("message", "")))
                return None
            if isinstance(job, dict) and isinstance(job.get("job_name"), str) and isinstance(job.get("token"), str):
                return job

    def _call(self, said: Dict[str, Any]) -> Answer:
        """Raises ServerAway."""
        assert self._connection is not None

        def counts(answer: Answer) -> str:
            if answer.status not in (200, 404, 405, 409, 410):
                return "answered %d %.200s" % (answer.status, answer.document.get("message") or "")
            if answer.status == 200:
                self._installation = self._installation or answer.installation
            if answer.installation is None or self._installation not in (None, answer.installation):
                return "does not answer as our server does"
            return ""

        document = {"place": self._id, **said}
        return self._connection.call("POST", "trials/%s/next" % quote(self._host, safe=""), counts,
                                     json.dumps(document).encode())

    # --- small things ----------------------------------------------------------------------

    def _tell_to_end(self, number: int, _frame: Any) -> None:
        self._is_told_to_end = True
        if self._child:
            with contextlib.suppress(OSError):
                os.kill(self._child, number)
        elif self._asks:
            raise _ToldToEnd

    def _hand_on(self, number: int, _frame: Any) -> None:
        if self._child:
            with contextlib.suppress(OSError):
                os.kill(self._child, number)

    def _log(self, text: str) -> None:
        sys.stderr.write("place: %s %s\n" % (time.strftime("%Y-%m-%d %H:%M:%S"), text))
        sys.stderr.flush()


def _has_failed(end: Mapping[str, Any]) -> bool:
    """Whether a trial failed by itself, or was not even started: not where somebody wanted it to end."""
    reason = end.get("reason")
    return reason in (contract.NOT_STARTED, contract.LOST) or reason == contract.EXITED and exit_status(dict(end)) != 0


def _temporary_folder() -> str:
    """A folder for what the trial writes to TMPDIR; "" where none can be made."""
    try:
        return tempfile.mkdtemp(prefix="nniweb-")
    except OSError:
        return ""


def _remove(path: str, unless: str) -> None:
    if os.path.abspath(path) == unless:
        return
    if os.path.isdir(path) and not os.path.islink(path):
        remove_tree(path)
    else:
        os.remove(path)


def _seconds(text: str) -> Optional[float]:
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if 0 <= seconds < 1e11 else None
