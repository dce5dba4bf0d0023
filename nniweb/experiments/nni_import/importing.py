"""Makes an experiment of ours from one that NNI has kept, and goes on with it where that is wished."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from django.db import transaction
from django.utils import timezone

from nniweb.experiments.actions import intents
from nniweb.experiments.actions.change_and_undo import resume_with
from nniweb.experiments.actions.imported_results import FOREIGN_TRIAL, as_one_import, whole_result
from nniweb.experiments.config import ConfigInvalid, ParsedConfig, parse_experiment_config
from nniweb.experiments.errors import Refused
from nniweb.experiments.launch.launching import create_stopped, take_config
from nniweb.experiments.lifecycle.reason_columns import failed_because, reason_of, said
from nniweb.experiments.models import (
    Attempt,
    Experiment,
    Metric,
    Trial,
    TrialEvent,
    TrialOutput,
    TrialParameters,
    TunerEvent,
    User,
)
from nniweb.experiments.models.experiment import ExperimentStatus
from nniweb.experiments.models.trial import TrialSource
from nniweb.experiments.nni_import.archived_trial import ArchivedMetric, ArchivedTrial
from nniweb.experiments.nni_import.nni_archive import STDERR_FILES, STDOUT_FILES, Archive, is_inside
from nniweb.experiments.pubsub.revisions import next_revision
from nniweb.experiments.results.metric_number import number_in
from nniweb.experiments.results.other_metrics import OtherMetrics
from nniweb.experiments.sql.exact_text import printable
from nniweb.experiments.sql.public_id import new_public_id
from trainingservice.reasons import Reason
from trainingservice.trial_job_status import TrialJobStatus
from trialkeeper import contract

#: Trials in one transaction, so that no other writer waits long.
CHUNK = 25
#: Bytes kept of the beginning and of the end of a trial's output.
KEPT_OUTPUT = 256 * 1024
#: The worker's upkeep does not look at it before it is whole: trials are not stored in their order.
_WHOLE_BEFORE = timedelta(days=1)
#: The tag of an imported experiment.
_IMPORTED = "imported from NNI"


def import_archive(archive: Archive, owner: User, *, go_on: bool = False, max_trial_number: int | None = None
                   ) -> Experiment:
    """The imported experiment: finished, or with ``go_on`` under way, its tuner told all earlier results.

    With ``go_on`` one that was imported before goes on, where it has ended. Raises Refused and ConfigInvalid; then
    nothing is left of a new one.
    """
    known = imported_before(archive)
    if known is not None:
        if known.reason == "import_unfinished":
            raise Refused(f"Experiment {known.public_id}: {reason_of(known)}")
        if not go_on:
            raise Refused(f"{archive.id} was already imported as experiment {known.public_id}. To continue it, add "
                          "--continue. To import it again, delete that experiment first.")
        return _continued(known, archive, owner, max_trial_number)
    if go_on:
        _must_have_trials_left(len(archive.trials), max_trial_number or archive.config.get("maxTrialNumber"))
    parsed = _parsed(archive, go_on, max_trial_number)
    experiment = create_stopped(
        parsed, owner, check_first=go_on, foreign_id=archive.id, created_at=archive.started, started_at=archive.started,
        ended_at=archive.ended, running_seconds=archive.duration, status=ExperimentStatus.STOPPED,
        **said(Reason("import_unfinished", foreign_id=archive.id)),
        next_sequence_id=max((trial.sequence_id or 0 for trial in archive.trials), default=-1) + 1,
        next_ask=_next_parameter_id(archive), tags=[*parsed.settings.tags, _IMPORTED],
        look_after_at=timezone.now() + _WHOLE_BEFORE)
    try:
        for start in range(0, len(archive.trials), CHUNK):
            _store(experiment, archive.trials[start:start + CHUNK], archive.ended)
        _record_results(experiment, archive)
        Experiment.objects.filter(pk=experiment.pk).update(status=_status(archive), **said(""))
        if go_on:
            intents.resume(experiment, owner)
    except BaseException:
        Experiment.objects.filter(pk=experiment.pk).update(deleted_at=timezone.now(), look_after_at=None)
        raise
    Experiment.objects.filter(pk=experiment.pk).update(look_after_at=None)
    experiment.refresh_from_db()
    return experiment


def imported_before(archive: Archive) -> Experiment | None:
    """The experiment of ours that was made of it, where there is one."""
    return Experiment.objects.filter(foreign_id=archive.id, deleted_at=None).first()


def _continued(known: Experiment, archive: Archive, actor: User, max_trial_number: int | None) -> Experiment:
    """The experiment that was imported before, under way again; what people changed of it here stays."""
    if not known.is_finished:
        raise Refused(f"{archive.id} is experiment {known.public_id}, which is {known.status} already.")
    _must_be_as_imported(known, archive)
    _must_have_trials_left(known.next_sequence_id, max_trial_number or known.max_trial_number)
    if not Trial.objects.filter(experiment=known, foreign_id="").exists():  # it was only looked at until now
        changed = {field for change in known.changes.all() for field in change.fields}
        take_config(known, _parsed(archive, go_on=True, max_trial_number=None), known.owner or actor,
                    without={*changed, "tags"})
    known.refresh_from_db()
    resume_with(known, {"max_trial_number": max_trial_number} if max_trial_number else {}, actor)
    known.refresh_from_db()
    return known


def _must_be_as_imported(known: Experiment, archive: Archive) -> None:
    imported = dict(Trial.objects.filter(experiment=known).exclude(foreign_id="").values_list("foreign_id", "status"))
    if imported != {trial.id: trial.status.value for trial in archive.trials}:
        raise Refused(f"NNI has continued {archive.id} since it was imported as experiment {known.public_id}. Delete "
                      "that experiment and import it again.")


def _must_have_trials_left(had: int, most: int | None) -> None:
    if most is not None and had >= most:
        raise Refused(f"The experiment has had {had} of its {most} trials. To continue, give a larger number with "
                      "--max-trial-number.")


def _parsed(archive: Archive, go_on: bool, max_trial_number: int | None) -> ParsedConfig:
    """The config. One that is only looked at may name folders, machines and tuners that are not here any more."""
    config = {**archive.config, **({"maxTrialNumber": max_trial_number} if max_trial_number else {})}
    if go_on and archive.problems:
        raise ConfigInvalid(archive.problems)
    try:
        parsed = parse_experiment_config(config, must_exist=go_on)
    except ConfigInvalid as invalid:
        if go_on:
            raise
        parsed, resumed = _to_look_at(config)
        errors = archive.problems or invalid.errors
    else:
        errors, resumed = archive.problems, "it continues without that"
    if errors:
        reasons = "; ".join(map(str, errors[:3]))
        parsed.notes.append(f"Imported for viewing only. It cannot continue as it was ({reasons}). If it is resumed, "
                            f"{resumed}.")
    return parsed


def _to_look_at(config: dict[str, Any]) -> tuple[ParsedConfig, str]:
    """What of the config its pages can show, and what would become of it if it were resumed."""
    kept = {"trialCommand": "exit 1  # NNI has not kept the command"} | {
        key: value for key, value in config.items() if key in (
            "experimentName", "description", "searchSpace", "trialCommand", "trialConcurrency", "maxTrialNumber",
            "maxExperimentDuration", "multiPhase", "trialGpuNumber", "tuner", "advisor", "assessor")}
    kept["trainingService"] = {"platform": "local"}
    try:
        return parse_experiment_config(kept, must_exist=False), "it continues on this machine"
    except ConfigInvalid:  # of a tuner that is not here, with a space that is perhaps for no other
        tuner = kept.pop("advisor", None) or kept.get("tuner") or {}
        name = "".join(letter for letter in str(tuner.get("name")) if letter.isalnum() and letter.isascii())
        kept["tuner"] = {"className": f"not_here.Tuner{name}", "classArgs": tuner.get("classArgs") or {}}
        kept.pop("assessor", None)
        return parse_experiment_config(kept, must_exist=False), "it fails, because its tuner is not on this server"


def _status(archive: Archive) -> ExperimentStatus:
    most = archive.config.get("maxTrialNumber")
    is_done = most is not None and len(archive.trials) >= most and all(trial.ended for trial in archive.trials)
    return ExperimentStatus.DONE if is_done else ExperimentStatus.STOPPED


def _next_parameter_id(archive: Archive) -> int:
    """New parameter ids go on where NNI's ended."""
    ids = [given for trial in archive.trials for given, _ in trial.parameters if isinstance(given, int)]
    return max(ids, default=-1) + 1


