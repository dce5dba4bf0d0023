"""The node of the API double: runs each pod's containers as real processes, each pod in a folder of its own.

There is no chroot: paths at which volumes are mounted are replaced by folders of the pod wherever they occur in a
container's command and environment. Everything else a container does is done by real processes.
"""

from __future__ import annotations

import base64
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.fakes.kubernetes.store import Object, Store, now_text
from tests.forking import keepers as forked_keepers
from tests.forking.forker import ForkedProcess
from trainingservice.keeper.keeper_bundle import compiled_keeper_bytes, keeper_bytes
from trainingservice.testing.processes import end_processes, processes_of, since_boot

#: Seconds between two looks at what a pod waits for.
LOOK_EVERY = 0.03


def _is_our_keeper(command: list[str], environment: dict[str, str]) -> bool:
    """Whether this runs the keeper as it is here, with the Python that runs the tests: it may be forked then."""
    if len(command) != 3 or command[0] != "python3" or command[2] != "pod":
        return False
    file, content = Path(command[1]), compiled_keeper_bytes()
    return forked_keepers.can_fork(shutil.which("python3", path=environment["PATH"]), environment) \
        and file.is_file() and file.stat().st_size == len(content) and file.read_bytes() == content


class Node:
    """One node with everything on it. What is set on it counts for pods that come later."""

    def __init__(self, store: Store, folder: Path) -> None:
        self._store, self._folder = store, folder
        self.claimed_folder = folder.parent / "claimed"
        self.name = "node1"
        self.gpus = 0
        #: What it calls them.
        self.gpu_resource = "nvidia.com/gpu"
        #: Seconds from a container's end until its pod's status says so: the keeper has spoken by then. A kubelet takes
        #: about 1 s.
        self.status_lag = 0.2
        #: Seconds that a pod takes from its node until its volumes are looked for: images, containers.
        self.start_seconds = 0.0
        #: Image -> what the registry says when it is pulled.
        self.missing_images: dict[str, str] = {}
        #: Folders of this machine that stand for files in images: path in the container -> path here.
        self.image_files: dict[str, Path] = {}
        #: What an image runs where its container has no command.
        self.image_commands: dict[str, list[str]] = {}
        #: Folders that stand for storage: (kind, name) such as ("nfs", "server:/path"), ("pvc", "claim").
        self.storages: dict[tuple[str, str], Path] = {}
        #: Called instead of starting processes: for pods by the thousand.
        self.instead: Callable[[Object], None] | None = None
        #: Is told of each new pod before it starts.
        self.when_taken: Callable[[Object], object] = lambda pod: None
        self._pods: dict[str, _Pod] = {}
        self._closed = False

    def take(self, pod: Object) -> None:
        """A new pod was bound to this node."""
        self.when_taken(pod)
        if self.instead is not None:
            self.instead(pod)
            return
        running = _Pod(self, self._store, pod, self._folder / pod["metadata"]["name"])
        self._pods[pod["metadata"]["uid"]] = running
        running.start()

    def end(self, pod: Object, grace: float) -> None:
        """End a pod's processes and then remove the pod."""
        running = self._pods.get(pod["metadata"]["uid"])
        if running is None:
            self._store.remove("pods", pod["metadata"]["namespace"], pod["metadata"]["name"])
        else:
            running.delete(grace)

    def kill(self, pod_name: str, reason: str = "OOMKilled") -> None:
        """The kernel kills all of a pod."""
        for running in list(self._pods.values()):
            if running.name == pod_name:
                running.killed_because = reason
                running.kill_all()

    def out_of_memory(self, pod_name: str) -> None:
        """The kernel has killed something in a pod and spared its keeper: the kubelet says so when the pod ends."""
        for running in list(self._pods.values()):
            if running.name == pod_name:
                running.killed_because = "OOMKilled"

    def stop(self, pod_name: str) -> None:
        """The node asks a pod to end, as a drain does; the pod stays."""
        for running in list(self._pods.values()):
            if running.name == pod_name:
                running.ask_to_end()

    def evict(self, pod_name: str, message: str) -> None:
        """The node runs short of something and throws the pod out."""
        for running in list(self._pods.values()):
            if running.name == pod_name:
                running.evicted_because = message
                running.kill_all()

    def log_of(self, pod: Object) -> bytes | None:
        """What the pod's first container has written; None while it has not begun."""
        path = self._folder / pod["metadata"]["name"] / "log"
        return path.read_bytes() if path.exists() else None

    def close(self) -> None:
        self._closed = True
        for running in list(self._pods.values()):
            running.closed = True
            running.kill_all()
        for running in list(self._pods.values()):
            running.thread.join(60)


