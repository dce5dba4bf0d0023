"""What is asked of podman or docker to run a trial in an image: pure functions.

The keeper stays outside, and the trial's command runs inside. Each folder that the trial needs is mounted at the path
that it has outside, so that every path the trial is told holds inside, too. Variables are written into the script that
starts the command: neither ``ps`` nor the engine's own records show them.
"""

import os
import shlex
from typing import Dict, List, Mapping, NamedTuple, Optional, Sequence

from trialkeeper import contract
from trialkeeper.process_tree import MARK_VARIABLE

#: Variable that only processes inside have; its value is the attempt's journal id.
INSIDE_VARIABLE = "NNI_KEEPER_CONTAINER"
#: In the attempt's folder: what is mounted for the script alone.
FOLDER = "container"
#: In that folder: the script; what it leaves when it has begun; what the command ended with; a home folder.
SCRIPT, BEGAN, EXIT_CODE, HOME = "start.sh", "began", "exit_code", "home"

#: Of the keeper's own environment, what podman and docker themselves need: none of a trial's variables is theirs.
_FOR_ENGINES = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "TMPDIR", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME",
                "XDG_DATA_HOME", "DBUS_SESSION_BUS_ADDRESS", "REGISTRY_AUTH_FILE", "HTTP_PROXY", "HTTPS_PROXY",
                "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")
_PREFIXES_FOR_ENGINES = ("DOCKER_", "CONTAINER_", "CONTAINERS_", "STORAGE_", "BUILDAH_")
#: Folders of an image that must not be hidden by a mount.
_OF_IMAGES = frozenset({"", "/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/opt", "/proc", "/run", "/sbin", "/sys",
                        "/usr", "/usr/bin", "/usr/lib", "/usr/local", "/var"})
#: What `--mount` would take for something else than a path.
_UNMOUNTABLE = frozenset(',"\n\r')


class CannotMount(Exception):
    """``str(error)`` is a sentence for the trial's page."""


class Mount(NamedTuple):
    """A file or folder, at the same path outside and inside."""

    path: str
    read_only: bool = False


class Devices(NamedTuple):
    """How the GPUs of a machine reach a container: as NVIDIA's (CDI, or docker's ``--gpus``), or as files."""

    is_nvidia: bool
    files: Sequence[str] = ()


def container_name(journal_id: str) -> str:
    """Of the container of one attempt (of a trial with several nodes: of one rank)."""
    return "nniweb-" + journal_id


def labels_of(job: Mapping[str, object], journal_id: str) -> Dict[str, str]:
    """By which whoever looks at the machine's containers finds those of trials."""
    return {"nniweb.attempt": journal_id, "nniweb.job": str(job.get("job_name", "")),
            "nniweb.trial": str(job.get("trial_job_id", "")), "nniweb.experiment": str(job.get("experiment_id", ""))}


def engine_environment(inherited: Mapping[str, str], mark: str) -> Dict[str, str]:
    """The environment of the engine's program. ``mark``: the attempt's journal id."""
    environment = {name: value for name, value in inherited.items()
                   if name in _FOR_ENGINES or name.startswith(_PREFIXES_FOR_ENGINES)}
    return {**environment, MARK_VARIABLE: mark}


def run_command(container: contract.ContainerDocument, *, name: str, mark: str, labels: Mapping[str, str],
                mounts: Sequence[Mount], script: str, user: str, gpus: Optional[Sequence[str]], devices: Devices,
                cpus: Optional[float] = None, memory: Optional[int] = None, shared_memory: int = 0) -> List[str]:
    """The words of the command. ``user``: "uid:gid" outside. ``gpus``: numbers or names (MIG) of GPUs on the machine,
    None and []: none. ``memory``, ``shared_memory`` in bytes; 0: the engine's default. Raises CannotMount.
    """
    is_podman = container["engine"] == contract.PODMAN
    # root of a user's own engine is that user outside, and root outside where root itself runs podman, as it does
    # without an image; where a daemon of root's runs it the trial has to be who its keeper is
    inside = "0:0" if is_podman or container.get("rootless") else user
    words = [container["program"], "run", "--rm", "--name", name, "--pull", "never", "--log-driver", "none",
             "--user", inside, "--cap-drop", "all", "--security-opt", "no-new-privileges",
             "--security-opt", "label=disable", "--workdir", "/", "--entrypoint", "/bin/sh",
             "--env", "%s=%s" % (MARK_VARIABLE, mark), "--env", "%s=%s" % (INSIDE_VARIABLE, mark)]
    for key, value in labels.items():
        words += ["--label", "%s=%s" % (key, value)]
    if container.get("network", contract.PRIVATE) != contract.PRIVATE:
        words += ["--network", container["network"]]
    if cpus:
        words += ["--cpus", "%g" % cpus]
    if memory:
        words += ["--memory", "%db" % memory, "--memory-swap", "%db" % memory]
    if shared_memory:
        words += ["--shm-size", "%db" % shared_memory]
    for mount in mounts:
        words += ["--mount", _mount_text(mount)]
    return [*words, *_gpu_words(is_podman, gpus, devices), container["image"], script]


