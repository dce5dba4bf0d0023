"""Whether a machine has the images of trials: asked of its agent, which pulls them, before a trial is started there."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass

from trainingservice.base import RehearsalFinding
from trainingservice.containers.options import ContainerOptions
from trainingservice.errors import MustWait, PermanentError, TemporaryError
from trainingservice.keeper.agent_client import AgentClient
from trainingservice.reasons import Reason
from trainingservice.secrets_in_use import ServiceThread
from trialkeeper import contract

logger = logging.getLogger(__name__)

#: Seconds that an agent may take to have an image: a little longer than it gives the engine.
PULL_SECONDS = 3700.0
#: Seconds for which an image that a machine had counts as there, and for which one that it could not have is not tried
#: again.
KNOWN_FOR, FAILED_FOR = 300.0, 20.0
#: Seconds that the start of a trial waits for an answer; a pull mostly takes longer, and the trial waits in its queue.
PATIENCE = 2.0


@dataclass
class _Answer:
    done: threading.Event
    document: contract.ImageDocument | None = None
    fault: TemporaryError | None = None
    at: float = 0.0


class ContainerImages:
    """Of one machine, and of one user there. Methods may be called from any thread."""

    def __init__(self, machine: str, platform: str, client: Callable[[], AgentClient], monotonic: Callable[[], float],
                 changed: Callable[[], None]) -> None:
        """``client``: the machine's agent; may raise TemporaryError. ``changed``: called when an image has come."""
        self._machine, self._platform, self._client = machine, platform, client
        self._monotonic, self._changed = monotonic, changed
        self._lock = threading.Lock()
        self._answers: dict[tuple[str, ...], _Answer] = {}

    def container(self, options: ContainerOptions, experiment_id: str, patience: float = PATIENCE
                  ) -> contract.ContainerDocument | None:
        """What a keeper is told of the container; None where there is no image. Raises MustWait while the image is not
        there yet, PermanentError where it cannot be, TemporaryError where the machine cannot be asked.
        """
        if options.docker_image is None:
            return None
        answer = self._answer(options, experiment_id)
        if not answer.done.wait(patience):
            raise MustWait(Reason("platform_prepares", platform=self._platform, said=(
                f"Waits until machine {self._machine} has the image {options.docker_image}, which is being pulled.")))
        if answer.fault is not None:
            raise answer.fault
        assert answer.document is not None
        if (problem := why_not(answer.document, options, self._machine, self._platform)) is not None:
            raise PermanentError(problem)
        return {"image": options.docker_image, "engine": answer.document["engine"],
                "program": answer.document["program"], "rootless": answer.document["rootless"],
                "network": options.network}

    def finding(self, options: ContainerOptions, patience: float) -> RehearsalFinding:
        """Of a rehearsal: whether trials can have their image. A pull that takes longer than ``patience`` goes on."""
        try:
            self.container(options, "", patience)
        except MustWait as wait:
            return RehearsalFinding("image", True, wait.reason, self._machine)
        except PermanentError as error:
            return RehearsalFinding("image", False, error.reason, self._machine)
        except TemporaryError as error:
            return RehearsalFinding("image", False, error.reason, self._machine, temporary=True)
        return RehearsalFinding("image", True, f"Trials run in the image {options.docker_image}.", self._machine)

    def _answer(self, options: ContainerOptions, experiment_id: str) -> _Answer:
        assert options.docker_image is not None
        always = options.pull == contract.PULL_ALWAYS
        key = (options.docker_image, options.engine, options.pull, experiment_id if always else "")
        with self._lock:
            known = self._answers.get(key)
            if known is not None and (not known.done.is_set() or self._holds(known, always)):
                return known
            self._answers = {each: one for each, one in self._answers.items()
                             if not one.done.is_set() or self._holds(one, each[2] == contract.PULL_ALWAYS)}
            answer = self._answers[key] = _Answer(threading.Event())
        thread = ServiceThread(target=self._ask, args=(answer, options), name=f"image on {self._machine}", daemon=True)
        try:
            thread.start()
        except (RuntimeError, MemoryError) as error:
            self._tell(answer, None, TemporaryError(f"The image cannot be looked for now: {error}"))
        return answer

    def _holds(self, answer: _Answer, always: bool) -> bool:
        age = self._monotonic() - answer.at
        if answer.document is not None and not answer.document["problem"]:
            return always or age < KNOWN_FOR
        return age < FAILED_FOR

    def _ask(self, answer: _Answer, options: ContainerOptions) -> None:
        try:
            document = self._client().image(str(options.docker_image), options.engine, options.pull, PULL_SECONDS)
        except TemporaryError as error:
            self._tell(answer, None, error)
        except Exception as error:
            logger.exception("machine %s: the image %s could not be asked for", self._machine, options.docker_image)
            self._tell(answer, None, TemporaryError(f"The image cannot be looked for: {type(error).__name__}"))
        else:
            self._tell(answer, document, None)

    def _tell(self, answer: _Answer, document: contract.ImageDocument | None, fault: TemporaryError | None) -> None:
        with self._lock:
            answer.document, answer.fault, answer.at = document, fault, self._monotonic()
        answer.done.set()
        self._changed()


def why_not(answer: contract.ImageDocument, options: ContainerOptions, machine: str, platform: str) -> Reason | None:
    """Why a machine cannot run an image, by what its agent said; None where it can."""
    problem, said = answer["problem"], _shortened(answer["detail"])
    if not problem:
        return None
    engine = "podman or docker" if answer["engine"] == contract.ANY_ENGINE else answer["engine"]
    if problem == contract.NO_ENGINE:
        return Reason("no_container_engine", machine=machine, engine=engine, image=str(options.docker_image))
    if problem == contract.ENGINE_UNUSABLE:
        return Reason("container_engine_fails", machine=machine, engine=engine, said=said)
    way = (f"{engine} could not pull it" if problem == contract.PULL_FAILED
           else "imagePull: never forbids to pull it")
    return Reason("image_missing", platform=platform, cause=problem, said=(
        f"Machine {machine} does not have the image {options.docker_image}, and {way}{f': {said}' if said else ''}. "
        "Correct dockerImage, log in to its registry on the machine as the user of the trials, or bring the image "
        "there."))


def _shortened(said: str) -> str:
    return " ".join(said.split())[:400].rstrip(".")


def put_container(document: contract.JobDocument, container: contract.ContainerDocument | None) -> None:
    """Have a job's command run in a container."""
    document["container"] = container
    if container is not None:
        document["warm_start"] = False  # what trials are forked from runs on the machine itself
