"""Before a launch: whether a machine has the image of the trials, and a program to run it, asked over SSH."""

from __future__ import annotations

import shlex

from trainingservice.base import RehearsalFinding
from trainingservice.keeper.container_images import why_not
from trainingservice.remote.config import RemoteTrialOptions
from trainingservice.ssh.connection import Connection
from trialkeeper import contract

#: Prints the engine that was found, and whether it has the image: nothing is pulled.
_LOOK = """
PATH=$PATH:/usr/bin:/usr/local/bin:/bin:/snap/bin
for engine in %s; do
  if command -v "$engine" >/dev/null 2>&1; then
    if "$engine" image inspect --format - %s >/dev/null 2>&1; then echo "$engine has"; else echo "$engine lacks"; fi
    exit 0
  fi
done
echo "none none"
"""


def look_at_image(connection: Connection, options: RemoteTrialOptions, name: str, timeout: float) -> RehearsalFinding:
    """``options`` name an image. One that has to be pulled is pulled before the first trial starts there.

    Raises what ``Connection.run`` raises.
    """
    engines = (contract.PODMAN, contract.DOCKER) if options.engine == contract.ANY_ENGINE else (options.engine,)
    image = str(options.docker_image)
    _, output, _ = connection.run("sh -s", _LOOK % (" ".join(engines), shlex.quote(image)), timeout)
    engine, _, said = (output.strip().splitlines() or ["none none"])[-1].partition(" ")
    if said == "has":
        return RehearsalFinding("image", True, f"{name} has the image {image} ({engine}).", name)
    if said == "lacks" and options.pull != contract.PULL_NEVER:
        return RehearsalFinding("image", True, f"{name} does not have the image {image}; {engine} pulls it before the "
                                               "first trial starts there.", name)
    problem = why_not({
        "engine": engine if said == "lacks" else options.engine, "program": "", "rootless": False, "detail": "",
        "problem": contract.IMAGE_MISSING if said == "lacks" else contract.NO_ENGINE}, options, name, "remote")
    assert problem is not None
    return RehearsalFinding("image", False, problem, name)
