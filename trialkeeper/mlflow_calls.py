"""The calls of MLflow's REST interface by which a script logs: what it is told, and what is kept of it.

Metrics, parameters and tags are lines of a file before they are answered. Artifacts are written by the client itself,
to the folder that each run is given.
"""

import json
import math
import os
import re
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple
from urllib.parse import parse_qs

from trialkeeper import contract
from trialkeeper.folder_writer import make_folder_below, open_new_or_plain, write_below
from trialkeeper.line_metrics import Lines
from trialkeeper.mlflow_models import ModelRegistry
from trialkeeper.mlflow_search import matching
from trialkeeper.mlflow_words import CallRefused, Document, bound, invalid, key_of, missing, refused_twice
from trialkeeper.step_groups import Measured

#: What one trial may log; calls beyond it are refused.
MOST_RUNS, MOST_KEYS = 1000, 10_000
#: Bytes of memory that all of it may take in the keeper, which the trial's limit of memory does not hold back: about
#: what a metric, parameter or tag takes beside its texts, and a byte of the JSON of anything else.
MOST_MEMORY, OF_AN_ENTRY, OF_A_BYTE = 256 * 1024 * 1024, 700, 20
#: Calls that leave what they were given, besides what is logged to runs.
_LEAVING = frozenset({
    "experiments/create", "runs/create", "runs/update", "logged-models", "registered-models/create",
    "registered-models/update", "registered-models/set-tag", "registered-models/alias", "model-versions/create",
    "model-versions/update", "model-versions/set-tag", "model-versions/transition-stage"})
#: Values of a metric in one answer to who asks for its history.
MOST_OF_HISTORY = 25_000
#: Bytes of a line: a call may have 4 MiB.
LONGEST_CALL = 8 * 1024 * 1024
#: In the trial's output folder.
FOLDER, CALLS_FILE = "mlflow", "calls.jsonl"
_PARENT = "mlflow.parentRunId"
_NAME = "mlflow.runName"
_PREFIX = re.compile(r"/api/2\.[01]/mlflow/")


class _Run(NamedTuple):
    info: Document
    params: Dict[str, str]
    tags: Dict[str, str]
    #: The last value of each metric, as MLflow has it.
    metrics: Dict[str, Document]

    def document(self) -> Document:
        return {"info": self.info, "inputs": {}, "data": {
            "metrics": list(self.metrics.values()),
            "params": [{"key": key, "value": value} for key, value in self.params.items()],
            "tags": [{"key": key, "value": value} for key, value in self.tags.items()]}}