class _Pod:
    def __init__(self, node: Node, store: Store, pod: Object, folder: Path) -> None:
        self._node, self._store, self._pod, self._folder = node, store, pod, folder
        self.name, self._namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        self._spec = pod["spec"]
        self.killed_because = self.evicted_because = ""
        self.closed = False
        self._deleted = threading.Event()
        self._is_started = threading.Event()
        self._began = since_boot()
        self._process: subprocess.Popen[bytes] | ForkedProcess | None = None
        self._lock = threading.Lock()
        self._restarts = 0
        self.thread = threading.Thread(target=self._run, name=f"pod {self.name}", daemon=True)

    def start(self) -> None:
        self.thread.start()
        self._is_started.set()

    # --- its end by a word -----------------------------------------------------------------

    def delete(self, grace: float) -> None:
        with self._lock:
            if self._deleted.is_set():
                return
            self._deleted.set()
            process = self._process
            if process is not None and process.poll() is None:
                process.send_signal(signal.SIGTERM)
        threading.Thread(target=self._finish_deleting, args=[grace], daemon=True).start()

    def _finish_deleting(self, grace: float) -> None:
        self._is_started.wait()  # a pod may be deleted the moment in which it is made
        self.thread.join(grace)
        if self.thread.is_alive():
            self.kill_all()
            self.thread.join(60)
        self._store.remove("pods", self._namespace, self.name)

    def ask_to_end(self) -> None:
        with self._lock:
            if self._process is not None and self._process.poll() is None:
                self._process.send_signal(signal.SIGTERM)

    def kill_all(self) -> None:
        with self._lock:
            if self._process is not None and self._process.poll() is None:
                self._process.kill()
        end_processes(processes_of([str(self._folder)], self._began))

    @property
    def _over(self) -> bool:
        return self._deleted.is_set() or self.closed

    # --- its life --------------------------------------------------------------------------

    def _run(self) -> None:
        if not self._gates_open():
            return
        if not self._is_schedulable():
            self._status(phase="Pending", conditions=[{
                "type": "PodScheduled", "status": "False", "lastProbeTime": None, "lastTransitionTime": now_text(),
                "reason": "Unschedulable", "message": f"0/1 nodes are available: {self._why_unschedulable()}."}])
            self._deleted.wait()
            return
        self._store.change("pods", self._namespace, self.name,
                           lambda pod: pod["spec"].__setitem__("nodeName", self._node.name))
        self._status(phase="Pending", startTime=now_text(), conditions=[
            {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now_text()}],
            containerStatuses=[self._container_status({"waiting": {"reason": "ContainerCreating"}})])
        if self._deleted.wait(self._node.start_seconds):
            return
        mounts = self._wait_for_volumes()
        if mounts is None:
            return
        for container in self._spec.get("initContainers") or []:
            if self._over or not self._run_init(container, mounts):
                return
        self._run_container(self._spec["containers"][0], mounts)

    def _gates_open(self) -> bool:
        """Wait until nobody keeps the scheduler from looking at the pod; False where it is deleted before."""
        if self._spec.get("schedulingGates"):
            self._status(phase="Pending", conditions=[{
                "type": "PodScheduled", "status": "False", "lastProbeTime": None, "lastTransitionTime": None,
                "reason": "SchedulingGated", "message": "Scheduling is blocked due to non-empty scheduling gates"}])
        while self._spec.get("schedulingGates"):
            if self._deleted.wait(LOOK_EVERY) or self.closed:
                return False
            pod = self._store.get("pods", self._namespace, self.name)
            self._spec = self._spec if pod is None else pod["spec"]
        return True

    def _is_schedulable(self) -> bool:
        return not self._why_unschedulable()

    def _why_unschedulable(self) -> str:
        for container in self._spec["containers"]:
            for resource, count in ((container.get("resources") or {}).get("requests") or {}).items():
                offered = self._node.gpus if resource == self._node.gpu_resource else 0
                if "gpu" in resource and int(count) > offered:
                    return f"1 Insufficient {resource}"
        if self._spec.get("nodeSelector"):
            return "1 node(s) didn't match Pod's node affinity/selector"
        return ""

    def _wait_for_volumes(self) -> dict[str, Path] | None:
        """Volume name -> folder, when all are there; None where the pod was deleted meanwhile."""
        mounts: dict[str, Path] = {}
        for volume in self._spec.get("volumes") or []:
            while (folder := self._volume(volume)) is None:
                if self._deleted.wait(LOOK_EVERY) or self.closed:
                    return None
            mounts[volume["name"]] = folder
        return mounts

    def _volume(self, volume: Object) -> Path | None:
        folder = self._folder / "volumes" / volume["name"]
        folder.mkdir(parents=True, exist_ok=True)
        if "secret" in volume or "configMap" in volume:
            plural, name = (("secrets", volume["secret"]["secretName"]) if "secret" in volume
                            else ("configmaps", volume["configMap"]["name"]))
            found = self._store.get(plural, self._namespace, name)
            if found is None:
                return None
            data = {key: base64.b64decode(value) for key, value in (found.get("binaryData") or {}).items()}
            texts = found.get("data") or {}
            data |= {key: base64.b64decode(value) if plural == "secrets" else value.encode()
                     for key, value in texts.items()}
            for key, content in data.items():
                # this machine's Python would compile the same sources for each pod
                (folder / key).write_bytes(compiled_keeper_bytes() if content == keeper_bytes() else content)
            return folder
        for kind, name in (("nfs", lambda source: f"{source['server']}:{source['path']}"),
                           ("persistentVolumeClaim", lambda source: source["claimName"]),
                           ("azureFile", lambda source: source["shareName"])):
            if kind in volume:
                if kind == "azureFile" and self._store.get("secrets", self._namespace,
                                                           volume[kind]["secretName"]) is None:
                    return None
                known = self._node.storages.get((kind, name(volume[kind])))
                if known is None and kind == "persistentVolumeClaim":
                    return self._claimed(name(volume[kind]))
                return known
        return folder  # an emptyDir

    def _claimed(self, claim: str) -> Path | None:
        """The volume that a provisioner makes for a claim, and that is gone with it; None where there is no claim."""
        found = self._store.get("persistentvolumeclaims", self._namespace, claim)
        if found is None:
            return None
        folder = self._node.claimed_folder / found["metadata"]["uid"]
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _paths(self, container: Object, mounts: dict[str, Path]) -> dict[str, str]:
        paths = {}
        for mount in container.get("volumeMounts") or []:
            folder = mounts[mount["name"]] / mount.get("subPath", "")
            folder.mkdir(parents=True, exist_ok=True)  # as the kubelet does
            paths[mount["mountPath"]] = str(folder)
        paths[container.get("terminationMessagePath") or "/dev/termination-log"] = str(self._folder / "termination-log")
        paths |= {inside: str(here) for inside, here in self._node.image_files.items()}
        return dict(sorted(paths.items(), key=lambda pair: -len(pair[0])))

    def _popen(self, container: Object, mounts: dict[str, Path]
               ) -> subprocess.Popen[bytes] | ForkedProcess:
        paths = self._paths(container, mounts)

        def here(text: str) -> str:
            for inside, outside in paths.items():
                if text == inside or text.startswith(inside + "/"):
                    return outside + text[len(inside):]
            return text

        home = self._folder / "home"
        home.mkdir(parents=True, exist_ok=True)
        environment = {"PATH": os.environ["PATH"], "HOME": str(home), "HOSTNAME": self.name}
        for variable in container.get("env") or []:
            if "valueFrom" in variable:
                field = variable["valueFrom"]["fieldRef"]["fieldPath"]
                environment[variable["name"]] = {"metadata.name": self.name,
                                                 "metadata.namespace": self._namespace}[field]
            else:
                environment[variable["name"]] = here(variable["value"])
        words = container.get("command") or self._node.image_commands.get(container["image"]) or []
        command = [here(word) for word in [*words, *(container.get("args") or [])]]
        with open(self._folder / "log", "ab") as log:
            if _is_our_keeper(command, environment):
                return forked_keepers.start(command[2:], archive=Path(command[1]), env=environment, cwd=home,
                                            stdout=log, stderr=subprocess.STDOUT)
            return subprocess.Popen(command, env=environment, cwd=home, stdin=subprocess.DEVNULL, stdout=log,
                                    stderr=subprocess.STDOUT, start_new_session=True)

    def _run_init(self, container: Object, mounts: dict[str, Path]) -> bool:
        code = self._popen(container, mounts).wait()
        if code:
            self._status(phase="Failed", initContainerStatuses=[{
                "name": container["name"], "image": container["image"], "restartCount": 0, "ready": False,
                "state": {"terminated": {"exitCode": code, "reason": "Error"}}}])
        return code == 0

    def _run_container(self, container: Object, mounts: dict[str, Path]) -> None:
        refusal = self._node.missing_images.get(container["image"])
        if refusal is not None:
            self._status(containerStatuses=[self._container_status(
                {"waiting": {"reason": "ImagePullBackOff", "message": refusal}})])
            self._deleted.wait()
            return
        last: Object = {}
        while not self._over:
            began = now_text()
            try:
                with self._lock:
                    if self._over:
                        return
                    self._process = self._popen(container, mounts)
            except OSError as error:
                state = {"terminated": {"exitCode": 128, "reason": "StartError", "message": str(error),
                                        "startedAt": began, "finishedAt": now_text()}}
                self._status(phase="Failed", containerStatuses=[self._container_status(state, last)])
                return
            self._status(phase="Running", containerStatuses=[self._container_status(
                {"running": {"startedAt": began}}, last)])
            code = self._process.wait()
            finished = now_text()
            # with a container's first process all of it ends
            end_processes(processes_of([str(self._folder)], self._began))
            if self.closed:
                return
            time.sleep(self._node.status_lag)
            state = {"terminated": self._terminated(code if code >= 0 else 128 - code, began, finished)}
            if self.evicted_because:
                self._status(phase="Failed", reason="Evicted", message=self.evicted_because,
                             containerStatuses=[self._container_status(state, last)])
                return
            policy = self._spec.get("restartPolicy", "Always")
            again = not self._over and (policy == "Always" or policy == "OnFailure" and code != 0)
            if not again:
                self._status(phase="Failed" if code else "Succeeded",
                             containerStatuses=[self._container_status(state, last)])
                return
            last = state
            self._restarts += 1
            self._status(containerStatuses=[self._container_status(
                {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off restarting failed container"}}, last)])
            self._deleted.wait(0.2)

    def _terminated(self, code: int, began: str, finished: str) -> Object:
        state: Object = {"exitCode": code, "reason": self.killed_because or ("Error" if code else "Completed"),
                         "startedAt": began, "finishedAt": finished}
        message_file = self._folder / "termination-log"
        if message_file.exists():
            state["message"] = message_file.read_text()[:4096]
        elif code and self._spec["containers"][0].get("terminationMessagePolicy") == "FallbackToLogsOnError":
            state["message"] = (self._folder / "log").read_text(errors="replace")[-2048:]
        return state

    def _container_status(self, state: Object, last: Object | None = None) -> Object:
        container = self._spec["containers"][0]
        return {"name": container["name"], "image": container["image"], "imageID": "", "state": state,
                "lastState": last or {}, "ready": "running" in state, "restartCount": self._restarts}

    def _status(self, **fields: Any) -> None:
        self._store.change("pods", self._namespace, self.name, lambda pod: pod["status"].update(fields))

