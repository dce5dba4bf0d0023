"""A double of a DLTS dashboard and its cluster: REST on loopback, jobs as processes of this machine.

Built from the reference of the platform: the checks and their order, plain-text errors, JSON declared as text,
refusals that answer 200, states, and how ``cmd`` is run (a login shell of the user, in a shared home folder).
"""

from __future__ import annotations

import hashlib
import re
import threading
import time
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.fakes.container_process import ContainerProcess
from tests.fakes.http_double import Answer, HttpDouble, Request

MASTER_TOKEN = "5f4dcc3b5aa765d61d8327deb882cf99"
#: Job states from which a user may kill.
ACTIVE = ("unapproved", "queued", "scheduling", "running", "pausing", "paused")


def text(status: int, body: str) -> Answer:
    return Answer(status, body, "text/plain; charset=utf-8")


def json_as_text(document: Any) -> Answer:
    import json
    return Answer(200, json.dumps(document), "text/plain; charset=utf-8")


@dataclass
class Job:
    id: str
    body: dict[str, Any]
    status: str = "unapproved"
    started: float | None = None
    finished: float | None = None
    #: jobStatusDetail, where it is not what status and times say.
    detail: Any = None
    message: str = ""
    starts: int = 0
    container: ContainerProcess | None = None
    requeue: bool = False
    endpoints: list[dict[str, Any]] = field(default_factory=list)