class MlflowCalls:
    """Answers the calls of one trial. ``answer`` is for one thread."""

    def __init__(self, output_folder: str) -> None:
        """Raises OSError."""
        self._trusted = output_folder
        self._folder = os.path.join(output_folder, FOLDER)
        make_folder_below(output_folder, FOLDER)
        self._file = open_new_or_plain(output_folder, "%s/%s" % (FOLDER, CALLS_FILE), os.O_RDWR | os.O_APPEND)
        self._experiments: Dict[str, str] = {"0": "Default"}  # id -> name
        self._runs: Dict[str, _Run] = {}
        self._models: Dict[str, Document] = {}
        self._memory_left = MOST_MEMORY
        self._known: Dict[str, Callable[[Document], Document]] = {
            "experiments/get": self._experiment, "experiments/get-by-name": self._experiment_by_name,
            "experiments/create": self._create_experiment, "experiments/search": self._all_experiments,
            "experiments/set-experiment-tag": _nothing, "experiments/update": _nothing,
            "runs/create": self._create_run, "runs/get": self._get_run, "runs/update": self._update_run,
            "runs/search": self._search_runs, "runs/log-metric": self._log_metric, "runs/log-batch": self._log_batch,
            "runs/log-parameter": self._log_param, "runs/set-tag": self._set_tag, "runs/delete-tag": self._delete_tag,
            "runs/log-inputs": _nothing, "runs/outputs": _nothing, "runs/log-model": _nothing,
            "metrics/get-history": self._history, "logged-models": self._create_model,
            "logged-models/search": self._search_models, **ModelRegistry().calls}

    def answer(self, path: str, body: bytes) -> Tuple[int, Document]:
        """Status and document. ``path``: with the query."""
        path, _, query = path.partition("?")
        try:
            found = _PREFIX.match(path)
            if found is None:
                raise CallRefused(404, "ENDPOINT_NOT_FOUND", "the trial's keeper has no %s" % path)
            name = path[found.end():]
            if name in _LEAVING or name not in self._known:
                self._take_memory((len(query) + len(body)) * OF_A_BYTE)
            return 200, self._call(name, self._given(query, body))
        except CallRefused as refused:
            return refused.status, {"error_code": refused.code, "message": str(refused)}
        except OSError as error:
            return 500, {"error_code": "INTERNAL_ERROR", "message": "what was logged cannot be written: %s" % error}
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            return 400, {"error_code": "INVALID_PARAMETER_VALUE", "message": "a field is missing or wrong: %r" % error}

    def _take_memory(self, size: int) -> None:
        """Raises CallRefused where there is no room for so many bytes more."""
        if size > self._memory_left:
            raise CallRefused(400, "RESOURCE_LIMIT_EXCEEDED", "this trial has logged too much")
        self._memory_left -= size

    def _given(self, query: str, body: bytes) -> Document:
        given: Document = {key: values[-1] for key, values in parse_qs(query).items()} if query else {}
        if not body:
            return given
        try:
            document = json.loads(body.decode())  # in UTF-8: to look for another encoding takes as long
        except (ValueError, RecursionError):
            raise invalid("the request is no JSON") from None
        if not isinstance(document, dict):
            raise invalid("the request is no JSON object")
        return {**given, **document} if given else document

    def _call(self, name: str, given: Document) -> Document:
        known = self._known.get(name)
        if known is not None:
            return known(given)
        if name.startswith("logged-models/"):
            return self._model(name.split("/")[1:], given)
        raise CallRefused(404, "ENDPOINT_NOT_FOUND", "the trial's keeper does not have the call %s of MLflow" % name)

    # --- experiments ---------------------------------------------------------------------------

    def _experiment_document(self, experiment_id: str) -> Document:
        return {"experiment_id": experiment_id, "name": self._experiments.get(experiment_id, experiment_id),
                "artifact_location": self._folder, "lifecycle_stage": "active"}

    def _experiment(self, given: Document) -> Document:
        return {"experiment": self._experiment_document(str(given["experiment_id"]))}

    def _experiment_by_name(self, given: Document) -> Document:
        for experiment_id, name in self._experiments.items():
            if name == given["experiment_name"]:
                return {"experiment": self._experiment_document(experiment_id)}
        raise missing("experiment", given["experiment_name"])

    def _create_experiment(self, given: Document) -> Document:
        if given["name"] in self._experiments.values():
            raise refused_twice("experiment", given["name"])
        bound(self._experiments, MOST_RUNS)
        experiment_id = str(len(self._experiments))
        self._experiments[experiment_id] = str(given["name"])
        return {"experiment_id": experiment_id}

    def _all_experiments(self, given: Document) -> Document:
        return {"experiments": [self._experiment_document(experiment_id) for experiment_id in self._experiments]}

    # --- runs ----------------------------------------------------------------------------------

    def _create_run(self, given: Document) -> Document:
        bound(self._runs, MOST_RUNS)
        tags = {key_of(tag): str(tag["value"]) for tag in given.get("tags") or []}
        run_id = os.urandom(16).hex()
        name = str(given.get("run_name") or tags.get(_NAME) or "run-%d" % (len(self._runs) + 1))
        folder = self._make_folder("%s/artifacts" % run_id)
        info = {"run_id": run_id, "run_uuid": run_id, "run_name": name, "status": "RUNNING", "artifact_uri": folder,
                "experiment_id": str(given.get("experiment_id", "0")), "user_id": str(given.get("user_id", "")),
                "start_time": given.get("start_time") or int(time.time() * 1000), "lifecycle_stage": "active"}
        run = _Run(info, {}, {**tags, _NAME: name}, {})
        self._runs[run_id] = run
        self._write(run, {"tags": run.tags})
        return {"run": run.document()}

    def _run(self, given: Document) -> _Run:
        run_id = given.get("run_id") or given.get("run_uuid")
        run = self._runs.get(str(run_id))
        if run is None:
            raise missing("run", run_id)
        return run

    def _get_run(self, given: Document) -> Document:
        return {"run": self._run(given).document()}

    def _update_run(self, given: Document) -> Document:
        run = self._run(given)
        run.info.update((name, given[name]) for name in ("status", "end_time", "run_name") if given.get(name))
        write_below(self._trusted, "%s/%s/run.json" % (FOLDER, run.info["run_id"]), json.dumps(
            {"info": run.info, "params": run.params, "tags": run.tags, "metrics": run.metrics}, indent=1))
        return {"run_info": run.info}

    def _search_runs(self, given: Document) -> Document:
        wanted = [str(one) for one in given.get("experiment_ids") or []]
        runs = [run.document() for run in reversed(list(self._runs.values())) if run.info["experiment_id"] in wanted]
        return {"runs": matching(runs, given)[:int(given.get("max_results") or 1000)]}

    # --- what is logged ------------------------------------------------------------------------

    def _log_metric(self, given: Document) -> Document:
        """As ``_log`` with one metric, in less time: this is the call that comes often."""
        run, key, number, step, timestamp = self._run(given), *_metric_of(given)
        line = {"step": step, "timestamp": timestamp, "metrics": {key: number}}
        if key not in run.metrics:
            bound(run.metrics, MOST_KEYS)
            self._take_memory(OF_AN_ENTRY + len(key))
        self._write(run, line)
        run.metrics[key] = {"key": key, "value": _in_json(number), "step": step, "timestamp": timestamp}
        return {}

    def _log_param(self, given: Document) -> Document:
        return self._log(self._run(given), [], [given], [])

    def _set_tag(self, given: Document) -> Document:
        return self._log(self._run(given), [], [], [given])

    def _log_batch(self, given: Document) -> Document:
        metrics, params, tags = (given.get(kind) or [] for kind in ("metrics", "params", "tags"))
        return self._log(self._run(given), metrics, params, tags)

    def _log(self, run: _Run, metrics: List[Document], params: List[Document], tags: List[Document]) -> Document:
        """All or nothing: what is wrong is found before anything is written."""
        lines: List[Document] = []
        new_metrics: Dict[str, Document] = {}
        for metric in metrics:
            key, number, step, timestamp = _metric_of(metric)
            if not lines or lines[-1]["step"] != step or key in lines[-1]["metrics"]:
                lines.append({"step": step, "timestamp": timestamp, "metrics": {}})
            lines[-1]["metrics"][key] = number
            new_metrics[key] = {"key": key, "value": _in_json(number), "step": step, "timestamp": timestamp}
        new_params = {key_of(param): str(param["value"]) for param in params}
        new_tags = {key_of(tag): str(tag["value"]) for tag in tags}
        for key, value in new_params.items():
            if run.params.get(key, value) != value:
                raise invalid("the parameter %s of this run is %s already" % (key, run.params[key]))
        kinds: Tuple[Tuple[Dict[str, Any], Dict[str, Any]], ...] = (
            (run.params, new_params), (run.tags, new_tags), (run.metrics, new_metrics))
        for known, new in kinds:
            bound(known, MOST_KEYS - len(new.keys() - known.keys()) + 1)
        self._take_memory(sum(_memory_of(known, new) for known, new in kinds))
        if new_params:
            lines.append({"params": new_params})
        if new_tags:
            lines.append({"tags": new_tags})
        self._write(run, *lines)
        run.params.update(new_params)
        run.tags.update(new_tags)
        run.metrics.update(new_metrics)
        return {}

    def _delete_tag(self, given: Document) -> Document:
        run = self._run(given)
        self._write(run, {"deleted_tag": str(given["key"])})
        run.tags.pop(str(given["key"]), None)  # what it took is not given back: it is in the file, too
        return {}

    def _history(self, given: Document) -> Document:
        """The values of a metric in their order, the first MOST_OF_HISTORY. They are read from the file."""
        run, key = self._run(given).info["run_id"], str(given["metric_key"])
        most = min(int(given.get("max_results") or MOST_OF_HISTORY), MOST_OF_HISTORY)
        found: List[Document] = []
        with open(os.dup(self._file), "rb") as stream:
            stream.seek(0)
            for line in iter(lambda: stream.readline(LONGEST_CALL), b""):
                call = _call_in(line)
                if call.get("run") == run and key in (call.get("metrics") or {}):
                    found.append({"key": key, "value": _in_json(call["metrics"][key]), "step": call.get("step", 0),
                                  "timestamp": call.get("timestamp", 0)})
                if len(found) >= most:
                    break
        return {"metrics": found}

    def _make_folder(self, inner: str) -> str:
        """Its path. Raises OSError."""
        make_folder_below(self._trusted, "%s/%s" % (FOLDER, inner))
        return os.path.join(self._folder, inner)

    def _write(self, run: _Run, *documents: Document) -> None:
        """Lines of the file, in one write. Raises OSError."""
        where: Document = {"run": run.info["run_id"]}
        if _PARENT in run.tags:
            where["parent"] = run.tags[_PARENT]
        text = "".join([json.dumps({**where, **document}) + "\n" for document in documents]).encode()
        written = os.write(self._file, text)
        if written != len(text):
            os.ftruncate(self._file, os.fstat(self._file).st_size - written)  # the next line is to begin one
            raise OSError("it was written in part only: is the disk full?")

    # --- models --------------------------------------------------------------------------------

    def _create_model(self, given: Document) -> Document:
        bound(self._models, MOST_RUNS)
        model_id = "m-" + os.urandom(16).hex()
        folder = self._make_folder("models/%s" % model_id)
        now = int(time.time() * 1000)
        self._models[model_id] = {
            "info": {"model_id": model_id, "experiment_id": str(given.get("experiment_id", "0")),
                     "artifact_uri": folder, "name": str(given.get("name") or model_id), "creation_timestamp_ms": now,
                     "last_updated_timestamp_ms": now, "status": "LOGGED_MODEL_PENDING",
                     "model_type": str(given.get("model_type") or ""),
                     "source_run_id": str(given.get("source_run_id") or ""), "tags": given.get("tags") or []},
            "data": {"params": given.get("params") or [], "metrics": []}}
        return {"model": self._models[model_id]}

    def _search_models(self, given: Document) -> Document:
        """The newest first. Of a filter the name and the run count."""
        asked, wanted = str(given.get("filter") or ""), [str(one) for one in given.get("experiment_ids") or []]
        models = [model for model in reversed(list(self._models.values())) if model["info"]["experiment_id"] in wanted]
        for field in ("name", "source_run_id"):
            if field in asked:
                models = [model for model in models if "'%s'" % model["info"][field] in asked]
        return {"models": models[:int(given.get("max_results") or 1000)]}

    def _model(self, path: List[str], given: Document) -> Document:
        model = self._models.get(path[0])
        if model is None:
            raise missing("model", path[0])
        if path[1:] == ["params"]:
            model["data"]["params"] += given.get("params") or []
        elif path[1:] == ["tags"]:
            model["info"]["tags"] += given.get("tags") or []
        elif given.get("status"):
            model["info"]["status"] = str(given["status"])
        return {"model": model}


