"""``python manage.py experiments ...``: look at experiments and steer them, without a browser."""

import io
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TextIO

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone
from rest_framework.exceptions import ValidationError

from nniweb.api.experiments.experiment_changes import ExperimentChangeSerializer, changes_of
from nniweb.client.arguments import EXPERIMENTS_HELP, NEW_LIMITS, add_experiments_arguments
from nniweb.client.cluster_edits import EDITS, CannotEdit, edited_clusters
from nniweb.client.records import metric_records, value_of
from nniweb.client.words import (
    best_trial_lines,
    change_lines,
    clusters_table,
    experiment_lines,
    experiments_table,
    front_lines,
    frozen_line,
    imported_line,
    metrics_table,
    printable,
    printable_lines,
    rerun_line,
    thawed_line,
    trials_table,
)
from nniweb.client.written_file import drafted
from nniweb.documents.experiment_clusters import clusters_document
from nniweb.documents.experiments import NOT_IN_LISTS, NewLimitsSerializer, document, summaries
from nniweb.documents.trial_query import filtered
from nniweb.documents.trials import TrialSerializer, with_details
from nniweb.experiments.actions import change_and_undo, freezing, intents
from nniweb.experiments.actions.imported_results import import_results
from nniweb.experiments.clusters import addresses
from nniweb.experiments.clusters.worker_presence import HOW_TO_START, worker_is_alive
from nniweb.experiments.downloads.export import write_csv, write_json
from nniweb.experiments.errors import Refused
from nniweb.experiments.launch.listed_clusters import clusters_now
from nniweb.experiments.models import Experiment, Trial, User
from nniweb.management.asked_here import AskedHere
from nniweb.management.following import follow, front_documents, trial_document
from nniweb.management.found_experiment import found_experiment
from nniweb.management.served_before import require_own_database, require_served_before
from nniweb.storage.own_files import COMMAND, example_config
from trainingservice.limited_json import json_fault
from trainingservice.trial_job_status import TrialJobStatus

STEERING: dict[str, tuple[Callable[[Experiment, User | None], None], str]] = {
    "pause": (intents.pause, "is being paused. Its running trials continue to their end."),
    "resume": (intents.resume, "is being resumed."),
    "stop": (intents.stop, "is being stopped. Its trials are ended now."),
    "rerun-failed": (intents.rerun_failed, "runs its failed trials again."),
}
#: Trials that ``show`` names of those with something to say.
_SHOWN = 10


