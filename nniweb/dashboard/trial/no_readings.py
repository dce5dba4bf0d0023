"""What a trial's page says of its machine where no reading came from it; ``trial/no_readings.js`` says the same."""

from typing import Any

from nniweb.dashboard.words import duration

#: A keeper reads each so many seconds, the first time so long after the start.
EACH = 10


def no_readings(run: dict[str, Any]) -> str:
    """``run``: machine, gpu_indices, started_at, duration and ended, of a trial or one attempt."""
    gpus = f" with GPU {', '.join(map(str, run['gpu_indices']))}" if run["gpu_indices"] else ""
    where = f" on {run['machine']}{gpus}" if run["machine"] else gpus
    if not run["started_at"]:
        return "It never ran on a machine." if run["ended"] else "It does not run on a machine yet."
    if not run["ended"]:
        return f"It runs{where}. The first reading comes about {EACH} s after the start."
    took = run["duration"]
    long = "" if took is None else f" for {duration(took)}"
    if took is not None and took < 2 * EACH:
        return f"It ran{where}{long}: too short for a reading, which is made each {EACH} s."
    return f"It ran{where}{long}, and no reading of it has come."
