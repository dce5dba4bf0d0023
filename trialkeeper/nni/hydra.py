"""A trial that is a job of a Hydra multirun: ``python3 -m nni.hydra train.py``. docs/optuna-and-hydra.md says more.

The trial's parameters are the job's overrides. What the function below ``@hydra.main`` returns is the final result.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class ReportReturnValue(object):
    """A callback of Hydra: a number that the job returns is the final result; of several the first one is.

    A function that returns None reports by itself, or has no result.
    """

    def on_job_end(self, config: "Any", job_return: "Any", **kwargs: "Any") -> None:
        """Called by Hydra. Raises TypeError, ValueError for what cannot be a result."""
        from . import get_current_parameter, get_next_parameter, report_final_result
        if job_return.status.name != "COMPLETED" or job_return.return_value is None:
            return
        if get_current_parameter() is None:
            get_next_parameter()
        report_final_result(result_of(job_return.return_value))

    def __getattr__(self, name: str) -> "Any":
        """All other moments of a callback: nothing happens."""
        if not name.startswith("on_"):
            raise AttributeError(name)
        return lambda *args, **kwargs: None


def result_of(returned: "Any") -> "Any":
    """A number as it is; numbers of several objectives under "returned", with the first one as the result."""
    if isinstance(returned, (list, tuple)):
        numbers = [float(value) for value in returned]
        return {"default": numbers[0], "returned": numbers}
    return float(returned)


def overrides_of(parameters: "dict[str, Any]") -> "list[str]":
    """Hydra's overrides from a trial's parameters: None is left out, a name with ~ and "" removes what it names."""
    return [name if name.startswith("~") and value == "" else "%s=%s" % (name, value)
            for name, value in parameters.items() if value is not None]


def quoted(text: str) -> str:
    """A text as a value of Hydra's grammar."""
    return "'%s'" % text.replace("\\", "\\\\").replace("'", "\\'")


def main(program: "list[str]") -> None:
    """Become the program with the overrides of this trial. ``program``: what follows ``python3``."""
    from . import get_next_parameter, get_sequence_id
    folder = os.path.join(os.environ.get("NNI_OUTPUT_DIR") or os.getcwd(), "hydra")
    overrides = overrides_of(get_next_parameter() or {})
    own = ["hydra.run.dir=%s" % quoted(folder), "++hydra.job.num=%d" % get_sequence_id(),
           "+hydra.callbacks.nni._target_=nni.hydra.ReportReturnValue"]
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable] + program + overrides + own)


if __name__ == "__main__":
    main(sys.argv[1:])