def _mount_text(mount: Mount) -> str:
    if _UNMOUNTABLE & set(mount.path):
        raise CannotMount("the path %s cannot be mounted into a container, because it has a comma, a quote or a line "
                          "break; rename the folder" % mount.path)
    text = "type=bind,source=%s,target=%s" % (mount.path, mount.path)
    return text + ",readonly" if mount.read_only else text


def _gpu_words(is_podman: bool, gpus: Optional[Sequence[str]], devices: Devices) -> List[str]:
    if not gpus:
        return []
    if not devices.is_nvidia:
        return [word for file in devices.files for word in ("--device", file)]
    if is_podman:
        return [word for gpu in gpus for word in ("--device", "nvidia.com/gpu=%s" % gpu)]
    return ["--gpus", '"device=%s"' % ",".join(gpus)]  # docker reads the words between commas as fields


def gpus_inside(gpus: Optional[List[str]], devices: Devices) -> Optional[List[str]]:
    """The numbers that a trial's GPUs have inside: NVIDIA's container has no others, and counts from 0."""
    return [str(number) for number in range(len(gpus))] if gpus and devices.is_nvidia else gpus


def mounts_of(folder: str, *, working_directory: str, nni_folder: str, checkpoints: Optional[str],
              wake: Optional[str], for_trials: Optional[str], further: Sequence[str] = ()) -> List[Mount]:
    """What of the machine a trial sees: its own files, and neither its keeper's journal nor its token.

    ``for_trials``: folders for PYTHONPATH, with colons between. ``further``: folders that the keeper made for it.
    Raises CannotMount.
    """
    if os.path.realpath(working_directory).rstrip("/") in _OF_IMAGES:
        raise CannotMount("the trials' code is in %s, which would hide that folder of the image; put it into a folder "
                          "of its own" % working_directory)
    written = [working_directory, nni_folder, os.path.join(folder, FOLDER)]
    written += [path for path in (checkpoints, wake, *further) if path is not None]
    read = [path for each in (for_trials or "").split(os.pathsep) if each for path in _with_goals(each)]
    # what is reached by a link is found where the link says as well as under the trial's own name for it
    mounts = [Mount(path) for each in written for path in (os.path.realpath(each), each)]
    mounts += [Mount(path, read_only=True) for each in read for path in (os.path.realpath(each), each)]
    return list(dict.fromkeys(mounts))


def _with_goals(path: str) -> List[str]:
    """A folder of modules and the goals of links in it, or the archive that the path leads into."""
    if os.path.isdir(path):
        entries = [os.path.join(path, name) for name in sorted(os.listdir(path))]
        return [path, *(os.path.realpath(entry) for entry in entries if os.path.islink(entry))]
    while not os.path.exists(path) and path != os.path.dirname(path):
        path = os.path.dirname(path)
    return [path]


def start_script(command: str, environment: Mapping[str, str], *, folder: str, working_directory: str,
                 for_trials: Optional[str]) -> str:
    """Shell text that runs the command inside, as a keeper runs it outside. ``folder``: the attempt's.

    It is the first process inside, and stays until the command has ended: that one hears the signals itself.
    """
    own = os.path.join(folder, FOLDER)
    lines = ["# written by the keeper; it holds the trial's variables"]
    lines += ["export %s=%s" % (name, shlex.quote(value)) for name, value in sorted(environment.items())
              if is_shell_name(name)]
    if for_trials is not None:
        lines.append("export PYTHONPATH=\"${PYTHONPATH:+$PYTHONPATH:}\"%s" % shlex.quote(for_trials))
    lines += [
        "if [ ! -d \"$HOME\" ] || [ ! -w \"$HOME\" ]; then export HOME=%s; fi" % shlex.quote(os.path.join(own, HOME)),
        ": > %s" % shlex.quote(os.path.join(own, BEGAN)),
        "trap : TERM INT HUP USR1 USR2",
        "cd %s || exit 73" % shlex.quote(working_directory),
        "shell=/bin/sh",
        "if [ -x /bin/bash ]; then shell=/bin/bash; fi",
        "exec 3>&2 2>/dev/null",  # what this shell says of a command that was killed is not the trial's output
        "\"$shell\" -c %s 2>&3 3>&-" % shlex.quote(command),
        "code=$?",
        "echo \"$code\" > %s" % shlex.quote(os.path.join(own, EXIT_CODE)),
        "exit \"$code\""]
    return "\n".join(lines) + "\n"


def is_shell_name(name: str) -> bool:
    """Whether a shell can export a variable of this name."""
    return name.isascii() and name.isidentifier()


def environment_inside(environment: Mapping[str, str], given: Mapping[str, str], has_path: bool) -> Dict[str, str]:
    """Of a trial's variables those that hold inside: the image has a PATH of its own unless the job gives one, and
    PYTHONPATH is completed there. ``given``: the job's own variables.
    """
    inside = {name: value for name, value in environment.items() if has_path or name != "PATH"}
    inside.pop("PYTHONPATH", None)
    if given.get("PYTHONPATH"):
        inside["PYTHONPATH"] = given["PYTHONPATH"]
    return inside
