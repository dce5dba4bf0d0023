"""What a keeper writes down of its trial's end: the content of EXIT_FILE and of the ``ended`` entry."""

import signal
from typing import Any, Dict, Optional

from trialkeeper import contract
from trialkeeper.child_process import ChildProcess

#: Of EXIT_FILE: reason, message, exit_code, signal, duration (seconds), at (unix seconds); ``claimed`` where the
#: attempt turned out to be another keeper's; ``warm_start`` where that was asked for (WarmStartDocument);
#: ``metric_problems`` where there were some (MetricProblem); ``out_of_memory`` where that ended it
#: (OutOfMemoryDocument); ``gpu_peak`` where that was seen (bytes).
TrialEnd = Dict[str, Any]

#: Those that are there where there is something to tell.
_FURTHER_FIELDS = ("warm_start", "metric_problems", "out_of_memory", "gpu_peak")
_ENTRY_FIELDS = ("exit_code", "signal", "reason", "message", "duration")


def trial_end(at: float, reason: str, message: str, child: Optional[ChildProcess] = None,
              duration: float = 0.0) -> TrialEnd:
    """``child`` None: it was never started, or nobody saw it end."""
    return {"exit_code": child and child.exit_code, "signal": child and child.signal, "reason": reason,
            "message": message, "duration": round(duration, 6), "at": at}


def ended_entry(end: TrialEnd) -> contract.Entry:
    """The entry that reports the end."""
    entry: contract.Entry = {"type": contract.ENDED}
    entry.update((name, end.get(name)) for name in _ENTRY_FIELDS)
    entry.update((name, end[name]) for name in _FURTHER_FIELDS if end.get(name))
    return entry


def explanation(child: ChildProcess) -> str:
    """A sentence where a person may wonder why it ended like this, else ""."""
    if child.exit_code == 127:
        return "the shell did not find the command (exit code 127); its stderr names it"
    if child.exit_code == 126:
        return "the command was found but is not executable (exit code 126)"
    if child.signal is not None:
        try:
            name = signal.Signals(child.signal).name
        except ValueError:
            name = "signal %d" % child.signal
        hint = "; often the machine was out of memory" if child.signal == signal.SIGKILL else ""
        return "ended by %s from outside%s" % (name, hint)
    return ""


def exit_status(end: TrialEnd) -> int:
    """What the keeper itself exits with: the trial's exit code, 128 + its signal, 1 where there is neither."""
    if end.get("signal"):
        return 128 + int(end["signal"])
    code = end.get("exit_code")
    return 1 if code is None else int(code)
