"""Runs the program of a GPU's driver (``nvidia-smi``, ``amd-smi``, ``rocm-smi``), which may hang.

One that waits in the kernel for a GPU that does not answer cannot even be killed. It is left behind, and while it is
there no other one is started: each would hang as well.
"""

import contextlib
import os
import subprocess
import time
from typing import Dict, NamedTuple, Optional, Sequence, Tuple

from trialkeeper import machine

#: Seconds for all questions of one reading together.
TIMEOUT = 20.0
#: Seconds that a killed one has to go.
_KILLED_WITHIN = 1.0


class NoGpuReading(Exception):
    """The GPUs cannot be read. ``str(error)`` says why, for a person."""


class Answer(NamedTuple):
    """``text``: stdout. ``why``: of one that failed, what it said, else ""."""

    exit_code: int
    text: str
    why: str


#: Program -> (process id, start time) of one that was left behind.
_hanging: Dict[str, Tuple[int, Optional[str]]] = {}


def ask(command: Sequence[str], until: float) -> Answer:
    """Run it until the monotonic time ``until`` at most. Raises NoGpuReading where it is missing or hangs."""
    program = command[0]
    _refuse_where_one_hangs(program)
    try:
        process = subprocess.Popen(list(command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, start_new_session=True)
    except FileNotFoundError:
        raise NoGpuReading("there is no %s on the PATH of this machine" % program) from None
    except OSError as error:
        raise NoGpuReading("%s could not be run: %s" % (program, error)) from error
    start_time = machine.process_start_time(process.pid)
    seconds = max(0.1, until - time.monotonic())
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        raise NoGpuReading(_given_up(process, program, start_time, seconds)) from None
    text = out.decode("utf-8", "replace")
    why = (err.decode("utf-8", "replace").strip() or text.strip())[:500] if process.returncode else ""
    return Answer(process.returncode, text, why)


def _given_up(process: "subprocess.Popen[bytes]", program: str, start_time: Optional[str], seconds: float) -> str:
    with contextlib.suppress(OSError):
        os.killpg(process.pid, 9)
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()
    said = "%s did not answer within %.0f s and was ended" % (program, seconds)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_KILLED_WITHIN)
        return said
    _hanging[program] = (process.pid, start_time)
    return _hangs(program, process.pid)


def _refuse_where_one_hangs(program: str) -> None:
    known = _hanging.get(program)
    if known is None:
        return
    pid, start_time = known
    with contextlib.suppress(OSError):
        os.waitpid(pid, os.WNOHANG)  # where it is a child of this process
    if machine.process_lives(pid, start_time):
        raise NoGpuReading(_hangs(program, pid))
    del _hanging[program]


def _hangs(program: str, pid: int) -> str:
    return ("%s (process id %d) hangs and cannot be killed, because the driver waits for a GPU. Often that GPU has "
            "failed or fallen off the bus, and the machine needs a reboot" % (program, pid))


def hanging() -> Dict[str, Tuple[int, Optional[str]]]:
    """What was left behind, for another process that is to know of it."""
    return dict(_hanging)


def remember_hanging(known: Dict[str, Tuple[int, Optional[str]]]) -> None:
    """What another process has left behind, as its ``hanging`` says."""
    _hanging.clear()
    _hanging.update({program: (int(one[0]), one[1]) for program, one in known.items()})