def _store(experiment: Experiment, trials: Sequence[ArchivedTrial], stopped: datetime | None) -> None:
    """``stopped``: when NNI stopped, where it could still write that."""
    output = {trial.id: list(_output(trial)) for trial in trials}
    with transaction.atomic():
        revision = next_revision(experiment.pk)
        rows = Trial.objects.bulk_create(_trial(experiment, trial, stopped, revision) for trial in trials)
        TrialParameters.objects.bulk_create(
            TrialParameters(trial=row, index=index, parameter_id=given, value=value,
                            **(_result_columns(trial, given) if experiment.multi_phase else {}))
            for row, trial in zip(rows, trials, strict=True) for index, (given, value) in enumerate(trial.parameters))
        _keep_other_metrics(experiment, rows, trials)
        attempts = Attempt.objects.bulk_create(_attempt(row, trial) for row, trial in zip(rows, trials, strict=True))
        Metric.objects.bulk_create(
            _metric(attempt, n, metric, revision) for attempt, trial in zip(attempts, trials, strict=True)
            for n, metric in enumerate(trial.metrics, 1))
        TrialOutput.objects.bulk_create(
            TrialOutput(attempt=attempt, stream=stream, offset=offset, skipped=skipped, data=data, revision=revision)
            for attempt, trial in zip(attempts, trials, strict=True)
            for stream, offset, skipped, data in output[trial.id])
        TrialEvent.objects.bulk_create(
            TrialEvent(trial=row, at=timezone.now(), kind="imported",
                       message=f"This was trial {trial.id} in NNI. {trial.about_parameters}".rstrip())
            for row, trial in zip(rows, trials, strict=True))


