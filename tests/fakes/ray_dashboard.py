"""A double of a Ray head: the Jobs API of its dashboard on loopback, and jobs as processes of this machine.

Built from Ray's source (2.60, ``dashboard/modules/job``): answers and their texts, the traceback of the agent within
that of the head, states, resources, how an entrypoint is run, stopped and killed, and what is kept of it. A test
compares its answers with those of a real head.

What it leaves out, because the platform does not use it: packages of code (``/api/packages``, ``gcs://``), following a
log, labels, drivers beyond one row of the list, and what Ray itself checks of a runtime environment. It gives jobs no
GPUs, and sees a killed supervisor at once.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import threading
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.fakes.http_double import Answer, HttpDouble, Request
from trialkeeper import machine
from trialkeeper.process_tree import descendants

TERMINAL = ("STOPPED", "SUCCEEDED", "FAILED")
#: By these Ray tells browsers, beside their User-Agent.
_OF_BROWSERS = ("Referer", "Origin", "Sec-Fetch-Mode", "Sec-Fetch-Dest", "Sec-Fetch-Site", "Sec-Fetch-User",
                "Access-Control-Request-Method", "Access-Control-Request-Headers")
_FIELDS = {"entrypoint": str, "submission_id": str, "job_id": str, "runtime_env": dict, "metadata": dict,
           "entrypoint_num_cpus": (int, float), "entrypoint_num_gpus": (int, float), "entrypoint_memory": int,
           "entrypoint_resources": dict, "entrypoint_label_selector": dict}


def text(status: int, body: str) -> Answer:
    return Answer(status, body, "text/plain; charset=utf-8")


def traceback(error: str, *, of_agent: int = 0) -> Answer:
    """As Ray answers a fault; ``of_agent``: the status of the agent's own answer, within the head's."""
    trace = f'Traceback (most recent call last):\n  File "ray/job_manager.py", line 1, in call\n{error}\n'
    if of_agent:
        trace = ('Traceback (most recent call last):\n  File "ray/job_head.py", line 1, in call\nRuntimeError: Request '
                 f"failed with status code {of_agent}: {trace}.\n")
    return text(500, trace)


@dataclass
class Job:
    body: dict[str, Any]
    status: str = "PENDING"
    message: str | None = None
    error_type: str | None = None
    start_time: int = field(default_factory=lambda: int(time.time() * 1000))
    end_time: int | None = None
    exit_code: int | None = None
    has_run: bool = False
    stop_asked: bool = False
    process: subprocess.Popen[bytes] | None = None
    held: dict[str, float] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return str(self.body["submission_id"])

    @property
    def asked(self) -> dict[str, float]:
        """What it takes of a node."""
        asked = {"CPU": self.body.get("entrypoint_num_cpus") or 0, "GPU": self.body.get("entrypoint_num_gpus") or 0,
                 "memory": self.body.get("entrypoint_memory") or 0, **(self.body.get("entrypoint_resources") or {})}
        return {name: amount for name, amount in asked.items() if amount}


class RayDashboard(HttpDouble):
    """A head that is a node itself. ``token``: as with RAY_AUTH_MODE=token."""

    def __init__(self, folder: Path, *, token: str = "", **more: Any) -> None:
        super().__init__(**more)
        self.folder, self.token = folder, token
        self.session = "session_2026-11-27_04-00-00_000000_1"
        self.nodes: list[dict[str, Any]] = [{
            "node_id": "0" * 56, "node_ip": "127.0.0.1", "is_head_node": True, "state": "ALIVE", "node_name": "head",
            "resources_total": {"CPU": 16.0, "special": 2.0, "memory": 8.0 * 1024 ** 3, "node:127.0.0.1": 1.0}}]
        self.api_version = "4"
        self.ray_version = "2.60.0"
        self.names_session = True  #: as newer versions do
        self.notes_ends = True  #: it can note how a command ended
        self.holds = False  #: no job is given room
        self.jobs: dict[str, Job] = {}
        self._lock = threading.RLock()
        self._pause = threading.Event()  # never set
        self._temporary = folder / "tmp"
        self._temporary.mkdir(parents=True)

    def end(self) -> None:
        self.close()
        for job in list(self.jobs.values()):
            self.kill_supervisor(job)

    # --- what tests do to it ---------------------------------------------------------------

    def release(self) -> None:
        """Give room to the jobs that wait."""
        self.holds = False
        self._schedule()

    def kill_supervisor(self, job: Job) -> None:
        """The process under which the job runs is killed; what watches it kills the job's group of processes."""
        with self._lock:
            if job.status in TERMINAL or job.process is None:
                return
            message = "Job supervisor actor died: The actor died unexpectedly before finishing this task."
            self._finish(job, "FAILED", message, "JOB_SUPERVISOR_ACTOR_DIED")
            with open(self._log(job), "a") as log:
                log.write(message)
            os.killpg(job.process.pid, signal.SIGKILL)
        self._schedule()

    def time_out(self, job: Job) -> None:
        """A job has waited for as long as Ray lets one."""
        with self._lock:
            self._finish(job, "FAILED", "Job supervisor actor failed to start within 900.0 seconds. This timeout can "
                                        "be configured by setting the environment variable "
                                        "RAY_JOB_START_TIMEOUT_SECONDS.", "JOB_SUPERVISOR_ACTOR_START_TIMEOUT")

    def start_anew(self) -> None:
        """The head is killed with all that it ran, and another one is started, which knows nothing of that."""
        self.close()
        for job in self.jobs.values():
            self.kill_supervisor(job)
        self.jobs.clear()
        self.session = self.session[:-1] + str(int(self.session[-1]) + 1)
        self.nodes[0]["node_id"] = self.session[-1] * 56
        self.start()

    # --- REST ------------------------------------------------------------------------------

    def answer(self, request: Request) -> Answer:
        if self.token:
            given = request.headers.get("Authorization") or request.headers.get("X-Ray-Authorization")
            if not given:
                return text(401, "Unauthorized: Missing authentication token")
            if given != f"Bearer {self.token}":
                return text(403, "Forbidden: Invalid authentication token")
        if _is_browser(request) and request.method not in ("GET", "HEAD", "OPTIONS"):
            return text(405, f"'{request.method}' method not allowed for browser traffic.")
        for pattern, methods in (
                (r"/api/version", {"GET": self._version}), (r"/api/v0/nodes", {"GET": self._nodes}),
                (r"/api/jobs/", {"GET": self._list, "POST": self._submit}),
                (r"/api/jobs/([^/]+)", {"GET": self._one, "DELETE": self._delete}),
                (r"/api/jobs/([^/]+)/stop", {"POST": self._stop}), (r"/api/jobs/([^/]+)/logs", {"GET": self._logs})):
            found = re.fullmatch(pattern, request.path)
            if found is None:
                continue
            if request.method not in methods:
                return text(405, "405: Method Not Allowed")
            with self._lock:
                if not found.groups():
                    return methods[request.method](request)
                job = self.jobs.get(found[1])
                if job is None:
                    return text(404, f"Job {found[1]} does not exist")
                answer = methods[request.method](job)
                return _without_values(answer) if _is_browser(request) else answer
        return text(404, "404: Not Found")

    def _version(self, request: Request) -> Answer:
        return Answer(200, {"version": self.api_version, "ray_version": self.ray_version, "ray_commit": "0" * 40,
                            **({"session_name": self.session} if self.names_session else {})})

    def _nodes(self, request: Request) -> Answer:
        rows = [{**row, "resources_total": row["resources_total"] if request.query.get("detail") == "true" else None}
                for row in self.nodes]
        return Answer(200, {"result": True, "msg": "", "data": {"result": {
            "total": len(rows), "num_after_truncation": len(rows), "num_filtered": len(rows), "result": rows}}})

    def _submit(self, request: Request) -> Answer:
        body = {name: value for name, value in request.json().items() if value is not None}
        for name, value in body.items():
            if name not in _FIELDS:
                return text(400, "Traceback (most recent call last):\nTypeError: JobSubmitRequest.__init__() got an "
                                 f"unexpected keyword argument '{name}'\n")
            if not isinstance(value, _FIELDS[name]):
                return text(400, f"Traceback (most recent call last):\nTypeError: {name} has a wrong type, got "
                                 f"{type(value)}\n")
        if any(not isinstance(value, str) for value in body.get("metadata", {}).values()):
            return text(400, "Traceback (most recent call last):\nTypeError: metadata values must be strings, got "
                             "<class 'int'>\n")
        if "entrypoint" not in body:
            return text(400, "Traceback (most recent call last):\nTypeError: JobSubmitRequest.__init__() missing 1 "
                             "required positional argument: 'entrypoint'\n")
        body["submission_id"] = (body.get("submission_id") or body.get("job_id")
                                 or f"raysubmit_{uuid.uuid4().hex[:16]}")
        if body["submission_id"] in self.jobs:
            return traceback(f"ValueError: Job with submission_id {body['submission_id']} already exists. Please use a "
                             "different submission_id.", of_agent=400)
        job = self.jobs[body["submission_id"]] = Job(body)
        with open(self._log(job), "a") as log:  # it is not removed with the job of this id
            log.write(f"{time.strftime('%Y-%m-%d %H:%M:%S,000')}\tINFO job_manager.py:577 -- Runtime env is setting "
                      "up.\n")
        threading.Thread(target=self._schedule, daemon=True).start()  # it answers at once
        return Answer(200, {"job_id": job.id, "submission_id": job.id})

    def _list(self, request: Request) -> Answer:
        driver = {"type": "DRIVER", "job_id": "01000000", "submission_id": None, "status": "RUNNING", "entrypoint": "x"}
        return Answer(200, [*map(self._row, self.jobs.values()), driver])

    def _one(self, job: Job) -> Answer:
        return Answer(200, self._row(job))

    def _row(self, job: Job) -> dict[str, Any]:
        waits = "Job has not started yet."
        if job.asked:
            waits += " It may be waiting for resources (CPUs, GPUs, memory, custom resources) to become available."
        if job.body.get("runtime_env"):
            waits += " It may be waiting for the runtime environment to be set up."
        plain = {"PENDING": waits, "RUNNING": "Job is currently running.", "STOPPED": "Job was intentionally stopped.",
                 "SUCCEEDED": "Job finished successfully.", "FAILED": "Job failed."}
        return {"type": "SUBMISSION", "job_id": None, "submission_id": job.id, "driver_info": None,
                "status": job.status, "entrypoint": job.body["entrypoint"],
                "message": job.message or plain[job.status], "error_type": job.error_type,
                "start_time": job.start_time, "end_time": job.end_time, "metadata": job.body.get("metadata"),
                "runtime_env": job.body.get("runtime_env"), "driver_exit_code": job.exit_code,
                "driver_agent_http_address": "http://127.0.0.1:52365" if job.has_run else None,
                "driver_node_id": "0" * 56 if job.has_run else None}

    def _delete(self, job: Job) -> Answer:
        if job.status not in TERMINAL:
            return traceback(f"RuntimeError: Attempted to delete job '{job.id}', but it is in a non-terminal state "
                             f"{job.status}.", of_agent=500)
        del self.jobs[job.id]
        return Answer(200, {"deleted": True})

    def _stop(self, job: Job) -> Answer:
        if job.status in TERMINAL:
            return Answer(200, {"stopped": False})
        if not job.stop_asked:
            job.stop_asked = True
            if job.process is not None:
                threading.Thread(target=self._end, args=(job, job.process), daemon=True).start()
        return Answer(200, {"stopped": True})

    def _logs(self, job: Job) -> Answer:
        if not job.has_run:  # nobody knows yet on which node it is
            return Answer(200, {"logs": ""})
        try:
            return Answer(200, {"logs": self._log(job).read_text("utf-8")})
        except FileNotFoundError:
            return Answer(200, {"logs": ""})
        except UnicodeDecodeError as error:
            return traceback(f"UnicodeDecodeError: {error}", of_agent=500)

    # --- jobs ------------------------------------------------------------------------------

    def _log(self, job: Job) -> Path:
        return self.folder / f"job-driver-{job.id}.log"

    def _schedule(self) -> None:
        """Start each job that has room on a node."""
        with self._lock:
            for job in list(self.jobs.values()):
                if job.status == "PENDING" and not self.holds and self._has_room(job):
                    self._run(job)

    def _has_room(self, job: Job) -> bool:
        held: dict[str, float] = {}
        for other in self.jobs.values():
            for name, amount in other.held.items():
                held[name] = held.get(name, 0) + amount
        return any(all(row["resources_total"].get(name, 0) - held.get(name, 0) >= amount
                       for name, amount in job.asked.items()) for row in self.nodes)

    def _run(self, job: Job) -> None:
        job.status, job.has_run, job.held = "RUNNING", True, job.asked
        variables = (job.body.get("runtime_env") or {}).get("env_vars") or {}
        own = {"RAY_worker_niceness": "0"} if job.asked else {}
        config = {"runtime_env": {**(job.body.get("runtime_env") or {}), "env_vars": {**variables, **own}},
                  "metadata": {"job_submission_id": job.id, "job_name": job.id, **(job.body.get("metadata") or {})}}
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "LANG": "C.UTF-8",
                       "TMPDIR": str(self._temporary), "RAY_ADDRESS": "127.0.0.1:6379", "PYTHONUNBUFFERED": "1",
                       "RAY_JOB_CONFIG_JSON_ENV_VAR": json.dumps(config), **variables}
        with open(self._log(job), "a") as log:
            log.write(f"Running entrypoint for job {job.id}: {job.body['entrypoint']}\n")
            log.flush()
            job.process = subprocess.Popen(job.body["entrypoint"], shell=True, start_new_session=True, stdout=log,
                                           stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=environment,
                                           cwd=self.folder)
        threading.Thread(target=self._watch, args=(job, job.process), daemon=True).start()
        if job.stop_asked:
            threading.Thread(target=self._end, args=(job, job.process), daemon=True).start()

    def _watch(self, job: Job, process: subprocess.Popen[bytes]) -> None:
        code = process.wait()
        with self._lock:
            if job.status in TERMINAL or job.stop_asked:
                return
            if not self.notes_ends:
                trace = ('Traceback (most recent call last):\n  File "ray/job_supervisor.py", line 1, in run\n'
                         "ray.exceptions.RpcError: Timed out while waiting for GCS.\n")
                self._finish(job, "FAILED", trace, "JOB_ENTRYPOINT_COMMAND_START_ERROR")
                return
            job.exit_code = code
            if code == 0:
                self._finish(job, "SUCCEEDED")
            else:
                tail = "".join(self._log(job).read_text(errors="replace").splitlines(keepends=True)[-10:])
                self._finish(job, "FAILED", f"Job entrypoint command failed with exit code {code}, last available logs "
                                            f"(truncated to 20,000 chars):\n{tail[-20_000:]}",
                             "JOB_ENTRYPOINT_COMMAND_ERROR")
        self._schedule()

    def _end(self, job: Job, process: subprocess.Popen[bytes]) -> None:
        """TERM to all processes of the job that there are now, and KILL to those that are left after the wait."""
        pids = [process.pid, *descendants([process.pid], machine.process_table())]
        wait = int(_variables(job).get("RAY_JOB_STOP_WAIT_TIME_S", 3))
        _signal(pids, signal.SIGTERM)
        deadline = time.monotonic() + wait
        while _living(pids) and time.monotonic() < deadline:
            self._pause.wait(0.05)
        _signal(_living(pids), signal.SIGKILL)
        with self._lock:
            if job.status not in TERMINAL:
                self._finish(job, "STOPPED")
        self._schedule()

    def _finish(self, job: Job, status: str, message: str | None = None, error_type: str | None = None) -> None:
        """The lock is held."""
        job.status, job.message, job.error_type, job.held = status, message, error_type, {}
        job.end_time = int(time.time() * 1000)


def _is_browser(request: Request) -> bool:
    return request.headers.get("User-Agent", "").startswith("Mozilla") or any(
        name in request.headers for name in _OF_BROWSERS)


def _without_values(answer: Answer) -> Answer:
    """Browsers are not shown what a runtime environment gives its variables."""
    environment = answer.body.get("runtime_env") if isinstance(answer.body, dict) else None
    if not environment or not environment.get("env_vars"):
        return answer
    shown = {**environment, "env_vars": dict.fromkeys(environment["env_vars"], "<redacted>")}
    return Answer(answer.status, {**answer.body, "runtime_env": shown}, answer.content_type)


def _variables(job: Job) -> Mapping[str, str]:
    return (job.body.get("runtime_env") or {}).get("env_vars") or {}


def _signal(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def _living(pids: list[int]) -> list[int]:
    alive = {row[0] for row in machine.process_table()}
    return [pid for pid in pids if pid in alive]
