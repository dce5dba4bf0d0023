"""A double of an OpenPAI cluster: its REST server (version 2) on loopback, and jobs as processes of this machine.

Built from the reference of the platform: paths, statuses, error bodies, states, exit codes, and how commands are
run (bash with errexit, nounset and pipefail, storages mounted). A mount is a symbolic link to the export's folder.
"""

from __future__ import annotations

import base64
import json
import re
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.fakes.container_process import ContainerProcess
from tests.fakes.http_double import Answer, HttpDouble, Request
from tests.fakes.openpai_protocol import refusals

#: The server takes documents up to about this size.
MOST_BODY = 100 * 1024
_TEMPLATE = re.compile(r"<%\s*\$(\w+)\.(\w+)\s*%>")
_STATES = {"AttemptCreationPending": "WAITING", "AttemptPreparing": "WAITING", "AttemptRunning": "RUNNING",
           "AttemptDeleting": "STOPPING"}


def error(status: int, code: str, message: str) -> Answer:
    return Answer(status, {"code": code, "message": message})


@dataclass
class Job:
    user: str
    name: str
    document: dict[str, Any]
    submitted: float = field(default_factory=time.time)
    sub_state: str = "AttemptCreationPending"
    execution: str = "START"
    exit_code: int | None = None
    user_code: int | None = None
    launched: float | None = None
    completed: float | None = None
    retries: int = 0
    containers: list[ContainerProcess] = field(default_factory=list)
    evicting: bool = False

    @property
    def state(self) -> str:
        if self.sub_state != "Completed":
            return _STATES[self.sub_state]
        return {0: "SUCCEEDED", -210: "STOPPED", -220: "STOPPED"}.get(self.exit_code or 0, "FAILED")


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
        self.queues = ["default", "research"]
        self.images_missing: set[str] = set()
        self.held = False
        #: The node that tasks say they run on; None: not known yet.
        self.node: str | None = "node-7"
        self.warnings: list[str] = []
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
        path = request.path.removeprefix("/rest-server/api/")
        if path == request.path:
            return error(404, "NoApiError", f"API {request.path} not found.")
        if path == "v2/info":
            return Answer(200, {"name": "pai-rest-server", "version": "v1.8.1", "launcherType": "k8s",
                                "authnMethod": "basic"})
        if path == "v2/authn/basic/login":
            return self._log_in(request)
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        user = self.tokens.get(token) if scheme == "Bearer" else None
        if user is None:
            return error(401, "UnauthorizedUserError", "Your token is invalid.")
        for pattern, method, handler in (
                (r"v2/jobs", "POST", self._submit), (r"v2/jobs", "GET", self._list),
                (r"v2/jobs/([^~/]+)~([^/]+)", "GET", self._detail),
                (r"v2/jobs/([^~/]+)~([^/]+)/config", "GET", self._config),
                (r"v2/jobs/([^~/]+)~([^/]+)/executionType", "PUT", self._execution),
                (r"v2/jobs/([^~/]+)~([^/]+)/events", "GET", self._events),
                (r"v2/tokens/check", "GET", self._check), (r"v2/users/([^/]+)", "GET", self._user),
                (r"v2/storages/([^/]+)", "GET", self._storage)):
            found = re.fullmatch(pattern, path)
            if found and method == request.method:
                with self._lock:
                    return handler(request, user, *found.groups())
        return error(404, "NoApiError", f"API {request.path} not found.")

    def _log_in(self, request: Request) -> Answer:
        document = request.json()
        if document.get("username") != self.user:
            return error(400, "NoUserError", f"User {document.get('username')} is not found.")
        if document.get("password") != self.password:
            return error(400, "IncorrectPasswordError", "Password is incorrect.")
        token = self.new_token()
        self.tokens[token] = self.user
        return Answer(200, {"user": self.user, "token": token, "admin": False})

    def _submit(self, request: Request, user: str) -> Answer:
        if len(request.body) > MOST_BODY:
            return Answer(413, {"message": "request entity too large"})
        if not request.headers.get("Content-Type", "").startswith("text/"):
            return error(400, "InvalidProtocolError", json.dumps([{"dataPath": "", "message": "should be object"}]))
        text = request.body.decode()
        if text.count("<%") > text.count("%>"):
            return Answer(500, {"message": "Unclosed tag"})
        try:
            document = yaml.safe_load(text)
        except yaml.YAMLError as problem:
            return Answer(500, {"message": str(problem)})
        problems = refusals(document)
        if problems:
            return error(400, "InvalidProtocolError",
                         json.dumps([{"keyword": "?", "dataPath": "", "message": problem} for problem in problems]))
        queue = (document.get("defaults") or {}).get("virtualCluster", "default")
        if queue not in self.queues:
            return error(403, "ForbiddenUserError", f"User {user} is not allowed to do operation in {queue}.")
        for entry in (document.get("extras") or {}).get("storages") or []:
            if entry["name"] not in self.storages:
                return error(404, "NoStorageError", f"Storage {entry['name']} is not found.")
        key = (user, document["name"])
        if key in self.jobs:
            return error(409, "ConflictJobError", f"Job name {document['name']} already exists.")
        job = self.jobs[key] = Job(user, document["name"], document)
        if not self.held:
            self._launch(job)
        return Answer(202, {"status": 202, "message": f"Update job {document['name']} successfully."})

    def _list(self, request: Request, user: str) -> Answer:
        limit, offset = int(request.query.get("limit", 5000)), int(request.query.get("offset", 0))
        if limit > 50000:
            return error(400, "InvalidParametersError", "Limit exceeds max number 50000.")
        found = [job for job in self.jobs.values()
                 if request.query.get("username") in (None, job.user)]
        found.sort(key=lambda job: job.submitted, reverse=True)
        return Answer(200, [{
            "debugId": f"{job.user}~{job.name}", "name": job.name, "username": job.user, "state": job.state,
            "subState": job.sub_state, "executionType": job.execution, "tags": [], "retries": job.retries,
            "submissionTime": _ms(job.submitted), "createdTime": _ms(job.submitted), "launchedTime": _ms(job.launched),
            "completedTime": _ms(job.completed), "appExitCode": job.exit_code,
            "virtualCluster": "default", "totalGpuNumber": 0, "totalTaskNumber": 1, "totalTaskRoleNumber": 1}
            for job in found[offset:offset + limit]])

    def _detail(self, request: Request, user: str, owner: str, name: str) -> Answer:
        job = self.jobs.get((owner, name))
        if job is None:
            return error(404, "NoJobError", f"Job {owner}~{name} is not found.")
        runtime = None if job.user_code is None else {"originUserExitCode": job.user_code, "name": "UserError"}
        status = {"username": owner, "state": job.state, "subState": job.sub_state, "executionType": job.execution,
                  "retries": job.retries, "submissionTime": _ms(job.submitted), "launchedTime": _ms(job.launched),
                  "appLaunchedTime": _ms(job.launched), "completedTime": _ms(job.completed), "appTrackingUrl": "",
                  "appExitCode": job.exit_code, "virtualCluster": "default",
                  "appExitDiagnostics": "ErrImagePull" if job.exit_code == 254 else "",
                  "appExitMessages": {"container": None, "runtime": runtime, "launcher": None}}
        task = {"taskIndex": 0, "taskState": job.state, "containerNodeName": self.node,
                "containerExitCode": job.exit_code}
        roles = {} if job.launched is None else {role: {"taskRoleStatus": {"name": role}, "taskStatuses": [task]}
                                                 for role in job.document["taskRoles"]}
        return Answer(200, {"name": name, "tags": [], "jobStatus": status, "taskRoles": roles})

    def _config(self, request: Request, user: str, owner: str, name: str) -> Answer:
        job = self.jobs.get((owner, name))
        if job is None:
            return error(404, "NoJobError", f"Job {owner}~{name} is not found.")
        masked = {**job.document, **({"secrets": "******"} if "secrets" in job.document else {})}
        return Answer(200, json.dumps(masked), "text/yaml")

    def _execution(self, request: Request, user: str, owner: str, name: str) -> Answer:
        if request.json().get("value") not in ("START", "STOP"):
            return error(400, "InvalidParametersError", "child \"value\" fails")
        job = self.jobs.get((owner, name))
        if job is None:
            return error(404, "NoJobError", f"Job {owner}~{name} is not found.")
        if owner != user:
            return error(403, "ForbiddenUserError", f"User {user} is not allowed to do operation.")
        job.execution = "STOP"
        if job.sub_state in ("AttemptCreationPending", "AttemptPreparing"):
            self._complete(job, -220)
        elif job.sub_state == "AttemptRunning":
            job.sub_state = "AttemptDeleting"
            for container in job.containers:
                container.stop()
        return Answer(202, {"status": 202, "message": "Execute job successfully."})

    def _events(self, request: Request, user: str, owner: str, name: str) -> Answer:
        return Answer(200, {"totalCount": len(self.warnings), "data": [
            {"type": "Warning", "reason": "FailedScheduling", "message": text} for text in self.warnings]})

    def _check(self, request: Request, user: str) -> Answer:
        return Answer(200, {"username": user, "application": False, "admin": False})

    def _user(self, request: Request, user: str, name: str) -> Answer:
        if name not in self.tokens.values():
            return error(400, "NoUserError", f"User {name} is not found.")
        return Answer(200, {"username": name, "grouplist": ["default"], "virtualCluster": self.queues,
                            "extension": {"jobSSH": {"key": "private"}}, "storageConfig": list(self.storages)})

    def _storage(self, request: Request, user: str, name: str) -> Answer:
        if name not in self.storages:
            return error(404, "NoStorageError", f"Storage {name} is not found.")
        return Answer(200, {"name": name, "share": True, "volumeName": f"{name}-pv", "type": "nfs", "readOnly": False,
                            "data": {"server": "10.0.0.1", "path": "/export"}, "mountOptions": []})

    # --- jobs ------------------------------------------------------------------------------

    def _launch(self, job: Job) -> None:
        images = {entry["name"]: entry["uri"] for entry in job.document.get("prerequisites") or []}
        if any(images[role["dockerImage"]] in self.images_missing for role in job.document["taskRoles"].values()):
            self._complete(job, 254)
            return
        for entry in (job.document.get("extras") or {}).get("storages") or []:
            target = Path(entry.get("mountPath") or self.folder / "mnt" / entry["name"])
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.is_symlink():
                target.symlink_to(self.storages[entry["name"]])
        job.sub_state, job.launched = "AttemptRunning", job.launched or time.time()
        job.containers = []
        for name, role in job.document["taskRoles"].items():
            for index in range(role.get("instances", 1)):
                script = _filled("\n".join(line.strip() for line in role["commands"]), job.document)
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
                self._complete(job, -220)
                return
            job.user_code = code
            self._complete(job, {0: 0, 127: 220, 137: 137}.get(code, 255))

    def _complete(self, job: Job, code: int) -> None:
        job.sub_state, job.exit_code, job.completed = "Completed", code, time.time()


def _filled(script: str, document: Mapping[str, Any]) -> str:
    """Templates of parameters and secrets with their values; unknown names stay as they are."""
    def value(found: re.Match[str]) -> str:
        return str((document.get(found[1]) or {}).get(found[2], found[0]))
    return _TEMPLATE.sub(value, script)


def _ms(seconds: float | None) -> int | None:
    return None if seconds is None else int(seconds * 1000)