def _nothing(_: Document) -> Document:
    """A call that is allowed and says nothing that is kept."""
    return {}


def _metric_of(item: Document) -> Tuple[str, float, int, int]:
    """Key, value, step, timestamp. Raises CallRefused, KeyError, TypeError, ValueError, OverflowError."""
    key = key_of(item)
    try:
        number = float(item["value"])
    except ValueError:
        raise invalid("the value of %s is no number" % key) from None
    return key, number, _whole(item, "step"), _whole(item, "timestamp")


def _whole(item: Document, name: str) -> int:
    number = int(item.get(name) or 0)
    if not -2**63 <= number < 2**63:
        raise invalid("the %s is too large" % name)
    return number


def _memory_of(known: Dict[str, Any], new: Dict[str, Any]) -> int:
    """About the bytes that these entries take more than those of the same keys did."""
    size = 0
    for key, value in new.items():
        size += len(value) if isinstance(value, str) else 0
        if key in known:
            size -= len(known[key]) if isinstance(value, str) else 0
        else:
            size += OF_AN_ENTRY + len(key)
    return max(size, 0)


class MlflowMetrics:
    """The metrics in the file of calls: of the runs that have no parent."""

    #: Nothing keeps it from being read.
    problem: Optional[contract.MetricProblem] = None

    def __init__(self, output_folder: str, source: str, position: int) -> None:
        self.source = source
        self._lines = Lines(os.path.join(output_folder, FOLDER, CALLS_FILE), position, LONGEST_CALL)

    @property
    def has_more(self) -> bool:
        """Whether the last ``read`` left something for the next."""
        return self._lines.has_more

    def read(self, final: bool = False) -> List[Measured]:
        """What came since the last call."""
        lines = self._lines.read(final)
        found = (_measured(line, offset) for line, offset in zip(lines, self._lines.offsets))
        return [measured for measured in found if measured is not None]


def _call_in(line: bytes) -> Document:
    """A line of the file, {} for one that is none: the trial can write to this file, too."""
    try:
        call = json.loads(line) if line else {}
    except (ValueError, RecursionError):
        return {}
    return call if isinstance(call, dict) and isinstance(call.get("metrics", {}), dict) else {}


def _in_json(number: Any) -> Any:
    """A number as MLflow writes it: those that JSON does not have as texts."""
    if isinstance(number, float) and not math.isfinite(number):
        return "NaN" if number != number else "Infinity" if number > 0 else "-Infinity"
    return number


def _measured(line: bytes, position: int) -> Optional[Measured]:
    call = _call_in(line)
    if "parent" in call or "metrics" not in call:
        return None
    values = {name: value for name, value in call["metrics"].items() if isinstance(value, float)}
    step = call.get("step")
    return Measured(values, step if isinstance(step, int) else None, position) if values else None
