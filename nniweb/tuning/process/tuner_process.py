"""The tuner process: hosts the tuners of many experiments, so that none of them can stall or take down the worker.

Started by ``TunerClient`` as ``python -m nniweb.tuning.process.tuner_process``. One JSON object per line:

    in    {"id": 7, "op": "ask", "experiment": "e1", "args": {"first_number": 3, "count": 2}}
    out   {"id": 7, "ok": {...}}   or   {"id": 7, "error": "a sentence", "traceback": "...", "part": "tuner"}

Requests are answered one after another, in order. An experiment whose algorithm raised answers every later request with
the same error until it is opened again; the others are not touched. The process ends when its input does, that is, also
when its parent dies however suddenly; what a person's own algorithm has started ends first. After ``exit``, which has
arrived when everything before it has, it ends as a program does that has reached its end: files that an algorithm has
left open are written.
"""

import gc
import json
import logging
import os
import queue
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

from nniweb.tuning.process import process_log, storable_answer
from nniweb.tuning.process.experiment_tuning import AssessorFailed, ExperimentTuning
from nniweb.tuning.process.reply_size import LONGEST_ERROR, LONGEST_TRACEBACK, MOST_REPLY, AnswerTooLong
from nniweb.tuning.search_space.problem import InvalidInput
from trialkeeper import machine
from trialkeeper.child_process import LOOK_INTERVAL, TreeEnding
from trialkeeper.process_tree import MARK_VARIABLE, ProcessTree

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Broken:
    """Stands for an experiment whose algorithm raised."""

    message: str
    traceback: str
    #: Which of its algorithms: tuner or assessor.
    part: str = "tuner"


class TunerHost:
    """Answers requests. Used by one thread."""

    def __init__(self) -> None:
        self._experiments: dict[str, ExperimentTuning | Broken] = {}
        #: Set where an algorithm of a person's own is, or was, in this process: it may have started others.
        self.has_own_code = threading.Event()

    def answer(self, request: Mapping[str, Any]) -> bytes:
        """The reply line to one request. Never raises, whatever an algorithm does or returns."""
        experiment_id, op = request["experiment"], request["op"]
        hosted = self._experiments.get(experiment_id)
        try:
            if op == "close":
                self._experiments.pop(experiment_id, None)
                result: dict[str, Any] = {}
            elif op == "open":
                result = self._open(experiment_id, **request["args"])
            elif isinstance(hosted, Broken):
                return _error(request, hosted)
            elif hosted is None:
                return _error(request, Broken("this experiment is not open in the tuner process", ""))
            else:
                result = _OPERATIONS[op](hosted, **request["args"])
                storable_answer.check(result)
            return _line({"id": request["id"], "ok": result})
        except BaseException as error:  # an algorithm may also call sys.exit
            broken = _broken(error)
            # A search space that cannot be used changes nothing: the tuner goes on with the one it has.
            if not (op == "update_search_space" and isinstance(error, InvalidInput)):
                self._experiments[experiment_id] = broken
                if op != "open":  # the one that it replaces has done nothing wrong
                    _note_error(hosted)
            return _error(request, broken)

    def _open(
        self, experiment_id: str, spec: Mapping[str, Any], history: Iterable[Mapping[str, Any]]
    ) -> dict[str, Any]:
        self._experiments.pop(experiment_id, None)
        if any((spec.get(part) or {}).get("class_name") for part in ("tuner", "assessor")):
            self.has_own_code.set()
        experiment = ExperimentTuning(spec)
        result = experiment.restore(history)
        self._experiments[experiment_id] = experiment
        return result


_OPERATIONS: dict[str, Callable[..., dict[str, Any]]] = {
    "ask": ExperimentTuning.ask,
    "ask_for_trials": ExperimentTuning.ask_for_trials,
    "tell": ExperimentTuning.tell,
    "update_search_space": ExperimentTuning.update_search_space,
    "intermediate": ExperimentTuning.intermediate,
    "trial_end": ExperimentTuning.trial_end,
    "exit": ExperimentTuning.exit,
}


def _note_error(hosted: ExperimentTuning | Broken | None) -> None:
    if isinstance(hosted, ExperimentTuning):
        try:
            hosted.note_error()
        except BaseException:  # the error that led here is what is told
            logger.exception("_on_error has raised")


def _error(request: Mapping[str, Any], broken: Broken) -> bytes:
    message = process_log.shortened(storable_answer.storable_text(broken.message), LONGEST_ERROR)
    trace = storable_answer.storable_text(broken.traceback[-LONGEST_TRACEBACK:])  # it is written to logs
    return _line({"id": request["id"], "error": message, "traceback": trace, "part": broken.part})


def _line(reply: Mapping[str, Any]) -> bytes:
    line = json.dumps(reply).encode() + b"\n"
    if len(line) > MOST_REPLY:
        raise AnswerTooLong(f"its answer has {len(line)} bytes as JSON, and {MOST_REPLY} are the most; propose smaller "
                            "parameters")
    return line


def _broken(error: BaseException) -> Broken:
    part = "tuner"
    if isinstance(error, AssessorFailed) and error.__cause__ is not None:
        part, error = "assessor", error.__cause__
    return Broken(_sentence(error), "".join(traceback.format_exception(error)), part)


def _sentence(error: BaseException) -> str:
    if isinstance(error, InvalidInput):
        return str(error)
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _take_over_wire() -> tuple[BinaryIO, BinaryIO]:
    """Keep the wire on descriptors of its own; what an algorithm prints goes to stderr, what it reads is empty."""
    incoming, outgoing = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return os.fdopen(incoming, "rb"), os.fdopen(outgoing, "wb")


def _read_requests(incoming: BinaryIO, requests: "queue.SimpleQueue[bytes]", has_own_code: threading.Event,
                   tree: ProcessTree) -> None:
    """Thread: keeps the pipe empty, so that the parent never blocks, and ends the process with its input, even while an
    algorithm is computing: nothing in this process is worth saving. ``tree``: what the process has started. The parent
    ends that, too, unless it was killed. This thread knows no algorithm: at the end of ``main`` their files are closed.
    """
    for line in incoming:
        requests.put(line)
    if has_own_code.is_set():
        ending = TreeEnding(tree, 0.0, time.monotonic)
        while not ending.step():
            time.sleep(LOOK_INTERVAL)
    os._exit(0)


def main() -> None:
    """Answer the worker's requests from standard input, one after the other, until it is closed or says exit."""
    gc.freeze()  # what is loaded stays, and need not be looked through for garbage
    incoming, outgoing = _take_over_wire()
    process_log.write_logs_to_stderr()
    requests: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    host = TunerHost()
    tree = ProcessTree(os.environ.get(MARK_VARIABLE, ""), os.getpid(), machine.process_start_time(os.getpid()),
                       own_children=True, reaps_orphans=False)
    threading.Thread(target=_read_requests, args=(incoming, requests, host.has_own_code, tree), name="requests",
                     daemon=True).start()
    speaking = None
    while True:
        request = json.loads(requests.get())
        if request["experiment"] != speaking:
            speaking = request["experiment"]
            process_log.mark_experiment(speaking)
        reply = host.answer(request)
        sys.stdout.flush()
        try:
            outgoing.write(reply)
            outgoing.flush()
        except BrokenPipeError:  # the parent has gone
            return
        if request["op"] == "exit":
            return


if __name__ == "__main__":
    main()
