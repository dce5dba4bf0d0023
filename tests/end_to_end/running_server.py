"""A real server for a test: ``manage.py serve`` as a process of its own, with its own data folder and port.

    def test_something(running_server):            # the fixture in conftest.py: started, closed after the test
        experiment = running_server.post("experiments/", {"config": text, "base_directory": str(folder)})
        running_server.wait_until(lambda: running_server.get(f"experiments/{experiment['id']}/")["status"] == "DONE")

Addresses are relative to ``/api/v1/``, or absolute paths of this server (``/sign-in/...``).
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import cached_property
from pathlib import Path
from typing import Any, Self, TypeVar

import requests

from tests.end_to_end import prepared_installation
from tests.forking import programs as forked_programs
from tests.forking.forker import ForkedProcess
from trainingservice.testing.processes import RunningProcess, end_processes, processes_of

ROOT = Path(__file__).resolve().parent.parent.parent
#: Seconds until the server must answer; migration of an empty database included, on a busy machine.
START_PATIENCE = 180.0
#: Seconds for Ctrl-C to end the server.
STOP_PATIENCE = 90.0
#: Seconds for what a test waits for, unless it says otherwise.
PATIENCE = 120.0
#: Seconds for one command of manage.py, and for one answer of the server.
COMMAND_PATIENCE, ANSWER_PATIENCE = 180.0, 60.0
#: A launch asks the platform first, which on a busy machine takes as long as the server lets it.
LAUNCH_PATIENCE = 120.0

#: Both shapes of the platform that does what the experiment's file says; see trainingservice.testing.scripted.
SCRIPTED_PLATFORMS = ("scripted=trainingservice.testing.scripted:ScriptedTrainingService,"
                      "scripted_at_once=trainingservice.testing.scripted:ScriptedAtOnceTrainingService")

Value = TypeVar("Value")


class RunningServer:
    """One installation and its server. ``start`` after ``stop`` or ``kill`` is the same installation coming back."""

    #: Where its programs are started, and what every command begins with.
    working_directory = ROOT
    program: tuple[str, ...] = (sys.executable, str(ROOT / "manage.py"))

    def __init__(self, data_folder: Path, env: Mapping[str, str] | None = None, *, starts_empty: bool = False) -> None:
        """``env`` is added to (and wins over) what the server gets; NNIWEB_* of this process are not handed on.

        ``starts_empty``: its first start finds no database, as a newcomer's; elsewhere one that was made before. Such
        a server is also a new process of the interpreter; others are forked (tests/forking).
        """
        hear_ctrl_c()
        self.data_folder = data_folder
        self.port = free_port()
        self._env = dict(env or {})
        self._starts_empty = starts_empty
        self._is_prepared = starts_empty or "NNIWEB_DATABASE_URL" in self._env
        self._process: subprocess.Popen[bytes] | ForkedProcess | None = None
        self._session = requests.Session()
        self._session.trust_env = False  # loopback needs no proxy
        data_folder.parent.mkdir(parents=True, exist_ok=True)
        self.log_file = data_folder.with_name(f"{data_folder.name}.log")

    # --- its life --------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """The address, without a slash at the end."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """The environment of the server and of the commands of ``manage``."""
        # compiled modules are kept, as for people: compiling all of them again is half of what a start takes
        left_out = ("DJANGO_SETTINGS_MODULE", "PYTHONDONTWRITEBYTECODE")
        own = {name: value for name, value in os.environ.items()
               if not name.startswith(("NNIWEB_", "NNI_")) and name not in left_out}
        # as in a shell in which this Python's environment is active, also where none is (benchmarks)
        own["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), own.get("PATH", os.defpath)])
        return {**own, "NNIWEB_DATA": str(self.data_folder), "NNIWEB_PORT": str(self.port), "NNIWEB_DEMO": "0",
                "NNIWEB_CODE_ROOTS": "/",
                "NNIWEB_EXTRA_PLATFORMS": SCRIPTED_PLATFORMS, "PYTHONUNBUFFERED": "1", **self._env}

    @property
    def pid(self) -> int:
        assert self._process is not None, "the server was not started"
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self, *options: str, program: Sequence[str] = ("manage.py",),
              env: Mapping[str, str] | None = None, wait: bool = True) -> Self:
        """Start the server, with these options of ``serve``, and wait until it answers.

        ``program``: what Python runs in place of manage.py; ``env``: more variables, for this start alone.
        """
        assert not self.is_alive, "it runs already"
        self._prepare()
        command = [*self.command(program), *options]
        environment = {**self.environment, **(env or {})}
        with open(self.log_file, "ab") as log:
            # a session of its own: Ctrl-C in the test's terminal is the test's business
            if self._is_forked(command, environment):
                self._process = forked_programs.start(command[1:], cwd=self.working_directory, env=environment,
                                                      stdout=log.fileno(), stderr=log.fileno())
            else:
                self._process = subprocess.Popen(command, cwd=self.working_directory, env=environment,
                                                 stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                                                 start_new_session=True)
        if wait:
            self.wait_until(self._is_up, START_PATIENCE, "the server answers")
        return self

    def _prepare(self) -> None:
        if not self._is_prepared:
            self._is_prepared = True
            if token := prepared_installation.put_into(self.data_folder):
                self.token = token

    def command(self, program: Sequence[str]) -> list[str]:
        """What is started; processes of other kinds are subclasses."""
        return [sys.executable, *program, "serve"]

    def _is_forked(self, command: Sequence[str], environment: Mapping[str, str]) -> bool:
        return (not self._starts_empty and command[0] == sys.executable
                and (command[1] == "-m" or Path(command[1]).suffix == ".py")
                and self.working_directory == ROOT and forked_programs.can_start(environment))

    def wait_for_end(self, patience: float = PATIENCE) -> int:
        """Wait until the server ends by itself (a test made it die); returns its exit status."""
        assert self._process is not None, "the server was not started"
        try:
            return self._process.wait(patience)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the server still runs after {patience:.0f} s\n{self.log_tail()}") from None
        finally:
            self._session.close()

    def _is_up(self) -> bool:
        assert self.is_alive, (f"the server ended by itself with {self._process and self._process.returncode}\n"
                               f"{self.log_tail()}")
        return self.answers()

    def answers(self) -> bool:
        """Whether the process that was started is ready."""
        try:  # written when the server listens
            return bool(json.loads((self.data_folder / "server.json").read_text())["pid"] == self.pid)
        except (OSError, ValueError):
            return False

    def stop(self) -> int:
        """Ctrl-C, and wait for the end. Returns the exit status. Trials go on."""
        return self._end(signal.SIGINT)

    def kill(self) -> None:
        """KILL, as when the power fails: the server alone, nothing else."""
        self._end(signal.SIGKILL)

    def send_signal(self, number: signal.Signals) -> None:
        """Send it a signal, and do not wait."""
        assert self._process is not None, "the server was not started"
        self._process.send_signal(number)

    def _end(self, number: signal.Signals) -> int:
        assert self._process is not None, "the server was not started"
        if self.is_alive:
            self.send_signal(number)
        try:
            return self._process.wait(STOP_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise AssertionError(f"the server did not end within {STOP_PATIENCE:.0f} s of {number.name}"
                                 f"\n{self.log_tail()}") from None
        finally:
            self._session.close()  # connections of the server that was

    def processes(self) -> list[RunningProcess]:
        """Everything that runs for this installation: the server, the machine's agent, keepers, trials."""
        found = processes_of([str(self.data_folder)])
        known = {process.pid for process in found}
        return found + [RunningProcess(pid, command) for pid, command
                        in forked_programs.running(str(self.data_folder)).items() if pid not in known]

    def close(self) -> None:
        """End the server and all it left running (keepers and trials outlive a server, on purpose)."""
        try:
            if self.is_alive:
                self.stop()
        finally:
            deadline = time.monotonic() + 10
            while (left := self.processes()) and time.monotonic() < deadline:
                end_processes(left)
                time.sleep(0.05)
        assert not left, f"these processes could not be ended: {left}"

    # --- talking to it ---------------------------------------------------------------------

    def manage(self, *arguments: str, check: bool = True, env: Mapping[str, str] | None = None,
               patience: float = COMMAND_PATIENCE) -> subprocess.CompletedProcess[str]:
        """Run ``manage.py`` with these arguments, and these variables more, in the same installation."""
        command, environment = [*self.program, *arguments], {**self.environment, **(env or {})}
        if self._is_forked(command, environment):
            done = forked_programs.run(command[1:], cwd=self.working_directory, env=environment,
                                       timeout=patience)
        else:
            done = subprocess.run(command, cwd=self.working_directory, env=environment, stdin=subprocess.DEVNULL,
                                  capture_output=True, text=True, timeout=patience, check=False)
        assert not check or done.returncode == 0, \
            f"manage.py {' '.join(arguments)} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
        return done

    @cached_property
    def token(self) -> str:
        """A REST token of the first user."""
        return self.manage("token", "admin").stdout.strip()

    def request(self, method: str, path: str, **more: Any) -> requests.Response:
        """One REST request with the token, whatever the answer."""
        address = self.url + (path if path.startswith("/") else f"/api/v1/{path}")
        headers = {"Authorization": f"Token {self.token}", **more.pop("headers", {})}
        return self._session.request(method, address, headers=headers, **{"timeout": ANSWER_PATIENCE, **more})

    def get(self, path: str, **query: Any) -> Any:
        """The JSON of a good answer; an AssertionError with the body on any other."""
        return self._good(self.request("GET", path, params=query))

    def post(self, path: str, body: Any = None) -> Any:
        return self._good(self.request("POST", path, json=body))

    def patch(self, path: str, body: Any) -> Any:
        return self._good(self.request("PATCH", path, json=body))

    def _good(self, response: requests.Response) -> Any:
        assert response.ok, (f"{response.request.method} {response.request.url} was answered with "
                             f"{response.status_code}: {response.text[:2000]}\n{self.log_tail()}")
        return response.json() if response.content else None

    def get_all(self, path: str, **query: Any) -> list[Any]:
        """The rows of a list, all pages of it."""
        rows: list[Any] = []
        page = 1
        while True:
            answer = self.get(path, page=page, page_size=1000, **query)
            rows += answer["results"]
            if answer.get("next") is None:
                return rows
            page += 1

    def launch(self, config: str | Mapping[str, Any], base_directory: Path) -> str:
        """Launch an experiment from its file's text or content; returns its id."""
        return str(self._good(self.request("POST", "experiments/", timeout=LAUNCH_PATIENCE, json={
            "config": config, "base_directory": str(base_directory)}))["id"])

    # --- waiting ---------------------------------------------------------------------------

    def wait_until(self, condition: Callable[[], Value], patience: float = PATIENCE, what: str = "") -> Value:
        """Wait until the condition is true, return its value. A disappointed one shows the end of the log."""
        begun = time.monotonic()
        while not (value := condition()):
            waited = time.monotonic() - begun
            assert waited < patience, f"not within {patience:.0f} s: {what or condition}\n{self.log_tail()}"
            # most conditions ask the server, and what takes long is not known much later for being asked for less often
            time.sleep(min(0.1 + waited / 20, 0.3))
        return value

    def wait_for_experiment(self, experiment_id: str, *statuses: str, patience: float = PATIENCE) -> Any:
        """Wait until the experiment has one of these statuses (default DONE); returns it. ERROR fails at once."""
        wanted = statuses or ("DONE",)

        def reached() -> Any:
            if self._status_in_database(experiment_id) not in (None, *wanted, "ERROR", "STOPPED", "DONE"):
                return None
            experiment = self.get(f"experiments/{experiment_id}/")
            if experiment["status"] in wanted:
                return experiment
            assert experiment["status"] not in ("ERROR", "STOPPED", "DONE"), \
                f"the experiment is {experiment['status']}: {experiment['message']}\n{self.log_tail()}"
            return None

        return self.wait_until(reached, patience, f"experiment {experiment_id} is {' or '.join(wanted)}")

    def _status_in_database(self, experiment_id: str) -> str | None:
        """An experiment's status, for a hundredth of what the server takes to answer; None where it is to be asked."""
        if not self.is_alive or "NNIWEB_DATABASE_URL" in self._env:
            return None
        file = self.data_folder / prepared_installation.DATABASE
        try:
            with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as database:
                row = database.execute("SELECT status FROM experiments_experiment WHERE public_id = ?",
                                       [experiment_id]).fetchone()
        except sqlite3.Error:
            return None
        return str(row[0]) if row else None

    def log_tail(self, lines: int = 40) -> str:
        """The last lines the server wrote."""
        try:
            return "\n".join(self.log_file.read_text(errors="replace").splitlines()[-lines:])
        except OSError:
            return ""


def sign_in_by_link(session: requests.Session, link: str) -> requests.Response:
    """Open a sign-in link and press its button, as a browser does. Returns the page that it leads to."""
    page = session.get(link, timeout=ANSWER_PATIENCE)
    token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page.text)
    assert token, f"{page.status_code}: {page.text}"
    return session.post(link, {"csrfmiddlewaretoken": token.group(1)}, headers={"Referer": link},
                        timeout=ANSWER_PATIENCE)


def hear_ctrl_c() -> None:
    """What a shell starts in the background ignores Ctrl-C; servers that are started from there would inherit that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def free_port() -> int:
    """A port of loopback that nobody used a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