class DltsDashboard(HttpDouble):
    """One dashboard with the cluster ``lab`` and the team ``vision``."""

    def __init__(self, folder: Path, *, email: str = "ada@lab.example") -> None:
        super().__init__()
        self.folder, self.email = folder, email
        self.password = hashlib.md5(f"{email}:{MASTER_TOKEN}".encode()).hexdigest()
        #: The account's home folder, as the server has it mounted; in containers it is ``home_there``.
        self.home = folder / "homes" / "ada"
        self.home.mkdir(parents=True)
        self.home_there = folder / "in-containers" / "home" / "ada"
        self.home_there.parent.mkdir(parents=True)
        self.home_there.symlink_to(self.home)
        self.clusters = {"lab": {"vision": {"gpus": {"user_quota": {"x": 1}, "V100": {"perNode": 4, "quota": 8}}}}}
        self.refuse_submit = ""
        self.foreign: set[str] = set()  #: jobs that answer {}
        self.hides_new = False  #: new jobs are not in the list yet
        self.held = False
        self.database_away = False  #: the cluster behind the dashboard answers and cannot ask its database
        self.cluster_away = False  #: the cluster behind the dashboard does not answer
        #: Questions until an endpoint is running.
        self.endpoint_patience = 1
        self.jobs: dict[str, Job] = {}
        self._hidden: set[str] = set()
        self._lock = threading.RLock()

    def end(self) -> None:
        self.close()
        for job in list(self.jobs.values()):
            if job.container is not None:
                job.container.kill()

    # --- what tests do to it ---------------------------------------------------------------

    def named(self, name: str) -> list[Job]:
        return [job for job in self.jobs.values() if job.body["jobName"] == name]

    def show_all(self) -> None:
        self.hides_new = False
        self._hidden.clear()

    def preempt(self, job: Job) -> None:
        """The job's pod is lost: it goes back into the queue and is started again."""
        with self._lock:
            job.requeue, job.status = True, "queued"
            assert job.container is not None
            job.container.kill()

    def pause(self, job: Job) -> None:
        """A person pauses it in the dashboard."""
        with self._lock:
            job.status = "pausing"
            assert job.container is not None
            job.container.stop()

    def release(self) -> None:
        self.held = False
        for job in list(self.jobs.values()):
            with self._lock:
                if job.status in ("unapproved", "queued") and job.container is None:
                    self._launch(job)

    # --- REST ------------------------------------------------------------------------------

    def answer(self, request: Request) -> Answer:
        path = request.path.removeprefix("/api/")
        if path == "":
            return Answer(200, {"version": "1.7"})
        email, password = request.query.get("email"), request.query.get("password") or request.query.get("token")
        if not email or not password:
            return text(403, "Forbidden")
        if hashlib.md5(f"{email}:{MASTER_TOKEN}".encode()).hexdigest() != password:
            return text(403, "Invalid token")
        for pattern, methods in (
                (r"user", {"GET": self._user}), (r"teams", {"GET": self._teams}),
                (r"clusters/([^/]+)/jobs", {"POST": self._submit}),
                (r"v2/clusters/([^/]+)/teams/([^/]+)/jobs", {"GET": self._list}),
                (r"v2/clusters/([^/]+)/jobs/([^/]+)", {"GET": self._record}),
                (r"clusters/([^/]+)/jobs/([^/]+)/status", {"GET": self._short_status, "PUT": self._change}),
                (r"clusters/([^/]+)/jobs/([^/]+)/endpoints", {"GET": self._endpoints, "POST": self._open})):
            found = re.fullmatch(pattern, path)
            if found is None:
                continue
            if request.method not in methods:
                return text(405, "Method Not Allowed")
            cluster = found[1] if found.groups() else "lab"
            if cluster not in (*self.clusters, ".default"):
                return text(404, "Cluster is not found")
            if self.cluster_away and path not in ("user", "teams"):
                return text(500, "Internal Server Error")
            with self._lock:
                return methods[request.method](request, *found.groups()[1:])
        return text(404, "Not Found")

    def _user(self, request: Request) -> Answer:
        return Answer(200, {"email": self.email, "password": self.password})

    def _teams(self, request: Request) -> Answer:
        if self.cluster_away or self.database_away:  # a cluster that does not answer is left out
            return Answer(200, [])
        teams = {team for teams in self.clusters.values() for team in teams}
        return Answer(200, [{"id": team, "clusters": [{"id": name, "admin": False, **facts[team]}
                                                      for name, facts in self.clusters.items() if team in facts]}
                            for team in sorted(teams)])

    def _submit(self, request: Request) -> Answer:
        if len(request.body) > 1024 * 1024:
            return text(413, "request entity too large")
        try:
            body = request.json()
        except ValueError:
            return text(400, "Bad Request")
        if not isinstance(body, dict):
            return text(400, " should be object")
        if not (body.get("team") or body.get("vcName")):
            return text(400, " should have required property 'team'")
        if not isinstance(body.get("team", ""), str):
            return text(400, ".team should be string")
        body = {**body, "team": body.get("team") or body["vcName"], "userName": request.query["email"]}
        if not str(body.get("jobName") or "").strip() or not str(body.get("vcName") or "").strip():
            return json_as_text({"error": "Cannot create job!ERROR: Job name cannot be empty"})
        if self.refuse_submit:
            return json_as_text({"error": f"Cannot create job!{self.refuse_submit}"})
        preemption = body.get("preemptionAllowed", False)
        if not isinstance(preemption, bool) and str(preemption).lower() not in ("true", "false") \
                or not _is_number(body.get("resourcegpu")):
            return text(500, "Internal Server Error")
        if self.database_away or body["vcName"] not in self.clusters["lab"]:  # rights that cannot be asked are none
            return json_as_text({"error": "Cannot create job!Access Denied!"})
        for key in ("jobPath", "workPath", "dataPath"):
            if ".." in body.get(key, "") or body.get(key, "").startswith(("/", "\\")):
                return json_as_text({"error": f"Cannot create job!ERROR: '..' cannot be used in {key}"})
        if not body.get("jobType"):
            return json_as_text({"error": "Cannot create job!"})
        job = Job(str(uuid.uuid4()), body)
        self.jobs[job.id] = job
        if self.hides_new:
            self._hidden.add(job.id)
        if not self.held:
            self._launch(job)
        return json_as_text({"jobId": job.id})

    def _list(self, request: Request, team: str) -> Answer:
        if self.database_away:
            return Answer(200, [None, None, None, None])
        if team not in self.clusters["lab"]:
            return Answer(200, [])
        limit = int(request.query.get("limit", 10))
        rows = [self._row(job) for job in reversed(self.jobs.values()) if job.id not in self._hidden | self.foreign]
        return Answer(200, rows[:limit])

    def _record(self, request: Request, job_id: str) -> Answer:
        job = self.jobs.get(job_id)
        gone = job is None or job_id in self.foreign or self.database_away
        return Answer(200, {} if gone else self._row(job))

    def _row(self, job: Job) -> dict[str, Any]:
        detail: Any = None
        if job.started is not None:
            detail = [{"startedAt": _iso(job.started), **({"finishedAt": _iso(job.finished)} if job.finished else {})}]
        return {"jobId": job.id, "jobName": job.body["jobName"], "userName": self.email, "vcName": job.body["vcName"],
                "jobStatus": job.status, "jobStatusDetail": job.detail if job.detail is not None else detail,
                "jobType": "training", "jobTime": "Sat, 21 Nov 2026 00:00:00 GMT", "jobParams": job.body}

    def _short_status(self, request: Request, job_id: str) -> Answer:
        if self.database_away:
            return text(502, "Bad Gateway")
        job = self.jobs.get(job_id)
        if job is None:
            return text(404, "Not Found")
        return Answer(200, {"status": job.status, **({"message": job.message} if job.message else {})})

    def _change(self, request: Request, job_id: str) -> Answer:
        status = request.json().get("status")
        if status not in ("approved", "killing", "pausing", "queued"):
            return text(400, ".status should be equal to one of the allowed values")
        job = self.jobs.get(job_id)
        if job is None or job_id in self.foreign or self.database_away or job.status not in ACTIVE:
            return json_as_text({"result": f"Cannot Kill the job. Job ID:{job_id}"})
        job.status = "killing"
        if job.container is not None and job.container.is_alive:
            job.container.stop()
        else:
            job.status, job.finished = "killed", time.time()
        return json_as_text({"result": "Success, the job is scheduled to be terminated."})

    def _endpoints(self, request: Request, job_id: str) -> Answer:
        job = self.jobs.get(job_id)
        rows = [] if job is None or job_id in self.foreign else job.endpoints
        for row in rows:
            row["patience"] -= 1
            if row["patience"] < 0:
                row |= {"status": "running", "port": row["podPort"], "nodeName": "127.0.0.1"}
        return Answer(200, [{key: value for key, value in row.items() if key != "patience"} for row in rows])

    def _open(self, request: Request, job_id: str) -> Answer:
        for wanted in request.json()["endpoints"]:
            if not 40000 <= wanted["podPort"] <= 49999 or len(wanted["name"]) > 16:
                return text(502, "Bad Gateway")
            self.jobs[job_id].endpoints.append({
                "id": f"e-{wanted['name']}", "name": wanted["name"], "username": "ada", "status": "pending",
                "hostNetwork": False, "podName": job_id, "domain": "lab.example", "podPort": wanted["podPort"],
                "patience": self.endpoint_patience})
        return json_as_text({row["id"]: {key: value for key, value in row.items() if key != "patience"}
                             for row in self.jobs[job_id].endpoints})

    # --- jobs ------------------------------------------------------------------------------

    def _launch(self, job: Job) -> None:
        job.status, job.started, job.starts = "running", time.time(), job.starts + 1
        folder = self.folder / "containers" / f"{job.id}-{job.starts}"
        environment = {entry["name"]: entry["value"] for entry in job.body.get("envs") or []}
        environment |= {"HOME": str(self.home_there), "DLTS_JOB_ID": job.id, "DLWS_USER_EMAIL": self.email,
                        "NVIDIA_VISIBLE_DEVICES": ""}
        job.container = ContainerProcess(["bash", "--noprofile", "-c", job.body["cmd"]], folder, environment,
                                         lambda code: self._ended(job, code))

    def _ended(self, job: Job, code: int) -> None:
        with self._lock:
            if job.requeue:
                job.requeue = False
                self._launch(job)
                return
            if job.status == "killed":  # killed between the end of its container and this
                return
            job.finished = time.time()
            job.status = {"killing": "killed", "pausing": "paused"}.get(job.status,
                                                                        "finished" if code == 0 else "failed")
            if job.status == "failed":
                job.message = f"the container ended with {code}"


def _is_number(given: Any) -> bool:
    """What the cluster takes as a number of GPUs: nothing at all, too."""
    try:
        return given is None or not str(given).strip() or int(given) is not None
    except ValueError:
        return False


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()