def _keep_other_metrics(experiment: Experiment, rows: Sequence[Trial], trials: Sequence[ArchivedTrial]) -> None:
    others = OtherMetrics()
    for row, trial in zip(rows, trials, strict=True):
        final = _final(trial)
        latest: dict[str, float] = {}
        for metric in trial.metrics:
            if metric.kind == contract.PERIODICAL:
                latest.update(others.read(metric.value, experiment.pk)[1])
        others.keep(experiment.pk, row.pk, others.read(final.value, experiment.pk)[1] if final else {}, latest)


def _final(trial: ArchivedTrial) -> ArchivedMetric | None:
    """The first final result counts, as in NNI's own view."""
    return next((metric for metric in trial.metrics if metric.kind == contract.FINAL), None)


def _final_of_set(trial: ArchivedTrial, given: Any) -> ArchivedMetric | None:
    """The first final result with this parameter id, which NNI kept as text."""
    return next((metric for metric in trial.metrics if metric.kind == contract.FINAL
                 and str(json.loads(metric.parameter_id)) == str(given)), None)


def _result_columns(trial: ArchivedTrial, given: Any) -> dict[str, Any]:
    final = _final_of_set(trial, given)
    return {"taught": True, "final_value": final.value if final else None,
            "final_number": number_in(final.value) if final else None}


def _best_set(experiment: Experiment, trial: ArchivedTrial) -> tuple[int, ArchivedMetric | None]:
    """Which parameter set of a multi-phase trial gave the best result; the first one where none gave a number."""
    results = [(index, final, number_in(final.value)) for index, (given, _) in enumerate(trial.parameters)
               if (final := _final_of_set(trial, given)) is not None]
    numbers = [(index, final, number) for index, final, number in results if number is not None]
    if not numbers:
        return (results[0][0], results[0][1]) if results else (0, None)
    choose = min if experiment.optimize_mode == Experiment.OptimizeMode.MINIMIZE else max
    index, final, _ = choose(numbers, key=lambda one: one[2])
    return index, final


def _end(trial: ArchivedTrial, stopped: datetime | None) -> datetime:
    """When the trial ended; of one that had not ended when NNI stopped that time, else its last sign of life."""
    signs = [trial.created, trial.started or trial.created, *(metric.at for metric in trial.metrics)]
    return trial.ended or max(stopped or max(signs), trial.started or trial.created)


def _trial(experiment: Experiment, trial: ArchivedTrial, stopped: datetime | None, revision: int) -> Trial:
    index, final = _best_set(experiment, trial) if experiment.multi_phase else (0, _final(trial))
    curve = [metric for metric in trial.metrics if metric.kind == contract.PERIODICAL]
    return Trial(
        public_id=new_public_id(), foreign_id=trial.id, experiment=experiment, sequence_id=trial.sequence_id or 0,
        status=trial.status.value, source=TrialSource.CUSTOMIZED if trial.is_customized else TrialSource.TUNER,
        **(failed_because(trial.message) if trial.status is TrialJobStatus.FAILED
           else {"message": printable(trial.message)}), created_at=trial.created, submitted_at=trial.created,
        started_at=trial.started, ended_at=_end(trial, stopped), taught=True,
        final_value=final.value if final else None, final_number=number_in(final.value) if final else None,
        result_index=index, parameter_set_count=max(1, len(trial.parameters)) if experiment.multi_phase else 1,
        latest_number=number_in(curve[-1].value) if curve else None, intermediate_count=len(curve), revision=revision)


