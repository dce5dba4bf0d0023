"""What NNI's REST interface answers: profiles, trials, metrics in NNI's own spelling."""

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any
from urllib.parse import unquote, urlsplit

from django.conf import settings
from django.db.models import F, OuterRef, Prefetch, QuerySet, Subquery

from nniweb.experiments.launch.given_parameters import parameters_of_the_trial
from nniweb.experiments.models import Attempt, Experiment, Metric, Trial, TrialParameters
from nniweb.experiments.models.experiment import ExperimentStatus
from nniweb.experiments.models.trial import TrialSource
from nniweb.experiments.results.running_time import running_seconds
from nniweb.nniapi.nni_folders import new_home
from trainingservice.trial_job_status import TrialJobStatus
from trialkeeper import contract

#: The release whose interface this is, as its manager writes it.
NNI_VERSION = "3.0.0"
_SOURCES = {TrialSource.TUNER: "algorithm", TrialSource.CUSTOMIZED: "customized", TrialSource.RERUN: "resumed"}


def milliseconds(at: datetime | None) -> int | None:
    return None if at is None else int(at.timestamp() * 1000)


def nni_status(experiment: Experiment) -> str:
    """NNI knows no pause: a paused experiment is RUNNING there, without new trials."""
    return "RUNNING" if experiment.status == ExperimentStatus.PAUSED else str(experiment.status)


def profile(experiment: Experiment, now: datetime) -> dict[str, Any]:
    """The answer to GET /experiment."""
    duration = None if experiment.max_duration is None else f"{int(experiment.max_duration)}s"
    params = {**experiment.config, "experimentName": experiment.name, "searchSpace": experiment.search_space,
              "trialConcurrency": experiment.trial_concurrency, "maxTrialNumber": experiment.max_trial_number,
              "maxExperimentDuration": duration, "trialCommand": experiment.trial_command}
    params.setdefault("trainingService", {"platform": experiment.cluster.platform})
    began = experiment.started_at or experiment.created_at
    document = {"params": {key: value for key, value in params.items() if value is not None},
                "id": experiment.public_id, "execDuration": int(running_seconds(experiment, now)),
                "logDir": _folder(experiment), "startTime": milliseconds(began),
                "endTime": milliseconds(experiment.ended_at), "nextSequenceId": experiment.next_sequence_id,
                "revision": experiment.revision}
    return _without_empty(document)


def registry_entry(experiment: Experiment, port: int | None, pid: int | None) -> dict[str, Any]:
    """What NNI's registry of experiments says of one. ``pid``: the process whose end is the experiment's.

    ``logDir`` of one with a port is where nnictl finds its files (``nnictl_files``).
    """
    return {"id": experiment.public_id, "port": port, "startTime": milliseconds(experiment.created_at),
            "endTime": milliseconds(experiment.ended_at) or "N/A", "status": nni_status(experiment),
            "platform": experiment.cluster.platform, "experimentName": experiment.name, "tag": list(experiment.tags),
            "pid": pid, "webuiUrl": [] if port is None else [f"http://127.0.0.1:{port}"],
            "logDir": str(settings.DATA_FOLDER if port is None else new_home()), "prefixUrl": None}


def trials_of(experiment: Experiment) -> QuerySet[Trial]:
    return Trial.objects.filter(experiment=experiment).order_by("sequence_id")


def trial_documents(trials: QuerySet[Trial], id_name: str = "trialJobId") -> Iterator[dict[str, Any]]:
    """The answers to GET /trial-jobs. ``id_name``: what a trial's id is called."""
    finals = Metric.objects.filter(kind=contract.FINAL).order_by("n")
    with_rows = trials.select_related("experiment").prefetch_related(
        "parameter_sets", Prefetch("attempts", Attempt.objects.order_by("number"), to_attr="in_order"),
        Prefetch("in_order__metrics", finals, to_attr="finals"))
    for trial in with_rows.iterator(chunk_size=500):
        yield _trial_document(trial, id_name)