class Command(AskedHere):
    help = EXPERIMENTS_HELP

    def add_arguments(self, parser: CommandParser) -> None:
        add_experiments_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        require_own_database(options)
        require_served_before()
        verb = options["verb"] or "list"
        if verb == "list":
            self._list(options.get("everything", False), options.get("as_json", False))
            return
        experiment = found_experiment(options["id"])
        if verb in STEERING:
            self._steer(experiment, verb, {name: options[name] for name in NEW_LIMITS
                                           if options.get(name) is not None})
        elif verb == "import":
            self._import(experiment, options["filename"])
        else:
            getattr(self, f"_{verb}")(experiment, options)

    def _list(self, everything: bool, as_json: bool) -> None:
        experiments = Experiment.objects.filter(deleted_at=None).select_related("owner", "group", "cluster").defer(
            *NOT_IN_LISTS).order_by("-created_at", "-pk")
        if not everything:
            experiments = experiments.filter(archived=False)
        found = summaries(experiments)
        if as_json:
            self._json(found)
        elif not found:
            self._say(f"There are no experiments. Launch one: {COMMAND} launch {example_config()}")
        else:
            self._lines(experiments_table(found))

    def _show(self, experiment: Experiment, options: dict[str, Any]) -> None:
        found = document(experiment)
        if options["as_json"]:
            self._json(found)
            return
        self._lines(experiment_lines(found))
        if found["progress"]["front"] is None:
            self._lines(best_trial_lines(trial_document(found["progress"]["best_trial_id"])))
        else:
            self._lines(front_lines(found, front_documents(experiment)))
        self._troubles(experiment)
        self._say(addresses.experiment_page(experiment.public_id))

    def _follow(self, experiment: Experiment, options: dict[str, Any]) -> None:
        follow(experiment, self.stdout)

    def _changes(self, experiment: Experiment, options: dict[str, Any]) -> None:
        found = json.loads(json.dumps(ExperimentChangeSerializer(changes_of(experiment), many=True).data))
        self._json(found) if options["as_json"] else self._lines(change_lines(found))

    def _clusters(self, experiment: Experiment, options: dict[str, Any]) -> None:
        edits = {name: options[name] for name in EDITS if options.get(name)}
        try:
            if edits:
                change_and_undo.change(experiment, {"clusters": edited_clusters(
                    clusters_now(experiment), experiment.cluster.name, edits)})
                experiment = Experiment.objects.select_related("cluster").get(pk=experiment.pk)
        except CannotEdit as cannot:
            raise CommandError(str(cannot)) from None
        except Refused as refused:
            raise CommandError("\n".join(f"{field}: {message}" if field else message
                                         for field, message in refused.errors)) from None
        found = clusters_document(experiment, timezone.now())
        if options["as_json"]:
            self._json(found)
        else:
            self._lines(clusters_table(found) if found else [f"{experiment} runs on {experiment.cluster.name} alone."])

    def _undo(self, experiment: Experiment, options: dict[str, Any]) -> None:
        try:
            change_and_undo.undo_change(experiment, options["number"])
        except Refused as refused:
            raise CommandError(str(refused)) from None
        self._say(f"Change {options['number']} of {experiment} was undone.")

    def _rerun(self, experiment: Experiment, options: dict[str, Any]) -> None:
        trial = Trial.objects.filter(experiment=experiment, sequence_id=options["number"]).first()
        if trial is None:
            raise CommandError(f"{printable(str(experiment))} has no trial {options['number']}.")
        changed = dict(options["changed"] or ())
        old = trial.parameter_sets.filter(index=trial.result_index).first()
        try:
            again = intents.rerun_trial(trial, None, {**((old.value if old else None) or {}), **changed}
                                        if changed else None)
        except Refused as refused:
            raise CommandError(str(refused)) from None
        self._say(rerun_line(trial.sequence_id, {"sequence_id": again.sequence_id, "id": again.public_id}))
        if not worker_is_alive():
            self.stderr.write(f"No worker is alive, so the command waits. {HOW_TO_START}")

    def _trials(self, experiment: Experiment, options: dict[str, Any]) -> None:
        wanted = {"filter": options["filter"]} if options["filter"] else {}
        try:
            trials = filtered(experiment, wanted)
        except ValidationError as error:
            raise CommandError(f"--filter: {error.detail['filter']}") from None  # type: ignore[call-overload]
        rows = TrialSerializer(with_details(trials.order_by("sequence_id")), many=True,
                               context={"now": timezone.now()}).data
        found = [{**row, "final_value": value_of(row["final_value"])} for row in rows]
        self._json(found) if options["as_json"] else self._lines(trials_table(found))

    def _metrics(self, experiment: Experiment, options: dict[str, Any]) -> None:
        text = io.StringIO()
        write_json(experiment, text, intermediate=True)
        found = metric_records(json.loads(text.getvalue()))
        self._json(found) if options["as_json"] else self._lines(metrics_table(found))

    def _delete(self, experiment: Experiment, options: dict[str, Any]) -> None:
        if not options["yes"]:
            if not sys.stdin.isatty():
                raise CommandError("Deleting cannot be undone. Use --yes to confirm where no terminal is available.")
            question = f"Delete {experiment}, its trials and their data? [y/N] "
            if input(question).strip().lower() not in ("y", "yes"):
                raise CommandError("Nothing was removed.")
        try:
            intents.delete(experiment, None)
        except Refused as refused:
            raise CommandError(str(refused)) from None
        self._say(f"{experiment} was deleted.")

    def _troubles(self, experiment: Experiment) -> None:
        """Failed and waiting trials with their reasons, the latest first."""
        troubled = Trial.objects.filter(experiment=experiment, status__in=[
            TrialJobStatus.FAILED, TrialJobStatus.WAITING, TrialJobStatus.UNKNOWN]).exclude(message="").order_by(
            "-sequence_id")
        for trial in troubled[:_SHOWN]:
            self._say(f"Trial {trial.sequence_id} ({trial.public_id}) {trial.status}: {trial.message}")

    def _steer(self, experiment: Experiment, verb: str, limits: dict[str, Any]) -> None:
        intent, said = STEERING[verb]
        try:
            if limits:
                change_and_undo.resume_with(experiment, _checked(limits))
            else:
                intent(experiment, None)
        except Refused as refused:
            raise CommandError(str(refused)) from None
        if verb == "stop" and Experiment.objects.get(pk=experiment.pk).is_finished:
            self._say(f"{experiment} is {experiment.status} already. There was nothing to stop.")
            return
        self._say(f"{experiment} {said}")
        if not worker_is_alive():
            self.stderr.write(f"No worker is alive, so the command waits. {HOW_TO_START}")

    def _freeze(self, experiment: Experiment, options: dict[str, Any]) -> None:
        numbers: list[int] = options["numbers"]
        try:
            if numbers:
                freezing.freeze_trials(experiment, _keys_of(experiment, numbers))
            else:
                intents.pause(experiment, freeze=True)
        except Refused as refused:
            raise CommandError(str(refused)) from None
        self._say(frozen_line(str(experiment), numbers))

    def _thaw(self, experiment: Experiment, options: dict[str, Any]) -> None:
        numbers: list[int] = options["numbers"]
        keys = _keys_of(experiment, numbers) if numbers else list(
            Trial.objects.unfinished().filter(experiment=experiment).values_list("pk", flat=True))
        freezing.thaw_trials(experiment, keys)
        self._say(thawed_line(str(experiment), numbers))

    def _import(self, experiment: Experiment, file: Path) -> None:
        try:
            count = import_results(experiment, json.loads(file.read_bytes()))
        except OSError as error:
            raise CommandError(f"{file} cannot be read: {error.strerror}.") from None
        except ValueError as error:
            raise CommandError(f"{file} is not JSON: {json_fault(error)}.") from None
        except RecursionError:
            raise CommandError(f"{file} is nested too deeply to be read.") from None
        except Refused as refused:
            raise CommandError("\n".join(f"{field}: {message}" if field else message
                                         for field, message in refused.errors)) from None
        self._say(imported_line(count, str(experiment), has_ended=experiment.is_finished))

    def _export(self, experiment: Experiment, options: dict[str, Any]) -> None:
        def write(out: TextIO) -> None:
            if options["format"] == "csv":
                write_csv(experiment, out, intermediate=options["intermediate"], raw=options["raw"])
            else:
                write_json(experiment, out, intermediate=options["intermediate"])

        path: Path | None = options["output"]
        if path is None:
            self.stdout.ending = ""  # what is exported has its own line ends
            write(self.stdout)  # type: ignore[arg-type]  # a text stream
            return
        try:
            with drafted(path) as draft, open(draft, "x", encoding="utf-8", newline="") as out:
                write(out)
        except OSError as error:
            raise CommandError(f"{path} cannot be written: {error.strerror}.") from None
        self.stderr.write(f"Written to {path}.")


    def _say(self, text: str) -> None:
        self.stdout.write(printable_lines(text))

    def _lines(self, lines: list[str]) -> None:
        for line in lines:
            self._say(line)

    def _json(self, found: Any) -> None:
        self._say(json.dumps(found, indent=1, default=str))


def _checked(limits: dict[str, Any]) -> dict[str, Any]:
    """The limits as fields of an experiment. Raises CommandError."""
    form = NewLimitsSerializer(data=limits)
    if form.is_valid():
        return dict(form.validated_data)
    raise CommandError("\n".join(f"--{name.replace('_', '-')}: {' '.join(map(str, errors))}"
                                 for name, errors in form.errors.items()))


def _keys_of(experiment: Experiment, numbers: Sequence[int]) -> list[int]:
    """Primary keys of its trials with these numbers. Raises CommandError."""
    keys = dict(Trial.objects.filter(experiment=experiment, sequence_id__in=numbers).values_list("sequence_id", "pk"))
    for number in numbers:
        if number not in keys:
            raise CommandError(f"{printable(str(experiment))} has no trial {number}.")
    return list(keys.values())