def _attempt(row: Trial, trial: ArchivedTrial) -> Attempt:
    both = trial.started is not None and trial.ended is not None
    return Attempt(
        trial=row, job_name=row.public_id, stage=Attempt.Stage.ENDED, accepted=len(trial.metrics),
        working_directory=str(trial.folder or ""), created_at=trial.created, submitted_at=trial.created,
        started_at=trial.started, ended_at=row.ended_at, end_received_at=row.ended_at, end_reason="imported",
        duration=(trial.ended - trial.started).total_seconds() if both and trial.ended and trial.started else None)


def _metric(attempt: Attempt, n: int, metric: ArchivedMetric, revision: int) -> Metric:
    return Metric(attempt=attempt, n=n, kind=metric.kind, parameter_id=metric.parameter_id, sequence=metric.sequence,
                  value=metric.value, number=number_in(metric.value), recorded_at=metric.at, received_at=metric.at,
                  revision=revision)


def _output(trial: ArchivedTrial) -> Iterator[tuple[str, int, int, bytes]]:
    """Pieces of the trial's logs: stream, offset, bytes left out before, bytes."""
    for stream, names in (("stdout", STDOUT_FILES), ("stderr", STDERR_FILES)):
        files = _files(trial.folder, names) if trial.folder is not None else []
        length = sum(size for _, size in files)
        tail_from = max(KEPT_OUTPUT, length - KEPT_OUTPUT)
        skipped = tail_from - KEPT_OUTPUT
        for first, last in ((0, min(KEPT_OUTPUT, length)), (tail_from, length)):
            for offset in range(first, last, contract.MAX_OUTPUT_PIECE_BYTES):
                end = min(offset + contract.MAX_OUTPUT_PIECE_BYTES, last)
                yield stream, offset, skipped if offset == tail_from else 0, _part(files, offset, end)


def _files(folder: Path, names: Sequence[str]) -> list[tuple[Path, int]]:
    """Those that are logs, with their sizes; not what is none, as a link that leads out of the folder."""
    found = []
    for file in (folder / name for name in names):
        with contextlib.suppress(OSError):
            if file.is_file() and is_inside(file, folder):
                with open(file, "rb") as content:
                    found.append((file, os.fstat(content.fileno()).st_size))
    return found


def _part(files: Sequence[tuple[Path, int]], first: int, last: int) -> bytes:
    """Bytes of all files together, as if they were one: logs may be larger than the memory."""
    found = b""
    for file, size in files:
        if first < size and last > 0:
            with open(file, "rb") as content:
                content.seek(max(0, first))
                found += content.read(min(last, size) - max(0, first))
        first, last = first - size, last - size
    return found


def _record_results(experiment: Experiment, archive: Archive) -> None:
    """The tuner's history: every earlier result, as one that it did not propose itself in this life."""
    now = timezone.now()
    events = [(brought.at, event) for brought in archive.imports for event in as_one_import(
        [_told(parameters, value, TrialJobStatus.SUCCEEDED) for parameters, value in brought.results])]
    of_trials: list[dict[str, Any]] = []
    for trial in archive.trials:
        final = _final(trial)
        counts = trial.status in (TrialJobStatus.SUCCEEDED, TrialJobStatus.EARLY_STOPPED) or trial.ended is None
        for given, parameters in trial.parameters if experiment.multi_phase else trial.parameters[:1]:
            found = _final_of_set(trial, given) if experiment.multi_phase else final
            if isinstance(parameters, dict):
                told = _told(parameters, found.value if found and counts else None, trial.status)
                of_trials.append({**told, FOREIGN_TRIAL: trial.id})
    events += [(now, event) for event in as_one_import(of_trials)]
    with transaction.atomic():
        next_revision(experiment.pk)
        TunerEvent.objects.bulk_create(TunerEvent(experiment=experiment, number=number, data=event, at=at)
                                       for number, (at, event) in enumerate(events))
        Experiment.objects.filter(pk=experiment.pk).update(next_tuner_event=len(events))


def _told(parameters: dict[str, Any], value: str | None, status: TrialJobStatus) -> dict[str, Any]:
    """``value``: the JSON text of a result, None where there is none that counts."""
    plain = json.loads(json.dumps(parameters))
    return {"event": "tell", "number": None, "parameters": plain, "status": status.value,
            "value": None if value is None else number_in(value), **({} if value is None else whole_result(value))}
