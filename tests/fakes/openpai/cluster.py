"""A double of an OpenPAI cluster: its REST server (version 2) on loopback, and jobs as processes of this machine.

Built from the rest-server's own source (release line 1.8, the last one) and its reference: paths, the order of checks,
statuses, error bodies, states, exit codes, and how commands are run (bash with errexit, nounset and pipefail, storages
mounted). A mount is a symbolic link to the export's folder.
"""

from __future__ import annotations

import base64
import json
import re
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.fakes import js_yaml
from tests.fakes.container_process import ContainerProcess
from tests.fakes.http_double import Answer, HttpDouble, Request
from tests.fakes.openpai.jobs import Event, Job, masked, with_secrets
from tests.fakes.openpai.limits import Limiter
from tests.fakes.openpai.protocol import Fault, Refused, check_ports, entrypoints, storage_entries

#: Exit code of a job that was told to stop (StopFrameworkRequested).
STOPPED = -210
#: The server takes bodies up to this size (body-parser's default).
MOST_BODY = 100 * 1024


def error(status: int, code: str, message: str) -> Answer:
    return Answer(status, {"code": code, "message": message})


class OpenPaiCluster(HttpDouble):
    """One cluster. Jobs start at once unless ``held``; processes of jobs outlive ``close``, not ``end``."""

    def __init__(self, folder: Path, *, user: str = "ada", password: str = "secret-word") -> None:
        super().__init__()
        self.folder, self.user, self.password = folder, user, password
        self.token = self.new_token()
        #: Valid tokens and whose they are.
        self.tokens = {self.token: user, self.new_token("other"): "bob"}
        self.export = folder / "export"
        self.export.mkdir(parents=True)
        self.storages = {"shared": self.export}
        #: Storages that a job gets that asks for none by name, and those that the account may not use.
        self.default_storages: set[str] = set()
        self.forbidden_storages: set[str] = set()
        self.queues = ["default", "research"]
        #: Where it is not set, Kubernetes is away: no token is accepted, and a log-in is never answered.
        self.kubernetes = threading.Event()
        self.kubernetes.set()
        #: Whether what takes new jobs and stops (the write merger) is away; questions are answered by the database.
        self.takes_nothing = False
        # the last as the deployment has it; benches ask more often than a real cluster lets them
        self.limits = {"api": Limiter(1_000_000, 60), "list": Limiter(1_000_000, 60), "submit": Limiter(3600, 3600)}
        self.images_missing: set[str] = set()
        self.held = False
        #: The node that tasks say they run on; None: not known yet.
        self.node: str | None = "node-7"
        self.events: list[Event] = []
        self.jobs: dict[tuple[str, str], Job] = {}
        self._lock = threading.RLock()

    def new_token(self, mark: str = "") -> str:
        claims = base64.urlsafe_b64encode(json.dumps({"username": self.user, "n": mark or time.time()}).encode())
        return f"eyJhbGciOiJIUzI1NiJ9.{claims.decode().rstrip('=')}.signature"

    @property
    def mount(self) -> Path:
        """Where jobs find the storage when the tests' settings say so."""
        return self.folder / "in-containers" / "mnt"

    def end(self) -> None:
        """Close, and end all jobs."""
        self.close()
        for job in list(self.jobs.values()):
            for container in job.containers:
                container.kill()

    # --- what tests do to it ---------------------------------------------------------------

    def job(self, name: str) -> Job:
        return self.jobs[self.user, name]

    def release(self) -> None:
        """Start the jobs that were held."""
        self.held = False
        for job in list(self.jobs.values()):
            with self._lock:
                if job.sub_state == "AttemptCreationPending":
                    self._launch(job)

    def evict(self, name: str) -> None:
        """The job's node is lost; the cluster starts the job again under the same name."""
        with self._lock:
            job = self.job(name)
            job.evicting = True
            job.retries += 1
            for container in job.containers:
                container.kill()

    # --- REST ------------------------------------------------------------------------------

    def answer(self, request: Request) -> Answer:
        if len(request.body) > MOST_BODY:
            return Answer(413, {"message": "request entity too large"})
        kind = request.headers.get("Content-Type", "").partition(";")[0]
        if kind == "application/json" and request.body and not _is_json(request.body):
            return Answer(400, {"message": "Unexpected token in JSON at position 0"})
        with self._lock:
            headers, refusal = self.limits["api"].counted("127.0.0.1")
        answer = refusal or self._routed(request)
        return replace(answer, headers={**headers, **answer.headers})

    def _routed(self, request: Request) -> Answer:
        path = request.path.removeprefix("/rest-server/api/")
        if path == "v2/info":
            return Answer(200, {"name": "PAI RESTful API", "version": "v1.8.1", "launcherType": "k8s",
                                "authnMethod": "basic"})
        if path == "v2/authn/basic/login" and request.method == "POST":
            return self._log_in(request)
        for pattern, method, limiter, handler in (
                (r"v2/jobs", "POST", "submit", self._submit), (r"v2/jobs", "GET", "list", self._list),
                (r"v2/jobs/([^~/]+)~([^/]+)", "GET", "", self._detail),
                (r"v2/jobs/([^~/]+)~([^/]+)/config", "GET", "", self._config),
                (r"v2/jobs/([^~/]+)~([^/]+)/executionType", "PUT", "", self._execution),
                (r"v2/jobs/([^~/]+)~([^/]+)/events", "GET", "", self._events),
                (r"v2/tokens/check", "GET", "", self._check), (r"v2/users/([^/]+)", "GET", "", self._user),
                (r"v2/storages", "GET", "", self._storages), (r"v2/storages/([^/]+)", "GET", "", self._storage)):
            found = re.fullmatch(pattern, path)
            if found and method == request.method:
                return self._permitted(request, limiter, handler, found.groups())
        return error(404, "NoApiError", f"API {request.path} is not found.")

    def _permitted(self, request: Request, limiter: str, handler: Any, parts: tuple[str, ...]) -> Answer:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if not scheme:
            return error(401, "UnauthorizedUserError", "Guest is not allowed to do this operation.")
        user = self.tokens.get(token) if scheme.lower() == "bearer" and self.kubernetes.is_set() else None
        if user is None:
            return error(401, "UnauthorizedUserError", "Your token is invalid.")
        headers: dict[str, str] = {}
        with self._lock:
            if limiter:
                headers, refusal = self.limits[limiter].counted(user)
                if refusal is not None:
                    return refusal
            answer = handler(request, user, *parts)
        return replace(answer, headers={**headers, **answer.headers})

    def _log_in(self, request: Request) -> Answer:
        document = request.json()
        if len(document.get("password", "")) < 6:
            return error(400, "InvalidParametersError", 'child "password" fails')
        if not self.kubernetes.wait(60.0):  # what looks the account up throws, and nothing catches that
            return Answer(504)
        if document.get("username") != self.user:
            return error(400, "NoUserError", f"User {document.get('username')} is not found.")
        if document.get("password") != self.password:
            return error(400, "IncorrectPasswordError", "Password is incorrect.")
        token = self.new_token()
        self.tokens[token] = self.user
        return Answer(200, {"user": self.user, "token": token, "admin": False})

    def _submit(self, request: Request, user: str) -> Answer:
        text = request.body.decode() if request.headers.get("Content-Type", "").startswith("text/") else "[{}]"
        try:
            document = js_yaml.read(text)
            scripts = entrypoints(document)
        except (js_yaml.NotReadable, Fault) as problem:
            return Answer(500, {"message": str(problem)})
        except Refused as refused:
            said = refused.said if isinstance(refused.said, str) else json.dumps(refused.said)
            return error(400, "InvalidProtocolError", said)
        key = (user, document["name"])
        if key in self.jobs:
            return error(409, "ConflictJobError", f"Job {user}~{document['name']} already exists.")
        queue = document.get("defaults", {}).get("virtualCluster")
        if queue is not None and queue not in self.queues:
            return error(403, "ForbiddenUserError", f"User {user} is not allowed to do operation in {queue}")
        try:
            mounted = storage_entries(document["extras"]) if "extras" in document else None
            for entry in mounted or []:
                if entry["name"] not in self._usable():
                    return error(404, "NoStorageError", f"Storage {entry['name']} is not found.")
            check_ports(document["taskRoles"])
        except Fault as problem:
            return Answer(500, {"message": str(problem)})
        if self.takes_nothing:
            return error(500, "ECONNREFUSED", "connect ECONNREFUSED 10.0.0.1:9748")
        job = self.jobs[key] = Job(user, document["name"], document, text, scripts)
        job.mounted = [{"name": name} for name in self.default_storages] if mounted == [] else mounted or []
        if not self.held:
            self._launch(job)
        return Answer(202, {"status": 202,
                            "message": f"Update job {document['name']} for user {user} successfully."})

    def _list(self, request: Request, user: str) -> Answer:
        limit, offset = int(request.query.get("limit", 5000)), int(request.query.get("offset", 0))
        if limit > 50000:
            return error(400, "InvalidParametersError", "Limit exceeds max number 50000.")
        users, states = (request.query[key].split(",") if key in request.query else None
                         for key in ("username", "state"))
        found = [job for job in self.jobs.values()
                 if (users is None or job.user in users) and (states is None or job.state in states)]
        field_name, _, direction = request.query.get("order", "").partition(",")
        oldest_first = (field_name, direction) == ("submissionTime", "ASC")
        found.sort(key=lambda job: job.submitted, reverse=not oldest_first)
        rows = [{
            "debugId": f"{job.user}~{job.name}", "name": job.name, "username": job.user, "state": job.state,
            "subState": job.sub_state, "executionType": job.execution, "tags": [], "retries": job.retries,
            "retryDetails": {"user": 0, "platform": job.retries, "resource": 0}, "retryDelayTime": None,
            "submissionTime": _ms(job.submitted), "createdTime": _ms(job.submitted), "launchedTime": _ms(job.launched),
            "completedTime": _ms(job.completed), "appExitCode": job.exit_code, "virtualCluster": job.queue,
            "totalGpuNumber": 0, "totalTaskNumber": 1, "totalTaskRoleNumber": 1, "jobPriority": None}
            for job in found[offset:offset + limit]]
        counted = request.query.get("withTotalCount") == "true"
        return Answer(200, {"totalCount": len(found), "data": rows} if counted else rows)

    def _detail(self, request: Request, user: str, owner: str, name: str) -> Answer:
        job = self.jobs.get((owner, name))
        if job is None:
            return error(404, "NoJobError", f"Job {owner}~{name} is not found.")
        runtime = None if job.user_code is None else {"originUserExitCode": job.user_code, "name": "UserError"}
        status = {"username": owner, "state": job.state, "subState": job.sub_state, "executionType": job.execution,
                  "retries": job.retries, "submissionTime": _ms(job.submitted), "launchedTime": _ms(job.launched),
                  "appLaunchedTime": _ms(job.launched), "completedTime": _ms(job.completed), "appTrackingUrl": "",
                  "appExitCode": job.exit_code, "virtualCluster": job.queue,
                  "appExitDiagnostics": "ErrImagePull" if job.exit_code == 254 else None, "appExitMessages": None}
        if job.exit_code is not None:
            status["appExitMessages"] = {"container": None, "runtime": runtime, "launcher": None}
        task = {"taskIndex": 0, "taskState": job.state, "containerNodeName": self.node,
                "containerExitCode": job.exit_code}
        names = [re.sub("[^a-z0-9]", "", role.lower()) for role in job.document.get("taskRoles", [])]
        roles = {} if job.launched is None else {name: {"taskRoleStatus": {"name": name}, "taskStatuses": [task]}
                                                 for name in names}
        return Answer(200, {"name": name, "tags": [], "jobStatus": status, "taskRoles": roles})

    def _config(self, request: Request, user: str, owner: str, name: str) -> Answer:
        job = self.jobs.get((owner, name))
        if job is None:
            return error(404, "NoJobError", f"Job {owner}~{name} is not found.")
        if not job.text:
            return error(404, "NoJobConfigError", f"Config of job {owner}~{name} is not found.")
        try:
            kept = js_yaml.read(masked(job.text))
        except js_yaml.NotReadable as problem:
            return error(500, "UnknownError", str(problem))
        return Answer(200, json.dumps(js_yaml.as_json(kept)), "text/yaml; charset=utf-8")

    def _execution(self, request: Request, user: str, owner: str, name: str) -> Answer:
        if request.json().get("value") not in ("START", "STOP"):
            return error(400, "InvalidParametersError", "child \"value\" fails")
        job = self.jobs.get((owner, name))
        if job is None:
            return error(404, "NoJobError", f"Job {owner}~{name} is not found.")
        if owner != user:
            return error(403, "ForbiddenUserError",
                         f"User {user} is not allowed to execute job {owner}~{name}.")
        if self.takes_nothing:
            return error(500, "ECONNREFUSED", "connect ECONNREFUSED 10.0.0.1:9748")
        job.execution = "STOP"
        if job.sub_state in ("AttemptCreationPending", "AttemptPreparing"):
            self._complete(job, STOPPED)
        elif job.sub_state == "AttemptRunning":
            job.sub_state = "AttemptDeleting"
            for container in job.containers:
                container.stop()
        return Answer(202, {"status": 202, "message": f"Execute job {owner}~{name} successfully."})

    def _events(self, request: Request, user: str, owner: str, name: str) -> Answer:
        """The newest first. Those without a time come before all others, as the database sorts what is missing."""
        if (owner, name) not in self.jobs:
            return error(404, "NoJobError", f"Job {owner}~{name} is not found.")
        wanted = [event for event in self.events if request.query.get("type") in (None, event.type)]
        wanted.sort(key=lambda event: float("inf") if event.last is None else event.last, reverse=True)
        return Answer(200, {"totalCount": len(wanted), "data": [
            {"type": event.type, "reason": "FailedScheduling", "message": event.message, "count": 1,
             "firstTimestamp": _iso(event.last), "lastTimestamp": _iso(event.last)} for event in wanted]})

    def _check(self, request: Request, user: str) -> Answer:
        return Answer(200, {"username": user, "application": False, "jobSpecific": False, "iat": 1_700_000_000,
                            "encodedFrameworkName": "", "admin": False})

    def _user(self, request: Request, user: str, name: str) -> Answer:
        if name not in self.tokens.values():
            return error(400, "NoUserError", f"User {name} is not found.")
        return Answer(200, {"username": name, "grouplist": ["default"], "virtualCluster": self.queues,
                            "extension": {"jobSSH": {"key": "private"}}, "storageConfig": self._usable(),
                            "email": "", "admin": False})

    def _usable(self) -> list[str]:
        return [name for name in self.storages if name not in self.forbidden_storages]

    def _storages(self, request: Request, user: str) -> Answer:
        only_default = request.query.get("default") == "true"
        return Answer(200, {"storages": [
            {"name": name, "share": True, "volumeName": f"{name}-pv", "default": name in self.default_storages}
            for name in self._usable() if name in self.default_storages or not only_default]})

    def _storage(self, request: Request, user: str, name: str) -> Answer:
        if name not in self.storages:
            return error(404, "NoStorageError", f"Storage {name} is not found.")
        if name in self.forbidden_storages:
            return error(403, "ForbiddenUserError", f"User {user} is not allowed to access {name}.")
        return Answer(200, {"name": name, "share": True, "volumeName": f"{name}-pv", "type": "nfs", "readOnly": False,
                            "data": {"server": "10.0.0.1", "path": "/export"}, "mountOptions": []})

    # --- jobs ------------------------------------------------------------------------------

    def _launch(self, job: Job) -> None:
        images = {entry["name"]: entry["uri"] for entry in job.document.get("prerequisites") or []}
        if any(images[role["dockerImage"]] in self.images_missing for role in job.document["taskRoles"].values()):
            self._complete(job, 254)
            return
        for entry in job.mounted:
            target = Path(entry.get("mountPath") or self.folder / "mnt" / entry["name"])
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.is_symlink():
                target.symlink_to(self.storages[entry["name"]])
        job.sub_state, job.launched = "AttemptRunning", job.launched or time.time()
        job.containers = []
        for name, role in job.document["taskRoles"].items():
            for index in range(role.get("instances", 1)):
                script = with_secrets(job.scripts[name], job.document.get("secrets") or {})
                folder = self.folder / "containers" / job.name / f"{name}-{index}-{job.retries}"
                folder.mkdir(parents=True, mode=0o700)
                (folder / "user.sh").write_text(script)
                environment = {"PAI_JOB_NAME": f"{job.user}~{job.name}", "PAI_USER_NAME": job.user, "FC_TASK_INDEX":
                               str(index), "PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX": str(index),
                               "NVIDIA_VISIBLE_DEVICES": "none"}
                is_first = not job.containers
                job.containers.append(ContainerProcess(
                    ["bash", "-e", "-u", "-o", "pipefail", str(folder / "user.sh")], folder, environment,
                    lambda code, job=job, first=is_first: self._ended(job, code, first)))

    def _ended(self, job: Job, code: int, first: bool) -> None:
        with self._lock:
            if job.evicting:
                if all(not container.is_alive for container in job.containers):
                    job.evicting = False
                    self._launch(job)
                return
            if job.sub_state == "Completed" or not first and code == 0:
                return
            for container in job.containers:
                container.stop()
            if job.execution == "STOP":
                self._complete(job, STOPPED)
                return
            job.user_code = code
            self._complete(job, {0: 0, 127: 220, 137: 137}.get(code, 255))

    def _complete(self, job: Job, code: int) -> None:
        job.sub_state, job.exit_code, job.completed = "Completed", code, time.time()


def _is_json(body: bytes) -> bool:
    try:
        return isinstance(json.loads(body), dict | list)
    except ValueError:
        return False


def _iso(seconds: float | None) -> str | None:
    return None if seconds is None else time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(seconds))


def _ms(seconds: float | None) -> int | None:
    return None if seconds is None else int(seconds * 1000)