def _trial_document(trial: Trial, id_name: str) -> dict[str, Any]:
    attempts: list[Attempt] = trial.in_order  # type: ignore[attr-defined]  # of trial_documents
    last = attempts[-1] if attempts else None
    folder = _log_path(last) if last else ""
    document = {
        id_name: trial.public_id, "status": trial.status, "sequenceId": trial.sequence_id,
        "hyperParameters": [_parameter_text(trial, given) for given in trial.parameter_sets.all()
                            if given.value is not None or given.index == 0],
        "logPath": folder, "startTime": milliseconds(trial.started_at or trial.submitted_at or trial.created_at),
        "endTime": milliseconds(trial.ended_at), "message": trial.message or None}
    if folder and trial.status == TrialJobStatus.FAILED.value:
        document["stderrPath"] = f"{folder}/stderr"
    finals: list[Metric] = last.finals if last else []  # type: ignore[attr-defined]
    if trial.status == TrialJobStatus.SUCCEEDED.value and finals:
        firsts = {metric.parameter_id: metric for metric in reversed(finals)} if trial.experiment.multi_phase else \
            {"": finals[0]}
        document["finalMetricData"] = [_metric(metric, trial.public_id) for metric in sorted(
            firsts.values(), key=lambda metric: metric.n)]
    return _without_empty(document)


def _log_path(attempt: Attempt) -> str:
    """The folder of the trial's output: a path on this machine, NNI's ``file://HOST:/PATH`` on one that is reached by
    SSH. Elsewhere the folder in which the trial runs, because no other is known.
    """
    place = urlsplit(attempt.url)
    if place.scheme == "file":
        return unquote(place.path)
    if place.scheme == "ssh":
        return f"file://{place.hostname}:{place.path}"
    return attempt.working_directory


def _parameter_text(trial: Trial, given: TrialParameters) -> str:
    return json.dumps({"parameter_id": given.parameter_id, "parameter_index": given.index,
                       "parameter_source": _SOURCES[TrialSource(trial.source)],
                       "parameters": parameters_of_the_trial(trial.experiment, given.value)})


def metrics_of(trials: QuerySet[Trial]) -> QuerySet[Metric]:
    """What the last attempts of these trials reported, in order."""
    newest = Attempt.objects.filter(trial=OuterRef("attempt__trial")).order_by("-number").values("number")[:1]
    return Metric.objects.filter(attempt__trial__in=trials, kind__in=(contract.PERIODICAL, contract.FINAL)).annotate(
        newest=Subquery(newest)).filter(attempt__number=F("newest")).select_related("attempt__trial").only(
        "kind", "parameter_id", "sequence", "value", "recorded_at", "attempt__first_sequence",
        "attempt__trial__public_id").order_by(
        "attempt__trial__sequence_id", "n")


def metric_documents(metrics: QuerySet[Metric]) -> Iterator[dict[str, Any]]:
    """The answers to GET /metric-data. ``data`` is JSON text of JSON text, as NNI stores it."""
    for metric in metrics.iterator(chunk_size=2000):
        yield _metric(metric, metric.attempt.trial.public_id)


def latest_metrics(metrics: QuerySet[Metric]) -> Iterator[dict[str, Any]]:
    """All final results, then the newest intermediate one of each trial."""
    newest: dict[str, dict[str, Any]] = {}
    for document in metric_documents(metrics):
        trial = document["trialJobId"]
        if document["type"] != contract.PERIODICAL:
            yield document
        elif trial not in newest or newest[trial]["sequence"] <= document["sequence"]:
            newest[trial] = document
    yield from newest.values()


def _metric(metric: Metric, trial: str) -> dict[str, Any]:
    parameter_id = json.loads(metric.parameter_id or "null")
    return {"timestamp": milliseconds(metric.recorded_at), "trialJobId": trial,
            "parameterId": None if parameter_id is None else str(parameter_id), "type": metric.kind,
            "sequence": (metric.attempt.first_sequence or 0) + metric.sequence, "data": json.dumps(metric.value)}


def export(experiment: Experiment, id_name: str = "trialJobId") -> list[dict[str, Any]]:
    """The answer to GET /export-data: succeeded trials with a final result; of several parameter sets each with one."""
    trials = trials_of(experiment).filter(status=TrialJobStatus.SUCCEEDED.value, final_value__isnull=False)
    found = []
    for trial in trials.prefetch_related("parameter_sets"):
        given = list(trial.parameter_sets.all())
        if experiment.multi_phase:
            found += [{"parameter": one.value, "value": one.final_value, id_name: trial.public_id}
                      for one in given if one.final_value is not None]
        else:
            found.append({"parameter": given[0].value if given else {}, "value": trial.final_value,
                          id_name: trial.public_id})
    return found


def _folder(experiment: Experiment) -> str:
    return str(settings.DATA_FOLDER / "experiments" / experiment.public_id)


def _without_empty(document: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in document.items() if value is not None}
