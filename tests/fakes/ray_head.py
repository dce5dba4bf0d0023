"""A real Ray on loopback, from a virtual environment of its own: a head with dashboard, agent and workers, and nodes.

    with RayHead() as head:
        RayClusterSettings(address=head.address)

Its processes keep everything below one folder of their own, with a short name because of the sockets there, and carry a
mark in their environment, by which all of them are ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
import uuid
from pathlib import Path
from typing import Any

from tests.fakes.own_environments import python_with
from tests.fakes.ssh_machine import free_port
from trainingservice.testing.processes import RunningProcess, end_processes, processes_of

VERSION = "2.60.0"
#: The first one that the platform takes (``trainingservice.ray.api.LEAST_RAY``).
OLDEST_VERSION = "2.50.0"
#: Seconds for whatever is waited for; a head takes half a minute of processor time to start.
PATIENCE = 240.0
#: How long the parts of Ray wait for each other. Most wait for half a minute, and give all up then: a busy machine
#: would start a head again and again. Nothing is started ahead of the first job.
SETTINGS = {
    "RAY_raylet_start_wait_time_s": "240", "RAY_DASHBOARD_STARTUP_TIMEOUT_S": "240",
    "RAY_DASHBOARD_SUBPROCESS_MODULE_WAIT_READY_TIMEOUT": "240", "RAY_gcs_server_port_wait_time_s": "240",
    "RAY_agent_register_timeout_ms": "240000", "RAY_worker_register_timeout_seconds": "240",
    "RAY_py_gcs_connect_timeout_s": "240", "RAY_health_check_timeout_ms": "60000",
    "RAY_enable_worker_prestart": "0", "RAY_prestart_worker_first_driver": "0"}
#: Of each node: no process that carries logs to drivers. Of the head: none that asks a cloud for nodes, either.
NO_LOG_MONITOR, NO_MONITOR = "--include-log-monitor=false", "--no-monitor"
#: What is killed when a node dies, head or not: its daemons. Workers end by themselves then, as Ray has it.
DAEMONS = ("gcs_server", "raylet", "dashboard", "agent", "ray start", "ray-start", "monitor")


def ray_python(version: str = VERSION) -> Path:
    """The interpreter of an environment with Ray. Skips the test where there can be none."""
    return python_with("ray", version, [[f"ray[default]=={version}"]], "Ray")


class RayHead:
    """``start`` returns when the head takes jobs; ``stop`` ends all of it. The same ports after each start."""

    def __init__(self, *, token: str = "", resources: str = '{"special": 2}', gpus: int = 2, version: str = VERSION
                 ) -> None:
        """``token``: with RAY_AUTH_MODE=token."""
        self._ray = [str(ray_python(version)), "-m", "ray.scripts.scripts", "start", "--disable-usage-stats", "--block"]
        self.folder = Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))
        self._mark = f"TEST_RAY_HEAD={uuid.uuid4().hex}"
        self.token, self._resources, self._gpus = token, resources, gpus
        self.port, self.dashboard_port = free_port(), free_port()
        self._started: list[subprocess.Popen[bytes]] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.dashboard_port}"

    # --- life ------------------------------------------------------------------------------

    def start(self) -> RayHead:
        self._start_head()

        def takes_jobs() -> bool:
            if self._started[-1].poll() is not None:  # a port was taken, say
                end_processes(self._processes())
                self._started.pop()
                self._start_head()
            return self._takes_jobs()

        self.wait("the head takes jobs", takes_jobs)
        return self

    def _start_head(self) -> None:
        self._run("head", "--head", f"--port={self.port}", "--dashboard-host=127.0.0.1",
                  f"--dashboard-port={self.dashboard_port}", "--node-ip-address=127.0.0.1", "--num-cpus=8",
                  f"--num-gpus={self._gpus}", f"--resources={self._resources}", f"--temp-dir={self.folder}",
                  f"--dashboard-agent-listen-port={free_port()}",
                  f"--ray-client-server-port={free_port()}", NO_MONITOR)

    def start_node(self, address: str = "127.0.0.2", resources: str = '{"elsewhere": 4}') -> None:
        """A further node, on another address of the loopback."""
        self._run(f"node-{address}", f"--address=127.0.0.1:{self.port}", f"--node-ip-address={address}", "--num-cpus=2",
                  "--num-gpus=0", f"--resources={resources}", f"--dashboard-agent-listen-port={free_port()}")
        self.wait("the node has joined", lambda: any(
            row["node_ip"] == address and row["state"] == "ALIVE" for row in self._nodes()))

    def kill(self, address: str = "") -> None:
        """KILL the daemons of all nodes, or of the one at this address, at one blow: not the workers."""
        end_processes([process for process in self._processes() if any(name in process.command for name in DAEMONS)
                       and (not address or address in process.command)])

    def kill_supervisor(self, submission_id: str) -> None:
        """KILL the worker under which a job runs."""
        entrypoint = self._shell_of(submission_id)
        parent = int(Path(f"/proc/{entrypoint}/stat").read_text().rpartition(")")[2].split()[1])
        os.kill(parent, signal.SIGKILL)

    def stop(self) -> None:
        for process in self._started:
            process.terminate()
        deadline = time.monotonic() + 10
        while self._processes() and time.monotonic() < deadline:
            time.sleep(0.1)
        deadline = time.monotonic() + 30
        while (left := self._processes()) and time.monotonic() < deadline:
            end_processes(left)
            time.sleep(0.1)
        for process in self._started:
            process.wait(30)
        self._started.clear()

    def __enter__(self) -> RayHead:
        try:
            return self.start()
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    # --- what tests ask ----------------------------------------------------------------------

    def jobs(self) -> list[dict[str, Any]]:
        return [row for row in self.ask("api/jobs/") if row.get("submission_id")]

    def ask(self, path: str, method: str = "GET", body: Any = None) -> Any:
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        request = urllib.request.Request(f"{self.address}/{path}", method=method, headers={
            **headers, "Content-Type": "application/json"}, data=None if body is None else json.dumps(body).encode())
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=30) as answer:
            return json.loads(answer.read() or b"null")

    def wait(self, what: str, condition: Any) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > deadline:
                logs = "\n".join(f"{log.name}: {log.read_text()[-2000:]}" for log in self.folder.glob("*.out"))
                raise AssertionError(f"not within {PATIENCE:.0f} s: {what}\n{logs}")
            time.sleep(0.2)

    # --- how ---------------------------------------------------------------------------------

    def _run(self, name: str, *arguments: str) -> None:
        own, value = self._mark.split("=")
        environment = {key: text for key, text in os.environ.items() if not key.startswith(("RAY_", "NNI"))}
        environment |= {own: value, **SETTINGS}
        if self.token:
            environment |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": self.token}
        with open(self.folder / f"{name}.out", "ab") as out:
            self._started.append(subprocess.Popen(
                [*self._ray, "--object-store-memory=100000000", NO_LOG_MONITOR, *arguments], env=environment,
                stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True))

    def _takes_jobs(self) -> bool:
        """The agent that submits is there some seconds after the dashboard."""
        with contextlib.suppress(OSError, ValueError, urllib.error.URLError):
            self.ask("api/version")
            name = f"first-{uuid.uuid4().hex[:8]}"
            self.ask("api/jobs/", "POST", {"entrypoint": "true", "submission_id": name, "entrypoint_num_cpus": 0.1})
            self.wait("the first job has ended", lambda: self.ask(f"api/jobs/{name}")["status"] == "SUCCEEDED")
            self.ask(f"api/jobs/{name}", "DELETE")
            return True
        return False

    def _nodes(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.ask("api/v0/nodes")["data"]["result"]["result"]
        return rows

    def _processes(self) -> list[RunningProcess]:
        return processes_of([self._mark])

    def _shell_of(self, submission_id: str) -> int:
        """The process of a job's entrypoint, right below its supervisor."""
        found = [process.pid for process in processes_of([f"NNI_TRIAL_JOB_ID={submission_id}"])
                 if "NNI_RAY_SCRIPT" in process.command or process.command.startswith("sh -c trap")]
        return min(found)
