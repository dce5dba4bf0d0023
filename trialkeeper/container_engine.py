"""podman and docker on this machine: which there is, whether it has an image, and the removal of containers."""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from typing import IO, Dict, Mapping, Optional, Sequence, Tuple

from trialkeeper import contract
from trialkeeper.container_command import Devices, engine_environment

#: Seconds for a question, for the removal of a container, and for the pull of an image.
ASK_SECONDS, REMOVE_SECONDS, PULL_SECONDS = 20.0, 30.0, 3600.0
#: Bytes at the end of what an engine writes that are read, and characters of it that are told.
_READ, _TOLD = 8192, 400
#: Folders that are looked in beside those of the PATH: an agent reached over SSH may have a short one.
_FOLDERS = ("/usr/bin", "/usr/local/bin", "/bin", "/snap/bin")
#: Files by which GPUs of AMD are used.
_AMD = ("/dev/kfd", "/dev/dri")


def find_engine(asked: str = contract.ANY_ENGINE, path: Optional[str] = None) -> Optional[Tuple[str, str]]:
    """Name and program of the engine; None where there is none. ``asked``: one of contract.ENGINES. ``path``: the PATH
    that is searched, by default that of this process.
    """
    searched = os.pathsep.join([os.environ.get("PATH", ""), *_FOLDERS]) if path is None else path
    for name in (contract.PODMAN, contract.DOCKER) if asked == contract.ANY_ENGINE else (asked,):
        program = shutil.which(name, path=searched)
        if program is not None:
            return name, program
    return None


def prepare_image(image: str, asked: str, pull: str, environment: Optional[Mapping[str, str]] = None
                  ) -> contract.ImageDocument:
    """Have the image on this machine. Takes as long as its pull. ``asked``: an engine, ``pull``: one of contract.PULLS.
    """
    found = find_engine(asked)
    if found is None:
        return _problem(contract.NO_ENGINE, "", contract.ANY_ENGINE if asked == contract.ANY_ENGINE else asked)
    name, program = found
    variables = engine_environment(os.environ if environment is None else environment, "image")
    rootless = os.geteuid() != 0
    if name == contract.DOCKER:
        status, output, said = _run([program, "info", "--format", "{{json .SecurityOptions}}"], variables, ASK_SECONDS)
        if status:
            return _problem(contract.ENGINE_UNUSABLE, said, name)
        rootless = "name=rootless" in output
    has_image, why = _has_image(name, program, image, variables)
    if has_image is None:
        return _problem(contract.ENGINE_UNUSABLE, why, name)
    if pull == contract.PULL_ALWAYS or (pull == contract.PULL_MISSING and not has_image):
        status, _, said = _run([program, "pull", "--quiet", image], variables, PULL_SECONDS)
        if status:
            return _problem(contract.PULL_FAILED, said, name)
    elif not has_image:
        return _problem(contract.IMAGE_MISSING, why, name)
    return {"engine": name, "program": program, "rootless": rootless, "problem": "", "detail": ""}


def _has_image(name: str, program: str, image: str, variables: Dict[str, str]) -> Tuple[Optional[bool], str]:
    """None: the engine does not tell; then why."""
    question = ["image", "exists", image] if name == contract.PODMAN else ["image", "inspect", "--format", "-", image]
    status, _, said = _run([program, *question], variables, ASK_SECONDS)
    if status == 0:
        return True, ""
    return (False, said) if status == 1 else (None, said)


def _problem(problem: str, detail: str, engine: str) -> contract.ImageDocument:
    return {"engine": engine, "program": "", "rootless": False, "problem": problem, "detail": detail}


def remove_container(container: Mapping[str, object], name: str, environment: Optional[Mapping[str, str]] = None
                     ) -> str:
    """Kill a container, if it is there, and remove what the engine keeps of it. Why that did not work, "" where it
    did. ``container``: of its engine and program.
    """
    program = container.get("program")
    if not isinstance(program, str) or not program:
        return ""
    words = [program, "rm", "--force"]
    if container.get("engine") == contract.PODMAN:
        words += ["--ignore", "--time", "0"]
    status, _, said = _run([*words, "--volumes", name],
                           engine_environment(os.environ if environment is None else environment, "removal"),
                           REMOVE_SECONDS)
    return "" if status == 0 or "no such container" in said.lower() else said or "exit status %d" % status


def devices_here() -> Devices:
    """How the GPUs of this machine are given to a container."""
    files = [path for path in _AMD if os.path.exists(path)]
    return Devices(is_nvidia=len(files) < len(_AMD) or os.path.exists("/dev/nvidiactl"), files=files)


def last_words(data: bytes) -> str:
    """The last line of what an engine wrote, shortened."""
    lines = [line.strip() for line in data.decode("utf-8", "replace").splitlines() if line.strip()]
    return lines[-1][:_TOLD] if lines else ""


def _run(words: Sequence[str], variables: Dict[str, str], seconds: float) -> Tuple[int, str, str]:
    """Exit status, the end of the output, and the last line of the errors. Never raises; -1: it did not answer."""
    try:
        with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
            # a session of its own: what it starts is ended with it
            process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=output, stderr=errors, env=variables,
                                       cwd="/", start_new_session=True)
            try:
                status = process.wait(seconds)
            except subprocess.TimeoutExpired:
                with contextlib.suppress(OSError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                return -1, "", "it did not answer within %g s" % seconds
            return status, _end(output).decode("utf-8", "replace"), last_words(_end(errors))
    except OSError as error:
        return -1, "", "%s cannot be run: %s" % (words[0], error.strerror or error)


def _end(stream: IO[bytes]) -> bytes:
    size = stream.seek(0, os.SEEK_END)
    stream.seek(max(0, size - _READ))
    return stream.read()

