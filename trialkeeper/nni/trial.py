"""What a trial calls. Files and variables are those of NNI's own trial SDK, so either side may be the original."""

import os
import sys
import time

TYPE_CHECKING = False  # typing itself would cost more than all the rest
if TYPE_CHECKING:
    from typing import Any

#: A metric must be shorter than this many bytes, as in NNI.
MAX_METRIC_BYTES = 1000000
#: Seconds between two looks for a parameter file that is not there yet.
_POLL = 0.1

_platform = os.environ.get("NNI_PLATFORM")
_standalone = _platform in (None, "", "unittest")
_multi_phase = os.environ.get("MULTI_PHASE") in ("true", "True")
_to_file = _platform == "local" and os.environ.get("REUSE_MODE") not in ("true", "True")

_index = 0  # of the parameters that come next
_sequence = 0  # of the next intermediate result
_current: "dict[str, Any] | None" = None  # the last parameter object
# descriptors, which file each was opened for, and its path; that of the pipe that wakes the keeper is -1 where none is
_metrics: "tuple[int, Any, str] | None" = None
_wake: "tuple[int, Any] | None" = None


def get_next_parameter() -> "Any":
    """The parameters of this trial. Blocks until they are there.

    Asked again: None, or in a multi-phase experiment the next parameters (None when there are no more).
    """
    global _current, _index
    if _standalone:
        import warnings
        warnings.warn("running without an experiment: the parameters are empty", RuntimeWarning, stacklevel=2)
        _current = {"parameter_id": None, "parameters": {}}
        return {}
    if _index > 0 and not _multi_phase:
        return None
    import json
    path = os.path.join(os.environ["NNI_SYS_DIR"], "parameter.cfg" if _index == 0 else "parameter_%d.cfg" % _index)
    if not _is_there(path):
        _send({"trial_job_id": get_trial_id(), "type": "REQUEST_PARAMETER", "sequence": 0, "parameter_index": _index})
        while not _is_there(path):
            time.sleep(_POLL)
    with open(path, encoding="utf-8") as stream:
        _current = json.load(stream)
    _index += 1
    assert _current is not None
    return _current["parameters"]


get_next_parameters = get_next_parameter


def get_current_parameter(tag: "str | None" = None) -> "Any":
    """The parameters given last, or one of them by its name; None before the first were asked for."""
    if _current is None or _current["parameters"] is None:
        return None
    return _current["parameters"] if tag is None else _current["parameters"][tag]


def report_intermediate_result(metric: "Any") -> None:
    """Report how far the trial has come: a number, or a dict with the number under "default"."""
    global _sequence
    _report("PERIODICAL", _sequence, metric)
    _sequence += 1


def report_final_result(metric: "Any") -> None:
    """Report the result of the trial: a number, or a dict with the number under "default"."""
    _report("FINAL", 0, metric)


def get_experiment_id() -> str:
    """The experiment's id."""
    return "STANDALONE" if _standalone else os.environ["NNI_EXP_ID"]


def get_trial_id() -> str:
    """The trial's id."""
    return "STANDALONE" if _standalone else os.environ["NNI_TRIAL_JOB_ID"]


def get_sequence_id() -> int:
    """The trial's number in its experiment, from 0."""
    return 0 if _standalone else int(os.environ.get("NNI_TRIAL_SEQ_ID", 0))


def tell_keeper(message: "dict[str, Any]") -> None:
    """Write a frame that is no metric, for a keeper alone, where one reads the metrics file."""
    if _to_file and "NNI_CHECKPOINT_DIR" in os.environ:
        _send(message)


def _report(kind: str, sequence: int, metric: "Any") -> None:
    import json

    from .metric_json import encode
    if _standalone:
        name = "Final result" if kind == "FINAL" else "Intermediate result"
        where = "" if kind == "FINAL" else "  (Index %d)" % sequence
        sys.stdout.write("[%s] %s: %s%s\n" % (time.strftime("%Y-%m-%d %H:%M:%S"), name, metric, where))
        return
    assert _current is not None, "nni.get_next_parameter() needs to be called before a result is reported"
    _send({"parameter_id": _current["parameter_id"], "trial_job_id": get_trial_id(), "type": kind,
           "sequence": sequence, "value": encode(metric, json)})


def _send(metric: "dict[str, Any]") -> None:
    import json
    text = json.dumps(metric).encode("ascii")
    if not _to_file:
        assert len(text) < MAX_METRIC_BYTES, "Metric too long"
        sys.stdout.write("NNISDK_MEb'%s'\n" % text.decode("ascii"))
        sys.stdout.flush()
        return
    assert len(text) + 1 < MAX_METRIC_BYTES, "Metric too long"
    metrics = _metrics_file()
    # one write, so that several threads and processes may report
    frame = memoryview(b"ME%06d%s\n" % (len(text) + 1, text))
    while frame:
        frame = frame[os.write(metrics, frame):]
    _wake_keeper()


def _metrics_file() -> int:
    """The descriptor. A trial may have removed the file with its output folder, or closed all descriptors, as programs
    do that become daemons: then the number may be that of another file.
    """
    global _metrics
    if _metrics is None:
        path = os.path.join(os.environ["NNI_SYS_DIR"], ".nni", "metrics")
    else:
        descriptor, file, path = _metrics
        if _file_of(descriptor) == file:
            # where nothing stands at the path, but the file is somewhere, the trial has another root or another user
            if os.fstat(descriptor).st_nlink and _file_of(path) in (file, None):
                return descriptor
            os.close(descriptor)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    _metrics = descriptor, _file_of(descriptor), path
    return descriptor


def _file_of(where: "int | str") -> "tuple[int, int] | None":
    try:
        seen = os.stat(where)
    except OSError:
        return None
    return seen.st_dev, seen.st_ino


def _wake_keeper() -> None:
    global _wake
    try:
        if _wake is None or _wake[0] >= 0 and _file_of(_wake[0]) != _wake[1]:
            _wake = -1, None
            path = os.environ.get("NNI_KEEPER_WAKE")
            if path:
                descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
                _wake = descriptor, _file_of(descriptor)
        if _wake[0] >= 0:
            os.write(_wake[0], b"!")
    except (OSError, ValueError):
        pass  # no keeper listens: it will look at the file by itself


def _is_there(path: str) -> bool:
    try:
        return os.stat(path).st_size > 0
    except OSError:
        return False
