"""``python manage.py experiments ...``: look at experiments and steer them, without a browser."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from nniweb.experiments import addresses, intents
from nniweb.experiments.export import write_csv, write_json
from nniweb.experiments.imported_results import import_results
from nniweb.experiments.intents import Refused
from nniweb.experiments.models import Experiment, Trial, User
from nniweb.experiments.progress import progress_of
from nniweb.experiments.worker_presence import HOW_TO_START, worker_is_alive
from nniweb.management.asked_here import AskedHere
from nniweb.management.following import best_trial_lines, progress_line, readable_seconds
from nniweb.management.served_before import require_served_before
from nniweb.own_files import COMMAND, example_config
from trainingservice.trial_job_status import TrialJobStatus

STEERING: dict[str, tuple[Callable[[Experiment, User | None], None], str]] = {
    "pause": (intents.pause, "is to pause; its running trials go on to their end."),
    "resume": (intents.resume, "is to go on."),
    "stop": (intents.stop, "is to stop; its trials end now."),
    "rerun-failed": (intents.rerun_failed, "runs its failed trials again."),
}
#: Trials that ``show`` names of those with something to say.
_SHOWN = 10


class Command(AskedHere):
    help = "List experiments; show, pause, resume or stop one, run its failed trials again, export its trials, " \
           "import results. An id may be cut short."

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(dest="verb", metavar="list|show|pause|resume|stop|rerun-failed|export|import")
        listing = verbs.add_parser("list", help="list experiments, newest first (what happens without a word, too)")
        listing.add_argument("--all", action="store_true", dest="everything", help="archived ones too")
        verbs.add_parser("show", help="show one").add_argument("id")
        for verb in STEERING:
            about = "run the failed trials of one again" if verb == "rerun-failed" else f"{verb} one"
            verbs.add_parser(verb, help=about).add_argument("id")
        export = verbs.add_parser("export", help="write its trials as JSON or CSV")
        export.add_argument("id")
        export.add_argument("--format", choices=["json", "csv"], default="json")
        export.add_argument("--output", type=Path, help="file to write (the terminal, if left out)")
        export.add_argument("--intermediate", action="store_true", help="with intermediate results")

        importing = verbs.add_parser("import", help="tell its tuner of results from elsewhere")
        importing.add_argument("id")
        importing.add_argument("--filename", "-f", type=Path, required=True, help=(
            'JSON as nnictl exports it: [{"parameter": {...}, "value": 0.5}, ...]'))

    def handle(self, *args: Any, **options: Any) -> None:
        require_served_before()
        verb = options["verb"] or "list"
        if verb == "list":
            self._list(options.get("everything", False))
        elif verb == "show":
            self._show(_find(options["id"]))
        elif verb == "export":
            self._export(_find(options["id"]), options)
        elif verb == "import":
            self._import(_find(options["id"]), options["filename"])
        else:
            self._steer(_find(options["id"]), verb)

    def _list(self, everything: bool) -> None:
        experiments = Experiment.objects.filter(deleted_at=None).select_related("owner").defer(
            "config", "config_text", "search_space").order_by("-created_at", "-pk")
        if not everything:
            experiments = experiments.filter(archived=False)
        found = list(experiments)
        if not found:
            self.stdout.write(f"There are no experiments. Launch one: {COMMAND} launch {example_config()}")
            return
        progress = progress_of(found, timezone.now())
        rows = [("ID", "NAME", "STATUS", "TRIALS", "BEST", "OWNER", "CREATED")]
        for experiment in found:
            state = progress[experiment.pk]
            of = f"/{experiment.max_trial_number}" if experiment.max_trial_number else ""
            rows.append((experiment.public_id, experiment.name[:40], experiment.status, f"{state.ended}{of}",
                         "" if state.best_value is None else f"{state.best_value:g}",
                         experiment.owner.username if experiment.owner else "",
                         f"{experiment.created_at:%Y-%m-%d %H:%M}"))
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        for row in rows:
            self.stdout.write("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())

    def _show(self, experiment: Experiment) -> None:
        progress = progress_of([experiment], timezone.now())[experiment.pk]
        say = self.stdout.write
        say(f"{experiment.name} ({experiment.public_id}) on {experiment.cluster.name}")
        say(progress_line(experiment, progress))
        if experiment.message:
            say(f"Why: {experiment.message}")
        if experiment.target != "RUN":
            say(f"Wanted: {experiment.target}")
        say(f"Running for {readable_seconds(progress.elapsed)}, at most {experiment.trial_concurrency} trials at once")
        for line in best_trial_lines(progress):
            say(line)
        self._troubles(experiment)
        if not experiment.is_finished and not worker_is_alive():
            say(f"No worker is alive. {HOW_TO_START}")
        say(addresses.experiment_page(experiment.public_id))

    def _troubles(self, experiment: Experiment) -> None:
        """Failed and waiting trials with their reasons, the latest first."""
        troubled = Trial.objects.filter(experiment=experiment, status__in=[
            TrialJobStatus.FAILED, TrialJobStatus.WAITING, TrialJobStatus.UNKNOWN]).exclude(message="").order_by(
            "-sequence_id")
        for trial in troubled[:_SHOWN]:
            self.stdout.write(f"Trial {trial.sequence_id} ({trial.public_id}) {trial.status}: {trial.message}")

    def _steer(self, experiment: Experiment, verb: str) -> None:
        intent, said = STEERING[verb]
        try:
            intent(experiment, None)
        except Refused as refused:
            raise CommandError(str(refused)) from None
        self.stdout.write(f"{experiment} {said}")
        if not worker_is_alive():
            self.stderr.write(f"No worker is alive, so that waits. {HOW_TO_START}")

    def _import(self, experiment: Experiment, file: Path) -> None:
        try:
            count = import_results(experiment, json.loads(file.read_bytes()))
        except OSError as error:
            raise CommandError(f"{file} cannot be read: {error.strerror}.") from None
        except ValueError as error:
            raise CommandError(f"{file} is no JSON: {error}.") from None
        except Refused as refused:
            raise CommandError("\n".join(f"{field}: {message}" if field else message
                                         for field, message in refused.errors)) from None
        self.stdout.write(f"The tuner of {experiment} is told of {count} results.")

    def _export(self, experiment: Experiment, options: dict[str, Any]) -> None:
        write = write_csv if options["format"] == "csv" else write_json
        path: Path | None = options["output"]
        if path is None:
            self.stdout.ending = ""  # what is exported has its own line ends
            write(experiment, self.stdout, intermediate=options["intermediate"])  # type: ignore[arg-type]  # a text stream
            return
        draft = path.with_name(f".{path.name}.draft")
        try:
            with open(draft, "w", encoding="utf-8", newline="") as out:
                write(experiment, out, intermediate=options["intermediate"])
            draft.replace(path)
        except OSError as error:
            draft.unlink(missing_ok=True)
            raise CommandError(f"{path} cannot be written: {error.strerror}.") from None
        self.stderr.write(f"Written to {path}.")


def _find(start: str) -> Experiment:
    """The experiment whose id begins so. Raises CommandError unless there is exactly one."""
    found = list(Experiment.objects.filter(deleted_at=None, public_id__startswith=start)
                 .select_related("cluster").order_by("public_id")[:6])
    exact = [experiment for experiment in found if experiment.public_id == start]
    if len(found) == 1 or exact:
        return (exact or found)[0]
    if not found:
        raise CommandError(f"There is no experiment whose id begins with {start!r}; "
                           f"`{COMMAND} experiments list --all` lists them.")
    raise CommandError(f"Several ids begin with {start!r}: {', '.join(str(experiment) for experiment in found)}.")
