"""A double of Azure as the SDK of Azure ML sees it: log-in, resource manager, blobs, run history, over TLS on loopback.

Built from the reference of the platform: paths, answers and error shapes; any api-version is taken. Jobs are processes
of this machine, in a folder filled from the uploaded blobs; what they print is served as the run's log.
"""

from __future__ import annotations

import re
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from tests.fakes.container_process import ContainerProcess
from tests.fakes.http_double import Answer, HttpDouble, Request
from tests.fakes.tls_certificate import make_certificate

TENANT, CLIENT, SECRET = "tenant-1", "client-1", "client-secret-value"
SUBSCRIPTION, GROUP, WORKSPACE = "sub-1", "group-1", "lab"
W = (f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{GROUP}/providers/Microsoft.MachineLearningServices/workspaces/"
     f"{WORKSPACE}")
TOKEN = "eyJhbGciOiJIUzI1NiJ9.eyJ0aWQiOiAidGVuYW50LTEifQ.c2lnbmF0dXJl"  # {"tid": "tenant-1"}
ENDS = ("Completed", "Failed", "Canceled")


def error(status: int, code: str, message: str, **headers: str) -> Answer:
    return Answer(status, {"error": {"code": code, "message": message, "details": [], "additionalInfo": []}},
                  headers=headers)


@dataclass
class Job:
    name: str
    properties: dict[str, Any]
    status: str = "Queued"
    error: str = ""
    hidden: bool = False
    starts: int = 0
    restart: bool = False
    container: ContainerProcess | None = None
    log: Path | None = None
    run_tags: dict[str, str] = field(default_factory=dict)
    created: float = field(default_factory=time.time)


class AzureMlWorkspace(HttpDouble):
    """One workspace with the compute ``cpu-cluster``."""

    def __init__(self, folder: Path) -> None:
        context, self.authority = make_certificate(folder / "tls")
        super().__init__(context)
        self.folder = folder
        self.computes = {"cpu-cluster": "Succeeded"}
        self.images_missing: set[str] = set()
        self.held = False
        self.jobs: dict[str, Job] = {}
        self.environments: dict[str, str] = {}
        self.codes: dict[str, dict[str, Any]] = {}
        self.blobs: dict[str, bytes] = {}
        self.secret = SECRET
        #: Client ids of the managed identities of the server's machine; "": the one that the machine itself has.
        self.identities: set[str] = set()
        self.token_is_valid = True
        self._lock = threading.RLock()

    def end(self) -> None:
        self.close()
        for job in list(self.jobs.values()):
            if job.container is not None:
                job.container.kill()

    # --- what tests do to it ---------------------------------------------------------------

    def release(self) -> None:
        self.held = False
        for job in list(self.jobs.values()):
            with self._lock:
                if job.container is None and job.status not in ENDS:
                    self._launch(job)

    def lose_node(self, job: Job) -> None:
        """The job's node is preempted; the service starts the job again under the same name."""
        with self._lock:
            assert job.container is not None
            job.restart = True
            job.container.kill()

    # --- requests --------------------------------------------------------------------------

    def answer(self, request: Request) -> Answer:
        path = request.path
        if path.startswith(f"/{TENANT}/"):
            return self._log_in(request, path.removeprefix(f"/{TENANT}/"))
        if path == "/metadata/identity/oauth2/token":
            return self._identity(request)
        if path.startswith("/store/"):
            return self._blob(request)
        if path.startswith("/logs/"):
            return self._log_file(request, path.removeprefix("/logs/"))
        if path == "/discovery":
            return Answer(200, {"history": f"{self.address}", "api": self.address})
        if request.headers.get("Authorization") != f"Bearer {TOKEN}" or not self.token_is_valid:
            return error(401, "InvalidAuthenticationToken", "The access token is invalid.")
        with self._lock:
            if path.startswith("/history/v1.0"):
                return self._history(request, path.removeprefix("/history/v1.0"))
            if path.startswith(f"/mlflow/v2.0{W}/api/2.0/mlflow/runs/"):
                return self._mlflow(request, path.rpartition("/")[2])
            if path.lower() == W.lower():
                return Answer(200, {"id": W, "name": WORKSPACE, "type": "workspaces", "location": "westeurope",
                                    "properties": {"workspaceId": "w-1", "discoveryUrl": f"{self.address}/discovery",
                                                   "mlFlowTrackingUri": "azureml://127.0.0.1"}})
            if not path.startswith(W + "/"):
                return error(404, "ResourceNotFound", f"The Resource '{path.rpartition('/')[2]}' was not found.")
            rest = path.removeprefix(W + "/")
            for pattern, handler in (
                    (r"codes/([^/]+)/versions(?:/1)?", self._code), (r"codes/([^/]+)/versions/1/startPendingUpload",
                                                                     self._upload),
                    (r"environments/([^/]+)/versions/([^/]+)", self._environment), (r"jobs", self._list),
                    (r"jobs/([^/]+)", self._job), (r"jobs/([^/]+)/cancel", self._cancel),
                    (r"computes/([^/]+)", self._compute), (r"operations/([^/]+)", self._operation)):
                found = re.fullmatch(pattern, rest)
                if found:
                    return handler(request, *found.groups())
        return error(404, "NotFound", f"There is no {request.path}.")

    def _log_in(self, request: Request, path: str) -> Answer:
        if path.endswith(".well-known/openid-configuration"):
            base = f"{self.address}/{TENANT}"
            return Answer(200, {"token_endpoint": f"{base}/oauth2/v2.0/token", "issuer": f"{base}/v2.0",
                                "authorization_endpoint": f"{base}/oauth2/v2.0/authorize"})
        form = {key: values[0] for key, values in parse_qs(request.body.decode()).items()}
        if form.get("client_id") != CLIENT or form.get("client_secret") != self.secret:
            return Answer(401, {"error": "invalid_client",
                                "error_description": "AADSTS7000215: Invalid client secret provided."})
        return Answer(200, {"access_token": TOKEN, "token_type": "Bearer", "expires_in": 3600})

    def _identity(self, request: Request) -> Answer:
        """What the machine's own metadata service answers (no TLS and another address, on a real machine)."""
        if request.headers.get("Metadata") != "true":
            return Answer(400, {"error": "invalid_request", "error_description": "The header Metadata is missing"})
        if request.query.get("client_id", "") not in self.identities:
            return Answer(400, {"error": "invalid_request", "error_description": "Identity not found"})
        return Answer(200, {"access_token": TOKEN, "expires_in": "3600", "expires_on": str(int(time.time()) + 3600),
                            "resource": request.query.get("resource", ""), "token_type": "Bearer"})

    def _blob(self, request: Request) -> Answer:
        if request.query.get("sig") != "signed":
            return Answer(403, b"", "application/xml")
        if request.method == "HEAD":
            return Answer(200 if request.path in self.blobs else 404, b"", "application/xml")
        if request.query.get("comp") == "metadata":
            return Answer(200, b"", "application/xml")
        self.blobs[request.path] = request.body
        return Answer(201, b"", "application/xml", {"ETag": '"1"', "Last-Modified": "Sat, 21 Nov 2026 00:00:00 GMT"})

    def _code(self, request: Request, name: str) -> Answer:
        if request.method == "PUT":
            self.codes[name] = request.json()["properties"]
            return Answer(201, self._code_resource(name))
        known = name in self.codes
        if request.path.endswith("/1"):
            return Answer(200, self._code_resource(name)) if known else error(404, "NotFound", "No such code.")
        hit = known and self.codes[name].get("properties", {}).get("hash_sha256") == request.query.get("hash")
        return Answer(200, {"value": [self._code_resource(name)] if hit else []})

    def _code_resource(self, name: str) -> dict[str, Any]:
        return {"id": f"{W}/codes/{name}/versions/1", "name": "1", "type": "codes", "properties": self.codes[name]}

    def _upload(self, request: Request, name: str) -> Answer:
        uri = f"{self.address}/store/{name}"
        return Answer(200, {"blobReferenceForConsumption": {
            "blobUri": uri, "storageAccountArmId": "s", "credential": {"credentialType": "SAS",
                                                                       "sasUri": f"{uri}?sig=signed"}}})

    def _environment(self, request: Request, name: str, version: str) -> Answer:
        resource = f"{W}/environments/{name}/versions/{version}"
        if request.method == "PUT":
            self.environments[resource] = request.json()["properties"]["image"]
        elif resource not in self.environments:
            return error(404, "NotFound", "No such environment.")
        return Answer(201, {"id": resource, "name": version, "type": "environments",
                            "properties": {"image": self.environments[resource], "isAnonymous": True}})

    def _job(self, request: Request, name: str) -> Answer:
        job = self.jobs.get(name.lower())
        if request.method == "PUT":
            properties = request.json()["properties"]
            if job is not None:
                job.hidden = bool(properties.get("isArchived"))
                return Answer(200, self._resource(job))
            expressions = [name for name, value in (properties.get("environmentVariables") or {}).items()
                           if "${{" in value]
            if expressions:  # what is not known to be evaluated is taken to be: nothing may depend on it
                return error(400, "UserError", f"The expression in the variable {expressions[0]} cannot be evaluated.")
            job = self.jobs[name.lower()] = Job(name, properties)
            if not self.held:
                self._launch(job)
            return Answer(201, self._resource(job))
        if job is None:
            return error(404, "NotFound", f"The job {name} was not found.")
        return Answer(200, self._resource(job))

    def _list(self, request: Request) -> Answer:
        shown = sorted((job for job in self.jobs.values() if not job.hidden), key=lambda job: -job.created)
        start = int(request.query.get("$skip") or 0)
        following = {"nextLink": f"{self.address}{W}/jobs?api-version=1&$skip={start + 10}"} \
            if len(shown) > start + 10 else {}
        return Answer(200, {"value": [self._resource(job) for job in shown[start:start + 10]], **following})

    def _resource(self, job: Job) -> dict[str, Any]:
        return {"id": f"{W}/jobs/{job.name}", "name": job.name, "type": "jobs", "systemData": {},
                "properties": {**job.properties, "status": job.status, "isArchived": job.hidden, "services": {
                    "Studio": {"jobServiceType": "Studio", "endpoint": f"https://ml.azure.com/runs/{job.name}"},
                    "Tracking": {"jobServiceType": "Tracking", "endpoint": "azureml://127.0.0.1"}}}}

    def _cancel(self, request: Request, name: str) -> Answer:
        job = self.jobs.get(name.lower())
        if job is None:
            return error(404, "NotFound", f"The job {name} was not found.")
        if job.status in ENDS:
            return error(400, "UserError", f"The job is in the state {job.status} and cannot be canceled.")
        if job.container is None:
            job.status = "Canceled"
        else:
            job.status = "CancelRequested"
            job.container.stop()
        return Answer(202, b"", headers={"Location": f"{self.address}{W}/operations/{name}?api-version=1",
                                         "Retry-After": "30"})

    def _operation(self, request: Request, name: str) -> Answer:
        return Answer(200 if self.jobs[name.lower()].status in ENDS else 202, b"")

    def _compute(self, request: Request, name: str) -> Answer:
        if name not in self.computes:
            return error(404, "ResourceNotFound", f"Compute {name} was not found.")
        return Answer(200, {"id": f"{W}/computes/{name}", "name": name, "type": "computes", "location": "westeurope",
                            "properties": {"computeType": "AmlCompute", "provisioningState": self.computes[name],
                                           "properties": {"vmSize": "STANDARD_DS2_V2", "scaleSettings": {
                                               "maxNodeCount": 4, "minNodeCount": 0,
                                               "nodeIdleTimeBeforeScaleDown": "PT2M"}}}})

    def _history(self, request: Request, path: str) -> Answer:
        found = re.fullmatch(re.escape(W) + r"(?:/experiments/[^/]+)?/runs/([^/]+)(/details)?", path)
        job = self.jobs.get(found[1].lower()) if found else None
        if found is None or job is None:
            return error(404, "UserError", "Run was not found.")
        if request.method == "PATCH":
            job.hidden = bool(request.json().get("hidden"))
            return Answer(200, {"runId": job.name, "hidden": job.hidden})
        files = {"user_logs/std_log.txt": f"{self.address}/logs/{job.name}?sig=signed"} if job.log is not None else {}
        failure = {"error": {"code": "UserError", "message": job.error}} if job.error else None
        return Answer(200, {"runId": job.name, "status": job.status, "logFiles": files, "error": failure})

    def _mlflow(self, request: Request, call: str) -> Answer:
        document = request.json() if request.body else request.query
        job = self.jobs[document["run_id"].lower()]
        if call == "set-tag":
            job.run_tags[document["key"]] = document["value"]
            return Answer(200, {})
        tags = [{"key": key, "value": value} for key, value in job.run_tags.items()]
        return Answer(200, {"run": {"info": {"run_id": job.name}, "data": {"metrics": [], "tags": tags}}})

    def _log_file(self, request: Request, name: str) -> Answer:
        job = self.jobs.get(name.lower())
        if request.query.get("sig") != "signed" or job is None or job.log is None:
            return Answer(403, b"", "application/xml")
        content = job.log.read_bytes()
        found = re.fullmatch(r"bytes=(\d+)-", request.headers.get("Range", ""))
        if found is None:
            return Answer(200, content, "text/plain")
        if int(found[1]) >= len(content):
            return Answer(416, b"", "text/plain")
        return Answer(206, content[int(found[1]):], "text/plain")

    # --- jobs ------------------------------------------------------------------------------

    def _launch(self, job: Job) -> None:
        if self.environments.get(job.properties.get("environmentId", "")) in self.images_missing:
            job.status, job.error = "Failed", "Failed to pull Docker image: manifest unknown."
            return
        job.status, job.starts = "Running", job.starts + 1
        folder = self.folder / "containers" / f"{job.name}-{job.starts}"
        code = job.properties["codeId"].split("/codes/")[1].split("/")[0]
        prefix = self.codes[code]["codeUri"].removeprefix(self.address) + "/"
        for path, content in self.blobs.items():
            if path.startswith(prefix):
                target = folder / "code" / path.removeprefix(prefix)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)
        command = job.properties["command"]
        for name in job.properties.get("inputs") or {}:
            mounted = folder / "inputs" / name
            mounted.mkdir(parents=True)
            command = command.replace(f"${{{{inputs.{name}}}}}", str(mounted))
        for name, output in (job.properties.get("outputs") or {}).items():
            if output.get("mode") == "ReadWriteMount":
                store = self.folder / "datastores" / output["uri"].removeprefix("azureml://").strip("/")
                store.mkdir(parents=True, exist_ok=True)
                command = command.replace(f"${{{{outputs.{name}}}}}", str(store))
        temporary = folder / "tmp"
        temporary.mkdir(parents=True, exist_ok=True)
        job.log = folder / "std_log.txt"
        environment = {**(job.properties.get("environmentVariables") or {}), "TMPDIR": str(temporary),
                       "AZUREML_RUN_ID": job.name, "MLFLOW_RUN_ID": job.name, "MLFLOW_TRACKING_TOKEN": TOKEN,
                       "MLFLOW_TRACKING_URI": f"azureml://127.0.0.1:{self.port}/mlflow/v1.0{W}",
                       "SSL_CERT_FILE": str(self.authority)}
        if job.starts > 1:  # one log for all starts
            job.log = self.folder / "containers" / f"{job.name}-1" / "std_log.txt"
        job.container = ContainerProcess(["sh", "-c", command], self._code_folder(folder), environment,
                                         lambda code: self._ended(job, code), job.log)

    @staticmethod
    def _code_folder(folder: Path) -> Path:
        """Blobs lie below a folder of the snapshot's own name."""
        starts = list((folder / "code").rglob("start.sh"))
        return starts[0].parent if starts else folder / "code"

    def _ended(self, job: Job, code: int) -> None:
        with self._lock:
            if job.restart:
                job.restart = False
                self._launch(job)
            elif job.status == "CancelRequested":
                job.status = "Canceled"
            else:
                job.status = "Completed" if code == 0 else "Failed"
                job.error = "" if code == 0 else f"Execution failed. User process exited with status code {code}."
